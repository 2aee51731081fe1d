//! Remote clients that ask, and the person who lets them in or does not.

use cortex_lib::api::operator::{
    AllowConnection, DenyConnection, ListConnections, RevokeConnection,
};
use cortex_lib::domain::connection::ConnectionState;
use cortex_lib::ids::ConnectionId;
use cortex_lib::progress::Question;
use futures_util::future::join;

use crate::sim::hand::{Hand, MADE_UP};

/// Has a client ask, which no caller can, and decides about one of those that are there.
pub async fn decide_connections(hand: &Hand) {
    let question = Question {
        client_id: "c".to_owned(),
        client_name: "a client".to_owned(),
        redirect_uri: "http://127.0.0.1/".to_owned(),
        resource: "https://cortex.example/mcp".to_owned(),
        client_state: None,
        challenge: "x".repeat(43),
    };
    // The power may go meanwhile.
    drop(hand.store.write(move |tx| tx.ask_for_connection(question)).await);
    let Some(list) = hand.call(ListConnections {}).await else { return };
    let Some(one) = hand.dice.pick(&list.connections) else { return };
    let made_up = hand.dice.once_in(12);
    let id = if made_up { ConnectionId::new(MADE_UP) } else { one.connection_id.clone() };
    let Ok(row) = hand.store.read(|tx| tx.connection(&one.connection_id)) else { return };
    let allow = AllowConnection { code: row.user_code };
    let (deny, revoke) =
        (DenyConnection { connection_id: id.clone() }, RevokeConnection { connection_id: id });
    match hand.dice.roll(6) {
        0 | 1 => drop(hand.call(allow).await),
        2 => drop(hand.call(deny).await),
        3 | 4 => drop(hand.call(revoke).await),
        _ => {
            let (allowed, denied) = join(hand.call(allow), hand.call(deny)).await;
            if allowed.is_some() && denied.is_some() {
                hand.may_not("a client was allowed and denied");
            }
            if denied.is_some_and(|reply| reply.connection.state != ConnectionState::Denied) {
                hand.may_not("a client that was denied is not");
            }
        }
    }
}
