//! The memory of the core: one `SQLite` file, one writer, any number of readers.
//!
//! A write is a closure over `WriteTx`. It runs on the writer's thread together with others that
//! came at the same time; state and events of all of them are one transaction. The commit protocol,
//! in order:
//!
//! 1. take the first queued write, then the companions that are about to come;
//! 2. `BEGIN IMMEDIATE`; each closure in a savepoint of its own, a refused one is undone alone;
//! 3. one `COMMIT` (write-ahead log, `synchronous = FULL`: one fsync);
//! 4. publish the events, then answer the callers. Nobody, not even a refused caller, hears anything
//!    before 3: what a closure saw may be a neighbour's change that never commits.
//!
//! A full disk fails the whole batch and the store goes on. Any other failure of a commit, and a
//! panic, poison it: what is on disk is settled by the next open, and until then nothing is written.
//!
//! Reads use connections of their own and never wait for the writer.

mod agent;
mod approval;
mod attempt;
mod column;
mod connection;
mod data_dir;
mod event_log;
#[cfg(any(test, feature = "testing"))]
mod faults;
mod feed;
#[cfg(feature = "oauth")]
mod grant;
mod handle;
mod memo;
mod message;
mod migrate;
mod objective;
mod planner_session;
mod project;
mod proposal;
mod reader;
mod row;
mod rule;
mod sent;
mod session;
mod steer;
mod task;
#[cfg(test)]
mod tests;
mod timer;
mod turn;
mod tx;
mod workspace;
mod writer;

use std::io::ErrorKind;

use rusqlite::ErrorCode;

// What callers see of the store is public. The rest is how it works, and public for tests only.
pub use self::agent::LastFailure;
pub use self::attempt::{
    AttemptResult, AttemptStatus, VerificationStatus, Workspace, WorkspaceKind,
};
pub use self::data_dir::DataDir;
pub use self::event_log::Event;
pub use self::feed::Feed;
pub use self::proposal::Resolution;
pub use self::task::{Decision, DecisionKind, Reassignment, TaskFailure, TaskResult};
pub use self::workspace::Integration;

/// Declares what only tests see from outside.
macro_rules! for_tests {
    ($($path:path),+ $(,)?) => {
        $(
            #[cfg(feature = "testing")]
            pub use $path;
            #[cfg(not(feature = "testing"))]
            pub(crate) use $path;
        )+
    };
}

for_tests!(
    self::agent::Agent,
    self::agent::Why,
    self::approval::Approval,
    self::approval::ApprovalFilter,
    self::approval::Verdict,
    self::attempt::Attempt,
    self::attempt::AttemptFailure,
    self::attempt::Files,
    self::attempt::VerificationRecord,
    self::connection::Connection,
    self::event_log::AgentEventFilter,
    self::event_log::NewEvent,
    self::handle::Store,
    self::handle::StoreOptions,
    self::message::Message,
    self::objective::Objective,
    self::planner_session::PlannerSession,
    self::project::Project,
    self::proposal::Proposal,
    self::sent::Sent,
    self::steer::Steer,
    self::task::HoldRow,
    self::task::Task,
    self::timer::Timer,
    self::turn::DirectTurn,
    self::tx::ReadTx,
    self::tx::WriteTx,
    self::workspace::Intent,
    self::workspace::WorkspaceRow,
);

#[cfg(feature = "mcp")]
pub(crate) use self::session::Holder;

#[cfg(feature = "oauth")]
pub(crate) use self::grant::{RegisteredClient, TokenKind};

#[cfg(any(test, feature = "testing"))]
pub use self::faults::{Fate, Faults, NoFaults};
#[cfg(feature = "testing")]
pub use self::{event_log::AgentEventPage, session::SessionRow};
use crate::error::{Code, Error};

/// The code of a failure in the data directory: a full disk is told apart, because it passes.
pub(crate) fn disk_code(error: &std::io::Error) -> Code {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Code::StoreDiskFull,
        _ => Code::DataDirUnusable,
    }
}

/// Runs a statement that has no parameters and answers nothing.
fn exec(conn: &rusqlite::Connection, statement: &'static str) -> crate::error::Result<()> {
    let mut prepared = conn.prepare_cached(statement).map_err(sql)?;
    prepared.execute([]).map(drop).map_err(sql)
}

/// The failure behind an error of `SQLite`. Not a `From`, which would be part of the public API.
///
/// What a statement broke is Cortex's own mistake: the same write would break it again. Everything else may
/// have to do with the machine.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn sql(error: rusqlite::Error) -> Error {
    let (code, what) = match error.sqlite_error_code() {
        None if is_conversion(&error) => (Code::StoreCorrupt, "the store is damaged"),
        None => (Code::Defect, "a query of the store does not hold"),
        Some(ErrorCode::DiskFull) => (Code::StoreDiskFull, "the disk is full"),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            (Code::StoreCorrupt, "the store is damaged")
        }
        Some(ErrorCode::ConstraintViolation) => (Code::Defect, "a rule of the store was broken"),
        _ => (Code::StoreFailed, "the store failed"),
    };
    Error::new(code, format!("{what}: {error}"))
}

/// Whether a column holds what its type does not have.
fn is_conversion(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
    )
}
