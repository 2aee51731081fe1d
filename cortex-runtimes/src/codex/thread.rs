//! The settings of a thread: what an agent may do, and whether the CLI keeps to that.
//!
//! A worker's commands and changes of files are all asked for (`untrusted`), and what is allowed runs in a sandbox that
//! lets it write to its own folder and reach no network. The other policy that asks, `on-request`, runs all that
//! stays in the sandbox unasked: a person's rule against a command would not hold.
//!
//! Nothing is written to the settings of the person. The sandbox is given with each turn, because a thread that is
//! *started* with a right to write makes the CLI trust the repository for ever.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cortex_lib::domain::agent::Role;
use cortex_lib::port::{McpAccess, SessionSpec};
use serde_json::{Map, Value, json};

use super::launch::{MCP_SERVER, Purpose};
use super::map::Confined;
use super::wire::list;
use super::{CodexConfig, Sandbox, git};

/// How long a call of a tool of Cortex may take: the longest waits 5 minutes, and answers in time.
const MCP_TIMEOUT_SECS: u32 = 330;
/// How long the connection to the endpoint may take. It took 0.1 s.
const MCP_START_SECS: u32 = 20;
/// How long the CLI keeps a thread that nobody listens to. While it has it, a resume goes on with the settings and the
/// credential of before.
const UNLOAD_SECS: u32 = 0;

/// Features that no session has, besides those that its process has not: tools that nobody could be asked about, and work
/// that outlives a turn.
const OFF: [&str; 9] = [
    "multi_agent",
    "goals",
    "image_generation",
    "computer_use",
    "browser_use",
    "browser_use_external",
    "in_app_browser",
    "memories",
    "sleep_tool",
];

/// What a session is for.
pub(super) fn confined(spec: &SessionSpec) -> Option<Confined> {
    match (spec.role, spec.read_only) {
        (Role::Orchestrator, _) => Some(Confined::ToCortex),
        (Role::Worker, true) => Some(Confined::ToReading),
        (Role::Worker, false) => None,
    }
}

/// What the process of a session is for.
pub(super) fn purpose(spec: &SessionSpec) -> Purpose {
    if confined(spec).is_some() { Purpose::Confined } else { Purpose::Working }
}

/// The policy by which the CLI asks. A confined agent has nothing to ask for.
pub(super) fn policy(spec: &SessionSpec) -> &'static str {
    if confined(spec).is_some() { "never" } else { "untrusted" }
}

/// The sandbox of each turn. A reader has that of its thread, which no turn can say.
fn sandbox(spec: &SessionSpec, config: &CodexConfig) -> Option<Value> {
    Some(match (confined(spec), config.sandbox) {
        (Some(Confined::ToReading), _) => return None,
        (Some(Confined::ToCortex), _) => json!({"type": "readOnly", "networkAccess": false}),
        (None, Sandbox::Off) => json!({"type": "dangerFullAccess"}),
        (None, Sandbox::Workspace) => {
            let repository = git::repository(&spec.cwd);
            let roots = repository.map(|it| it.commit_writes()).unwrap_or_default();
            json!({
                "type": "workspaceWrite",
                "writableRoots": roots,
                "networkAccess": false,
                "excludeTmpdirEnvVar": false,
                "excludeSlashTmp": false,
            })
        }
    })
}

/// What a reader may see: the project and the repository that it is in, the machine's programs, and the CLI itself, which
/// starts each command. Not the person's home with its keys, although that may be a repository: what is read goes to a
/// model.
fn reading(spec: &SessionSpec, executable: &Path, home: Option<&Path>) -> Value {
    let project = git::repository(&spec.cwd).map(|it| it.trusted_by()).unwrap_or_default();
    let real = |folder: &Path| fs_err::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let home = home.map(real);
    let has_home = |root: &PathBuf| home.as_ref().is_some_and(|home| home.starts_with(real(root)));
    let project = project.into_iter().filter(|root| !has_home(root));
    let program = fs_err::canonicalize(executable).unwrap_or_else(|_| executable.to_owned());
    let folder = program.parent().map(Path::to_owned).unwrap_or_default();
    let beside = ["codex-path", "codex-resources"].map(|name| folder.join("..").join(name));
    let beside = beside.into_iter().filter_map(|it| fs_err::canonicalize(it).ok());
    let folders = [spec.cwd.clone(), folder].into_iter().chain(project).chain(beside);
    let seen = folders.map(|folder| (folder.display().to_string(), json!("read")));
    let files: Map<String, Value> = seen.chain([(":minimal".to_owned(), json!("read"))]).collect();
    json!({READING: {"filesystem": files, "network": {"enabled": false}}})
}

/// The name of what a reader may see.
const READING: &str = "cortex-reading";

/// The method and the arguments that open the thread. `executable`: the CLI itself; `home`: that of the person.
pub(super) fn open(
    spec: &SessionSpec,
    servers: &Servers,
    executable: &Path,
    home: Option<&Path>,
) -> (&'static str, Value) {
    let mut config = settings(spec, servers);
    let reads = confined(spec) == Some(Confined::ToReading);
    if reads {
        config.insert("permissions".to_owned(), reading(spec, executable, home));
    }
    let mut params = json!({
        "cwd": spec.cwd,
        "approvalPolicy": policy(spec),
        "approvalsReviewer": "user",
        "config": config,
    });
    let mut set = |name: &str, value: Value| {
        if let Some(params) = params.as_object_mut() {
            params.insert(name.to_owned(), value);
        }
    };
    if reads {
        set("permissions", READING.into());
    } else {
        set("sandbox", "read-only".into());
    }
    if let Some(model) = spec.model.as_deref().filter(|model| !model.trim().is_empty()) {
        set("model", model.into());
    }
    if let Some(instructions) = &spec.instructions {
        set("developerInstructions", instructions.as_str().into());
    }
    if let Some(native) = &spec.resume {
        set("threadId", native.as_str().into());
        // Else it answers with all that was ever said.
        set("excludeTurns", true.into());
        return ("thread/resume", params);
    }
    // Without an environment there is nothing that a shell or a patch could touch, should one be offered.
    if confined(spec) == Some(Confined::ToCortex) {
        set("environments", json!([]));
    }
    if spec.read_only {
        set("ephemeral", true.into());
    }
    ("thread/start", params)
}

/// What is set for this thread alone, above all files. It is not remembered: a resumed thread is given all of it again.
fn settings(spec: &SessionSpec, servers: &Servers) -> Map<String, Value> {
    let mut settings = Map::new();
    let mut set = |name: String, value: Value| drop(settings.insert(name, value));
    for feature in OFF {
        set(format!("features.{feature}"), false.into());
    }
    // Hooks run without a question. There is one switch for those of the repository and of the person, so a person who
    // trusts the repository has their own back, too.
    if !spec.trusted {
        set("features.hooks".to_owned(), false.into());
    }
    let works = confined(spec).is_none();
    // An agent that works may ask its user; nobody answers the questions of a plan.
    set("features.default_mode_request_user_input".to_owned(), works.into());
    if confined(spec) == Some(Confined::ToCortex) {
        set("features.shell_tool".to_owned(), false.into());
        set("features.view_image".to_owned(), false.into());
    }
    set("suppress_unstable_features_warning".to_owned(), true.into());
    // The model's own search runs unasked.
    set("web_search".to_owned(), "disabled".into());
    // A program of the person's that is run at the end of each turn.
    set("notify".to_owned(), json!([]));
    set("thread_unload_delay_secs".to_owned(), UNLOAD_SECS.into());
    // Keys, secrets and tokens of the environment are the CLI's, not its tools'.
    set("shell_environment_policy.ignore_default_excludes".to_owned(), false.into());
    let marker = spec.session_id.as_str();
    set("shell_environment_policy.set".to_owned(), json!({cortex_lib::process::MARKER: marker}));
    set("projects".to_owned(), trust(spec));
    let off = servers.off.iter().map(|name| (name.clone(), json!({"enabled": false})));
    let own = spec.mcp.as_ref().map(|mcp| (servers.own.clone(), endpoint(mcp)));
    set("mcp_servers".to_owned(), Value::Object(off.chain(own).collect()));
    settings
}

/// Whether the repository's own settings, rules, hooks and MCP servers count. Whatever a person told Codex itself about
/// it, here only what they told Cortex does.
fn trust(spec: &SessionSpec) -> Value {
    let level = if spec.trusted { "trusted" } else { "untrusted" };
    let roots = git::repository(&spec.cwd).map(|found| found.trusted_by()).unwrap_or_default();
    let folders = std::iter::once(spec.cwd.clone()).chain(roots);
    let entry = |folder: PathBuf| (folder.display().to_string(), json!({"trust_level": level}));
    Value::Object(folders.map(entry).collect())
}

/// The endpoint of Cortex. The credential is sent to the CLI over its input and is kept in its memory: it is not in the
/// environment, which all sessions of a process share and tools inherit, nor in an argument or a file.
fn endpoint(mcp: &McpAccess) -> Value {
    json!({
        "enabled": true,
        "url": mcp.url,
        "http_headers": {"Authorization": format!("Bearer {}", mcp.token.expose())},
        // The endpoint decides who may call what.
        "default_tools_approval_mode": "approve",
        // Else a thread starts without the tools when they cannot be reached.
        "required": true,
        "startup_timeout_sec": MCP_START_SECS,
        "tool_timeout_sec": MCP_TIMEOUT_SECS,
    })
}

/// The arguments of a turn. All that matters is said again: what is not said is what the turn before had.
pub(super) fn turn(spec: &SessionSpec, config: &CodexConfig, thread: &str, text: &str) -> Value {
    let mut params = json!({
        "threadId": thread,
        "input": [input(text)],
        "approvalPolicy": policy(spec),
        "approvalsReviewer": "user",
    });
    let sandbox = sandbox(spec, config).map(|sandbox| ("sandboxPolicy", sandbox));
    let nothing = confined(spec) == Some(Confined::ToCortex);
    let nothing = nothing.then(|| ("environments", json!([])));
    if let Some(params) = params.as_object_mut() {
        params.extend(
            [sandbox, nothing].into_iter().flatten().map(|(name, it)| (name.to_owned(), it)),
        );
    }
    params
}

/// A text as the input of a turn.
pub(super) fn input(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// What the answer to the opening must say: that the CLI asks, asks a person, and lets nothing be written. Settings of
/// the machine, which an administrator may put down, can bring about something else.
pub(super) fn keeps_to(spec: &SessionSpec, opened: &Value) -> std::result::Result<(), String> {
    let reads = confined(spec) == Some(Confined::ToReading);
    let wanted = [
        ("/approvalPolicy", policy(spec)),
        ("/approvalsReviewer", "user"),
        ("/sandbox/type", "readOnly"),
    ];
    let reading = reads.then_some(("/activePermissionProfile/id", READING));
    for (path, wanted) in wanted.into_iter().chain(reading) {
        let found = opened.pointer(path).cloned().unwrap_or_default();
        if found != wanted {
            let name = path.trim_start_matches('/');
            return Err(format!("{name} is {found} and not {wanted}"));
        }
    }
    Ok(())
}

/// The MCP servers of a thread, besides those of a repository: those are not there when it is not trusted, and meant to run
/// when it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Servers {
    /// The name of that with the tools of Cortex. Nobody else has it: the CLI would make one server of the two.
    pub(super) own: String,
    /// Those of the person and of the machine, which do not run.
    off: Vec<String>,
}

/// The MCP servers of a thread, by `config/read`.
pub(super) fn servers(settings: &Value) -> Servers {
    let (mut taken, mut off) = (BTreeSet::new(), BTreeSet::new());
    for layer in list(settings, "layers") {
        let table = layer.pointer("/config/mcp_servers").and_then(Value::as_object);
        let names = table.into_iter().flat_map(Map::keys).cloned();
        taken.extend(names.clone());
        if layer.pointer("/name/type") != Some(&json!("project")) {
            off.extend(names);
        }
    }
    let mut own = MCP_SERVER.to_owned();
    for number in 2.. {
        if !taken.contains(&own) {
            break;
        }
        own = format!("{MCP_SERVER}_{number}");
    }
    Servers { own, off: off.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use cortex_lib::ids::SessionId;
    use cortex_lib::secret::Secret;

    use super::*;

    fn spec() -> SessionSpec {
        SessionSpec::new(SessionId::new("s1"), "/p".into(), "/s".into())
    }

    fn opened(spec: &SessionSpec, off: &[&str]) -> (&'static str, Value) {
        let off = off.iter().map(|name| (*name).to_owned()).collect();
        let servers = Servers { own: MCP_SERVER.to_owned(), off };
        open(spec, &servers, Path::new("/bin/codex"), None)
    }

    #[test]
    fn a_worker_is_asked_and_held_in_its_folder() {
        let mut spec = spec();
        let (method, params) = opened(&spec, &["mine"]);
        assert_eq!(
            (method, &params["approvalPolicy"], &params["sandbox"]),
            ("thread/start", &json!("untrusted"), &json!("read-only"))
        );
        let config = &params["config"];
        assert_eq!(config["mcp_servers"]["mine"]["enabled"], json!(false));
        assert_eq!(config["features.hooks"], json!(false));
        assert_eq!(config["projects"]["/p"]["trust_level"], json!("untrusted"));
        assert_eq!(config["shell_environment_policy.set"]["CORTEX_OWNER"], json!("s1"));
        let turn = turn(&spec, &CodexConfig::default(), "t", "hello");
        assert_eq!(turn["sandboxPolicy"]["type"], json!("workspaceWrite"));
        assert_eq!(turn["sandboxPolicy"]["networkAccess"], json!(false));
        spec.trusted = true;
        let (_, params) = opened(&spec, &[]);
        assert_eq!(params["config"].get("features.hooks"), None);
        assert_eq!(params["config"]["projects"]["/p"]["trust_level"], json!("trusted"));
    }

    #[test]
    fn a_confined_session_can_do_nothing_and_asks_for_nothing() {
        let mut spec = spec();
        spec.role = Role::Orchestrator;
        let (_, params) = opened(&spec, &[]);
        assert_eq!(
            (&params["environments"], &params["approvalPolicy"]),
            (&json!([]), &json!("never"))
        );
        assert_eq!(params["config"]["features.shell_tool"], json!(false));
        let off = CodexConfig { sandbox: Sandbox::Off, ..CodexConfig::default() };
        assert_eq!(turn(&spec, &off, "t", "x")["sandboxPolicy"]["type"], json!("readOnly"));
        spec.role = Role::Worker;
        spec.read_only = true;
        let (_, params) = opened(&spec, &[]);
        assert_eq!((params.get("environments"), &params["ephemeral"]), (None, &json!(true)));
        assert_eq!(
            (params.get("sandbox"), &params["permissions"]),
            (None, &json!("cortex-reading"))
        );
        let seen = &params["config"]["permissions"]["cortex-reading"]["filesystem"];
        assert_eq!((&seen["/p"], seen.get("/")), (&json!("read"), None));
        assert_eq!(turn(&spec, &off, "t", "x").get("sandboxPolicy"), None);
    }

    #[test]
    fn all_settings_are_sent_again_with_a_resume() {
        let mut spec = spec();
        spec.resume = Some("n1".to_owned());
        spec.model = Some("m1".to_owned());
        spec.mcp = Some(McpAccess {
            url: "http://127.0.0.1:1/mcp".to_owned(),
            token: Secret::new("tok"),
            hook_token: Secret::new("cortex_hook_1"),
        });
        let (method, params) = opened(&spec, &[]);
        assert_eq!(
            (method, &params["threadId"], &params["model"]),
            ("thread/resume", &json!("n1"), &json!("m1"))
        );
        assert_eq!(params["config"]["mcp_servers"]["cortex"]["required"], json!(true));
    }

    #[test]
    fn what_the_cli_makes_of_the_settings_is_looked_at() {
        let opened = |policy: Value| json!({"approvalPolicy": policy, "approvalsReviewer": "user", "sandbox": {"type": "readOnly"}});
        assert_eq!(keeps_to(&spec(), &opened(json!("untrusted"))), Ok(()));
        for policy in [json!("never"), json!("on-request"), json!({"granular": {}}), Value::Null] {
            assert!(keeps_to(&spec(), &opened(policy)).is_err());
        }
    }

    #[test]
    fn a_server_of_our_name_is_not_taken_for_ours() {
        let settings = |kind: &str, name: &str| {
            let servers = json!({name: {}});
            json!({"layers": [
                {"name": {"type": "system"}, "config": {"mcp_servers": {"cortex_2": {}}}},
                {"name": {"type": kind}, "config": {"mcp_servers": servers}},
                {"name": {"type": "sessionFlags"}},
            ]})
        };
        for (kind, name, own, off) in [
            ("user", "mine", "cortex", vec!["cortex_2", "mine"]),
            ("user", "cortex", "cortex_3", vec!["cortex", "cortex_2"]),
            ("project", "cortex", "cortex_3", vec!["cortex_2"]),
        ] {
            let off = off.into_iter().map(str::to_owned).collect();
            let want = Servers { own: own.to_owned(), off };
            assert_eq!(servers(&settings(kind, name)), want);
        }
    }

    /// A repository of settings at home, and a worktree of one in a home that has no files checked out.
    #[test]
    fn a_reader_does_not_see_the_home_around_its_project() {
        let dir = tempfile::tempdir().unwrap();
        let home = fs_err::canonicalize(dir.path()).unwrap();
        let project = home.join("project");
        for folder in [home.join(".git"), project.clone()] {
            fs_err::create_dir_all(folder).unwrap();
        }
        let seen = |home: Option<&Path>| {
            let spec = SessionSpec { cwd: project.clone(), ..spec() };
            let seen = reading(&spec, Path::new("/bin/codex"), home);
            let seen = seen.pointer("/cortex-reading/filesystem").unwrap();
            [&home_of(&project), &project].map(|it| seen.get(it.to_str().unwrap()).is_some())
        };
        assert_eq!(seen(Some(&home)), [false, true]);
        assert_eq!(seen(Some(&home.join("user"))), [false, true]);
        assert_eq!(seen(Some(Path::new("/elsewhere"))), [true, true]);
    }

    fn home_of(project: &Path) -> PathBuf {
        project.parent().unwrap().to_owned()
    }
}
