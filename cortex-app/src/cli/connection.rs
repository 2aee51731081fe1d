//! `cortex connection`: remote clients that come by `mcp.public_url`, and the person who lets them in.

use clap::{Args, Subcommand};
use cortex_lib::api::ConnectionReply;
use cortex_lib::api::operator::{
    AllowConnection, DenyConnection, ListConnections, RevokeConnection,
};
use cortex_lib::api::view::ConnectionView;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::ConnectionId;

use super::screen::{Screen, card, cell, table, word};
use super::{Exit, Global, with_door};
use crate::door::Door;

/// Remote clients that use Cortex by its public address
#[derive(Debug, Args)]
pub(super) struct Connection {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the clients that ask and those that are connected
    List {
        /// Those that ended, too
        #[arg(long)]
        all: bool,
    },
    /// Show one connection
    Show(Which),
    /// Let a client in. Allow none whose page is not before you
    Allow {
        /// The code on the page that the client opened in your browser
        code: String,
    },
    /// Deny a client that asks
    Deny(Which),
    /// End a connection: its tokens count no more
    Revoke(Which),
}

#[derive(Debug, Args)]
struct Which {
    /// The connection, by id
    connection: String,
}

impl Connection {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        with_door(global, async |door| self.action.act(door, screen).await).await?;
        Ok(Exit::Done)
    }
}

impl Which {
    fn id(&self) -> ConnectionId {
        ConnectionId::new(self.connection.clone())
    }
}

impl Action {
    async fn act(&self, door: &Door, screen: Screen) -> Result<()> {
        let reply = match self {
            Self::List { all } => {
                let mut list = door.call(ListConnections {}).await?;
                list.connections.retain(|one| *all || one.ended_at.is_none());
                return screen.show(&list, |list| lines(&list.connections));
            }
            Self::Show(which) => {
                let id = which.id();
                let list = door.call(ListConnections {}).await?;
                let found = list.connections.into_iter().find(|one| one.connection_id == id);
                let connection = found.ok_or_else(|| {
                    Error::new(Code::ConnectionNotFound, format!("there is no connection {id}"))
                })?;
                ConnectionReply { connection }
            }
            Self::Allow { code } => door.call(AllowConnection { code: code.clone() }).await?,
            Self::Deny(which) => door.call(DenyConnection { connection_id: which.id() }).await?,
            Self::Revoke(which) => {
                door.call(RevokeConnection { connection_id: which.id() }).await?
            }
        };
        screen.show(&reply, |reply| show(&reply.connection))
    }
}

fn lines(connections: &[ConnectionView]) -> String {
    let row = |one: &ConnectionView| {
        [
            one.connection_id.to_string(),
            word(&one.state),
            cell(&one.client_name),
            cell(&one.redirect_uri),
            one.created_at.to_string(),
        ]
    };
    let headings = ["CONNECTION", "STATE", "CLIENT", "ANSWER TO", "ASKED"];
    table(headings, connections.iter().map(row), "No client asks, and none is connected.")
}

fn show(one: &ConnectionView) -> String {
    card([
        ("connection", Some(one.connection_id.to_string())),
        ("state", Some(word(&one.state))),
        ("reason", one.reason.as_deref().map(cell)),
        ("client", Some(cell(&one.client_name))),
        ("client id", Some(cell(&one.client_id))),
        ("answer to", Some(cell(&one.redirect_uri))),
        ("for", Some(cell(&one.resource))),
        ("asked", Some(one.created_at.to_string())),
        ("decided", one.decided_at.map(|at| at.to_string())),
        ("last renewed", one.renewed_at.map(|at| at.to_string())),
        ("ends", one.due_at.map(|at| at.to_string())),
        ("ended", one.ended_at.map(|at| at.to_string())),
    ])
}
