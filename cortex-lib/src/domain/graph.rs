//! Dependencies between the tasks of an objective.

use std::collections::{BTreeMap, BTreeSet};

/// Finds a cycle and names it in order, the first key again at the end: `a → b → a`.
///
/// `edges` gives for each key the keys it depends on. Unknown keys are ignored.
pub fn cycle<'a>(edges: &BTreeMap<&'a str, Vec<&'a str>>) -> Option<Vec<&'a str>> {
    fn visit<'a>(
        key: &'a str,
        edges: &BTreeMap<&'a str, Vec<&'a str>>,
        path: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Option<Vec<&'a str>> {
        if let Some(at) = path.iter().position(|seen| *seen == key) {
            return Some(path.iter().skip(at).copied().chain([key]).collect());
        }
        if !done.contains(key) {
            path.push(key);
            for next in edges.get(key).into_iter().flatten() {
                if let Some(found) = visit(next, edges, path, done) {
                    return Some(found);
                }
            }
            path.pop();
            done.insert(key);
        }
        None
    }

    let mut done = BTreeSet::new();
    edges.keys().find_map(|key| visit(key, edges, &mut Vec::new(), &mut done))
}

/// Everything that depends on `of`, directly or through others, in the order of `edges`.
pub fn dependents<K: Ord + Clone>(of: &K, edges: &[(K, Vec<K>)]) -> Vec<K> {
    let mut found = BTreeSet::from([of.clone()]);
    loop {
        let before = found.len();
        for (key, depends_on) in edges {
            if depends_on.iter().any(|dependency| found.contains(dependency)) {
                found.insert(key.clone());
            }
        }
        if found.len() == before {
            return edges
                .iter()
                .map(|(key, _)| key)
                .filter(|key| *key != of && found.contains(key))
                .cloned()
                .collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges<'a>(list: &[(&'a str, &[&'a str])]) -> BTreeMap<&'a str, Vec<&'a str>> {
        list.iter().map(|(key, on)| (*key, on.to_vec())).collect()
    }

    #[test]
    fn a_cycle_is_named_in_order() {
        assert_eq!(
            cycle(&edges(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])])),
            Some(vec!["b", "c", "b"])
        );
        assert_eq!(cycle(&edges(&[("a", &["a"])])), Some(vec!["a", "a"]));
    }

    #[test]
    fn a_diamond_is_no_cycle() {
        assert_eq!(
            cycle(&edges(&[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])])),
            None
        );
    }

    #[test]
    fn dependents_are_found_through_others() {
        let edges = [("a", vec![]), ("b", vec!["a"]), ("c", vec!["b"]), ("d", vec![])];
        assert_eq!(dependents(&"a", &edges), ["b", "c"]);
        assert_eq!(dependents(&"d", &edges), Vec::<&str>::new());
    }
}
