//! What a person or a script reads.

use std::io::Write as _;

use console::measure_text_width;
use cortex_lib::error::{Code, Error, Kind, Result};
use serde::Serialize;

use crate::run::words;
use crate::stdout;

/// Where results go: standard output, as text or as JSON.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    json: bool,
}

impl Screen {
    /// A screen for text, or for JSON.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether JSON is wanted.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Shows `value`: as JSON, or as the text that `human` makes of it.
    ///
    /// # Errors
    ///
    /// `core.defect` when the value is no JSON; `core.output_failed`.
    pub fn show<T: Serialize + ?Sized>(
        self,
        value: &T,
        human: impl FnOnce(&T) -> String,
    ) -> Result<()> {
        let text = if self.json { pretty(value)? } else { human(value) };
        self.line(&text)
    }

    /// Prints a text. A reader that has gone away is no failure of ours.
    ///
    /// # Errors
    ///
    /// `core.output_failed`: what the command did stays done.
    pub fn line(self, text: &str) -> Result<()> {
        stdout::line(text.trim_end()).map(drop).map_err(|error| stdout::failure(&error))
    }

    /// Says something beside the results, for a person alone.
    pub(super) fn note(self, text: &str) {
        if !self.json {
            drop(writeln!(std::io::stderr().lock(), "{text}"));
        }
    }

    /// Tells that something failed, on standard error.
    pub fn fail(self, error: &Error) {
        let text = if self.json {
            serde_json::json!({ "error": error.to_wire() }).to_string()
        } else {
            failure(error)
        };
        drop(writeln!(std::io::stderr().lock(), "{text}"));
    }
}

/// A failure as people read it.
fn failure(error: &Error) -> String {
    let mut text = match error.problems() {
        [] | [_] => format!("error: {error}"),
        problems => {
            let list: Vec<_> = problems.iter().map(|problem| format!("\n  - {problem}")).collect();
            format!(
                "error: {} things are wrong ({}){}",
                problems.len(),
                error.code(),
                list.concat()
            )
        }
    };
    text.push_str("\n  next: ");
    text.push_str(error.remediation());
    // What a caller can mend is in no log file at its usual level.
    let logged = matches!(error.code().kind(), Kind::Internal | Kind::RuntimeError);
    if let Some(id) = error.correlation_id().filter(|_| logged) {
        text.push_str("\n  in the log: ");
        text.push_str(id.as_str());
    }
    text
}

/// A value as JSON for eyes.
///
/// # Errors
///
/// `core.defect` when the value is no JSON.
pub(super) fn pretty<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string_pretty(value)
        .map_err(|error| Error::new(Code::Defect, format!("an answer is no JSON: {error}")))
}

/// Rows under headings, each column as wide as its widest cell. Without rows: `none`.
pub(super) fn table<const N: usize>(
    headings: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    none: &str,
) -> String {
    let rows: Vec<[String; N]> = rows.into_iter().collect();
    if rows.is_empty() {
        return none.to_owned();
    }
    let headings = headings.map(str::to_owned);
    let mut widths = [0_usize; N];
    for row in std::iter::once(&headings).chain(&rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(measure_text_width(cell));
        }
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| {
            let gap = width.saturating_sub(measure_text_width(cell)).saturating_add(2);
            format!("{cell}{}", " ".repeat(gap))
        });
        cells.collect::<String>().trim_end().to_owned()
    };
    std::iter::once(&headings).chain(&rows).map(line).collect::<Vec<_>>().join("\n")
}

/// Names and what they have, one below the other. What is absent is left out, and so is what a terminal would
/// obey: much of it was written by models.
pub(super) fn card<const N: usize>(rows: [(&str, Option<String>); N]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): (&str, Option<String>)| {
        value.map(|value| format!("{name:width$}  {}", words::lines(&value).replace('\n', "\n  ")))
    };
    rows.into_iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// The first line of a text, cut to fit into a cell, without what a terminal would obey.
pub(super) fn cell(text: &str) -> String {
    const CHARS: usize = 60;
    let line = words::plain(text.lines().next().unwrap_or_default());
    if line.chars().count() <= CHARS {
        return line;
    }
    line.chars().take(CHARS).chain(['…']).collect()
}

/// The wire name of a value that is a word.
pub(super) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}
