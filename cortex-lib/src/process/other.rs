//! Systems other than Linux: a process group on Unix, a job on Windows.
//!
//! What it does not do: on Unix a daemon that leaves the program's group is not found, and after a `kill -9` of
//! this process nothing is ended; [`sweep`] finds nothing, because the environment of another process
//! cannot be read without `unsafe`. A job on Windows holds everything and ends with this process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};

#[cfg(windows)]
use process_wrap::tokio::JobObject;
#[cfg(unix)]
use process_wrap::tokio::ProcessGroup;
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::sync::watch;

use super::owned::{Exit, Progress, Signal, Started};
use super::program::{Fault, Program};
#[cfg(feature = "terminal")]
use super::terminal::Slave;

pub(super) fn init() {}

#[expect(clippy::unused_async, reason = "on Linux it waits for the end of what it found")]
pub(super) async fn sweep(_markers: Vec<String>) -> usize {
    0
}

/// How the task that watches a program is told things.
pub(super) struct Control(watch::Sender<Wanted>);

/// What the handle wants of the tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    end: bool,
    interrupts: u32,
    terminates: u32,
}

impl Control {
    /// To the program only.
    pub(super) fn signal(&self, signal: Signal) {
        self.0.send_modify(|wanted| match signal {
            Signal::Interrupt => wanted.interrupts += 1,
            Signal::Terminate => wanted.terminates += 1,
        });
    }

    /// Ends everything; returns at once.
    pub(super) fn end(&self) {
        self.0.send_modify(|wanted| wanted.end = true);
    }

    /// Neither a group nor a job tells what is below the program and what is the program.
    #[expect(clippy::unused_self, reason = "on Linux it can be asked")]
    pub(super) fn clear(&self) -> Option<u32> {
        None
    }
}

#[expect(clippy::unused_async, reason = "on Linux it waits for the owner")]
pub(super) async fn start(
    program: &Program,
    env: &BTreeMap<OsString, OsString>,
) -> Result<Started, Fault> {
    let (name, arguments) = program.argv.split_first().ok_or_else(|| {
        Fault::Program(io::Error::new(io::ErrorKind::InvalidInput, "no program is named"))
    })?;
    let mut command = CommandWrap::with_new(name, |command| {
        command
            .args(arguments)
            .env_clear()
            .envs(env)
            .current_dir(&program.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    });
    command.wrap(KillOnDrop);
    #[cfg(unix)]
    command.wrap(ProcessGroup::leader());
    #[cfg(windows)]
    command.wrap(JobObject);
    let mut child = command.spawn().map_err(Fault::Program)?;

    let pid = child.id().unwrap_or(0);
    let (tell, progress) = watch::channel(Progress::default());
    let (wanted, wants) = watch::channel(Wanted::default());
    let (stdin, stdout, stderr) =
        (child.stdin().take(), child.stdout().take(), child.stderr().take());
    #[expect(clippy::disallowed_methods, reason = "it watches one tree and ends with it")]
    tokio::spawn(follow(Tree(child), pid, wants, tell));
    Ok(Started { pid, stdin, stdout, stderr, control: Control(wanted), progress })
}

/// The same for a program on a terminal. What is in its first process group ends with it; a shell with jobs makes
/// more of them, and those hear the terminal hang up. On Windows the terminal ends what is on it.
#[cfg(feature = "terminal")]
#[expect(clippy::unused_async, reason = "on Linux it waits for the owner")]
pub(super) async fn start_on_terminal(
    program: &Program,
    env: &BTreeMap<OsString, OsString>,
    slave: Slave,
) -> Result<Started, Fault> {
    let mut child = slave.spawn(program, env)?;
    drop(slave);
    let pid = child.process_id().unwrap_or(0);
    let mut killer = child.clone_killer();
    let (tell, progress) = watch::channel(Progress::default());
    let (wanted, mut wants) = watch::channel(Wanted::default());
    let (ended, exit) = tokio::sync::oneshot::channel();
    // The library waits in the way of files. The thread ends with the program.
    std::thread::Builder::new()
        .name("terminal-exit".to_owned())
        .spawn(move || ended.send(child.wait().ok()))
        .map_err(|error| Fault::Machinery("nobody can wait for it".to_owned(), error))?;
    #[expect(clippy::disallowed_methods, reason = "it watches one program and ends with it")]
    tokio::spawn(async move {
        let mut exit = exit;
        let mut done = Wanted::default();
        let status = loop {
            tokio::select! {
                biased;
                status = &mut exit => break status.ok().flatten(),
                changed = wants.changed() => {
                    let wanted = *wants.borrow_and_update();
                    if changed.is_err() || wanted.end {
                        kill_leader(pid, killer.as_mut());
                        break exit.await.ok().flatten();
                    }
                    ask_leader(pid, done, wanted);
                    done = wanted;
                }
            }
        };
        // What is left of its group.
        kill_leader(pid, killer.as_mut());
        let code = status.and_then(|status| i32::try_from(status.exit_code()).ok());
        tell.send_modify(|progress| {
            progress.exit = Some(Exit { code, signal: None });
            progress.gone = true;
        });
    });
    let control = Control(wanted);
    Ok(Started { pid, stdin: None, stdout: None, stderr: None, control, progress })
}

/// An error means that nothing of it lives.
#[cfg(all(feature = "terminal", unix))]
fn kill_leader(pid: u32, _: &mut (dyn portable_pty::ChildKiller + Send + Sync)) {
    use rustix::process::{Pid, Signal, kill_process_group};

    if let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_process_group(group, Signal::KILL).ok();
    }
}

#[cfg(all(feature = "terminal", not(unix)))]
fn kill_leader(_: u32, killer: &mut (dyn portable_pty::ChildKiller + Send + Sync)) {
    killer.kill().ok();
}

#[cfg(all(feature = "terminal", unix))]
fn ask_leader(pid: u32, done: Wanted, wanted: Wanted) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        signal(pid, done, wanted);
    }
}

#[cfg(all(feature = "terminal", not(unix)))]
fn ask_leader(_: u32, _: Wanted, _: Wanted) {}

/// The group or job, ended when it is dropped: with the runtime that watches it.
struct Tree(Box<dyn ChildWrapper>);

impl Drop for Tree {
    fn drop(&mut self) {
        // An error means that nothing of it lives.
        self.0.start_kill().ok();
    }
}

async fn follow(
    mut tree: Tree,
    pid: u32,
    mut wants: watch::Receiver<Wanted>,
    tell: watch::Sender<Progress>,
) {
    let mut done = Wanted::default();
    loop {
        tokio::select! {
            biased;
            // The program alone: the wrapper itself waits for all of its job.
            status = tree.0.inner_mut().wait() => {
                let exit = status.ok().map(exit_of);
                tell.send_modify(|progress| progress.exit = exit);
                break;
            }
            changed = wants.changed() => {
                let wanted = *wants.borrow_and_update();
                if changed.is_err() || wanted.end {
                    break;
                }
                ask(&tree, done, wanted);
                done = wanted;
            }
        }
    }
    tree.0.start_kill().ok();
    let exit = tree.0.inner_mut().wait().await.ok().map(exit_of);
    empty(&mut tree, pid).await;
    tell.send_modify(|progress| {
        progress.exit.get_or_insert(exit.unwrap_or(Exit { code: None, signal: None }));
        progress.gone = true;
    });
}

/// Asks the program politely. It is not reaped yet, so its pid is its own.
#[cfg(unix)]
fn ask(tree: &Tree, done: Wanted, wanted: Wanted) {
    let pid = tree.0.id().and_then(|pid| i32::try_from(pid).ok());
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        signal(pid, done, wanted);
    }
}

#[cfg(unix)]
fn signal(pid: rustix::process::Pid, done: Wanted, wanted: Wanted) {
    use rustix::process::{Signal, kill_process};

    for (before, now, signal) in [
        (done.interrupts, wanted.interrupts, Signal::INT),
        (done.terminates, wanted.terminates, Signal::TERM),
    ] {
        if now > before {
            kill_process(pid, signal).ok();
        }
    }
}

#[cfg(windows)]
fn ask(_tree: &Tree, _done: Wanted, _wanted: Wanted) {}

/// Waits until the group has no member. Its members are not all children of this process, so it has to look.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "a process of others tells nobody that it is gone")]
async fn empty(tree: &mut Tree, pid: u32) {
    use std::time::Duration;

    use rustix::process::{Pid, test_kill_process_group};

    let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    while test_kill_process_group(group).is_ok() {
        tree.0.start_kill().ok();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[cfg(windows)]
async fn empty(tree: &mut Tree, _pid: u32) {
    tree.0.wait().await.ok();
}

fn exit_of(status: ExitStatus) -> Exit {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal = None;
    Exit { code: status.code(), signal }
}
