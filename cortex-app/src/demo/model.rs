//! The model of the demo: a script that does its tasks with the tools of the CLI.

use std::path::Path;
use std::time::Duration;

use cortex_scripted::{Answer, Script, When};

use super::cli::CodingCli;

/// What the agents write.
const DESIGN: &str = include_str!("files/DESIGN.md");
const PROGRAM: &str = include_str!("files/steep.sh");
const TESTS: &str = include_str!("files/test.sh");
const README: &str = "# steep.sh knows how long tea steeps";

/// The command that one of the tasks is about.
pub(super) const TEST: &str = "sh test.sh";

const PASSED: &str = "4 tests hold";

/// Answers that repeat what a command printed.
const PRINTED: [&str; 2] = [PASSED, README];

/// A command that nobody allowed: the model has to do without.
const FETCH: &str = "curl --silent https://tea.example/minutes";

/// A model answers as fast as a person can follow.
const THINKS: Duration = Duration::from_millis(250);

/// The script. Each task is known by the first line of its description.
pub(super) fn script(cli: CodingCli, root: &Path) -> Script {
    let mut script = Script::new();
    let mut task = |begins: &str, steps: Vec<Answer>, says: &str| {
        let mut steps = steps.into_iter().chain([Answer::text(says)]).enumerate().peekable();
        while let Some((results, answer)) = steps.next() {
            let mut when = When::during(begins, results);
            // Nobody says that tests passed which did not run: then the script has no answer, and the task fails.
            if steps.peek().is_none() && PRINTED.contains(&says) {
                when.tool_result = Some(says.to_owned());
            }
            script = std::mem::take(&mut script).on(when, answer.slow(THINKS, Duration::ZERO));
        }
    };
    let write = |file: &str, content: &str| cli.write(root, file, content);
    task(
        "Design the tea program.",
        vec![write("DESIGN.md", DESIGN)],
        "sh steep.sh green|black|herbal",
    );
    task(
        "Write the tea program.",
        vec![cli.shell(FETCH), write("steep.sh", PROGRAM)],
        "steep.sh prints the minutes for a kind of tea, and how it is called for anything else.",
    );
    task(
        "Write the tests of the tea program.",
        vec![write("test.sh", TESTS)],
        "test.sh tests the three kinds of tea and one that is none.",
    );
    task("Run the tests of the tea program.", vec![cli.shell(TEST)], PASSED);
    // In a worktree, whose folder only Cortex knows beforehand.
    let describe = format!("echo '{README}' > README.md && cat README.md");
    task("Describe the tea program.", vec![cli.shell(&describe)], README);
    // It has a name made for each conversation.
    if cli == CodingCli::OpenCode {
        script.otherwise(Answer::text("A tea program"))
    } else {
        script
    }
}
