//! Who answers the tool requests of an agent: ordered rules, the first that matches decides.

use globset::{Glob, GlobMatcher};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Decide {
    /// The tool may run.
    Allow,
    /// It may not.
    Deny,
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
    #[schemars(length(min = 1, max = 256))]
    pub tool: String,
    /// A text that one of the arguments must match, as a pattern: `cargo test*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub input: Option<String>,
    /// The agent's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What it decides.
    pub decide: Decide,
}

/// A decision with its explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What was decided.
    pub decide: Decide,
    /// The rule that decided; none: no rule matched.
    pub rule: Option<String>,
    /// Why, in one sentence.
    pub reason: String,
}

/// Decides about a request of `agent` to run `tool` with `input`.
pub fn decide(rules: &[Rule], agent: &str, tool: &str, input: &Value) -> Decision {
    match rules
        .iter()
        .position(|rule| rule.matches(agent, tool, input))
        .and_then(|at| rules.get(at).map(|rule| (at, rule)))
    {
        Some((at, rule)) => {
            let verb = match rule.decide {
                Decide::Allow => "allowed",
                Decide::Deny => "denied",
            };
            Decision {
                decide: rule.decide,
                rule: Some(rule.id.clone()),
                reason: format!("{verb} by rule {}: {}", at + 1, rule.id),
            }
        }
        None => Decision {
            decide: Decide::Deny,
            rule: None,
            reason: format!(
                "denied: no rule allows {tool}; a person can add one under approvals.rules in config.json"
            ),
        },
    }
}

impl Rule {
    fn matches(&self, agent: &str, tool: &str, input: &Value) -> bool {
        self.agent.as_deref().is_none_or(|name| name == agent)
            && pattern(&self.tool).is_some_and(|pattern| pattern.is_match(tool))
            && self
                .input
                .as_deref()
                .is_none_or(|text| pattern(text).is_some_and(|pattern| any_text(input, &pattern)))
    }

    /// What is wrong with it, if anything: a pattern that is none never matches, which would hide a deny.
    pub fn problem(&self) -> Option<String> {
        [Some(&self.tool), self.input.as_ref()]
            .into_iter()
            .flatten()
            .find(|text| pattern(text).is_none())
            .map(|text| format!("{text:?} is not a pattern"))
    }
}

fn pattern(text: &str) -> Option<GlobMatcher> {
    Glob::new(text).ok().map(|glob| glob.compile_matcher())
}

/// Whether a text anywhere in `input` matches.
fn any_text(input: &Value, pattern: &GlobMatcher) -> bool {
    if let Some(text) = input.as_str() {
        return pattern.is_match(text);
    }
    input.as_array().is_some_and(|items| items.iter().any(|item| any_text(item, pattern)))
        || input
            .as_object()
            .is_some_and(|fields| fields.values().any(|field| any_text(field, pattern)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(id: &str, tool: &str, input: Option<&str>, decide: Decide) -> Rule {
        Rule { id: id.into(), tool: tool.into(), input: input.map(Into::into), agent: None, decide }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = [
            rule("no-push", "Bash", Some("git push*"), Decide::Deny),
            rule("shell", "Bash", None, Decide::Allow),
            rule("cortex", "mcp__cortex__*", None, Decide::Allow),
        ];
        let verdict =
            |tool, command| decide(&rules, "a", tool, &json!({ "command": command })).reason;
        assert_eq!(verdict("Bash", "git push origin/main"), "denied by rule 1: no-push");
        assert_eq!(verdict("Bash", "cargo test"), "allowed by rule 2: shell");
        assert_eq!(verdict("mcp__cortex__list_tasks", ""), "allowed by rule 3: cortex");
    }

    #[test]
    fn nothing_is_allowed_by_default() {
        let decision = decide(&[], "a", "Write", &json!({}));
        assert_eq!((decision.decide, decision.rule), (Decide::Deny, None));
        assert!(decision.reason.contains("approvals.rules"), "{}", decision.reason);
    }

    #[test]
    fn a_rule_of_another_agent_does_not_count() {
        let rules = [Rule { agent: Some("b".into()), ..rule("b-only", "*", None, Decide::Allow) }];
        assert_eq!(decide(&rules, "a", "Bash", &json!({})).decide, Decide::Deny);
        assert_eq!(decide(&rules, "b", "Bash", &json!({})).decide, Decide::Allow);
    }
}
