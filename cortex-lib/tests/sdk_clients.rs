//! The official clients of the protocol read the endpoint as it is meant.
//!
//! They are fetched on first use, in the versions that `tests/clients` pins. Without Node.js or Python these
//! tests are skipped, loudly; with `CORTEX_REQUIRE_CLIS=1` they fail.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::path::{Path, PathBuf};
use std::process::Command;

use cortex_lib::Cortex;
use cortex_lib::api::TOOLS;
use cortex_lib::mcp::{self, McpOptions, UserToken};
use cortex_scripted::cli::require;
use cortex_scripted::first_use::{self, NpmPackages};
use serde_json::{Value, json};

const REQUIREMENTS: &str = include_str!("clients/requirements.txt");
const PYTHON_CLIENT: &str = include_str!("clients/client.py");
const NODE_CLIENT: &str = include_str!("clients/client.mjs");
const NODE_PACKAGES: NpmPackages<'static> = NpmPackages {
    package: include_str!("clients/package.json"),
    lock: include_str!("clients/package-lock.json"),
    npmrc: include_str!("clients/.npmrc"),
};

#[expect(clippy::disallowed_methods, reason = "a test runs a client, which ends by itself")]
fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

/// The Python of a virtual environment that has the client.
fn python_client() -> Result<PathBuf, String> {
    let inside = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };
    let base = if cfg!(windows) { "python" } else { "python3" };
    let fill = |folder: &Path| {
        fs_err::write(folder.join("requirements.txt"), REQUIREMENTS)?;
        first_use::run(command(base).args(["-m", "venv", "."]).current_dir(folder))?;
        let install = ["-m", "pip", "install", "--quiet", "--no-input", "--no-deps"];
        let mut pip = command(folder.join(inside));
        pip.args(install).args(["--disable-pip-version-check", "-r", "requirements.txt"]);
        first_use::run(pip.current_dir(folder))
    };
    Ok(first_use::folder("clients", REQUIREMENTS, fill)?.join(inside))
}

/// A folder that has the client among its modules.
fn node_client() -> Result<PathBuf, String> {
    first_use::run(command("node").arg("--version")).map_err(|error| error.to_string())?;
    first_use::folder("clients", NODE_PACKAGES.lock, |folder| NODE_PACKAGES.install(folder))
}

/// What a client says about the endpoint of a fresh core.
async fn talk(mut client: Command) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let cortex = Cortex::builder(dir.path().join("data")).open().await.unwrap();
    let place = UserToken::of(cortex.data_dir());
    let token = place.load_or_create(&**cortex.core().env()).unwrap();
    let options = McpOptions { port: 0, token: token.clone() };
    let server = mcp::serve(&cortex, options).await.unwrap();
    client.env("CORTEX_MCP_URL", server.url()).env("CORTEX_MCP_TOKEN", token.expose());
    // Nothing between it and the endpoint.
    client.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    let ran = tokio::task::block_in_place(|| client.output()).unwrap();
    server.stop().await;
    cortex.shutdown().await.unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// What both clients must find.
fn expected() -> Value {
    json!({
        "server": "cortex",
        "tools": TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>(),
        "good": { "projects": [] },
        "bad": [true, "agent.not_found"],
        "unknown": -32602,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_lists_and_calls_the_tools() {
    let Some(python) = require(python_client()) else { return };
    let mut client = command(python);
    client.args(["-c", PYTHON_CLIENT]);
    assert_eq!(talk(client).await, expected());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_client_lists_and_calls_the_tools() {
    let Some(folder) = require(node_client()) else { return };
    let mut client = command("node");
    client.args(["--input-type=module", "--eval", NODE_CLIENT]).current_dir(folder);
    assert_eq!(talk(client).await, expected());
}
