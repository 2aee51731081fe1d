//! Every message of the endpoint fits the schema of the version that it is of.

use serde_json::json;

use crate::clients::talk;
use crate::command;
use crate::programs::python;

const PYTHON: &str = include_str!("wire.py");

#[tokio::test(flavor = "multi_thread")]
async fn every_message_fits_the_schema_of_its_version() {
    let Some(python) = python() else { return };
    let mut client = command(python);
    client.args(["-c", PYTHON]);
    let mut found = talk(client).await;
    assert_eq!(found["problems"].take(), json!([]));
    insta::assert_json_snapshot!("wire", found["seen"].take());
}
