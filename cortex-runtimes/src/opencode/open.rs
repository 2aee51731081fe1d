//! From a server to a session that takes turns: everything is looked at before, because a prompt that cannot be answered is
//! taken without a word.

use std::sync::Arc;
use std::time::Duration;

use cortex_lib::env::Env;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::port::{McpAccess, Opened, SessionFacts, SessionSpec};
use hyper::Method;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::http::{Fault, within};
use super::model::{Model, Providers};
use super::pool::Lease;
use super::pump::{Fixed, Parts};
use super::routes::Ears;
use super::rules::{self, Agent, Rule};
use super::{OpenCodeConfig, brought, session};

/// How long the first look at a folder may take: the server reads its configuration and connects what that names.
const FOLDER_WAIT: Duration = Duration::from_mins(1);
/// How long the server may take to connect to the endpoint. It took 0.1 s.
const MCP_WAIT: Duration = Duration::from_secs(30);
/// How long a server that no session came to hold may take to end in order.
const END_WAIT: Duration = Duration::from_secs(6);
/// How long a call of a tool of Cortex may take: the longest waits 5 minutes, and answers in time.
pub(super) const MCP_TIMEOUT_MS: u32 = 330_000;
/// How long the model may be silent, unless a person says otherwise. It is what OpenCode has for itself.
const SILENCE_SECS: u32 = 300;
/// The agent of OpenCode that works, unless it was taken away.
const AGENT: &str = "build";
/// Characters of the session's id in the name of its MCP server: enough to tell sessions apart, and the tools' names
/// stay short.
const MCP_NAME_CHARS: usize = 8;

/// Opens a session. When it is dropped or fails, what it has made so far goes with it.
pub(super) async fn open(
    lease: Lease,
    spec: SessionSpec,
    config: OpenCodeConfig,
    env: Arc<dyn Env>,
) -> Result<Opened> {
    let (tell, opened) = oneshot::channel();
    // It runs to its end, also when nobody waits for it any more: then the session is dropped, which closes it.
    drop(TaskTracker::new().spawn(async move {
        drop(tell.send(open_whole(lease, spec, &config, env).await));
    }));
    let stopped = |_| Error::new(Code::RuntimeStartFailed, "the start of a session was stopped");
    opened.await.map_err(stopped)?
}

async fn open_whole(
    lease: Lease,
    spec: SessionSpec,
    config: &OpenCodeConfig,
    env: Arc<dyn Env>,
) -> Result<Opened> {
    lease.folders.enter(&spec.cwd).await;
    match prepare(&lease, &spec, config).await {
        Ok((fixed, ears)) => {
            let facts = SessionFacts {
                native_session_id: Some(fixed.native.clone()),
                pid: Some(lease.pid),
                resumed: spec.resume.is_some(),
                version: Some(lease.version.clone()),
                model: Some(fixed.model.full()),
            };
            let (session, events) = session::begin(Parts { lease, ears, env, fixed });
            Ok(Opened { session: Arc::new(session), events, facts, terminal: None })
        }
        Err(error) => {
            let by = Instant::now() + END_WAIT;
            lease.leave_folder(&spec.cwd, by).await;
            lease.release(by).await;
            Err(error)
        }
    }
}

async fn prepare(
    lease: &Lease,
    spec: &SessionSpec,
    config: &OpenCodeConfig,
) -> Result<(Fixed, Ears)> {
    if !spec.trusted {
        // A server may have taken long to start.
        brought::refuse(&spec.cwd, config)?;
    }
    let folder = Folder::look(lease, spec).await?;
    let mcp = spec.mcp.as_ref().map(|_| mcp_name(spec));
    let rules = rules::of_session(spec, mcp.as_deref(), &folder.agent);
    let session = match &spec.resume {
        Some(native) => resume(lease, spec, native, &rules).await?,
        None => create(lease, spec, &rules).await?,
    };
    let native = session.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let prepared = async {
        rules::must_ask(&folder.agents, &folder.agent, &rules_of(&session))?;
        let ears = lease.listen(&native, spec.session_id.as_str())?;
        if let (Some(access), Some(name)) = (&spec.mcp, &mcp) {
            let connected = connect(lease, spec, access, name).await;
            if connected.is_err() {
                lease.disconnect(name, &spec.cwd, MCP_WAIT).await;
            }
            connected?;
        }
        Ok(ears)
    };
    let silence = Duration::from_secs(config.silence_secs.unwrap_or(SILENCE_SECS).into());
    match prepared.await {
        Ok(ears) => {
            let fixed = Fixed {
                session_id: spec.session_id.clone(),
                native,
                cwd: spec.cwd.clone(),
                agent: folder.agent.name,
                model: folder.model,
                instructions: spec.instructions.clone(),
                mcp,
                fleeting: spec.read_only && spec.resume.is_none(),
                silence,
                distrusts: (!spec.trusted).then(|| config.clone()),
            };
            Ok((fixed, ears))
        }
        Err(error) => {
            lease.leave(&native);
            if spec.resume.is_none() {
                let path = within(&format!("/session/{native}"), &spec.cwd);
                let removed = lease.api.ask(Method::DELETE, &path, None, MCP_WAIT).await;
                if let Err(fault) = removed {
                    tracing::debug!(%fault, "a session that was not opened stays");
                }
            }
            Err(error)
        }
    }
}

/// What the server knows of a folder.
struct Folder {
    agents: Vec<Agent>,
    /// The one that works.
    agent: Agent,
    model: Model,
}

impl Folder {
    /// Looks at the folder, which also makes the first turn in it as quick as the others.
    async fn look(lease: &Lease, spec: &SessionSpec) -> Result<Self> {
        if !spec.cwd.is_dir() {
            // The server takes it all the same, and never answers.
            let message = format!("the folder {} is not there", spec.cwd.display());
            return Err(Error::new(Code::ProjectInvalidRoot, message)
                .remedy("Put the folder back, or use another one."));
        }
        let agents: Vec<Agent> = ask(lease, spec, "/agent", "name its agents").await?;
        let works = |agent: &&Agent| agent.mode != "subagent" && agent.hidden != Some(true);
        let agent = agents.iter().filter(works).find(|agent| agent.name == AGENT);
        let agent = agent.or_else(|| agents.iter().find(works)).cloned();
        let agent = agent.ok_or_else(|| {
            Error::new(Code::RuntimeStartFailed, "OpenCode has no agent that works by itself")
                .remedy("Enable an agent of mode `primary` in OpenCode's configuration.")
        })?;
        let config: Value = ask(lease, spec, "/config", "show its configuration").await?;
        let providers: Providers =
            ask(lease, spec, "/config/providers", "name its providers").await?;
        let model = Model::choose(spec.model.as_deref(), &agent, &config, &providers)?;
        Ok(Self { agents, agent, model })
    }
}

async fn ask<T: serde::de::DeserializeOwned>(
    lease: &Lease,
    spec: &SessionSpec,
    path: &str,
    what: &str,
) -> Result<T> {
    let answer = lease.api.get(&within(path, &spec.cwd), FOLDER_WAIT).await;
    let answer = answer.map_err(|fault| lease.protocol(what, &fault))?;
    serde_json::from_value(answer).map_err(|error| lease.protocol(what, &error))
}

async fn create(lease: &Lease, spec: &SessionSpec, rules: &[Rule]) -> Result<Value> {
    // Without a title a model is asked for one.
    let title = format!("Cortex {}", spec.session_id);
    let body = json!({"title": title, "permission": rules});
    let made = lease.api.post(&within("/session", &spec.cwd), &body, FOLDER_WAIT).await;
    let made = made.map_err(|fault| lease.protocol("make a session", &fault))?;
    match made.get("id").and_then(Value::as_str) {
        Some(_) => Ok(made),
        None => Err(lease.protocol("make a session", &"it has no name")),
    }
}

/// Goes on with a session. Its rules are those of an earlier life: the new ones come after them and count.
async fn resume(lease: &Lease, spec: &SessionSpec, native: &str, rules: &[Rule]) -> Result<Value> {
    let unknown = || {
        let message = format!("OpenCode does not know the session {native} in this folder");
        Error::new(Code::RuntimeStartFailed, message).with("resume_unknown", true).remedy(
            "Start the agent afresh: OpenCode does not know the earlier session in this folder.",
        )
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !native.starts_with("ses_") || !native.bytes().all(is_plain) {
        return Err(unknown());
    }
    let path = within(&format!("/session/{native}"), &spec.cwd);
    let failed = |fault: Fault| match fault {
        Fault::Status { status: 400 | 404, .. } => unknown(),
        fault => lease.protocol("find the session", &fault),
    };
    let known = lease.api.get(&path, FOLDER_WAIT).await.map_err(failed)?;
    // It works in the folder that it was made in, whatever is asked for.
    let folder = known.get("directory").and_then(Value::as_str).map(std::path::Path::new);
    let same = |one: &std::path::Path, other: &std::path::Path| {
        let real = |path| fs_err::canonicalize(path).ok();
        one == other || real(one).is_some_and(|one| Some(one) == real(other))
    };
    if !folder.is_some_and(|folder| same(folder, &spec.cwd)) {
        return Err(unknown());
    }
    let body = json!({"permission": rules});
    lease.api.ask(Method::PATCH, &path, Some(&body), FOLDER_WAIT).await.map_err(failed)
}

/// The rules that a session really has.
fn rules_of(session: &Value) -> Vec<Rule> {
    let rules = session.get("permission").cloned().unwrap_or_default();
    serde_json::from_value(rules).unwrap_or_default()
}

/// The name of a session's MCP server. All servers are in one list, so each session has its own.
fn mcp_name(spec: &SessionSpec) -> String {
    let id = spec.session_id.as_str();
    let letters: Vec<char> = id.chars().filter(char::is_ascii_alphanumeric).collect();
    let start = letters.len().saturating_sub(MCP_NAME_CHARS);
    let short: String = letters.into_iter().skip(start).collect();
    format!("{}{}", rules::MCP_PREFIX, short.to_ascii_lowercase())
}

/// Connects the server to the endpoint with the credential of the session, and makes sure that it is. A turn would start
/// without the tools.
async fn connect(lease: &Lease, spec: &SessionSpec, access: &McpAccess, name: &str) -> Result<()> {
    let body = json!({"name": name, "config": {
        "type": "remote",
        "url": access.url,
        "headers": {"Authorization": format!("Bearer {}", access.token.expose())},
        "oauth": false,
        "timeout": MCP_TIMEOUT_MS,
    }});
    let status = lease.api.post(&within("/mcp", &spec.cwd), &body, MCP_WAIT).await;
    let status =
        status.map_err(|fault| lease.protocol("connect to the tools of Cortex", &fault))?;
    let status = status.get(name).cloned().unwrap_or_default();
    let text = |field: &str| status.get(field).and_then(Value::as_str);
    match text("status") {
        Some("connected") => Ok(()),
        state => {
            let state = state.unwrap_or("it does not know the server");
            let why = text("error").map(|error| format!(": {error}")).unwrap_or_default();
            let message = format!("OpenCode does not reach the tools of Cortex: {state}{why}");
            Err(Error::new(Code::RuntimeStartFailed, message).remedy(
                "Check that nothing between OpenCode and 127.0.0.1 (a proxy) takes the connection.",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use cortex_lib::ids::SessionId;

    use super::*;

    #[test]
    fn each_session_has_a_server_of_its_own_name() {
        let name =
            |id: &str| mcp_name(&SessionSpec::new(SessionId::new(id), "/p".into(), "/s".into()));
        assert_eq!(name("019ad3a2-7c11-7d4e-8abc-1234567890AB"), "cortex_567890ab");
        assert_eq!(name("s1"), "cortex_s1");
    }
}
