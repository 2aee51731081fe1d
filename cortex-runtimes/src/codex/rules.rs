//! Files of rules, by which the CLI runs commands without asking and outside of the sandbox.
//!
//! People make such rules by "do not ask again" in the CLI itself. The rules are a small language (Starlark); what is not
//! plainly a no or a question counts as a yes.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::wire::list;

/// A rule by which the CLI would run a command without asking: the file it is in.
pub(super) fn without_asking(folders: &[PathBuf]) -> Option<PathBuf> {
    let files = folders.iter().filter_map(|folder| fs_err::read_dir(folder.join("rules")).ok());
    let mut files: Vec<PathBuf> = files.flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
        .into_iter()
        .find(|file| file.extension().is_some_and(|kind| kind == "rules") && may_allow(file))
}

/// Whether a file of rules may allow something.
fn may_allow(file: &Path) -> bool {
    let code = fs_err::read_to_string(file).ok().and_then(|text| code(&text));
    let Some(code) = code else { return true };
    if code.is_empty() {
        return false;
    }
    let calls: Vec<&str> = code.split("_rule(").skip(1).collect();
    // A rule by another name is none that is read here.
    let all = code.matches("_rule").count();
    calls.is_empty() || all != calls.len() || !calls.iter().all(|call| asks(call))
}

/// Whether the arguments of a rule, up to where it ends, say that it asks or forbids.
fn asks(call: &str) -> bool {
    let decision = |argument| STRICT.iter().any(|said| argument == format!("decision=\"{said}\""));
    call.split_once(')').is_some_and(|(arguments, _)| arguments.split(',').any(decision))
}

/// The decisions that let nothing run unasked.
const STRICT: [&str; 2] = ["prompt", "forbidden"];

/// The text without spaces and comments, and with those of its strings only that are a decision: another may hold anything.
/// `None`: it does not end as it should.
fn code(text: &str) -> Option<String> {
    let (mut code, mut rest) = (String::new(), text);
    while let Some((before, from)) = rest.find(['#', '"', '\'']).map(|at| rest.split_at(at)) {
        code.push_str(before);
        if from.starts_with('#') {
            rest = from.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        let quote = QUOTES.into_iter().find(|quote| from.starts_with(quote))?;
        let (said, after) = string(from.strip_prefix(quote)?, quote)?;
        let said = STRICT.into_iter().find(|strict| *strict == said).unwrap_or_default();
        code.extend(["\"", said, "\""]);
        rest = after;
    }
    code.push_str(rest);
    Some(code.chars().filter(|c| !c.is_whitespace()).collect())
}

/// What strings are set in, the longer before the shorter.
const QUOTES: [&str; 4] = ["\"\"\"", "'''", "\"", "'"];

/// What stands before the end of a string, and what behind it.
fn string<'a>(text: &'a str, quote: &str) -> Option<(&'a str, &'a str)> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        let (said, from) = text.split_at(at);
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' if quote.len() == 1 => return None,
            _ => {
                if let Some(after) = from.strip_prefix(quote) {
                    return Some((said, after));
                }
            }
        }
    }
    None
}

/// The folders whose rules count for a thread, by `config/read` and the CLI's home.
pub(super) fn folders(settings: &Value, home: Option<&str>, trusted: bool) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = home.map(PathBuf::from).into_iter().collect();
    for layer in list(settings, "layers") {
        let text = |path: &str| layer.pointer(path).and_then(Value::as_str).map(Path::new);
        match layer.pointer("/name/type").and_then(Value::as_str) {
            // Those of a repository count only when it is trusted, and that is ours to say.
            Some("project") if trusted => {
                folders.extend(text("/name/dotCodexFolder").map(Path::to_owned));
            }
            Some("project") | None => {}
            Some(_) => {
                folders.extend(text("/name/file").and_then(Path::parent).map(Path::to_owned));
            }
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_that_allows_is_found_and_one_that_asks_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let rules = dir.path().join("rules");
        fs_err::create_dir(&rules).unwrap();
        let folders = [dir.path().to_owned(), PathBuf::from("/no/such/folder")];
        let found = |text: &str| {
            fs_err::write(rules.join("x.rules"), text).unwrap();
            without_asking(&folders).is_some()
        };
        for allows in [
            r#"prefix_rule(pattern=["touch"], decision="allow")"#,
            r#"prefix_rule(pattern=["touch"])"#,
            "x = prefix_rule\nx(pattern=[\"touch\"])",
            r#"prefix_rule(pattern=["touch"]) # decision="prompt""#,
            "x = prefix_rule\nx(pattern=[\"touch\"])\nprefix_rule(pattern=[\"rm\"], decision=\"prompt\")",
            r#"prefix_rule(pattern=["touch"], justification='decision="prompt"')"#,
            r#"prefix_rule(pattern=["touch"], justification="""a",decision="prompt",""")"#,
            r#"prefix_rule(pattern=["touch"], justification="\"", decision="allow") # ", decision="prompt""#,
            r#"prefix_rule(pattern=["touch"], decision="prompt" if False else "allow")"#,
            "decision=\"prompt\",\nprefix_rule(pattern=[\"touch\"])",
            "prefix_rule(pattern=[\"touch",
        ] {
            assert!(found(allows), "{allows}");
        }
        for asks in [
            "# prefix_rule(pattern=[\"touch\"])\n",
            "prefix_rule(\n  pattern=[\"rm\"],\n  decision = \"forbidden\",\n)\n",
            "prefix_rule(pattern=['rm', '#'], decision='prompt') # not allowed\n",
            r#"prefix_rule(pattern=["rm"], decision="forbidden", justification="decision=\"allow\" (no)")"#,
            "",
        ] {
            assert!(!found(asks), "{asks}");
        }
    }

    #[test]
    fn the_rules_of_a_repository_count_when_it_is_trusted() {
        let settings = json!({"layers": [
            {"name": {"type": "project", "dotCodexFolder": "/p/.codex"}},
            {"name": {"type": "system", "file": "/etc/codex/config.toml"}},
            {"name": {"type": "sessionFlags"}},
        ]});
        let folders = |trusted| folders(&settings, Some("/h"), trusted);
        assert_eq!(folders(false), [Path::new("/h"), Path::new("/etc/codex")]);
        assert_eq!(folders(true).len(), 3);
    }
}
