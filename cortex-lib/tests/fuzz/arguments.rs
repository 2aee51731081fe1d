//! Tools and operator commands, called by each kind of caller with any arguments.
//!
//! An input is lines of `caller name arguments`. `<name>` in them stands for an id of the stage or of an earlier answer;
//! arguments that are no JSON are passed on as a text.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cortex_lib::api::{Caller, Catalogue, CommandDef, Effect};
use cortex_lib::error::{Code, Error, Kind};
use jsonschema::Validator;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::shape::{self, FAULTS};
use crate::stage::{ELSEWHERE, Stage, Stages, no_panic, settle};

/// Calls of one input; more would only repeat them.
const CALLS_MAX: usize = 12;
/// The longest that any command may take: more than the planner, which is the slowest.
const PATIENCE: Duration = Duration::from_hours(1);

/// Tries inputs, each as a few calls in a row.
#[derive(Debug, Default)]
pub struct Calls {
    stages: Stages,
    /// What commands answer, by their schemas.
    outputs: BTreeMap<&'static str, Validator>,
    /// The commands that succeeded.
    pub succeeded: BTreeSet<&'static str>,
    /// The commands that refused arguments.
    pub refused: BTreeSet<&'static str>,
}

/// One line of an input.
#[derive(Debug)]
struct Call {
    door: Door,
    name: String,
    args: Value,
}

/// By which door a call comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    /// The local socket: the user, every command.
    Operator,
    User,
    Orchestrator,
    Worker,
    Hook,
}

impl Door {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "operator" => Self::Operator,
            "user" => Self::User,
            "orchestrator" => Self::Orchestrator,
            "worker" => Self::Worker,
            "hook" => Self::Hook,
            _ => return None,
        })
    }

    fn caller(self, stage: &Stage) -> Caller {
        match self {
            Self::Operator | Self::User => Caller::User,
            Self::Orchestrator => stage.callers.orchestrator.clone(),
            Self::Worker => stage.callers.worker.clone(),
            Self::Hook => stage.callers.hook.clone(),
        }
    }

    fn command(self, name: &str) -> Option<&'static CommandDef> {
        let tools = Catalogue::CORTEX.tools.iter().map(|tool| &**tool);
        let operator = Catalogue::CORTEX.operator.iter().filter(|_| self == Self::Operator);
        tools.chain(operator).find(|command| command.name == name)
    }
}

impl Call {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let door = Door::parse(words.next()?)?;
        let name = words.next()?.to_owned();
        let args = words.next().unwrap_or("null");
        let args = serde_json::from_str(args).unwrap_or_else(|_| Value::from(args));
        Some(Self { door, name, args })
    }
}

impl Calls {
    /// Makes the calls of an input. The error says what does not go as it must.
    pub fn run(&mut self, input: &[u8]) -> Result<(), String> {
        let stage = self.stages.next();
        let before = stage.content();
        let text = String::from_utf8_lossy(input);
        for line in text.lines().filter(|line| !line.starts_with('#')).take(CALLS_MAX) {
            let line = stage.names.fill(line.as_bytes());
            let line = String::from_utf8_lossy(&line);
            let Some(call) = Call::parse(&line) else { continue };
            let made = make(stage, &call).map_err(|problem| format!("{line}\n{problem}"))?;
            let told = match &made.answer {
                Ok(value) => value.clone(),
                Err(error) => json!({ "error": error.to_wire() }),
            };
            let is_user = matches!(call.door, Door::User | Door::Operator);
            if !is_user && told.to_string().contains(ELSEWHERE) && !line.contains(ELSEWHERE) {
                return Err(format!("{line}\nanswers with what is not theirs: {told}"));
            }
            if let Some(command) = made.command {
                let output = self
                    .outputs
                    .entry(command.name)
                    .or_insert_with(|| jsonschema::validator_for(command.output_schema()).unwrap());
                if let Some(problem) = output.iter_errors(&told).next() {
                    return Err(format!("{line}\n{problem} in {told}"));
                }
                match &made.answer {
                    Ok(_) => self.succeeded.insert(command.name),
                    Err(error) if error.code() == Code::InvalidArguments => {
                        self.refused.insert(command.name)
                    }
                    Err(_) => false,
                };
            }
            stage.names.learn(&told);
            if made.changed {
                stage.block_on(settle());
            }
        }
        let changed = stage.content() != before;
        if changed {
            self.stages.leave();
        }
        no_panic()
    }
}

/// A call that went as it must.
#[derive(Debug)]
struct Made {
    command: Option<&'static CommandDef>,
    answer: Result<Value, Error>,
    changed: bool,
}

fn make(stage: &mut Stage, call: &Call) -> Result<Made, String> {
    let Call { door, name, args } = call;
    let (caller, command) = (door.caller(stage), door.command(name));
    let cx = stage.cortex.as_caller(caller.clone());
    let before = stage.content();
    let (answer, took) = stage.block_on(async {
        let began = Instant::now();
        let answer = async {
            match door {
                Door::Operator => cx.call_operator_json(name, args.clone()).await,
                _ => cx.call_json(name, args.clone()).await,
            }
        };
        (timeout(PATIENCE, answer).await, began.elapsed())
    });
    let answer = answer.map_err(|_| "it does not end")?;
    let changed = stage.content() != before;
    if let Err(error) = &answer {
        sound(error, command)?;
        let kinds = [Kind::InvalidArgument, Kind::NotFound, Kind::AuthorizationError];
        if changed && kinds.contains(&error.code().kind()) && !is_recorded(command, &caller, args) {
            return Err(format!("it was refused and changed something: {error:?}"));
        }
    }
    fits(&answer, command, &caller, args)?;
    // Whoever waits may see others at work.
    let reads = command.is_some_and(|command| command.effect == Effect::Reads);
    if reads && took.is_zero() && changed {
        return Err("it only reads and changed something".into());
    }
    Ok(Made { command, answer, changed })
}

/// Whether a refusal is put on record: a message that may not be sent leaves an event.
fn is_recorded(command: Option<&'static CommandDef>, caller: &Caller, args: &Value) -> bool {
    let posts = command.filter(|command| command.name == "post_message");
    posts.is_some_and(|posts| posts.access.admits(caller) && posts.check(args.clone()).is_ok())
}

/// Whether an error is one that the command declares, and is whole.
fn sound(error: &Error, command: Option<&'static CommandDef>) -> Result<(), String> {
    let code = error.code();
    let declared = command.is_none_or(|command| {
        command.errors.contains(&code) || CommandDef::COMMON_ERRORS.contains(&code)
    });
    if !declared || FAULTS.contains(&code) {
        return Err(format!("an error that it does not declare: {error:?}"));
    }
    shape::refusal(&json!({ "error": error.to_wire() }))
}

/// Whether the answer is one that these arguments and this caller must get.
fn fits(
    answer: &Result<Value, Error>,
    command: Option<&'static CommandDef>,
    caller: &Caller,
    args: &Value,
) -> Result<(), String> {
    let told = answer.as_ref().map_err(Error::code).err();
    let must = |code: Code| {
        if told == Some(code) {
            Ok(())
        } else {
            Err(format!("{code} is due, and comes {answer:?}"))
        }
    };
    let Some(command) = command else { return must(Code::ToolNotFound) };
    if !command.access.admits(caller) {
        return must(Code::PermissionDenied);
    }
    let Err(wrong) = command.check(args.clone()) else { return Ok(()) };
    must(Code::InvalidArguments)?;
    let problems = answer.as_ref().map_err(Error::problems).err().unwrap_or_default();
    if problems.is_empty() || problems != wrong.problems() {
        return Err(format!("wrong arguments whose fields are not told: {answer:?}"));
    }
    Ok(())
}
