//! The pinned CLIs: which version, where it lies, and how it gets there on first use. The pins are
//! `cli/package.json` and its lock file; nothing of a CLI is in the repository.

use std::error::Error;
use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

use crate::offline;

/// Set to `1`, a missing CLI fails the tests that need it instead of skipping them.
pub const REQUIRE: &str = "CORTEX_REQUIRE_CLIS";

const PACKAGE: &str = include_str!("../cli/package.json");
const LOCK: &str = include_str!("../cli/package-lock.json");
const NPMRC: &str = include_str!("../cli/.npmrc");
const CLAUDE_CODE: &str = "@anthropic-ai/claude-code";

/// A pinned CLI could not be made available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingCli {
    cli: &'static str,
    why: String,
}

impl fmt::Display for MissingCli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} is not available: {}", self.cli, version(self.cli), self.why)
    }
}

impl Error for MissingCli {}

/// The native executable of the pinned Claude Code, installed by `npm ci` on first use.
///
/// It lies in `clis/` of the target folder, under the hash of the lock file. Several processes may
/// ask at once. Inside [`offline::enter`] there is no registry, so ask before that.
pub fn claude_code() -> Result<PathBuf, MissingCli> {
    static FOUND: OnceLock<Result<PathBuf, MissingCli>> = OnceLock::new();
    let find = || {
        let find = |root: &Path| claude_code_in(root);
        provide(find).map_err(|why| MissingCli { cli: CLAUDE_CODE, why })
    };
    FOUND.get_or_init(find).clone()
}

/// The pinned version of Claude Code.
pub fn claude_code_version() -> String {
    version(CLAUDE_CODE)
}

/// Says loudly that a test is skipped for want of a CLI and returns nothing, or hands on the CLI.
///
/// # Panics
///
/// When the CLI is missing and [`REQUIRE`] is `1`.
#[expect(clippy::panic, reason = "a CLI that is required and missing fails the test that asks")]
pub fn require(found: Result<PathBuf, MissingCli>) -> Option<PathBuf> {
    match found {
        Ok(path) => Some(path),
        Err(missing) if std::env::var_os(REQUIRE).is_some_and(|value| value == "1") => {
            panic!("{missing}");
        }
        Err(missing) => {
            // Not eprintln, which the test harness keeps to itself.
            writeln!(io::stderr(), "SKIPPED: {missing}").unwrap_or_default();
            None
        }
    }
}

fn version(package: &str) -> String {
    let pins: serde_json::Value = serde_json::from_str(PACKAGE).unwrap_or_default();
    let pin = pins.get("dependencies").and_then(|all| all.get(package));
    pin.and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

/// npm chooses between the packages of one platform by the machine's C library, so both count.
fn claude_code_in(root: &Path) -> Option<PathBuf> {
    let system = if cfg!(windows) {
        "win32"
    } else if cfg!(target_os = "macos") {
        "darwin"
    } else {
        "linux"
    };
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let file = if cfg!(windows) { "claude.exe" } else { "claude" };
    ["", "-musl"]
        .iter()
        .map(|libc| format!("node_modules/{CLAUDE_CODE}-{system}-{machine}{libc}/{file}"))
        .map(|path| root.join(path))
        .find(|path| path.is_file())
}

/// Finds a CLI in the installed folder, and installs that first when it is not there.
fn provide(find: impl Fn(&Path) -> Option<PathBuf>) -> Result<PathBuf, String> {
    let clis = target_dir()?.join("clis");
    let root = clis.join(lock_hash());
    if let Some(path) = find(&root) {
        return Ok(path);
    }
    if offline::is_inside() {
        return Err(format!("{} lacks it, and there is no network here", root.display()));
    }
    let text = |error: io::Error| error.to_string();
    fs_err::create_dir_all(&clis).map_err(text)?;
    // Whoever comes second waits here and then finds the work done. The lock ends with the file.
    let guard = fs_err::File::create(root.with_extension("lock")).map_err(text)?;
    guard.file().lock().map_err(text)?;
    if find(&root).is_none() {
        install(&root).map_err(text)?;
    }
    find(&root)
        .ok_or_else(|| format!("npm ci put no program for this platform into {}", root.display()))
}

/// Fills a folder beside the final one and renames it, so that the final one is always whole.
fn install(root: &Path) -> io::Result<()> {
    let partial = root.with_extension("partial");
    for stale in [partial.as_path(), root] {
        if stale.exists() {
            fs_err::remove_dir_all(stale)?;
        }
    }
    fs_err::create_dir_all(&partial)?;
    fs_err::write(partial.join("package.json"), PACKAGE)?;
    fs_err::write(partial.join("package-lock.json"), LOCK)?;
    fs_err::write(partial.join(".npmrc"), NPMRC)?;
    // The packages are native programs; their install scripts only move a file for npm's own use.
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let ran = Command::new(npm)
        .args(["ci", "--ignore-scripts", "--include=optional", "--no-audit", "--no-fund"])
        .current_dir(&partial)
        .stdin(Stdio::null())
        .output();
    let ran = ran.map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("{npm} does not run ({error}); install Node.js with npm"),
        )
    })?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        return Err(io::Error::other(format!("npm ci failed ({}): {}", ran.status, said.trim())));
    }
    fs_err::rename(&partial, root)
}

fn lock_hash() -> String {
    let hash = Sha256::digest(LOCK);
    hash.iter().take(8).fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// The target folder that this test was built into: the nearest one above it that cargo marked.
fn target_dir() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    program
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").is_file())
        .map(Path::to_owned)
        .ok_or_else(|| format!("{} lies in no target folder of cargo", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_file_names_no_registry() {
        assert!(!LOCK.contains("resolved") && !LOCK.contains("://"));
    }

    #[test]
    fn the_lock_file_pins_what_the_package_file_asks_for() {
        let lock: serde_json::Value = serde_json::from_str(LOCK).unwrap();
        let pinned = &lock["packages"][format!("node_modules/{CLAUDE_CODE}")]["version"];
        assert_eq!(pinned.as_str(), Some(claude_code_version().as_str()));
    }

    #[test]
    fn a_missing_cli_says_which_and_why() {
        let missing = MissingCli { cli: CLAUDE_CODE, why: "npm is away".to_owned() };
        let version = claude_code_version();
        let said = format!("{CLAUDE_CODE} {version} is not available: npm is away");
        assert_eq!(missing.to_string(), said);
    }
}
