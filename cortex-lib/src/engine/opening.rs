//! Opening a session: what its runtime is told about it, and the credential by which it reaches Cortex.

use std::sync::Arc;

use super::core::Core;
use super::incoming;
use super::jobs::{Outcome, gone};
use super::run::Engine;
use super::wake::Done;
use crate::domain::agent::{Interaction, Role};
use crate::domain::capability::Capability;
use crate::error::{Code, Error, Result};
use crate::ids::SessionId;
use crate::limits::START_TIMEOUT;
use crate::port::{McpAccess, Opened, Runtime, RuntimeInfo, SessionSpec};
use crate::store::Agent;

/// What the credentials of a session and of its hooks begin with, so that they are known for what they are wherever
/// they turn up.
const TOKEN_PREFIX: &str = "cortex_session_";
const HOOK_TOKEN_PREFIX: &str = "cortex_hook_";

impl Engine {
    /// Opens the session of an agent, or of one attempt.
    pub(super) fn open(&self, id: &SessionId) -> Result<Outcome> {
        let (agent, project, attempt) = self.core.store().read(|tx| {
            let session = tx.session(id)?.ok_or_else(gone)?;
            let agent = tx.agent(&session.agent_id)?;
            let project = tx.project(&agent.project_id)?;
            let attempt = session.attempt_id.map(|id| tx.attempt(&id)).transpose()?.flatten();
            Ok((agent, project, attempt))
        })?;
        let runtime = Arc::clone(self.core.runtime(&agent.runtime_id)?);
        if !self.core.host().is_folder(&project.root) {
            let message = format!(
                "the folder {} of project {} is not there",
                project.root.display(),
                project.name
            );
            return Err(Error::new(Code::ProjectInvalidRoot, message)
                .with("project_id", project.id.as_str()));
        }
        check_start(&agent, runtime.info(), self.core.endpoint().is_some())?;
        // The session of one attempt begins anew: its instruction is all it needs to know (H-31).
        let resumes =
            attempt.is_none() && runtime.info().capabilities.contains(&Capability::Resume);
        let mcp = self.core.endpoint().map(|url| McpAccess {
            url: url.to_owned(),
            token: self.core.env().mint_secret(TOKEN_PREFIX),
            hook_token: self.core.env().mint_secret(HOOK_TOKEN_PREFIX),
        });
        let spec = SessionSpec {
            session_id: id.clone(),
            agent_id: Some(agent.id),
            role: agent.role,
            interaction: agent.interaction,
            cwd: attempt.map_or(project.root, |attempt| attempt.workspace.path),
            scratch: self.core.host().make_scratch(id)?,
            model: agent.model,
            instructions: agent.instructions,
            resume: agent.native_session_id.filter(|_| resumes),
            read_only: false,
            trusted: project.trusted,
            mcp,
        };
        let core = self.core.clone();
        Ok(Box::pin(async move {
            let opened =
                tokio::time::timeout(START_TIMEOUT, known_then_open(&core, &*runtime, spec));
            Done::Opened(opened.await.unwrap_or_else(|_| {
                let name = &runtime.info().name;
                let message = format!("{name} was not ready within {} s", START_TIMEOUT.as_secs());
                Err(Error::new(Code::RuntimeStartTimedOut, message))
            }))
        }))
    }
}

/// Refuses a start that could not become what the agent is: better no agent than one that is less confined, or
/// can do nothing at all (S-235).
fn check_start(agent: &Agent, runtime: &RuntimeInfo, has_endpoint: bool) -> Result<()> {
    let needs = match (agent.role, agent.interaction) {
        (Role::Orchestrator, _) => &[Capability::OrchestratorRole, Capability::McpClient][..],
        (Role::Worker, Interaction::Structured) => &[Capability::StructuredSession],
        (Role::Worker, Interaction::Terminal) => &[Capability::TerminalSession],
    };
    let refuse = |code: Code, why: String| {
        Err(Error::new(code, format!("agent {} {why}", agent.name))
            .with("agent_id", agent.id.as_str()))
    };
    if let Some(lacks) = needs.iter().find(|need| !runtime.capabilities.contains(need)) {
        let why = format!("cannot run on {}, which lacks {lacks}", runtime.id);
        return refuse(Code::RuntimeCapabilityMissing, why);
    }
    if agent.role == Role::Worker {
        return Ok(());
    }
    let structured = runtime.capabilities.contains(&Capability::StructuredSession);
    if agent.interaction == Interaction::Terminal || !structured {
        let why = "is an orchestrator and has no structured session".to_owned();
        return refuse(Code::AgentOrchestratorNeedsStructured, why);
    }
    if !has_endpoint {
        let why = "is an orchestrator and would get no tools: no endpoint is served".to_owned();
        return refuse(Code::McpDisabled, why);
    }
    Ok(())
}

/// Opens a session whose credentials are known by their hashes before anybody can show it.
async fn known_then_open(core: &Core, runtime: &dyn Runtime, spec: SessionSpec) -> Result<Opened> {
    if let Some(mcp) = &spec.mcp {
        let (id, session, hook) =
            (spec.session_id.clone(), mcp.token.hash(), mcp.hook_token.hash());
        core.store().write(move |tx| tx.set_session_tokens(&id, &session, &hook)).await?;
    }
    open_or_begin_anew(runtime, spec).await
}

/// Opens a session. What cannot be resumed is begun anew: the agent is wanted more than its memory.
async fn open_or_begin_anew(runtime: &dyn Runtime, spec: SessionSpec) -> Result<Opened> {
    match (runtime.open(spec.clone()).await, &spec.resume) {
        (Err(error), Some(native)) if may_open_afresh(error.code()) => {
            let error = incoming::error(error);
            tracing::warn!(session = native, code = %error.code(), "not resumed: {}", error.message());
            runtime.open(SessionSpec { resume: None, ..spec }).await
        }
        (opened, _) => opened,
    }
}

/// Whether another try without the native session could do better.
fn may_open_afresh(code: Code) -> bool {
    !matches!(
        code,
        Code::RuntimeNotInstalled | Code::RuntimeNotLoggedIn | Code::RuntimeCapabilityMissing
    )
}
