//! `cortex events`: what happened, and what happens.

use clap::Args;
use cortex_lib::error::Result;
use cortex_lib::store::Event;

use super::screen::Screen;
use super::{Exit, Global, with_door};
use crate::door::Door;
use crate::signals::StopRequests;
use crate::stdout;

/// Show what happened, and what happens
#[derive(Debug, Args)]
pub(super) struct Events {
    /// Go on with what comes, until Ctrl-C or until nobody reads it
    #[arg(long, short)]
    follow: bool,
    /// Only events behind this number
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// The newest events that are shown when no number is given
    #[arg(long, value_name = "COUNT", default_value_t = 50, conflicts_with = "after")]
    last: u64,
}

impl Events {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        with_door(global, async |door| self.show(door, screen).await).await?;
        Ok(Exit::Done)
    }

    async fn show(&self, door: &Door, screen: Screen) -> Result<()> {
        let newest = door.newest_event().await?;
        let after = self.after.unwrap_or_else(|| newest.saturating_sub(self.last));
        if !self.follow && after >= newest {
            return Ok(());
        }
        let mut stops = StopRequests::listen()?;
        let mut events = door.events(Some(after)).await?;
        loop {
            let next = tokio::select! { biased;
                () = stops.next() => return Ok(()),
                next = events.next() => next?,
            };
            let Some(event) = next else { return Ok(()) };
            let is_read = stdout::line(line(&event, screen).trim_end());
            let is_read = is_read.map_err(|error| stdout::failure(&error))?;
            if !is_read || (!self.follow && event.seq >= newest) {
                return Ok(());
            }
        }
    }
}

/// One event in one line, of text or of JSON.
fn line(event: &Event, screen: Screen) -> String {
    if screen.is_json() {
        // An event was JSON before it was read.
        return serde_json::to_string(event).unwrap_or_default();
    }
    let agent = event.agent_id.as_ref().map_or_else(String::new, |id| format!("  agent {id}"));
    let data = match &event.data {
        serde_json::Value::Object(data) => {
            let facts: Vec<_> =
                data.iter().map(|(key, value)| format!("  {key}={value}")).collect();
            facts.concat()
        }
        other => format!("  {other}"),
    };
    format!("{:>6}  {}  {}{agent}{data}", event.seq, event.at, event.kind)
}
