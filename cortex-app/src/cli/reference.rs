//! The page of the command line in `docs/`: what the program says of itself.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::{Cli, Exit};

/// `docs/cli.md`.
pub fn page() -> String {
    let mut page = String::from(
        "<!-- Generated from the program: UPDATE=1 cargo test -p cortex-app --test pages -->\n\n\
         # The command line\n\n\
         Results go to standard output: text for people, JSON with `--json`. Failures go to standard error:\n\
         `error: what happened (code)` and `next: what to do`. The codes are in [errors](errors.md).\n\n\
         Commands reach the core that serves the data directory by its local socket. When none runs, they open\n\
         the core themselves for as long as they take; agents that ran before stay down meanwhile.\n\n",
    );
    page.push_str(Exit::TABLE);
    page.push('\n');
    let mut program = Cli::command();
    program.build();
    describe(&mut page, &program, "");
    page
}

fn describe(page: &mut String, command: &Command, above: &str) {
    let name = format!("{above}{}", command.get_name());
    // What every command takes is told once, at the top.
    let mut shown = if above.is_empty() {
        command.clone()
    } else {
        command.clone().mut_args(|arg| {
            let common = arg.is_global_set() || arg.get_id() == "help";
            if common { arg.hide(true) } else { arg }
        })
    };
    let help = shown.render_long_help().to_string();
    let help = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    // Writing into a String cannot fail.
    let _infallible = write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.trim_end());
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        describe(page, inner, &format!("{name} "));
    }
}
