//! Codex in a terminal: its interactive form, at which a person works.
//!
//! It has a process of its own and never the shared one. The person's own configuration counts as it does without
//! Cortex, and what the CLI asks first (a login, whether the folder is trusted) is theirs to answer. The CLI names
//! its conversation itself and tells nobody, so the next session begins a new one.

use std::ffi::OsString;
use std::path::Path;

use cortex_lib::port::SessionSpec;
use cortex_lib::process::Program;
use serde_json::{Value, json};

use super::{CodexConfig, launch};

/// The variables with the credentials of the session and of its hooks.
const TOKEN: &str = "CORTEX_MCP_TOKEN";
const HOOK_TOKEN: &str = "CORTEX_HOOK_TOKEN";

/// The program of a session in terminal mode.
pub(super) fn program(executable: &Path, config: &CodexConfig, spec: &SessionSpec) -> Program {
    let mut argv: Vec<OsString> = vec![executable.into()];
    if let Some(native) = &spec.resume {
        argv.extend(["resume".into(), native.into()]);
    }
    // What was said stays in the lines above, also for whoever attaches later.
    argv.push("--no-alt-screen".into());
    argv.extend(launch::OFF.into_iter().flat_map(|off| ["--disable", off]).map(OsString::from));
    argv.extend(["--ask-for-approval".into(), "on-request".into()]);
    if let Some(model) = &spec.model {
        argv.extend(["--model".into(), model.into()]);
    }
    argv.extend(settings(spec).into_iter().flat_map(|setting| ["-c".into(), setting.into()]));
    let program = Program::new(argv, &spec.cwd, spec.session_id.as_str());
    let program = launch::environment(program, config);
    match &spec.mcp {
        Some(mcp) => program
            .env(TOKEN, mcp.token.expose())
            .env("CORTEX_MCP_URL", &mcp.url)
            .env(HOOK_TOKEN, mcp.hook_token.expose()),
        None => program,
    }
}

fn settings(spec: &SessionSpec) -> Vec<String> {
    // A JSON text is a TOML one.
    let set = |name: &str, value: Value| format!("{name}={value}");
    let mut settings = vec![
        set("check_for_update_on_startup", false.into()),
        set("analytics.enabled", false.into()),
    ];
    if let Some(instructions) = &spec.instructions {
        settings.push(set("developer_instructions", instructions.as_str().into()));
    }
    if let Some(mcp) = &spec.mcp {
        let server = format!("mcp_servers.{}", launch::MCP_SERVER);
        settings.push(set(&format!("{server}.url"), mcp.url.as_str().into()));
        settings.push(set(&format!("{server}.bearer_token_env_var"), TOKEN.into()));
        // What an agent runs in its shell does not get it.
        settings.push(set("shell_environment_policy.exclude", json!([TOKEN, HOOK_TOKEN])));
    }
    settings
}
