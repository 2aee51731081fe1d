//! A look at the session: for an end in doubt, and after events were lost.

use cortex_lib::domain::attempt::Cause;
use serde_json::Value;
use tokio::time::Instant;

use super::{Done, LOOK_AGAIN, Pump};
use crate::opencode::http::{Api, Fault, within};
use crate::opencode::outcome::failure;
use crate::opencode::server::QUICK_WAIT;
use crate::opencode::wire::{Look, Permission, Questions, Whole};

/// Looks after which what is seen counts.
const LOOKS_MAX: u32 = 15;
/// Messages of a look. A turn answers with one for each of its steps; the last ones count.
const MESSAGES_LOOKED: usize = 50;

impl Pump {
    pub(super) fn look(&mut self) {
        self.look_at = None;
        if self.looking || self.conversation.turn().is_none() {
            return;
        }
        self.looking = true;
        let messages = self.of_session(&format!("/message?limit={MESSAGES_LOOKED}"));
        let (api, cwd) = (self.lease.api.clone(), self.fixed.cwd.clone());
        let native = self.fixed.native.clone();
        self.ask(async move {
            let state = within("/session/status", &cwd);
            let requests = [within("/permission", &cwd), within("/question", &cwd)];
            Done::Looked(look(&api, &native, &state, &messages, &requests).await)
        });
    }

    pub(super) fn looked(&mut self, seen: Result<Look, Fault>) {
        self.looks += 1;
        let last = self.looks >= LOOKS_MAX;
        match seen {
            Ok(seen) => {
                if seen.busy {
                    self.looks = 0;
                }
                let now = self.env.now();
                for step in self.conversation.looked(seen, last, now) {
                    self.step(step);
                }
            }
            Err(fault) if last => {
                let message = format!("OpenCode does not show the session: {fault}");
                let why = failure(Cause::Transient, message);
                for step in self.conversation.give_up(why) {
                    self.step(step);
                }
            }
            Err(_) => self.look_at = Some(Instant::now() + LOOK_AGAIN),
        }
    }
}

/// Reads what a session does and has said.
async fn look(
    api: &Api,
    native: &str,
    state: &str,
    messages: &str,
    requests: &[String; 2],
) -> Result<Look, Fault> {
    let [permissions, questions] = requests;
    // In this order: what ends after the first answer is in the second.
    let state = api.get(state, QUICK_WAIT).await?;
    let kind = state.get(native).and_then(|state| state.get("type")).and_then(Value::as_str);
    let messages = api.get(messages, QUICK_WAIT).await?;
    let permissions = api.get(permissions, QUICK_WAIT).await?;
    let questions = api.get(questions, QUICK_WAIT).await?;
    Ok(Look {
        busy: !matches!(kind, None | Some("idle")),
        messages: list::<Whole>(messages),
        permissions: list::<Permission>(permissions),
        questions: list::<Questions>(questions),
    })
}

/// Those of a list that can be read.
fn list<T: serde::de::DeserializeOwned>(value: Value) -> Vec<T> {
    let Value::Array(all) = value else { return Vec::new() };
    all.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect()
}
