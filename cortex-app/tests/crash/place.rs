//! A data directory, a project, and a home and a model for one CLI.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::Path;
use std::process::Stdio;

use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{CreateAgent, CreateObjective, StartAgent};
use cortex_lib::domain::agent::Role;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::verification::{Verification, VerificationCommand};
use cortex_lib::ids::RuntimeId;
use cortex_lib::local::Client;
use cortex_scripted::{CliHome, ScriptedServer};
use serde_json::json;

use crate::world::{Core, Process, processes, until};

/// The runtime that a test runs on.
#[derive(Clone, Copy)]
pub(crate) struct Cli {
    pub(crate) runtime: &'static str,
    /// Its name in the configuration.
    pub(crate) section: &'static str,
    /// How a rule of approvals names its shell.
    pub(crate) tool: &'static str,
}

pub(crate) struct Place {
    pub(crate) root: tempfile::TempDir,
    pub(crate) server: Box<dyn Deref<Target = ScriptedServer>>,
    data: tempfile::TempDir,
    home: CliHome,
    cli: Cli,
}

impl Place {
    pub(crate) fn new(
        cli: Cli,
        executable: &Path,
        server: impl Deref<Target = ScriptedServer> + 'static,
    ) -> Self {
        let home = CliHome::new(&server).unwrap();
        home.configure_opencode().unwrap();
        let (data, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let vars = home
            .vars()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into_string().unwrap()));
        let env: serde_json::Map<_, _> = vars.map(|(name, value)| (name, json!(value))).collect();
        let config = json!({
            "mcp": { "port": 0 },
            "retry": { "base_ms": 20, "max_ms": 100 },
            "approvals": { "rules": [{ "id": "shell", "tool": cli.tool, "decide": "allow" }] },
            "runtimes": { cli.section: { "executable": executable, "env": env } },
        });
        fs_err::write(data.path().join("config.json"), config.to_string()).unwrap();
        Self { root, server: Box::new(server), data, home, cli }
    }

    /// Runs `cortex serve` and reaches it.
    pub(crate) async fn serve(&self) -> Core {
        let mut command = self.home.command(env!("CARGO_BIN_EXE_cortex"));
        command.arg("--data-dir").arg(self.data.path()).arg("serve");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let reach = async || Client::connect(self.data.path()).await.ok().flatten();
        Core { child, client: until("the core answers", reach).await }
    }

    /// How many processes of the core and its CLI live: each carries the folder of the home.
    pub(crate) fn agents_alive(&self) -> usize {
        self.alive().len()
    }

    /// The marks that they carry.
    pub(crate) fn owners(&self) -> BTreeSet<String> {
        self.alive().iter().filter_map(Process::owner).map(str::to_owned).collect()
    }

    fn alive(&self) -> Vec<Process> {
        let home = self.home.config().into_os_string().into_string().unwrap();
        let ours = |process: &Process| process.environment.contains(&home);
        processes().into_iter().filter(ours).collect()
    }

    /// What Cortex has in the folder for temporary files.
    pub(crate) fn temporary(&self) -> Vec<String> {
        let vars = self.home.vars();
        let (_, folder) = vars.into_iter().find(|(name, _)| *name == "TMPDIR").unwrap();
        let entries = fs_err::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("cortex-")).collect()
    }

    /// Starts workers of these names and gives them these tasks.
    pub(crate) async fn begin(&self, core: &Core, names: &[&str], tasks: Vec<TaskSpec>) {
        let argv = ["sh", "-c", "test ! -e broken"].map(Into::into).to_vec();
        let verification = Verification {
            commands: vec![VerificationCommand { argv, name: None }],
            timeout_secs: 60,
        };
        let add = AddProject {
            name: "p".into(),
            root: self.root.path().into(),
            verification: Some(verification),
        };
        let project_id = core.client.call(add).await.unwrap().project.project_id;
        for name in names {
            let create = CreateAgent {
                project_id: project_id.clone(),
                name: (*name).into(),
                runtime_id: RuntimeId::new(self.cli.runtime),
                model: None,
                role: Role::Worker,
                instructions: None,
                skills: true,
            };
            let agent_id = core.client.call(create).await.unwrap().agent.agent_id;
            core.client.call(StartAgent { agent_id }).await.unwrap();
        }
        let create = CreateObjective { project_id, title: "Some work".into(), tasks };
        core.client.call(create).await.unwrap();
    }
}

/// A task that says `TASK-` and its key.
pub(crate) fn task(key: &str, depends_on: &[&str]) -> TaskSpec {
    TaskSpec {
        key: key.into(),
        description: format!("Do TASK-{}.", key.to_uppercase()),
        depends_on: depends_on.iter().map(|key| (*key).to_owned()).collect(),
        ..TaskSpec::default()
    }
}
