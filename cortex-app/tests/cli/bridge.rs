//! `cortex mcp`: a client that starts its server as a program.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::home::{Home, run};
use crate::wait::wait_for;

/// A `cortex mcp` that runs. Dropped, it is killed.
struct Bridge {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Bridge {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().map(BufReader::new);
        Self { input: child.stdin.take(), child, output }
    }

    fn of(home: &Home) -> Self {
        Self::start(&mut home.command(&["mcp"]))
    }

    fn embedded(home: &Home) -> Self {
        Self::start(&mut home.command(&["mcp", "--embedded"]))
    }

    fn say(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits for the next line.
    fn line(&mut self) -> Value {
        let mut output = self.output.take().unwrap();
        let (line, output) = soon("line of the bridge", move || {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            (line, output)
        });
        self.output = Some(output);
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn ask(&mut self, id: u32, method: &str, params: &Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.say(&message.to_string());
        let answer = self.line();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// What a tool answers, as programs read it.
    fn call(&mut self, tool: &str, args: &Value) -> Value {
        let answer = self.ask(1, "tools/call", &json!({ "name": tool, "arguments": args }));
        answer["result"]["structuredContent"].clone()
    }

    fn initialize(&mut self) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let hello =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let answer = self.ask(0, "initialize", &hello);
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        answer
    }

    /// The process whose core it reaches.
    fn core(&mut self, home: &Home) -> u64 {
        assert!(self.call("list_projects", &json!({})).is_object());
        home.cortex(&["call", "core_status"]).good().json()["pid"].as_u64().unwrap()
    }

    /// Closes its input, and waits for its end; its exit code.
    fn leave(&mut self) -> Option<i32> {
        self.input = None;
        wait_for("the end of the bridge", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Does what may never come back, but does not wait for ever.
fn soon<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(work()));
    wait_for(what, || told.try_recv().ok())
}

#[test]
fn a_client_speaks_with_the_core_that_runs() {
    let home = Home::new();
    let _serving = home.serve();
    home.cortex(&["project", "add", "web", &home.folder("web")]).good();
    let mut bridge = Bridge::of(&home);
    let hello = bridge.initialize();
    assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
    let tools = bridge.ask(2, "tools/list", &json!({}));
    let listed = bridge.call("list_projects", &json!({}));
    assert_eq!(listed["projects"][0]["name"], "web");
    assert!(tools["result"]["tools"].as_array().unwrap().len() > 20);
    let failed =
        bridge.ask(3, "tools/call", &json!({ "name": "list_tasks", "arguments": { "x": 1 } }));
    assert_eq!(failed["result"]["isError"], true);
    assert_eq!(
        failed["result"]["structuredContent"]["error"]["code"],
        "validation.invalid_arguments"
    );
    assert_eq!(bridge.ask(4, "nope", &json!({}))["error"]["code"], -32_601);

    // Each message of the newest version stands for itself.
    let of = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = json!({ "name": "list_projects", "arguments": {}, "_meta": of });
    let answer = bridge.ask(5, "tools/call", &call);
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert_eq!(bridge.leave(), Some(0));
}

#[test]
fn what_is_no_message_is_answered_too() {
    let home = Home::new();
    let _serving = home.serve();
    let mut bridge = Bridge::of(&home);
    for (line, code, said) in [
        ("nope", -32_700, "no JSON"),
        (r#"{"jsonrpc":"2.0","#, -32_700, "no JSON"),
        ("[]", -32_600, "batches"),
        ("7", -32_600, "not a JSON object"),
        (r#"{"id":1,"method":"ping"}"#, -32_600, "`jsonrpc`"),
    ] {
        bridge.say(line);
        let error = bridge.line();
        assert_eq!(error["error"]["code"], code, "{line}: {error}");
        assert!(error["error"]["message"].as_str().unwrap().contains(said), "{line}: {error}");
    }
    let most = 1024 * 1024;
    bridge.say(&"x".repeat(most + 1));
    assert_eq!(bridge.line()["error"]["code"], -32_600);
    bridge.say("");
    bridge.say(r#"{"jsonrpc":"2.0","method":"notifications/nobody_knows"}"#);
    assert_eq!(bridge.ask(1, "ping", &json!({}))["result"], json!({}));
}

#[test]
fn a_core_may_come_and_go() {
    let home = Home::new();
    let mut bridge = Bridge::of(&home);
    let alone = bridge.ask(0, "ping", &json!({}));
    assert_eq!(alone["error"]["data"]["code"], "core.stopped");
    for next in [home.hint("serve"), home.hint("mcp --embedded")] {
        assert!(alone["error"]["message"].as_str().unwrap().contains(&next), "{alone}");
    }
    for _ in 0..2 {
        let mut serving = home.serve();
        bridge.initialize();
        assert_eq!(bridge.core(&home), u64::from(serving.pid()));
        home.cortex(&["token", "rotate"]).good();
        assert_eq!(bridge.ask(1, "ping", &json!({}))["result"], json!({}));
        serving.signal("-KILL");
        serving.ended();
        assert!(bridge.ask(2, "ping", &json!({}))["error"].is_object());
    }
    assert_eq!(bridge.leave(), Some(0));
}

#[test]
fn a_core_that_serves_no_mcp_says_so() {
    let home = Home::new();
    home.configure(&json!({ "mcp": { "enabled": false } }));
    let _serving = home.serve();
    let refused = Bridge::of(&home).ask(1, "ping", &json!({}));
    assert_eq!(refused["error"]["data"]["code"], "mcp.disabled");
}

#[test]
fn clients_with_a_core_of_their_own_share_it() {
    let home = Home::new();
    let (mut first, mut second) = (Bridge::embedded(&home), Bridge::embedded(&home));
    first.initialize();
    second.initialize();
    let core = first.core(&home);
    assert_eq!(core, u64::from(first.child.id()));
    assert_eq!(second.core(&home), core);
    assert_eq!(first.leave(), Some(0));
    // The other one goes on with its own.
    assert_eq!(second.core(&home), u64::from(second.child.id()));
    let id = second.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let ended = wait_for("the end of the bridge", || second.child.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
    assert!(!home.data_dir().join("cortex.sock").exists(), "the core was stopped in order");
}

#[test]
fn what_was_asked_before_the_end_of_the_input_is_answered() {
    let home = Home::new();
    let ask = |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let input = (0..100).map(ask).collect::<Vec<_>>().join("\n");
    let ran = home.cortex_with(&["mcp", "--embedded"], &input).good();
    assert_eq!(ran.out.lines().count(), 100);
    let ids =
        ran.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64());
    let mut ids: Vec<_> = ids.map(Option::unwrap).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..100).collect::<Vec<_>>());
}

/// An endpoint that a test plays, and a bridge that takes it for that of its session.
struct Played {
    socket: TcpListener,
    bridge: Bridge,
}

impl Played {
    fn start() -> Self {
        let home = Home::new();
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", socket.local_addr().unwrap());
        let mut command = home.command(&["mcp"]);
        command.env("CORTEX_MCP_URL", url).env("CORTEX_MCP_TOKEN", "cortex_session_x");
        Self { socket, bridge: Bridge::start(&mut command) }
    }

    /// The next request, and where its answer goes.
    fn request(&self) -> (String, TcpStream) {
        let socket = self.socket.try_clone().unwrap();
        soon("request of the bridge", move || {
            let (stream, _) = socket.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
            }
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            (head + &String::from_utf8(body).unwrap(), stream)
        })
    }

    /// What the next request says of its message in its head. It is answered with `answer`.
    fn told_of(&mut self, message: &Value, answer: &str) -> Vec<String> {
        self.bridge.say(&message.to_string());
        let (request, mut stream) = self.request();
        stream.write_all(as_response(answer).as_bytes()).unwrap();
        assert!(self.bridge.line()["result"].is_object());
        let told = request.lines().filter(|line| line.starts_with("mcp-"));
        let mut told: Vec<_> = told.map(ToOwned::to_owned).collect();
        told.sort();
        told
    }
}

fn as_response(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"start_agent"}}"#;
const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

#[test]
fn a_session_of_an_agent_is_reached_with_its_own_credential() {
    let mut played = Played::start();
    played.bridge.say(CALL);
    let (request, mut answer) = played.request();
    assert!(request.contains("\r\nauthorization: Bearer cortex_session_x\r\n"), "{request}");
    assert!(request.ends_with(CALL), "{request}");
    // Line ends within an answer would be ends of lines.
    let body = "{\"jsonrpc\":\"2.0\",\r\n \"id\":\"a\",\n \"result\":{}}";
    answer.write_all(as_response(body).as_bytes()).unwrap();
    assert_eq!(played.bridge.line(), json!({ "jsonrpc": "2.0", "id": "a", "result": {} }));
    assert_eq!(played.bridge.leave(), Some(0));

    let home = Home::new();
    let half = run(home.command(&["mcp"]).env("CORTEX_MCP_URL", "http://127.0.0.1:9/mcp"));
    assert_eq!(half.code, 2);
    assert!(half.err.contains("CORTEX_MCP_TOKEN"), "{}", half.err);
}

#[test]
fn a_request_says_of_which_version_its_message_is() {
    let mut played = Played::start();
    let done = json!({ "jsonrpc": "2.0", "id": 1, "result": {} }).to_string();
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(played.told_of(&ping, &done), <[&str; 0]>::default());

    let mut hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize" });
    hello["params"] = json!({ "protocolVersion": "2025-11-25" });
    let settled = done.replace("{}", r#"{"protocolVersion":"2025-06-18"}"#);
    for _ in 0..2 {
        assert_eq!(played.told_of(&hello, &settled), <[&str; 0]>::default());
        assert_eq!(played.told_of(&ping, &done), ["mcp-protocol-version: 2025-06-18"]);
    }

    let mut call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call" });
    let of = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
    call["params"] = json!({ "name": "list_tasks", "_meta": of });
    let told =
        ["mcp-method: tools/call", "mcp-name: list_tasks", "mcp-protocol-version: 2026-07-28"];
    assert_eq!(played.told_of(&call, &done), told);
}

#[test]
fn a_client_hears_how_a_long_call_goes() {
    let mut played = Played::start();
    played.bridge.say(CALL);
    let (_, mut answer) = played.request();
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {} });
    let done = json!({ "jsonrpc": "2.0", "id": "a", "result": {} });
    write!(answer, "{STREAM}: hello\n\ndata: {told}\n\n").unwrap();
    assert_eq!(played.bridge.line(), told);
    write!(answer, "data: {done}\n\n").unwrap();
    assert_eq!(played.bridge.line(), done);
}

#[test]
fn an_answer_that_breaks_off_is_not_asked_for_again() {
    let mut played = Played::start();
    for said in ["", STREAM] {
        played.bridge.say(CALL);
        let (_, mut answer) = played.request();
        answer.write_all(said.as_bytes()).unwrap();
        drop(answer);
        let failed = played.bridge.line();
        assert_eq!((&failed["id"], &failed["error"]["code"]), (&json!("a"), &json!(-32_000)));
        let message = failed["error"]["message"].as_str().unwrap();
        assert!(message.contains("may have been done"), "{message}");
    }
}

#[test]
fn a_call_that_is_given_up_ends_and_is_not_answered() {
    let mut played = Played::start();
    played.bridge.say(CALL);
    let (_, mut call) = played.request();
    played
        .bridge
        .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#);
    let read = soon("end of the connection", move || call.read(&mut [0]).unwrap());
    assert_eq!(read, 0, "the connection is closed");
    assert_eq!(played.bridge.leave(), Some(0));
    let mut rest = String::new();
    played.bridge.output.as_mut().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

/// A client that was killed closes both, and its last call may wait for minutes.
#[test]
fn a_client_that_is_gone_ends_the_bridge() {
    let mut played = Played::start();
    played.bridge.say(CALL);
    let (_, _call) = played.request();
    played.bridge.input = None;
    drop(played.bridge.output.take());
    let ended = wait_for("the end of the bridge", || played.bridge.child.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
}
