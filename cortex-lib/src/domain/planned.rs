//! The planner's answer: a text that has to be exactly one plan before anything of it is believed.

use serde_json::{Map, Value};

use super::plan;
use super::proposed::{Estimate, ProposedPlan};
use super::text::head_and_tail;
use crate::error::{Code, Error, Problem, Result};
use crate::limits::{DESCRIPTION_BYTES_MAX, PLAN_BYTES_MAX, SUMMARY_BYTES_MAX, TITLE_CHARS_MAX};

/// What the planner was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The arguments of `create_objective`: no summary and no estimates.
    Draft,
    /// A plan for a person to decide about.
    Proposal,
}

/// Fields of a plan and of its tasks that the planner may choose in any case.
const PLAN_FIELDS: [&str; 2] = ["title", "tasks"];
const TASK_FIELDS: [&str; 7] =
    ["key", "title", "description", "type", "priority", "depends_on", "requirements"];

/// The longest part of the planner's answer that a refusal repeats, in bytes.
const REPEATED_BYTES_MAX: usize = 256;

impl Asked {
    fn allows_in_plan(self, name: &str) -> bool {
        PLAN_FIELDS.contains(&name) || self == Self::Proposal && name == "summary"
    }

    fn allows_in_task(self, name: &str) -> bool {
        TASK_FIELDS.contains(&name) || self == Self::Proposal && name == "estimate"
    }
}

/// Reads the answer of the planner and checks it by every rule of an objective that needs no project.
///
/// # Errors
///
/// `planner.invalid_plan` unless it is exactly one JSON object of at most [`PLAN_BYTES_MAX`] bytes with only the
/// fields that the planner may choose; `validation.invalid_proposal` for an estimate that is none; those of
/// [`plan::check`]. The first of these classes decides.
pub fn read(text: &str, asked: Asked) -> Result<ProposedPlan> {
    if text.len() > PLAN_BYTES_MAX {
        let message = format!("must have at most {PLAN_BYTES_MAX} bytes, has {}", text.len());
        return Err(invalid(vec![Problem::new("", message)]));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| {
        invalid(vec![Problem::new("", format!("is not one JSON object and nothing else: {error}"))])
    })?;
    let Value::Object(fields) = value else {
        return Err(invalid(vec![Problem::new("", "is not a JSON object")]));
    };
    let unknown = forbidden(&fields, asked);
    if !unknown.is_empty() {
        return Err(invalid(unknown));
    }
    let estimates = bad_estimates(&fields);
    if !estimates.is_empty() {
        return Err(Error::invalid(Code::InvalidProposal, estimates));
    }
    let plan = typed(text)?;
    let lengths = bad_lengths(&plan);
    if !lengths.is_empty() {
        return Err(invalid(lengths));
    }
    plan::check(&plan.specs(), |_, _| None, None)?;
    Ok(plan)
}

fn invalid(problems: Vec<Problem>) -> Error {
    let (whole, fields): (Vec<_>, Vec<_>) =
        problems.into_iter().partition(|problem| problem.path.is_empty());
    // A problem of the whole needs a subject: its reader sees no field.
    let whole = whole
        .into_iter()
        .map(|problem| Problem::new("", format!("the planner's answer {}", problem.message)));
    Error::invalid(Code::PlannerInvalidPlan, whole.chain(fields).collect())
}

/// What the planner chose although it may not.
fn forbidden(fields: &Map<String, Value>, asked: Asked) -> Vec<Problem> {
    const NOT_ITS: &str = "is not for the planner to choose";
    let mut problems: Vec<_> = fields
        .keys()
        .filter(|name| !asked.allows_in_plan(name))
        .map(|name| Problem::new(repeated(name), NOT_ITS))
        .collect();
    for (at, task) in tasks(fields) {
        let Value::Object(task) = task else {
            problems.push(Problem::new(format!("tasks[{at}]"), "must be an object"));
            continue;
        };
        let unknown = task.keys().filter(|name| !asked.allows_in_task(name));
        problems.extend(
            unknown.map(|name| Problem::new(format!("tasks[{at}].{}", repeated(name)), NOT_ITS)),
        );
        let requirements = task.get("requirements").and_then(Value::as_array);
        for (on, requirement) in requirements.into_iter().flatten().enumerate() {
            if requirement == plan::Requirement::ISOLATION {
                let path = format!("tasks[{at}].requirements[{on}]");
                problems.push(Problem::new(path, format!("{requirement} {NOT_ITS}")));
            }
        }
    }
    problems
}

fn bad_estimates(fields: &Map<String, Value>) -> Vec<Problem> {
    let is_one = |estimate: &Value| {
        estimate.is_null()
            || estimate.is_string() && serde_json::from_value::<Estimate>(estimate.clone()).is_ok()
    };
    tasks(fields)
        .filter_map(|(at, task)| Some((at, task.get("estimate")?)))
        .filter(|(_, estimate)| !is_one(estimate))
        .map(|(at, _)| {
            Problem::new(format!("tasks[{at}].estimate"), "must be small, medium or large")
        })
        .collect()
}

fn tasks(fields: &Map<String, Value>) -> impl Iterator<Item = (usize, &Value)> {
    fields.get("tasks").and_then(Value::as_array).into_iter().flatten().enumerate()
}

/// The plan as a type. Read from the text, because only there a field that is given twice is seen.
fn typed(text: &str) -> Result<ProposedPlan> {
    let reader = &mut serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(reader).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { repeated(&path) };
        let message = head_and_tail(&error.into_inner().to_string(), REPEATED_BYTES_MAX).text;
        // Without a field it is about the whole: "the planner's answer: missing field `title`".
        let message = if path.is_empty() { format!("does not hold: {message}") } else { message };
        invalid(vec![Problem::new(path, message)])
    })
}

fn bad_lengths(plan: &ProposedPlan) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut check = |path: String, length: usize, max: usize, unit: &str| {
        if length == 0 || length > max {
            let message = format!("must have 1 to {max} {unit}, has {length}");
            problems.push(Problem::new(path, message));
        }
    };
    check("title".to_owned(), plan.title.chars().count(), TITLE_CHARS_MAX, "characters");
    if let Some(summary) = &plan.summary {
        check("summary".to_owned(), summary.len(), SUMMARY_BYTES_MAX, "bytes");
    }
    for (at, task) in plan.tasks.iter().enumerate() {
        let path = |field: &str| format!("tasks[{at}].{field}");
        check(path("title"), task.title.chars().count(), TITLE_CHARS_MAX, "characters");
        check(path("description"), task.description.len(), DESCRIPTION_BYTES_MAX, "bytes");
    }
    problems
}

/// What is repeated of a name that the planner made up.
fn repeated(name: &str) -> String {
    let cut: String = name.chars().take(64).collect();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.[]".contains(c);
    if !cut.is_empty() && cut.chars().all(plain) { cut } else { format!("{cut:?}") }
}
