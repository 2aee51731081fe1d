//! Texts of ours that the CLI would take for something else.
//!
//! A text that begins with `/` is a command to it: unknown ones end the turn without asking the model,
//! others change the session. And `@path` makes it read that file into the prompt *without asking for permission*,
//! wherever the file is. Both are taken apart by one character, so that the model reads what was meant.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

/// `text` as a prompt that the CLI takes literally.
pub(super) fn literal(text: &str, cwd: &Path, home: Option<&Path>) -> String {
    let text = disarm(text, cwd, home);
    // Leading blanks would hide a slash from us, not from a version of the CLI that trims.
    if text.trim_start().starts_with('/') { format!("\n{text}") } else { text.into_owned() }
}

/// Puts a space behind the `@` of every mention of a file outside of `cwd`. What is inside the agent may
/// read unasked anyway.
fn disarm<'a>(text: &'a str, cwd: &Path, home: Option<&Path>) -> Cow<'a, str> {
    let mut disarmed = String::new();
    let mut copied = 0;
    let mut before: Option<char> = None;
    for (at, c) in text.char_indices() {
        let starts = c == '@' && before.is_none_or(char::is_whitespace);
        before = Some(c);
        let after = at + 1;
        if !starts || !text.get(after..).is_some_and(|rest| leads_out(rest, cwd, home)) {
            continue;
        }
        disarmed.push_str(text.get(copied..after).unwrap_or_default());
        disarmed.push(' ');
        copied = after;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    disarmed.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(disarmed)
}

/// Whether what stands behind an `@` names something outside of `cwd`, as far as the CLI could find it.
fn leads_out(rest: &str, cwd: &Path, home: Option<&Path>) -> bool {
    let quoted = rest.strip_prefix('"');
    let named = match quoted {
        Some(rest) => rest.split('"').next(),
        None => rest.split(char::is_whitespace).next(),
    };
    let Some(named) = named.filter(|named| !named.is_empty()) else { return false };
    let path = match (named.strip_prefix('~'), home) {
        (Some(below), Some(home)) => home.join(below.trim_start_matches(['/', '\\'])),
        (Some(_), None) => return true,
        (None, _) => cwd.join(named),
    };
    if !lexical(&path).starts_with(cwd) {
        return true;
    }
    // A link may lead out. The name may have a line range (`#L3`) or punctuation behind it.
    let whole = path.to_string_lossy();
    let bare = whole.split('#').next().unwrap_or(&whole);
    let trimmed = bare.trim_end_matches(|c: char| !c.is_alphanumeric());
    let inside = dunce_canonical(cwd);
    [whole.as_ref(), bare, trimmed]
        .into_iter()
        .any(|path| fs_err::canonicalize(path).is_ok_and(|real| !real.starts_with(&inside)))
}

fn dunce_canonical(path: &Path) -> PathBuf {
    fs_err::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// `path` without `.` and `..`, by its text alone.
fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                clean.push(component);
            }
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        literal(text, Path::new("/p/project"), Some(Path::new("/home/u")))
    }

    #[test]
    fn a_text_that_begins_with_a_slash_is_no_command() {
        assert_eq!(read("/clear"), "\n/clear");
        assert_eq!(read("  /clear"), "\n  /clear");
        assert_eq!(read("use /clear"), "use /clear");
    }

    #[test]
    fn a_file_outside_of_the_project_is_not_read_unasked() {
        for (text, want) in [
            ("@/etc/passwd", "@ /etc/passwd"),
            ("see @../x and @~/.ssh/id", "see @ ../x and @ ~/.ssh/id"),
            ("see\n@\"/etc/a b\" now", "see\n@ \"/etc/a b\" now"),
            ("@src/../../x", "@ src/../../x"),
            ("@/p/project-two/x", "@ /p/project-two/x"),
        ] {
            assert_eq!(read(text), want);
        }
    }

    #[test]
    fn other_at_signs_stay_as_they_are() {
        for text in
            ["@types/node", "a@b.c", "@src/main.rs#L3", "@", "@ x", "(@/etc/x)", "@/p/project/a"]
        {
            assert_eq!(read(text), text);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_out_counts_as_outside() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        fs_err::create_dir(&project).unwrap();
        fs_err::write(dir.path().join("secret"), "s").unwrap();
        fs_err::os::unix::fs::symlink("../secret", project.join("link")).unwrap();
        assert_eq!(literal("see @link.", &project, None), "see @ link.");
        assert_eq!(literal("see @other", &project, None), "see @other");
    }
}
