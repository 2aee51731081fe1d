//! A program that runs without an owner: this process is its parent and looks for its tree.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Stdio;
use std::sync::Arc;

use rustix::process::{
    Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::super::owned::{Exit, Progress, Signal, Started};
use super::super::program::{Fault, Program};
#[cfg(feature = "terminal")]
use super::super::terminal::Slave;
use super::hunt::Hunt;
use super::proc::Proc;
use super::raw;

/// How the task that watches a program is told things.
pub(in crate::process) struct Watch {
    handle: Arc<OwnedFd>,
    wanted: watch::Sender<Wanted>,
}

/// What the handle wants of the tree.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    end: bool,
    clears: u32,
}

impl Watch {
    /// An error means that the program has ended.
    pub(super) fn signal(&self, signal: Signal) {
        pidfd_send_signal(&self.handle, raw(signal)).ok();
    }

    pub(super) fn end(&self) {
        self.wanted.send_modify(|wanted| wanted.end = true);
    }

    pub(super) fn clear(&self) -> u32 {
        self.wanted.send_modify(|wanted| wanted.clears += 1);
        self.wanted.borrow().clears
    }
}

#[expect(clippy::disallowed_methods, reason = "this module starts processes")]
pub(super) fn start(
    program: &Program,
    env: &BTreeMap<OsString, OsString>,
) -> Result<Started, Fault> {
    let (name, arguments) = program.argv.split_first().ok_or_else(|| {
        Fault::Program(io::Error::new(io::ErrorKind::InvalidInput, "no program is named"))
    })?;
    let mut child = Command::new(name)
        .args(arguments)
        .env_clear()
        .envs(env)
        .current_dir(&program.cwd)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Fault::Program)?;
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let pid = child.id().unwrap_or(0);
    let started = watched(Leader::Piped(child), pid, env)?;
    let (stdin, stdout, stderr) = streams;
    Ok(Started { stdin, stdout, stderr, ..started })
}

/// The same for a program on a terminal.
#[cfg(feature = "terminal")]
pub(super) fn start_on_terminal(
    program: &Program,
    env: &BTreeMap<OsString, OsString>,
    slave: &Slave,
) -> Result<Started, Fault> {
    let child = slave.spawn(program, env)?;
    let pid = child.process_id().unwrap_or(0);
    watched(Leader::OnTerminal(child), pid, env)
}

/// The program itself, as it is reaped.
enum Leader {
    Piped(Child),
    #[cfg(feature = "terminal")]
    OnTerminal(Box<dyn portable_pty::Child + Send + Sync>),
}

impl Leader {
    /// Only called when it has ended, so it does not wait.
    async fn reap(&mut self) {
        match self {
            Self::Piped(child) => drop(child.wait().await),
            #[cfg(feature = "terminal")]
            Self::OnTerminal(child) => drop(child.wait()),
        }
    }
}

/// Lets a task watch a program that runs.
#[expect(clippy::disallowed_methods, reason = "the task watches one tree and ends with it")]
fn watched(leader: Leader, pid: u32, env: &BTreeMap<OsString, OsString>) -> Result<Started, Fault> {
    let mut tree = Tree { hunt: Hunt::of_program(Proc::of(pid), env), gone: false };
    // The program is not reaped before this process asks for it, so the pid is still its own.
    let handle = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or(rustix::io::Errno::SRCH)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
        .map_err(|error| Fault::Machinery("no pidfd".to_owned(), error.into()))?;
    let handle = Arc::new(handle);
    #[expect(
        deprecated,
        reason = "its successor is unsafe to call; this descriptor is owned and stays open"
    )]
    let ended = AsyncFd::with_interest(Arc::clone(&handle), Interest::READABLE)
        .map_err(|error| Fault::Machinery("it cannot be watched".to_owned(), error))?;

    let (tell, progress) = watch::channel(Progress::default());
    let (wanted, wants) = watch::channel(Wanted::default());
    tokio::spawn(async move {
        serve(&mut tree.hunt, &ended, wants, &tell).await;
        finish(tree, leader, &ended, &tell).await;
    });
    let control = super::Control::Direct(Watch { handle, wanted });
    Ok(Started { pid, stdin: None, stdout: None, stderr: None, control, progress })
}

/// A tree that is ended when it is dropped before its end was seen: with the runtime that watches it.
struct Tree {
    hunt: Hunt,
    gone: bool,
}

impl Drop for Tree {
    fn drop(&mut self) {
        if !self.gone {
            self.hunt.end_now();
        }
    }
}

/// Does as the handle wants, until the program ends.
async fn serve(
    hunt: &mut Hunt,
    ended: &AsyncFd<Arc<OwnedFd>>,
    mut wants: watch::Receiver<Wanted>,
    tell: &watch::Sender<Progress>,
) {
    let mut cleared = 0;
    loop {
        tokio::select! {
            biased;
            _ = ended.readable() => return,
            changed = wants.changed() => {
                let wanted = *wants.borrow_and_update();
                if changed.is_err() || wanted.end {
                    return;
                }
                if wanted.clears > cleared {
                    hunt.clear().await;
                    cleared = wanted.clears;
                    tell.send_modify(|progress| progress.cleared = cleared);
                }
            }
        }
    }
}

/// Tells how the program ended, and ends everything else. Only then is the program reaped: until then its pid
/// and the number of its group are its own.
async fn finish(
    mut tree: Tree,
    mut leader: Leader,
    ended: &AsyncFd<Arc<OwnedFd>>,
    tell: &watch::Sender<Progress>,
) {
    if let Some(exit) = peek(ended) {
        tell.send_modify(|progress| progress.exit = Some(exit));
    }
    tree.hunt.end().await;
    let exit = peek(ended).unwrap_or(Exit { code: None, signal: None });
    leader.reap().await;
    tree.gone = true;
    tell.send_modify(|progress| {
        progress.exit.get_or_insert(exit);
        progress.gone = true;
    });
}

/// How the program ended, without reaping it; `None` while it runs.
fn peek(handle: &AsyncFd<Arc<OwnedFd>>) -> Option<Exit> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::PidFd(handle.get_ref().as_fd()), options).ok()??;
    let exit = Exit { code: status.exit_status(), signal: status.terminating_signal() };
    (exit.code.is_some() || exit.signal.is_some()).then_some(exit)
}
