//! How the CLI is started: its arguments, its environment and its catalogue of models.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cortex_lib::env::Env;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::limits::STDERR_TAIL_BYTES_MAX;
use cortex_lib::process::{Exit, Lines, Program, Tail};
use serde_json::{Value, json};
use tokio::io::AsyncRead;
use tokio::time::{Instant, timeout};

use super::server::Server;
use super::summary::one_line;
use super::{CodexConfig, END_WAIT};
use crate::own_folder::OwnFolder;

/// The name of the MCP server with the tools of Cortex.
pub(super) const MCP_SERVER: &str = "cortex";

/// What a Codex session around this process sets for its tools. The rest of the family is the person's: where things are,
/// how to log in, and keys of providers that they named so.
const FOREIGN: [&str; 9] = [
    "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS",
    "CODEX_CI",
    "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
    "CODEX_MANAGED_BY_NPM",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "CODEX_SESSION_ID",
    "CODEX_THREAD_ID",
    "CODEX_TOOL_CALL_ID",
];

/// Features of the CLI that are switched off for all of its threads.
pub(super) const OFF: [&str; 9] = [
    // It breaks off what the agent says when more is said to it: the text is lost.
    "instant_interrupt",
    // Without a network a turn would never end. The core waits, where a person sees it.
    "unbounded_connection_retries",
    // A copy of the CLI that outlives everything.
    "daemon_auto_start",
    // What is fetched from elsewhere when a process starts, and whose tools nobody could be asked about.
    "apps",
    "plugins",
    "remote_plugin",
    "plugin_sharing",
    "skill_mcp_dependency_install",
    "tool_suggest",
];

/// How long the catalogue may take. It was seen to take 0.05 s; it may ask the account's server.
const CATALOGUE_WAIT: Duration = Duration::from_secs(5);
/// The catalogue that the CLI brings along takes less.
const BUNDLED_WAIT: Duration = Duration::from_secs(5);
/// Longest catalogue. That of 14 models has 0.9 MB.
const CATALOGUE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What is shown of the last words of a program that did not tell its models.
const SHOWN_CHARS_MAX: usize = 200;

/// What a process is for. The catalogue of models, which says what tools a model gets, is read once for a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    /// Agents that work.
    Working,
    /// Agents that are confined: to the tools of Cortex, or to reading.
    Confined,
}

/// Starts a process and waits until it answers.
///
/// # Errors
///
/// `runtime.start_failed` and what [`Program::spawn`] says.
pub(super) async fn start(
    executable: &Path,
    config: &CodexConfig,
    env: &dyn Env,
    purpose: Purpose,
) -> Result<(Server, Started)> {
    // For what it reads, and works in.
    let files = OwnFolder::new("cortex-codex-").map_err(|error| unwritten(&error))?;
    let inquiry = Inquiry { executable, config, env, folder: files.path() };
    let catalogue = inquiry.catalogue(purpose).await?;
    let file = files.path().join("models.json");
    fs_err::write(&file, catalogue.to_string()).map_err(|error| unwritten(&error))?;
    let mut argv: Vec<OsString> = vec![executable.into(), "app-server".into()];
    argv.extend(OFF.into_iter().flat_map(|feature| ["--disable", feature]).map(OsString::from));
    let file = file.display().to_string();
    for setting in [
        "check_for_update_on_startup=false".to_owned(),
        "analytics.enabled=false".to_owned(),
        // A JSON text is a TOML one.
        format!("model_catalog_json={}", Value::from(file)),
    ] {
        argv.extend(["-c".into(), setting.into()]);
    }
    // Not the marker of a session: what those leave behind is found by theirs, and the process serves others.
    let program = Program::new(argv, files.path(), format!("codex-{}", env.mint()));
    let owned = environment(program, config).spawn().await?;
    let server = Server::begin(owned, Some(files));
    match initialize(&server).await {
        Ok(started) => Ok((server, started)),
        Err(error) => {
            end(server).await;
            Err(error)
        }
    }
}

/// Ends a process that nobody is to have, and waits until nothing of it lives.
pub(super) async fn end(server: Server) {
    server.end_by(Instant::now() + END_WAIT).await;
    let mut ended = server.ended();
    drop(server);
    // An error means that its task is gone without a word, which only a stopped runtime does.
    drop(ended.wait_for(Option::is_some).await);
}

/// What a process says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Started {
    /// Its version.
    pub(super) version: Option<String>,
    /// Its folder for settings, login and conversations.
    pub(super) home: Option<String>,
}

async fn initialize(server: &Server) -> Result<Started> {
    let us = json!({"name": "cortex", "title": "Cortex", "version": env!("CARGO_PKG_VERSION")});
    let can = json!({"experimentalApi": true, "requestAttestation": false});
    let params = json!({"clientInfo": us, "capabilities": can});
    let answer = server.ask("initialize", params).await.map_err(|error| unstarted(&error))?;
    let answer = answer.map_err(|refusal| protocol("initialize", &refusal.message))?;
    server.say(super::wire::note("initialized")).await.map_err(|error| unstarted(&error))?;
    let agent = super::wire::text(&answer, "/userAgent");
    // `cortex/0.171.0 (Debian …)`.
    let version = agent.as_deref().and_then(|agent| agent.split_once('/')?.1.split(' ').next());
    Ok(Started {
        version: version.map(str::to_owned),
        home: super::wire::text(&answer, "/codexHome"),
    })
}

/// The error of a process that ends while it starts.
pub(super) fn unstarted(error: &Error) -> Error {
    match error.code() {
        Code::RuntimeSessionEnded => Error::new(Code::RuntimeStartFailed, error.message()),
        code => Error::new(code, error.message()),
    }
}

/// The error of an answer that should have been another one.
pub(super) fn protocol(method: &str, what: &str) -> Error {
    let message = format!("Codex did not answer {method} as it should: {what}");
    Error::new(Code::RuntimeProtocol, message)
}

fn unwritten(error: &std::io::Error) -> Error {
    let message = format!("the models of Codex were not written down: {error}");
    Error::new(Code::RuntimeStartFailed, message)
}

/// The program, to be asked for its models.
struct Inquiry<'a> {
    executable: &'a Path,
    config: &'a CodexConfig,
    env: &'a dyn Env,
    /// Where it works.
    folder: &'a Path,
}

impl Inquiry<'_> {
    /// The models that the CLI knows, with less than their usual tools.
    ///
    /// No setting takes the newer models' agents below them away; the catalogue does. They would work on after
    /// the end of a turn, and ask under names of their own. For a confined agent it also takes the JavaScript that
    /// others call their tools by, and the tool to patch files.
    async fn catalogue(&self, purpose: Purpose) -> Result<Value> {
        let mut catalogue = match self.models(&["debug", "models"], CATALOGUE_WAIT).await {
            Ok(refreshed) => refreshed,
            Err(error) => {
                tracing::warn!(%error, "Codex is asked for the models that it brings along");
                self.models(&["debug", "models", "--bundled"], BUNDLED_WAIT).await?
            }
        };
        let models = catalogue.get_mut("models").and_then(Value::as_array_mut);
        for model in models.into_iter().flatten().filter_map(Value::as_object_mut) {
            restrict(model, purpose);
        }
        Ok(catalogue)
    }

    async fn models(&self, arguments: &[&str], wait: Duration) -> Result<Value> {
        let (exit, text, complaint) = self.run(arguments, wait).await?;
        models(&text).ok_or_else(|| {
            let complaint = one_line(complaint.trim(), SHOWN_CHARS_MAX);
            let said = if complaint.is_empty() { complaint } else { format!(": {complaint}") };
            let message = format!("Codex does not tell its models ({exit}){said}");
            Error::new(Code::RuntimeStartFailed, message).remedy(
                "Check that this is Codex; install it again, or a newer one: agents are confined by `codex debug models`.",
            )
        })
    }

    /// Runs the program to its end. Returns its standard output and the end of what it complained about. Whatever happens,
    /// nothing of it lives afterwards.
    async fn run(&self, arguments: &[&str], wait: Duration) -> Result<(Exit, String, String)> {
        let argv = [self.executable.as_os_str()].into_iter();
        let argv = argv.chain(arguments.iter().map(AsRef::as_ref));
        let program = Program::new(argv, self.folder, format!("probe-{}", self.env.mint()));
        let owned = environment(program, self.config).spawn().await?;
        drop(owned.take_stdin());
        let (mut output, mut complaint) = (String::new(), Tail::new(STDERR_TAIL_BYTES_MAX));
        let said = async {
            tokio::join!(
                each_line(owned.take_stdout(), |line| {
                    // What is cut is no catalogue any more.
                    if output.len() < CATALOGUE_BYTES_MAX {
                        output.extend([line, "\n"]);
                    }
                }),
                // Also what nobody wants: a full pipe would stop it.
                each_line(owned.take_stderr(), |line| {
                    complaint.push(line);
                    complaint.push("\n");
                }),
            );
            owned.exited().await
        };
        let exit = timeout(wait, said).await;
        owned.end().await;
        let exit = exit.map_err(|_| {
            let what = format!("{} {}", self.executable.display(), arguments.join(" "));
            let message = format!("{what} did not end within {} s", wait.as_secs());
            Error::new(Code::RuntimeStartFailed, message)
        })?;
        Ok((exit, output, complaint.redacted()))
    }
}

async fn each_line<R: AsyncRead + Unpin>(pipe: Option<R>, mut take: impl FnMut(&str)) {
    let Some(pipe) = pipe else { return };
    let mut lines = Lines::with_max(pipe, CATALOGUE_BYTES_MAX);
    while let Ok(Some(line)) = lines.next_line().await {
        take(&line.text);
    }
}

fn models(text: &str) -> Option<Value> {
    let catalogue: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    catalogue.get("models")?.as_array().is_some_and(|all| !all.is_empty()).then_some(catalogue)
}

fn restrict(model: &mut serde_json::Map<String, Value>, purpose: Purpose) {
    let mut set = |name: &str, value: Value| drop(model.insert(name.to_owned(), value));
    set("multi_agent_version", Value::Null);
    set("experimental_supported_tools", json!([]));
    if purpose == Purpose::Confined {
        set("tool_mode", Value::Null);
        set("supports_search_tool", Value::Bool(false));
        set("apply_patch_tool_type", Value::Null);
        set("use_responses_lite", Value::Bool(false));
    }
}

/// The environment of the CLI: this process's, without the traces of a session around it, and with what the
/// configuration sets. What is on this machine is reached past a proxy: else the CLI sends the credentials of its sessions
/// there.
pub(super) fn environment(mut program: Program, config: &CodexConfig) -> Program {
    for (name, _) in inherited() {
        if is_foreign(&name) {
            program = program.remove_env(name);
        }
    }
    for (name, value) in &config.env {
        program = program.env(name, value);
    }
    let past = past_proxy(config);
    program.env("NO_PROXY", &past).env("no_proxy", &past)
}

const LOCAL_HOSTS: &str = "127.0.0.1,localhost";

fn past_proxy(config: &CodexConfig) -> String {
    let hosts = ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| setting(config, name));
    match hosts.as_deref().map(str::trim) {
        None | Some("") => LOCAL_HOSTS.to_owned(),
        Some(hosts) => format!("{hosts},{LOCAL_HOSTS}"),
    }
}

/// The home of the person, as the CLI will see it.
pub(super) fn home(config: &CodexConfig) -> Option<PathBuf> {
    let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    setting(config, name).map(PathBuf::from)
}

/// A variable as the CLI will see it: configured or inherited.
fn setting(config: &CodexConfig, name: &str) -> Option<String> {
    config.env.get(name).cloned().or_else(|| {
        let (_, value) = inherited().find(|(inherited, _)| inherited == name)?;
        value.into_string().ok()
    })
}

/// What the CLI would inherit. It needs most of it: where things are, how to log in, which proxy to use.
#[expect(
    clippy::disallowed_methods,
    reason = "to know which names of a surrounding session to remove"
)]
fn inherited() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

fn is_foreign(name: &OsStr) -> bool {
    FOREIGN.iter().any(|foreign| name == *foreign)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn no_model_has_agents_below_it_and_a_confined_one_no_tools_of_its_own() {
        let usual = json!({
            "slug": "m", "multi_agent_version": "v2", "tool_mode": "code_mode_only",
            "apply_patch_tool_type": "freeform", "experimental_supported_tools": ["clock"],
        });
        let restricted = |purpose| {
            let mut model = usual.as_object().unwrap().clone();
            restrict(&mut model, purpose);
            model
        };
        let working = restricted(Purpose::Working);
        assert_eq!(
            (&working["multi_agent_version"], &working["tool_mode"]),
            (&Value::Null, &json!("code_mode_only"))
        );
        let confined = restricted(Purpose::Confined);
        assert_eq!(
            (&confined["tool_mode"], &confined["apply_patch_tool_type"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(confined["slug"], json!("m"));
    }

    #[test]
    fn a_catalogue_is_read_behind_whatever_is_printed_before_it() {
        assert!(models("note\n{\"models\":[{\"slug\":\"m\"}]}").is_some());
        assert_eq!(models("{\"models\":[]}"), None);
        assert_eq!(models("error: no such command"), None);
    }

    #[test]
    fn traces_of_a_surrounding_session_are_foreign_and_the_login_is_not() {
        for name in ["CODEX_THREAD_ID", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_CI"] {
            assert!(is_foreign(OsStr::new(name)), "{name}");
        }
        for name in ["CODEX_HOME", "CODEX_API_KEY", "CODEX_OF_A_PROVIDER_KEY", "PATH"] {
            assert!(!is_foreign(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn the_endpoint_is_reached_past_a_proxy() {
        let env = BTreeMap::from([("NO_PROXY".to_owned(), "intern.example".to_owned())]);
        let config = CodexConfig { env, ..CodexConfig::default() };
        assert_eq!(past_proxy(&config), "intern.example,127.0.0.1,localhost");
    }
}
