//! Is OpenCode here, which version, and what does it miss? Without a server, so within a second.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cortex_lib::env::Env;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::port::{Health, HealthReport};
use cortex_lib::process::{Lines, Program};
use serde_json::Value;
use tokio::time::timeout;

use super::{OpenCodeConfig, launch};
use crate::line::one_line;

/// How long `--version` may take. It was seen to take 1 s.
const PROBE_WAIT: Duration = Duration::from_secs(15);
/// The version that the tests of this driver run.
const TESTED: &str = "1.18.33";
/// The program's name on the `PATH`.
const NAME: &str = "opencode";
const INSTALL: &str =
    "Install OpenCode (`npm install -g opencode-ai`), or set its path in the configuration.";
const INSTALL_RG: &str = "Install ripgrep (`rg`): otherwise OpenCode downloads it from the network when it first searches.";

/// Finds the program: where the configuration says, on the `PATH`, or where its own installer puts it.
///
/// # Errors
///
/// `runtime.not_installed`.
pub(super) fn find(config: &OpenCodeConfig) -> Result<PathBuf> {
    if let Some(configured) = &config.executable {
        return which::which(configured).map_err(|_| {
            let path = configured.display();
            let message = format!("OpenCode is not at {path}, where the configuration says");
            Error::new(Code::RuntimeNotInstalled, message)
                .remedy("Correct the path in the configuration, or remove it.")
        });
    }
    let installed = || which::which(home(config)?.join(".opencode/bin").join(NAME)).ok();
    on_path(config, NAME).or_else(installed).ok_or_else(|| {
        Error::new(Code::RuntimeNotInstalled, "OpenCode was not found on this machine")
            .remedy(INSTALL)
    })
}

fn on_path(config: &OpenCodeConfig, name: &str) -> Option<PathBuf> {
    match config.env.get("PATH") {
        Some(path) => which::which_in(name, Some(path), ".").ok(),
        None => which::which(name).ok(),
    }
}

fn home(config: &OpenCodeConfig) -> Option<PathBuf> {
    config.env.get("HOME").map(PathBuf::from).or_else(std::env::home_dir)
}

/// OpenCode's folder for logins and programs that it downloads.
fn data(config: &OpenCodeConfig) -> Option<PathBuf> {
    let base = launch::setting(config, "XDG_DATA_HOME").filter(|folder| !folder.is_empty());
    let base = base.map(PathBuf::from).or_else(|| Some(home(config)?.join(".local/share")));
    Some(base?.join("opencode"))
}

/// Looks whether it can start.
pub(super) async fn check(config: &OpenCodeConfig, env: &dyn Env) -> HealthReport {
    let executable = match find(config) {
        Ok(executable) => executable,
        Err(error) => return unhealthy(None, &error),
    };
    let version = match version(&executable, config, env).await {
        Ok(version) => version,
        Err(error) => return unhealthy(Some(executable), &error),
    };
    let mut message = format!("OpenCode {version} is ready");
    if series(&version) != series(TESTED) {
        message = format!("{message}; Cortex was tested with {TESTED}");
    }
    let downloaded = || data(config).is_some_and(|data| data.join("bin/rg").is_file());
    let searches = on_path(config, "rg").is_some() || downloaded();
    if !searches {
        message = format!("{message}; ripgrep (rg) is not on its PATH");
    }
    HealthReport {
        health: Health::Healthy,
        version: Some(version),
        executable: Some(executable),
        logged_in: logged_in(config),
        message: Some(message),
        remediation: (!searches).then(|| INSTALL_RG.to_owned()),
    }
}

fn unhealthy(executable: Option<PathBuf>, error: &Error) -> HealthReport {
    HealthReport {
        health: Health::Unhealthy,
        version: None,
        executable,
        logged_in: None,
        message: Some(error.message().to_owned()),
        remediation: Some(error.remediation().to_owned()),
    }
}

/// `1.18.33` → `1.18`: what may differ without a word.
fn series(version: &str) -> Vec<&str> {
    version.split('.').take(2).collect()
}

/// Whether a login is stored. Without one it may still have a provider: a key in a variable or in its configuration,
/// or one that needs no login. Only a server can tell.
fn logged_in(config: &OpenCodeConfig) -> Option<bool> {
    let text = fs_err::read_to_string(data(config)?.join("auth.json")).ok()?;
    let logins: Value = serde_json::from_str(&text).ok()?;
    logins.as_object().is_some_and(|logins| !logins.is_empty()).then_some(true)
}

/// Its version. Whatever happens, nothing of the program lives afterwards.
async fn version(executable: &Path, config: &OpenCodeConfig, env: &dyn Env) -> Result<String> {
    let argv = [executable.as_os_str(), "--version".as_ref()];
    let program = Program::new(argv, std::env::temp_dir(), format!("probe-{}", env.mint()));
    let owned = launch::environment(program, config)
        .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
        .spawn()
        .await?;
    drop(owned.take_stdin());
    let first = async {
        let mut lines = Lines::new(owned.take_stdout()?);
        lines.next_line().await.ok()?.map(|line| line.text)
    };
    let first = timeout(PROBE_WAIT, first).await;
    owned.end().await;
    let path = executable.display();
    let failed = |what: String| {
        Error::new(Code::RuntimeStartFailed, what)
            .remedy("Check that this is OpenCode; install it again if it is.")
    };
    let first = first.map_err(|_| {
        failed(format!("{path} --version did not end within {} s", PROBE_WAIT.as_secs()))
    })?;
    let first = first.unwrap_or_default();
    if first.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(first.trim().to_owned());
    }
    Err(failed(format!("{path} does not say its version: {}", one_line(&first, 200))))
}

#[cfg(test)]
mod tests {
    use cortex_lib::env::SystemEnv;

    use super::*;

    #[test]
    fn a_configured_path_is_the_only_one() {
        let executable = Some("/no/such/opencode".into());
        let config = OpenCodeConfig { executable, ..OpenCodeConfig::default() };
        assert_eq!(find(&config).unwrap_err().code(), Code::RuntimeNotInstalled);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn what_is_missing_and_what_differs_is_said_with_what_to_do() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("opencode");
        fs_err::write(&program, "#!/bin/sh\necho 2.0.1\n").unwrap();
        fs_err::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let folder = dir.path().display().to_string();
        let env = [("HOME", &folder), ("XDG_DATA_HOME", &folder), ("PATH", &folder)]
            .map(|(name, value)| (name.to_owned(), value.clone()));
        let config = OpenCodeConfig {
            executable: Some(program),
            env: env.into(),
            ..OpenCodeConfig::default()
        };
        let report = check(&config, &SystemEnv::new()).await;
        let message = report.message.unwrap();
        assert!(message.contains("2.0.1 is ready; Cortex was tested with 1.18."), "{message}");
        assert!(message.ends_with("ripgrep (rg) is not on its PATH"), "{message}");
        assert_eq!(report.remediation.as_deref(), Some(INSTALL_RG));
        assert_eq!((report.health, report.logged_in), (Health::Healthy, None));
    }
}
