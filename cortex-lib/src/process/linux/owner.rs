//! The owner: a process of our own above one program. It runs the program and ends everything below itself when
//! the program ends or when the core is gone.
//!
//! As a subreaper it inherits every orphan of the tree, also daemons with a cleared environment, and
//! nothing else. So it can say exactly when nothing lives: when it has no child left.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, WaitOptions, WaitStatus, getpid, getppid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, setsid, wait,
};

use super::super::owned::{Exit, Signal};
use super::hunt::pauses;
use super::leader;
use super::proc::{Snapshot, strike};
use super::raw;
use super::wire::{Order, Place, Report, Request, receive_pipes};

/// Both together tell an executable that it is started as an owner. One alone may be an accident.
pub(super) const ARGUMENT: &str = "__cortex-owner";
pub(super) const VARIABLE: &str = "CORTEX_OWNER_PROCESS";

/// How often orphans that ended by themselves are reaped. They cost nothing but their pid.
const REAP_EVERY: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// Rounds that clearing takes at most: a program that starts what was ended again and again is left to it.
const CLEAR_ROUNDS_MAX: u32 = 100;

/// What this executable was started as, when not as itself.
pub(super) enum Part {
    /// An owner.
    Owner,
    /// A program on a terminal that is about to be.
    Leader,
}

/// Whether this process was started to do another work than main's.
#[expect(clippy::disallowed_methods, reason = "this is how an owner is told what it is")]
pub(super) fn meant() -> Option<Part> {
    std::env::var_os(VARIABLE)?;
    let argument = std::env::args_os().nth(1)?;
    [(ARGUMENT, Part::Owner), (leader::ARGUMENT, Part::Leader)]
        .into_iter()
        .find_map(|(name, part)| (argument == name).then_some(part))
}

/// Does the work of an owner, from the order on standard input to the end of everything below.
pub(super) fn run() -> io::Result<()> {
    // The end of the socket tells that the core is gone. The pidfd tells it even when another child of the
    // core has got hold of the core's end.
    let core = getppid().and_then(|core| pidfd_open(core, PidfdFlags::empty()).ok());
    // A session of its own: neither Ctrl-C nor a hang-up of the core's terminal is meant for it, and the
    // program has no terminal to ask questions on.
    setsid().ok();
    set_child_subreaper(Some(getpid()))?;
    fs_err::write("/proc/self/comm", "cortex-owner").ok();

    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(fs_err::File::open("/dev/null")?.file())?;
    let pipes = receive_pipes(&socket)?;
    let order = Order::read(&mut socket)?;
    let started = match order.place {
        Place::Pipes => spawn(order, pipes),
        Place::Terminal => leader::spawn(order, pipes),
    };
    let program = match started {
        Ok(program) => program,
        Err(error) => return socket.write_all(&refused(&error).bytes()),
    };
    let handle = pidfd_open(program, PidfdFlags::empty())?;
    let mut owner = Owner { socket, core, program, handle, exit: None };
    owner.report(Report::Started(program.as_raw_pid()));
    owner.serve();
    owner.end_all();
    Ok(())
}

/// Starts the program. Afterwards only the program holds its ends of the pipes: the core must see their end.
#[expect(clippy::disallowed_methods, reason = "this module is the one that starts processes")]
fn spawn(order: Order, [stdin, stdout, stderr]: [OwnedFd; 3]) -> io::Result<Pid> {
    let mut argv = order.argv.into_iter();
    let program = argv.next().ok_or(io::ErrorKind::InvalidInput)?;
    let child = Command::new(program)
        .args(argv)
        .env_clear()
        .envs(order.env)
        .current_dir(order.cwd)
        .process_group(0)
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(stderr))
        .spawn()?;
    Ok(Pid::from_child(&child))
}

fn refused(error: &io::Error) -> Report {
    Report::Refused(error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()))
}

struct Owner {
    socket: UnixStream,
    core: Option<OwnedFd>,
    program: Pid,
    handle: OwnedFd,
    exit: Option<Exit>,
}

/// What is left after reaping.
#[derive(PartialEq, Eq)]
enum Left {
    Something,
    Nothing,
}

impl Owner {
    /// Does as the core asks, until the program ends or the core is gone.
    fn serve(&mut self) {
        loop {
            let mut fds = vec![
                PollFd::new(&self.socket, PollFlags::IN),
                PollFd::new(&self.handle, PollFlags::IN),
            ];
            fds.extend(self.core.iter().map(|core| PollFd::new(core, PollFlags::IN)));
            if poll(&mut fds, Some(&REAP_EVERY)).is_err() {
                continue;
            }
            let told = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
            let (asked, core_gone) = (told(0), told(2));
            drop(fds);
            self.reap();
            if core_gone || self.exit.is_some() || (asked && !self.hear()) {
                return;
            }
        }
    }

    /// Reads requests and does them. `false`: there will be no more.
    fn hear(&mut self) -> bool {
        let mut bytes = [0; 64];
        let count = match self.socket.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(_) => 0,
        };
        for request in bytes.iter().take(count).copied().filter_map(Request::of) {
            match request {
                Request::Interrupt => self.signal(Signal::Interrupt),
                Request::Terminate => self.signal(Signal::Terminate),
                Request::Clear => self.clear(),
            }
        }
        count > 0
    }

    /// An error means that the program has ended, and that is told already.
    fn signal(&self, signal: Signal) {
        pidfd_send_signal(&self.handle, raw(signal)).ok();
    }

    /// An error means that the core is gone, and that is seen by its pidfd.
    fn report(&mut self, report: Report) {
        self.socket.write_all(&report.bytes()).ok();
    }

    /// Ends everything below the program.
    fn clear(&mut self) {
        let mut quiet = 0;
        for (pause, _) in pauses().zip(0..CLEAR_ROUNDS_MAX) {
            quiet = if strike_below(Some(self.program)) { quiet + 1 } else { 0 };
            self.reap();
            // Twice: a look may miss what is being started meanwhile.
            if quiet == 2 || self.exit.is_some() {
                break;
            }
            rest(pause);
        }
        self.report(Report::Cleared);
    }

    /// Ends everything. It does not give up: what the kernel does not let go of now, it does later.
    fn end_all(&mut self) {
        for pause in pauses() {
            strike_below(None);
            if self.reap() == Left::Nothing {
                return;
            }
            rest(pause);
        }
    }

    /// Takes note of everything that ended. This process has no children but the tree.
    fn reap(&mut self) -> Left {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.program => {
                    let exit = exit_of(status);
                    self.exit = Some(exit);
                    self.report(Report::Exited(exit));
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return Left::Something,
                Err(_) => return Left::Nothing,
            }
        }
    }
}

/// One look below this process, and the end of what it finds. Whether nothing was found that lives.
fn strike_below(spare: Option<Pid>) -> bool {
    let all = Snapshot::take();
    let spare = spare.map(Pid::as_raw_pid);
    let living: Vec<_> = all
        .below([getpid().as_raw_pid()])
        .into_iter()
        .filter(|proc| Some(proc.pid) != spare && all.get(*proc).is_some_and(|stat| !stat.dead))
        .collect();
    strike(&living);
    living.is_empty()
}

#[expect(clippy::disallowed_methods, reason = "an owner has nothing else to do meanwhile")]
fn rest(pause: Duration) {
    std::thread::sleep(pause);
}

fn exit_of(status: WaitStatus) -> Exit {
    Exit { code: status.exit_status(), signal: status.terminating_signal() }
}
