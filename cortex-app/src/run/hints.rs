//! Commands that a person can give next, ready to be pasted.

use std::path::Path;

use cortex_lib::api::view::ApprovalView;
use cortex_lib::ids::TaskId;

use crate::program::{Program, path_word, word};

/// What answers a request, as words behind the name of the program.
pub(crate) fn answers(approval: &ApprovalView) -> Vec<String> {
    let id = &approval.approval_id;
    let ways = if approval.questions.is_empty() {
        ["allow", "always", "deny"].map(|way| format!("{way} {id}")).to_vec()
    } else {
        let questions = approval.questions.iter();
        let answers = questions.map(|one| format!(" {}", word(&format!("{}=ANSWER", one.id))));
        vec![format!("answer {id}{}", answers.collect::<String>()), format!("deny {id}")]
    };
    ways.into_iter().map(|way| format!("approvals {way}")).collect()
}

/// How the program was called, for the next call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hints {
    program: Program,
    file: String,
    options: String,
}

impl Hints {
    /// For this file, with the data directory and the options that the person gave.
    pub(crate) fn new(file: &Path, data_dir: Option<&Path>, options: &[(&str, &str)]) -> Self {
        let options = options.iter().map(|(name, value)| format!(" {name} {}", word(value)));
        Self {
            program: Program::on(data_dir),
            file: path_word(file),
            options: options.collect::<Vec<_>>().concat(),
        }
    }

    /// `cortex run` with these flags.
    pub(crate) fn run(&self, flags: &[&str]) -> String {
        let flags = flags.iter().map(|flag| format!(" {flag}")).collect::<Vec<_>>().concat();
        self.program.call(&format!("run{flags}{} {}", self.options, self.file))
    }

    /// `cortex approvals` with each way of answering a request. What is asked is shown first: it may be long.
    pub(crate) fn answers(&self, approval: &ApprovalView) -> Vec<String> {
        let id = &approval.approval_id;
        let show = (!approval.questions.is_empty()).then(|| format!("approvals show {id}"));
        show.into_iter().chain(answers(approval)).map(|words| self.program.call(&words)).collect()
    }

    /// `cortex task retry`.
    pub(crate) fn retry(&self, task: &TaskId) -> String {
        self.program.call(&format!("task retry {task}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::ask::tests::request;
    use super::*;

    #[test]
    fn a_hint_repeats_how_the_program_was_called() {
        let hints = Hints::new(
            Path::new("my file's.toml"),
            Some(Path::new("/data")),
            &[("--runtime", "claude-code"), ("--allow", "mcp__*")],
        );
        assert_eq!(
            hints.run(&["--resume"]),
            r"cortex --data-dir /data run --resume --runtime claude-code --allow 'mcp__*' 'my file'\''s.toml'"
        );
        assert_eq!(Hints::new(Path::new("a.toml"), None, &[]).run(&[]), "cortex run a.toml");
        assert_eq!(hints.retry(&TaskId::new("t")), "cortex --data-dir /data task retry t");
    }

    #[test]
    fn an_answer_is_told_with_what_it_needs() {
        let question = |id: &str| {
            let (choices, no) = (json!([]), false);
            json!({"id": id, "text": "?", "choices": choices, "multiple": no, "free_text": true})
        };
        let hints = Hints::new(Path::new("a.toml"), None, &[]);
        let told = hints.answers(&request(&json!([question("1"), question("my day")])));
        let answer = "cortex approvals answer 1 1=ANSWER 'my day=ANSWER'";
        assert_eq!(told, ["cortex approvals show 1", answer, "cortex approvals deny 1"]);
        let told = hints.answers(&request(&json!([])));
        let ways = ["allow", "always", "deny"].map(|way| format!("cortex approvals {way} 1"));
        assert_eq!(told, ways);
    }
}
