//! Claude Code, Codex and OpenCode on one core at once, over MCP. Scripts play the models; the CLIs and their tools are
//! the real ones.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod clients;
mod crew;
mod hooks;
mod place;

use std::process::ExitCode;

use clients::all_three_list_call_wait_and_give_up;
use cortex_scripted::{cases, cli, offline, suite};
use crew::an_orchestrator_hires_workers_on_all_three_and_hears_from_them;
use hooks::a_hook_reads_with_its_own_credential_and_changes_nothing;

fn main() -> ExitCode {
    cortex_lib::process::init();
    let found = [cli::claude_code(), cli::codex(), cli::opencode()].map(cli::require);
    if found.iter().any(Option::is_none) {
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = offline::enter() {
        return ended;
    }
    suite::run(&cases![
        an_orchestrator_hires_workers_on_all_three_and_hears_from_them,
        all_three_list_call_wait_and_give_up,
        a_hook_reads_with_its_own_credential_and_changes_nothing,
    ])
}
