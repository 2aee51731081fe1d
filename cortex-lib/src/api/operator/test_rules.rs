//! `test_rules`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Access, Command, Effect, Granted};
use crate::domain::approval::{ApprovalStatus, Decide, Rule, RuleList};
use crate::error::{Code, Error, Problem, Result};
use crate::ids::{AgentId, ApprovalId, ProjectId};
use crate::limits::{APPROVALS_LISTED_MAX, RULES_MAX};
use crate::store::{Approval, ApprovalFilter, ReadTx};
use crate::time::Timestamp;

/// Try rules on past tool requests of a project, without changing anything: what was decided about each, what would be decided now, by which rule and why. With `rules` those stand in the place of the project's; the built-in rule, the configuration and the default stay. Arguments are tried as they are kept: without secrets, and long ones cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestRules {
    /// The project.
    pub project_id: ProjectId,
    /// Only the requests of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The rules to try instead of the project's, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<Rule>>,
    /// How many of the newest requests are tried.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: u32,
}

const fn default_limit() -> u32 {
    200
}

/// What rules would decide about past requests, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleTest {
    /// The requests.
    pub requests: Vec<TestedRequest>,
    /// How many of them would be decided differently.
    pub differ: u32,
}

/// What was, and what would be decided about one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestedRequest {
    /// The request.
    pub approval_id: ApprovalId,
    /// Who asked.
    pub agent_id: AgentId,
    /// The tool.
    pub tool: String,
    /// What it would do, in one line.
    pub summary: String,
    /// When it was asked.
    pub created_at: Timestamp,
    /// Where it stands.
    pub state: ApprovalStatus,
    /// Who decided then; null: nobody.
    pub decided_by: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// What would be decided now.
    pub now: TestedDecision,
    /// Whether that is not what became of it. What a person decided, or nobody, differs from anything but `ask`.
    pub differs: bool,
    /// Whether something of the arguments is missing, so that a rule may see less than it would.
    pub input_truncated: bool,
}

/// What would be decided now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestedDecision {
    /// The decision.
    pub decide: Decide,
    /// By whom: `rule:` with its id, `role` or `default`.
    pub decided_by: String,
    /// The place of the rule in the effective list.
    pub position: Option<u32>,
    /// Why, in one sentence.
    pub reason: String,
}

impl Command for TestRules {
    type Output = RuleTest;
    const NAME: &'static str = "test_rules";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[Code::ProjectNotFound, Code::AgentNotFound];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let (settings, data_dir) = (cx.core().settings(), cx.core().data_dir_text());
        cx.core().store().read(|tx| {
            let project = &self.project_id;
            tx.project(project)?;
            if let Some(id) = &self.agent_id {
                tx.agent(id)?;
            }
            let rules = match &self.rules {
                None => tx.rule_list(project, &settings, &data_dir)?,
                Some(rules) => {
                    check(tx, project, rules)?;
                    let approvals = &settings.approvals;
                    RuleList::new(&data_dir, rules.clone(), &approvals.rules, approvals.default)
                }
            };
            let filter = ApprovalFilter {
                project: Some(project.clone()),
                agent: self.agent_id.clone(),
                status: None,
            };
            let past = tx.approvals(&filter, self.limit.min(APPROVALS_LISTED_MAX))?;
            let requests = past.into_iter().map(|approval| tested(tx, approval, &rules));
            let requests: Vec<_> = requests.filter_map(Result::transpose).collect::<Result<_>>()?;
            let differ = requests.iter().filter(|request| request.differs).count();
            Ok(RuleTest { differ: u32::try_from(differ).unwrap_or(u32::MAX), requests })
        })
    }
}

/// Rules that are tried must be ones that could be put.
fn check(tx: &ReadTx<'_>, project: &ProjectId, rules: &[Rule]) -> Result<()> {
    if rules.len() > RULES_MAX {
        let problem = Problem::new("rules", format!("at most {RULES_MAX} rules can be tried"));
        return Err(Error::invalid(Code::InvalidArguments, vec![problem]));
    }
    let problems = rules
        .iter()
        .enumerate()
        .filter_map(|(at, rule)| Some(Problem::new(format!("rules[{at}]"), rule.problem()?)));
    let problems: Vec<_> = problems.collect();
    if !problems.is_empty() {
        return Err(Error::invalid(Code::InvalidArguments, problems));
    }
    rules.iter().try_for_each(|rule| tx.check_rule_of(project, rule).map(drop))
}

/// None: its agent was removed, and with it the role and the name that rules go by.
fn tested(tx: &ReadTx<'_>, approval: Approval, rules: &RuleList) -> Result<Option<TestedRequest>> {
    let agent = match tx.agent(&approval.agent_id) {
        Ok(agent) => agent,
        Err(error) if error.code() == Code::AgentNotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let now = rules.decide(&approval.asked(&agent, &approval.cwd.to_string_lossy()));
    let state = approval.state.status();
    let by_person = !approval.was_decided_at_once();
    let then = match state {
        ApprovalStatus::Allowed if !by_person => Decide::Allow,
        ApprovalStatus::Denied if !by_person => Decide::Deny,
        ApprovalStatus::Pending
        | ApprovalStatus::Allowed
        | ApprovalStatus::Denied
        | ApprovalStatus::Cancelled
        | ApprovalStatus::Expired => Decide::Ask,
    };
    Ok(Some(TestedRequest {
        approval_id: approval.id,
        agent_id: approval.agent_id,
        tool: approval.tool,
        summary: approval.summary,
        created_at: approval.created_at,
        state,
        decided_by: approval.decided_by.map(|by| by.to_string()),
        reason: approval.reason,
        differs: now.decide != then,
        now: TestedDecision {
            decide: now.decide,
            decided_by: now.by.to_string(),
            position: now.position.map(|at| u32::try_from(at).unwrap_or(u32::MAX)),
            reason: now.reason,
        },
        input_truncated: approval.truncated,
    }))
}
