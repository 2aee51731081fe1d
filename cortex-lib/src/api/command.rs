//! What makes a struct a command, and a command a tool.

use std::any::TypeId;
use std::pin::Pin;
use std::sync::LazyLock;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::access::Access;
use super::arguments::Arguments;
use super::cx::{Cx, Granted};
use super::schema;
use crate::error::{Code, Error, Result};

/// What a call does to the state of Cortex. No command is destructive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Reads,
    /// Something, each time.
    Writes,
    /// Something at most once: a second call finds it done.
    WritesOnce,
    /// Something, each time, but only at the end of long work: a caller that goes away ends the work.
    WritesLast,
}

/// Something a caller can ask of the core. Its arguments are `Self`, its description is the doc comment
/// of `Self`.
///
/// Bounds of fields are written as schemars attributes; both doors of [`Cx`] enforce them before
/// [`call`](Self::call) sees the value. Besides those of schemars there are four extensions, written
/// `#[schemars(extend("…" = …))]`:
///
/// - `x-nullable` on a field: `null` has a meaning of its own and is not the same as leaving it out.
/// - `x-max-bytes` on a field: a bound in UTF-8 bytes; the published schema says `maxLength`.
/// - `x-one-of` on the struct: lists of fields of which exactly one must be given. Schemas cannot say that
///   in a way that the model APIs take.
/// - `x-some-of` on the struct: lists of fields of which at least one must be given.
pub trait Command: Serialize + DeserializeOwned + JsonSchema + Send + Sized + 'static {
    /// What it answers.
    type Output: Serialize + DeserializeOwned + JsonSchema + Send;
    /// Its name on the wire.
    const NAME: &'static str;
    /// Who may give it.
    const ACCESS: Access;
    /// What it does.
    const EFFECT: Effect;
    /// The codes it can fail with, besides those of every command ([`CommandDef::COMMON_ERRORS`]).
    const ERRORS: &'static [Code];

    /// Does the work.
    fn call(self, cx: Granted<'_>) -> impl Future<Output = Result<Self::Output>> + Send;
}

/// What callers of a tool wait for when it takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What happens meanwhile, as the beginning of a sentence.
    pub what: &'static str,
    /// The longest that it takes.
    pub at_most: Duration,
}

/// A command that is also on MCP.
pub trait Tool: Command {
    /// What its callers wait for, if it may take longer than a few seconds. They are told while they wait.
    const WAIT: Option<Wait> = None;
}

/// The answer of a command whose types are erased.
pub type Reply<'a> = Pin<Box<dyn Future<Output = Result<Box<RawValue>>> + Send + 'a>>;

/// A command with its types erased: what is listed, checked, called by name and printed.
#[derive(Debug)]
pub struct CommandDef {
    /// Its name on the wire.
    pub name: &'static str,
    /// Who may give it.
    pub access: Access,
    /// What it does.
    pub effect: Effect,
    /// The codes it can fail with, besides [`COMMON_ERRORS`](Self::COMMON_ERRORS).
    pub errors: &'static [Code],
    type_id: TypeId,
    contract: LazyLock<Contract>,
    parses: fn(Value) -> Result<Value>,
    runs: for<'a> fn(&'a Cx, &'static Self, Value) -> Reply<'a>,
}

/// What a command says about itself, made once on first use.
#[derive(Debug)]
struct Contract {
    description: String,
    input: Value,
    output: Value,
    arguments: Result<Arguments, String>,
}

impl CommandDef {
    /// The codes that any command can fail with.
    pub const COMMON_ERRORS: &'static [Code] = &[
        Code::PermissionDenied,
        Code::InvalidArguments,
        Code::CoreNotReady,
        Code::CoreStopped,
        Code::AttemptStale,
        Code::StoreDiskFull,
        Code::StoreFailed,
        Code::Defect,
    ];

    /// Erases the types of `C`.
    pub const fn of<C: Command>() -> Self {
        Self {
            name: C::NAME,
            access: C::ACCESS,
            effect: C::EFFECT,
            errors: C::ERRORS,
            type_id: TypeId::of::<C>(),
            contract: LazyLock::new(Contract::of::<C>),
            parses: |args| to_wire(C::NAME, &Arguments::parse::<C>(args)?),
            runs: |cx, def, args| {
                Box::pin(async move {
                    let command = Arguments::parse::<C>(args)?;
                    cx.check_may_run(def)?;
                    let output = command.call(Granted::by(cx)).await?;
                    to_raw_value(&output).map_err(|error| no_json(C::NAME, &error))
                })
            },
        }
    }

    /// What it is for: the doc comment of its struct.
    pub fn description(&self) -> &str {
        &self.contract.description
    }

    /// JSON Schema of the arguments: closed, without references, an object at the root.
    pub fn input_schema(&self) -> &Value {
        &self.contract.input
    }

    /// JSON Schema of the answer: the command's output, or `{error}`.
    pub fn output_schema(&self) -> &Value {
        &self.contract.output
    }

    /// Checks arguments without running anything. The answer is how the command writes them itself.
    ///
    /// Fails with [`Code::InvalidArguments`], naming every wrong field.
    pub fn check(&self, args: Value) -> Result<Value> {
        (self.parses)(self.arguments()?.check(args)?)
    }

    pub(super) fn is<C: Command>(&self) -> bool {
        self.type_id == TypeId::of::<C>()
    }

    pub(super) fn arguments(&self) -> Result<&Arguments> {
        self.contract.arguments.as_ref().map_err(|reason| {
            Error::new(Code::Defect, format!("the schema of {} does not hold: {reason}", self.name))
        })
    }

    pub(super) fn run<'a>(&'static self, cx: &'a Cx, args: Value) -> Reply<'a> {
        (self.runs)(cx, self, args)
    }
}

impl Contract {
    fn of<C: Command>() -> Self {
        let schema = schema::arguments::<C>();
        Self {
            output: schema::output::<C::Output>(),
            input: schema.published,
            description: schema.description,
            arguments: Arguments::new(schema.annotated),
        }
    }
}

/// A command's own value as JSON.
pub(super) fn to_wire(name: &str, value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value).map_err(|error| no_json(name, &error))
}

fn no_json(name: &str, error: &serde_json::Error) -> Error {
    Error::new(Code::Defect, format!("{name} made a value that is no JSON: {error}"))
}

/// A command that is known to be a tool.
#[derive(Debug)]
pub struct ToolDef {
    /// What its callers wait for.
    pub wait: Option<Wait>,
    command: CommandDef,
}

impl ToolDef {
    /// Erases the types of `T`.
    pub const fn of<T: Tool>() -> Self {
        Self { wait: T::WAIT, command: CommandDef::of::<T>() }
    }
}

impl std::ops::Deref for ToolDef {
    type Target = CommandDef;

    fn deref(&self) -> &CommandDef {
        &self.command
    }
}
