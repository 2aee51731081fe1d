//! Is Claude Code here, which version, and is it logged in? Without a turn, so without spending anything.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cortex_lib::env::Env;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::port::{Health, HealthReport};
use cortex_lib::process::{Exit, Lines, Program};
use serde::Deserialize;
use tokio::time::timeout;

use super::{ClaudeCodeConfig, launch};

/// How long `--version` and `auth status` may take. They were seen to take 0.2 and 0.8 s.
const PROBE_WAIT: Duration = Duration::from_secs(10);
/// What is read of their output.
const OUTPUT_LINES_MAX: usize = 200;
/// The program's name on the `PATH`.
const NAME: &str = "claude";
/// The version that the tests of this driver run.
const TESTED: &str = "2.1.332";
/// What to do without a login.
pub(super) const LOG_IN: &str =
    "Run `claude` in a terminal and log in with /login, or set ANTHROPIC_API_KEY.";
const INSTALL: &str = "Install Claude Code (`npm install -g @anthropic-ai/claude-code`), or set its path in the configuration.";

/// Finds the program: where the configuration says, on the `PATH`, or where its own installers put it.
///
/// # Errors
///
/// `runtime.not_installed`.
pub(super) fn find(config: &ClaudeCodeConfig) -> Result<PathBuf> {
    if let Some(configured) = &config.executable {
        return which::which(configured).map_err(|_| {
            let path = configured.display();
            let message = format!("Claude Code is not at {path}, where the configuration says");
            Error::new(Code::RuntimeNotInstalled, message)
                .remedy("Correct the path in the configuration, or remove it.")
        });
    }
    let found = match config.env.get("PATH") {
        Some(path) => which::which_in(NAME, Some(path), "."),
        None => which::which(NAME),
    };
    let installed = [".claude/local", ".local/bin"];
    found
        .ok()
        .or_else(|| {
            let home = home(config)?;
            installed.iter().find_map(|folder| which::which(home.join(folder).join(NAME)).ok())
        })
        .ok_or_else(|| {
            Error::new(Code::RuntimeNotInstalled, "Claude Code was not found on this machine")
                .remedy(INSTALL)
        })
}

/// The person's home as the CLI sees it.
pub(super) fn home(config: &ClaudeCodeConfig) -> Option<PathBuf> {
    config.env.get("HOME").map(PathBuf::from).or_else(std::env::home_dir)
}

/// Looks whether it can start.
pub(super) async fn check(config: &ClaudeCodeConfig, env: &dyn Env) -> HealthReport {
    let executable = match find(config) {
        Ok(executable) => executable,
        Err(error) => return unhealthy(None, None, &error),
    };
    let version = match version(&executable, config, env).await {
        Ok(version) => version,
        Err(error) => return unhealthy(Some(executable), None, &error),
    };
    let status = auth_status(&executable, config, env).await;
    let logged_in = status.as_ref().map(|status| status.logged_in);
    if logged_in == Some(false) {
        let error =
            Error::new(Code::RuntimeNotLoggedIn, "Claude Code is not logged in").remedy(LOG_IN);
        let report = unhealthy(Some(executable), Some(version), &error);
        return HealthReport { logged_in, ..report };
    }
    HealthReport {
        health: Health::Healthy,
        message: Some(ready(&version, status.as_ref())),
        version: Some(version),
        executable: Some(executable),
        logged_in,
        remediation: None,
    }
}

fn unhealthy(executable: Option<PathBuf>, version: Option<String>, error: &Error) -> HealthReport {
    HealthReport {
        health: Health::Unhealthy,
        version,
        executable,
        logged_in: None,
        message: Some(error.message().to_owned()),
        remediation: Some(error.remediation().to_owned()),
    }
}

/// `2.1.197 (Claude Code)` → `2.1.197`.
async fn version(executable: &Path, config: &ClaudeCodeConfig, env: &dyn Env) -> Result<String> {
    let (exit, output) = run(executable, &["--version"], config, env).await?;
    let first = output.split_whitespace().next().unwrap_or_default();
    if exit.is_success() && first.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(first.to_owned());
    }
    let shown = super::summary::one_line(&output, 200);
    let path = executable.display();
    let message = format!("{path} does not say its version ({exit}): {shown}");
    Err(Error::new(Code::RuntimeStartFailed, message)
        .remedy("Check that this is Claude Code; install it again if it is."))
}

/// What is said of a program that can start. Whether a login holds, only a turn shows.
fn ready(version: &str, status: Option<&AuthStatus>) -> String {
    let mut said = format!("Claude Code {version} is ready");
    match status {
        Some(AuthStatus { auth_method: Some(method), .. }) if method != "none" => {
            said.push_str(", with a login by ");
            said.push_str(&method.replace('_', " "));
        }
        Some(_) => {}
        None => said.push_str("; it does not say whether it is logged in"),
    }
    if version != TESTED {
        said.push_str("; this driver is tested with ");
        said.push_str(TESTED);
    }
    said
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthStatus {
    logged_in: bool,
    /// How: `api_key`, `oauth_token`, …
    #[serde(default)]
    auth_method: Option<String>,
}

/// What `auth status` says; `None` when it says nothing that can be read, as in versions without it.
async fn auth_status(
    executable: &Path,
    config: &ClaudeCodeConfig,
    env: &dyn Env,
) -> Option<AuthStatus> {
    let (_, output) = run(executable, &["auth", "status"], config, env).await.ok()?;
    let json = output.get(output.find('{')?..)?;
    serde_json::from_str(json).ok()
}

/// Runs the program and returns its standard output. Whatever happens, nothing of it lives afterwards.
async fn run(
    executable: &Path,
    arguments: &[&str],
    config: &ClaudeCodeConfig,
    env: &dyn Env,
) -> Result<(Exit, String)> {
    let argv = [executable.as_os_str()].into_iter().chain(arguments.iter().map(AsRef::as_ref));
    let program = Program::new(argv, std::env::temp_dir(), format!("probe-{}", env.mint()));
    let owned = launch::environment(program, config).spawn().await?;
    drop(owned.take_stdin());
    let output = async {
        let mut output = String::new();
        if let Some(stdout) = owned.take_stdout() {
            let mut lines = Lines::new(stdout);
            for _ in 0..OUTPUT_LINES_MAX {
                let Ok(Some(line)) = lines.next_line().await else { break };
                output.push_str(&line.text);
                output.push('\n');
            }
        }
        (owned.exited().await, output)
    };
    let output = timeout(PROBE_WAIT, output).await;
    owned.end().await;
    output.map_err(|_| {
        let what = format!("{} {}", executable.display(), arguments.join(" "));
        Error::new(
            Code::RuntimeStartFailed,
            format!("{what} did not end within {} s", PROBE_WAIT.as_secs()),
        )
    })
}

#[cfg(test)]
mod tests {
    use cortex_lib::env::SystemEnv;

    use super::*;

    #[cfg(unix)]
    #[tokio::test(start_paused = true)]
    async fn a_program_that_hangs_is_ended_and_said_to_hang() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("claude");
        fs_err::write(&program, "#!/bin/sh\nexec sleep 86411\n").unwrap();
        fs_err::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let config = ClaudeCodeConfig { executable: Some(program), ..ClaudeCodeConfig::default() };
        let report = check(&config, &SystemEnv::new()).await;
        assert_eq!(report.health, Health::Unhealthy);
        let message = report.message.unwrap();
        assert!(message.contains("did not end within 10 s"), "{message}");
    }

    #[test]
    fn the_tested_version_is_the_pinned_one() {
        assert_eq!(TESTED, cortex_scripted::cli::claude_code_version());
    }

    #[test]
    fn another_version_than_the_tested_one_is_told() {
        let status = AuthStatus { logged_in: true, auth_method: Some("api_key".to_owned()) };
        let plain = format!("Claude Code {TESTED} is ready, with a login by api key");
        assert_eq!(ready(TESTED, Some(&status)), plain);
        let said = ready("9.9.9", None);
        assert!(said.contains("9.9.9") && said.contains(TESTED) && said.contains("does not say"));
    }

    #[test]
    fn a_configured_path_is_the_only_one() {
        let executable = Some("/no/such/claude".into());
        let config = ClaudeCodeConfig { executable, ..ClaudeCodeConfig::default() };
        assert_eq!(find(&config).unwrap_err().code(), Code::RuntimeNotInstalled);
    }
}
