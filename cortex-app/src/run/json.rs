//! A run for programs: one JSON object in each line.

use std::io::Write as _;

use cortex_lib::api::view::ObjectiveView;
use cortex_lib::engine::Output;
use cortex_lib::ids::ProjectId;
use cortex_lib::store::Event;
use serde::Serialize;
use serde_json::{Value, json};

use super::ending::Ending;

/// Writes lines of JSON to the standard output.
#[derive(Debug, Default)]
pub(crate) struct Json {
    /// Events of other projects are none of this run.
    project: Option<ProjectId>,
}

impl Json {
    /// `{"type":"run.started","objective":…}`.
    pub(crate) fn begin(&mut self, objective: &ObjectiveView) {
        self.project = Some(objective.project_id.clone());
        write(&json!({ "type": "run.started", "objective": objective }));
    }

    /// An event of the core, as it is.
    pub(crate) fn event(&self, event: &Event) {
        let foreign = event.project_id.as_ref().zip(self.project.as_ref());
        if foreign.is_none_or(|(of, ours)| of == ours) {
            write(event);
        }
    }

    /// `{"type":"output","task":"plan",…}`.
    pub(crate) fn output(key: &str, output: &Output) {
        let mut line = json!({ "type": "output", "task": key });
        if let (Some(line), Ok(Value::Object(rest))) =
            (line.as_object_mut(), serde_json::to_value(output))
        {
            line.extend(rest);
        }
        write(&line);
    }

    /// `{"type":"run.note","text":…}`.
    pub(crate) fn note(text: &str) {
        write(&json!({ "type": "run.note", "text": text }));
    }

    /// The last line: `{"type":"run.ended","status":…,"exit_code":…,"objective":…}`.
    pub(crate) fn ended(ending: &Ending, objective: Option<&ObjectiveView>) {
        let error = ending.error().map(|error| error.to_wire());
        write(&json!({
            "type": "run.ended", "status": ending.status(), "exit_code": ending.exit_code(),
            "next": ending.next(), "error": error, "objective": objective,
        }));
    }
}

/// One line, at once: whoever reads follows live. A reader that went away wants no more.
fn write(value: &impl Serialize) {
    if let Ok(text) = serde_json::to_string(value) {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).ok();
    }
}
