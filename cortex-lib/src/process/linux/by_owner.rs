//! This process's side of a program that runs under an owner.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, pipe};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::super::owned::{Exit, Progress, Signal, Started};
use super::super::program::{Fault, Program, is_own};
#[cfg(feature = "terminal")]
use super::super::terminal::Slave;
use super::hunt::Hunt;
use super::owner::{ARGUMENT, VARIABLE};
use super::proc::Proc;
use super::wire::{Order, Place, Report, Request, send_pipes};

/// This executable, also when its file was replaced or removed since.
const THIS_EXECUTABLE: &str = "/proc/self/exe";

/// The line to an owner. Closing it ends the tree.
pub(in crate::process) struct Line {
    // Written by whoever holds the handle, one byte at a time, never while waiting.
    open: Mutex<Option<Open>>,
}

struct Open {
    write: OwnedWriteHalf,
    clears: u32,
}

impl Line {
    pub(super) fn signal(&self, signal: Signal) {
        self.ask(match signal {
            Signal::Interrupt => Request::Interrupt,
            Signal::Terminate => Request::Terminate,
        });
    }

    pub(super) fn clear(&self) -> Option<u32> {
        self.ask(Request::Clear)
    }

    pub(super) fn close(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// The number of clears asked for so far; `None` when the owner is gone or on its way.
    fn ask(&self, request: Request) -> Option<u32> {
        let mut line = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = line.as_mut()?;
        open.write.try_write(&[request.byte()]).ok()?;
        open.clears += u32::from(request == Request::Clear);
        Some(open.clears)
    }
}

/// Starts an owner, hands the program over and waits for its answer.
pub(super) async fn start(
    program: &Program,
    env: &BTreeMap<OsString, OsString>,
) -> Result<Started, Fault> {
    let order = order(Place::Pipes, program, env)?;
    let (their_stdin, stdin) = pipe().map_err(broken("no pipe"))?;
    let (stdout, their_stdout) = pipe().map_err(broken("no pipe"))?;
    let (stderr, their_stderr) = pipe().map_err(broken("no pipe"))?;
    let theirs = [their_stdin.into(), their_stdout.into(), their_stderr.into()];
    let run = Run::begin(&order, theirs).await?;
    let started = run.watched(env);
    let pipes = || {
        Ok::<_, io::Error>((
            tokio::process::ChildStdin::from_std(ChildStdin::from(OwnedFd::from(stdin)))?,
            tokio::process::ChildStdout::from_std(ChildStdout::from(OwnedFd::from(stdout)))?,
            tokio::process::ChildStderr::from_std(ChildStderr::from(OwnedFd::from(stderr)))?,
        ))
    };
    let (stdin, stdout, stderr) = pipes().map_err(broken("no pipe"))?;
    Ok(Started { stdin: Some(stdin), stdout: Some(stdout), stderr: Some(stderr), ..started })
}

/// The same for a program on a terminal.
#[cfg(feature = "terminal")]
pub(super) async fn start_on_terminal(
    program: &Program,
    env: &BTreeMap<OsString, OsString>,
    slave: Slave,
) -> Result<Started, Fault> {
    let order = order(Place::Terminal, program, env)?;
    let ends = far_ends(&slave).map_err(broken("no terminal"))?;
    // Only the program holds it: its end is the end of the output.
    drop(slave);
    Ok(Run::begin(&order, ends).await?.watched(env))
}

/// The terminal for the program, three times. The library does not hand its own out, so it is opened anew.
#[cfg(feature = "terminal")]
fn far_ends(slave: &Slave) -> io::Result<[OwnedFd; 3]> {
    use fs_err::os::unix::fs::OpenOptionsExt as _;

    let path = slave.path.as_ref().ok_or(io::ErrorKind::NotFound)?;
    // This process may have no terminal, and this one shall not become its own.
    let no_control = rustix::fs::OFlags::NOCTTY.bits().cast_signed();
    let mut options = fs_err::OpenOptions::new();
    let end = options.read(true).write(true).custom_flags(no_control).open(path)?;
    let end = OwnedFd::from(end.into_file());
    Ok([end.try_clone()?, end.try_clone()?, end])
}

fn order(
    place: Place,
    program: &Program,
    env: &BTreeMap<OsString, OsString>,
) -> Result<Vec<u8>, Fault> {
    Order::encode(place, &program.argv, &program.cwd, env).map_err(Fault::Program)
}

fn broken(what: &str) -> impl Fn(io::Error) -> Fault {
    move |error| Fault::Machinery(what.to_owned(), error)
}

/// An owner whose program runs.
struct Run {
    owner: Child,
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
    pid: u32,
}

impl Run {
    async fn begin(order: &[u8], ends: [OwnedFd; 3]) -> Result<Self, Fault> {
        let (ours, theirs) = UnixStream::pair().map_err(broken("no socket"))?;
        let mut owner = spawn_owner(theirs).map_err(broken("no owner process"))?;
        let handed = hand_over(ours, ends, order).await;
        let (mut read, write) = handed.map_err(broken("its owner process does not listen"))?;
        match read_report(&mut read).await.map_err(broken("its owner process ended"))? {
            Report::Started(pid) => {
                Ok(Self { owner, read, write, pid: u32::try_from(pid).unwrap_or(0) })
            }
            Report::Refused(error) => {
                // It has nothing to clean up and ends by itself.
                owner.wait().await.ok();
                Err(Fault::Program(io::Error::from_raw_os_error(error)))
            }
            Report::Exited(_) | Report::Cleared => {
                let error = io::Error::from(io::ErrorKind::InvalidData);
                Err(Fault::Machinery("its owner process makes no sense".to_owned(), error))
            }
        }
    }

    /// Lets a task watch it.
    fn watched(self, env: &BTreeMap<OsString, OsString>) -> Started {
        let (tell, progress) = watch::channel(Progress::default());
        let hunt = Hunt::of_program(Proc::of(self.pid), env);
        #[expect(clippy::disallowed_methods, reason = "it watches one tree and ends with it")]
        tokio::spawn(follow(self.owner, self.read, hunt, tell));
        let line = Line { open: Mutex::new(Some(Open { write: self.write, clears: 0 })) };
        Started {
            pid: self.pid,
            stdin: None,
            stdout: None,
            stderr: None,
            control: super::Control::Owner(line),
            progress,
        }
    }
}

/// Starts this executable as an owner. Its end of the socket is closed here when it returns.
#[expect(clippy::disallowed_methods, reason = "this module is the one that starts processes")]
fn spawn_owner(socket: UnixStream) -> io::Result<Child> {
    let mut command = Command::new(THIS_EXECUTABLE);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_own(name)) {
        command.env_remove(name);
    }
    command
        .arg0("cortex-owner")
        .arg(ARGUMENT)
        .env(VARIABLE, "1")
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Sends the pipes, of which nothing stays here, and the order.
async fn hand_over(
    socket: UnixStream,
    pipes: [OwnedFd; 3],
    order: &[u8],
) -> io::Result<(OwnedReadHalf, OwnedWriteHalf)> {
    send_pipes(&socket, pipes.each_ref().map(|pipe| pipe.as_fd()))?;
    drop(pipes);
    socket.set_nonblocking(true)?;
    let (read, mut write) = tokio::net::UnixStream::from_std(socket)?.into_split();
    write.write_all(order).await?;
    Ok((read, write))
}

async fn read_report(from: &mut OwnedReadHalf) -> io::Result<Report> {
    let mut bytes = [0; 5];
    from.read_exact(&mut bytes).await?;
    Report::of(bytes)
}

/// Takes note of what the owner tells, until nothing of the tree lives.
async fn follow(
    mut owner: Child,
    mut read: OwnedReadHalf,
    mut hunt: Hunt,
    tell: watch::Sender<Progress>,
) {
    while let Ok(report) = read_report(&mut read).await {
        tell.send_modify(|progress| match report {
            Report::Exited(exit) => progress.exit = Some(exit),
            Report::Cleared => progress.cleared += 1,
            Report::Started(_) | Report::Refused(_) => {}
        });
    }
    let well = owner.wait().await.is_ok_and(|status| status.success());
    if !well {
        tracing::warn!("an owner process was killed; looking for what it owned");
        hunt.end().await;
    }
    tell.send_modify(|progress| {
        progress.exit.get_or_insert(Exit { code: None, signal: None });
        progress.gone = true;
    });
}
