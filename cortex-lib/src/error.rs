//! The one error of the public API: a stable code, what happened, and what to do next.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value, json};

use crate::ids::CorrelationId;
use crate::limits::PROBLEMS_MAX;

/// Coarse class of a failure. It decides what a caller can do about it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum Kind {
    /// The arguments are wrong: call again, corrected.
    InvalidArgument,
    /// The thing is not there, or not for this caller.
    NotFound,
    /// The thing is not in a state that allows it, or a limit is reached.
    StateConflict,
    /// The thing cannot do that at all.
    Unsupported,
    /// The caller may not.
    AuthorizationError,
    /// Nobody knows who calls.
    AuthenticationError,
    /// A runtime, its CLI or the machine failed.
    RuntimeError,
    /// Cortex or its disk failed.
    Internal,
}

/// Declares every error code once: variant, wire name, kind, and what to do next.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $wire:literal, $kind:ident, $remedy:literal;)+) => {
        /// The stable reason of a failure. The wire name never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[doc = $doc])+ $variant,)+ }

        impl Code {
            /// Every code, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The code on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire,)+ }
            }

            /// The class it belongs to.
            pub const fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)+ }
            }

            /// What to do next, unless the error says something more exact.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)+ }
            }

            /// What it means.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

codes! {
    /// An argument does not match the tool's schema.
    InvalidArguments = "validation.invalid_arguments", InvalidArgument, "Correct the named fields and call again.";
    /// The tasks of an objective break a rule.
    InvalidObjective = "validation.invalid_objective", InvalidArgument, "Correct the named fields and call again.";
    /// A task of a proposed plan has an estimate that is not small, medium or large.
    InvalidProposal = "validation.invalid_proposal", InvalidArgument, "Propose again; nothing was kept.";
    /// No tool has this name.
    ToolNotFound = "tool.not_found", NotFound, "List the tools and use one of their names.";
    /// The caller may not use this.
    PermissionDenied = "permission.denied", AuthorizationError, "Ask the person who runs Cortex to do it.";

    /// The core is starting, stopping or has failed.
    CoreNotReady = "core.not_ready", StateConflict, "Wait until the core is ready and call again.";
    /// The core has stopped.
    CoreStopped = "core.stopped", StateConflict, "Start Cortex again.";
    /// Another core has this data directory open.
    DataDirInUse = "core.data_dir_in_use", StateConflict, "Stop the named process, or use another data directory.";
    /// The path of the data directory is relative.
    DataDirNotAbsolute = "core.data_dir_not_absolute", InvalidArgument, "Give an absolute path.";
    /// The data directory cannot be made, read or written.
    DataDirUnusable = "core.data_dir_unusable", Internal, "Check that the folder exists and is yours, or use another one.";
    /// The configuration does not hold.
    ConfigInvalid = "core.config_invalid", InvalidArgument, "Correct the named keys; `cortex config schema` lists all of them.";
    /// The local socket of a core cannot be made or reached.
    LocalSocketFailed = "core.local_socket_failed", Internal, "See the message: the socket is made in the data directory, which must be yours.";
    /// What was to be shown could not be written.
    OutputFailed = "core.output_failed", Internal, "Free some space, or send the output elsewhere; what was done stays done.";
    /// Cortex broke one of its own rules.
    Defect = "core.defect", Internal, "Report it with the correlation id and the log.";

    /// The disk is full; nothing of this call was kept.
    StoreDiskFull = "store.disk_full", Internal, "Free some space and call again; nothing was changed.";
    /// The store failed, and only the next start can tell what it kept.
    StoreFailed = "store.failed", Internal, "Start Cortex again: it settles what is on disk. Then see the log.";
    /// The store was written by a newer version of Cortex.
    StoreNewer = "store.newer_version", StateConflict, "Use the version of Cortex that wrote it, or a newer one.";
    /// The file is not a store of Cortex, or it is damaged.
    StoreCorrupt = "store.corrupt", Internal, "Restore the file from a backup, or use another data directory.";

    /// No such project, or not the caller's.
    ProjectNotFound = "project.not_found", NotFound, "List the projects and use one of their ids.";
    /// A project of this name exists.
    ProjectNameTaken = "project.name_taken", StateConflict, "Choose another name.";
    /// The folder is another project's.
    ProjectRootTaken = "project.root_taken", StateConflict, "Use that project, or remove it first.";
    /// The project is still used.
    ProjectInUse = "project.in_use", StateConflict, "Stop its agents and cancel or finish its objectives first.";
    /// The project's folder is not there any more.
    ProjectInvalidRoot = "project.invalid_root", RuntimeError, "Put the folder back, or register the project again.";

    /// No such runtime.
    RuntimeNotFound = "runtime.not_found", NotFound, "List the runtimes and use one of their ids.";
    /// The runtime's program is not on this machine.
    RuntimeNotInstalled = "runtime.not_installed", RuntimeError, "Install the program, or set its path in the configuration.";
    /// The runtime did not get ready in time.
    RuntimeStartTimedOut = "runtime.start_timed_out", RuntimeError, "Try again; if it repeats, run `cortex doctor`.";
    /// The runtime's session could not be started.
    RuntimeStartFailed = "runtime.start_failed", RuntimeError, "See the message; `cortex doctor` checks the runtime.";
    /// The runtime is not logged in.
    RuntimeNotLoggedIn = "runtime.not_logged_in", RuntimeError, "Log in with the runtime's own command, then start the agent again.";
    /// The runtime refused the turn: its login or its request is bad.
    RuntimeRefused = "runtime.refused", RuntimeError, "Read the runtime's message, mend its login or the task, then retry.";
    /// The session ended before it could do this.
    RuntimeSessionEnded = "runtime.session_ended", RuntimeError, "Start the agent again.";
    /// The runtime says something that its protocol does not have.
    RuntimeProtocol = "runtime.protocol_error", RuntimeError, "Check the runtime's version with `cortex doctor`.";
    /// The agent's terminal mode has no turns.
    RuntimeUnsupportedInTerminalMode = "runtime.unsupported_in_terminal_mode", Unsupported, "Use a structured agent.";
    /// The runtime lacks a capability that this needs.
    RuntimeCapabilityMissing = "runtime.capability_missing", Unsupported, "Use an agent on a runtime that has it; list_runtimes shows which.";
    /// A turn runs and the runtime takes no input during a turn.
    RuntimeTurnInProgress = "runtime.turn_in_progress", StateConflict, "Wait for the end of the turn, or interrupt it.";

    /// No such agent, or not the caller's.
    AgentNotFound = "agent.not_found", NotFound, "List the agents and use one of their ids.";
    /// An agent of the project has this name.
    AgentNameTaken = "agent.name_taken", StateConflict, "Choose another name.";
    /// The agent is in a state that forbids this.
    AgentStateConflict = "agent.state_conflict", StateConflict, "Look at the agent's state and do what it allows.";
    /// The agent is still needed.
    AgentInUse = "agent.in_use", StateConflict, "Reassign, cancel or finish the named tasks first.";
    /// The agent was stopped while it started.
    AgentStartCancelled = "agent.start_cancelled", StateConflict, "Start it again when you want it.";
    /// An orchestrator must be structured.
    AgentOrchestratorNeedsStructured = "agent.orchestrator_needs_structured", Unsupported, "Create the orchestrator as a structured agent.";
    /// The agent has turns and no terminal.
    AgentNotInTerminalMode = "agent.not_in_terminal_mode", Unsupported, "Send it messages, or use an agent in terminal mode.";
    /// As many sessions live as are allowed.
    ResourceLimitReached = "resource.limit_reached", StateConflict, "Stop an agent, or raise resources.max_active_processes.";

    /// No such objective, or not the caller's.
    ObjectiveNotFound = "objective.not_found", NotFound, "List the objectives and use one of their ids.";
    /// The objective is in a state that forbids this.
    ObjectiveStateConflict = "objective.state_conflict", StateConflict, "Look at the objective's status and do what it allows.";
    /// A task depends on a key that the objective does not have.
    TaskUnknownDependency = "task.unknown_dependency", InvalidArgument, "Use the keys of tasks in the same objective.";
    /// Tasks wait for each other.
    TaskDependencyCycle = "task.dependency_cycle", InvalidArgument, "Remove one dependency of the named cycle.";
    /// No such task, or not the caller's.
    TaskNotFound = "task.not_found", NotFound, "List the tasks and use one of their ids.";
    /// The agent cannot run this task.
    TaskAgentNotEligible = "task.agent_not_eligible", InvalidArgument, "Name a structured worker of the task's project whose runtime has what the task requires, or leave to_agent_id out.";
    /// The task is in a state that forbids this.
    TaskStateConflict = "task.state_conflict", StateConflict, "Look at the task's status and do what it allows.";
    /// What was said belongs to an attempt that is over.
    AttemptStale = "attempt.stale", StateConflict, "Nothing to do: a newer attempt counts.";
    /// No such attempt, or not the caller's.
    ExecutionNotFound = "execution.not_found", NotFound, "Look at the task and use the execution_id of one of its attempts.";

    /// No such message, or not one of the caller's.
    MessageNotFound = "message.not_found", NotFound, "Use the message_id of a message that you sent or that waits for you.";
    /// The sender or the reader is not in the channel.
    MessageOutOfScope = "message.out_of_scope", AuthorizationError, "Write in a channel that both belong to: their project, or an objective that both run or ran an attempt of.";
    /// The request names a tool that one of the two may not use.
    MessageActionNotAllowed = "message.action_not_allowed", AuthorizationError, "Name a tool that both may use, or describe in the body what you need.";
    /// The attempt does not run, so nobody would read it.
    MessageRecipientUnavailable = "message.recipient_unavailable", StateConflict, "Write to the agent instead of the attempt.";
    /// As many messages wait for the reader as may.
    MessageInboxFull = "message.inbox_full", StateConflict, "Wait until the reader acknowledges some, or a message expires.";
    /// As many messages of the sender wait as may.
    MessageSenderLimit = "message.sender_limit", StateConflict, "Wait until your readers acknowledge some, or a message expires.";
    /// Nobody acknowledged the message in time.
    MessageExpired = "message.expired", StateConflict, "Nothing to do: it has left the inbox.";

    /// The planner's answer is not exactly one plan of the fields that it may choose.
    PlannerInvalidPlan = "planner.invalid_plan", RuntimeError, "Ask again, or say more exactly what you want; nothing was kept.";
    /// The planner did not answer in time.
    PlannerTimedOut = "planner.timed_out", RuntimeError, "Ask again, with a smaller goal if it repeats; each call spends a turn.";
    /// The planner's turn failed.
    PlannerFailed = "planner.failed", RuntimeError, "Read the runtime's reason, mend it and ask again.";
    /// The planner's runtime is not there, cannot plan or does not start.
    PlannerUnavailable = "planner.unavailable", RuntimeError, "Set planner.runtime_id to a runtime that list_runtimes shows as healthy and with read_only_turn.";

    /// No such proposal, or it is too old to be kept.
    ProposalNotFound = "proposal.not_found", NotFound, "List the proposals and use one of their ids.";
    /// A newer revision took the proposal's place.
    ProposalSuperseded = "proposal.superseded", StateConflict, "Look at the named revision and decide about that one.";
    /// The proposal was approved or rejected before.
    ProposalAlreadyDecided = "proposal.already_decided", StateConflict, "Nothing to do; propose anew for another plan.";
    /// As many proposals wait for a decision as may.
    ProposalTooManyPending = "proposal.too_many_pending", StateConflict, "Approve or reject some of those that wait; list_proposals shows them.";

    /// No such tool request, or it is too old to be kept.
    ApprovalNotFound = "approval.not_found", NotFound, "List the approvals and use one of their ids.";
    /// The tool request was decided before, or ended with its turn, its session or the core.
    ApprovalNotPending = "approval.not_pending", StateConflict, "Nothing to do: look at its state and who decided.";
    /// The project has no rule of this id.
    RuleNotFound = "rule.not_found", NotFound, "List the rules of the project; only those of origin `project` can be changed here.";
    /// The project has as many rules as it may.
    RuleLimitReached = "rule.limit_reached", StateConflict, "Remove rules that are not needed, or put common ones into one with a pattern.";

    /// No worktree can be had: no git, no repository, no commit, or git failed.
    WorkspaceUnavailable = "workspace.unavailable", StateConflict, "See the message: the project must be a git repository with a commit, and git 2.38 or newer must work there. Then retry.";
    /// What is there is not proved to be the attempt's worktree; it stays as it is.
    WorkspaceUnowned = "workspace.unowned", StateConflict, "Look at the named folder: move it away if it is yours. What Cortex kept is on the task's branch.";
    /// The project folder has staged changes, or a merge under way.
    WorkspaceIndexNotClean = "workspace.index_not_clean", StateConflict, "Commit or unstage what is staged, end a merge or rebase, then call again.";
    /// The changes conflict with HEAD of the project folder.
    WorkspaceConflict = "workspace.conflict", StateConflict, "Merge the task's branch yourself; the named paths conflict.";
    /// The changes would overwrite something that is not committed.
    WorkspaceLocalChanges = "workspace.local_changes", StateConflict, "Commit, stash or move away the named paths, then call again.";

    /// The endpoint's port is taken.
    McpPortInUse = "mcp.port_in_use", StateConflict, "Set another mcp.port in config.json, or stop what listens there.";
    /// The endpoint is switched off.
    McpDisabled = "mcp.disabled", StateConflict, "Set mcp.enabled to true in config.json, see that its port is free, and start Cortex again.";
    /// No credential came with the request.
    AuthMissing = "auth.missing", AuthenticationError, "Send the header Authorization: Bearer with the token of `cortex token show`.";
    /// The credential is not known, or not any more.
    AuthInvalid = "auth.invalid", AuthenticationError, "Use the token of `cortex token show`; an old one ends with a rotation.";
    /// The endpoint cannot listen.
    McpListenFailed = "mcp.listen_failed", RuntimeError, "Read the system's reason, or set another mcp.port in config.json.";

    /// No such connection of a remote client.
    ConnectionNotFound = "connection.not_found", NotFound, "List the connections and use one of their ids.";
    /// The connection is in a state that forbids this.
    ConnectionStateConflict = "connection.state_conflict", StateConflict, "Look at the connection's state; a client that still wants in asks again.";

    /// The request is not one JSON-RPC 2.0 message that the endpoint can read.
    HttpBadRequest = "http.bad_request", InvalidArgument, "Send one JSON-RPC 2.0 message as a JSON object.";
    /// The Host header does not name the endpoint.
    HttpForbiddenHost = "http.forbidden_host", AuthorizationError, "Call the endpoint by the address that `cortex status` shows.";
    /// A page from elsewhere sent the request.
    HttpForbiddenOrigin = "http.forbidden_origin", AuthorizationError, "Call the endpoint from a program on this machine.";
    /// Nothing is at this path.
    HttpNotFound = "http.not_found", NotFound, "Send MCP requests to /mcp.";
    /// The path does not take this method.
    HttpMethodNotAllowed = "http.method_not_allowed", Unsupported, "Use the method that the Allow header names.";
    /// The body did not come in time.
    HttpTimeout = "http.timeout", InvalidArgument, "Send the whole request at once.";
    /// The length of the body is not announced.
    HttpLengthRequired = "http.length_required", InvalidArgument, "Send a Content-Length header.";
    /// The body is too long.
    HttpTooLarge = "http.too_large", InvalidArgument, "Send at most 1 MiB; put longer texts into a file of the project.";
    /// The body is not announced as JSON.
    HttpUnsupportedMediaType = "http.unsupported_media_type", InvalidArgument, "Send Content-Type: application/json.";
    /// The headers are too long.
    HttpHeadersTooLarge = "http.headers_too_large", InvalidArgument, "Send at most 16 KiB of headers.";
    /// As many connections are open as are allowed.
    HttpTooManyConnections = "http.too_many_connections", StateConflict, "Close idle connections, then try again.";
}

impl Code {
    /// The code with this wire name.
    pub fn parse(wire: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == wire)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let wire = String::deserialize(deserializer)?;
        Self::parse(&wire).ok_or_else(|| D::Error::custom(format!("no error code {wire}")))
    }
}

impl JsonSchema for Code {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Code".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": "A stable error code" })
    }
}

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Problem {
    /// Where: `tasks[2].depends_on[0]`. Empty: the whole.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl Problem {
    /// A problem at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// A failure.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    code: Code,
    message: String,
    remedy: Option<String>,
    correlation_id: Option<CorrelationId>,
    problems: Vec<Problem>,
    details: BTreeMap<String, Value>,
}

impl Error {
    /// A failure with `code`; `message` says in one sentence what happened to what.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            message: message.into(),
            remedy: None,
            correlation_id: None,
            problems: Vec::new(),
            details: BTreeMap::new(),
        }))
    }

    /// A failure by wrong fields. The message lists them, the first [`PROBLEMS_MAX`] at least.
    pub fn invalid(code: Code, mut problems: Vec<Problem>) -> Self {
        let more = problems.len().saturating_sub(PROBLEMS_MAX);
        if more > 0 {
            problems.truncate(PROBLEMS_MAX);
            problems.push(Problem::new("", format!("{more} more problems are not listed")));
        }
        let mut error = Self::new(code, listed(&problems));
        error.0.problems = problems;
        error
    }

    /// The same, when the wrong fields are inside the field `outer` of what the caller gave.
    #[must_use]
    pub fn inside(mut self, outer: &str) -> Self {
        let inner = &mut self.0;
        if inner.problems.is_empty() {
            return self;
        }
        for problem in inner.problems.iter_mut().filter(|problem| !problem.path.is_empty()) {
            problem.path = format!("{outer}.{}", problem.path);
        }
        inner.message = listed(&inner.problems);
        self
    }

    /// Says more exactly what to do next.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy = Some(remedy.into());
        self
    }

    /// Adds a fact for programs: an id, a list of ids.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.details.insert(key.to_owned(), value.into());
        self
    }

    /// The same failure with each of its texts as `edit` makes it.
    pub(crate) fn with_texts(mut self, edit: impl Fn(&str) -> String) -> Self {
        let inner = &mut *self.0;
        inner.message = edit(&inner.message);
        inner.remedy = inner.remedy.as_deref().map(&edit);
        for problem in &mut inner.problems {
            problem.message = edit(&problem.message);
            problem.path = edit(&problem.path);
        }
        for detail in inner.details.values_mut() {
            if let Value::String(text) = detail {
                *text = edit(text);
            }
        }
        self
    }

    /// Ties it to the log, unless it is tied already.
    #[must_use]
    pub fn correlated(mut self, id: impl FnOnce() -> CorrelationId) -> Self {
        self.0.correlation_id.get_or_insert_with(id);
        self
    }

    /// The stable reason.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What happened, in one sentence.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do next.
    pub fn remediation(&self) -> &str {
        self.0.remedy.as_deref().unwrap_or_else(|| self.0.code.remedy())
    }

    /// Ties it to the log.
    pub fn correlation_id(&self) -> Option<&CorrelationId> {
        self.0.correlation_id.as_ref()
    }

    /// The wrong fields, when that is what it is about.
    pub fn problems(&self) -> &[Problem] {
        &self.0.problems
    }

    /// A fact for programs, by its key.
    pub fn detail(&self, key: &str) -> Option<&Value> {
        self.0.details.get(key)
    }

    /// The failure on the wire: `{kind, code, message, remediation, correlation_id, …}`.
    pub fn to_wire(&self) -> Value {
        let inner = &self.0;
        let mut wire = Map::new();
        wire.insert("kind".into(), json!(inner.code.kind()));
        wire.insert("code".into(), json!(inner.code));
        wire.insert("message".into(), json!(inner.message));
        wire.insert("remediation".into(), json!(self.remediation()));
        if let Some(id) = &inner.correlation_id {
            wire.insert("correlation_id".into(), json!(id));
        }
        if !inner.problems.is_empty() {
            wire.insert("problems".into(), json!(inner.problems));
        }
        wire.extend(inner.details.clone());
        Value::Object(wire)
    }

    /// The failure behind its wire form. A code of another version becomes [`Code::Defect`] with the text kept.
    pub fn from_wire(wire: &Value) -> Self {
        const KNOWN: [&str; 6] =
            ["kind", "code", "message", "remediation", "correlation_id", "problems"];
        let text = |key: &str| wire.get(key).and_then(Value::as_str);
        let message =
            text("message").unwrap_or("the core answered with an error without a message");
        let mut error = match text("code").map(|wire| (wire, Code::parse(wire))) {
            Some((_, Some(code))) => Self::new(code, message),
            Some((unknown, None)) => Self::new(Code::Defect, format!("{unknown}: {message}")),
            None => Self::new(Code::Defect, message),
        };
        error.0.remedy = text("remediation").map(str::to_owned);
        error.0.correlation_id = text("correlation_id").map(CorrelationId::new);
        if let Some(problems) = wire.get("problems") {
            error.0.problems = serde_json::from_value(problems.clone()).unwrap_or_default();
        }
        for (key, value) in wire.as_object().into_iter().flatten() {
            if !KNOWN.contains(&key.as_str()) {
                error.0.details.insert(key.clone(), value.clone());
            }
        }
        error
    }
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.message, self.0.code)
    }
}

impl std::error::Error for Error {}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.to_wire() == other.to_wire()
    }
}

/// Result of the public API.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn wire_names_are_unique_and_dotted() {
        let names: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(code.as_str().split('.').count() == 2, "{code}");
            assert!(code.remedy().ends_with('.') && code.meaning().ends_with('.'), "{code}");
        }
    }

    #[test]
    fn fields_inside_a_field_are_named_by_the_whole_path() {
        let many = (0..30).map(|at| Problem::new(format!("tasks[{at}]"), "is wrong")).collect();
        let error = Error::invalid(Code::InvalidObjective, many).inside("plan");
        assert_eq!(error.problems().len(), PROBLEMS_MAX + 1);
        assert_eq!(error.problems()[0].path, "plan.tasks[0]");
        assert_eq!(error.problems()[PROBLEMS_MAX].path, "", "how many more is about no field");
        assert!(error.message().starts_with("plan.tasks[0]: is wrong; "), "{error}");
        let other = Error::new(Code::ProjectNotFound, "there is no project p");
        assert_eq!(other.clone().inside("plan"), other);
    }

    #[test]
    fn an_error_survives_the_wire() {
        let error = Error::invalid(
            Code::InvalidArguments,
            vec![Problem::new("tasks[0].key", "is missing")],
        )
        .remedy("Add it.")
        .with("project_id", "p1")
        .correlated(|| CorrelationId::new("c1"));
        assert_eq!(Error::from_wire(&error.to_wire()), error);
        assert_eq!(error.to_string(), "tasks[0].key: is missing (validation.invalid_arguments)");
    }
}
