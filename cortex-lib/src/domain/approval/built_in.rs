//! The rule that is always the first: nothing that names the data directory may run (H-09).
//!
//! It keeps an agent that looks around from stumbling over the user's token and the store. It is no wall: a shell
//! has many ways to write a path.

use serde_json::Value;

use super::input::any_text;

/// The id of the rule in explanations.
pub(super) const DATA_DIRECTORY: &str = "data-directory";

/// Whether a text of `input` names the data directory. The worktree of an isolated attempt lies in it: what names only
/// its `own` place is fine.
pub(super) fn names_data_dir(input: &Value, data_dir: &str, own: &str) -> bool {
    !data_dir.is_empty()
        && any_text(input, &mut |text| {
            if !text.contains(data_dir) {
                return false;
            }
            // A way up leads out of the own place again.
            let own = own.trim_end_matches(['/', '\\']);
            if own.is_empty() || !own.starts_with(data_dir) || text.contains("..") {
                return true;
            }
            let mut parts = text.split(own);
            let before = parts.next().is_some_and(|part| part.contains(data_dir));
            // A longer name is that of a neighbour.
            before || parts.any(|part| goes_on_a_name(part) || part.contains(data_dir))
        })
}

fn goes_on_a_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || "._-".contains(c))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_data_directory_is_found_wherever_it_is_named() {
        let (data, own) = ("/home/me/.cortex", "/home/me/.cortex/worktrees/1");
        let table = [
            (json!({ "command": "cat /home/me/.cortex/user-token" }), true),
            (json!({ "path": "/home/me/.cortex" }), true),
            (json!({ "changes": { "/home/me/.cortex/cortex.db": { "kind": "delete" } } }), true),
            (json!({ "argv": ["ls", "/home/me/.cortex/"] }), true),
            (json!({ "path": "/home/me/project/a" }), false),
            (json!({ "path": "/home/me/.cortex/worktrees/1/src/a.rs" }), false),
            (json!({ "path": "/home/me/.cortex/worktrees/2/src/a.rs" }), true),
            (json!({ "path": "/home/me/.cortex/worktrees/12/src/a.rs" }), true),
            (json!({ "cwd": "/home/me/.cortex/worktrees/1" }), false),
            (json!({ "path": "/home/me/.cortex/worktrees/1/../../cortex.db" }), true),
            (json!({ "command": "cp /home/me/.cortex/worktrees/1/a /home/me/.cortex/b" }), true),
        ];
        for (input, named) in table {
            assert_eq!(names_data_dir(&input, data, own), named, "{input}");
            let with_slash = format!("{own}/");
            assert_eq!(names_data_dir(&input, data, &with_slash), named, "{input}");
        }
        assert!(names_data_dir(&json!({ "path": own }), data, "/home/me/project"), "not its own");
    }
}
