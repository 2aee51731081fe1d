//! One rule about tool requests, and what it matches.

use globset::{Glob, GlobMatcher};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::built_in::DATA_DIRECTORY;
use super::input::{Subject, any_text, leads_up, subject};
use super::rights::{asks_for_rights, is_right};
use crate::limits::{RULE_INPUT_CHARS_MAX, RULE_TOOL_CHARS_MAX};

/// What a rule decides.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Decide {
    /// The tool may run.
    Allow,
    /// It may not.
    Deny,
    /// A person decides.
    Ask,
}

/// One rule. What it leaves out matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Rule {
    /// Its name, for explanations.
    #[schemars(length(min = 1, max = 64))]
    pub id: String,
    /// The tool by the runtime's name, as a pattern: `Bash`, `mcp__cortex__*`.
    #[schemars(length(min = 1, max = RULE_TOOL_CHARS_MAX))]
    pub tool: String,
    /// A pattern for the arguments: `cargo test*`. One that allows must match what the tool would do: the command, path or address of a tool of the CLI itself, every text of any other, and nothing with `..` in a path. One that denies or asks matches any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = RULE_INPUT_CHARS_MAX))]
    pub input: Option<String>,
    /// The agent's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub agent: Option<String>,
    /// What it decides.
    pub decide: Decide,
}

impl Rule {
    pub(super) fn matches(&self, agent: &str, tool: &str, input: &Value) -> bool {
        self.agent.as_deref().is_none_or(|name| name == agent)
            && Pattern::new(&self.tool).is_some_and(|pattern| pattern.is_match(tool))
            && self.input.as_deref().is_none_or(|text| {
                Pattern::new(text).is_some_and(|pattern| self.matches_input(tool, input, &pattern))
            })
    }

    /// Whether it is a rule that allows this, whoever asks.
    pub fn allows(&self, tool: &str, input: &Value) -> bool {
        let agent = self.agent.as_deref().unwrap_or_default();
        self.decide == Decide::Allow
            && self.may_grant(tool, input)
            && self.matches(agent, tool, input)
    }

    /// Whether it may allow this. A rule for a use grants no rights beside it, and one for many tools was not written
    /// for those that ask for rights.
    pub fn may_grant(&self, tool: &str, input: &Value) -> bool {
        !asks_for_rights(tool, input) || is_right(tool) && self.tool == tool
    }

    /// An agent writes the arguments, also those that only describe. So they may make a request forbidden, but what
    /// makes it allowed is what the tool really does with them.
    fn matches_input(&self, tool: &str, input: &Value, pattern: &Pattern<'_>) -> bool {
        match self.decide {
            Decide::Allow => {
                let subject = subject(tool, input);
                let is_met = |subject: &Subject| match subject {
                    Subject::Command(text) => pattern.is_match(text),
                    // The path that a pattern begins with is not where such a one ends.
                    Subject::Other(text) => pattern.is_match(text) && !leads_up(text),
                };
                !subject.is_empty() && subject.iter().all(is_met)
            }
            Decide::Deny | Decide::Ask => any_text(input, &mut |text| pattern.is_match(text)),
        }
    }

    /// What is wrong with it, if anything: a pattern that is none never matches, which would hide a deny.
    pub fn problem(&self) -> Option<String> {
        if self.id == DATA_DIRECTORY {
            return Some(format!("{DATA_DIRECTORY} is the id of the built-in rule"));
        }
        [Some(&self.tool), self.input.as_ref()]
            .into_iter()
            .flatten()
            .find(|text| Pattern::new(text).is_none())
            .map(|text| format!("{text:?} is not a pattern"))
    }
}

/// What a rule says about a text.
enum Pattern<'t> {
    /// It has no sign of a pattern: most names of tools.
    Exactly(&'t str),
    /// Without a separator that `*` stops at: a command is no path, and a rule for `rm *` means every file.
    Glob(GlobMatcher),
}

impl<'t> Pattern<'t> {
    /// None: it is none.
    fn new(text: &'t str) -> Option<Self> {
        if !text.contains(['*', '?', '[', ']', '{', '}', '\\']) {
            return Some(Self::Exactly(text));
        }
        Glob::new(text).ok().map(|glob| Self::Glob(glob.compile_matcher()))
    }

    fn is_match(&self, text: &str) -> bool {
        match self {
            Self::Exactly(wanted) => text == *wanted,
            Self::Glob(glob) => glob.is_match(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(tool: &str, input: Option<&str>, decide: Decide) -> Rule {
        Rule {
            id: "r".into(),
            tool: tool.into(),
            input: input.map(Into::into),
            agent: None,
            decide,
        }
    }

    #[test]
    fn rules_match_tools_and_inputs() {
        use Decide::{Allow, Ask, Deny};
        let table = [
            ("Bash", None, Allow, "Bash", json!({}), true),
            ("Bash", None, Allow, "BashOutput", json!({}), false),
            ("*", None, Deny, "anything", json!(null), true),
            ("mcp__cortex__*", None, Allow, "mcp__cortex__list_tasks", json!({}), true),
            ("{Read,Glob}", None, Allow, "Glob", json!({}), true),
            ("Bash", Some("cargo *"), Allow, "Bash", json!({ "command": "cargo test" }), true),
            ("Bash", Some("cargo *"), Allow, "Bash", json!({ "command": "rm -r ." }), false),
            ("*", Some("rm *"), Deny, "Bash", json!({ "command": "rm -r /a/b" }), true),
            ("*", Some("cargo *"), Allow, "shell", json!({ "command": ["cargo", "test"] }), true),
            // What only describes does not allow.
            (
                "Bash",
                Some("cargo *"),
                Allow,
                "Bash",
                json!({ "command": "rm -r .", "description": "cargo test" }),
                false,
            ),
            ("Bash", Some("cargo *"), Allow, "Bash", json!({}), false),
            // But it forbids, wherever it stands.
            ("*", Some("*secret*"), Deny, "Tool", json!({ "a": [{ "b": "a secret" }] }), true),
            ("*", Some("*push*"), Ask, "Bash", json!({ "command": "x", "note": "push" }), true),
            // Of a tool that is not known every text has to match.
            ("T", Some("a*"), Allow, "T", json!({ "x": "ab", "y": ["ac"] }), true),
            ("T", Some("a*"), Allow, "T", json!({ "x": "ab", "y": ["b"] }), false),
            // A field of a tool that is not known hides no other.
            (
                "mcp__db__query",
                Some("SELECT *"),
                Allow,
                "mcp__db__query",
                json!({ "query": "DROP TABLE x", "command": "SELECT 1" }),
                false,
            ),
            ("T", Some("src/*"), Allow, "T", json!({ "path": "src/a", "to": "/etc/x" }), false),
            ("T", Some("*etc*"), Deny, "T", json!({ "path": "src/a", "to": "/etc/x" }), true),
            // A path that leads up again is somewhere else.
            ("Write", Some("/p/src/*"), Allow, "Write", json!({ "file_path": "/p/src/a" }), true),
            (
                "Write",
                Some("/p/src/*"),
                Allow,
                "Write",
                json!({ "file_path": "/p/src/../../home/me/.ssh/authorized_keys" }),
                false,
            ),
            ("T", Some("/p/*"), Allow, "T", json!({ "paths": ["/p/a", "/p/../b"] }), false),
            ("Write", Some("/p/*"), Deny, "Write", json!({ "file_path": "/p/../b" }), true),
            ("Bash", Some("ls ../*"), Allow, "Bash", json!({ "command": "ls ../a" }), true),
        ];
        for (tool, input, decide, asked, arguments, matches) in table {
            let found = rule(tool, input, decide).matches("a", asked, &arguments);
            assert_eq!(found, matches, "{decide:?} {tool} {input:?}: {asked} {arguments}");
        }
    }

    #[test]
    fn a_pattern_that_is_none_is_a_problem() {
        assert_eq!(rule("Bash", Some("cargo *"), Decide::Deny).problem(), None);
        let problem = rule("[", None, Decide::Deny).problem().unwrap_or_default();
        assert!(problem.contains("\"[\" is not a pattern"), "{problem}");
    }

    #[test]
    fn the_id_of_the_built_in_rule_is_taken() {
        let taken = Rule { id: DATA_DIRECTORY.to_owned(), ..rule("Bash", None, Decide::Deny) };
        let problem = taken.problem().unwrap_or_default();
        assert!(problem.contains("the built-in rule"), "{problem}");
    }
}
