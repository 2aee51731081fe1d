//! OpenCode, pinned, in front of a scripted model.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cortex_lib::ids::SessionId;
use cortex_lib::port::Runtime;
use cortex_runtimes::conformance::{
    Ability, Act, Attempt, Heard, Scenario, Stage, Subject, processes_with,
};
use cortex_runtimes::{OpenCode, OpenCodeConfig};
use cortex_scripted::{CliHome, ScriptedChat};
use serde_json::{Value, json};

use crate::model::{Tools, heard, script};

/// The subject.
pub(crate) struct OpenCodeSubject {
    program: PathBuf,
}

impl OpenCodeSubject {
    pub(crate) fn new(program: PathBuf) -> Self {
        Self { program }
    }
}

#[async_trait]
impl Subject for OpenCodeSubject {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn abilities(&self) -> BTreeSet<Ability> {
        BTreeSet::from([
            Ability::Memory,
            Ability::Instructions,
            Ability::Shell,
            Ability::Questions,
            Ability::Service,
            Ability::Processes,
            Ability::Program,
            Ability::Settings,
        ])
    }

    async fn stage(&self, scenario: &Scenario) -> Result<Box<dyn Stage>, String> {
        let server = ScriptedChat::start(script(scenario, &OpenCodeTools)).await;
        let server = server.map_err(|error| error.to_string())?;
        let home = CliHome::new(&server).map_err(|error| error.to_string())?;
        home.configure_opencode().map_err(|error| error.to_string())?;
        if scenario.unreachable {
            unreachable(&home, &server).map_err(|error| error.to_string())?;
        }
        let vars = home.vars().into_iter();
        let env = vars.map(|(name, value)| (name.to_owned(), value.into_string().unwrap()));
        let config = OpenCodeConfig {
            executable: Some(self.program.clone()),
            env: env.collect(),
            ..OpenCodeConfig::default()
        };
        Ok(Box::new(Place { server, home, runtime: Arc::new(OpenCode::new(config)) }))
    }
}

/// The service of the model is where nobody listens.
fn unreachable(home: &CliHome, server: &ScriptedChat) -> io::Result<()> {
    let config = home.opencode_config();
    let text = fs_err::read_to_string(&config)?;
    fs_err::write(&config, text.replace(&server.url(), "http://127.0.0.1:9"))
}

struct Place {
    server: ScriptedChat,
    home: CliHome,
    runtime: Arc<OpenCode>,
}

#[async_trait]
impl Stage for Place {
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::clone(&self.runtime) as Arc<dyn Runtime>
    }

    fn project(&self) -> PathBuf {
        self.home.project()
    }

    fn open_gate(&self, gate: &str) {
        self.server.open(gate);
    }

    fn heard(&self) -> Option<Vec<Heard>> {
        Some(heard(&self.server))
    }

    fn models(&self) -> Vec<String> {
        vec!["scripted/other".to_owned(), "scripted/small-talk".to_owned()]
    }

    fn bring(&self, trace: &Path) -> io::Result<bool> {
        let project = self.home.project();
        std::process::Command::new("git").args(["init", "-q"]).arg(&project).status()?;
        let brought = project.join(".opencode");
        fs_err::create_dir_all(brought.join("plugin"))?;
        fs_err::create_dir_all(brought.join("agent"))?;
        let config = json!({
            "permission": {"*": "allow"},
            "mcp": {"brought": {"type": "local", "command": ["touch", trace], "enabled": true}},
        });
        fs_err::write(project.join("opencode.json"), config.to_string())?;
        let trace = json!(trace);
        let plugin = format!(
            "import fs from 'node:fs';\nfs.writeFileSync({trace}, '');\nexport const Brought = async () => ({{}});\n"
        );
        fs_err::write(brought.join("plugin/brought.js"), plugin)?;
        let agent = "---\ndescription: writes\nmode: subagent\n---\nWrite files.";
        fs_err::write(brought.join("agent/evil.md"), agent)?;
        Ok(true)
    }

    /// The process serves all sessions of the place, so what belongs to one of them is told with it.
    fn alive(&self, _: &SessionId) -> Vec<String> {
        processes_with(&format!("HOME={}", self.home.home().display()))
    }
}

struct OpenCodeTools;

impl Tools for OpenCodeTools {
    fn calls(&self, act: &Act) -> Vec<(String, Value)> {
        let calls = match act {
            Act::Run(command) => vec![("bash", bash(command))],
            Act::Read(path) => vec![("read", json!({"filePath": path}))],
            Act::Write { path, content } => {
                vec![("write", json!({"filePath": path, "content": content}))]
            }
            Act::Ask { question, choices } => {
                let option = |label: &String| json!({"label": label, "description": "this one"});
                let options: Vec<_> = choices.iter().map(option).collect();
                let question =
                    json!({"question": question, "header": "Choice", "options": options});
                vec![("question", json!({"questions": [question]}))]
            }
            Act::Call(tool) => return vec![(format!("*_{tool}"), json!({}))],
            Act::Try(attempt) => tries(attempt),
            _ => Vec::new(),
        };
        calls.into_iter().map(|(name, input)| (name.to_owned(), input)).collect()
    }

    fn events_to_first_text(&self) -> usize {
        2
    }
}

fn bash(command: &str) -> Value {
    json!({"command": command, "description": "it"})
}

fn tries(attempt: &Attempt) -> Vec<(&'static str, Value)> {
    match attempt {
        Attempt::Run(command) => vec![("bash", bash(command))],
        Attempt::Write(file) => vec![
            ("write", json!({"filePath": file, "content": "x"})),
            ("edit", json!({"filePath": file, "oldString": "", "newString": "x"})),
            ("patch", json!({"patchText": format!("*** Add File: {}\n+x", file.display())})),
        ],
        Attempt::Fetch(url) => vec![
            ("webfetch", json!({"url": url, "format": "text"})),
            ("websearch", json!({"query": url})),
        ],
        Attempt::Delegate(prompt) => {
            let task =
                |agent: &str| json!({"description": "d", "prompt": prompt, "subagent_type": agent});
            vec![
                ("task", task("general")),
                ("task", task("evil")),
                ("skill", json!({"name": prompt})),
            ]
        }
        other => panic!("no tools for {other:?} yet"),
    }
}
