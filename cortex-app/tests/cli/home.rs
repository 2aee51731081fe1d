//! A data directory with the program to use on it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::wait::wait_for;

/// A home that goes away with the test.
pub struct Home {
    dir: TempDir,
}

/// What a run of the program came to.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// What it printed, as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The run, if it ended well.
    pub fn good(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}

impl Home {
    /// A home with a port of its own and the program `cat` as an agent.
    pub fn new() -> Self {
        let home = Self { dir: TempDir::new().unwrap() };
        fs::create_dir(home.data_dir()).unwrap();
        home.configure(&json!({
            "mcp": { "port": 0 },
            "runtimes": {
                "commands": { "cat": { "argv": ["cat"] } },
                "claude_code": { "executable": "/nowhere/claude" },
                "codex": { "executable": "/nowhere/codex" },
            },
        }));
        home
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn data_dir(&self) -> PathBuf {
        self.path().join("data")
    }

    pub fn configure(&self, config: &Value) {
        fs::write(self.data_dir().join("config.json"), config.to_string()).unwrap();
    }

    /// A folder that can be a project.
    pub fn folder(&self, name: &str) -> String {
        let folder = self.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder.to_str().unwrap().to_owned()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cortex"));
        command.args(args).env("CORTEX_DATA_DIR", self.data_dir()).env("HOME", self.path());
        command
    }

    /// Runs the program to its end.
    pub fn cortex(&self, args: &[&str]) -> Ran {
        run(&mut self.command(args))
    }

    /// Runs the program with `input`.
    pub fn cortex_with(&self, args: &[&str], input: &str) -> Ran {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        ran(child.wait_with_output().unwrap())
    }

    /// A project `web` whose results hold when `true` says so, with an agent `ada` that says back what it is told.
    pub fn team(&self) {
        self.cortex(&["project", "add", "web", &self.folder("web")]).good();
        self.cortex(&["project", "set-verification", "web", "--", "true"]).good();
        self.agent("ada");
    }

    /// One more agent in the project `web`.
    pub fn agent(&self, name: &str) {
        let create = ["agent", "create", name, "--project", "web", "--runtime", "command:cat"];
        self.cortex(&create).good();
    }

    /// An objective of one task in the project `web`; its id.
    pub fn objective(&self, title: &str, key: &str) -> String {
        self.create(title, &json!({ "key": key, "description": "Say it." }))
    }

    /// The same, of a task `tea` that has these fields, too.
    pub fn objective_of(&self, title: &str, more: &Value) -> String {
        let mut task = json!({ "key": "tea", "description": "Make tea." });
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.create(title, &task)
    }

    fn create(&self, title: &str, task: &Value) -> String {
        let projects = self.cortex(&["project", "list", "--json"]).good().json();
        let create = json!({
            "project_id": projects["projects"][0]["project_id"],
            "title": title,
            "tasks": [task],
        });
        let created = self.cortex_with(&["call", "create_objective", "-"], &create.to_string());
        created.good().json()["objective"]["objective_id"].as_str().unwrap().to_owned()
    }

    /// How the program is called again on this home.
    pub fn hint(&self, words: &str) -> String {
        format!("cortex --data-dir {} {words}", self.data_dir().display())
    }

    /// Starts `cortex serve` and waits until it says that it runs.
    pub fn serve(&self) -> Serving {
        serve(&mut self.command(&["serve", "--json"]))
    }
}

/// Starts a `cortex serve --json` and waits until it says that it runs.
pub fn serve(command: &mut Command) -> Serving {
    let mut lines = Lines::of(command);
    let facts = lines.line();
    Serving { lines, facts }
}

pub fn run(command: &mut Command) -> Ran {
    ran(command.stdin(Stdio::null()).output().unwrap())
}

fn ran(output: std::process::Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A program that prints lines of JSON. Dropped, it is killed.
pub struct Lines {
    child: Child,
    out: Option<BufReader<ChildStdout>>,
}

impl Lines {
    pub fn of(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out: Some(out) }
    }

    /// Waits for its next line.
    pub fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.as_mut().unwrap().read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Reads no more of it.
    pub fn leave(&mut self) {
        self.out = None;
    }

    /// Waits for its end; its exit code.
    pub fn ended(&mut self) -> Option<i32> {
        wait_for("the end of the program", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A `cortex serve` that runs.
pub struct Serving {
    lines: Lines,
    pub facts: Value,
}

impl Serving {
    pub fn pid(&self) -> u32 {
        self.lines.child.id()
    }

    /// Sends it a signal by name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(name).arg(self.pid().to_string()).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end; its exit code.
    pub fn ended(&mut self) -> Option<i32> {
        self.lines.ended()
    }

    /// The status with which the endpoint answers a request with `token`.
    pub fn answers(&self, token: &str) -> u16 {
        let url = self.facts["mcp"]["url"].as_str().unwrap();
        let host = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }
}
