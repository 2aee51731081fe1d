//! The lines.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the agent reads first.
#[derive(Debug, Serialize)]
pub(super) struct Begin<'a> {
    pub(super) instruction: &'a str,
    pub(super) instructions: Option<&'a str>,
}

/// What it reads after it asked.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    pub(super) id: String,
    pub(super) allow: bool,
    pub(super) reason: Option<String>,
}

/// What it prints.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Say(String),
    Ask { id: String, tool: String, input: Value },
    Done { text: String },
    Failed { why: String, class: Class },
}

/// Why there is no result, as far as it decides what to do next.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Class {
    /// It may work when it is tried again.
    MayPass,
    /// Too much was used.
    QuotaUsedUp,
    /// It will not work however often it is tried.
    Refused,
}
