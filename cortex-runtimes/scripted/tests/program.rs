//! The program `cortex-scripted`, as a person starts it.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// The program with a script, and what it prints.
struct Served {
    program: Child,
    lines: BufReader<ChildStdout>,
    url: String,
    _folder: tempfile::TempDir,
}

impl Served {
    fn new(api: &str, script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script.json");
        fs_err::write(&file, script).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_cortex-scripted"))
            .args(["--api", api])
            .arg(file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(program.stdout.take().unwrap());
        let mut served = Self { program, lines, url: String::new(), _folder: folder };
        served.url = served.line();
        served
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&self, method: &str, target: &str, body: &Value) -> String {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let body = body.to_string();
        let (length, close) = (body.len(), "connection: close");
        let host = if target.starts_with('/') { address } else { "other.example" };
        write!(
            stream,
            "{method} {target} HTTP/1.1\r\nhost: {host}\r\n{close}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
    }
}

fn example() -> String {
    let out =
        Command::new(env!("CARGO_BIN_EXE_cortex-scripted")).arg("--example").output().unwrap();
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn each_request_is_told_with_the_rule_that_answered() {
    let mut served = Served::new("chat", &example());
    let says = |text: &str| json!({"model": "m", "messages": [{"role": "user", "content": text}]});
    let answer = served.ask("POST", "/v1/chat/completions", &says("take a note: buy tea."));
    assert!(answer.contains("echo 'buy tea' >> notes.txt"), "{answer}");
    assert_eq!(served.line(), r#"m "take a note: buy tea.", 0 tool results -> rules[0]"#);
    served.ask("POST", "/v1/chat/completions", &says("hello"));
    assert_eq!(served.line(), r#"m "hello", 0 tool results -> otherwise"#);
    served.ask("GET", "/v1/models", &Value::Null);
    assert_eq!(served.line(), "GET /v1/models -> not scripted");
    served.ask("GET", "http://other.example/", &Value::Null);
    assert_eq!(served.line(), "GET http://other.example/ -> another host, refused");
}

#[test]
fn a_request_without_a_rule_is_told_too() {
    let mut served = Served::new("anthropic", r#"{"rules": []}"#);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]});
    assert!(served.ask("POST", "/v1/messages", &body).starts_with("HTTP/1.1 400"));
    assert_eq!(served.line(), r#"m "hello", 0 tool results -> no rule fits"#);
}

#[test]
fn a_file_that_is_no_script_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.json");
    fs_err::write(&file, r#"{"rules": [{"wen": {}}]}"#).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_cortex-scripted")).arg(&file).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success());
    assert!(said.contains("script.json is no script") && said.contains("`wen`"), "{said}");
}
