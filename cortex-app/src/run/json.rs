//! A run for programs: one JSON object in each line.

use cortex_lib::api::view::ObjectiveView;
use cortex_lib::engine::Output;
use cortex_lib::ids::ProjectId;
use cortex_lib::store::Event;
use serde::Serialize;
use serde_json::{Value, json};

use super::ending::Ending;
use crate::stdout;

/// Writes lines of JSON to the standard output.
#[derive(Debug, Default)]
pub(crate) struct Json {
    /// Events of other projects are none of this run.
    project: Option<ProjectId>,
    /// Why lines are missing. The run goes on without them, and its end tells it.
    unwritten: Option<std::io::Error>,
}

impl Json {
    /// `{"type":"run.started","objective":…}`.
    pub(crate) fn begin(&mut self, objective: &ObjectiveView) {
        self.project = Some(objective.project_id.clone());
        self.write(&json!({ "type": "run.started", "objective": objective }));
    }

    /// An event of the core, as it is.
    pub(crate) fn event(&mut self, event: &Event) {
        let foreign = event.project_id.as_ref().zip(self.project.as_ref());
        if foreign.is_none_or(|(of, ours)| of == ours) {
            self.write(event);
        }
    }

    /// `{"type":"output","task":"plan",…}`.
    pub(crate) fn output(&mut self, key: &str, output: &Output) {
        let mut line = json!({ "type": "output", "task": key });
        if let (Some(line), Ok(Value::Object(rest))) =
            (line.as_object_mut(), serde_json::to_value(output))
        {
            line.extend(rest);
        }
        self.write(&line);
    }

    /// `{"type":"run.note","text":…}`.
    pub(crate) fn note(&mut self, text: &str) {
        self.write(&json!({ "type": "run.note", "text": text }));
    }

    /// The last line: `{"type":"run.ended","status":…,"exit_code":…,"objective":…}`.
    ///
    /// # Errors
    ///
    /// The first line that could not be written, whichever it was.
    pub(crate) fn ended(
        &mut self,
        ending: &Ending,
        objective: Option<&ObjectiveView>,
    ) -> std::io::Result<()> {
        let error = ending.error().map(|error| error.to_wire());
        self.write(&json!({
            "type": "run.ended", "status": ending.status(), "exit_code": ending.exit_code(),
            "next": ending.next(), "error": error, "objective": objective,
        }));
        self.unwritten.take().map_or(Ok(()), Err)
    }

    fn write(&mut self, value: &impl Serialize) {
        if let Ok(text) = serde_json::to_string(value)
            && let Err(error) = stdout::line(&text)
        {
            self.unwritten.get_or_insert(error);
        }
    }
}
