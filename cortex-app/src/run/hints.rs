//! Commands that a person can give next, ready to be pasted.

use std::path::Path;

use cortex_lib::ids::{ApprovalId, TaskId};

use crate::program::{Program, path_word, word};

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

    /// `cortex approvals` with this way of answering a request.
    pub(crate) fn answer(&self, way: &str, id: &ApprovalId) -> String {
        self.program.call(&format!("approvals {way} {id}"))
    }

    /// `cortex task retry`.
    pub(crate) fn retry(&self, task: &TaskId) -> String {
        self.program.call(&format!("task retry {task}"))
    }
}

#[cfg(test)]
mod tests {
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
}
