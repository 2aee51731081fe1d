//! The throw-away folder of the demo: a project, the objective file and a data directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use cortex_lib::domain::approval::{Decide, Rule};
use cortex_lib::error::{Code, Error, Result};
use cortex_scripted::CliHome;
use fs_err as fs;
use tempfile::TempDir;

use super::cli::CodingCli;
use super::model;
use crate::config::Config;

const OBJECTIVE: &str = include_str!("files/demo.toml");
const CHECK: &str = include_str!("files/check.sh");

/// Who commits what the project begins with.
const IDENTITY: [&str; 4] = ["-c", "user.name=Cortex demo", "-c", "user.email=demo@localhost"];

/// The folder. Removed when dropped, unless it is kept.
#[derive(Debug)]
pub(super) struct Place {
    folder: TempDir,
    root: PathBuf,
}

impl Place {
    /// Makes the folder with its project, a git repository with one commit.
    ///
    /// # Errors
    ///
    /// `core.data_dir_unusable`, `workspace.unavailable`.
    pub(super) fn new() -> Result<Self> {
        let made = || -> std::io::Result<Self> {
            let mut builder = tempfile::Builder::new();
            builder.prefix("cortex-demo-");
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
            let folder = builder.tempdir()?;
            let root = fs::canonicalize(folder.path())?;
            let place = Self { folder, root };
            fs::create_dir(place.project())?;
            fs::create_dir(place.data_dir())?;
            fs::write(place.project().join("check.sh"), CHECK)?;
            fs::write(place.objective(), OBJECTIVE)?;
            Ok(place)
        };
        let place = made().map_err(|error| unusable(&error))?;
        place.git(&["init", "--quiet"])?;
        place.git(&["add", "check.sh"])?;
        place.git(&["commit", "--quiet", "-m", "What every result is checked by"])?;
        Ok(place)
    }

    /// The folder itself.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder that the agents work in.
    pub(super) fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// The objective file.
    pub(super) fn objective(&self) -> PathBuf {
        self.root.join("demo.toml")
    }

    /// Where the demo's core keeps its data.
    pub(super) fn data_dir(&self) -> PathBuf {
        self.root.join("data")
    }

    /// Writes the configuration: the CLI in its throw-away home, and what its agents may do.
    ///
    /// # Errors
    ///
    /// `core.data_dir_unusable`.
    pub(super) fn configure(
        &self,
        cli: CodingCli,
        executable: PathBuf,
        home: &CliHome,
    ) -> Result<()> {
        let mut config = Config::default();
        let vars = home.vars().into_iter();
        let env = vars.map(|(name, value)| (name.to_owned(), value.to_string_lossy().into_owned()));
        cli.configure(&mut config, executable, env);
        config.approvals.rules = rules(cli);
        let text = serde_json::to_string_pretty(&config)
            .map_err(|error| Error::new(Code::Defect, error.to_string()))?;
        fs::write(Config::path(&self.data_dir()), text).map_err(|error| unusable(&error))
    }

    /// The files of the project, by their names.
    pub(super) fn files(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.project()) else { return Vec::new() };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| name != ".git").collect();
        names.sort();
        names
    }

    /// Leaves the folder where it is.
    pub(super) fn keep(mut self) {
        self.folder.disable_cleanup(true);
    }

    fn git(&self, arguments: &[&str]) -> Result<()> {
        let run =
            Command::new("git").args(IDENTITY).args(arguments).current_dir(self.project()).output();
        let said = match run {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        let message =
            format!("git {} did not work: {said}", arguments.first().copied().unwrap_or_default());
        Err(Error::new(Code::WorkspaceUnavailable, message)
            .remedy("Install git 2.38 or newer: the demo shows a task in a worktree of its own."))
    }
}

/// What the agents of the demo may do. A person writes such rules once, and is asked about the rest.
fn rules(cli: CodingCli) -> Vec<Rule> {
    let rule = |id: &str, tool: &str, input: Option<&str>, decide| Rule {
        id: id.to_owned(),
        tool: tool.to_owned(),
        input: input.map(str::to_owned),
        agent: None,
        decide,
    };
    let description = "echo * > README.md && cat README.md";
    vec![
        rule("agents may write files", cli.writing_tool(), None, Decide::Allow),
        rule("the tests may run", cli.shell_tool(), Some(model::TEST), Decide::Allow),
        rule("the description may be written", cli.shell_tool(), Some(description), Decide::Allow),
        rule("nothing else may be done", "*", None, Decide::Deny),
    ]
}

fn unusable(error: &std::io::Error) -> Error {
    Error::new(Code::DataDirUnusable, format!("the folder of the demo cannot be made: {error}"))
        .remedy("Make room in the folder for temporary files, or set TMPDIR to another one.")
}
