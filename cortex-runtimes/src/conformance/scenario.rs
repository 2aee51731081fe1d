//! What an agent is told in a case, and what it is to do then: in words that any model can follow, and as data that a
//! scripted one is made of.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// All that an agent is told in one case.
///
/// A [`Subject`](super::Subject) with a scripted agent makes it do the acts of a reply when an instruction contains
/// the reply's cue. With a real model there is nothing to prepare: the instruction says the same in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Scenario {
    /// What the agent does for which instruction.
    pub replies: Vec<Reply>,
    /// Nobody listens where the model is.
    pub unreachable: bool,
}

/// What an agent does for an instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reply {
    /// What the instruction contains. No cue of a scenario contains another one.
    pub cue: String,
    /// What the agent does, in order. What it says last is the result of the turn.
    pub acts: Vec<Act>,
}

/// Something that an agent does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Act {
    /// Says this, and nothing else.
    Say(String),
    /// Says `first` and a line end, then nothing until the gate opens, then `rest`. Both are short.
    SayInTwo {
        /// The first line.
        first: String,
        /// What comes once the gate is open.
        rest: String,
        /// The gate.
        gate: String,
    },
    /// Says one line of so many `x`.
    SayLong(usize),
    /// Says the word that it heard last between « and »: in an instruction, in what its tools returned, in what it was
    /// told about itself.
    SayWord,
    /// Does nothing at all until the gate opens.
    Wait {
        /// The gate.
        gate: String,
    },
    /// Runs a command with its shell.
    Run(String),
    /// Writes a file with its tool for that, or with its shell when it has none.
    Write {
        /// Where. Absolute.
        path: PathBuf,
        /// What.
        content: String,
    },
    /// Reads a file of the project, named from its root, with its tool for that, or with its shell when it has none.
    Read(PathBuf),
    /// Asks its user, and waits for the answer.
    Ask {
        /// The question.
        question: String,
        /// The answers it offers.
        choices: Vec<String>,
    },
    /// Calls a tool of Cortex, without arguments.
    Call(String),
    /// Tries something that it may not be able to do, in every way it knows, and goes on.
    Try(Attempt),
    /// The service of its model fails, and again when it is asked once more.
    Fail(Fault),
}

/// Something that an agent tries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Attempt {
    /// To run a command.
    Run(String),
    /// To write a file.
    Write(PathBuf),
    /// To read a web page.
    Fetch(String),
    /// To start an agent below it.
    Delegate(String),
}

/// How the service of a model fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// It refuses the login: HTTP 401.
    LoginRefused,
    /// It refuses the request: HTTP 400.
    RequestRefused,
    /// The quota is used up for so many seconds: HTTP 429.
    RateLimited(u64),
    /// It has too much to do: HTTP 503 or what the service says then.
    Overloaded,
    /// It is broken: HTTP 500.
    Broken,
    /// The answer breaks off in the middle.
    Cut,
}

/// An instruction of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt(pub(super) String);

impl Prompt {
    /// The instruction.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl Scenario {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An instruction for these acts.
    pub fn prompt(&mut self, acts: impl IntoIterator<Item = Act>) -> Prompt {
        self.prompt_around("", acts, "")
    }

    /// An instruction for these acts that begins and ends with other words.
    pub fn prompt_around(
        &mut self,
        before: &str,
        acts: impl IntoIterator<Item = Act>,
        after: &str,
    ) -> Prompt {
        let acts: Vec<_> = acts.into_iter().collect();
        let cue = format!("Step {}:", self.replies.len().saturating_add(1));
        let words: Vec<_> = acts.iter().map(Act::words).collect();
        let text = format!("{before}{cue} {}{after}", words.join(" Then: "));
        self.replies.push(Reply { cue, acts });
        Prompt(text)
    }

    /// The reply to an instruction: the acts of the last reply whose cue it contains.
    pub fn reply(&self, instruction: &str) -> Option<&Reply> {
        self.replies.iter().rev().find(|reply| instruction.contains(&reply.cue))
    }

    /// Whether a real model can be made to do all of it.
    pub fn is_for_any_model(&self) -> bool {
        let acts = self.replies.iter().flat_map(|reply| &reply.acts);
        !self.unreachable && acts.into_iter().all(Act::is_for_any_model)
    }
}

impl Act {
    /// The act as an instruction.
    fn words(&self) -> String {
        match self {
            Self::Say(text) => format!("answer with exactly this text and nothing else: {text}"),
            Self::SayInTwo { first, rest, .. } => {
                format!("answer with {first}, a line end, and later {rest}.")
            }
            Self::SayLong(count) => format!("answer with one line of {count} times the letter x."),
            Self::SayWord => "answer with only the word that you saw between guillemets last (in my messages, in what a \
                tool returned, or in your instructions), without the guillemets."
                .to_owned(),
            Self::Wait { .. } => "wait.".to_owned(),
            Self::Run(command) => {
                format!("run exactly this command with your shell tool, once: {command}\n")
            }
            Self::Write { path, content } => {
                format!("write exactly this text into the file {}: {content}\n", path.display())
            }
            Self::Read(path) => format!("read the file {} with your tool for it.", path.display()),
            Self::Ask { question, choices } => {
                format!("ask me with your tool for questions: {question} Offer: {}.", choices.join(", "))
            }
            Self::Call(tool) => {
                format!("call the tool {tool} of the MCP server cortex, without arguments.")
            }
            Self::Try(attempt) => attempt.words(),
            Self::Fail(_) => "answer with anything.".to_owned(),
        }
    }

    fn is_for_any_model(&self) -> bool {
        !matches!(
            self,
            Self::SayInTwo { .. } | Self::SayLong(_) | Self::Wait { .. } | Self::Fail(_)
        )
    }
}

impl Attempt {
    fn words(&self) -> String {
        let attempt = match self {
            Self::Run(command) => format!("run this command with a shell: {command}\n"),
            Self::Write(path) => format!("write the word x into the file {}.", path.display()),
            Self::Fetch(url) => format!("read the web page {url}"),
            Self::Delegate(prompt) => format!("let a sub-agent do this: {prompt}."),
        };
        format!("try once, and go on whether it works or not: {attempt}")
    }
}

/// The last word of a text that stands between « and »: what [`Act::SayWord`] says.
pub fn marked_word(text: &str) -> Option<&str> {
    let (_, rest) = text.rsplit_once('«')?;
    rest.split_once('»').map(|(word, _)| word)
}

/// A path as a shell reads it.
pub(super) fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}
