//! The two doors: a caller, and the core it acts on.

use serde_json::Value;
use serde_json::value::RawValue;

use super::access::{Caller, SessionCaller};
use super::command::{Command, CommandDef, Effect, ToolDef, to_wire};
use super::{OPERATOR, TOOLS};
use crate::domain::message::Sender;
use crate::engine::Core;
use crate::error::{Code, Error, Kind, Result};
use crate::ids::{AgentId, CorrelationId, ProjectId};
use crate::secret::redact;

/// The commands that can be given.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue {
    /// What is also on MCP.
    pub tools: &'static [ToolDef],
    /// What only the user may ask for.
    pub operator: &'static [CommandDef],
}

impl Catalogue {
    /// All commands of Cortex.
    pub const CORTEX: Self = Self { tools: &TOOLS, operator: &OPERATOR };

    /// Every command: the tools, then the operator's.
    pub fn iter(self) -> impl Iterator<Item = &'static CommandDef> {
        self.tools.iter().map(|tool| &**tool).chain(self.operator)
    }
}

/// A caller and the core it acts on. The only way to run a command.
///
/// The doors check in this order: the command exists, the caller may give it
/// ([`Code::PermissionDenied`]), the arguments hold ([`Code::InvalidArguments`]), the core takes changes
/// ([`Code::CoreNotReady`], unless the command only reads), a session still counts ([`Code::AttemptStale`]: it was
/// for an attempt that is over). Then the command runs. Every error that leaves
/// has a correlation id, and one line in the log with the same id.
#[derive(Clone, Debug)]
pub struct Cx {
    caller: Caller,
    core: Core,
    catalogue: Catalogue,
}

impl Cx {
    /// Lets `caller` act on `core`.
    pub fn new(caller: Caller, core: Core) -> Self {
        Self::with_catalogue(caller, core, Catalogue::CORTEX)
    }

    /// Lets `caller` give the commands of `catalogue` and no others.
    pub fn with_catalogue(caller: Caller, core: Core, catalogue: Catalogue) -> Self {
        Self { caller, core, catalogue }
    }

    /// Who calls.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Runs `command`. The door for Rust callers: types instead of JSON, the same checks.
    pub async fn call<C: Command>(&self, command: C) -> Result<C::Output> {
        let answer = async {
            let def = self.catalogue.iter().find(|def| def.is::<C>()).ok_or_else(|| {
                Error::new(Code::Defect, format!("no table lists the command {}", C::NAME))
            })?;
            self.check_access(def)?;
            def.arguments()?.check(to_wire(C::NAME, &command)?)?;
            self.check_may_run(def)?;
            command.call(Granted(self)).await
        };
        answer.await.map_err(|error| self.sign(C::NAME, error))
    }

    /// Runs the tool called `name`. The door for JSON callers.
    ///
    /// Fails with [`Code::ToolNotFound`] when there is none.
    pub async fn call_json(&self, name: &str, args: Value) -> Result<Value> {
        let answer = self.call_raw(name, args).await?;
        parsed(&answer).map_err(|error| self.sign(name, error))
    }

    /// Runs the tool called `name` like [`call_json`](Self::call_json). The answer is the text of the JSON, which
    /// costs least where it is only passed on.
    pub async fn call_raw(&self, name: &str, args: Value) -> Result<Box<RawValue>> {
        let tool = self.catalogue.tools.iter().find(|tool| tool.name == name);
        self.run(name, tool.map(|tool| &**tool), args).await
    }

    /// Runs the tool or operator command called `name`. The door for the local socket.
    ///
    /// Fails with [`Code::PermissionDenied`] unless the user calls.
    pub async fn call_operator_json(&self, name: &str, args: Value) -> Result<Value> {
        if self.caller != Caller::User {
            let error = Error::new(
                Code::PermissionDenied,
                format!("{} may not give operator commands", self.caller),
            );
            return Err(self.sign(name, error));
        }
        let def = self.catalogue.iter().find(|def| def.name == name);
        let answer = self.run(name, def, args).await?;
        parsed(&answer).map_err(|error| self.sign(name, error))
    }

    async fn run(
        &self,
        name: &str,
        found: Option<&'static CommandDef>,
        args: Value,
    ) -> Result<Box<RawValue>> {
        let answer = async {
            let def = found.ok_or_else(|| {
                Error::new(Code::ToolNotFound, format!("no tool is called `{}`", clip(name)))
            })?;
            self.check_access(def)?;
            let args = def.arguments()?.check(args)?;
            def.run(self, args).await
        };
        answer.await.map_err(|error| self.sign(name, error))
    }

    fn check_access(&self, def: &CommandDef) -> Result<()> {
        if def.access.admits(&self.caller) {
            return Ok(());
        }
        let message = format!("{} may not use {}", self.caller, def.name);
        Err(Error::new(Code::PermissionDenied, message))
    }

    /// What does not depend on the arguments any more: the core takes changes, and who calls still counts.
    pub(super) fn check_may_run(&self, def: &CommandDef) -> Result<()> {
        match def.effect {
            Effect::Reads => {}
            Effect::Writes | Effect::WritesOnce | Effect::WritesLast => self.core.check_ready()?,
        }
        let Caller::Session(SessionCaller { session_id, .. }) = &self.caller else { return Ok(()) };
        let stale = self.core.store().read(|tx| tx.stale_attempt_of(session_id))?;
        stale.map_or(Ok(()), |attempt| {
            let message = format!("attempt {attempt} is over, and this session was for it alone");
            Err(Error::new(Code::AttemptStale, message).with("execution_id", attempt.as_str()))
        })
    }

    /// Ties an error to the log on its way out.
    fn sign(&self, name: &str, error: Error) -> Error {
        let error = error.correlated(|| CorrelationId::new(self.core.env().mint()));
        let id = error.correlation_id().map(CorrelationId::as_str);
        let (command, caller, code) = (clip(name), &self.caller, error.code());
        // It may quote what the caller sent.
        let message = redact(error.message());
        // What the caller can mend is the caller's news; what Cortex or the machine broke is ours.
        if matches!(code.kind(), Kind::Internal | Kind::RuntimeError) {
            tracing::warn!(correlation_id = id, %command, %caller, %code, "{message}");
        } else {
            tracing::debug!(correlation_id = id, %command, %caller, %code, "{message}");
        }
        error
    }
}

fn parsed(answer: &RawValue) -> Result<Value> {
    serde_json::from_str(answer.get())
        .map_err(|error| Error::new(Code::Defect, format!("an answer is no JSON: {error}")))
}

/// What is shown of a name that a caller made up.
fn clip(name: &str) -> String {
    name.chars().take(64).collect()
}

/// Proof that the caller was checked. Only [`Cx`] makes one.
#[derive(Clone, Copy, Debug)]
pub struct Granted<'a>(&'a Cx);

impl<'a> Granted<'a> {
    pub(super) fn by(cx: &'a Cx) -> Self {
        Self(cx)
    }

    /// Who calls.
    pub fn caller(self) -> &'a Caller {
        &self.0.caller
    }

    /// The core.
    pub fn core(self) -> &'a Core {
        &self.0.core
    }

    /// The only project that the caller may see; `None`: all of them.
    pub fn project_scope(self) -> Option<&'a ProjectId> {
        self.caller().session().map(|session| &session.project_id)
    }

    /// Whether the caller may see what belongs to `project`.
    pub fn sees(self, project: &ProjectId) -> bool {
        self.project_scope().is_none_or(|own| own == project)
    }

    /// Who calls, as a sender of messages.
    pub(super) fn sender(self) -> Sender {
        match self.caller() {
            Caller::User => Sender::User,
            Caller::Session(SessionCaller { agent_id, project_id, .. }) => {
                Sender::Agent { agent_id: agent_id.clone(), project_id: project_id.clone() }
            }
        }
    }

    /// The agent whose session calls; `None`: the user.
    pub fn agent_id(self) -> Option<&'a AgentId> {
        self.caller().session().map(|session| &session.agent_id)
    }
}
