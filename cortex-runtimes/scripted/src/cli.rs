//! The pinned CLIs: which version, where it lies, and how it gets there on first use. The pins are
//! `cli/package.json` and its lock file; nothing of a CLI is in the repository.

use std::error::Error;
use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::first_use::{self, NpmPackages};

/// Set to `1`, a missing CLI fails the tests that need it instead of skipping them.
pub const REQUIRE: &str = "CORTEX_REQUIRE_CLIS";

const PACKAGE: &str = include_str!("../cli/package.json");
const LOCK: &str = include_str!("../cli/package-lock.json");
const NPMRC: &str = include_str!("../cli/.npmrc");
const CLAUDE_CODE: &str = "@anthropic-ai/claude-code";
const CODEX: &str = "@openai/codex";
/// The package of one platform: the one that chooses between them needs all of them to be there.
const OPENCODE: &str = "opencode-linux-x64-baseline";

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
/// ask at once. Inside [`offline::enter`](crate::offline::enter) there is no registry, so ask before that.
pub fn claude_code() -> Result<PathBuf, MissingCli> {
    static FOUND: OnceLock<Result<PathBuf, MissingCli>> = OnceLock::new();
    FOUND.get_or_init(|| pinned(CLAUDE_CODE, claude_code_in)).clone()
}

/// The native executable of the pinned Codex, as [`claude_code`].
pub fn codex() -> Result<PathBuf, MissingCli> {
    static FOUND: OnceLock<Result<PathBuf, MissingCli>> = OnceLock::new();
    FOUND.get_or_init(|| pinned(CODEX, codex_in)).clone()
}

/// The native executable of the pinned OpenCode, as [`claude_code`].
pub fn opencode() -> Result<PathBuf, MissingCli> {
    static FOUND: OnceLock<Result<PathBuf, MissingCli>> = OnceLock::new();
    FOUND.get_or_init(|| pinned(OPENCODE, opencode_in)).clone()
}

/// The pinned version of Claude Code.
pub fn claude_code_version() -> String {
    version(CLAUDE_CODE)
}

/// The pinned version of Codex.
pub fn codex_version() -> String {
    version(CODEX)
}

/// The pinned version of OpenCode.
pub fn opencode_version() -> String {
    version(OPENCODE)
}

/// Says loudly that a test is skipped for want of a program and returns nothing, or hands on the program.
///
/// # Panics
///
/// When it is missing and [`REQUIRE`] is `1`.
#[expect(clippy::panic, reason = "a program that is required and missing fails the test that asks")]
pub fn require(found: Result<PathBuf, impl fmt::Display>) -> Option<PathBuf> {
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
    let pin = ["dependencies", "optionalDependencies"]
        .into_iter()
        .find_map(|kind| pins.get(kind).and_then(|all| all.get(package)));
    pin.and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

/// npm chooses between the packages of one platform by the machine's C library, so both count.
fn claude_code_in(root: &Path) -> Option<PathBuf> {
    let system = if cfg!(windows) { "win32" } else { platform_system() };
    let file = if cfg!(windows) { "claude.exe" } else { "claude" };
    let machine = platform_machine();
    ["", "-musl"]
        .iter()
        .map(|libc| format!("node_modules/{CLAUDE_CODE}-{system}-{machine}{libc}/{file}"))
        .map(|path| root.join(path))
        .find(|path| path.is_file())
}

/// The program itself, not the script around it, which would stay as its parent.
fn codex_in(root: &Path) -> Option<PathBuf> {
    let system = if cfg!(windows) { "win32" } else { platform_system() };
    let file = if cfg!(windows) { "bin/codex.exe" } else { "bin/codex" };
    let vendor = root.join(format!("node_modules/{CODEX}-{system}-{}/vendor", platform_machine()));
    let triples = fs_err::read_dir(vendor).ok()?;
    triples
        .filter_map(Result::ok)
        .map(|triple| triple.path().join(file))
        .find(|path| path.is_file())
}

fn opencode_in(root: &Path) -> Option<PathBuf> {
    let path = root.join(format!("node_modules/{OPENCODE}/bin/opencode"));
    path.is_file().then_some(path)
}

fn platform_system() -> &'static str {
    if cfg!(target_os = "macos") { "darwin" } else { "linux" }
}

fn platform_machine() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" }
}

fn pinned(
    cli: &'static str,
    find: impl Fn(&Path) -> Option<PathBuf>,
) -> Result<PathBuf, MissingCli> {
    provide(find).map_err(|why| MissingCli { cli, why })
}

/// Finds a CLI in the installed folder, and installs that first when it is not there.
fn provide(find: impl Fn(&Path) -> Option<PathBuf>) -> Result<PathBuf, String> {
    let packages = NpmPackages { package: PACKAGE, lock: LOCK, npmrc: NPMRC };
    let root = first_use::folder("clis", LOCK, |partial| packages.install(partial))?;
    find(&root)
        .ok_or_else(|| format!("npm ci put no program for this platform into {}", root.display()))
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
        for package in [CLAUDE_CODE, CODEX, OPENCODE] {
            let pinned = &lock["packages"][format!("node_modules/{package}")]["version"];
            assert_eq!(pinned.as_str(), Some(version(package).as_str()));
        }
    }

    #[test]
    fn a_missing_cli_says_which_and_why() {
        let missing = MissingCli { cli: CLAUDE_CODE, why: "npm is away".to_owned() };
        let version = claude_code_version();
        let said = format!("{CLAUDE_CODE} {version} is not available: npm is away");
        assert_eq!(missing.to_string(), said);
    }
}
