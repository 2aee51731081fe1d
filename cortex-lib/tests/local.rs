//! A core and those who reach it by its local socket.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::api::operator::{AddProject, CoreStatus};
use cortex_lib::api::tool::{ListAgents, ListProjects};
use cortex_lib::error::Code;
use cortex_lib::ids::{ProjectId, RuntimeId};
use cortex_lib::limits::LOCAL_LOOK_EVERY;
use cortex_lib::local::{self, Client};
use cortex_lib::port::{Script, ScriptedRuntime, ScriptedWorld};
use cortex_lib::store::DataDir;
use cortex_lib::{Cortex, Settings, limits};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// Where the core keeps what it has.
fn data(dir: &TempDir) -> PathBuf {
    dir.path().join("data")
}

async fn open(dir: &TempDir) -> Cortex {
    Cortex::builder(data(dir)).open().await.unwrap()
}

async fn connect(dir: &TempDir) -> Client {
    Client::connect(&data(dir)).await.unwrap().unwrap()
}

fn add(dir: &TempDir, name: &str) -> AddProject {
    let root = dir.path().join(name);
    fs_err::create_dir_all(&root).unwrap();
    AddProject { name: name.to_owned(), root, verification: None }
}

/// A requester that writes its lines itself.
struct Raw {
    answers: Lines<BufReader<OwnedReadHalf>>,
    requests: Option<OwnedWriteHalf>,
}

impl Raw {
    async fn connect(dir: &TempDir) -> Self {
        let stream = UnixStream::connect(DataDir::socket_path_of(&data(dir))).await.unwrap();
        let (answers, requests) = stream.into_split();
        Self { answers: BufReader::new(answers).lines(), requests: Some(requests) }
    }

    async fn say(&mut self, line: &str) {
        let requests = self.requests.as_mut().unwrap();
        requests.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Option<Value> {
        let line = self.answers.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }
}

#[tokio::test]
async fn nobody_is_there_until_a_core_serves() {
    let dir = TempDir::new().unwrap();
    assert!(Client::connect(&data(&dir)).await.unwrap().is_none());
    let cortex = open(&dir).await;
    assert!(Client::connect(&data(&dir)).await.unwrap().is_none());
    let server = local::serve(&cortex).unwrap();
    let client = connect(&dir).await;
    server.stop().await;
    assert!(Client::connect(&data(&dir)).await.unwrap().is_none());
    let error = client.call(CoreStatus {}).await.unwrap_err();
    assert_eq!(error.code(), Code::CoreStopped);
    cortex.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_relative_path_is_refused() {
    let error = Client::connect(Path::new("data")).await.unwrap_err();
    assert_eq!(error.code(), Code::DataDirNotAbsolute);
}

/// S-132.
#[tokio::test]
async fn a_call_there_is_a_call_here() {
    let dir = TempDir::new().unwrap();
    let cortex = open(&dir).await;
    let _server = local::serve(&cortex).unwrap();
    let client = connect(&dir).await;
    let added = client.call(add(&dir, "web")).await.unwrap();
    let listed = cortex.as_user().call(ListProjects {}).await.unwrap();
    assert_eq!(listed.projects, [added.project]);
    assert_eq!(client.call(ListProjects {}).await.unwrap(), listed);
    let json = client.call_json("list_projects", Value::Null).await.unwrap();
    assert_eq!(json, serde_json::to_value(&listed).unwrap());
    cortex.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_error_arrives_whole() {
    let dir = TempDir::new().unwrap();
    let cortex = open(&dir).await;
    let _server = local::serve(&cortex).unwrap();
    let client = connect(&dir).await;
    let agents = ListAgents { project_id: Some(ProjectId::new("none")) };
    let error = client.call(agents.clone()).await.unwrap_err();
    assert_eq!(error.code(), Code::ProjectNotFound);
    assert_eq!(error.remediation(), Code::ProjectNotFound.remedy());
    assert!(error.correlation_id().is_some());
    let error = client.call_json("list_agents", json!({ "x": 1 })).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArguments);
    assert_eq!(error.problems().first().unwrap().path, "x");
    cortex.shutdown().await.unwrap();
}

#[tokio::test]
async fn events_come_from_the_log_and_then_live_until_the_end() {
    let dir = TempDir::new().unwrap();
    let cortex = open(&dir).await;
    let server = local::serve(&cortex).unwrap();
    let client = connect(&dir).await;
    let newest = cortex.newest_event().unwrap();
    client.call(add(&dir, "before")).await.unwrap();
    let mut events = client.events(Some(newest)).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().seq, newest + 1);
    client.call(add(&dir, "after")).await.unwrap();
    let live = events.next().await.unwrap().unwrap();
    assert_eq!((live.seq, live.kind.as_str()), (newest + 2, "project.created"));
    server.stop().await;
    assert_eq!(events.next().await.unwrap(), None);
    cortex.shutdown().await.unwrap();
}

#[tokio::test]
async fn streams_end_with_the_core() {
    let dir = TempDir::new().unwrap();
    let cortex = open(&dir).await;
    let _server = local::serve(&cortex).unwrap();
    let client = connect(&dir).await;
    let mut events = client.events(cortex.newest_event().ok()).await.unwrap();
    let mut output = client.output().await.unwrap();
    cortex.shutdown().await.unwrap();
    while events.next().await.unwrap().is_some() {}
    assert_eq!(output.next().await, None);
    assert!(Client::connect(&data(&dir)).await.unwrap().is_none());
}

#[tokio::test]
async fn requests_of_one_connection_do_not_wait_for_each_other() {
    let dir = TempDir::new().unwrap();
    let cortex = open(&dir).await;
    let _server = local::serve(&cortex).unwrap();
    let mut raw = Raw::connect(&dir).await;
    let newest = cortex.newest_event().unwrap();
    raw.say(&format!(r#"{{"id":1,"follow":{{"after":{newest}}}}}"#)).await;
    assert_eq!(raw.hear().await, Some(json!({ "id": 1, "ok": {} })));
    let wait = json!({ "id": 2, "call": "poll_agent_events", "args": { "after": newest, "wait_ms": 30_000 } });
    raw.say(&wait.to_string()).await;
    raw.say(r#"{"id":3,"call":"list_projects"}"#).await;
    assert_eq!(raw.hear().await, Some(json!({ "id": 3, "ok": { "projects": [] } })));
    cortex.as_user().call(add(&dir, "web")).await.unwrap();
    let event = raw.hear().await.unwrap();
    assert_eq!((&event["id"], &event["event"]["type"]), (&json!(1), &json!("project.created")));
    cortex.shutdown().await.unwrap();
}

#[tokio::test]
async fn who_ends_its_side_is_still_answered() {
    let dir = TempDir::new().unwrap();
    let cortex = open(&dir).await;
    let _server = local::serve(&cortex).unwrap();
    let mut raw = Raw::connect(&dir).await;
    raw.say(r#"{"id":1,"follow":{}}"#).await;
    raw.say(r#"{"id":2,"call":"core_status","args":{}}"#).await;
    raw.requests = None;
    let mut said = Vec::new();
    while let Some(answer) = raw.hear().await {
        let kind = ["ok", "event", "end"].into_iter().find(|kind| answer.get(kind).is_some());
        said.push((answer["id"].as_u64().unwrap(), kind.unwrap()));
    }
    assert!(said.contains(&(2, "ok")), "{said:?}");
    assert!(said.contains(&(1, "end")), "{said:?}");
    cortex.shutdown().await.unwrap();
}

/// A core whose planner never answers, with a project.
async fn thinking(dir: &TempDir) -> (Cortex, ScriptedWorld, Value) {
    let planner = ScriptedRuntime::new("scripted").turn(|_| Script::new());
    let world = planner.world().clone();
    let mut settings = Settings::default();
    settings.planner.runtime_id = RuntimeId::new("scripted");
    let builder = Cortex::builder(data(dir)).settings(settings).runtime(Arc::new(planner));
    let cortex = builder.open().await.unwrap();
    let project = cortex.as_user().call(add(dir, "web")).await.unwrap().project.project_id;
    let args = json!({ "project_id": project, "goal": "Think." });
    (cortex, world, json!({ "id": 1, "call": "propose_objective", "args": args }))
}

async fn until(condition: impl Fn() -> bool) {
    let waits = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waits).await.unwrap();
}

/// S-099: a person who stops waiting for a plan, with Ctrl-C or by closing the terminal.
#[tokio::test]
async fn a_client_that_goes_away_ends_the_planner() {
    let dir = TempDir::new().unwrap();
    let (cortex, world, propose) = thinking(&dir).await;
    let _server = local::serve(&cortex).unwrap();
    let mut raw = Raw::connect(&dir).await;
    raw.say(&propose.to_string()).await;
    until(|| world.turns().len() == 1).await;
    drop(raw);
    until(|| world.processes().is_empty()).await;
    cortex.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_client_that_has_said_all_still_waits_for_its_planner() {
    let dir = TempDir::new().unwrap();
    let (cortex, world, propose) = thinking(&dir).await;
    let _server = local::serve(&cortex).unwrap();
    let mut raw = Raw::connect(&dir).await;
    raw.say(&propose.to_string()).await;
    raw.requests = None;
    until(|| world.turns().len() == 1).await;
    // Longer than it takes to look for the client.
    let ends = until(|| world.processes().is_empty());
    assert!(tokio::time::timeout(LOCAL_LOOK_EVERY * 3, ends).await.is_err());
    cortex.shutdown().await.unwrap();
    let answer = raw.hear().await.unwrap();
    assert_eq!(answer["error"]["code"], "core.not_ready");
}

#[tokio::test]
async fn a_line_that_is_no_request_is_refused_and_the_next_one_works() {
    let dir = TempDir::new().unwrap();
    let cortex = open(&dir).await;
    let _server = local::serve(&cortex).unwrap();
    let mut raw = Raw::connect(&dir).await;
    let long = "x".repeat(limits::LOCAL_REQUEST_BYTES_MAX + 1);
    for line in ["{", r#"{"id":1,"sing":true}"#, &long] {
        raw.say(line).await;
        let answer = raw.hear().await.unwrap();
        assert_eq!(answer["id"], Value::Null);
        assert_eq!(answer["error"]["code"], "validation.invalid_arguments");
    }
    raw.say(r#"{"id":1}"#).await;
    let answer = raw.hear().await.unwrap();
    assert_eq!((&answer["id"], &answer["error"]["kind"]), (&json!(1), &json!("invalid_argument")));
    raw.say(r#"{"id":2,"call":"list_projects"}"#).await;
    assert_eq!(raw.hear().await, Some(json!({ "id": 2, "ok": { "projects": [] } })));
    cortex.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_a_dead_core_left_is_replaced() {
    let dir = TempDir::new().unwrap();
    fs_err::create_dir(data(&dir)).unwrap();
    let socket = DataDir::socket_path_of(&data(&dir));
    // Bound and gone without a word: what `kill -9` leaves.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    assert!(Client::connect(&data(&dir)).await.unwrap().is_none());
    let cortex = open(&dir).await;
    let _server = local::serve(&cortex).unwrap();
    connect(&dir).await.call(CoreStatus {}).await.unwrap();
    cortex.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_reader_that_does_not_read_does_not_keep_the_core() {
    let dir = TempDir::new().unwrap();
    let cortex = open(&dir).await;
    let server = local::serve(&cortex).unwrap();
    let mut raw = Raw::connect(&dir).await;
    // More answers than fit into the socket and the queue.
    for id in 0..u64::try_from(limits::LOCAL_REQUESTS_MAX + limits::LOCAL_ANSWERS_MAX).unwrap() * 20
    {
        let call = format!(r#"{{"id":{id},"call":"{}"}}"#, "x".repeat(1000));
        let line = format!("{call}\n");
        let mut write = std::pin::pin!(raw.requests.as_mut().unwrap().write_all(line.as_bytes()));
        // Once the core takes no more, the pipe is full: that is what this test is about.
        let taken = tokio::time::timeout(std::time::Duration::from_millis(200), &mut write).await;
        if taken.is_err() {
            break;
        }
    }
    server.stop().await;
    cortex.shutdown().await.unwrap();
}
