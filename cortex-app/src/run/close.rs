//! How a run leaves its core.

use super::{Ending, Show};
use crate::door::Door;
use crate::signals::StopRequests;

/// Stops a core of ours in order; at once when the person asks again.
///
/// What does not close well is said, and changes nothing about how the run ended.
pub(crate) async fn close(door: Door, show: &mut Show, mut stops: StopRequests, ending: &Ending) {
    let ours = door.here().cloned();
    if let (Ending::Interrupted(_), Some(_)) = (ending, &ours) {
        show.note("Stopping in order; Ctrl-C again stops at once.");
    }
    let mut closing = std::pin::pin!(door.close());
    let closed = tokio::select! { biased;
        closed = &mut closing => closed,
        () = stops.next() => {
            let now = async {
                match ours {
                    Some(cortex) => cortex.shutdown_at_once().await,
                    None => Ok(()),
                }
            };
            let (now, closed) = tokio::join!(now, closing);
            now.and(closed)
        }
    };
    if let Err(error) = closed {
        show.note(&format!("The core did not close well: {error}. {}", error.remediation()));
    }
}
