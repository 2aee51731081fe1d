//! How Claude Code is started: its arguments, its environment and its MCP configuration.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cortex_lib::domain::agent::Role;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::port::{McpAccess, SessionSpec};
use cortex_lib::process::Program;
use serde_json::json;

use super::ClaudeCodeConfig;

/// The variables of this family that belong to the person's login and machine. All others of the family are those of a
/// Claude Code session around this process: they would make the new session part of that one.
const KEPT: [&str; 27] = [
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_API_KEY_HELPER_TTL_MS",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
    "CLAUDE_CODE_SKIP_VERTEX_AUTH",
    "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
    "CLAUDE_CODE_SKIP_MANTLE_AUTH",
    "CLAUDE_CODE_SKIP_ANTHROPIC_AWS_AUTH",
    "CLAUDE_CODE_CLIENT_CERT",
    "CLAUDE_CODE_CLIENT_KEY",
    "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE",
    "CLAUDE_CODE_CERT_STORE",
    "CLAUDE_CODE_PROXY_RESOLVES_HOSTS",
    "CLAUDE_CODE_GIT_BASH_PATH",
    "CLAUDE_CODE_SHELL",
    "CLAUDE_CODE_TMPDIR",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_EFFORT_LEVEL",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_ENABLE_TELEMETRY",
    "CLAUDE_CODE_DISABLE_1M_CONTEXT",
    "CLAUDE_CODE_ATTRIBUTION_HEADER",
];

/// Requests to the model's API that the CLI repeats by itself, after 0.6, 1.1, 2.3 and 4.1 s. That is enough for a hiccup; a longer
/// trouble is the core's to wait for, where a person sees it. Its own default of 10 would hold a turn for minutes.
const API_RETRIES: &str = "4";

/// How long a call of a tool of Cortex may take: the longest waits 5 minutes, and answers in time.
const MCP_TIMEOUT_MS: u32 = 330_000;

/// The name of the MCP server, so the tools are `mcp__cortex__…`.
pub(super) const MCP_SERVER: &str = "cortex";

/// What a confined session may use of the tools of Cortex.
const MCP_TOOLS: &str = "mcp__cortex__*";

/// What an agent may read with.
const READING_TOOLS: [&str; 3] = ["Glob", "Grep", "Read"];

/// When and where an agent works is Cortex's to say: no timers of its own, nothing that goes on when the
/// turn has ended, no leaving of the folder.
const WITHHELD_TOOLS: &str =
    "CronCreate,CronDelete,CronList,ScheduleWakeup,Monitor,Workflow,EnterWorktree,ExitWorktree";

/// What asks in a trusted project whatever its settings, hooks and skills allow: rules that ask win over all of
/// them. Other tools ask unless a rule allows them, and such a rule is refused at the start. The tools of Cortex are
/// among those of all servers, and are answered for by the driver.
const ASKED_TOOLS: [&str; 9] = [
    "Bash",
    "PowerShell",
    "Edit",
    "Write",
    "NotebookEdit",
    "WebFetch",
    "WebSearch",
    "Skill",
    "mcp__*",
];

/// The variables that hold credentials. What an agent runs in its shell does not get them.
const SECRETS: [&str; 11] = [
    "CORTEX_MCP_TOKEN",
    "CORTEX_HOOK_TOKEN",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "ANTHROPIC_FOUNDRY_AUTH_TOKEN",
    "ANTHROPIC_AWS_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE",
];

/// Names a script that the CLI runs in the shell of every command before it.
pub(super) const SHELL_FILE: &str = "CLAUDE_ENV_FILE";

/// What the CLI is told by variables, unless the configuration says otherwise.
const VARIABLES: [(&str, &str); 3] = [
    ("CLAUDE_CODE_MAX_RETRIES", API_RETRIES),
    ("CLAUDE_CODE_DISABLE_CRON", "1"),
    // Else sub-agents work in the background: the turn ends with "it still runs", and the result comes in a turn that
    // nobody asked for. One turn, one result: all of its work is in it.
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
];

/// How a session is confined, if it is: the tools that the agent may be offered.
pub(super) fn offered(spec: &SessionSpec) -> Option<BTreeSet<String>> {
    let tools: &[&str] = match (spec.role, spec.read_only) {
        (Role::Worker, false) => return None,
        (Role::Worker, true) => &READING_TOOLS,
        (Role::Orchestrator, _) => &[],
    };
    let of_cortex = spec.mcp.as_ref().map(|_| MCP_TOOLS);
    Some(tools.iter().copied().chain(of_cortex).map(str::to_owned).collect())
}

/// Whether what the folder brings counts. A confined session is never widened by it.
fn is_trusting(spec: &SessionSpec) -> bool {
    spec.trusted && spec.role == Role::Worker && !spec.read_only
}

/// The tools that ask whatever the settings of the folder allow.
pub(super) fn asked(spec: &SessionSpec) -> &'static [&'static str] {
    if is_trusting(spec) { &ASKED_TOOLS } else { &[] }
}

/// The program of a session. `native` is the name of the conversation: a new one, or the one to resume.
///
/// # Errors
///
/// `runtime.start_failed` when the files of the session cannot be written.
pub(super) fn program(
    executable: &Path,
    config: &ClaudeCodeConfig,
    spec: &SessionSpec,
    native: &str,
) -> Result<Program> {
    let shell = shell_file(config, &spec.scratch)?;
    let argv = [executable.as_os_str().to_owned()].into_iter();
    let argv = argv.chain(arguments(config, spec, native));
    let mut program = Program::new(argv, &spec.cwd, spec.session_id.as_str());
    for (name, value) in VARIABLES {
        program = program.env(name, value);
    }
    program = environment(program, config)
        .env("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1")
        .env(SHELL_FILE, shell);
    with_mcp(program, config, spec)
}

/// The program with the tools of Cortex, if the session has any. They run unasked: Cortex itself decides about them.
pub(super) fn with_mcp(
    mut program: Program,
    config: &ClaudeCodeConfig,
    spec: &SessionSpec,
) -> Result<Program> {
    let Some(mcp) = &spec.mcp else { return Ok(program) };
    let file = mcp_config(mcp, &spec.scratch)?;
    let allowed = format!("mcp__{MCP_SERVER}");
    let arguments = ["--mcp-config".into(), file.into(), "--allowedTools".into(), allowed.into()];
    program.argv.extend(arguments);
    let past_proxy = past_proxy(config);
    Ok(program
        .env("CORTEX_MCP_TOKEN", mcp.token.expose())
        .env("CORTEX_MCP_URL", &mcp.url)
        .env("CORTEX_HOOK_TOKEN", mcp.hook_token.expose())
        .env("NO_PROXY", &past_proxy)
        .env("no_proxy", &past_proxy))
}

/// The hosts that are reached without a proxy, with this machine among them: else the CLI sends the credential of the
/// session to the proxy.
fn past_proxy(config: &ClaudeCodeConfig) -> String {
    let hosts = ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| setting(config, name));
    match hosts.as_deref().map(str::trim) {
        None | Some("") => LOCAL_HOSTS.to_owned(),
        Some(hosts) => format!("{hosts},{LOCAL_HOSTS}"),
    }
}

const LOCAL_HOSTS: &str = "127.0.0.1,localhost";

/// A variable as the CLI will see it: configured or inherited.
pub(super) fn setting(config: &ClaudeCodeConfig, name: &str) -> Option<String> {
    config.env.get(name).cloned().or_else(|| {
        let (_, value) = inherited().find(|(inherited, _)| inherited == name)?;
        value.into_string().ok()
    })
}

fn arguments(config: &ClaudeCodeConfig, spec: &SessionSpec, native: &str) -> Vec<OsString> {
    let mut argv: Vec<OsString> = [
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        "--replay-user-messages",
        "--permission-prompt-tool",
        "stdio",
        "--permission-mode",
        "default",
        "--disallowedTools",
        WITHHELD_TOOLS,
    ]
    .map(OsString::from)
    .into();
    argv.extend(sources(spec));
    argv.push("--model".into());
    argv.push(model(config, spec).into());
    let session = if spec.resume.is_some() { "--resume" } else { "--session-id" };
    argv.extend([session.into(), native.into()]);
    match (spec.role, spec.read_only) {
        (Role::Worker, false) => {}
        (Role::Worker, true) => {
            // Not the plan mode of the CLI: that only asks before it writes. These tools are all there are.
            argv.extend(["--tools".into(), READING_TOOLS.join(",").into()]);
            if spec.resume.is_none() {
                argv.push("--no-session-persistence".into());
            }
        }
        (Role::Orchestrator, _) => argv.extend(["--tools".into(), "".into()]),
    }
    argv
}

/// Which settings count. A repository brings hooks and MCP servers, which run without a question (-p knows no trust
/// dialog): they load only where a person trusts it. Settings of the person never do: those are for work without Cortex.
fn sources(spec: &SessionSpec) -> Vec<OsString> {
    if !is_trusting(spec) {
        return ["--setting-sources", "", "--strict-mcp-config"].map(OsString::from).into();
    }
    let ask = json!({"permissions": {"ask": ASKED_TOOLS}}).to_string();
    ["--setting-sources", "project,local", "--settings", &ask].map(OsString::from).into()
}

/// The model is always named: a resumed session without one falls back to a smaller context window. `default` is
/// what the account gets by itself.
pub(super) fn model(config: &ClaudeCodeConfig, spec: &SessionSpec) -> String {
    let named = |model: &String| !model.trim().is_empty();
    spec.model
        .clone()
        .or_else(|| setting(config, "ANTHROPIC_MODEL"))
        .filter(named)
        .unwrap_or_else(|| DEFAULT_MODEL.to_owned())
}

/// The CLI's name for the model that the account gets by itself.
pub(super) const DEFAULT_MODEL: &str = "default";

/// The environment of the CLI: this process's, without the traces of a session around it, and with what the
/// configuration sets.
pub(super) fn environment(mut program: Program, config: &ClaudeCodeConfig) -> Program {
    for (name, _) in inherited() {
        if is_foreign(&name) && !program.env.contains_key(&name) {
            program = program.remove_env(name);
        }
    }
    for (name, value) in &config.env {
        program = program.env(name, value);
    }
    program
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
    let Some(name) = name.to_str() else { return false };
    (name.starts_with("CLAUDE") && !KEPT.contains(&name)) || name == "AI_AGENT"
}

/// Writes the configuration of the endpoint. It names the variable with the credential, not the credential.
fn mcp_config(mcp: &McpAccess, scratch: &Path) -> Result<PathBuf> {
    let file = scratch.join("mcp.json");
    let config = json!({"mcpServers": {MCP_SERVER: {
        "type": "http",
        "url": mcp.url,
        "headers": {"Authorization": "Bearer ${CORTEX_MCP_TOKEN}"},
        "timeout": MCP_TIMEOUT_MS,
        // Else the CLI may hide the tools behind a search, and starts the first turn without them.
        "alwaysLoad": true,
    }}});
    written(file, &config.to_string())
}

/// Writes what runs in the shell of every command: the credentials are taken out of its environment, and what the
/// configuration wants to be run there goes on.
pub(super) fn shell_file(config: &ClaudeCodeConfig, scratch: &Path) -> Result<PathBuf> {
    let mut text = format!("unset {}\n", SECRETS.join(" "));
    if let Some(wanted) = config.env.get(SHELL_FILE) {
        text = format!("{text}. '{}'\n", wanted.replace('\'', r"'\''"));
    }
    written(scratch.join("shell.sh"), &text)
}

fn written(file: PathBuf, text: &str) -> Result<PathBuf> {
    write_private(&file, text).map_err(|error| {
        let what = file.display();
        Error::new(Code::RuntimeStartFailed, format!("{what} was not written: {error}"))
    })?;
    Ok(file)
}

#[cfg(unix)]
pub(super) fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;

    use fs_err::os::unix::fs::OpenOptionsExt as _;

    let mut options = fs_err::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(file)?.write_all(text.as_bytes())
}

#[cfg(not(unix))]
pub(super) fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    fs_err::write(file, text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cortex_lib::ids::SessionId;
    use cortex_lib::secret::Secret;

    use super::*;

    fn spec(scratch: &Path) -> SessionSpec {
        SessionSpec::new(SessionId::new("s1"), "/p".into(), scratch.to_owned())
    }

    fn config(env: &[(&str, &str)]) -> ClaudeCodeConfig {
        let env: BTreeMap<_, _> =
            env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ClaudeCodeConfig { env, ..ClaudeCodeConfig::default() }
    }

    fn after(argv: &[OsString], flag: &str) -> Option<String> {
        let at = argv.iter().position(|argument| argument == flag)?;
        Some(argv.get(at + 1)?.to_str()?.to_owned())
    }

    #[test]
    fn what_a_repository_brings_runs_only_where_it_is_trusted() {
        let mut spec = spec(Path::new("/s"));
        let argv = arguments(&config(&[]), &spec, "n1");
        assert_eq!(after(&argv, "--setting-sources").as_deref(), Some(""));
        assert!(argv.iter().any(|argument| argument == "--strict-mcp-config"));
        assert_eq!(after(&argv, "--permission-mode").as_deref(), Some("default"));
        assert_eq!(after(&argv, "--permission-prompt-tool").as_deref(), Some("stdio"));
        spec.trusted = true;
        let argv = arguments(&config(&[]), &spec, "n1");
        assert_eq!(after(&argv, "--setting-sources").as_deref(), Some("project,local"));
        assert!(after(&argv, "--settings").unwrap().contains(r#""ask":["Bash""#));
        assert!(!argv.iter().any(|argument| argument == "--strict-mcp-config"));
        for confine in [(|spec| spec.read_only = true) as fn(&mut SessionSpec), |spec| {
            spec.role = Role::Orchestrator;
        }] {
            let mut confined = spec.clone();
            confine(&mut confined);
            let argv = arguments(&config(&[]), &confined, "n1");
            assert_eq!(after(&argv, "--setting-sources").as_deref(), Some(""));
            assert_eq!(asked(&confined), [""; 0]);
        }
    }

    #[test]
    fn what_the_configuration_runs_in_shells_still_runs() {
        let scratch = tempfile::tempdir().unwrap();
        let file = shell_file(&config(&[(SHELL_FILE, "/o'b/env.sh")]), scratch.path()).unwrap();
        let text = fs_err::read_to_string(file).unwrap();
        assert!(
            text.starts_with("unset CORTEX_MCP_TOKEN CORTEX_HOOK_TOKEN ANTHROPIC_API_KEY "),
            "{text}"
        );
        assert!(text.ends_with("\n. '/o'\\''b/env.sh'\n"), "{text}");
    }

    #[test]
    fn a_model_is_always_named() {
        let mut spec = spec(Path::new("/s"));
        let named = |config: &ClaudeCodeConfig, spec: &SessionSpec| {
            after(&arguments(config, spec, "n1"), "--model").unwrap()
        };
        assert_eq!(named(&config(&[]), &spec), "default");
        assert_eq!(named(&config(&[("ANTHROPIC_MODEL", "m1")]), &spec), "m1");
        spec.model = Some("sonnet".to_owned());
        assert_eq!(named(&config(&[("ANTHROPIC_MODEL", "m1")]), &spec), "sonnet");
    }

    #[test]
    fn the_credential_is_in_the_environment_and_nowhere_else() {
        let scratch = tempfile::tempdir().unwrap();
        let mut spec = spec(scratch.path());
        let token = Secret::new("cortex_session_123");
        spec.mcp = Some(McpAccess {
            url: "http://127.0.0.1:1/mcp".to_owned(),
            token,
            hook_token: Secret::new("cortex_hook_123"),
        });
        let program = program(Path::new("/bin/claude"), &config(&[]), &spec, "n1").unwrap();
        assert!(!format!("{:?}", program.argv).contains("cortex_session_123"));
        let file = after(&program.argv, "--mcp-config").unwrap();
        let text = fs_err::read_to_string(&file).unwrap();
        assert!(
            text.contains("Bearer ${CORTEX_MCP_TOKEN}") && !text.contains("cortex_session_123")
        );
        let token = program.env.get(OsStr::new("CORTEX_MCP_TOKEN")).cloned().flatten();
        assert_eq!(token.as_deref(), Some(OsStr::new("cortex_session_123")));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs_err::metadata(file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn the_endpoint_is_reached_past_a_proxy() {
        let hosts = past_proxy(&config(&[("NO_PROXY", "intern.example")]));
        assert_eq!(hosts, "intern.example,127.0.0.1,localhost");
        assert_eq!(past_proxy(&config(&[("NO_PROXY", "")])), "127.0.0.1,localhost");
    }

    #[test]
    fn traces_of_a_surrounding_session_are_foreign_and_the_login_is_not() {
        for name in ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT", "AI_AGENT"] {
            assert!(is_foreign(OsStr::new(name)), "{name}");
        }
        for name in ["CLAUDE_CONFIG_DIR", "CLAUDE_CODE_USE_BEDROCK", "ANTHROPIC_API_KEY", "PATH"] {
            assert!(!is_foreign(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn a_confined_session_is_offered_only_what_it_may_use() {
        let mut spec = spec(Path::new("/s"));
        assert_eq!(offered(&spec), None);
        spec.read_only = true;
        let argv = arguments(&config(&[]), &spec, "n1");
        assert_eq!(after(&argv, "--tools").as_deref(), Some("Glob,Grep,Read"));
        assert!(argv.iter().any(|argument| argument == "--no-session-persistence"));
        let reading = ["Glob", "Grep", "Read"].map(str::to_owned);
        assert_eq!(offered(&spec), Some(BTreeSet::from(reading)), "no MCP either");
        spec.role = Role::Orchestrator;
        assert_eq!(after(&arguments(&config(&[]), &spec, "n1"), "--tools").as_deref(), Some(""));
    }
}
