//! A call that takes longer than clients wait by themselves.

use std::time::Duration;

use cortex_lib::limits::MCP_PROGRESS_EVERY;
use cortex_lib::port::{Script, ScriptedRuntime};
use serde_json::{Value, json};

use crate::programs::{Node, python};
use crate::{SCRIPTED, Served, command};

const NODE: &str = include_str!("slow.mjs");
const PYTHON: &str = include_str!("slow.py");

/// TypeScript clients give up after a minute without a word.
const LONG: Duration = Duration::from_secs(65);

#[tokio::test(flavor = "multi_thread")]
async fn clients_hear_of_a_call_that_takes_longer_than_their_minute() {
    let mut clients = Vec::new();
    if let Some(node) = Node::find() {
        for sdk in ["@modelcontextprotocol/sdk", "@modelcontextprotocol/client"] {
            let mut client = command(&node.program);
            client.args(["--input-type=module", "--eval", NODE, sdk]).current_dir(&node.folder);
            clients.push((sdk, client));
        }
    }
    if let Some(python) = python() {
        for mode in ["auto", "legacy"] {
            let mut client = command(&python);
            client.args(["-c", PYTHON, mode]);
            clients.push((mode, client));
        }
    }
    let task = json!({
        "key": "count", "title": "Count", "description": "Add it.", "type": "implementation", "priority": "high",
    });
    let plan = json!({ "title": "Count words", "tasks": [task] }).to_string();
    let planner =
        ScriptedRuntime::new(SCRIPTED).turn(move |_| Script::new().wait(LONG).answer(plan.clone()));
    let served = Served::open_on(planner).await;
    let (names, clients): (Vec<_>, Vec<_>) = clients.into_iter().unzip();
    let said = served.talk(clients).await;
    served.close().await;
    for (name, said) in names.into_iter().zip(said) {
        assert_eq!(said["title"], "Count words", "{name}: {said}");
        assert!(said["seconds"].as_f64().unwrap() >= LONG.as_secs_f64(), "{name}: {said}");
        let told = said["progress"].as_array().unwrap();
        let told: Vec<_> = told.iter().filter_map(Value::as_f64).collect();
        assert!(told.is_sorted_by(|before, after| before < after), "{name}: {said}");
        // On a busy machine some come late.
        let least = LONG.as_secs() / MCP_PROGRESS_EVERY.as_secs() / 2;
        assert!(told.len() as u64 >= least, "{name}: {said}");
        let message = said["message"].as_str().unwrap();
        assert!(message.starts_with("The planner reads the project"), "{name}: {message}");
    }
}
