//! The rules of projects about tool requests, in their order.

use rusqlite::named_params;
use serde_json::json;

use super::column::{Json, word};
use super::row::Row;
use super::{NewEvent, ReadTx, WriteTx};
use crate::domain::approval::Rule;
use crate::domain::event::EventKind;
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, ProjectId};
use crate::limits::RULES_MAX;

fn from_row(row: &Row<'_>) -> rusqlite::Result<Rule> {
    Ok(Rule {
        id: row.get("rule_id")?,
        tool: row.get("tool")?,
        input: row.get("input")?,
        agent: row.get("agent")?,
        decide: word(row, "decide")?,
    })
}

impl ReadTx<'_> {
    /// The rules of a project in their order. An agent stands in them by the name that it has now.
    pub fn rules(&self, project: &ProjectId) -> Result<Vec<Rule>> {
        let query = "SELECT rule_id, tool, rule.input, agent.name AS agent, decide
                     FROM rule LEFT JOIN agent USING (agent_id)
                     WHERE rule.project_id = ?1 ORDER BY position";
        self.rows(query, [project], from_row)
    }
}

impl WriteTx<'_> {
    /// Keeps a rule of a project, at `place` (the first is 1): in the place of the one with its id, or as a new one at the
    /// end when none is named. `agent`: the agent that the rule names.
    ///
    /// # Errors
    ///
    /// `rule.limit_reached`.
    pub(crate) fn put_rule(
        &mut self,
        project: &ProjectId,
        rule: &Rule,
        agent: Option<&AgentId>,
        place: Option<usize>,
    ) -> Result<()> {
        let before = self.rules(project)?;
        let known = before.iter().position(|other| other.id == rule.id);
        if known.is_none() && before.len() >= RULES_MAX {
            let message = format!("the project has {RULES_MAX} rules, and no more may be");
            return Err(
                Error::new(Code::RuleLimitReached, message).with("project_id", project.as_str())
            );
        }
        self.execute(
            "INSERT INTO rule (project_id, rule_id, position, tool, input, agent_id, decide)
             VALUES (:project, :id, :last, :tool, :input, :agent, :decide ->> '$')
             ON CONFLICT (project_id, rule_id) DO UPDATE SET
                 tool = excluded.tool, input = excluded.input, agent_id = excluded.agent_id, decide = excluded.decide",
            named_params! {
                ":project": project,
                ":id": rule.id,
                ":last": i64::try_from(before.len()).unwrap_or(i64::MAX),
                ":tool": rule.tool,
                ":input": rule.input,
                ":agent": agent,
                ":decide": Json(rule.decide),
            },
        )?;
        if let Some(place) = place {
            self.order_rules(project, &rule.id, place)?;
        }
        self.tell_rules(project, "put", &rule.id)
    }

    /// Moves a rule of a project to `place`; the first is 1, and what is beyond the last is the last.
    ///
    /// # Errors
    ///
    /// `rule.not_found`.
    pub(crate) fn move_rule(&mut self, project: &ProjectId, id: &str, place: usize) -> Result<()> {
        self.check_rule(project, id)?;
        self.order_rules(project, id, place)?;
        self.tell_rules(project, "moved", id)
    }

    /// Removes a rule of a project.
    ///
    /// # Errors
    ///
    /// `rule.not_found`.
    pub(crate) fn remove_rule(&mut self, project: &ProjectId, id: &str) -> Result<()> {
        self.check_rule(project, id)?;
        self.execute("DELETE FROM rule WHERE project_id = ?1 AND rule_id = ?2", (project, id))?;
        self.number_rules(project, &self.rules(project)?)?;
        self.tell_rules(project, "removed", id)
    }

    /// Removes every rule of a project that goes.
    pub(crate) fn drop_rules_of_project(&mut self, project: &ProjectId) -> Result<()> {
        self.execute("DELETE FROM rule WHERE project_id = ?1", [project])
    }

    /// Removes every rule for an agent that goes: it would match nobody.
    pub(crate) fn drop_rules_of_agent(
        &mut self,
        project: &ProjectId,
        agent: &AgentId,
    ) -> Result<()> {
        self.execute("DELETE FROM rule WHERE agent_id = ?1", [agent])?;
        self.number_rules(project, &self.rules(project)?)
    }

    fn check_rule(&self, project: &ProjectId, id: &str) -> Result<()> {
        if self.rules(project)?.iter().any(|rule| rule.id == id) {
            return Ok(());
        }
        Err(Error::new(Code::RuleNotFound, format!("the project has no rule {id}"))
            .with("project_id", project.as_str())
            .with("id", id))
    }

    fn order_rules(&mut self, project: &ProjectId, id: &str, place: usize) -> Result<()> {
        let mut rules = self.rules(project)?;
        let Some(at) = rules.iter().position(|rule| rule.id == id) else { return Ok(()) };
        let rule = rules.remove(at);
        rules.insert(place.saturating_sub(1).min(rules.len()), rule);
        self.number_rules(project, &rules)
    }

    fn number_rules(&mut self, project: &ProjectId, rules: &[Rule]) -> Result<()> {
        for (at, rule) in rules.iter().enumerate() {
            let query = "UPDATE rule SET position = ?3 WHERE project_id = ?1 AND rule_id = ?2";
            let position = i64::try_from(at).unwrap_or(i64::MAX);
            self.execute(query, (project, &rule.id, position))?;
        }
        Ok(())
    }

    fn tell_rules(&mut self, project: &ProjectId, change: &str, id: &str) -> Result<()> {
        self.emit(NewEvent {
            kind: EventKind::RulesChanged,
            project_id: Some(project.clone()),
            agent_id: None,
            data: json!({ "change": change, "id": id }),
        })
    }
}
