//! Is Codex here, which version, is it logged in, and can it hold its tools in a sandbox? Without a turn, so without
//! spending anything.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::env::Env;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::port::{Health, HealthReport};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::launch::{self, Purpose};
use super::pool::Host;
use super::{CodexConfig, Sandbox, open, rules};

/// How long a look may take. It was seen to take 0.3 s.
const PROBE_WAIT: Duration = Duration::from_secs(12);
/// The version that the tests of this driver run with.
pub(super) const TESTED: &str = "0.171.0";
/// The program's name on the `PATH`.
const NAME: &str = "codex";
const INSTALL: &str =
    "Install Codex (`npm install -g @openai/codex`), or set its path in the configuration.";

/// Finds the program: where the configuration says, or on the `PATH`.
///
/// What npm puts there is a script that stays as the parent of the program on most versions of Node. The program is
/// what is started, so that a signal reaches it and its end is seen.
///
/// # Errors
///
/// `runtime.not_installed`.
pub(super) fn find(config: &CodexConfig) -> Result<PathBuf> {
    let found = match (&config.executable, config.env.get("PATH")) {
        (Some(configured), _) => which::which(configured).map_err(|_| {
            let path = configured.display();
            let message = format!("Codex is not at {path}, where the configuration says");
            Error::new(Code::RuntimeNotInstalled, message)
                .remedy("Correct the path in the configuration, or remove it.")
        })?,
        (None, path) => {
            let found = match path {
                Some(path) => which::which_in(NAME, Some(path), "."),
                None => which::which(NAME),
            };
            found.map_err(|_| {
                Error::new(Code::RuntimeNotInstalled, "Codex was not found on this machine")
                    .remedy(INSTALL)
            })?
        }
    };
    native(&found).ok_or_else(|| {
        let message = format!("{} starts a program that is not there", found.display());
        Error::new(Code::RuntimeNotInstalled, message).remedy(
            "Install Codex again with its optional packages (`npm install -g @openai/codex`).",
        )
    })
}

/// The program that a script of npm starts; any other file is the program itself. `None`: it is not there.
fn native(found: &Path) -> Option<PathBuf> {
    let real = fs_err::canonicalize(found).ok()?;
    let is_script = real.extension().is_some_and(|kind| kind == "js" || kind == "cmd");
    if !is_script {
        return Some(found.to_owned());
    }
    // `@openai/codex/bin/codex.js`: the program is in a package inside of that one, or beside it.
    let places = real.ancestors().skip(1).take(4).flat_map(|above| {
        [
            above.to_owned(),
            above.join("node_modules/@openai"),
            above.join("@openai/codex/node_modules/@openai"),
        ]
    });
    places.flat_map(packages).find_map(|package| program_in(&package))
}

fn packages(place: PathBuf) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(place).into_iter().flatten().flatten();
    let is_one = |name: &str| name.strip_prefix("codex-").is_some_and(|rest| rest.contains('-'));
    let found = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_one));
    found.map(|entry| entry.path()).collect()
}

fn program_in(package: &Path) -> Option<PathBuf> {
    let file = if cfg!(windows) { "codex.exe" } else { "codex" };
    let triples = fs_err::read_dir(package.join("vendor")).ok()?.flatten();
    triples.map(|triple| triple.path().join("bin").join(file)).find(|path| path.is_file())
}

/// Whether `account/read` tells of a login, or that none is needed.
pub(super) fn is_logged_in(account: &Value) -> bool {
    let needs = account.get("requiresOpenaiAuth").and_then(Value::as_bool).unwrap_or_default();
    account.get("account").is_some_and(|account| !account.is_null()) || !needs
}

/// The error without a login.
pub(super) fn not_logged_in() -> Error {
    Error::new(Code::RuntimeNotLoggedIn, "Codex is not logged in").remedy(
        "Run `codex login` in a terminal, or `printenv OPENAI_API_KEY | codex login --with-api-key`.",
    )
}

/// The error of a machine without a sandbox.
pub(super) fn no_sandbox(why: &str) -> Error {
    let message = format!("Codex cannot run commands in its sandbox here: {why}");
    Error::new(Code::RuntimeStartFailed, message).remedy(
        "Allow user namespaces on this machine (in a container: its seccomp and AppArmor profiles). Or set runtimes.codex.sandbox to \"off\": what you allow then runs without a sandbox.",
    )
}

/// Looks whether it can start.
pub(super) async fn check(config: &CodexConfig, env: &Arc<dyn Env>) -> HealthReport {
    let executable = match find(config) {
        Ok(executable) => executable,
        Err(error) => return unhealthy(unknown(None), &error),
    };
    let report = unknown(Some(executable.clone()));
    match timeout(PROBE_WAIT, look(&executable, config, env, report.clone())).await {
        Ok(Ok(report)) => report,
        Ok(Err(error)) => unhealthy(report, &error),
        Err(_) => {
            let path = executable.display();
            let message = format!("{path} did not answer within {} s", PROBE_WAIT.as_secs());
            unhealthy(report, &Error::new(Code::RuntimeStartFailed, message))
        }
    }
}

async fn look(
    executable: &Path,
    config: &CodexConfig,
    env: &Arc<dyn Env>,
    mut report: HealthReport,
) -> Result<HealthReport> {
    // A process of its own: nothing that runs is disturbed, and a dropped look ends it.
    let host = Host::start(executable, config, &**env, Purpose::Working).await?;
    let account = host.server.ask("account/read", json!({})).await;
    let settings = host.server.ask("config/read", json!({"includeLayers": true})).await;
    let Host { server, started, no_sandbox, executable: _ } = host;
    launch::end(server).await;
    let version = started.version.unwrap_or_else(|| "of an unknown version".to_owned());
    report.version = Some(version.clone());
    let settings = match settings? {
        Ok(settings) => settings,
        Err(refusal) => {
            let message = format!("Codex does not read its settings: {}", refusal.message);
            return Ok(unhealthy(report, &Error::new(Code::RuntimeStartFailed, message)));
        }
    };
    let logged_in = match account? {
        Ok(account) => is_logged_in(&account),
        Err(refusal) => {
            let error = launch::protocol("account/read", &refusal.message);
            return Ok(unhealthy(report, &error));
        }
    };
    report.logged_in = Some(logged_in);
    if !logged_in {
        return Ok(unhealthy(report, &not_logged_in()));
    }
    let folders = rules::folders(&settings, started.home.as_deref(), false);
    if let Some(file) = rules::without_asking(&folders) {
        return Ok(unhealthy(report, &open::allows(&file)));
    }
    if let Some(why) = no_sandbox.filter(|_| config.sandbox == Sandbox::Workspace) {
        return Ok(unhealthy(report, &self::no_sandbox(&why)));
    }
    report.health = Health::Healthy;
    report.message = Some(ready(&version, config.sandbox));
    Ok(report)
}

fn ready(version: &str, sandbox: Sandbox) -> String {
    let tested = match version {
        TESTED => String::new(),
        _ => format!("; Cortex is tested with {TESTED}"),
    };
    let free = match sandbox {
        Sandbox::Workspace => "",
        Sandbox::Off => "; what is allowed runs without a sandbox",
    };
    format!("Codex {version} is ready{tested}{free}")
}

/// A report before anything is known.
fn unknown(executable: Option<PathBuf>) -> HealthReport {
    HealthReport {
        health: Health::Unhealthy,
        version: None,
        executable,
        logged_in: None,
        message: None,
        remediation: None,
    }
}

fn unhealthy(report: HealthReport, error: &Error) -> HealthReport {
    HealthReport {
        health: Health::Unhealthy,
        message: Some(error.message().to_owned()),
        remediation: Some(error.remediation().to_owned()),
        ..report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_behind_the_script_of_npm_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let all = dir.path().join("lib/node_modules/@openai");
        let file = if cfg!(windows) { "codex.exe" } else { "codex" };
        let script = all.join("codex/bin/codex.js");
        fs_err::create_dir_all(script.parent().unwrap()).unwrap();
        fs_err::write(&script, "#!/usr/bin/env node\n").unwrap();
        assert_eq!(native(&script), None);
        for place in
            [all.join("codex-linux-x64"), all.join("codex/node_modules/@openai/codex-linux-x64")]
        {
            let program = place.join("vendor/x86_64-unknown-linux-musl/bin").join(file);
            fs_err::create_dir_all(program.parent().unwrap()).unwrap();
            fs_err::write(&program, "").unwrap();
            assert_eq!(native(&script), Some(fs_err::canonicalize(&program).unwrap()));
            fs_err::remove_dir_all(&place).unwrap();
        }
        let own = dir.path().join("codex");
        fs_err::write(&own, "").unwrap();
        assert_eq!(native(&own), Some(own));
    }

    #[test]
    fn a_configured_path_is_the_only_one() {
        let executable = Some("/no/such/codex".into());
        let config = CodexConfig { executable, ..CodexConfig::default() };
        assert_eq!(find(&config).unwrap_err().code(), Code::RuntimeNotInstalled);
    }

    #[test]
    fn a_login_is_an_account_or_nothing_that_needs_one() {
        assert!(is_logged_in(&json!({"account": null, "requiresOpenaiAuth": false})));
        assert!(is_logged_in(&json!({"account": {"type": "apiKey"}, "requiresOpenaiAuth": true})));
        assert!(!is_logged_in(&json!({"account": null, "requiresOpenaiAuth": true})));
    }

    #[test]
    fn another_version_is_said_and_no_reason_to_stop() {
        assert_eq!(ready(TESTED, Sandbox::Workspace), format!("Codex {TESTED} is ready"));
        assert!(ready("0.200.0", Sandbox::Workspace).contains("tested with 0.171.0"));
    }
}
