//! The surroundings of a CLI under test: a home of its own, a fake key, and no way to any server but
//! the scripted one.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::server::ScriptedServer;

/// A fresh home for one CLI, with the environment that leads it to a scripted server.
///
/// Removed when dropped, so it must outlive the CLI.
#[derive(Debug)]
pub struct CliHome {
    folder: TempDir,
    url: String,
}

/// The key that Claude Code is given; it opens nothing.
const API_KEY: &str = "sk-ant-api03-scripted-key-that-opens-nothing";

/// The variable with the key that Codex is given, and the key; it opens nothing.
const CODEX_KEY: (&str, &str) = ("CODEX_SCRIPTED_KEY", "sk-scripted-codex-key-that-opens-nothing");

/// The model that [`CliHome::configure_opencode`] sets, by OpenCode's name.
pub const OPENCODE_MODEL: &str = "scripted/small-talk";

/// Variables that would tie a CLI to the session, account or proxy of whoever runs the tests.
const FOREIGN: [&str; 8] =
    ["CLAUDE", "ANTHROPIC_", "AI_AGENT", "IS_SANDBOX", "CORTEX_", "CODEX_", "OPENAI_", "OPENCODE"];

impl CliHome {
    /// Makes the folders: a home, a folder for temporary files and an empty project.
    pub fn new(server: &ScriptedServer) -> io::Result<Self> {
        Self::inside(server, &std::env::temp_dir())
    }

    /// Makes them inside this folder.
    pub fn inside(server: &ScriptedServer, folder: &Path) -> io::Result<Self> {
        Self::at(&server.url(), folder)
    }

    /// Makes them inside this folder, for a server of another process.
    pub fn at(url: &str, folder: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("cortex-cli-").tempdir_in(folder)?;
        let home = Self { folder, url: url.to_owned() };
        for folder in [home.config(), home.codex_home(), home.project(), home.temporary()] {
            fs_err::create_dir_all(folder)?;
        }
        fs_err::write(home.codex_home().join("config.toml"), home.codex_config())?;
        Ok(home)
    }

    /// The home folder.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The empty folder that the CLI works in.
    pub fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// Claude Code's folder for settings and sessions.
    pub fn config(&self) -> PathBuf {
        self.home().join(".claude")
    }

    /// Codex's folder for settings and sessions. It must not lie in the folder for temporary files.
    pub fn codex_home(&self) -> PathBuf {
        self.home().join(".codex")
    }

    /// What Codex reads first: where its model is, and that it asks nobody else.
    fn codex_config(&self) -> String {
        let (url, (key, _)) = (&self.url, CODEX_KEY);
        format!(
            r#"model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "{key}"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"#
        )
    }

    /// OpenCode's own configuration, with the scripted server as its only provider: what a person would have there.
    ///
    /// A test may write it anew.
    pub fn opencode_config(&self) -> PathBuf {
        self.home().join(".config/opencode/opencode.json")
    }

    /// Writes [`opencode_config`](Self::opencode_config). The model is [`OPENCODE_MODEL`].
    pub fn configure_opencode(&self) -> io::Result<()> {
        let options = json!({"baseURL": format!("{}/v1", self.url), "apiKey": API_KEY});
        let limit = json!({"context": 200_000, "output": 4_000});
        let model = json!({
            "tool_call": true,
            "reasoning": true,
            "limit": limit,
            "cost": {"input": 1, "output": 2, "cache_read": 0.1},
        });
        let provider = json!({
            "npm": "@ai-sdk/openai-compatible",
            "options": options,
            "models": {"small-talk": model, "other": model},
        });
        let mut absent = provider.clone();
        if let Some(options) = absent.get_mut("options").and_then(serde_json::Value::as_object_mut)
        {
            options.insert("baseURL".to_owned(), json!("http://127.0.0.1:9/v1"));
        }
        let config = json!({
            "enabled_providers": ["scripted", "absent"],
            "model": OPENCODE_MODEL,
            "small_model": OPENCODE_MODEL,
            // A second one that nobody answers for.
            "provider": {"scripted": provider, "absent": absent},
        });
        let file = self.opencode_config();
        if let Some(folder) = file.parent() {
            fs_err::create_dir_all(folder)?;
        }
        fs_err::write(file, config.to_string())
    }

    fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    /// The variables to set, for a driver that starts the CLI itself.
    pub fn vars(&self) -> Vec<(&'static str, OsString)> {
        let mut vars = vec![
            ("HOME", self.home().into_os_string()),
            ("USERPROFILE", self.home().into_os_string()),
            ("CLAUDE_CONFIG_DIR", self.config().into_os_string()),
            ("ANTHROPIC_BASE_URL", OsString::from(&self.url)),
            ("ANTHROPIC_API_KEY", API_KEY.into()),
            ("CODEX_HOME", self.codex_home().into_os_string()),
            (CODEX_KEY.0, CODEX_KEY.1.into()),
            ("NO_PROXY", "127.0.0.1,localhost".into()),
            ("no_proxy", "127.0.0.1,localhost".into()),
        ];
        for (name, folder) in [
            ("XDG_CONFIG_HOME", ".config"),
            ("XDG_DATA_HOME", ".local/share"),
            ("XDG_STATE_HOME", ".local/state"),
            ("XDG_CACHE_HOME", ".cache"),
        ] {
            vars.push((name, self.home().join(folder).into_os_string()));
        }
        for name in ["TMPDIR", "TEMP", "TMP"] {
            vars.push((name, self.temporary().into_os_string()));
        }
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            vars.push((name, OsString::from(&self.url)));
        }
        for name in [
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "DISABLE_AUTOUPDATER",
            "DISABLE_ERROR_REPORTING",
            "DISABLE_TELEMETRY",
            "OPENCODE_DISABLE_AUTOUPDATE",
            "OPENCODE_DISABLE_LSP_DOWNLOAD",
            "OPENCODE_DISABLE_MODELS_FETCH",
        ] {
            vars.push((name, "1".into()));
        }
        vars
    }

    /// The variables of this process that the CLI must not inherit.
    pub fn stripped() -> Vec<OsString> {
        let names = std::env::vars_os().map(|(name, _)| name);
        names.filter(|name| is_foreign(&name.to_string_lossy())).collect()
    }

    /// A command that runs a CLI in this home and project.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        for name in Self::stripped() {
            command.env_remove(name);
        }
        command.envs(self.vars()).current_dir(self.project());
        command
    }
}

/// Tries to remove a home, and the pause between them: together half a second, far more than what a
/// CLI that has just ended, or a child of it, still takes to write its last file.
const REMOVALS: u32 = 25;
const BETWEEN_REMOVALS: Duration = Duration::from_millis(20);

impl Drop for CliHome {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            match fs_err::remove_dir_all(self.folder.path()) {
                // A file made during the removal is why it fails; what is gone is done.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    std::thread::sleep(BETWEEN_REMOVALS);
                }
                Ok(()) | Err(_) => return,
            }
        }
    }
}

fn is_foreign(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.ends_with("_PROXY") || FOREIGN.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Script, ScriptedAnthropic};

    #[test]
    fn what_ties_to_the_surroundings_is_foreign() {
        let foreign = ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "ANTHROPIC_AUTH_TOKEN", "all_proxy"];
        assert!(foreign.iter().all(|name| is_foreign(name)));
        assert!(!["PATH", "LANG", "DISPLAY"].iter().any(|name| is_foreign(name)));
    }

    #[tokio::test]
    async fn a_home_is_fresh_and_leads_to_the_server() {
        let server = ScriptedAnthropic::start(Script::new()).await.unwrap();
        let home = CliHome::new(&server).unwrap();
        assert!(home.project().read_dir().unwrap().next().is_none());
        let base = ("ANTHROPIC_BASE_URL", OsString::from(server.url()));
        assert!(home.vars().contains(&base));
    }
}
