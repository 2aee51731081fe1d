//! Commands that a person can give next, ready to be pasted.

use std::path::Path;

use cortex_lib::ids::{RuntimeId, TaskId};

/// How the program was called, for the next call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hints {
    program: String,
    file: String,
    runtime: Option<RuntimeId>,
}

impl Hints {
    /// For this file, with the data directory and the runtime that the person named.
    pub(crate) fn new(file: &Path, data_dir: Option<&Path>, runtime: Option<RuntimeId>) -> Self {
        let data_dir = data_dir.map(|dir| format!(" --data-dir {}", word(dir))).unwrap_or_default();
        Self { program: format!("cortex{data_dir}"), file: word(file), runtime }
    }

    /// `cortex run` with these flags.
    pub(crate) fn run(&self, flags: &[&str]) -> String {
        let flags: String = flags.iter().map(|flag| format!(" {flag}")).collect();
        let runtime =
            self.runtime.as_ref().map(|id| format!(" --runtime {id}")).unwrap_or_default();
        format!("{} run{flags}{runtime} {}", self.program, self.file)
    }

    /// `cortex task retry`.
    pub(crate) fn retry(&self, task: &TaskId) -> String {
        format!("{} task retry {task}", self.program)
    }
}

/// A path as one word of a shell.
fn word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,=\\".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_repeats_how_the_program_was_called() {
        let hints = Hints::new(
            Path::new("my file's.toml"),
            Some(Path::new("/data")),
            Some(RuntimeId::new("claude-code")),
        );
        assert_eq!(
            hints.run(&["--resume"]),
            r"cortex --data-dir /data run --resume --runtime claude-code 'my file'\''s.toml'"
        );
        assert_eq!(Hints::new(Path::new("a.toml"), None, None).run(&[]), "cortex run a.toml");
        assert_eq!(hints.retry(&TaskId::new("t")), "cortex --data-dir /data task retry t");
    }
}
