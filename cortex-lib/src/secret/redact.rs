//! Takes secrets out of a text by their patterns: before it is stored, shown or logged.
//!
//! Four finders look at the text and name spans; what they named is replaced in one go, and what is left is looked at
//! again. Each is linear in the length of the text, because a program decides what it prints.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::{assigned, pem, shapes};

/// What stands where a secret was.
pub const REDACTED: &str = "[secret]";

/// How often a text is looked at that had a secret. It bounds the work for one that was made for that.
const ROUNDS_MAX: usize = 4;

/// `text` without what looks like a secret. A text without one is borrowed and unchanged.
///
/// Provider keys, private keys, credentials in URLs and headers, values assigned to names such as
/// `password` or `api_key`, and the credentials of Cortex itself become [`REDACTED`]. Doing it again changes
/// nothing. Patterns are no proof: a secret without a known shape and without a telling name stays.
///
/// # Examples
///
/// ```
/// use cortex_lib::secret::redact;
/// assert_eq!(redact("DB_PASSWORD=hunter22 make"), "DB_PASSWORD=[secret] make");
/// assert_eq!(redact("all tests pass"), "all tests pass");
/// ```
pub fn redact(text: &str) -> Cow<'_, str> {
    let Some(mut redacted) = redacted_once(text) else { return Cow::Borrowed(text) };
    // A secret that goes may have hidden where the one beside it begins or ends.
    for _ in 1..ROUNDS_MAX {
        match redacted_once(&redacted) {
            Some(again) => redacted = again,
            None => break,
        }
    }
    Cow::Owned(redacted)
}

/// `text` without the secrets that are seen in it as it is; none: it has none.
fn redacted_once(text: &str) -> Option<String> {
    let mut spans = Vec::new();
    pem::find(text, &mut spans);
    shapes::find(text, &mut spans);
    assigned::find(text, &mut spans);
    (!spans.is_empty()).then(|| without(text, spans))
}

/// Takes the secrets out of every text in `value`, and what is assigned to a telling name.
pub fn redact_json(value: &mut Value) {
    match value {
        Value::String(text) => redact_in_place(text),
        Value::Array(items) => items.iter_mut().for_each(redact_json),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                match field {
                    Value::String(text) if assigned::is_secret_field(name, text) => {
                        REDACTED.clone_into(text);
                    }
                    field => redact_json(field),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Takes secrets out of a text that comes line by line: a private key has many lines, and only the first one
/// tells what it is.
#[derive(Clone, Debug, Default)]
pub struct LineRedactor {
    in_key: bool,
}

impl LineRedactor {
    /// The next line or lines without secrets.
    pub fn next(&mut self, text: &str) -> String {
        if !self.in_key {
            self.in_key = pem::is_left_open(text);
            return redact(text).into_owned();
        }
        // Read as what follows the line that opened the key.
        let text = format!("{}{text}", pem::OPENING);
        self.in_key = pem::is_left_open(&text);
        let redacted = redact(&text);
        match redacted.strip_prefix(REDACTED) {
            Some(rest) if !rest.is_empty() && !self.in_key => {
                rest.trim_start_matches('\n').to_owned()
            }
            _ => redacted.into_owned(),
        }
    }
}

/// Takes the secrets out of `text`.
pub(crate) fn redact_in_place(text: &mut String) {
    if let Cow::Owned(redacted) = redact(text) {
        *text = redacted;
    }
}

/// `text` with each of `spans` replaced; those that touch become one.
fn without(text: &str, mut spans: Vec<Range<usize>>) -> String {
    spans.sort_unstable_by_key(|span| span.start);
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    let mut last_end = None;
    for span in spans {
        if last_end.is_none_or(|end| span.start > end) {
            kept.push_str(text.get(at..span.start).unwrap_or_default());
            kept.push_str(REDACTED);
        }
        at = at.max(span.end);
        last_end = Some(at);
    }
    kept.push_str(text.get(at..).unwrap_or_default());
    kept
}

#[cfg(test)]
mod tests;
