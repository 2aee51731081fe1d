//! What a repository brings that OpenCode runs whatever it is told: a session that does not trust it is refused.
//!
//! `OPENCODE_DISABLE_PROJECT_CONFIG` and `--pure` hold for one of OpenCode's two readers of configuration. The other one
//! (seen in 1.18.33) looks at each folder from the session's up to the repository's, or up to the root where it sees no
//! repository, and loads the plugins that it finds as soon as it hears of the folder.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use cortex_lib::error::{Code, Error, Result};

use super::{OpenCodeConfig, launch};

/// The folder with what a repository brings.
const BROUGHT: &str = ".opencode";
/// The folders in it with programs. The tools are heeded by none of the versions that were tried, and are programs still.
const PROGRAMS: [&str; 4] = ["plugin", "plugins", "tool", "tools"];
/// The configuration, in each folder and in that one.
const DOCUMENTS: [&str; 2] = ["opencode.json", "opencode.jsonc"];
/// What names programs or makes OpenCode fetch something when it is in a configuration, and an escape, which can hide such
/// a name. Whether it stands where it counts is not looked at.
const NAMED: [&str; 4] = ["plugin", "reference", "skills", "\\u"];
/// The largest configuration that is read.
const DOCUMENT_BYTES_MAX: u64 = 1024 * 1024;

/// Refuses a folder in which OpenCode would run what was brought.
///
/// OpenCode reads a folder once, when it first hears of it, and again after it has let go of it. So this is asked before
/// a session opens and before each of its turns: an agent can write such a file.
///
/// # Errors
///
/// `runtime.start_failed`, which names the file.
pub(super) fn refuse(folder: &Path, config: &OpenCodeConfig) -> Result<()> {
    let homes = launch::setting(config, "HOME").map(|home| with_real(Path::new(&home)));
    let homes = homes.unwrap_or_default();
    for start in with_real(folder) {
        if let Some(file) = find(&start, &homes) {
            let message = format!(
                "OpenCode would run or load what {} brings, though the project is not trusted",
                file.display()
            );
            return Err(Error::new(Code::RuntimeStartFailed, message)
                .with("file", file.display().to_string())
                .remedy("Trust the project, or move the file away."));
        }
    }
    Ok(())
}

/// A path and where it leads.
fn with_real(path: &Path) -> Vec<PathBuf> {
    let real = fs_err::canonicalize(path).ok().filter(|real| real != path);
    [Some(path.to_owned()), real].into_iter().flatten().collect()
}

/// The first file that would run. It looks further up than OpenCode does in a repository: where that ends, only git knows, and
/// a repository can bring what looks like its end.
fn find(folder: &Path, homes: &[PathBuf]) -> Option<PathBuf> {
    folder.ancestors().find_map(|folder| {
        // In the home folder it is the person's own.
        let brought = folder.join(BROUGHT);
        let brought = (!homes.iter().any(|home| home == folder)).then_some(brought);
        document(folder)
            .or_else(|| brought.as_deref().and_then(document))
            .or_else(|| brought.as_deref().and_then(program))
    })
}

fn program(brought: &Path) -> Option<PathBuf> {
    PROGRAMS.iter().map(|name| brought.join(name)).find_map(|folder| {
        let entries = match fs_err::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => return (!is_nothing(&error)).then_some(folder),
        };
        let mut files = entries.map(|entry| entry.map_or(folder.clone(), |entry| entry.path()));
        files.find(|file| *file == folder || is_program(file))
    })
}

fn is_program(file: &Path) -> bool {
    let kind = file.extension().unwrap_or_default();
    kind.eq_ignore_ascii_case("js") || kind.eq_ignore_ascii_case("ts")
}

fn document(folder: &Path) -> Option<PathBuf> {
    DOCUMENTS.iter().map(|name| folder.join(name)).find(|file| match is_harmless(file) {
        Ok(is_harmless) => !is_harmless,
        Err(error) => !is_nothing(&error),
    })
}

fn is_harmless(file: &Path) -> io::Result<bool> {
    let facts = fs_err::metadata(file)?;
    if facts.is_dir() {
        return Ok(true);
    }
    // A pipe would hold up whoever reads it.
    if !facts.is_file() || facts.len() > DOCUMENT_BYTES_MAX {
        return Ok(false);
    }
    let text = fs_err::read(file)?;
    let text = String::from_utf8_lossy(&text);
    Ok(!NAMED.iter().any(|name| text.contains(name)))
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(folder: &Path, file: &str, text: &str) -> bool {
        let place = tempfile::tempdir_in(folder).unwrap();
        let file = place.path().join(file);
        fs_err::create_dir_all(file.parent().unwrap()).unwrap();
        fs_err::write(&file, text).unwrap();
        let below = place.path().join("a/b");
        fs_err::create_dir_all(&below).unwrap();
        let error = refuse(&below, &OpenCodeConfig::default()).err();
        let named = error.as_ref().map(|error| error.message().contains(&*file.to_string_lossy()));
        assert_ne!(named, Some(false), "{error:?}");
        named.is_some()
    }

    #[test]
    fn what_would_run_is_found_in_and_above_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            ".opencode/plugin/x.js",
            ".opencode/plugins/x.ts",
            ".opencode/tool/x.ts",
            ".opencode/tools/.x.js",
            "a/.opencode/plugin/x.ts",
            "a/b/.opencode/plugin/x.js",
        ] {
            assert!(found(folder.path(), file, ""), "{file}");
        }
        for file in [".opencode/agent/x.md", ".opencode/package.json", "plugin/x.js"] {
            assert!(!found(folder.path(), file, ""), "{file}");
        }
    }

    #[test]
    fn a_configuration_is_harmless_unless_it_may_name_programs() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["opencode.json", "a/opencode.jsonc", ".opencode/opencode.json"] {
            assert!(!found(folder.path(), file, r#"{"mcp": {}, "permission": "allow"}"#));
            assert!(found(folder.path(), file, r#"{"plugin": ["./x.js"]}"#));
            assert!(found(folder.path(), file, r#"{"pl\u0075gins": ["./x.js"]}"#));
        }
    }

    #[test]
    fn what_lies_in_the_home_folder_is_the_persons_own() {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join("project");
        fs_err::create_dir_all(home.path().join(".opencode/plugin")).unwrap();
        fs_err::create_dir_all(&project).unwrap();
        fs_err::write(home.path().join(".opencode/plugin/x.js"), "").unwrap();
        assert!(find(&project, &[]).is_some());
        assert_eq!(find(&project, &[home.path().to_owned()]), None);
    }
}
