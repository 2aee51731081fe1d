//! Linux: an owner process for each program when there is one, else this process looks for itself.

mod by_owner;
mod direct;
mod hunt;
mod leader;
mod owner;
mod proc;
mod wire;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};

use super::owned::{Signal, Started};
use super::program::{Fault, Program};
#[cfg(feature = "terminal")]
use super::terminal::Slave;

/// Main has called [`init`]: started once more with the right argument, this executable is an owner.
static CAN_OWN: AtomicBool = AtomicBool::new(false);

#[expect(clippy::exit, reason = "an owner has nothing of main's to do, and nothing to clean up")]
pub(super) fn init() {
    match owner::meant() {
        Some(owner::Part::Owner) => std::process::exit(i32::from(owner::run().is_err())),
        Some(owner::Part::Leader) => std::process::exit(i32::from(leader::run().is_err())),
        None => {}
    }
    CAN_OWN.store(true, Ordering::Release);
}

pub(super) async fn start(
    program: &Program,
    env: &BTreeMap<OsString, OsString>,
) -> Result<Started, Fault> {
    if CAN_OWN.load(Ordering::Acquire) {
        by_owner::start(program, env).await
    } else {
        direct::start(program, env)
    }
}

#[cfg(feature = "terminal")]
pub(super) async fn start_on_terminal(
    program: &Program,
    env: &BTreeMap<OsString, OsString>,
    slave: Slave,
) -> Result<Started, Fault> {
    if CAN_OWN.load(Ordering::Acquire) {
        by_owner::start_on_terminal(program, env, slave).await
    } else {
        direct::start_on_terminal(program, env, &slave)
    }
}

pub(super) async fn sweep(markers: Vec<String>) -> usize {
    let mut hunt = hunt::Hunt::of_markers(markers);
    hunt.end().await;
    hunt.ended()
}

/// How a program is told things.
pub(super) enum Control {
    /// Through its owner.
    Owner(by_owner::Line),
    /// By this process.
    Direct(direct::Watch),
}

impl Control {
    /// To the program only.
    pub(super) fn signal(&self, signal: Signal) {
        match self {
            Self::Owner(line) => line.signal(signal),
            Self::Direct(watch) => watch.signal(signal),
        }
    }

    /// Ends everything; returns at once.
    pub(super) fn end(&self) {
        match self {
            Self::Owner(line) => line.close(),
            Self::Direct(watch) => watch.end(),
        }
    }

    /// Ends everything below the program; returns the number of the request. `None`: it cannot be asked.
    pub(super) fn clear(&self) -> Option<u32> {
        match self {
            Self::Owner(line) => line.clear(),
            Self::Direct(watch) => Some(watch.clear()),
        }
    }
}

/// The signal of the system.
fn raw(signal: Signal) -> rustix::process::Signal {
    match signal {
        Signal::Interrupt => rustix::process::Signal::INT,
        Signal::Terminate => rustix::process::Signal::TERM,
    }
}
