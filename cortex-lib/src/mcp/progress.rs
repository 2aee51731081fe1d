//! What a client is told while it waits for a call that takes long.
//!
//! Clients give up on a call after a minute unless they hear of it. Who asks for progress and takes a stream of
//! events gets one that ends with the result; everybody else gets the result alone.

use std::convert::Infallible;

use hyper::header::{ACCEPT, HeaderMap};
use hyper::http::request::Parts;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::time::MissedTickBehavior;

use crate::api::Wait;
use crate::limits::MCP_PROGRESS_EVERY;

/// Among the extensions of a request whose client takes a stream of events.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakesStream;

impl TakesStream {
    /// Whether a client says so itself. A type that it gives no weight is one that it does not want.
    pub(super) fn told_by(headers: &HeaderMap) -> Option<Self> {
        let told = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        told.flat_map(|value| value.split(',')).any(is_stream).then_some(Self)
    }
}

fn is_stream(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("text/event-stream"));
    let weightless = |part: &str| {
        let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
        weight.is_some_and(|weight| weight.parse() == Ok(0.0))
    };
    named && !parts.any(weightless)
}

/// Tells one client how its call goes.
#[derive(Debug)]
pub(super) struct Progress {
    token: ProgressToken,
    peer: Peer<RoleServer>,
    wait: Wait,
}

impl Progress {
    /// None when the client did not ask, or could not be told.
    pub(super) fn wanted(wait: Option<Wait>, context: &RequestContext<RoleServer>) -> Option<Self> {
        context.extensions.get::<Parts>()?.extensions.get::<TakesStream>()?;
        let token = context.meta.get_progress_token()?;
        Some(Self { token, peer: context.peer.clone(), wait: wait? })
    }

    /// Tells until it is dropped. Who does not read is not told more: one message waits, not many.
    pub(super) async fn tell(self) -> Infallible {
        let Wait { what, at_most } = self.wait;
        let mut ticks = tokio::time::interval(MCP_PROGRESS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let begun = ticks.tick().await;
        loop {
            let passed = ticks.tick().await.duration_since(begun);
            let seconds = passed.as_secs();
            let message = format!("{what}: {seconds} s, at most {} s", at_most.as_secs());
            let told = ProgressNotificationParam::new(self.token.clone(), passed.as_secs_f64())
                .with_message(message);
            if self.peer.notify_progress(told).await.is_err() {
                // The client is gone, which ends the call if it may end.
                return std::future::pending().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_client_says_whether_it_takes_a_stream() {
        let takes = |told: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for told in told {
                headers.append(ACCEPT, HeaderValue::from_static(told));
            }
            TakesStream::told_by(&headers).is_some()
        };
        for told in [
            &["text/event-stream"][..],
            &["application/json, text/event-stream"],
            &["application/json", "Text/Event-Stream;q=0.5"],
        ] {
            assert!(takes(told), "{told:?}");
        }
        for told in [
            &[][..],
            &["application/json"],
            &["*/*"],
            &["application/json, text/event-stream;q=0"],
            &["text/event-stream; q=0.000"],
            &["text/event-streams"],
        ] {
            assert!(!takes(told), "{told:?}");
        }
    }
}
