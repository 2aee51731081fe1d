//! Every message of the endpoint fits the schema of the version that it is of.

use cortex_lib::limits::MCP_PROGRESS_EVERY;
use cortex_lib::port::{Script, ScriptedRuntime};
use serde_json::json;

use crate::programs::python;
use crate::{SCRIPTED, Served, command};

const PYTHON: &str = include_str!("wire.py");

#[tokio::test(flavor = "multi_thread")]
async fn every_message_fits_the_schema_of_its_version() {
    let Some(python) = python() else { return };
    let mut client = command(python);
    client.args(["-c", PYTHON]);
    // So long that progress is told once.
    let long = MCP_PROGRESS_EVERY.mul_f32(1.5);
    let planner =
        ScriptedRuntime::new(SCRIPTED).turn(move |_| Script::new().wait(long).answer("no plan"));
    let served = Served::open_on(planner).await;
    let mut found = served.talk([client]).await.remove(0);
    served.close().await;
    assert_eq!(found["problems"].take(), json!([]));
    insta::assert_json_snapshot!("wire", found["seen"].take());
}
