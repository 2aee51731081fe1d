//! The rule that a person makes by allowing a request for good.

use serde_json::Value;

use super::rule::{Decide, Rule};
use crate::secret::REDACTED;

/// Why no rule can be made from a request by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRule {
    /// Its command, path or address is not kept as it came: it has a secret in it, or is very long.
    NotKept,
    /// It asks for rights beyond one use. A rule for the tool as such would grant whatever is asked for next.
    Rights,
}

/// What the CLIs call a request for rights: to leave the folder or the sandbox, to be granted more, an MCP server that
/// wants something.
const RIGHTS: &[&str] = &["request_permissions", "external_directory", "elicitation"];
/// Fields that ask for rights beside the use.
const MORE_RIGHTS: &[&str] = &["grantRoot", "permissions", "additionalPermissions"];

/// The rule that allows what a request of `tool` with the kept `input` is for, and as little more as makes sense: a
/// command exactly as it is, because what follows its beginning may be another command; an address with all of its
/// host; a tool without either as such.
///
/// # Errors
///
/// [`NoRule`] when the pattern would not match the request again, or it asks for rights. The rule for the whole tool
/// instead would allow far more than the person saw.
pub fn always_rule(tool: &str, input: &Value, truncated: bool) -> Result<Rule, NoRule> {
    let asks_more = MORE_RIGHTS.iter().any(|name| input.get(*name).is_some());
    if RIGHTS.contains(&tool) || asks_more {
        return Err(NoRule::Rights);
    }
    let command = ["command", "cmd"].iter().find_map(|name| input.get(*name)).and_then(as_command);
    let address = ["url", "uri"].iter().find_map(|name| input.get(*name)?.as_str());
    let pattern = match (command, address) {
        (Some(command), _) => Some(exactly(&command)),
        (None, Some(address)) => host_of(address).map(|host| format!("{}/*", exactly(host))),
        (None, None) => None,
    };
    let is_kept = |pattern: &String| {
        !(pattern.contains(&exactly(REDACTED)) || truncated && pattern.contains("left out"))
    };
    // What was cut as a whole is no object any more: what it did is not known.
    if pattern.as_ref().is_some_and(|pattern| !is_kept(pattern)) || truncated && !input.is_object()
    {
        return Err(NoRule::NotKept);
    }
    Ok(Rule { input: pattern, ..rule_for_tool(tool) })
}

/// The rule that allows a tool as such. Its id is readable and not yet unique in its project.
pub fn rule_for_tool(tool: &str) -> Rule {
    let word =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '-' };
    Rule {
        id: format!("always-{}", tool.chars().map(word).take(40).collect::<String>()),
        tool: exactly(tool),
        input: None,
        agent: None,
        decide: Decide::Allow,
    }
}

/// The pattern that matches this text alone.
fn exactly(text: &str) -> String {
    // A backslash would take the meaning of what follows it; `escape` leaves it.
    globset::escape(text).replace('\\', "[\\]")
}

fn as_command(field: &Value) -> Option<String> {
    match field {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => {
            let words = words.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
            Some(words.join(" "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// `https://host:port` of an address.
fn host_of(address: &str) -> Option<&str> {
    let (scheme, rest) = address.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next().filter(|host| !host.is_empty())?;
    address.get(..scheme.len().saturating_add(3).saturating_add(host.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::agent::Role;
    use crate::domain::approval::{Asked, RuleList, Unmatched};

    fn decides(rule: &Rule, tool: &str, input: &Value) -> Decide {
        let list = RuleList::new("/data", vec![rule.clone()], &[], Unmatched::Ask);
        let asked = Asked {
            agent: "a",
            role: Role::Worker,
            cwd: "/p",
            tool,
            input,
            of_cortex: false,
            has_questions: false,
        };
        list.decide(&asked).decide
    }

    #[test]
    fn the_rule_allows_what_was_asked_and_little_more() {
        let table = [
            (
                "Bash",
                json!({ "command": "cargo test [a] {b} *" }),
                json!({ "command": "cargo test [a] {b} *; rm x" }),
            ),
            (
                "Bash",
                json!({ "command": "printf 'a\\n' > b\nls" }),
                json!({ "command": "printf 'an' > b\nls" }),
            ),
            ("exec", json!({ "command": ["ls", "-l"] }), json!({ "command": ["ls", "-l", "/"] })),
            (
                "WebFetch",
                json!({ "url": "https://docs.rs/a?b" }),
                json!({ "url": "https://docs.rs.evil.example/a" }),
            ),
        ];
        for (tool, input, other) in table {
            let rule = always_rule(tool, &input, false).unwrap();
            assert_eq!(rule.problem(), None, "{rule:?}");
            assert_eq!(decides(&rule, tool, &input), Decide::Allow, "{rule:?}");
            assert_eq!(decides(&rule, tool, &other), Decide::Ask, "{rule:?}: {other}");
            assert_eq!(decides(&rule, "Other", &input), Decide::Ask, "{rule:?}");
        }
        let write = always_rule("Write", &json!({ "file_path": "/p/a" }), false).unwrap();
        assert_eq!((write.id.as_str(), &write.input), ("always-Write", &None), "every file");
    }

    #[test]
    fn what_is_not_kept_makes_no_rule() {
        let secret = json!({ "command": format!("curl -H {REDACTED}") });
        assert_eq!(always_rule("Bash", &secret, false), Err(NoRule::NotKept));
        let cut = json!({ "command": "a\n[… 9 bytes left out …]\nb" });
        assert_eq!(always_rule("Bash", &cut, true), Err(NoRule::NotKept));
        assert_eq!(always_rule("Bash", &json!("{\"command\"…"), true), Err(NoRule::NotKept));
        let rights = json!({ "permissions": { "network": true } });
        assert_eq!(always_rule("request_permissions", &rights, false), Err(NoRule::Rights));
        let root = json!({ "changes": {}, "grantRoot": "/" });
        assert_eq!(always_rule("apply_patch", &root, false), Err(NoRule::Rights));
        let content = json!({ "file_path": "a", "content": "[… 9 bytes left out …]" });
        assert!(always_rule("Write", &content, true).is_ok());
    }
}
