//! Rules of projects about tool requests: who they may name.

use crate::domain::approval::Rule;
use crate::error::{Code, Error, Problem, Result};
use crate::ids::{AgentId, ProjectId};
use crate::store::{ReadTx, WriteTx};

impl ReadTx<'_> {
    /// The agent that a rule names, and whether the rule holds.
    ///
    /// # Errors
    ///
    /// `agent.not_found`, `validation.invalid_arguments` when a pattern is none.
    pub(crate) fn check_rule_of(
        &self,
        project: &ProjectId,
        rule: &Rule,
    ) -> Result<Option<AgentId>> {
        if let Some(problem) = rule.problem() {
            return Err(Error::invalid(
                Code::InvalidArguments,
                vec![Problem::new("rule", problem)],
            ));
        }
        let Some(name) = &rule.agent else { return Ok(None) };
        let agents = self.agents(Some(project))?;
        let agent = agents.into_iter().find(|agent| agent.name == *name);
        agent.map(|agent| Some(agent.id)).ok_or_else(|| {
            let message = format!("the project has no agent {name}");
            Error::new(Code::AgentNotFound, message).with("project_id", project.as_str())
        })
    }
}

impl WriteTx<'_> {
    /// Puts a rule of a project: a new one, or in the place of the one with its id. `place`: where it stands then; the
    /// first is 1.
    ///
    /// # Errors
    ///
    /// `project.not_found`, `agent.not_found`, `rule.limit_reached`, `validation.invalid_arguments`.
    pub(crate) fn set_rule(
        &mut self,
        project: &ProjectId,
        rule: &Rule,
        place: Option<usize>,
    ) -> Result<()> {
        self.project(project)?;
        let agent = self.check_rule_of(project, rule)?;
        self.put_rule(project, rule, agent.as_ref(), place)
    }
}
