//! Connections of remote clients: what the person decides about them, and what time does.

use crate::domain::Machine as _;
use crate::domain::connection::{ConnectionInput, ConnectionState};
use crate::error::Result;
use crate::ids::ConnectionId;
use crate::limits::CONNECTION_PENDING_MAX;
use crate::store::{Connection, Timer, WriteTx};

impl WriteTx<'_> {
    /// Allows the client whose page shows `code`, typed with or without its hyphen, in letters of any size.
    ///
    /// # Errors
    ///
    /// `connection.not_found`, `connection.state_conflict`.
    pub fn allow_connection(&mut self, code: &str) -> Result<Connection> {
        let connection = self.connection_by_user_code(&spelled(code))?;
        let mut connection = self.step_connection(connection, ConnectionInput::Allow, None)?;
        // The page in the person's browser looks again within seconds, if it is still open.
        let due = self.steady().after(CONNECTION_PENDING_MAX);
        self.set_timer(&Timer::ConnectionDue(connection.id.clone()), due)?;
        connection.due_at = Some(due);
        self.set_connection_due(&connection.id, due)?;
        Ok(connection)
    }

    /// Denies a client that waits.
    ///
    /// # Errors
    ///
    /// `connection.not_found`, `connection.state_conflict`.
    pub fn deny_connection(&mut self, id: &ConnectionId) -> Result<Connection> {
        let connection = self.connection(id)?;
        self.step_connection(connection, ConnectionInput::Deny, None)
    }

    /// Ends a connection: its tokens count no more.
    ///
    /// # Errors
    ///
    /// `connection.not_found`, `connection.state_conflict` when it waits for a decision or has ended.
    pub fn revoke_connection(&mut self, id: &ConnectionId, why: &str) -> Result<Connection> {
        let connection = self.connection(id)?;
        self.step_connection(connection, ConnectionInput::Revoke, Some(why))
    }

    /// The time of a connection is over, unless it was given more meanwhile.
    pub(crate) fn connection_timed_out(&mut self, id: &ConnectionId) -> Result<()> {
        let connection = self.connection(id)?;
        if connection.state.is_final() {
            return Ok(());
        }
        let why = match connection.state {
            ConnectionState::Pending => "nobody decided in time",
            ConnectionState::Allowed => "the client did not take its tokens in time",
            ConnectionState::Connected
            | ConnectionState::Denied
            | ConnectionState::Expired
            | ConnectionState::Revoked => "the client did not come back",
        };
        self.step_connection(connection, ConnectionInput::Expire, Some(why)).map(drop)
    }
}

/// A code as it is kept: `WDJB-MJHT`.
fn spelled(code: &str) -> String {
    let letters: String = code
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_uppercase())
        .collect();
    match letters.split_at_checked(4) {
        Some((one, other)) if !other.is_empty() => format!("{one}-{other}"),
        _ => letters,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_known_however_it_is_typed() {
        for typed in ["WDJB-MJHT", "wdjbmjht", " wdjb mjht "] {
            assert_eq!(spelled(typed), "WDJB-MJHT");
        }
        assert_eq!((spelled(""), spelled("WD")), (String::new(), "WD".to_owned()));
    }
}
