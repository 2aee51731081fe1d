//! Which tests name which demands, read from their sources.

use std::path::{Path, PathBuf};

/// A test that shows a demand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shown {
    /// Its file, from the root of the project.
    file: String,
    /// Its name.
    test: String,
    pub(super) id: u16,
}

impl Shown {
    pub(super) fn link(&self) -> String {
        format!("[{}](../{})", self.test.replace('_', " "), self.file)
    }
}

/// Every mention in the tests of a package: the integration tests, and the `tests` modules of its sources.
pub(super) fn shown_in(root: &Path, package: &str) -> Vec<Shown> {
    let mut all = Vec::new();
    for folder in ["src", "tests"] {
        for file in sources(&root.join(package).join(folder)) {
            let name = file.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            // The list of the demands shows none of them.
            if !name.contains("tests/demands/") {
                all.extend(mentions(&name, &fs_err::read_to_string(&file).unwrap()));
            }
        }
    }
    all
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs_err::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            all.push(path);
        }
    }
    all
}

/// A number in a comment before a function belongs to it; one in its body too. In a source file only what follows
/// `#[cfg(test)]` counts.
fn mentions(file: &str, text: &str) -> Vec<Shown> {
    let is_test_file = file.contains("/tests/") || file.ends_with("tests.rs");
    let (mut all, mut waiting) = (Vec::new(), Vec::new());
    let (mut counts, mut current) = (is_test_file, None::<String>);
    for line in text.lines() {
        let line = line.trim_start();
        counts |= line.starts_with("#[cfg(test)]");
        if line.starts_with("///") {
            waiting.extend(numbers(line));
        } else if let Some(name) = function(line) {
            let shown = waiting.drain(..).map(|id| (id, name.clone()));
            all.extend(shown.filter(|_| counts));
            current = Some(name);
        } else if line.contains("S-") {
            let test = current.clone().filter(|_| counts);
            all.extend(test.iter().flat_map(|test| numbers(line).map(|id| (id, test.clone()))));
        } else if !line.starts_with("#[") {
            waiting.clear();
        }
    }
    let shown = |(id, test)| Shown { file: file.to_owned(), test, id };
    all.into_iter().map(shown).collect()
}

/// The name of the function that begins on this line.
fn function(line: &str) -> Option<String> {
    let line = line.trim_start_matches("pub ").trim_start_matches("async ");
    let rest = line.strip_prefix("fn ")?;
    Some(rest.split(['(', '<']).next()?.to_owned())
}

/// `S-` with three digits.
fn numbers(text: &str) -> impl Iterator<Item = u16> {
    text.split("S-").skip(1).filter_map(|rest| rest.get(..3)?.parse().ok())
}
