//! Commands that do nothing but show every shape of arguments.

use std::ops::Deref;
use std::sync::Arc;

use cortex_lib::Cortex;
use cortex_lib::api::{
    Access, Caller, Catalogue, Command, CommandDef, Cx, Effect, Granted, SessionCaller,
    SessionKind, Tool, ToolDef, one_of, present,
};
use cortex_lib::env::SystemEnv;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::{AgentId, ObjectiveId, ProjectId, SessionId};
use cortex_lib::port::{ScriptedHost, ScriptedWorld};
use cortex_lib::store::{NoFaults, Store, StoreOptions};
use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

pub static TOOLS: [ToolDef; 4] = [
    ToolDef::of::<ListThings>(),
    ToolDef::of::<CreateObjective>(),
    ToolDef::of::<UpdateAgent>(),
    ToolDef::of::<PostMessage>(),
];

pub static OPERATOR: [CommandDef; 1] = [CommandDef::of::<PutRule>()];

pub const CATALOGUE: Catalogue = Catalogue { tools: &TOOLS, operator: &OPERATOR };

/// A door to a core of its own.
pub struct Door {
    cx: Cx,
    _dir: TempDir,
}

impl Deref for Door {
    type Target = Cx;

    fn deref(&self) -> &Cx {
        &self.cx
    }
}

/// A core that is `ready` for changes, or on its way down.
pub async fn core(ready: bool) -> (Cortex, TempDir) {
    let dir = TempDir::new().unwrap();
    let options = StoreOptions { env: Arc::new(SystemEnv::new()), events_kept: 1_000 };
    let path = dir.path().join("cortex.db");
    let store = Store::open_inline(&path, options, Arc::new(NoFaults)).unwrap();
    let host = Arc::new(ScriptedHost::new(&ScriptedWorld::new()));
    let cortex = Cortex::builder(dir.path()).open_on(store, host).await.unwrap();
    if !ready {
        // Nobody waits for the end, so it stays on its way.
        assert!(cortex.shutdown().now_or_never().is_none(), "it was down at once");
    }
    (cortex, dir)
}

/// Lets `caller` give the fake commands to a core that is `ready` for changes.
pub async fn cx(caller: Caller, ready: bool) -> Door {
    let (cortex, dir) = core(ready).await;
    Door { cx: Cx::with_catalogue(caller, cortex.core().clone(), CATALOGUE), _dir: dir }
}

pub fn session(kind: SessionKind) -> Caller {
    Caller::Session(SessionCaller {
        kind,
        agent_id: AgentId::new("a1"),
        project_id: ProjectId::new("p1"),
        session_id: SessionId::new("s1"),
    })
}

/// List what the caller may see.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListThings {}

/// What the caller may see.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Things {
    /// The project that the caller is bound to.
    pub project_id: Option<ProjectId>,
    /// Who calls.
    pub caller: String,
}

impl Command for ListThings {
    type Output = Things;
    const NAME: &'static str = "list_things";
    const ACCESS: Access = Access::EVERYONE;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[];

    async fn call(self, cx: Granted<'_>) -> Result<Things> {
        Ok(Things { project_id: cx.project_scope().cloned(), caller: cx.caller().to_string() })
    }
}

impl Tool for ListThings {}

/// Create an objective. Its tasks run
/// in the order of their dependencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateObjective {
    /// What it is called.
    #[schemars(length(min = 1, max = 200))]
    pub title: String,
    /// 1 to 10 tasks.
    pub tasks: Vec<PlanTask>,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanTask {
    /// A short name, for `depends_on`.
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9_-]{0,31}$"))]
    pub key: String,
    /// What to do.
    #[schemars(length(min = 1), extend("x-max-bytes" = 20))]
    pub description: String,
    /// How urgent it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Keys of the tasks it waits for.
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// Seconds for one attempt.
    #[serde(default)]
    #[schemars(range(min = 10, max = 86_400))]
    pub timeout_secs: Option<u32>,
    /// Repeats after a failure.
    #[serde(default = "three")]
    pub max_retries: u8,
    /// A share of the machine.
    pub share: Option<f64>,
    /// Facts for the agent.
    #[serde(default)]
    pub labels: std::collections::BTreeMap<String, u64>,
}

fn three() -> u8 {
    3
}

/// How urgent a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Runs last.
    Low,
    /// Runs when it is its turn.
    Normal,
}

/// What was asked for.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectiveReply {
    /// As it was given.
    pub objective: CreateObjective,
    /// Where it stands.
    #[serde(flatten)]
    pub place: Place,
}

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Place {
    /// Nowhere.
    Nowhere {},
    /// In a worktree.
    Worktree {
        /// Its branch.
        branch: String,
    },
}

impl Command for CreateObjective {
    type Output = ObjectiveReply;
    const NAME: &'static str = "create_objective";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[Code::InvalidObjective, Code::ProjectNotFound];

    async fn call(self, _: Granted<'_>) -> Result<ObjectiveReply> {
        if self.title == "broken" {
            return Err(Error::new(Code::StoreFailed, "the disk has gone"));
        }
        Ok(ObjectiveReply { objective: self, place: Place::Worktree { branch: "main".into() } })
    }
}

impl Tool for CreateObjective {}

/// Change an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-some-of" = [["name", "model"]]))]
pub struct UpdateAgent {
    /// Which agent.
    pub agent_id: AgentId,
    /// Its new name.
    #[serde(default)]
    pub name: Option<String>,
    /// The model; `null` for the runtime's own.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", length(min = 1), extend("x-nullable" = true))]
    #[expect(clippy::option_option, reason = "absent, null and a value are three things")]
    pub model: Option<Option<String>>,
}

/// What was changed.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentReply {
    /// What happened to the model.
    pub model: String,
}

impl Command for UpdateAgent {
    type Output = AgentReply;
    const NAME: &'static str = "update_agent";
    const ACCESS: Access = Access::USER_OR_ORCHESTRATOR;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[Code::AgentNotFound];

    async fn call(self, _: Granted<'_>) -> Result<AgentReply> {
        let model = match self.model {
            None => "kept".to_owned(),
            Some(None) => "cleared".to_owned(),
            Some(Some(model)) => model,
        };
        Ok(AgentReply { model })
    }
}

impl Tool for UpdateAgent {}

/// Send a message. Give exactly one of `project_id` and `objective_id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PostMessageWire", into = "PostMessageWire")]
pub struct PostMessage {
    pub channel: Channel,
    pub body: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Channel {
    Project(ProjectId),
    Objective(ObjectiveId),
}

/// Send a message. Give exactly one of `project_id` and `objective_id`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-one-of" = [["project_id", "objective_id"]]))]
struct PostMessageWire {
    /// The project's channel.
    project_id: Option<ProjectId>,
    /// The objective's channel.
    objective_id: Option<ObjectiveId>,
    /// What to say.
    #[schemars(length(min = 1, max = 100))]
    body: String,
}

impl TryFrom<PostMessageWire> for PostMessage {
    type Error = String;

    fn try_from(wire: PostMessageWire) -> Result<Self, String> {
        let channel = one_of([
            ("project_id", wire.project_id.map(Channel::Project)),
            ("objective_id", wire.objective_id.map(Channel::Objective)),
        ])?;
        Ok(Self { channel, body: wire.body })
    }
}

impl From<PostMessage> for PostMessageWire {
    fn from(message: PostMessage) -> Self {
        let (project_id, objective_id) = match message.channel {
            Channel::Project(id) => (Some(id), None),
            Channel::Objective(id) => (None, Some(id)),
        };
        Self { project_id, objective_id, body: message.body }
    }
}

impl JsonSchema for PostMessage {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PostMessage".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        PostMessageWire::json_schema(generator)
    }
}

/// Nothing.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {}

impl Command for PostMessage {
    type Output = Done;
    const NAME: &'static str = "post_message";
    const ACCESS: Access = Access::SESSIONS_TOO;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[Code::ProjectNotFound, Code::ObjectiveNotFound];

    async fn call(self, _: Granted<'_>) -> Result<Done> {
        Ok(Done {})
    }
}

impl Tool for PostMessage {}

/// Put a rule in front of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PutRule {
    /// What it is about.
    pub subject: Subject,
    /// How many rules come before it.
    pub position: Option<u32>,
    /// Which of two rules at one position comes first.
    pub weight: Option<i64>,
    /// How often it was changed.
    pub edits: Option<u64>,
}

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Subject {
    /// Everything.
    All {},
    /// One tool.
    Tool {
        /// Its name.
        #[schemars(length(min = 1, max = 10))]
        name: String,
        /// Only for this agent.
        agent_id: Option<AgentId>,
    },
}

impl Command for PutRule {
    type Output = Done;
    const NAME: &'static str = "put_rule";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[];

    async fn call(self, _: Granted<'_>) -> Result<Done> {
        Ok(Done {})
    }
}
