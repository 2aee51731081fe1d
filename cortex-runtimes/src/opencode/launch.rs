//! How OpenCode's server is started: its arguments, its environment and the configuration that Cortex puts on top of the
//! person's own.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cortex_lib::error::{Code, Error, Result};
use cortex_lib::process::Program;
use cortex_lib::secret::Secret;
use serde_json::{Map, Value, json};

use super::{OpenCodeConfig, rules};

/// The variables of this family that belong to the person's login and machine. All others, but those that switch something
/// off, are those of an OpenCode around this process.
const KEPT: [&str; 8] = [
    "OPENCODE_CONFIG",
    "OPENCODE_CONFIG_DIR",
    "OPENCODE_API_KEY",
    "OPENCODE_AUTH_CONTENT",
    "OPENCODE_MODELS_URL",
    "OPENCODE_MODELS_PATH",
    "OPENCODE_GIT_BASH_PATH",
    "OPENCODE_ENABLE_EXA",
];
const KEPT_PREFIX: &str = "OPENCODE_DISABLE_";

/// What a repository brings: configuration with plugins and MCP servers, instructions, skills.
const DISTRUST: [&str; 2] = ["OPENCODE_DISABLE_PROJECT_CONFIG", "OPENCODE_DISABLE_EXTERNAL_SKILLS"];

/// Runs within the server and marks what tools start.
const PLUGIN: &str = include_str!("cortex.js");
/// The folder with the marks, beside it.
pub(super) const OWNERS: &str = "owners";

const LOCAL_HOSTS: &str = "127.0.0.1,localhost";

/// The program of a server. `folder` is its own; `marker` is the name of its processes.
///
/// # Errors
///
/// `runtime.start_failed` when its files cannot be written.
pub(super) fn program(
    executable: &Path,
    config: &OpenCodeConfig,
    trusted: bool,
    folder: &Path,
    password: &Secret,
) -> Result<Program> {
    let plugin = write_plugin(folder).map_err(|error| {
        let message = format!("the files for OpenCode's server were not written: {error}");
        Error::new(Code::RuntimeStartFailed, message)
    })?;
    let argv = [executable.as_os_str(), OsStr::new("serve")]
        .into_iter()
        .chain(["--hostname", "127.0.0.1", "--port", "0"].map(OsStr::new));
    let marker = folder.file_name().unwrap_or_default().to_string_lossy();
    let mut content = content(trusted);
    // What a task changes is Cortex's to record.
    content.insert("snapshot".to_owned(), json!(false));
    content.insert("plugin".to_owned(), json!([format!("file://{}", plugin.display())]));
    let program = configured(Program::new(argv, folder, marker), config, trusted, content)
        .env("OPENCODE_SERVER_PASSWORD", password.expose())
        .remove_env("OPENCODE_SERVER_USERNAME");
    Ok(program)
}

fn write_plugin(folder: &Path) -> std::io::Result<PathBuf> {
    fs_err::create_dir(folder.join(OWNERS))?;
    let plugin = folder.join("cortex.js");
    fs_err::write(&plugin, PLUGIN)?;
    Ok(plugin)
}

/// The configuration on top of the person's own, which keeps their providers, models and login.
pub(super) fn content(trusted: bool) -> Map<String, Value> {
    let mut content = Map::from_iter([
        ("autoupdate".to_owned(), json!(false)),
        ("share".to_owned(), json!("disabled")),
        ("permission".to_owned(), rules::of_configuration()),
    ]);
    if !trusted {
        // Both run programs that a repository names or brings.
        content.insert("lsp".to_owned(), json!(false));
        content.insert("formatter".to_owned(), json!(false));
    }
    content
}

/// The program with the configuration, and with an environment that leaves it as it is.
pub(super) fn configured(
    program: Program,
    config: &OpenCodeConfig,
    trusted: bool,
    content: Map<String, Value>,
) -> Program {
    let past_proxy = past_proxy(config);
    let program = environment(program, config)
        .env("OPENCODE_CONFIG_CONTENT", Value::Object(content).to_string())
        // A program that replaces itself is not the one that was tested.
        .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
        .env("NO_PROXY", &past_proxy)
        .env("no_proxy", &past_proxy)
        .remove_env("OPENCODE_PERMISSION");
    let distrust = DISTRUST.iter().filter(|_| !trusted);
    distrust.fold(program, |program, name| program.env(name, "1"))
}

/// The environment of OpenCode: this process's, without the traces of one around it, and with what the configuration
/// sets.
pub(super) fn environment(mut program: Program, config: &OpenCodeConfig) -> Program {
    for (name, _) in inherited() {
        if is_foreign(&name) {
            program = program.remove_env(name);
        }
    }
    for (name, value) in &config.env {
        program = program.env(name, value);
    }
    program
}

/// The hosts that are reached without a proxy, with this machine among them: else the credential of a session goes to
/// the proxy.
fn past_proxy(config: &OpenCodeConfig) -> String {
    let hosts = ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| setting(config, name));
    match hosts.as_deref().map(str::trim) {
        None | Some("") => LOCAL_HOSTS.to_owned(),
        Some(hosts) => format!("{hosts},{LOCAL_HOSTS}"),
    }
}

/// A variable as OpenCode will see it: configured or inherited.
pub(super) fn setting(config: &OpenCodeConfig, name: &str) -> Option<String> {
    config.env.get(name).cloned().or_else(|| {
        let (_, value) = inherited().find(|(inherited, _)| inherited == name)?;
        value.into_string().ok()
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "to know which names of a surrounding session to remove"
)]
fn inherited() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

fn is_foreign(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    name.starts_with("OPENCODE") && !KEPT.contains(&name) && !name.starts_with(KEPT_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(trusted: bool) -> (tempfile::TempDir, Program) {
        let folder = tempfile::tempdir().unwrap();
        let config = OpenCodeConfig::default();
        let password = Secret::new("hush-hush");
        let program =
            program(Path::new("/bin/opencode"), &config, trusted, folder.path(), &password)
                .unwrap();
        (folder, program)
    }

    fn value(program: &Program, name: &str) -> Option<String> {
        let value = program.env.get(OsStr::new(name)).cloned().flatten()?;
        value.into_string().ok()
    }

    #[test]
    fn what_a_repository_brings_counts_only_when_it_is_trusted() {
        for trusted in [false, true] {
            let (_folder, program) = started(trusted);
            let content = value(&program, "OPENCODE_CONFIG_CONTENT").unwrap();
            let content: Value = serde_json::from_str(&content).unwrap();
            assert_eq!(content["permission"]["bash"], "ask");
            assert_eq!(content.get("lsp").is_none(), trusted);
            assert_eq!(value(&program, "OPENCODE_DISABLE_PROJECT_CONFIG").is_none(), trusted);
        }
    }

    #[test]
    fn the_password_is_in_the_environment_and_nowhere_else() {
        let (folder, program) = started(false);
        assert!(!format!("{:?}", program.argv).contains("hush-hush"));
        assert_eq!(value(&program, "OPENCODE_SERVER_PASSWORD").as_deref(), Some("hush-hush"));
        for file in fs_err::read_dir(folder.path()).unwrap().flatten() {
            let text = fs_err::read_to_string(file.path()).unwrap_or_default();
            assert!(!text.contains("hush-hush"));
        }
    }

    #[test]
    fn traces_of_a_surrounding_session_are_foreign_and_the_login_is_not() {
        for name in ["OPENCODE", "OPENCODE_PID", "OPENCODE_SERVER_PASSWORD", "OPENCODE_DB"] {
            assert!(is_foreign(OsStr::new(name)), "{name}");
        }
        for name in ["OPENCODE_CONFIG", "OPENCODE_DISABLE_MODELS_FETCH", "OPENAI_API_KEY", "PATH"] {
            assert!(!is_foreign(OsStr::new(name)), "{name}");
        }
    }
}
