//! Servers: how they start and end, what is refused before a session, and what a repository brings. Each case has one of
//! its own.

use std::time::Duration;

use cortex_lib::error::Code;
use cortex_lib::port::{Health, Runtime as _};
use cortex_runtimes::ProcessUse;
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases};
use serde_json::{Value, json};

use crate::place::{Live, Place, kill, runs, succeeded, until};

pub(crate) fn all() -> Vec<Case> {
    cases![
        a_start_that_cannot_succeed_says_why,
        a_killed_server_is_an_ended_session_and_can_be_resumed,
        a_start_that_is_dropped_leaves_nothing,
        what_would_run_or_leave_unasked_is_refused_before_the_first_turn,
        what_a_repository_brings_counts_only_when_it_is_trusted,
    ]
    .into()
}

async fn a_start_that_cannot_succeed_says_why() {
    let missing = Place::with(Script::new(), |config| {
        config.executable = Some("no-such-program".into());
    });
    let missing = missing.await;
    let error = missing.open_with(|_| {}).await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeNotInstalled);
    let report = missing.runtime.check().await;
    assert_eq!(report.health, Health::Unhealthy);
    assert!(report.remediation.is_some());

    let broken = program(&missing, "#!/bin/sh\necho boom >&2\nexit 3\n");
    let broken = Place::with(Script::new(), |config| config.executable = Some(broken)).await;
    let error = broken.open_with(|_| {}).await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeStartFailed);
    assert!(error.message().contains("exit code 3") && error.message().contains("boom"), "{error}");
}

/// A program of one's own.
fn program(place: &Place, text: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = place.home.home().join("program");
    fs_err::write(&path, text).unwrap();
    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Processes: the program dies in the middle of a turn, with tools that forked, also into sessions of their own.
async fn a_killed_server_is_an_ended_session_and_can_be_resumed() {
    let stays = "sleep 86411 & setsid sleep 86412 >/dev/null 2>&1 & sleep 86413";
    let bash = Answer::tool("bash", json!({"command": stays, "description": "it"}));
    let script = Script::new()
        .on(When::last_user("remember"), Answer::text("noted"))
        .on(When::last_user("again"), Answer::text("welcome back"))
        .on(When::last_user("run"), bash);
    let place = Place::with(script, |config| config.process = ProcessUse::PerAgent).await;
    let (mut live, other) = (place.open().await, place.open().await);
    assert_ne!(live.facts.pid, other.facts.pid);
    live.turn("remember the word heron").await;
    let native = live.facts.native_session_id.clone().unwrap();
    live.send("run").await;
    live.allow().await;
    live.sleepers(3).await;
    kill(live.facts.pid.unwrap());
    let words = live.last_words().await;
    assert!(words.contains("signal 9"), "{words}");
    assert_eq!(live.sleeping(), Vec::<String>::new());
    let more = live.next_turn("more", true);
    let error = live.session.send(more).await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeSessionEnded);
    live.close().await;
    let pid = other.facts.pid.unwrap();
    assert!(runs(pid));
    other.close().await;
    assert!(!runs(pid), "it ends with its session");

    let mut live = place.resume(&native).await.unwrap();
    let (end, _) = live.turn("again").await;
    assert_eq!(end.outcome, succeeded("welcome back"));
    let asked = place.asked(&live);
    assert!(asked.last().unwrap().texts.iter().any(|text| text.text.contains("heron")));
    live.close().await;
}

async fn a_start_that_is_dropped_leaves_nothing() {
    let place = Place::new(Script::new()).await;
    let home = format!("HOME={}", place.home.home().display());
    tokio::select! {
        biased;
        () = until(|| (!of_home(&home).is_empty()).then_some(())) => {}
        _ = place.open() => panic!("it starts faster than its process is seen"),
    }
    until(|| of_home(&home).is_empty().then_some(())).await;
}

/// The processes with this variable.
fn of_home(variable: &str) -> Vec<std::path::PathBuf> {
    let processes = fs_err::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let has = |path: &std::path::PathBuf| {
        let environment = fs_err::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    };
    processes.filter(has).collect()
}

/// The person's own configuration, changed.
fn configure(place: &Place, change: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    let file = place.home.opencode_config();
    let text = fs_err::read_to_string(&file).unwrap();
    let mut config: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    change(&mut config);
    fs_err::write(file, Value::Object(config).to_string()).unwrap();
}

/// Approvals: a driver whose program would run a tool without asking does not start.
async fn what_would_run_or_leave_unasked_is_refused_before_the_first_turn() {
    let place = Place::new(Script::new().otherwise(Answer::text("ok"))).await;
    configure(&place, |config| {
        config.remove("model");
        let general = json!({"general": {"permission": {"edit": "allow"}}});
        config.insert("agent".to_owned(), general);
    });
    // Holds the server: a confined session can start nobody, so nothing would run unasked.
    let holder = place.open_with(|spec| {
        spec.model = Some("scripted/small-talk".to_owned());
        spec.read_only = true;
    });
    let holder = holder.await.unwrap();
    // Without a model the prompt would go to one that OpenCode hosts.
    let error = place.open_with(|_| {}).await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeStartFailed);
    assert!(error.message().contains("no model is named"), "{error}");
    assert!(error.remediation().contains("`model`"), "{error}");
    let named = place.open_with(|spec| spec.model = Some("scripted/other".to_owned()));
    let error = named.await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeStartFailed);
    assert_eq!(error.message(), "OpenCode's agent general would use edit without asking");
    holder.close().await;
    assert_eq!(place.server.requests(), []);
    // It looks for its own packages, and asks nobody else.
    let strangers = place.server.strangers();
    assert!(strangers.iter().all(|one| one.target.contains("npmjs")), "{strangers:?}");
}

async fn what_a_repository_brings_counts_only_when_it_is_trusted() {
    let place = Place::new(Script::new().otherwise(Answer::text("ok"))).await;
    let (loaded, plugged) = (place.path("loaded"), place.path("plugged"));
    let (tooled, served) = (place.path("tooled"), place.path("served"));
    let config = json!({
        "permission": {"bash": "allow"},
        "mcp": {"evil": {"type": "local", "command": ["touch", served]}},
    });
    fs_err::write(place.path("opencode.json"), config.to_string()).unwrap();
    fs_err::write(place.path("AGENTS.md"), "The word of the house is heron.").unwrap();
    let mut live = place.open().await;
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("ok"));
    let knows = |live: &Live| {
        let asked = place.asked(live);
        asked.first().unwrap().system.contains("heron")
    };
    assert!(!knows(&live));

    // What the driver cannot keep from running comes while a session is open.
    for folder in [".opencode/plugin", ".opencode/tools"] {
        fs_err::create_dir_all(place.path(folder)).unwrap();
    }
    let touch = |file: &std::path::Path| format!("fs.writeFileSync('{}', '')", file.display());
    let plugin = format!(
        "import fs from 'node:fs'\n{}\nexport const P = async () => {{ {}; return {{}} }}\n",
        touch(&loaded),
        touch(&plugged)
    );
    let tool = format!(
        "import fs from 'node:fs'\n{}\nexport default {{ description: 'd', args: {{}}, async execute() {{ return 'x' }} }}\n",
        touch(&tooled)
    );
    fs_err::write(place.path(".opencode/plugin/p.js"), plugin).unwrap();
    fs_err::write(place.path(".opencode/tools/t.ts"), tool).unwrap();
    let turn = live.next_turn("again", true);
    let error = live.session.send(turn).await.unwrap_err();
    assert!(error.message().contains(".opencode/plugin/p.js"), "{error}");
    for read_only in [false, true] {
        let error = place.open_with(|spec| spec.read_only = read_only).await.unwrap_err();
        assert_eq!(error.code(), Code::RuntimeStartFailed);
        assert!(error.message().contains(".opencode/plugin/p.js"), "{error}");
    }
    live.close().await;
    let ran = || [&loaded, &plugged, &tooled, &served].map(|trace| trace.exists());
    assert_eq!(ran(), [false; 4]);
    let mut trusted = place.open_with(|spec| spec.trusted = true).await.unwrap();
    let (end, _) = trusted.turn("hello").await;
    assert_eq!(end.outcome, succeeded("ok"));
    assert!(knows(&trusted));
    assert_eq!(ran(), [true; 4]);
    // Who only reads has a server apart, where it runs too, and nobody else is.
    let reading = place.open_with(|spec| (spec.trusted, spec.read_only) = (true, true));
    let reading = reading.await.unwrap();
    assert_ne!(reading.facts.pid, trusted.facts.pid);
    reading.close().await;
    trusted.session.close(Duration::from_secs(10)).await;
}
