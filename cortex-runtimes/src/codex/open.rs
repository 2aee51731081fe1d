//! How a session opens: what is looked at before its thread is, and what the thread must be like.

use std::path::Path;
use std::time::Duration;

use cortex_lib::error::{Code, Error, Result};
use cortex_lib::port::SessionSpec;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::launch::{self, protocol, unstarted};
use super::map::Confined;
use super::pool::Host;
use super::server::{Opened, Registration, Told};
use super::wire::{list, text};
use super::{CodexConfig, Sandbox, probe, rules, thread};

/// A thread that can be used.
pub(super) struct Thread {
    /// The session's place in the process, under the CLI's name of it.
    pub(super) registration: Registration,
    /// The MCP server with the tools of Cortex, when the session has them.
    pub(super) own: Option<String>,
    /// The model that answers.
    pub(super) model: Option<String>,
    /// What is said about it.
    pub(super) told: mpsc::Receiver<Told>,
}

/// Opens the thread of a session.
///
/// # Errors
///
/// `runtime.not_logged_in`, `runtime.start_failed`, `runtime.protocol_error`, `project.invalid_root`.
pub(super) async fn open(host: &Host, spec: &SessionSpec, config: &CodexConfig) -> Result<Thread> {
    // The CLI does not mind a folder that is not there: each of its commands fails.
    if !spec.cwd.is_dir() {
        let message = format!("the folder {} is not there", spec.cwd.display());
        return Err(Error::new(Code::ProjectInvalidRoot, message));
    }
    let account = ask(host, "account/read", json!({})).await?;
    if !probe::is_logged_in(&account) {
        return Err(probe::not_logged_in());
    }
    let looked = json!({"includeLayers": true, "cwd": spec.cwd});
    let settings = ask(host, "config/read", looked).await?;
    asks(host, spec, &settings)?;
    has_sandbox(host, spec, config)?;
    let servers = thread::servers(&settings);
    let home = launch::home(config);
    let (method, params) = thread::open(spec, &servers, &host.executable, home.as_deref());
    let Opened { answer, number, told } = once_closed(host, method, params).await?;
    let opened = answer.map_err(|refusal| unopened(&refusal.message, spec))?;
    let native = text(&opened, "/thread/id").ok_or_else(|| protocol(method, "no thread"))?;
    let registration = Registration { thread: native, number };
    let half = Half { host, registration: Some(registration.clone()) };
    thread::keeps_to(spec, &opened).map_err(|what| would_not_ask(&what))?;
    let own = spec.mcp.is_some().then_some(servers.own);
    if let Some(own) = &own {
        has_tools(host, own, &registration.thread).await?;
    }
    half.whole();
    Ok(Thread { registration, own, model: text(&opened, "/model"), told })
}

/// A thread that is there and not yet anybody's. The CLI lets go of it when nothing comes of it.
struct Half<'a> {
    host: &'a Host,
    registration: Option<Registration>,
}

impl Half<'_> {
    /// It is somebody's from now on.
    fn whole(mut self) {
        self.registration = None;
    }
}

impl Drop for Half<'_> {
    fn drop(&mut self) {
        if let Some(registration) = self.registration.take() {
            self.host.server.leave_now(registration);
        }
    }
}

/// Opens a thread. One that the CLI has not quite let go of, because its session was dropped, is asked for again.
async fn once_closed(host: &Host, method: &'static str, params: Value) -> Result<Opened> {
    let mut ticks = interval(CLOSING_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..CLOSING_TRIES {
        ticks.tick().await;
        let opened = host.server.open(method, params.clone()).await;
        let opened = opened.map_err(|error| unstarted(&error))?;
        match &opened.answer {
            Err(refusal) if refusal.message.contains("is closing") => {}
            _ => return Ok(opened),
        }
    }
    let message = "Codex does not let go of the earlier session";
    Err(Error::new(Code::RuntimeStartFailed, message))
}

/// How often a thread that is being closed is asked for, and how many times. It took 0.02 s to close.
const CLOSING_EVERY: Duration = Duration::from_millis(50);
const CLOSING_TRIES: u32 = 100;

async fn ask(host: &Host, method: &'static str, params: Value) -> Result<Value> {
    let answer = host.server.ask(method, params).await.map_err(|error| unstarted(&error))?;
    answer.map_err(|refusal| protocol(method, &refusal.message))
}

/// The error of a thread that was not opened.
fn unopened(refusal: &str, spec: &SessionSpec) -> Error {
    if spec.mcp.is_some() && refusal.contains("MCP") {
        let message = format!("Codex does not reach the tools of Cortex: {refusal}");
        return Error::new(Code::RuntimeStartFailed, message).remedy(REACH);
    }
    let message = format!("Codex did not open a conversation: {refusal}");
    let error = Error::new(Code::RuntimeStartFailed, message);
    let unknown =
        ["no rollout found", "thread not found", "invalid thread id", "invalid session id"];
    if spec.resume.is_some() && unknown.iter().any(|words| refusal.contains(words)) {
        return error
            .with("resume_unknown", true)
            .remedy("Start the agent afresh: Codex does not know the earlier session.");
    }
    error
}

/// What to do when the endpoint is not reached.
const REACH: &str =
    "Check that nothing between Codex and 127.0.0.1 (a proxy) takes the connection.";

/// Rules of the CLI can let a command run without a question, and outside of the sandbox. Then the person's rules in
/// Cortex would not hold, so the session does not start.
fn asks(host: &Host, spec: &SessionSpec, settings: &Value) -> Result<()> {
    let folders = rules::folders(settings, host.started.home.as_deref(), spec.trusted);
    match rules::without_asking(&folders) {
        Some(file) if thread::confined(spec) != Some(Confined::ToCortex) => Err(allows(&file)),
        _ => Ok(()),
    }
}

/// The error of a file of rules that would let commands run.
pub(super) fn allows(file: &Path) -> Error {
    let file = file.display();
    would_not_ask(&format!("the rules in {file} allow commands")).remedy(format!(
        "Move {file} away, or give Cortex a Codex of its own: set CODEX_HOME in runtimes.codex.env to an empty folder and log in there."
    ))
}

fn would_not_ask(what: &str) -> Error {
    let message = format!("Codex would run tools without asking: {what}");
    Error::new(Code::RuntimeStartFailed, message)
        .remedy("Take that out of Codex's settings, or ask the administrator of this machine to.")
}

/// Without a sandbox each command fails, and an agent that only reads could write.
fn has_sandbox(host: &Host, spec: &SessionSpec, config: &CodexConfig) -> Result<()> {
    let Some(why) = &host.no_sandbox else { return Ok(()) };
    let needs = match thread::confined(spec) {
        Some(Confined::ToCortex) => false,
        Some(Confined::ToReading) => true,
        None => config.sandbox == Sandbox::Workspace,
    };
    if needs { Err(probe::no_sandbox(why)) } else { Ok(()) }
}

/// The tools of Cortex must be there. The opening has waited for the connection.
async fn has_tools(host: &Host, own: &str, native: &str) -> Result<()> {
    // Only this server: the question alone would start those of a repository, whatever the thread was told.
    let params = json!({"threadId": native, "serverName": own, "detail": "toolsAndAuthOnly"});
    let status = ask(host, "mcpServerStatus/list", params).await?;
    let mut servers = list(&status, "data").iter();
    let own = servers.find(|it| text(it, "/name").as_deref() == Some(own));
    let tools = own.and_then(|server| server.get("tools")?.as_object());
    if tools.is_some_and(|tools| !tools.is_empty()) {
        return Ok(());
    }
    let why = own.and_then(|it| text(it, "/toolsError").or_else(|| text(it, "/runtimeStatus")));
    let why = why.unwrap_or_else(|| "it does not know the server".to_owned());
    let message = format!("Codex does not have the tools of Cortex: {why}");
    Err(Error::new(Code::RuntimeStartFailed, message).remedy(REACH))
}

#[cfg(test)]
mod tests {
    use cortex_lib::ids::SessionId;
    use cortex_lib::port::McpAccess;
    use cortex_lib::secret::Secret;

    use super::*;

    #[test]
    fn only_a_session_that_is_not_known_is_started_afresh() {
        let mcp = McpAccess {
            url: "http://127.0.0.1:1".to_owned(),
            token: Secret::new("t"),
            hook_token: Secret::new("cortex_hook_1"),
        };
        for (refusal, resumes, afresh, tools) in [
            ("no rollout found for thread id x", true, true, false),
            ("no rollout found for thread id x", false, false, false),
            ("Model provider `x` not found", true, false, false),
            ("required MCP servers failed: thread not found", true, false, true),
            ("failed to load /home/me/cortex/config.toml", false, false, false),
        ] {
            let spec = SessionSpec {
                resume: resumes.then(|| "x".to_owned()),
                mcp: Some(mcp.clone()),
                ..SessionSpec::new(SessionId::new("s1"), "/p".into(), "/s".into())
            };
            let error = unopened(refusal, &spec);
            let told = error.message().contains("the tools of Cortex");
            assert_eq!(
                (error.detail("resume_unknown").is_some(), told),
                (afresh, tools),
                "{refusal}"
            );
        }
    }
}
