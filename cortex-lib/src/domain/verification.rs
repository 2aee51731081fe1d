//! What a project runs to verify a result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The commands that decide whether a result holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Verification {
    /// Run in order in the attempt's workspace; each must end with exit code 0.
    #[schemars(length(min = 1, max = 20))]
    pub commands: Vec<VerificationCommand>,
    /// Seconds for all of them together.
    #[serde(default = "Verification::default_timeout_secs")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_secs: u32,
}

impl Verification {
    /// Ten minutes: a test suite of a middling project.
    fn default_timeout_secs() -> u32 {
        600
    }
}

/// One command, as a list of words: no shell takes part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct VerificationCommand {
    /// The program and its arguments.
    #[schemars(length(min = 1, max = 256))]
    pub argv: Vec<String>,
    /// What it is called in reports; else the program's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub name: Option<String>,
}

impl VerificationCommand {
    /// What it is called in reports.
    pub fn title(&self) -> &str {
        self.name.as_deref().or_else(|| self.argv.first().map(String::as_str)).unwrap_or("command")
    }
}

/// One command that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct CommandReport {
    /// Its name, or its program.
    pub name: String,
    /// What ran.
    pub argv: Vec<String>,
    /// Its exit code; null when it was ended.
    pub exit_code: Option<i32>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The end of what it printed, at most 16 KiB.
    pub output: String,
}
