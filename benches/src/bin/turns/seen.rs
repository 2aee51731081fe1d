//! What the driver was seen to start and to say, for the bare CLI to be the same.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cortex_lib::process::MARKER;
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::place::Place;

/// A program as it was started.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
    /// The lines that opened a session.
    pub(crate) said: Vec<Value>,
}

impl Seen {
    /// Looks at a process of a driver.
    pub(crate) fn process(pid: u32) -> Result<Self> {
        let words = |file: &str| -> Result<Vec<OsString>> {
            let bytes = fs_err::read(format!("/proc/{pid}/{file}"))?;
            let words = bytes.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.into()));
            Ok(words.collect())
        };
        let mut argv = words("cmdline")?;
        // The last zero ends the last word.
        argv.pop();
        let env = words("environ")?.into_iter().filter_map(|pair| {
            let text = pair.to_str()?;
            let (name, value) = text.split_once('=')?;
            let is_marker = name.starts_with(MARKER);
            (!is_marker).then(|| (OsString::from(name), OsString::from(value)))
        });
        let cwd = fs_err::read_link(format!("/proc/{pid}/cwd"))?;
        Ok(Self { argv, env: env.collect(), cwd, said: Vec::new() })
    }

    /// Has a driver open a session of a CLI whose input is written down.
    pub(crate) async fn listen(mut self, place: &Place) -> Result<Self> {
        let (script, log) = (place.folder.path().join("listen"), place.folder.path().join("said"));
        let text = format!(
            "#!/bin/sh\nexec 3<&0\ntee -a '{}' <&3 | '{}' \"$@\"\n",
            log.display(),
            place.executable.display()
        );
        fs_err::write(&script, text)?;
        fs_err::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
        let driver = place.cli.driver(script, place.env());
        let opened = place.open(&*driver).await?;
        opened.session.close(Duration::from_secs(5)).await;
        let said = fs_err::read_to_string(log)?;
        self.said = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(self)
    }

    /// The value of an environment variable.
    pub(crate) fn var(&self, name: &str) -> Result<String> {
        let found = self.env.iter().find(|(one, _)| one == OsStr::new(name));
        let (_, value) = found.with_context(|| format!("{name} is not set"))?;
        Ok(value.to_string_lossy().into_owned())
    }

    /// Starts it again, in a session of the system of its own as the driver and a terminal do: Linux shares the processor out among
    /// sessions, and one that is not alone in its own is up to 20 ms quicker here. `instead`: the word behind this option is
    /// another one.
    pub(crate) fn start(&self, instead: Option<(&str, String)>) -> Result<Child> {
        let mut argv = self.argv.clone();
        if let Some((option, value)) = instead {
            let at = argv.iter().position(|word| word == option);
            let word = at.and_then(|at| argv.get_mut(at + 1));
            *word.with_context(|| format!("{option} was not seen"))? = value.into();
        }
        Ok(Command::new("setsid")
            .args(argv)
            .env_clear()
            .envs(self.env.iter().cloned())
            .current_dir(&self.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?)
    }
}
