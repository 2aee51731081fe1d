//! Imports point down. A module may use the modules below it, and itself.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::path::{Path, PathBuf};

/// The stack, lowest first. Modules of one row may not import each other.
const LAYERS: &[&[&str]] = &[
    &["ids"],
    &["time"],
    &["limits"],
    &["error"],
    &["secret"],
    &["env"],
    &["domain"],
    &["settings"],
    &["store", "port", "process"],
    &["progress"],
    &["engine"],
    &["api"],
    &["mcp", "local"],
    &["cortex"],
];

/// Words that may stand in one module only.
const OWNED: &[(&str, &str)] =
    &[("rusqlite", "store"), ("rmcp", "mcp"), ("process::Command", "process")];

/// The doors of rows, and who may call them: what one step entails is known in one place only.
const DOORS: &[&str] = &[
    ".step_agent(",
    ".step_approval(",
    ".step_attempt(",
    ".step_connection(",
    ".step_direct_turn(",
    ".step_objective(",
    ".step_proposal(",
    ".step_message(",
    ".step_task(",
    ".step_workspace(",
];

/// Who may open them.
const DOOR_KEEPERS: &[&str] = &["store", "progress"];

fn rank(module: &str) -> Option<usize> {
    LAYERS.iter().position(|row| row.contains(&module))
}

/// Every `.rs` file below `dir`, in order.
fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs_err::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            sources(&entry, out);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            out.push(entry);
        }
    }
}

/// `text` without its comments: links in them are for readers, not imports.
fn code(text: &str) -> String {
    text.lines()
        .map(|line| if line.trim_start().starts_with("//") { "" } else { line })
        .collect::<Vec<_>>()
        .join("\n")
}

/// The first names behind each `prefix`: of `crate::{a::X, b}` both `a` and `b`.
fn names_behind<'a>(code: &'a str, prefix: &str) -> Vec<&'a str> {
    let word = |text: &'a str| {
        let text = text.trim_start();
        text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
    };
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let (_, rest) = code.split_at(at + prefix.len());
        let Some(list) = rest.trim_start().strip_prefix('{') else {
            names.push(word(rest));
            continue;
        };
        let mut depth = 0;
        names.push(word(list));
        for (index, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => names.push(word(list.split_at(index + 1).1)),
                _ => {}
            }
        }
    }
    names
}

/// What the file at `path` (below `src`) imports that it may not.
fn breaches(path: &Path, text: &str) -> Vec<String> {
    let parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
    let module = parts.first().unwrap().trim_end_matches(".rs");
    if module == "lib" {
        return Vec::new();
    }
    let Some(own) = rank(module) else { return vec![format!("{module} has no layer")] };
    let code = code(text);
    let mut out = Vec::new();
    // `super` of a top module is the crate, too.
    let depth = parts.len() - usize::from(parts.last() == Some(&"mod.rs"));
    let mut targets = names_behind(&code, "crate::");
    let up = names_behind(&code, &"super::".repeat(depth));
    targets.extend(up.into_iter().filter(|name| rank(name).is_some() && *name != module));
    for target in targets {
        if target != module && rank(target).is_some_and(|rank| rank >= own) {
            out.push(format!("{}: {module} imports {target}", path.display()));
        }
    }
    // A test may use what it likes to make trouble.
    let is_test = parts.contains(&"tests");
    for (word, owner) in OWNED.iter().filter(|_| !is_test) {
        if module != *owner && code.contains(word) {
            out.push(format!("{}: {word} belongs to {owner}", path.display()));
        }
    }
    if !DOOR_KEEPERS.contains(&module) && DOORS.iter().any(|door| code.contains(door)) {
        out.push(format!("{}: only progress moves states", path.display()));
    }
    out
}

#[test]
fn imports_point_down() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let mut files = Vec::new();
    sources(root, &mut files);
    let read = |file: &PathBuf| {
        let text = fs_err::read_to_string(file).unwrap();
        breaches(file.strip_prefix(root).unwrap(), &text)
    };
    let upward: Vec<_> = files.iter().flat_map(read).collect();
    assert!(files.len() > 20 && upward.is_empty(), "{upward:#?}");
}

#[test]
fn an_import_that_points_up_is_found() {
    let cases = [
        ("domain/task.rs", "use crate::store::Store;", 1),
        ("store/mod.rs", "use crate::{error::{Code, Error}, port, engine};", 2),
        ("store/tx.rs", "use super::super::engine::Core;", 1),
        ("env.rs", "use super::domain::task;", 1),
        ("ids.rs", "use crate::time::Timestamp;", 1),
        ("mcp/http.rs", "let x: crate::local::Socket;", 1),
        ("api/mod.rs", "use rusqlite::Connection;", 1),
        ("engine/duty.rs", "tokio::process::Command::new(\"x\")", 1),
        ("manager.rs", "", 1),
        ("progress/tasks.rs", "use crate::engine::Core;", 1),
        ("store/task.rs", "use crate::progress::Decided;", 1),
        ("api/tool/x.rs", "tx.step_agent(&id, input, &why)", 1),
        ("engine/run.rs", "self.step_task(&id, input, |_| ())", 1),
        ("progress/tasks.rs", "self.step_task(&id, input, |_| ())", 0),
        ("api/mod.rs", "use crate::{engine::Core, error};", 0),
        ("api/cx.rs", "use super::command::X;", 0),
        ("limits.rs", "/// See [`S`](crate::settings::S).", 0),
        ("lib.rs", "use crate::mcp;", 0),
    ];
    for (path, text, wanted) in cases {
        let found = breaches(Path::new(path), text);
        assert_eq!(found.len(), wanted, "{path}: {text}: {found:?}");
    }
}
