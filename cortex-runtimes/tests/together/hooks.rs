//! Hooks that a CLI runs: they reach the core by a credential of their own, which only reads.

use cortex_lib::Code;
use cortex_lib::api::operator::{AddProject, UpdateProject};
use cortex_lib::api::tool::{CreateAgent, StartAgent};
use cortex_lib::domain::event::EventKind;
use cortex_scripted::Script;
use serde_json::{Value, json};

use crate::place::{Place, say};

/// Keeps what the core answers to the holder of the credential.
const HOOK: &str = r#"
import json, os, sys, urllib.error, urllib.request

url, token = os.environ["CORTEX_MCP_URL"], os.environ["CORTEX_HOOK_TOKEN"]

def call(tool, arguments):
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    try:
        answer = urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        answer = error
    said = json.loads(answer.read())
    return said["result"]["structuredContent"] if "result" in said else said

project = call("list_projects", {})["projects"][0]["project_id"]
told = {
    "projects": call("list_projects", {}),
    "agent": call("create_agent", {"project_id": project, "name": "x", "runtime_id": "codex"}),
    "inbox": call("read_messages", {}),
    "url": url,
    "token": token,
}
with open("told.json", "w") as file:
    json.dump(told, file)
"#;

/// S-239, H-07.
pub async fn a_hook_reads_with_its_own_credential_and_changes_nothing() {
    let place = Place::new([Script::new(), Script::new(), Script::new()]).await;
    let (root, (cortex, endpoint)) = (place.root(), place.open(Vec::new()).await);
    fs_err::create_dir(root.join(".claude")).unwrap();
    fs_err::write(root.join("hook.py"), HOOK).unwrap();
    let hook = json!([{ "hooks": [{ "type": "command", "command": "python3 hook.py" }] }]);
    let settings = json!({ "hooks": { "UserPromptSubmit": hook } }).to_string();
    fs_err::write(root.join(".claude/settings.json"), settings).unwrap();

    let user = cortex.as_user();
    let add = AddProject { name: "birds".into(), root: root.clone(), verification: None };
    let project = user.call(add).await.unwrap().project.project_id;
    let trust = UpdateProject { trusted: Some(true), ..UpdateProject::new(project.clone()) };
    user.call(trust).await.unwrap();
    let create = CreateAgent::new(&project, "worker", "claude-code");
    let agent_id = user.call(create).await.unwrap().agent.agent_id;
    user.call(StartAgent { agent_id: agent_id.clone() }).await.unwrap();
    let ended = say(&cortex, &agent_id, "Go on.".into()).await;
    assert_eq!(ended.kind, EventKind::SessionTurnCompleted, "{ended:?}");

    let told = fs_err::read_to_string(root.join("told.json")).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    let at = |pointer: &str| told.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    assert_eq!(at("/projects/projects/0/name"), "birds", "{told}");
    assert_eq!(at("/agent/error/code"), Code::PermissionDenied.as_str(), "{told}");
    assert_eq!(at("/inbox/error/code"), Code::PermissionDenied.as_str(), "{told}");
    assert_eq!(at("/url"), endpoint.url());
    assert!(at("/token").starts_with("cortex_hook_"), "{told}");
    place.close(cortex, endpoint).await;
}
