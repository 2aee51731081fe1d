//! The rule that a person makes by allowing a request for good.

use serde_json::Value;

use super::input::command;
use super::rights::asks_for_rights;
use super::rule::{Decide, Rule};
use crate::limits::{RULE_INPUT_CHARS_MAX, RULE_TOOL_CHARS_MAX};
use crate::secret::REDACTED;

/// Why no rule can be made from a request by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRule {
    /// Its command, path or address is not kept as it came: it has a secret in it, or is very long.
    NotKept,
    /// It asks for rights beyond one use. A rule for the tool as such would grant whatever is asked for next.
    Rights,
    /// No pattern says what it does: its command or address is none, or stands beside texts that may say otherwise.
    Unclear,
}

/// The rule that allows what a request of `tool` with the kept `input` is for, and as little more as makes sense: a
/// command exactly as it is, because what follows its beginning may be another command; an address with all of its
/// host; a tool without either as such.
///
/// # Errors
///
/// [`NoRule`] when the rule would not allow the request again, or it asks for rights. The rule for the whole tool
/// instead would allow far more than the person saw.
pub fn always_rule(tool: &str, input: &Value, truncated: bool) -> Result<Rule, NoRule> {
    if asks_for_rights(tool, input) {
        return Err(NoRule::Rights);
    }
    let pattern = pattern_for(input)?;
    let is_kept = |pattern: &String| {
        !(pattern.contains(&exactly(REDACTED)) || truncated && pattern.contains("left out"))
    };
    // What was cut as a whole is no object any more: what it did is not known.
    if pattern.as_ref().is_some_and(|pattern| !is_kept(pattern)) || truncated && !input.is_object()
    {
        return Err(NoRule::NotKept);
    }
    let rule = Rule { input: pattern, ..rule_for_tool(tool) };
    let fits = |text: &str, max: usize| (1..=max).contains(&text.chars().count());
    if !fits(&rule.tool, RULE_TOOL_CHARS_MAX)
        || !rule.input.as_ref().is_none_or(|pattern| fits(pattern, RULE_INPUT_CHARS_MAX))
    {
        return Err(NoRule::NotKept);
    }
    if rule.allows(tool, input) { Ok(rule) } else { Err(NoRule::Unclear) }
}

/// The pattern for a command or an address; none: it has neither.
fn pattern_for(input: &Value) -> Result<Option<String>, NoRule> {
    let field = |names: [&str; 2]| {
        names.iter().find_map(|name| input.get(*name)).filter(|field| !field.is_null())
    };
    let pattern = match (field(["command", "cmd"]), field(["url", "uri"])) {
        (Some(found), _) => command(found).map(|command| exactly(&command)),
        (None, Some(found)) => found.as_str().and_then(host_of).map(|host| {
            let host = exactly(host).replace(',', "[,]");
            format!("{{{host},{host}[/?#]*}}")
        }),
        (None, None) => return Ok(None),
    };
    pattern.map(Some).ok_or(NoRule::Unclear)
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
            (
                "WebFetch",
                json!({ "url": "https://docs.rs", "prompt": "read" }),
                json!({ "url": "https://docs.rs@evil.example/" }),
            ),
            ("WebFetch", json!({ "url": "https://a,b?c" }), json!({ "url": "b?c" })),
        ];
        for (tool, input, other) in table {
            let rule = always_rule(tool, &input, false).unwrap();
            assert_eq!(rule.problem(), None, "{rule:?}");
            assert_eq!(decides(&rule, tool, &input), Decide::Allow, "{rule:?}");
            assert_eq!(decides(&rule, tool, &other), Decide::Ask, "{rule:?}: {other}");
            assert_eq!(decides(&rule, "Other", &input), Decide::Ask, "{rule:?}");
        }
        let docs = always_rule("WebFetch", &json!({ "url": "https://docs.rs" }), false).unwrap();
        for url in ["https://docs.rs", "https://docs.rs/", "https://docs.rs?a", "https://docs.rs#a"]
        {
            assert_eq!(decides(&docs, "WebFetch", &json!({ "url": url })), Decide::Allow, "{url}");
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
        let content = json!({ "file_path": "a", "content": "[… 9 bytes left out …]" });
        assert!(always_rule("Write", &content, true).is_ok());
    }
    #[test]
    fn a_request_for_rights_makes_no_rule() {
        let shell = json!({ "command": "cargo test" });
        let with = |name: &str, field: Value| {
            let mut input = shell.clone();
            input[name] = field;
            input
        };
        let table = [
            ("request_permissions", json!({ "permissions": { "network": true } })),
            ("external_directory", json!({ "patterns": ["/etc/*"] })),
            ("SandboxNetworkAccess", json!({ "host": "example.com" })),
            ("Elicitation", json!({ "message": "?" })),
            ("mcp_elicitation", json!({ "message": "?" })),
            ("apply_patch", json!({ "changes": {}, "grantRoot": "/" })),
            ("shell", json!({ "networkApprovalContext": { "host": "example.com" } })),
            ("shell", with("additionalPermissions", json!({ "network": true }))),
            ("shell", with("leavesSandbox", json!(true))),
            ("Bash", with("dangerouslyDisableSandbox", json!(true))),
        ];
        for (tool, input) in table {
            assert_eq!(always_rule(tool, &input, false), Err(NoRule::Rights), "{tool} {input}");
        }
        assert!(
            always_rule("Bash", &with("dangerouslyDisableSandbox", json!(false)), false).is_ok()
        );
    }

    #[test]
    fn what_no_pattern_says_makes_no_rule() {
        let table = [
            ("Bash", json!({ "command": { "run": "ls" } })),
            ("Bash", json!({ "command": ["ls", 1] })),
            ("WebFetch", json!({ "url": "docs.rs" })),
            ("WebFetch", json!({ "url": ["https://docs.rs"] })),
            ("WebFetch", json!({ "url": "https:///a" })),
            ("mcp__db__query", json!({ "query": "DROP TABLE x", "command": "SELECT 1" })),
            ("mcp__web__get", json!({ "url": "https://docs.rs/a", "save_as": "/etc/x" })),
        ];
        for (tool, input) in table {
            assert_eq!(always_rule(tool, &input, false), Err(NoRule::Unclear), "{tool} {input}");
        }
        let long = json!({ "command": "x".repeat(5_000) });
        assert_eq!(always_rule("Bash", &long, false), Err(NoRule::NotKept));
        assert_eq!(always_rule("Bash", &json!({ "command": "" }), false), Err(NoRule::NotKept));
        assert_eq!(always_rule(&"x".repeat(300), &json!({}), false), Err(NoRule::NotKept));
        let query = json!({ "query": "SELECT 1", "url": null });
        assert_eq!(always_rule("mcp__db__query", &query, false).map(|rule| rule.input), Ok(None));
    }
}
