//! Who decides about a tool request, and why.
//!
//! The role of the agent comes first, then the effective list: the built-in rule, the rules of the project, the rules
//! of the configuration. The first rule that matches decides; without one the default does.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use super::built_in::{DATA_DIRECTORY, names_data_dir};
use super::rule::{Decide, Rule};
use crate::domain::agent::Role;

/// What an agent asks for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The name of the agent.
    pub agent: &'a str,
    /// Its role.
    pub role: Role,
    /// The folder that it works in.
    pub cwd: &'a str,
    /// The tool, by the runtime's name.
    pub tool: &'a str,
    /// The arguments as they came.
    pub input: &'a Value,
    /// Whether the tool is one of Cortex.
    pub of_cortex: bool,
    /// Whether it asks its user something: nothing but a person can answer that.
    pub has_questions: bool,
}

/// What happens to a request that no rule matches.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Unmatched {
    /// A person decides.
    #[default]
    Ask,
    /// It is denied.
    Deny,
}

/// Where a rule comes from.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Origin {
    /// It is part of Cortex.
    BuiltIn,
    /// It belongs to the project.
    Project,
    /// It is in the configuration and counts for every project.
    Config,
}

/// A rule of the effective list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its place in the list; the first is 1.
    pub position: usize,
    /// Where it comes from.
    pub origin: Origin,
    /// The rule.
    pub rule: Rule,
}

/// The effective list: every rule that counts for a project, in order, and what happens without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleList {
    data_dir: String,
    rules: Vec<Listed>,
    unmatched: Unmatched,
}

/// Who decided. On the wire one word, with the id of what decided: `user`, `rule:no-push`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecidedBy {
    /// The person who runs Cortex.
    User,
    /// A rule, by its id.
    Rule(String),
    /// The role of the agent.
    Role,
    /// The default: no rule matched.
    Default,
    /// Nobody answered in time.
    Timeout,
    /// As many requests of the session waited as may.
    Limit,
}

/// A decision with its explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What was decided; `ask`: that a person decides.
    pub decide: Decide,
    /// By whom.
    pub by: DecidedBy,
    /// The place of the rule that decided in the effective list.
    pub position: Option<usize>,
    /// Why, in one sentence.
    pub reason: String,
}

impl RuleList {
    /// The rules that count for a project, after the built-in one.
    pub fn new(data_dir: &str, project: Vec<Rule>, config: &[Rule], unmatched: Unmatched) -> Self {
        let built_in = Rule {
            id: DATA_DIRECTORY.to_owned(),
            tool: "*".to_owned(),
            input: None,
            agent: None,
            decide: Decide::Deny,
        };
        let rules = std::iter::once((Origin::BuiltIn, built_in))
            .chain(project.into_iter().map(|rule| (Origin::Project, rule)))
            .chain(config.iter().cloned().map(|rule| (Origin::Config, rule)))
            .enumerate()
            .map(|(at, (origin, rule))| Listed { position: at.saturating_add(1), origin, rule });
        Self { data_dir: data_dir.to_owned(), rules: rules.collect(), unmatched }
    }

    /// The rules in order.
    pub fn rules(&self) -> &[Listed] {
        &self.rules
    }

    /// What happens to a request that none of them matches.
    pub fn unmatched(&self) -> Unmatched {
        self.unmatched
    }

    /// Decides about a request.
    pub fn decide(&self, asked: &Asked<'_>) -> Decision {
        if let Some(decision) = by_role(asked) {
            return decision;
        }
        match self.rules.iter().find(|listed| self.is_met(listed, asked)) {
            Some(listed) => by_rule(listed, asked),
            None => self.by_default(asked),
        }
    }

    fn is_met(&self, listed: &Listed, asked: &Asked<'_>) -> bool {
        match listed.origin {
            Origin::BuiltIn => names_data_dir(asked.input, &self.data_dir, asked.cwd),
            Origin::Project | Origin::Config => {
                listed.rule.matches(asked.agent, asked.tool, asked.input)
            }
        }
    }

    fn by_default(&self, asked: &Asked<'_>) -> Decision {
        let tool = asked.tool;
        let (decide, reason) = match self.unmatched {
            Unmatched::Ask => (Decide::Ask, format!("no rule matches {tool}: a person decides")),
            Unmatched::Deny => (
                Decide::Deny,
                format!(
                    "denied: no rule allows {tool}; a person can add one with `cortex rules add`, or under approvals.rules in config.json"
                ),
            ),
        };
        Decision { decide, by: DecidedBy::Default, position: None, reason }
    }
}

/// An orchestrator has the tools of Cortex and no others, whatever rules say. The tools of Cortex are also a worker's:
/// the endpoint knows the session by its credential and decides what it may do, so a rule here could only disagree
/// with it, and a person would be asked about every message between agents.
fn by_role(asked: &Asked<'_>) -> Option<Decision> {
    let (decide, reason) = match (asked.role, asked.of_cortex) {
        (Role::Orchestrator | Role::Worker, true) => {
            (Decide::Allow, "allowed by role: Cortex itself decides what its tools do".to_owned())
        }
        (Role::Orchestrator, false) => (
            Decide::Deny,
            "denied by role: an orchestrator uses the tools of Cortex and no others".to_owned(),
        ),
        (Role::Worker, false) => return None,
    };
    Some(Decision { decide, by: DecidedBy::Role, position: None, reason })
}

fn by_rule(listed: &Listed, asked: &Asked<'_>) -> Decision {
    let (rule, position) = (&listed.rule, listed.position);
    let is_for_rights = !rule.may_grant(asked.tool, asked.input);
    // A rule has no answer to a question.
    let decide = match rule.decide {
        Decide::Allow if asked.has_questions || is_for_rights => Decide::Ask,
        decide @ (Decide::Allow | Decide::Deny | Decide::Ask) => decide,
    };
    let verb = match decide {
        Decide::Allow => "allowed",
        Decide::Deny => "denied",
        Decide::Ask => "left to a person",
    };
    let mut reason = format!("{verb} by rule {position}: {}", rule.id);
    if listed.origin == Origin::BuiltIn {
        reason += "; it names the data directory of Cortex";
    }
    if rule.decide == Decide::Allow && is_for_rights {
        reason += "; it asks for rights beyond one use";
    }
    Decision { decide, by: DecidedBy::Rule(rule.id.clone()), position: Some(position), reason }
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str("user"),
            Self::Rule(id) => write!(f, "rule:{id}"),
            Self::Role => f.write_str("role"),
            Self::Default => f.write_str("default"),
            Self::Timeout => f.write_str("timeout"),
            Self::Limit => f.write_str("limit"),
        }
    }
}

impl DecidedBy {
    /// Reads it back from the wire.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "user" => Self::User,
            "role" => Self::Role,
            "default" => Self::Default,
            "timeout" => Self::Timeout,
            "limit" => Self::Limit,
            other => Self::Rule(other.strip_prefix("rule:")?.to_owned()),
        })
    }
}

impl Serialize for DecidedBy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DecidedBy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(format!("nobody decides as {text}")))
    }
}

#[cfg(test)]
mod tests;
