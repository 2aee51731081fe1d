//! How this program is called again: people are told what to do next in words that they can paste.

use std::path::Path;

/// The program with the data directory that it works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program(String);

impl Program {
    /// The program on the data directory that the person named, if they named one.
    pub(crate) fn on(data_dir: Option<&Path>) -> Self {
        let data_dir = data_dir.map(|dir| format!(" --data-dir {}", path_word(dir)));
        Self(format!("cortex{}", data_dir.unwrap_or_default()))
    }

    /// Its call with these words, as `cortex --data-dir /data task list`.
    pub(crate) fn call(&self, words: &str) -> String {
        format!("{} {words}", self.0)
    }
}

/// A path as one word of a shell.
pub(crate) fn path_word(path: &Path) -> String {
    word(&path.display().to_string())
}

/// A text as one word of a shell.
pub(crate) fn word(text: &str) -> String {
    // Paths of Windows have it between their parts; other shells take it for a quote.
    let is_separator = |c: char| c == '\\' && cfg!(windows);
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,=".contains(c) || is_separator(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_names_the_data_directory_that_the_person_named() {
        let named = Program::on(Some(Path::new("/my data"))).call("task list");
        assert_eq!(named, "cortex --data-dir '/my data' task list");
        assert_eq!(Program::on(None).call("task list"), "cortex task list");
    }

    #[test]
    #[cfg(unix)]
    fn a_word_is_read_by_a_shell_as_it_was() {
        for text in ["", "plain", "/a b", r"/a\b", "it's", "$HOME", "q=a*"] {
            let script = format!("printf %s {}", word(text));
            let said = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&said.stdout), text);
        }
    }
}
