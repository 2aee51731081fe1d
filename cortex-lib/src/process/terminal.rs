//! Pseudo-terminals: what a program on one prints and reads, from outside.
//!
//! The libraries for it read and write in the way of files, so each terminal has two threads. They end with the
//! program: its terminal is gone when nothing of its tree holds it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use portable_pty::{CommandBuilder, MasterPty, PtySize, SlavePty, native_pty_system};
use tokio::sync::mpsc;

use super::program::{Fault, Program};
use crate::domain::terminal::TerminalSize;
use crate::error::{Code, Error, Result};

/// What is read at once. A kernel hands out less.
const READ_BYTES: usize = 16 * 1024;
/// Pieces of output that nobody has taken yet before the program waits.
const OUTPUT_MAX: usize = 16;
/// Pieces of input that the program has not read yet before whoever types waits.
const INPUT_MAX: usize = 64;

/// What tells a program which terminal it runs on. The terminal around this process is another one.
pub(super) const FOREIGN: [&str; 33] = [
    "TERM",
    "COLORTERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERMINAL_EMULATOR",
    "TERMINFO",
    "COLUMNS",
    "LINES",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "WINDOW",
    "WINDOWID",
    "ZELLIJ",
    "ZELLIJ_SESSION_NAME",
    "VTE_VERSION",
    "KONSOLE_VERSION",
    "KITTY_WINDOW_ID",
    "KITTY_PID",
    "KITTY_LISTEN_ON",
    "WEZTERM_PANE",
    "WEZTERM_UNIX_SOCKET",
    "WEZTERM_EXECUTABLE",
    "ALACRITTY_WINDOW_ID",
    "ALACRITTY_SOCKET",
    "GHOSTTY_RESOURCES_DIR",
    "ITERM_SESSION_ID",
    "ITERM_PROFILE",
    "LC_TERMINAL",
    "LC_TERMINAL_VERSION",
    "WT_SESSION",
    "WT_PROFILE_ID",
    "GPG_TTY",
];

/// What it is told instead.
pub(super) const OWN: [(&str, &str); 2] = [("TERM", "xterm-256color"), ("COLORTERM", "truecolor")];

/// The near side of the terminal of a program. Dropping it ends nothing; [`Owned`](super::Owned) does.
pub struct Pty {
    // Told its size by whoever holds the handle, for the time of one call.
    master: Mutex<Box<dyn MasterPty + Send>>,
    // Taken once.
    output: Mutex<Option<mpsc::Receiver<Vec<u8>>>>,
    input: mpsc::Sender<Vec<u8>>,
}

impl Pty {
    /// What the program prints, as it comes, until nothing of its tree holds the terminal; `None` after the first
    /// call. A program whose output nobody takes waits.
    pub fn take_output(&self) -> Option<mpsc::Receiver<Vec<u8>>> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Types. It waits while the program does not read.
    ///
    /// # Errors
    ///
    /// `runtime.session_ended` when nobody can read it any more.
    pub async fn write(&self, bytes: Vec<u8>) -> Result<()> {
        self.input.send(bytes).await.map_err(|_| hung_up())
    }

    /// Types if that does not have to wait. Whether it did.
    pub fn try_write(&self, bytes: Vec<u8>) -> bool {
        self.input.try_send(bytes).is_ok()
    }

    /// Gives the terminal another size; the program hears of it.
    ///
    /// # Errors
    ///
    /// `runtime.session_ended` when the terminal is gone.
    pub fn resize(&self, size: TerminalSize) -> Result<()> {
        let master = self.master.lock().unwrap_or_else(PoisonError::into_inner);
        master.resize(pty_size(size)).map_err(|error| hung_up().with("cause", error.to_string()))
    }
}

impl fmt::Debug for Pty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pty").finish_non_exhaustive()
    }
}

/// The far side, for the program that is started.
pub(super) struct Slave {
    pub(super) end: Box<dyn SlavePty + Send>,
    /// Where it is in the file system, where terminals are.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only an owner opens it"))]
    pub(super) path: Option<PathBuf>,
}

impl Slave {
    /// Starts a program on it, below this process.
    pub(super) fn spawn(
        &self,
        program: &Program,
        env: &BTreeMap<OsString, OsString>,
    ) -> Result<Box<dyn portable_pty::Child + Send + Sync>, Fault> {
        if program.argv.is_empty() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "no program is named");
            return Err(Fault::Program(error));
        }
        // The library would take another folder.
        if !program.cwd.is_dir() {
            return Err(Fault::Program(io::ErrorKind::NotFound.into()));
        }
        let mut command = CommandBuilder::from_argv(program.argv.clone());
        command.cwd(&program.cwd);
        command.env_clear();
        for (name, value) in env {
            command.env(name, value);
        }
        self.end.spawn_command(command).map_err(|error| match error.downcast::<io::Error>() {
            Ok(error) => Fault::Program(error),
            Err(error) => Fault::Program(io::Error::other(error.to_string())),
        })
    }
}

/// Makes a terminal.
pub(super) fn open(size: TerminalSize) -> Result<(Pty, Slave), Fault> {
    let broken = |error: &dyn fmt::Display| {
        Fault::Machinery("no terminal".to_owned(), io::Error::other(error.to_string()))
    };
    let pair = native_pty_system().openpty(pty_size(size)).map_err(|error| broken(&error))?;
    let reader = pair.master.try_clone_reader().map_err(|error| broken(&error))?;
    let writer = pair.master.take_writer().map_err(|error| broken(&error))?;
    #[cfg(unix)]
    let path = pair.master.tty_name();
    #[cfg(not(unix))]
    let path = None;
    let (printed, output) = mpsc::channel(OUTPUT_MAX);
    let (input, typed) = mpsc::channel(INPUT_MAX);
    thread("terminal-output", move || read(reader, &printed)).map_err(|error| broken(&error))?;
    thread("terminal-input", move || write(writer, typed)).map_err(|error| broken(&error))?;
    let pty = Pty { master: Mutex::new(pair.master), output: Mutex::new(Some(output)), input };
    Ok((pty, Slave { end: pair.slave, path }))
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // Nobody joins it: it ends with the terminal, which may be after whoever started it.
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

fn read(mut reader: Box<dyn Read + Send>, printed: &mpsc::Sender<Vec<u8>>) {
    let mut bytes = vec![0; READ_BYTES];
    loop {
        match reader.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(count) => {
                let piece = bytes.get(..count).unwrap_or_default().to_vec();
                if printed.blocking_send(piece).is_err() {
                    return;
                }
            }
        }
    }
}

fn write(mut writer: Box<dyn Write + Send>, mut typed: mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = typed.blocking_recv() {
        if writer.write_all(&bytes).and_then(|()| writer.flush()).is_err() {
            return;
        }
    }
}

fn pty_size(size: TerminalSize) -> PtySize {
    let TerminalSize { rows, columns } = size.within_bounds();
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn hung_up() -> Error {
    Error::new(Code::RuntimeSessionEnded, "the terminal has hung up")
}
