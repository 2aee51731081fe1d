//! Claude Code in a terminal: its interactive form, at which a person works.
//!
//! The person sees what the CLI shows to everybody: at first it may ask whether the folder is trusted and whether
//! a key may be used, and it keeps the answers in its own configuration. Cortex answers none of that and writes
//! nothing there. What a tool needs leave for, the person is asked in the terminal.

use std::ffi::OsString;
use std::path::Path;

use cortex_lib::error::{Code, Error, Result};
use cortex_lib::port::SessionSpec;
use cortex_lib::process::Program;

use super::{ClaudeCodeConfig, launch, probe};

/// The program of a session in terminal mode, and whether it goes on with an earlier conversation. `native` is the name of
/// the conversation: a new one, or the one to resume.
///
/// # Errors
///
/// `runtime.start_failed` when the files of the session cannot be written.
pub(super) fn program(
    executable: &Path,
    config: &ClaudeCodeConfig,
    spec: &SessionSpec,
    native: &str,
) -> Result<(Program, bool)> {
    let mut argv: Vec<OsString> = vec![executable.into()];
    argv.extend(["--permission-mode".into(), "default".into()]);
    argv.extend(sources(spec).map(OsString::from));
    argv.extend(["--model".into(), launch::model(config, spec).into()]);
    // A conversation in which nothing was said yet is not kept, and cannot be resumed.
    let resumes = spec.resume.is_some() && is_kept(config, native);
    let session = if resumes { "--resume" } else { "--session-id" };
    argv.extend([session.into(), native.into()]);
    if let Some(instructions) = &spec.instructions {
        // Not an argument: those are bounded, and anybody on the machine can read them.
        let file = spec.scratch.join("instructions.txt");
        launch::write_private(&file, instructions).map_err(|error| {
            let message = format!("the instructions were not written: {error}");
            Error::new(Code::RuntimeStartFailed, message)
        })?;
        argv.extend(["--append-system-prompt-file".into(), file.into()]);
    }
    let program = Program::new(argv, &spec.cwd, spec.session_id.as_str());
    let shell = launch::shell_file(config, &spec.scratch)?;
    let program = launch::environment(program, config).env(launch::SHELL_FILE, shell);
    Ok((launch::with_mcp(program, config, spec)?, resumes))
}

/// Which settings count: what a repository brings only where a person trusts it, as in a structured session.
fn sources(spec: &SessionSpec) -> impl Iterator<Item = &'static str> {
    let arguments: &[_] = if spec.trusted {
        &["--setting-sources", "project,local"]
    } else {
        &["--setting-sources", "", "--strict-mcp-config"]
    };
    arguments.iter().copied()
}

/// Whether the CLI has kept something of this conversation. It has a folder for each project, and files its
/// conversations by their names.
fn is_kept(config: &ClaudeCodeConfig, native: &str) -> bool {
    let folder = launch::setting(config, "CLAUDE_CONFIG_DIR")
        .map(std::path::PathBuf::from)
        .or_else(|| Some(probe::home(config)?.join(".claude")));
    let projects = folder.and_then(|folder| fs_err::read_dir(folder.join("projects")).ok());
    let file = format!("{native}.jsonl");
    projects.into_iter().flatten().flatten().any(|project| project.path().join(&file).is_file())
}
