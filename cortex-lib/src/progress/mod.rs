//! What one change entails, inside one transaction: an attempt that ends releases its agent, moves its task,
//! and with it the tasks that depend on it and the objective.
//!
//! Only this layer moves states; it does so through the doors of the store and the rules of the domain. Who
//! calls it (a tool, the engine, a start after a crash) makes no difference to what follows.

mod agents;
mod approvals;
mod attempts;
mod board;
mod connections;
mod flow;
#[cfg(feature = "oauth")]
mod grants;
mod messages;
mod objectives;
mod planner;
mod projects;
mod proposals;
mod reassignments;
mod recovery;
mod rules;
mod steers;
mod tasks;
mod turns;
mod workspaces;

pub use agents::{SessionEnd, TurnFailed};
pub use attempts::AttemptReport;
pub(crate) use attempts::last_failure_text;
pub use board::BoardFacts;
pub(crate) use board::Work;
#[cfg(feature = "oauth")]
pub use grants::Question;
#[cfg(feature = "oauth")]
pub(crate) use grants::{Exchange, Tokens};
pub use messages::{Post, Posted};
pub use objectives::NewObjective;
pub use proposals::NewProposal;
pub(crate) use steers::not_known;
pub use tasks::Decided;
pub use workspaces::Integrable;
