//! Tool requests: what a decision, the lack of one, or the end of a turn means for the request and its attempt.

use std::path::PathBuf;

use super::{AttemptReport, SessionEnd};
use crate::domain::approval::{
    Answers, ApprovalInput, ApprovalState, ApprovalStatus, Asked, Decide, DecidedBy, Decision,
    Delivery, bounded, problems_of_answers,
};
use crate::domain::attempt::{AttemptInput, EndReason};
use crate::domain::text::reason;
use crate::domain::turn::TurnInput;
use crate::error::{Code, Error, Problem, Result};
use crate::ids::{ApprovalId, SessionId, TurnId};
use crate::limits::{APPROVAL_INPUT_BYTES_MAX, APPROVALS_PENDING_MAX};
use crate::port::ToolRequest;
use crate::secret::redact_json;
use crate::settings::Settings;
use crate::store::{Agent, Approval, Attempt, ReadTx, Timer, Verdict, WriteTx};

/// A turn that may use tools.
struct Acting {
    agent: Agent,
    session_id: SessionId,
    turn_id: TurnId,
    /// The attempt that it runs, unless a person sent it directly.
    attempt: Option<Attempt>,
    cwd: PathBuf,
}

impl ReadTx<'_> {
    /// The turn of a session that may act: the one that is named, or the one that runs.
    fn acting_turn(&self, session: &SessionId, turn: Option<&TurnId>) -> Result<Option<Acting>> {
        let asks = |other: &SessionId, candidate: &TurnId| {
            session == other && turn.is_none_or(|turn| turn == candidate)
        };
        let attempt = self
            .live_attempts()?
            .into_iter()
            .find(|attempt| attempt.state.may_act() && asks(&attempt.session_id, &attempt.turn_id));
        let turn_id = if let Some(attempt) = &attempt {
            attempt.turn_id.clone()
        } else {
            let mut direct = self.live_direct_turns()?.into_iter();
            let turn = direct.find(|turn| turn.state.may_act() && asks(&turn.session_id, &turn.id));
            let Some(turn) = turn else { return Ok(None) };
            turn.id
        };
        let row = self
            .session(session)?
            .ok_or_else(|| Error::new(Code::Defect, format!("session {session} has no row")))?;
        let agent = self.agent(&row.agent_id)?;
        let cwd = match &attempt {
            Some(attempt) => attempt.workspace.path.clone(),
            None => self.project(&agent.project_id)?.root,
        };
        Ok(Some(Acting { agent, session_id: session.clone(), turn_id, attempt, cwd }))
    }
}

impl WriteTx<'_> {
    /// Keeps a tool request of a session and decides about it, if rules or roles do: from here on its answer is owed.
    /// None: the turn that asks is over or was told to end, and nothing is kept.
    ///
    /// Rules see the arguments as they came. What is kept has no secrets.
    pub(crate) fn request_approval(
        &mut self,
        session: &SessionId,
        request: &ToolRequest,
        settings: &Settings,
        data_dir: &str,
    ) -> Result<Option<Approval>> {
        let Some(acting) = self.acting_turn(session, request.turn_id.as_ref())? else {
            return Ok(None);
        };
        let open = self.open_approvals()?.into_iter().filter(|open| open.session_id == *session);
        let open: Vec<_> = open.collect();
        // Said twice: it is one request, with one answer.
        if let Some(known) = open.iter().find(|open| open.request_id == request.request_id) {
            return Ok(Some(known.clone()));
        }
        let Acting { agent, cwd, .. } = &acting;
        let rules = self.rule_list(&agent.project_id, settings, data_dir)?;
        let mut decision = rules.decide(&Asked {
            agent: &agent.name,
            role: agent.role,
            cwd: &cwd.to_string_lossy(),
            tool: &request.tool,
            input: &request.input,
            of_cortex: request.of_cortex.is_some(),
            has_questions: !request.questions.is_empty(),
        });
        let waiting = open.iter().filter(|open| open.state == ApprovalState::Pending).count();
        if decision.decide == Decide::Ask && waiting >= APPROVALS_PENDING_MAX {
            decision = too_many();
        }
        let approval = self.approval_of(request, acting, decision, settings);
        self.insert_approval(&approval)?;
        if approval.state == ApprovalState::Pending {
            if let Some(due) = approval.due_at {
                self.set_timer(&Timer::ApprovalDue(approval.id.clone()), due)?;
            }
            if let Some(attempt) = &approval.attempt_id {
                self.hold_attempt_clock(attempt)?;
            }
        }
        Ok(Some(approval))
    }

    fn approval_of(
        &self,
        request: &ToolRequest,
        acting: Acting,
        decision: Decision,
        settings: &Settings,
    ) -> Approval {
        let mut input = request.input.clone();
        redact_json(&mut input);
        let kept = bounded(input, APPROVAL_INPUT_BYTES_MAX);
        let state = match decision.decide {
            Decide::Allow => ApprovalState::Allowed(Delivery::Owed),
            Decide::Deny => ApprovalState::Denied(Delivery::Owed),
            Decide::Ask => ApprovalState::Pending,
        };
        let waits = state == ApprovalState::Pending;
        let limit = settings.approval_limit().filter(|_| waits);
        let (attempt_id, task_id) =
            acting.attempt.map(|attempt| (attempt.id, attempt.task_id)).unzip();
        Approval {
            id: ApprovalId::new(self.env().mint()),
            project_id: acting.agent.project_id,
            agent_id: acting.agent.id,
            session_id: acting.session_id,
            turn_id: acting.turn_id,
            attempt_id,
            task_id,
            request_id: request.request_id.clone(),
            tool: reason(&request.tool),
            of_cortex: request.of_cortex.clone(),
            summary: reason(&request.summary),
            input: kept.input,
            truncated: kept.truncated,
            cwd: acting.cwd,
            questions: request.questions.clone(),
            answers: None,
            state,
            decided_by: (!waits).then_some(decision.by),
            reason: Some(reason(&decision.reason)),
            created_at: self.now(),
            decided_at: (!waits).then(|| self.now()),
            due_at: limit.map(|limit| self.steady().after(limit)),
        }
    }

    /// Allows a tool request that waits.
    ///
    /// # Errors
    ///
    /// `approval.not_found`, `approval.not_pending`, `validation.invalid_arguments` when it asks questions.
    pub fn allow_approval(&mut self, id: &ApprovalId, why: Option<String>) -> Result<Approval> {
        let approval = self.approval(id)?;
        if approval.state == ApprovalState::Pending && !approval.questions.is_empty() {
            let problem = Problem::new(
                "approval_id",
                "the agent asks questions, and an allowance answers none",
            );
            return Err(Error::invalid(Code::InvalidArguments, vec![problem])
                .remedy("Answer its questions with answer_approval, or deny it.")
                .with("approval_id", id.as_str()));
        }
        self.decide_approval(approval, ApprovalInput::Allow, user(why, None))
    }

    /// Denies a tool request that waits. The agent reads the reason.
    ///
    /// # Errors
    ///
    /// `approval.not_found`, `approval.not_pending`.
    pub fn deny_approval(&mut self, id: &ApprovalId, why: Option<String>) -> Result<Approval> {
        let approval = self.approval(id)?;
        self.decide_approval(approval, ApprovalInput::Deny, user(why, None))
    }

    /// Answers the questions of a request that waits.
    ///
    /// # Errors
    ///
    /// `approval.not_found`, `approval.not_pending`, `validation.invalid_arguments` when an answer does not fit.
    pub fn answer_approval(&mut self, id: &ApprovalId, answers: Answers) -> Result<Approval> {
        let approval = self.approval(id)?;
        if approval.state == ApprovalState::Pending {
            let problems = problems_of_answers(&approval.questions, &answers);
            if !problems.is_empty() {
                return Err(Error::invalid(Code::InvalidArguments, problems)
                    .with("approval_id", id.as_str()));
            }
            if approval.questions.is_empty() {
                let problem = Problem::new("approval_id", "the agent asks no question");
                return Err(Error::invalid(Code::InvalidArguments, vec![problem])
                    .remedy("Allow or deny it.")
                    .with("approval_id", id.as_str()));
            }
        }
        self.decide_approval(approval, ApprovalInput::Allow, user(None, Some(answers)))
    }

    /// Notes that a session was told an answer, or did not take it.
    pub(crate) fn approval_told(&mut self, id: &ApprovalId, taken: bool) -> Result<()> {
        let input = if taken { ApprovalInput::Told } else { ApprovalInput::SessionGone };
        let approval = self.approval(id)?;
        self.step_approval(approval, input, Verdict::default()).map(drop)
    }

    /// Notes that a runtime does not wait for an answer any more.
    pub(crate) fn withdraw_approval(&mut self, session: &SessionId, request: &str) -> Result<()> {
        let open = self.open_approvals()?.into_iter();
        let withdrawn =
            open.filter(|open| open.session_id == *session && open.request_id == request);
        for approval in withdrawn.collect::<Vec<_>>() {
            self.end_approval(approval, ApprovalInput::Withdraw, "the runtime withdrew it")?;
        }
        Ok(())
    }

    /// A turn is over or was told to end: nothing more may be allowed to it. `input`: whether that is its own end or
    /// that of the core.
    pub(super) fn end_approvals_of_turn(
        &mut self,
        turn: &TurnId,
        input: ApprovalInput,
    ) -> Result<()> {
        let why = match input {
            ApprovalInput::CoreGone => "the core went down",
            ApprovalInput::Allow
            | ApprovalInput::Deny
            | ApprovalInput::Told
            | ApprovalInput::Withdraw
            | ApprovalInput::SessionGone => "its turn ended",
        };
        let open = self.open_approvals()?.into_iter();
        for approval in open.filter(|open| open.turn_id == *turn).collect::<Vec<_>>() {
            self.end_approval(approval, input, why)?;
        }
        Ok(())
    }

    /// A session is over, with all that waits in it.
    pub(super) fn end_approvals_of_session(
        &mut self,
        session: &SessionId,
        end: &SessionEnd,
    ) -> Result<()> {
        let (input, why) = match end {
            SessionEnd::CoreGone => (ApprovalInput::CoreGone, "the core went down"),
            SessionEnd::Closed | SessionEnd::Died(_) => {
                (ApprovalInput::SessionGone, "its session ended")
            }
        };
        let open = self.open_approvals()?.into_iter();
        for approval in open.filter(|open| open.session_id == *session).collect::<Vec<_>>() {
            self.end_approval(approval, input, why)?;
        }
        Ok(())
    }

    /// Nobody answered in time: the request is denied and its turn ends. Trying again would only ask again, so its
    /// task waits for a person.
    pub(crate) fn approval_timed_out(
        &mut self,
        id: &ApprovalId,
        settings: &Settings,
    ) -> Result<()> {
        let approval = self.approval(id)?;
        if approval.state != ApprovalState::Pending {
            return Ok(());
        }
        let limit = settings.approvals.timeout_secs;
        let why = format!("nobody answered the request to use {} within {limit} s", approval.tool);
        let verdict = Verdict {
            by: Some(DecidedBy::Timeout),
            reason: Some(format!("denied: {why}")),
            answers: None,
        };
        let (approval, _) = self.step_approval(approval, ApprovalInput::Deny, verdict)?;
        let Some(attempt) = approval.attempt_id else {
            return self.tell_turn_to_end(&approval.turn_id, TurnInput::GiveUpWaiting);
        };
        let report = AttemptReport { message: Some(why), ..AttemptReport::default() };
        let end = AttemptInput::End(EndReason::ApprovalTimedOut);
        match self.attempt_input(&attempt, end, &report, settings) {
            Err(error) if error.code() != Code::AttemptStale => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn end_approval(&mut self, approval: Approval, input: ApprovalInput, why: &str) -> Result<()> {
        let verdict = Verdict { reason: Some(why.to_owned()), ..Verdict::default() };
        let (approval, changed) = self.step_approval(approval, input, verdict)?;
        if changed { self.approval_settled(&approval) } else { Ok(()) }
    }

    fn decide_approval(
        &mut self,
        approval: Approval,
        input: ApprovalInput,
        verdict: Verdict,
    ) -> Result<Approval> {
        let (approval, _) = self.step_approval(approval, input, verdict)?;
        self.approval_settled(&approval)?;
        Ok(approval)
    }

    /// The time of an attempt runs on when none of its requests waits any more (H-45).
    fn approval_settled(&mut self, approval: &Approval) -> Result<()> {
        let Some(id) = &approval.attempt_id else { return Ok(()) };
        let waits = self.open_approvals()?.iter().any(|open| {
            open.attempt_id.as_ref() == Some(id) && open.state.status() == ApprovalStatus::Pending
        });
        if waits || !self.attempt(id)?.is_some_and(|attempt| attempt.state.may_act()) {
            return Ok(());
        }
        self.release_attempt_clock(id)
    }
}

impl Approval {
    /// Whether no person was asked.
    pub(crate) fn was_decided_at_once(&self) -> bool {
        match &self.decided_by {
            Some(DecidedBy::Rule(_) | DecidedBy::Role | DecidedBy::Default) => true,
            Some(DecidedBy::User | DecidedBy::Timeout | DecidedBy::Limit) | None => false,
        }
    }

    /// What was asked for, as it is kept.
    pub(crate) fn asked<'a>(&'a self, agent: &'a Agent, cwd: &'a str) -> Asked<'a> {
        Asked {
            agent: &agent.name,
            role: agent.role,
            cwd,
            tool: &self.tool,
            input: &self.input,
            of_cortex: self.of_cortex.is_some(),
            has_questions: !self.questions.is_empty(),
        }
    }
}

/// What a person decided.
fn user(why: Option<String>, answers: Option<Answers>) -> Verdict {
    Verdict { by: Some(DecidedBy::User), reason: why.map(|why| reason(&why)), answers }
}

fn too_many() -> Decision {
    Decision {
        decide: Decide::Deny,
        by: DecidedBy::Limit,
        position: None,
        reason: format!(
            "denied: {APPROVALS_PENDING_MAX} requests of this session wait for a person, and no more may"
        ),
    }
}
