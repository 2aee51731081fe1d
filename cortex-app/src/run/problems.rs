//! What is wrong with a file, each with its line.

use std::fmt;
use std::path::{Path, PathBuf};

use cortex_lib::error::{Code, Error, Problem};
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileError {
    file: PathBuf,
    problems: Vec<(Option<usize>, Problem)>,
}

impl FileError {
    /// A file that cannot be read at all.
    pub(super) fn whole(file: &Path, message: String) -> Self {
        Self { file: file.to_owned(), problems: vec![(None, Problem::new("", message))] }
    }

    /// The same as an error of a command.
    pub(crate) fn to_error(&self) -> Error {
        let problems = self.problems.iter().map(|(_, problem)| problem.clone()).collect();
        Error::invalid(Code::InvalidObjective, problems)
            .remedy("Correct the named fields of the file.")
            .with("file", self.file.display().to_string())
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (line, problem)) in self.problems.iter().enumerate() {
            let end = if at == 0 { "" } else { "\n" };
            match line {
                Some(line) => write!(f, "{end}{}:{line}: {problem}", self.file.display())?,
                None if problem.path.is_empty() => write!(f, "{end}{problem}")?,
                None => write!(f, "{end}{}: {problem}", self.file.display())?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for FileError {}

/// The text of a file, and what is wrong with it so far.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    file: &'a Path,
    text: &'a str,
    problems: Vec<(Option<usize>, Problem)>,
}

impl<'a> Lines<'a> {
    pub(crate) fn of(file: &'a Path, text: &'a str) -> Self {
        Self { file, text, problems: Vec::new() }
    }

    /// The text as a value. TOML and types stop at their first problem.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, FileError> {
        let refuse = |path: String, error: &toml::de::Error| {
            let line = error.span().map(|span| self.line_at(span.start));
            let problem = Problem::new(path, error.message());
            FileError { file: self.file.to_owned(), problems: vec![(line, problem)] }
        };
        let source =
            toml::Deserializer::parse(self.text).map_err(|error| refuse(String::new(), &error))?;
        serde_path_to_error::deserialize(source).map_err(|error| {
            let path = error.path().to_string();
            // The path of the whole is a dot.
            refuse(if path == "." { String::new() } else { path }, error.inner())
        })
    }

    /// Notes a problem at a path such as `agents[0].name`.
    pub(super) fn add(&mut self, path: &str, message: &str) {
        self.problems.push((self.line_of(path), Problem::new(path, message)));
    }

    /// Notes problems whose paths begin below `prefix`.
    pub(super) fn add_all(&mut self, prefix: &str, problems: Vec<Problem>) {
        for Problem { path, message } in problems {
            self.add(format!("{prefix}{path}").trim_end_matches('.'), &message);
        }
    }

    /// The value, unless there is a problem.
    pub(super) fn finish<T>(self, value: T) -> Result<T, FileError> {
        if self.problems.is_empty() {
            Ok(value)
        } else {
            Err(FileError { file: self.file.to_owned(), problems: self.problems })
        }
    }

    fn line_at(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count().saturating_add(1)
    }

    /// The line of the value at a path, or of the nearest one around it.
    pub(crate) fn line_of(&self, path: &str) -> Option<usize> {
        let table = DeTable::parse(self.text).ok()?;
        let mut found = None;
        let mut at: Option<&DeValue<'_>> = None;
        for part in path.split(['.', '[']) {
            let next: Option<&Spanned<DeValue<'_>>> = match part.strip_suffix(']') {
                Some(index) => {
                    let index: Option<usize> = index.parse().ok();
                    at.and_then(DeValue::as_array).zip(index).and_then(|(array, at)| array.get(at))
                }
                None => match at {
                    Some(value) => value.as_table().and_then(|table| table.get(part)),
                    None => table.get_ref().get(part),
                },
            };
            let Some(next) = next else { break };
            found = Some(self.line_at(next.span().start));
            at = Some(next.get_ref());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_that_of_the_nearest_value() {
        let text = "[a]\nb = 1\n[[c]]\nd = [\n 1,\n 2]\n";
        let lines = Lines::of(Path::new("f"), text);
        let seen = ["a.b", "c[0].d[1]", "c[0].e", "x"].map(|path| lines.line_of(path));
        assert_eq!(seen, [Some(2), Some(6), Some(3), None]);
    }
}
