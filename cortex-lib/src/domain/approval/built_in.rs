//! The rule that is always the first: nothing that names the data directory may run (H-09).
//!
//! It keeps an agent that looks around from stumbling over the user's token and the store. It is no wall: a shell
//! has many ways to write a path.

use serde_json::Value;

use super::input::{any_text, leads_up};

/// The id of the rule in explanations.
pub(super) const DATA_DIRECTORY: &str = "data-directory";

/// Whether a text of `input` names the data directory. The worktree of an isolated attempt lies in it: what names only
/// its `own` place is fine.
pub(super) fn names_data_dir(input: &Value, data_dir: &str, own: &str) -> bool {
    let own = own.trim_end_matches(['/', '\\']);
    !data_dir.is_empty() && any_text(input, &mut |text| names(text, data_dir, own))
}

fn names(text: &str, data_dir: &str, own: &str) -> bool {
    // A way up leads out of the own place again.
    let may_name_own = own.starts_with(data_dir) && !leads_up(text);
    text.match_indices(data_dir).any(|(at, _)| {
        let (_, found) = text.split_at(at);
        let is_own = may_name_own && is_below(found, own);
        is_below(found, data_dir) && !is_own
    })
}

/// Whether `text` begins with `folder`. A longer name is that of a neighbour.
fn is_below(text: &str, folder: &str) -> bool {
    text.strip_prefix(folder).is_some_and(|rest| !goes_on_a_name(rest))
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
            (json!({ "command": "cd /home/me/.cortex/worktrees/1 && cat ../2/a" }), true),
            (json!({ "command": "cd /home/me/.cortex/worktrees/1 && git diff a~1..b" }), false),
            (json!({ "command": "git -C /home/me/.cortex/worktrees/1 log main..." }), false),
            (json!({ "path": "/home/me/.cortex-notes/a" }), false),
            (json!({ "command": "cat /home/me/.cortex-notes/a /home/me/.cortex/a" }), true),
        ];
        for (input, named) in table {
            assert_eq!(names_data_dir(&input, data, own), named, "{input}");
            let with_slash = format!("{own}/");
            assert_eq!(names_data_dir(&input, data, &with_slash), named, "{input}");
        }
        assert!(names_data_dir(&json!({ "path": own }), data, "/home/me/project"), "not its own");
    }
}
