//! OpenCode in a terminal: its interactive form, at which a person works.
//!
//! It has a process of its own and never the shared server. The person's own providers and login count as they do
//! without Cortex; what changes or runs something asks the person in the terminal. The CLI names its conversation
//! itself and tells nobody, so the next session begins a new one.

use std::ffi::OsString;
use std::path::Path;

use cortex_lib::error::{Code, Error, Result};
use cortex_lib::port::SessionSpec;
use cortex_lib::process::Program;
use serde_json::{Map, Value, json};

use super::open::MCP_TIMEOUT_MS;
use super::{OpenCodeConfig, launch};

/// The variable with the credential of the session.
const TOKEN: &str = "CORTEX_MCP_TOKEN";

/// The program of a session in terminal mode.
///
/// # Errors
///
/// `runtime.start_failed` when the instructions cannot be written.
pub(super) fn program(
    executable: &Path,
    config: &OpenCodeConfig,
    spec: &SessionSpec,
) -> Result<Program> {
    let mut argv: Vec<OsString> = vec![executable.into()];
    if let Some(model) = &spec.model {
        argv.extend(["--model".into(), model.into()]);
    }
    if let Some(native) = &spec.resume {
        argv.extend(["--session".into(), native.into()]);
    }
    let program = Program::new(argv, &spec.cwd, spec.session_id.as_str());
    let mut program = launch::configured(program, config, spec.trusted, content(spec)?);
    if let Some(mcp) = &spec.mcp {
        program = program.env(TOKEN, mcp.token.expose());
    }
    Ok(program)
}

/// The configuration on top of the person's own.
fn content(spec: &SessionSpec) -> Result<Map<String, Value>> {
    let mut content = launch::content(spec.trusted);
    if let Some(instructions) = &spec.instructions {
        let file = spec.scratch.join("instructions.md");
        fs_err::write(&file, instructions).map_err(|error| {
            let message = format!("the instructions were not written: {error}");
            Error::new(Code::RuntimeStartFailed, message)
        })?;
        content.insert("instructions".to_owned(), json!([file]));
    }
    if let Some(mcp) = &spec.mcp {
        let headers = json!({"Authorization": format!("Bearer {{env:{TOKEN}}}")});
        let server = json!({
            "type": "remote",
            "url": mcp.url,
            "headers": headers,
            "oauth": false,
            "timeout": MCP_TIMEOUT_MS,
        });
        content.insert("mcp".to_owned(), json!({ "cortex": server }));
    }
    Ok(content)
}
