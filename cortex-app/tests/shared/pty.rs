//! A program on a terminal, at which a person sits who types nothing.

use std::io::Read as _;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

/// Far more than anything takes, so that only a real failure ends it.
const PATIENCE: Duration = Duration::from_mins(1);

/// The terminal with its program.
pub(crate) struct Terminal {
    _open: Box<dyn MasterPty + Send>,
    seen: Arc<Mutex<Vec<u8>>>,
    program: Box<dyn Child + Send + Sync>,
}

impl Terminal {
    /// Runs the command there.
    pub(crate) fn runs(command: &Command) -> Self {
        let size = PtySize { rows: 40, cols: 120, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut there = CommandBuilder::new(command.get_program());
        there.args(command.get_args());
        there.env("TERM", "xterm");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => there.env(name, value),
                None => there.env_remove(name),
            }
        }
        let program = pair.slave.spawn_command(there).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, all) = (pair.master.try_clone_reader().unwrap(), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                all.lock().unwrap().extend(bytes.iter().take(count));
            }
        });
        Self { _open: pair.master, seen, program }
    }

    /// Everything that was shown until now.
    pub(crate) fn all(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// Waits until this was shown.
    pub(crate) fn sees(&self, text: &str) {
        let start = Instant::now();
        while !self.all().contains(text) {
            assert!(start.elapsed() < PATIENCE, "{text:?} never came:\n{}", self.all());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end of the program, and does this meanwhile; its exit code.
    pub(crate) fn ended(&mut self, mut meanwhile: impl FnMut()) -> u32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.program.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(start.elapsed() < PATIENCE, "it never ended:\n{}", self.all());
            meanwhile();
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
