//! Rules of projects about tool requests: those that count, who they may name, and the ones that people make by
//! allowing for good.

use crate::domain::approval::{Decide, NoRule, Rule, RuleList, always_rule, rule_for_tool};
use crate::error::{Code, Error, Problem, Result};
use crate::ids::{AgentId, ApprovalId, ProjectId};
use crate::settings::Settings;
use crate::store::{Approval, ReadTx, WriteTx};

impl ReadTx<'_> {
    /// The rules that count for a project, in order. `data_dir`: the data directory of the core.
    pub fn rule_list(
        &self,
        project: &ProjectId,
        settings: &Settings,
        data_dir: &str,
    ) -> Result<RuleList> {
        let (rules, approvals) = (self.rules(project)?, &settings.approvals);
        Ok(RuleList::new(data_dir, rules, &approvals.rules, approvals.default))
    }

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
    /// Allows a tool request that waits, and makes a rule of its project of it: right before the one that decides about it
    /// now, so that every rule before stays in force; else behind the others. `input`: the pattern of the rule instead of the
    /// one made from the request.
    ///
    /// # Errors
    ///
    /// `approval.not_found`, `approval.not_pending`, `rule.limit_reached`, `validation.invalid_arguments` when it asks
    /// questions, a rule denies it by now, no rule can be made from it, or the pattern does not match it.
    pub fn always_allow_approval(
        &mut self,
        id: &ApprovalId,
        input: Option<String>,
        settings: &Settings,
        data_dir: &str,
    ) -> Result<(Approval, Rule)> {
        let approval = self.approval(id)?;
        let mut rule = rule_for(&approval, input)?;
        let project = &approval.project_id;
        let rules = self.rule_list(project, settings, data_dir)?;
        let agent = self.agent(&approval.agent_id)?;
        let now = rules.decide(&approval.asked(&agent, &approval.cwd.to_string_lossy()));
        // It may have been put since the request was asked, and then is what the person said last.
        if now.decide == Decide::Deny && now.position.is_some() {
            let problem = Problem::new("approval_id", format!("by now it is {}", now.reason));
            return Err(Error::invalid(Code::InvalidArguments, vec![problem])
                .remedy("Remove that rule first, or allow the request alone.")
                .with("approval_id", id.as_str()));
        }
        // The first of the list is the built-in one.
        let asked = now.position.filter(|_| now.decide == Decide::Ask);
        let place = asked.map(|position| position.saturating_sub(1));
        let own = self.rules(project)?;
        let place = place.filter(|place| (1..=own.len()).contains(place));
        let mut nth = 1_u32;
        let wanted = rule.id.clone();
        while own.iter().any(|other| other.id == rule.id) {
            nth = nth.saturating_add(1);
            rule.id = format!("{wanted}-{nth}");
        }
        let why = format!("always allowed, as rule {}", rule.id);
        let allowed = self.allow_approval(id, Some(why))?;
        self.put_rule(project, &rule, None, place)?;
        Ok((allowed, rule))
    }
}

/// The rule that allows a request for good.
fn rule_for(approval: &Approval, input: Option<String>) -> Result<Rule> {
    let refused = |problem: String, remedy: &str| {
        Error::invalid(Code::InvalidArguments, vec![Problem::new("input", problem)])
            .remedy(remedy)
            .with("approval_id", approval.id.as_str())
    };
    let made = always_rule(&approval.tool, &approval.input, approval.truncated);
    let Some(pattern) = input else {
        return made.map_err(|why| {
            let problem = match why {
                NoRule::NotKept => "the request has a secret in it or is too long to be kept",
                NoRule::Rights => {
                    "the request is for rights, and a rule would grant any others too"
                }
                NoRule::Unclear => "no single command, path or address says what the request does",
            };
            refused(
                format!("{problem}, so no rule is made from it"),
                "Give the pattern of the rule as `input`, or allow the request alone.",
            )
        });
    };
    let is_kept = !matches!(made, Err(NoRule::NotKept));
    let rule = Rule { input: Some(pattern), ..rule_for_tool(&approval.tool) };
    if let Some(problem) = rule.problem() {
        return Err(refused(problem, "Write a pattern: `*` stands for any text."));
    }
    if !rule.may_grant(&approval.tool, &approval.input) {
        let problem = "the request is for rights beside its use, and no rule grants those";
        return Err(refused(problem.to_owned(), "Allow the request alone."));
    }
    if is_kept && !rule.allows(&approval.tool, &approval.input) {
        let problem = "the pattern does not match all that the request does".to_owned();
        return Err(refused(problem, "Begin it as the command begins, and end it with `*`."));
    }
    Ok(rule)
}
