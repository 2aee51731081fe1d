//! How sessions start, end, and go on.

use std::time::Duration;

use cortex_lib::domain::agent::Role;
use cortex_lib::error::Code;
use cortex_lib::port::{Health, McpAccess, ToolAnswer, TurnOutcome};
use cortex_lib::secret::Secret;
use cortex_runtimes::Sandbox;
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases, cli};
use serde_json::json;
use tokio::net::TcpListener;

use crate::endpoint::Endpoint;
use crate::place::{Place, alive, kill, sh, succeeded};

pub(crate) fn all() -> Vec<Case> {
    cases![
        a_session_is_ready_with_its_version_and_the_check_is_healthy,
        a_start_that_cannot_succeed_says_why,
        rules_that_would_run_commands_unasked_refuse_the_start,
        a_machine_without_a_sandbox_is_said_so,
        a_start_that_fails_leaves_nothing,
        an_account_that_is_not_told_is_no_health,
        models_are_asked_for_in_a_folder_of_its_own_and_whatever_it_complains,
        a_start_that_is_dropped_leaves_nothing,
        a_session_ends_while_the_process_of_another_starts,
        a_session_that_is_dropped_ends_its_turn_in_a_process_that_lives,
        a_process_that_reads_nothing_is_ended,
        the_process_ends_with_its_last_session,
        a_close_during_a_turn_interrupts_it_and_ends_the_process,
        a_close_does_not_wait_for_somebody_to_take_the_events,
        a_program_that_takes_no_notice_is_gone_after_the_grace,
        a_killed_cli_is_an_ended_session_and_can_be_resumed,
        a_closed_session_can_be_resumed_with_its_model,
        a_session_resumed_in_a_process_that_lives_has_its_new_settings,
        a_session_that_nobody_knows_cannot_be_resumed,
        the_home_of_the_person_is_left_as_it_was,
    ]
    .into()
}

async fn a_session_is_ready_with_its_version_and_the_check_is_healthy() {
    let place = Place::new(Script::new()).await;
    let report = place.check().await;
    let version = cli::codex_version();
    assert_eq!(
        (report.health, report.version.as_ref()),
        (Health::Healthy, Some(&version)),
        "{report:?}"
    );
    assert_eq!(report.logged_in, Some(true));
    assert_eq!(place.processes(), Vec::<String>::new());
    let live = place.open().await;
    assert_eq!(live.facts.version, Some(version));
    assert!(live.facts.pid.is_some() && live.facts.native_session_id.is_some());
    assert_eq!(live.facts.model.as_deref(), Some("gpt-5.5"));
    assert!(!live.facts.resumed);
    live.close().await;
    assert_eq!(place.processes(), Vec::<String>::new());
    // Nobody else was asked anything.
    assert_eq!((place.server.strangers(), place.server.others()), (vec![], vec![]));
}

async fn a_start_that_cannot_succeed_says_why() {
    let place = Place::new(Script::new()).await;
    let missing = place.with_executable("no-such-program".into());
    let error = missing.try_open().await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeNotInstalled);
    let report = missing.check().await;
    assert_eq!(report.health, Health::Unhealthy);
    assert!(report.remediation.is_some());

    let broken = place.program("#!/bin/sh\necho boom >&2\nexit 3\n");
    let error = place.with_executable(broken).try_open().await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeStartFailed);

    let dies = place.program(&answers("echo boom >&2; exit 3"));
    let error = place.with_executable(dies).try_open().await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeStartFailed, "{error}");
    assert!(error.message().contains("exit code 3") && error.message().contains("boom"), "{error}");

    let error = place.open_with(|spec| spec.cwd = "/no/such/folder".into()).await.unwrap_err();
    assert_eq!(error.code(), Code::ProjectInvalidRoot);

    // The provider of the account, without an account.
    let config = place.home.codex_home().join("config.toml");
    let configured = fs_err::read_to_string(&config).unwrap();
    fs_err::write(&config, "model = \"gpt-5.5\"\ncheck_for_update_on_startup = false\n").unwrap();
    let error = place.try_open().await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeNotLoggedIn, "{error}");
    let report = place.check().await;
    assert_eq!((report.health, report.logged_in), (Health::Unhealthy, Some(false)));
    // It is a start that fails, not a session that is not known.
    let unknown =
        configured.replace("model_provider = \"scripted\"", "model_provider = \"nobody\"");
    fs_err::write(&config, unknown).unwrap();
    let account = json!({"OPENAI_API_KEY": "sk-scripted"}).to_string();
    fs_err::write(place.home.codex_home().join("auth.json"), account).unwrap();
    for resume in [None, Some("01a22dd6-f392-7283-9d47-efb50d83ca92".to_owned())] {
        let error = place.open_with(|spec| spec.resume = resume).await.unwrap_err();
        assert!(error.message().contains("nobody"), "{error}");
        assert_eq!(error.detail("resume_unknown"), None, "{error}");
    }
    fs_err::write(&config, "model = [\n").unwrap();
    let error = place.try_open().await.unwrap_err();
    assert_ne!(error.code(), Code::RuntimeSessionEnded, "{error}");
    assert_eq!(place.check().await.health, Health::Unhealthy);
    assert_eq!(place.processes(), Vec::<String>::new());
}

/// A program that knows its models, and then does something else than to answer.
fn answers(then: &str) -> String {
    format!(
        "#!/bin/sh\nif [ \"$1\" = debug ]; then echo '{{\"models\":[{{\"slug\":\"m\"}}]}}'; exit; fi\n{then}\n"
    )
}

/// Approvals: a driver whose CLI would run a tool without asking is not started.
async fn rules_that_would_run_commands_unasked_refuse_the_start() {
    let place = Place::new(Script::new().otherwise(Answer::text("ok"))).await;
    let rules = place.home.codex_home().join("rules");
    fs_err::create_dir(&rules).unwrap();
    fs_err::write(
        rules.join("default.rules"),
        "prefix_rule(pattern=[\"touch\"], decision=\"allow\")\n",
    )
    .unwrap();
    let error = place.try_open().await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeStartFailed);
    assert!(
        error.message().contains("without asking") && error.message().contains("default.rules"),
        "{error}"
    );
    let report = place.check().await;
    assert_eq!(report.health, Health::Unhealthy);
    assert!(report.remediation.unwrap().contains("CODEX_HOME"));
    // Rules that only forbid are welcome.
    fs_err::write(
        rules.join("default.rules"),
        "prefix_rule(pattern=[\"rm\"], decision=\"forbidden\")\n",
    )
    .unwrap();
    assert_eq!(place.check().await.health, Health::Healthy);
    place.open().await.close().await;
    // Settings of the person that ask less do not count.
    let config = place.home.codex_home().join("config.toml");
    let text = fs_err::read_to_string(&config).unwrap();
    let lax = format!("approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n{text}");
    fs_err::write(&config, lax).unwrap();
    let place = place.with(|_| {});
    place.open().await.close().await;
}

/// A machine whose kernel lets nobody make a sandbox: there can be no further namespace.
async fn a_machine_without_a_sandbox_is_said_so() {
    let place = Place::new(Script::new().otherwise(Answer::text("ok"))).await;
    let real = cli::codex().unwrap();
    // A wrapper in a namespace where no further one can be made.
    let wrapper = place.program(&format!(
        "#!/bin/sh\nif [ \"$1\" = debug ]; then exec {real} \"$@\"; fi\nexec unshare --user --map-current-user sh -c 'echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"' sh {real} \"$@\"\n",
        real = real.display()
    ));
    let place = place.with_executable(wrapper);
    let report = place.check().await;
    assert_eq!(report.health, Health::Unhealthy, "{report:?}");
    let message = report.message.unwrap();
    assert!(message.contains("sandbox"), "{message}");
    let error = place.try_open().await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeStartFailed, "{error}");
    let place = place.with(|config| config.sandbox = Sandbox::Off);
    assert_eq!(place.check().await.health, Health::Healthy);
    let mut live = place.open().await;
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("ok"));
    live.close().await;
    // An agent that only reads would not be held.
    let error = place.open_with(|spec| spec.read_only = true).await.unwrap_err();
    assert!(error.message().contains("sandbox"), "{error}");
}

async fn a_start_that_is_dropped_leaves_nothing() {
    let place = Place::new(Script::new()).await;
    for part in ["debug models", "app-server"] {
        tokio::select! {
            biased;
            () = place.until_running(part) => {}
            _ = place.open() => panic!("it starts faster than its process is seen"),
        }
        place.until_no_process().await;
    }
    // An endpoint that never answers holds up its thread.
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let mcp =
        McpAccess { url, token: Secret::new("token"), hook_token: Secret::new("cortex_hook_1") };
    let reached = tokio::select! {
        biased;
        reached = listener.accept() => reached.unwrap(),
        opened = place.open_with(|spec| spec.mcp = Some(mcp)) => panic!("{opened:?}"),
    };
    place.until_no_process().await;
    drop(reached);
}

async fn a_start_that_fails_leaves_nothing() {
    let place = Place::new(Script::new()).await;
    for method in ["initialize", "command/exec", "account/read", "config/read", "thread/start"] {
        let place = place.behind(&format!(
            "*{method}*) line=\"${{line%%{method}*}}nobody${{line#*{method}}}\";;"
        ));
        let error = place.try_open().await.map(|_| method).unwrap_err();
        assert_eq!(place.processes(), Vec::<String>::new(), "{error}");
    }
}

/// Rejected, it says nothing about a login, and no session would open.
async fn an_account_that_is_not_told_is_no_health() {
    let place = Place::new(Script::new()).await;
    let place = place
        .behind("*account/read*) line=\"${line%%account/read*}nobody${line#*account/read}\";;");
    let report = place.check().await;
    assert_eq!((report.health, report.logged_in), (Health::Unhealthy, None), "{report:?}");
    assert!(report.message.unwrap().contains("account/read"));
}

/// What it complains about is more than a pipe holds.
async fn models_are_asked_for_in_a_folder_of_its_own_and_whatever_it_complains() {
    let place = Place::new(Script::new()).await;
    let real = cli::codex().unwrap();
    let chatty = format!(
        "#!/bin/sh\nif [ \"$1\" = debug ]; then pwd > \"$0.folder\"; head -c 1000000 /dev/zero | tr '\\0' '\\n' >&2; fi\nexec {} \"$@\"\n",
        real.display()
    );
    let program = place.program(&chatty);
    place.with_executable(program.clone()).open().await.close().await;
    let folder = fs_err::read_to_string(format!("{}.folder", program.display())).unwrap();
    assert!(folder.contains("/cortex-codex-"), "{folder}");
    // Where it does not tell them, it is said why.
    let silent = place.program("#!/bin/sh\necho boom >&2\n");
    let error = place.with_executable(silent).try_open().await.unwrap_err();
    assert!(error.message().contains("boom"), "{error}");
}

async fn a_session_ends_while_the_process_of_another_starts() {
    let place = Place::new(Script::new()).await;
    let real = cli::codex().unwrap();
    let program = place.program(&format!(
        "#!/bin/sh\n[ -e \"$0.hangs\" ] && [ \"$1\" != debug ] && exec sleep 86413\nexec {} \"$@\"\n",
        real.display()
    ));
    let place = place.with_executable(program.clone());
    let mut one = place.open().await;
    kill(one.facts.pid.unwrap());
    one.last_words().await;
    let two = place.open().await;
    fs_err::write(format!("{}.hangs", program.display()), "").unwrap();
    let confined = place.open_with(|spec| spec.role = Role::Orchestrator);
    let ends = async {
        place.until_running("sleep 86413").await;
        two.close().await;
        // A process that starts in the stead of another does not hold up those who had that, either.
        one.close().await;
    };
    tokio::select! {
        biased;
        opened = confined => panic!("{opened:?}"),
        () = ends => {}
    }
    place.until_no_process().await;
}

/// The model would work on, and nobody would see what it spends.
async fn a_session_that_is_dropped_ends_its_turn_in_a_process_that_lives() {
    let place = Place::new(
        Script::new()
            .on(When::last_user("talk"), Answer::text("x").silent_until("never"))
            .otherwise(Answer::text("fine")),
    )
    .await;
    let beside = place.other().open().await;
    let mut live = place.open().await;
    live.turn("hello").await;
    let native = live.facts.native_session_id.clone().unwrap();
    for closes in [false, true] {
        let turn = live.next_turn("talk", true);
        live.session.send(turn).await.unwrap();
        if closes {
            // Before the CLI works on the turn: there is nothing yet that could be interrupted.
            live.session.close(Duration::ZERO).await;
        } else {
            place.server.wait_for(|all| all.get(1).cloned()).await.unwrap();
        }
        drop(live);
        live = place.resume(&native).await.unwrap();
        assert_eq!(live.facts.pid, beside.facts.pid);
        let (end, _) = live.turn("hello").await;
        assert_eq!(end.outcome, succeeded("fine"));
    }
    live.close().await;
    beside.close().await;
}

async fn a_process_that_reads_nothing_is_ended() {
    let place = Place::new(Script::new()).await;
    let place = place.behind("*thread/start*) printf '%s\\n' \"$line\"; exec sleep 86414;;");
    let mut live = place.open().await;
    let turn = live.next_turn(&"x".repeat(65 * 1024 * 1024), true);
    let (again, other) = (live.next_turn("again", true), place.other());
    let (sent, opened) = tokio::join!(live.session.send(turn), async {
        // Refused once the first is on its way.
        let refused = live.session.send(again).await.unwrap_err();
        assert_eq!(refused.code(), Code::RuntimeTurnInProgress);
        other.try_open().await
    });
    assert_eq!(sent.unwrap_err().code(), Code::RuntimeSessionEnded);
    let error = opened.map(drop).unwrap_err();
    assert!(error.message().contains("took nothing any more"), "{error}");
    assert!(live.last_words().await.contains("took nothing any more"));
    assert_eq!(place.processes(), Vec::<String>::new());
}

async fn the_process_ends_with_its_last_session() {
    let place = Place::new(Script::new().otherwise(Answer::text("ok"))).await;
    let other = place.other();
    let (mut one, mut two) = tokio::join!(place.open(), other.open());
    assert_eq!(one.facts.pid, two.facts.pid, "they share a process");
    assert_ne!(one.facts.native_session_id, two.facts.native_session_id);
    for live in [&mut one, &mut two] {
        let (end, _) = live.turn("hello").await;
        assert_eq!(end.outcome, succeeded("ok"));
    }
    one.close().await;
    let (end, _) = two.turn("hello").await;
    assert_eq!(end.outcome, succeeded("ok"));
    drop(two);
    place.until_no_process().await;
    let live = place.open().await;
    live.close().await;
    assert_eq!(place.processes(), Vec::<String>::new());
}

async fn a_close_during_a_turn_interrupts_it_and_ends_the_process() {
    let run = json!({"cmd": "echo > ran; sleep 86407"});
    let place = Place::new(Script::new().otherwise(Answer::tool("exec_command", run))).await;
    let mut live = place.open().await;
    let turn = live.send("run").await;
    let request = live.request().await;
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    place.file("ran").await;
    live.session.close(Duration::from_secs(10)).await;
    assert_eq!(alive(place.marker()), Vec::<String>::new());
    assert_eq!(place.processes(), Vec::<String>::new());
    assert_eq!(live.ended(&turn).await.outcome, TurnOutcome::Interrupted);
    assert_eq!(live.last_words().await, "the session was closed");
    let more = live.next_turn("more", true);
    let error = live.session.send(more).await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeSessionEnded);
    // At once, and again.
    live.session.close(Duration::ZERO).await;
}

async fn a_close_does_not_wait_for_somebody_to_take_the_events() {
    let many = "a line\n".repeat(2000);
    let place =
        Place::new(Script::new().otherwise(Answer::text(many).hang_after(60, "never"))).await;
    let mut live = place.open().await;
    let turn = live.next_turn("talk", true);
    live.session.send(turn).await.unwrap();
    live.full().await;
    live.session.close(Duration::from_secs(10)).await;
    assert_eq!(place.processes(), Vec::<String>::new());
}

/// Processes: a CLI that ignores SIGINT and SIGTERM.
async fn a_program_that_takes_no_notice_is_gone_after_the_grace() {
    let place = Place::new(Script::new()).await;
    let real = cli::codex().unwrap();
    // It works until a turn begins, and then neither answers nor ends.
    let deaf = format!(
        "#!/bin/sh\n[ \"$1\" = debug ] && exec {real} \"$@\"\ntrap '' INT TERM\n(while IFS= read -r line; do case $line in *turn/start*) exec sleep 86410;; *) printf '%s\\n' \"$line\";; esac; done) | {real} \"$@\"\nsleep 86411",
        real = real.display()
    );
    let place = place.with_executable(place.program(&deaf));
    let mut live = place.open().await;
    let turn = live.next_turn("hello", true);
    let sending = live.session.send(turn.clone());
    let close = live.session.close(Duration::from_secs(1));
    let (sent, ()) = tokio::join!(sending, close);
    assert_eq!(sent.unwrap_err().code(), Code::RuntimeSessionEnded);
    assert_eq!(place.processes(), Vec::<String>::new());
    assert_eq!(live.last_words().await, "the session was closed");
}

async fn a_killed_cli_is_an_ended_session_and_can_be_resumed() {
    let place = Place::new(
        Script::new()
            .on(When::last_user("remember"), Answer::text("noted"))
            .on(When::last_user("again"), Answer::text("welcome back"))
            .otherwise(Answer::text("some words").hang_after(3, "never")),
    )
    .await;
    let mut live = place.open().await;
    live.turn("remember the word heron").await;
    let native = live.facts.native_session_id.clone().unwrap();
    live.send("talk").await;
    kill(live.facts.pid.unwrap());
    let words = live.last_words().await;
    assert!(words.contains("signal 9"), "{words}");
    let more = live.next_turn("more", true);
    let error = live.session.send(more).await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeSessionEnded);
    live.close().await;

    let mut live = place.resume(&native).await.unwrap();
    assert!(live.facts.resumed);
    assert_eq!(live.facts.native_session_id.as_deref(), Some(native.as_str()));
    let (end, _) = live.turn("again").await;
    assert_eq!(end.outcome, succeeded("welcome back"));
    // Limits: what was used before the resume is not counted again.
    assert_eq!((end.usage.input_tokens, end.usage.output_tokens), (Some(12), Some(7)));
    let request = place.server.requests().pop().unwrap();
    assert!(request.texts.iter().any(|text| text.text.contains("heron")), "{request:?}");
    live.close().await;
}

async fn a_closed_session_can_be_resumed_with_its_model() {
    let touch =
        "const ran = await tools.exec_command({cmd: 'touch made; echo tried'}); text(ran.output);";
    let touch = Answer::tool("functions__exec", json!(touch));
    let place = Place::new(
        Script::new()
            .on(When::tool_result("tried"), Answer::text("done"))
            .on(When::last_user("make"), touch)
            .otherwise(Answer::text("ok")),
    )
    .await;
    let model = |name: &str| Some(name.to_owned());
    let mut live = place.open_with(|spec| spec.model = model("gpt-5.6-luna")).await.unwrap();
    live.turn("remember the word heron").await;
    let native = live.facts.native_session_id.clone().unwrap();
    live.close().await;
    let again = native.clone();
    let mut live = place
        .open_with(|spec| {
            spec.resume = Some(again);
            spec.model = model("gpt-5.6-sol");
        })
        .await
        .unwrap();
    // The sandbox and the policy are not remembered: they were sent again.
    let turn = live.send("make").await;
    let request = live.request().await;
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
    assert!(place.home.project().join("made").exists());
    live.close().await;
    let requests = place.server.requests();
    let models: Vec<_> = requests.iter().map(|request| request.model.as_str()).collect();
    assert_eq!(models, ["gpt-5.6-luna", "gpt-5.6-sol", "gpt-5.6-sol"]);
    let resumed = requests.last().unwrap();
    assert!(resumed.texts.iter().any(|text| text.text.contains("heron")));
}

/// Another session keeps the process. A thread that it still had would go on with the credential of before.
async fn a_session_resumed_in_a_process_that_lives_has_its_new_settings() {
    let place = Place::new(
        Script::new()
            .on(When::last_user("call"), Answer::tool("mcp__cortex__list_tasks", json!({})))
            .otherwise(Answer::text("ok")),
    )
    .await;
    let (one, two) = (Endpoint::start("token_one").await, Endpoint::start("token_two").await);
    let access = |endpoint: &Endpoint, token: &str| {
        Some(McpAccess {
            url: endpoint.url.clone(),
            token: Secret::new(token),
            hook_token: Secret::new("cortex_hook_1"),
        })
    };
    let beside = place.other().open().await;
    let mut live = place.open_with(|spec| spec.mcp = access(&one, "token_one")).await.unwrap();
    live.turn("call").await;
    let native = live.facts.native_session_id.clone().unwrap();
    live.close().await;
    for closes in [true, false] {
        let again = native.clone();
        let mut live = place
            .open_with(|spec| {
                spec.resume = Some(again);
                spec.mcp = access(&two, "token_two");
            })
            .await
            .unwrap();
        assert_eq!(live.facts.pid, beside.facts.pid);
        let (end, _) = live.turn("call").await;
        assert_eq!(end.outcome, succeeded("ok"));
        if closes {
            live.close().await;
        }
    }
    let mut live = place.resume(&native).await.unwrap();
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("ok"));
    live.close().await;
    beside.close().await;
    assert_eq!((one.seen("tools/call").len(), two.seen("tools/call").len()), (1, 2));
}

async fn a_session_that_nobody_knows_cannot_be_resumed() {
    let place = Place::new(Script::new()).await;
    for native in ["01a22dd6-f392-7283-9d47-efb50d83ca92", "no id at all"] {
        let error = place.resume(native).await.unwrap_err();
        assert_eq!(error.code(), Code::RuntimeStartFailed);
        assert_eq!(error.detail("resume_unknown"), Some(&json!(true)), "{error}");
    }
    assert_eq!(place.processes(), Vec::<String>::new());
}

async fn the_home_of_the_person_is_left_as_it_was() {
    let place = Place::new(Script::new().otherwise(Answer::text("ok"))).await;
    let config = place.home.codex_home().join("config.toml");
    let before = fs_err::read_to_string(&config).unwrap();
    sh(&format!("git init -q {}", place.home.project().display())).await;
    for trusted in [false, true] {
        let mut live = place.open_with(|spec| spec.trusted = trusted).await.unwrap();
        live.turn("hello").await;
        live.close().await;
    }
    // No repository is trusted by the CLI because an agent worked in it.
    assert_eq!(fs_err::read_to_string(&config).unwrap(), before);
}
