//! The example driver passes the conformance suite: this is all that a driver of one's own needs for that.
//!
//! Linux only, as the suite looks into `/proc`.
#![cfg_attr(target_os = "linux", expect(clippy::unwrap_used, reason = "a test may stop"))]

use std::process::ExitCode;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;
    use std::process::ExitCode;
    use std::sync::Arc;

    use async_trait::async_trait;
    use cortex_examples::LineAgent;
    use cortex_lib::port::Runtime;
    use cortex_runtimes::conformance::{
        self, Ability, Act, Fault, Heard, Scenario, Stage, Subject,
    };
    use serde_json::{Value, json};
    use tempfile::TempDir;

    pub(crate) fn main() -> ExitCode {
        // First of all: this program is started once more as the owner of each agent.
        cortex_lib::process::init();
        if std::env::args().any(|argument| argument == "--list") {
            return ExitCode::SUCCESS;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let report = runtime.block_on(conformance::run(&Lines)).unwrap();
        writeln!(std::io::stdout(), "{report}").unwrap_or_default();
        let conforms = report.failures().is_empty() && report.not_shown().is_empty();
        if conforms { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// The subject: the driver, with an agent that does what a case says.
    struct Lines;

    #[async_trait]
    impl Subject for Lines {
        fn name(&self) -> &'static str {
            "line agent"
        }

        fn abilities(&self) -> BTreeSet<Ability> {
            BTreeSet::from([
                Ability::Instructions,
                Ability::Shell,
                Ability::Service,
                Ability::Processes,
                Ability::Tree,
            ])
        }

        async fn stage(&self, scenario: &Scenario) -> Result<Box<dyn Stage>, String> {
            Ok(Box::new(Place::new(scenario).map_err(|error| error.to_string())?))
        }
    }

    struct Place {
        folder: TempDir,
        runtime: Arc<LineAgent>,
    }

    impl Place {
        fn new(scenario: &Scenario) -> std::io::Result<Self> {
            let folder = tempfile::tempdir()?;
            let program = folder.path().join("agent");
            fs_err::create_dir(folder.path().join("project"))?;
            fs_err::write(&program, agent(&folder, scenario))?;
            fs_err::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
            Ok(Self { folder, runtime: Arc::new(LineAgent::new("test", program)) })
        }
    }

    #[async_trait]
    impl Stage for Place {
        fn runtime(&self) -> Arc<dyn Runtime> {
            Arc::clone(&self.runtime) as Arc<dyn Runtime>
        }

        fn project(&self) -> PathBuf {
            self.folder.path().join("project")
        }

        fn open_gate(&self, gate: &str) {
            fs_err::write(self.folder.path().join(gate), "").unwrap();
        }

        fn heard(&self) -> Option<Vec<Heard>> {
            let heard =
                fs_err::read_to_string(self.folder.path().join("heard")).unwrap_or_default();
            let lines = heard.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let text = |line: Value| line.get("instruction")?.as_str().map(str::to_owned);
            let heard = lines
                .map(|line| Heard { texts: text(line).into_iter().collect(), ..Heard::default() });
            Some(heard.collect())
        }
    }

    /// An agent for a scenario, as a shell script.
    fn agent(folder: &TempDir, scenario: &Scenario) -> String {
        let folder = folder.path().display();
        let mut script = format!(
            "#!/bin/sh\nread -r line\nprintf '%s\\n' \"$line\" >>{folder}/heard\nword=nothing\ncase $line in\n"
        );
        if scenario.unreachable {
            writeln!(script, "*) {}; exit;;", print(&fault(Fault::Overloaded))).unwrap();
        }
        for reply in &scenario.replies {
            writeln!(script, "*'{}'*)", reply.cue).unwrap();
            for act in &reply.acts {
                writeln!(script, "{}", shell(act, &folder.to_string())).unwrap();
            }
            writeln!(script, ";;").unwrap();
        }
        script + "esac\n"
    }

    fn shell(act: &Act, folder: &str) -> String {
        let wait = |gate: &str| format!("until [ -e {folder}/{gate} ]; do sleep 0.02; done");
        let done = |text: &str| print(&json!({"done": {"text": text}}));
        let say = |text: &str| print(&json!({"say": text}));
        match act {
            Act::Say(text) => {
                let lines: Vec<_> = text.lines().map(say).collect();
                format!("{}\n{}", lines.join("\n"), done(text))
            }
            Act::SayInTwo { first, rest, gate } => {
                let both = done(&format!("{first}\n{rest}"));
                format!("{}; {}; {}; {both}", say(first), wait(gate), say(rest))
            }
            Act::SayLong(count) => {
                let long = format!("head -c {count} /dev/zero | tr '\\0' x");
                format!("printf '%s' '{{\"done\":{{\"text\":\"'; {long}; echo '\"}}}}'")
            }
            // What it heard last: the reason of a denial, else what it was told about itself.
            Act::SayWord => {
                let word = "sed 's/.*«\\([^»]*\\)».*/\\1/'";
                format!(
                    "word=$(printf %s \"$line\" | {word}); echo '{{\"done\":{{\"text\":\"'\"$word\"'\"}}}}'"
                )
            }
            Act::Wait { gate } => wait(gate),
            Act::Run(command) => {
                let ask =
                    json!({"ask": {"id": "one", "tool": "shell", "input": {"command": command}}});
                let run = format!("sh -c {} >&2", word(command));
                format!("{}; read -r line; case $line in *true*) {run};; esac", print(&ask))
            }
            Act::Fail(how) => print(&fault(*how)),
            other => format!("echo {} >&2; exit 9", word(&format!("{other:?}"))),
        }
    }

    fn fault(how: Fault) -> Value {
        let class = match how {
            Fault::LoginRefused | Fault::RequestRefused => "refused",
            Fault::RateLimited(_) => "quota_used_up",
            _ => "may_pass",
        };
        json!({"failed": {"why": "the model does not answer", "class": class}})
    }

    fn print(line: &Value) -> String {
        format!("printf '%s\\n' {}", word(&line.to_string()))
    }

    /// A word as a shell reads it.
    fn word(text: &str) -> String {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
