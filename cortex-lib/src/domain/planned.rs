//! The planner's answer: a text that has to be exactly one plan before anything of it is believed.

use serde_json::{Map, Value};

use super::plan;
use super::proposed::{Estimate, ProposedPlan};
use super::text::head_and_tail;
use crate::error::{Code, Error, Problem, Result};
use crate::limits::{DESCRIPTION_BYTES_MAX, PLAN_BYTES_MAX, SUMMARY_BYTES_MAX, TITLE_CHARS_MAX};
use crate::secret::{redact, redact_in_place};

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

/// Reads the answer of the planner and checks it by every rule of an objective that needs no project. What looks like
/// a secret is taken out of each of its texts, and of the errors: in the answer as a whole, one could seem to reach
/// from one text into another.
///
/// # Errors
///
/// `planner.invalid_plan` unless it is exactly one JSON object of at most [`PLAN_BYTES_MAX`] bytes with only the
/// fields that the planner may choose; `validation.invalid_proposal` for an estimate that is none; those of
/// [`plan::check`]. The first of these classes decides.
pub fn read(text: &str, asked: Asked) -> Result<ProposedPlan> {
    checked(text, asked).map_err(|error| error.with_texts(|text| redact(text).into_owned()))
}

fn checked(text: &str, asked: Asked) -> Result<ProposedPlan> {
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
    let mut plan = typed(text)?;
    clean(&mut plan);
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
        let message = if path.is_empty() { format!("does not hold: {message}") } else { message };
        invalid(vec![Problem::new(path, message)])
    })
}

/// Takes the secrets out. A key stays as it is: others depend on it, and its form leaves little room for one.
fn clean(plan: &mut ProposedPlan) {
    let of_tasks = plan.tasks.iter_mut().flat_map(|task| [&mut task.title, &mut task.description]);
    let of_plan = [&mut plan.title].into_iter().chain(&mut plan.summary);
    of_plan.chain(of_tasks).for_each(redact_in_place);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::domain::plan::TaskType;
    use crate::domain::proposed::ProposedTask;
    use crate::domain::schedule::Priority;

    fn task(key: &str, depends_on: &[&str]) -> Value {
        json!({
            "key": key, "title": "t", "description": "d", "type": "test", "priority": "high",
            "depends_on": depends_on, "requirements": ["resume"],
        })
    }

    fn plan_of(tasks: &[Value]) -> Value {
        json!({ "title": "o", "tasks": tasks })
    }

    /// A plan of one task with `change` made to it.
    fn changed(change: impl FnOnce(&mut Value)) -> String {
        let mut plan = plan_of(&[task("a", &[])]);
        change(&mut plan);
        plan.to_string()
    }

    fn refusal(text: &str) -> (Code, Vec<String>) {
        let error = read(text, Asked::Proposal).unwrap_err();
        (error.code(), error.problems().iter().map(|problem| problem.path.clone()).collect())
    }

    fn invalid_plan(path: &str) -> (Code, Vec<String>) {
        (Code::PlannerInvalidPlan, vec![path.to_owned()])
    }

    /// What looks like the two ends of a key stands in two tasks.
    #[test]
    fn no_secret_is_looked_for_across_the_texts_of_a_plan() {
        let mut plan = plan_of(&[task("a", &[]), task("b", &["a"]), task("c", &["b"])]);
        plan["tasks"][0]["description"] = json!("Find -----BEGIN PRIVATE KEY-----");
        plan["tasks"][1]["description"] = json!("Set password = 'abcdef1\\");
        plan["tasks"][2]["description"] = json!("And find -----END PRIVATE KEY-----");
        for text in [plan.to_string(), serde_json::to_string_pretty(&plan).unwrap()] {
            let read = read(&text, Asked::Proposal).unwrap();
            let told: Vec<_> = read.tasks.iter().map(|task| task.description.as_str()).collect();
            assert_eq!(told, ["Find [secret]", "Set password = '[secret]\\", "And find [secret]"]);
        }
    }

    /// S-215 for plans: texts and refusals, also where the secret is written with escapes.
    #[test]
    fn secrets_leave_every_text_of_a_plan_and_of_its_refusal() {
        let secret = "sk-ant-api03-abcdefghijklmnop";
        let mut plan = plan_of(&[task("a", &[])]);
        for at in ["/title", "/tasks/0/title", "/tasks/0/description"] {
            *plan.pointer_mut(at).unwrap() = json!(format!("with {secret}"));
        }
        plan["summary"] = json!(secret);
        let text = plan.to_string().replace("sk-ant", "\\u0073k-ant");
        let read = serde_json::to_string(&read(&text, Asked::Proposal).unwrap()).unwrap();
        assert!(!read.contains("abcdefghijklmnop"), "{read}");
        assert_eq!(read.matches("with [secret]").count(), 3, "{read}");
        for text in [
            changed(|plan| plan["tasks"][0]["type"] = json!(secret)),
            changed(|plan| plan[secret] = json!(1)),
            changed(|plan| plan["tasks"][0]["depends_on"] = json!([secret])),
        ] {
            let told = super::read(&text, Asked::Proposal).unwrap_err().to_wire().to_string();
            assert!(!told.contains("abcdefghijklmnop"), "{told}");
        }
    }

    /// S-106
    #[test]
    fn a_plan_is_read_whole() {
        let text = json!({ "title": "o", "summary": "s", "tasks": [
            { "key": "a", "title": "first", "description": "d", "estimate": "large" },
            { "key": "b", "title": "then", "description": "e", "type": "review", "priority": "low",
              "depends_on": ["a"], "requirements": ["resume"], "estimate": null },
        ]});
        let plan = read(&format!("\n {text} \n"), Asked::Proposal).unwrap();
        let first = ProposedTask {
            key: "a".into(),
            title: "first".into(),
            description: "d".into(),
            task_type: TaskType::Other,
            priority: Priority::Normal,
            depends_on: Vec::new(),
            requirements: Vec::new(),
            estimate: Some(Estimate::Large),
        };
        assert_eq!(plan.summary.as_deref(), Some("s"));
        assert_eq!(plan.tasks[0], first);
        assert_eq!(plan.tasks[1].task_type, TaskType::Review);
        assert_eq!((plan.tasks[1].estimate, plan.tasks[1].depends_on.len()), (None, 1));
    }

    /// S-103, S-104
    #[test]
    fn only_one_object_and_nothing_around_it_is_a_plan() {
        let plan = plan_of(&[task("a", &[])]).to_string();
        let fenced = format!("```json\n{plan}\n```");
        for text in ["", "{", "[]", "null", "\"plan\"", &fenced, &format!("Here: {plan}")] {
            assert_eq!(refusal(text), invalid_plan(""), "{text}");
        }
        for text in [format!("{plan} That is all."), format!("{plan}{plan}"), format!("[{plan}]")] {
            assert_eq!(refusal(&text), invalid_plan(""), "{text}");
        }
        assert_eq!(Code::PlannerInvalidPlan.kind(), crate::error::Kind::RuntimeError);
    }

    /// S-109
    #[test]
    fn an_answer_of_256_kib_is_read_and_one_byte_more_is_not() {
        let plan = plan_of(&[task("a", &[])]).to_string();
        let padded = |size: usize| format!("{plan}{}", " ".repeat(size - plan.len()));
        assert!(read(&padded(PLAN_BYTES_MAX), Asked::Proposal).is_ok());
        assert_eq!(refusal(&padded(PLAN_BYTES_MAX + 1)), invalid_plan(""));
    }

    /// S-108, S-120
    #[test]
    fn what_is_not_for_the_planner_to_choose_is_refused_by_name() {
        for field in [
            "assigned_agent_id",
            "agent",
            "paths",
            "outputs",
            "timeout_secs",
            "max_retries",
            "model",
            "permissions",
            "commands",
        ] {
            let text = changed(|plan| plan["tasks"][0][field] = json!(null));
            assert_eq!(refusal(&text), invalid_plan(&format!("tasks[0].{field}")));
            let text = changed(|plan| plan[field] = json!("x"));
            assert_eq!(refusal(&text), invalid_plan(field));
        }
        let text = changed(|plan| {
            plan["tasks"][0]["requirements"] = json!(["resume", "workspace_isolation"]);
        });
        assert_eq!(refusal(&text), invalid_plan("tasks[0].requirements[1]"));
        let text = changed(|plan| plan["a\nb"] = json!("x"));
        assert_eq!(refusal(&text), invalid_plan("\"a\\nb\""), "what it made up is quoted");
    }

    /// S-101: a draft is the arguments of `create_objective`.
    #[test]
    fn a_draft_has_no_summary_and_no_estimates() {
        let draft = plan_of(&[task("a", &[])]).to_string();
        assert_eq!(read(&draft, Asked::Draft), read(&draft, Asked::Proposal));
        for text in [
            changed(|plan| plan["summary"] = json!("s")),
            changed(|plan| plan["tasks"][0]["estimate"] = json!("small")),
        ] {
            assert!(read(&text, Asked::Proposal).is_ok());
            let refused = read(&text, Asked::Draft).unwrap_err();
            assert_eq!(refused.code(), Code::PlannerInvalidPlan);
        }
    }

    /// S-103, S-116
    #[test]
    fn a_field_of_another_type_or_length_is_named() {
        for (pointer, value, path) in [
            ("/title", json!(7), "title"),
            ("/title", json!(""), "title"),
            ("/title", json!("ü".repeat(201)), "title"),
            ("/summary", json!(""), "summary"),
            ("/tasks", json!({}), "tasks"),
            ("/tasks/0", json!(["a", "t", "d"]), "tasks[0]"),
            ("/tasks/0/title", json!("x".repeat(201)), "tasks[0].title"),
            ("/tasks/0/description", json!(""), "tasks[0].description"),
            ("/tasks/0/description", json!("x".repeat(65_537)), "tasks[0].description"),
            ("/tasks/0/type", json!("chore"), "tasks[0].type"),
            ("/tasks/0/priority", json!(null), "tasks[0].priority"),
            ("/tasks/0/depends_on", json!("a"), "tasks[0].depends_on"),
            ("/tasks/0/requirements", json!(["telepathy"]), "tasks[0].requirements[0]"),
        ] {
            let text = changed(|plan| {
                plan["summary"] = json!("s");
                *plan.pointer_mut(pointer).unwrap() = value;
            });
            assert_eq!(refusal(&text), invalid_plan(path), "{pointer}");
        }
        let text = changed(|plan| plan["title"] = json!("ü".repeat(200)));
        assert!(read(&text, Asked::Proposal).is_ok(), "characters count, not bytes");
        let text = changed(|plan| drop(plan["tasks"][0].as_object_mut().unwrap().remove("title")));
        let error = read(&text, Asked::Proposal).unwrap_err();
        assert_eq!(error.code(), Code::PlannerInvalidPlan, "a task has a title");
        assert!(error.message().starts_with("tasks[0]: missing field `title`"), "{error}");
        let twice = r#"{"title": "a", "title": "b", "tasks": []}"#;
        assert_eq!(refusal(twice).0, Code::PlannerInvalidPlan, "which one counts?");
    }

    /// S-110
    #[test]
    fn an_estimate_that_is_none_has_a_code_of_its_own() {
        for estimate in [json!("huge"), json!(""), json!(3), json!({ "small": null })] {
            let text = changed(|plan| plan["tasks"][0]["estimate"] = estimate);
            let refused = (Code::InvalidProposal, vec!["tasks[0].estimate".to_owned()]);
            assert_eq!(refusal(&text), refused);
        }
        let text = changed(|plan| {
            plan["tasks"][0]["estimate"] = json!("huge");
            plan["tasks"][0]["model"] = json!("x");
        });
        assert_eq!(refusal(&text), invalid_plan("tasks[0].model"), "the first class decides");
    }

    /// S-100, S-105
    #[test]
    fn a_plan_that_breaks_a_rule_fails_with_the_code_of_the_rule() {
        let many: Vec<_> = (0..11).map(|n| task(&format!("t{n}"), &[])).collect();
        for (tasks, code, path) in [
            (Vec::new(), Code::InvalidObjective, "tasks"),
            (many, Code::InvalidObjective, "tasks"),
            (vec![task("A!", &[])], Code::InvalidObjective, "tasks[0].key"),
            (vec![task("a", &["a"])], Code::InvalidObjective, "tasks[0].depends_on[0]"),
            (vec![task("a", &["x"])], Code::TaskUnknownDependency, "tasks[0].depends_on[0]"),
            (vec![task("a", &["b"]), task("b", &["a"])], Code::TaskDependencyCycle, "tasks"),
        ] {
            let refused = (code, vec![path.to_owned()]);
            assert_eq!(refusal(&plan_of(&tasks).to_string()), refused);
        }
    }

    #[test]
    fn a_refusal_does_not_repeat_what_is_long() {
        let long = "x".repeat(100_000);
        for text in [
            changed(|plan| plan["tasks"][0]["type"] = json!(long)),
            changed(|plan| plan["tasks"][0]["requirements"] = json!([long])),
            changed(|plan| plan[&long] = json!(1)),
        ] {
            let error = read(&text, Asked::Proposal).unwrap_err();
            assert_eq!(error.code(), Code::PlannerInvalidPlan);
            assert!(error.message().len() < 1_000, "{}", error.message().len());
        }
    }

    fn any_task(number: usize) -> impl Strategy<Value = ProposedTask> {
        let estimate = proptest::option::of(prop_oneof![
            Just(Estimate::Small),
            Just(Estimate::Medium),
            Just(Estimate::Large),
        ]);
        let words = ("\\PC{1,40}", "\\PC{1,80}");
        let earlier = proptest::collection::btree_set(0..number.max(1), 0..=number.min(3));
        (words, earlier, estimate).prop_map(move |((title, description), earlier, estimate)| {
            ProposedTask {
                key: format!("t{number}"),
                title,
                description,
                task_type: TaskType::Research,
                priority: Priority::Urgent,
                depends_on: earlier.into_iter().map(|on| format!("t{on}")).collect(),
                requirements: Vec::new(),
                estimate,
            }
        })
    }

    fn any_plan() -> impl Strategy<Value = ProposedPlan> {
        let tasks = (1..=10_usize).prop_flat_map(|n| (0..n).map(any_task).collect::<Vec<_>>());
        ("\\PC{1,40}", proptest::option::of("\\PC{1,80}"), tasks)
            .prop_map(|(title, summary, tasks)| ProposedPlan { title, summary, tasks })
    }

    proptest! {
        #[test]
        fn every_plan_that_holds_is_read_as_it_was_written(plan in any_plan()) {
            let text = serde_json::to_string(&plan).unwrap();
            prop_assert_eq!(read(&text, Asked::Proposal), Ok(plan));
        }

        #[test]
        fn any_text_is_answered(text in "\\PC{0,200}", cut in 0_usize..200, plan in any_plan()) {
            prop_assert_eq!(refusal(&text).0, Code::PlannerInvalidPlan);
            let whole = serde_json::to_string(&plan).unwrap();
            let part: String = whole.chars().take(cut).collect();
            if part != whole {
                prop_assert_eq!(refusal(&part).0, Code::PlannerInvalidPlan);
            }
        }

        /// S-108
        #[test]
        fn no_field_slips_in(plan in any_plan(), name in "[a-z_]{1,20}", at in 0_usize..10, value in 0..3) {
            let mut wire = serde_json::to_value(&plan).unwrap();
            let at = at % plan.tasks.len();
            let known = wire["tasks"][at].get(&name).is_some();
            let value = [json!(null), json!("x"), json!({ "key": "a" })][usize::try_from(value).unwrap()].clone();
            wire["tasks"][at][&name] = value;
            if !known {
                prop_assert_eq!(refusal(&wire.to_string()), invalid_plan(&format!("tasks[{at}].{name}")));
            }
        }
    }
}
