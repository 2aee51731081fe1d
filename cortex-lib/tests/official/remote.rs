//! A client of an official SDK at a public address: OAuth from the first refusal to the end, through a reverse proxy with TLS
//! that is set up as docs/remote-clients.md says.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use cortex_lib::Cortex;
use cortex_lib::api::TOOLS;
use cortex_lib::api::operator::{
    AddProject, AllowConnection, DenyConnection, ListConnections, RevokeConnection,
};
use cortex_lib::mcp::oauth::PublicUrl;
use cortex_lib::mcp::{self, McpServer};
use cortex_lib::secret::Secret;
use cortex_scripted::cli::require;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::command;
use crate::programs::{Node, python};
use crate::suites::CONFORMANCE;

const CLIENT: &str = concat!(include_str!("browser.mjs"), include_str!("oauth.mjs"));
const SUITE: &str = concat!(include_str!("browser.mjs"), include_str!("authorization.mjs"));
const PYTHON: &str = include_str!("oauth.py");
const PAGE: &str = include_str!("../../../docs/remote-clients.md");

/// Where nginx is.
fn nginx() -> Result<PathBuf, String> {
    // Debian has it where only root looks.
    let folders = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin"];
    let mut found = folders.map(|folder| Path::new(folder).join("nginx")).into_iter();
    found.find(|file| file.is_file()).ok_or_else(|| "nginx is not installed".to_owned())
}

/// nginx in a folder of its own. Dropped, it is killed.
struct Proxy {
    program: Child,
    _told: Lines<BufReader<ChildStderr>>,
}

impl Proxy {
    /// Serves `port` with TLS, for the endpoint at `behind`.
    fn start(nginx: &Path, dir: &Path, port: u16, behind: u16) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs_err::write(dir.join("cert.pem"), cert.pem()).unwrap();
        fs_err::write(dir.join("key.pem"), signing_key.serialize_pem()).unwrap();
        let (_, block) = PAGE.split_once("nginx:\n\n```\n").unwrap();
        let (block, _) = block.split_once("```").unwrap();
        let mut server = block.to_owned();
        for (told, here) in [
            ("443", port.to_string()),
            ("cortex.example.com;", "localhost;".to_owned()),
            ("/etc/ssl/cortex.example.com.pem", dir.join("cert.pem").display().to_string()),
            ("/etc/ssl/cortex.example.com.key", dir.join("key.pem").display().to_string()),
            ("127.0.0.1:47821", format!("127.0.0.1:{behind}")),
            ("Host $host;", "Host $host:$server_port;".to_owned()),
        ] {
            assert!(server.contains(told), "{told} is not on the page");
            server = server.replace(told, &here);
        }
        let own = dir.display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {own}/{what};"));
        let config = format!(
            "daemon off; pid {own}/pid; error_log stderr notice; events {{}}\nhttp {{ access_log off; {}\n{server}}}",
            temporary.concat()
        );
        fs_err::write(dir.join("nginx.conf"), config).unwrap();
        let mut nginx = command(nginx);
        nginx.arg("-c").arg(dir.join("nginx.conf")).arg("-p").arg(dir);
        let mut program = nginx.stderr(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(program.stderr.take().unwrap()).lines();
        // By then it listens.
        assert!(told.any(|line| line.unwrap().contains("start worker process")));
        Self { program, _told: told }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Its workers end with it when it is asked to.
        let mut end = command("kill");
        drop(end.arg(self.program.id().to_string()).status());
        drop(self.program.wait());
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A core at a public address.
struct Remote {
    cortex: Cortex,
    server: McpServer,
    url: PublicUrl,
    _proxy: Proxy,
    dir: TempDir,
}

impl Remote {
    async fn open(nginx: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cortex = Cortex::builder(dir.path().join("data")).open().await.unwrap();
        let root = dir.path().to_owned();
        let add = AddProject { name: "p".to_owned(), root, verification: None };
        cortex.as_user().call(add).await.unwrap();
        let port = free_port();
        let url = PublicUrl::parse(&format!("https://localhost:{port}")).unwrap();
        let socket = mcp::bind(0).await.unwrap().public_url(url.clone());
        let server = socket.serve(&cortex, &Secret::new("cortex_user_0"));
        let proxy = Proxy::start(nginx, dir.path(), port, server.port());
        Self { cortex, server, url, _proxy: proxy, dir }
    }

    /// What the person does, if that is wished.
    async fn decide(&self, wish: &Value) {
        let user = self.cortex.as_user();
        if let Some(code) = wish.get("allow").and_then(Value::as_str) {
            user.call(AllowConnection { code: code.to_owned() }).await.unwrap();
            return;
        }
        // Those that are open come first.
        let newest = user.call(ListConnections {}).await.unwrap().connections.into_iter().next();
        let newest = newest.map(|connection| connection.connection_id);
        if wish.get("deny").is_some() {
            user.call(DenyConnection { connection_id: newest.unwrap() }).await.unwrap();
        } else if wish.get("revoke").is_some() {
            user.call(RevokeConnection { connection_id: newest.unwrap() }).await.unwrap();
        }
    }

    async fn close(self) {
        self.server.stop().await;
        self.cortex.shutdown().await.unwrap();
    }
}

fn script(node: &Node, script: &str, arguments: &[&str]) -> Command {
    let mut program = command(&node.program);
    program.args(["--input-type=module", "--eval", script]).args(arguments);
    program.current_dir(&node.folder);
    program
}

/// Runs a script, and does for it what the person does. What it says at last.
fn talk(remote: &Remote, mut program: Command) -> Value {
    program.env("CORTEX_MCP_URL", remote.url.resource());
    for trusted in ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"] {
        program.env(trusted, remote.dir.path().join("cert.pem"));
    }
    program.env("NO_PROXY", "localhost,127.0.0.1").env("no_proxy", "localhost,127.0.0.1");
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut heard = program.stdin.take().unwrap();
    let mut said = Value::Null;
    block_in_place(|| {
        for line in BufReader::new(program.stdout.take().unwrap()).lines() {
            said = serde_json::from_str(&line.unwrap()).unwrap();
            Handle::current().block_on(remote.decide(&said));
            writeln!(heard, "done").unwrap();
        }
        assert!(program.wait().unwrap().success());
    });
    said
}

fn names() -> Vec<&'static str> {
    TOOLS.iter().map(|tool| tool.name).collect()
}

async fn connects(sdk: &str) {
    let (Some(node), Some(nginx)) = (Node::find(), require(nginx())) else { return };
    let remote = Remote::open(&nginx).await;
    let said = talk(&remote, script(&node, CLIENT, &[sdk]));
    let told = json!({ "error": "access_denied", "state": "a state", "iss": remote.url.origin() });
    assert_eq!(
        said,
        json!({
            "refused": ["UnauthorizedError", "UnauthorizedError", null],
            "told": told,
            "audience": remote.url.resource(),
            "tools": names(),
            "good": 1,
            "again": 1,
            "isRenewed": true,
            "theft": "invalid_grant",
            "over": "an end",
        })
    );
    remote.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_typescript_client_connects_from_elsewhere() {
    connects("@modelcontextprotocol/sdk").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_typescript_client_connects_from_elsewhere() {
    connects("@modelcontextprotocol/client").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_connects_from_elsewhere() {
    let (Some(python), Some(nginx)) = (python(), require(nginx())) else { return };
    let remote = Remote::open(&nginx).await;
    let mut client = command(python);
    client.args(["-c", PYTHON]);
    let nothing = ["No authorization code received"];
    assert_eq!(
        talk(&remote, client),
        json!({
            "denied": ["access_denied", nothing],
            "audience": remote.url.resource(),
            "scope": "mcp",
            "used": { "tools": names(), "projects": 1 },
            "again": true,
            "renewed": [true, true],
            "ended": ["access_denied", nothing],
        })
    );
    remote.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authorization_server_conforms() {
    let (Some(node), Some(nginx)) = (Node::find(), require(nginx())) else { return };
    let remote = Remote::open(&nginx).await;
    let (suite, port) = (node.file(CONFORMANCE), free_port().to_string());
    let arguments = [&remote.url.origin(), suite.to_str().unwrap(), &port];
    let said = talk(&remote, script(&node, SUITE, &arguments));
    let report = said["said"].as_str().unwrap();
    assert_eq!(said["code"], 0, "{report}");
    assert!(report.contains("Total: 3 passed, 0 failed"), "{report}");
    remote.close().await;
}
