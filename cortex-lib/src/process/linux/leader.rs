//! A program on a terminal: this executable once more, which makes the terminal its own and becomes the program.
//!
//! Between fork and exec of another process only unsafe code could do that. After the exec of our own it is
//! plain code, and the next exec keeps the pid.

use std::io::{self, Read as _, Write as _, pipe};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, ioctl_tiocsctty, setsid};

use super::owner::VARIABLE;
use super::wire::Order;

/// Tells an executable that it is started as a leader.
pub(super) const ARGUMENT: &str = "__cortex-leader";

/// Starts the program of an order on its terminal. It runs when this returns.
#[expect(clippy::disallowed_methods, reason = "this module is one that starts processes")]
pub(super) fn spawn(order: Order, [stdin, stdout, _]: [OwnedFd; 3]) -> io::Result<Pid> {
    let (mut trouble, their_trouble) = pipe()?;
    let child = Command::new("/proc/self/exe")
        .arg0("cortex-leader")
        .arg(ARGUMENT)
        .args(order.argv)
        .env_clear()
        .envs(order.env)
        .env(VARIABLE, "1")
        .current_dir(order.cwd)
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(OwnedFd::from(their_trouble)))
        .spawn()?;
    let mut number = [0; 4];
    match trouble.read_exact(&mut number) {
        Ok(()) => Err(io::Error::from_raw_os_error(i32::from_le_bytes(number))),
        // The pipe went with the exec of the program.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Pid::from_child(&child)),
        Err(error) => Err(error),
    }
}

/// Becomes the program. It returns only when that fails.
pub(super) fn run() -> io::Result<()> {
    // A copy that goes with the exec; standard error itself becomes the terminal.
    let mut trouble = io::PipeWriter::from(io::stderr().as_fd().try_clone_to_owned()?);
    let error = lead();
    let number = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
    trouble.write_all(&number.to_le_bytes())?;
    Err(error)
}

#[expect(clippy::disallowed_methods, reason = "this module is one that starts processes")]
fn lead() -> io::Error {
    let on_terminal = || -> io::Result<()> {
        rustix::stdio::dup2_stderr(io::stdin())?;
        setsid()?;
        ioctl_tiocsctty(io::stdin())?;
        Ok(())
    };
    if let Err(error) = on_terminal() {
        return error;
    }
    let mut argv = std::env::args_os().skip(2);
    let Some(program) = argv.next() else { return io::ErrorKind::InvalidInput.into() };
    Command::new(program).args(argv).env_remove(VARIABLE).exec()
}
