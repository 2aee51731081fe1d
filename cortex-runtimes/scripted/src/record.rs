//! What a scripted server was sent: one shape for every model API, so that scripts and tests need
//! not know which of them a CLI speaks.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;

use serde_json::Value;

/// A request for an answer of the model, as it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The CLI's own name of the conversation, where it sends one.
    pub conversation: Option<String>,
    /// The model asked for.
    pub model: String,
    /// Whether events are wanted rather than one answer.
    pub stream: bool,
    /// The system text.
    pub system: String,
    /// The last text of the user since the model last spoke, without the CLI's reminders.
    pub last_user: String,
    /// Every text of the conversation in order, tool results and reminders included.
    pub texts: Vec<Text>,
    /// The results of tools since the model last spoke.
    pub tool_results: Vec<ToolResult>,
    /// The names of the tools offered.
    pub tools: Vec<String>,
    /// The path and query.
    pub target: String,
    /// The headers by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The body, for what has no field here.
    pub body: Value,
    /// What of the script answered it.
    pub answered_by: AnsweredBy,
    /// How far its answer has come.
    pub progress: Progress,
}

/// What of a script answered a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AnsweredBy {
    /// Nothing: no rule fitted, so it was refused.
    #[default]
    Nothing,
    /// The rule of this place, counted from zero.
    Rule(usize),
    /// What is said when no rule fits.
    Otherwise,
}

impl fmt::Display for AnsweredBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no rule fits"),
            Self::Rule(place) => write!(f, "rules[{place}]"),
            Self::Otherwise => f.write_str("otherwise"),
        }
    }
}

/// What is shown of a text at most.
const SHOWN_CHARS_MAX: usize = 80;

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said: String = self.last_user.chars().take(SHOWN_CHARS_MAX).collect();
        write!(f, "{} {said:?}, {} tool results", self.model, self.tool_results.len())
    }
}

/// One text of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Text {
    /// Who said it, in the API's word; `tool` for the result of a tool.
    pub role: String,
    /// What it says.
    pub text: String,
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolResult {
    /// The call it answers.
    pub call: String,
    /// What it says.
    pub text: String,
    /// Whether it is an error.
    pub is_error: bool,
}

/// How far the answer to a request has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// On its way.
    #[default]
    Open,
    /// Waiting for the test to open a gate.
    Held,
    /// Sent, with whatever fault the script gave it.
    Answered,
    /// The client went away first.
    Abandoned,
}

/// A request that is not for an answer of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Other {
    /// The method.
    pub method: String,
    /// The path, or the address where another host was wanted.
    pub target: String,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.target)
    }
}

/// What a test waited for did not come in time; says what came instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeverCame {
    pub(crate) seconds: u64,
    pub(crate) came: Vec<String>,
}

impl fmt::Display for NeverCame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what the test waits for did not come in {} s; ", self.seconds)?;
        match self.came.as_slice() {
            [] => write!(f, "no request came"),
            came => write!(f, "these requests came: {}", came.join("; ")),
        }
    }
}

impl Error for NeverCame {}

/// Everything one server knows: what came, and which gates are open.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) requests: Vec<Request>,
    pub(crate) others: Vec<Other>,
    pub(crate) strangers: Vec<Other>,
    pub(crate) gates: BTreeSet<String>,
}

impl Log {
    /// One line for each request, for a person who looks for what went wrong.
    pub(crate) fn lines(&self) -> Vec<String> {
        let asked =
            self.requests.iter().map(|request| format!("{request}, {:?}", request.progress));
        asked.chain(self.others.iter().chain(&self.strangers).map(Other::to_string)).collect()
    }
}
