//! `cortex mcp config`: the configuration of a client, printed or put where the client keeps it.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use clap::Args;
use cortex_lib::error::{Code, Error, Problem, Result};
use cortex_lib::secret::redact;
use fs_err as fs;
use serde_json::json;
use similar::TextDiff;

use super::client::{Client, Places};
use crate::cli::{Exit, Global, Screen};

/// Print what a client needs in its configuration, or put it there
#[derive(Debug, Args)]
pub(super) struct Config {
    /// The client
    #[arg(long, value_enum)]
    client: Client,
    /// Put it where the client keeps it; the change is shown, and you are asked
    #[arg(long)]
    install: bool,
    /// Do not ask
    #[arg(short, long, requires = "install")]
    yes: bool,
    /// What the client calls the server
    #[arg(long, default_value = "cortex")]
    name: String,
    /// Let the client open a core when none runs; it ends with the client
    #[arg(long)]
    embedded: bool,
}

impl Config {
    pub(super) fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        self.check_name()?;
        let places = Places::here().ok_or_else(|| {
            Error::new(Code::OutputFailed, "this user has no home folder")
                .remedy("Set HOME, and run this again.")
        })?;
        let file = self.client.file(&places);
        if self.install {
            return self.put(global, screen, &file);
        }
        let text = self.text("", global, &file)?;
        let facts = json!({ "client_file": file, "text": text });
        screen.show(&facts, |_| text.clone())?;
        screen.note(&format!("\nIt belongs into {}; --install puts it there.", file.display()));
        Ok(Exit::Done)
    }

    fn put(&self, global: &Global, screen: Screen, file: &Path) -> Result<Exit> {
        let old = read(file)?;
        let new = self.text(old.as_deref().unwrap_or_default(), global, file)?;
        let title = self.client.title();
        let say = |is_changed: bool, text: String| {
            let facts = json!({ "client_file": file, "changed": is_changed });
            screen.show(&facts, |_| text).map(|()| Exit::Done)
        };
        if old.as_ref() == Some(&new) {
            return say(false, format!("{title} has it already, in {}", file.display()));
        }
        let shown = change(old.as_deref().unwrap_or_default(), &new, file);
        screen.note(&shown);
        if !self.yes && !asked(&format!("Change {}? [y]es, [n]o: ", file.display()))? {
            return say(false, "Nothing was changed.".to_owned());
        }
        replace(file, old.as_deref(), &new)?;
        say(true, format!("Changed {}. Start {title} again to use it.", file.display()))
    }

    /// The text of the client's file with the server in it.
    fn text(&self, old: &str, global: &Global, file: &Path) -> Result<String> {
        let program = std::env::current_exe().map_err(|error| {
            Error::new(Code::Defect, format!("this program cannot be found: {error}"))
        })?;
        let mut words = Vec::new();
        if global.data_dir.is_some() {
            words.push("--data-dir".to_owned());
            words.push(global.data_dir()?.display().to_string());
        }
        words.push("mcp".to_owned());
        words.extend(self.embedded.then(|| "--embedded".to_owned()));
        let entry = self.client.entry(&program, &words);
        let (format, servers) = (self.client.format(), self.client.servers());
        format.put(old, servers, &self.name, &entry).map_err(|why| {
            let message = format!("{} cannot be changed: {why}", file.display());
            let remedy = "Correct the file; or put in by hand what this prints without --install.";
            Error::new(Code::ConfigInvalid, message).remedy(remedy)
        })
    }

    /// All clients take these names.
    fn check_name(&self) -> Result<()> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if (1..=32).contains(&self.name.len()) && self.name.chars().all(is_plain) {
            return Ok(());
        }
        let problem = Problem::new("name", "is not 1 to 32 letters, digits, `_` and `-`");
        Err(Error::invalid(Code::InvalidArguments, vec![problem]))
    }
}

/// What would change, as people read it. What stands around it may hold the secrets of other servers.
fn change(old: &str, new: &str, file: &Path) -> String {
    let name = file.display().to_string();
    let diff = TextDiff::from_lines(old, new).unified_diff().header(&name, &name).to_string();
    redact(&diff).into_owned()
}

fn asked(question: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        let problem = Problem::new("yes", "is missing: nobody is there to be asked");
        return Err(Error::invalid(Code::InvalidArguments, vec![problem]));
    }
    let mut line = String::new();
    let heard = write!(io::stderr(), "{question}")
        .and_then(|()| io::stderr().flush())
        .and_then(|()| io::stdin().lock().read_line(&mut line));
    // Who cannot answer has not agreed.
    Ok(heard.is_ok() && matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn read(file: &Path) -> Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unwritable(&error)),
    }
}

/// Puts `new` in the place of `old`, as a whole: a client that starts meanwhile reads one or the other.
fn replace(file: &Path, old: Option<&str>, new: &str) -> Result<()> {
    // People keep such files elsewhere, and link to them.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let write = || -> io::Result<bool> {
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut fresh = tempfile::Builder::new().prefix(".cortex-").tempfile_in(folder)?;
        fresh.write_all(new.as_bytes())?;
        if let Ok(known) = fs::metadata(&file) {
            fresh.as_file().set_permissions(known.permissions())?;
        }
        fresh.as_file().sync_all()?;
        // The client may have written while the person was asked.
        if fs::read_to_string(&file).ok().as_deref() != old {
            return Ok(false);
        }
        fresh.persist(&file).map_err(|error| error.error)?;
        Ok(true)
    };
    match write() {
        Ok(true) => Ok(()),
        Ok(false) => {
            let message = format!("{} changed meanwhile, and was left as it is", file.display());
            Err(Error::new(Code::OutputFailed, message).remedy("Run this again."))
        }
        Err(error) => Err(unwritable(&error)),
    }
}

fn unwritable(error: &io::Error) -> Error {
    Error::new(Code::OutputFailed, error.to_string()).remedy(
        "Check that the file is yours; or put in by hand what this prints without --install.",
    )
}
