//! A look at the session: for an end in doubt, and after events were lost.

use std::path::PathBuf;
use std::sync::Arc;

use cortex_lib::domain::attempt::Cause;
use serde_json::Value;
use tokio::time::Instant;

use super::{Done, LOOK_AGAIN, Pump};
use crate::opencode::http::{Api, Fault, within};
use crate::opencode::outcome::failure;
use crate::opencode::routes::Routes;
use crate::opencode::server::QUICK_WAIT;
use crate::opencode::wire::{Child, Look, Permission, Questions, Whole};

/// Looks after which what is seen counts.
const LOOKS_MAX: u32 = 15;
/// Messages of a look. A turn answers with one for each of its steps; the last ones count.
const MESSAGES_LOOKED: usize = 50;
/// Sessions below of a look. No turn has so many sub-agents at work.
const CHILDREN_LOOKED: usize = 64;

impl Pump {
    pub(super) fn look(&mut self) {
        self.look_at = None;
        if self.conversation.turn().is_none() {
            return;
        }
        if self.looking {
            // The one on its way may have seen too little.
            self.look_at = Some(Instant::now() + LOOK_AGAIN);
            return;
        }
        self.looking = true;
        let messages = self.of_session(&format!("/message?limit={MESSAGES_LOOKED}"));
        let eyes = Eyes {
            api: self.lease.api.clone(),
            routes: Arc::clone(&self.lease.routes),
            native: self.fixed.native.clone(),
            cwd: self.fixed.cwd.clone(),
        };
        self.ask(async move { Done::Looked(eyes.look(&messages).await) });
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
        self.hold();
    }
}

/// What a look needs.
struct Eyes {
    api: Api,
    routes: Arc<Routes>,
    native: String,
    cwd: PathBuf,
}

impl Eyes {
    /// Reads what the session does and has said.
    async fn look(&self, messages: &str) -> Result<Look, Fault> {
        // In this order: what ends after the first answer is in the second, and what a session below asks after it was
        // listed is heard.
        let state = self.get("/session/status").await?;
        let children = self.working_below(&state).await?;
        let messages = self.api.get(messages, QUICK_WAIT).await?;
        let permissions = self.get("/permission").await?;
        let questions = self.get("/question").await?;
        Ok(Look {
            busy: works(&state, &self.native),
            children,
            messages: list::<Whole>(messages),
            permissions: list::<Permission>(permissions),
            questions: list::<Questions>(questions),
        })
    }

    /// Finds the sessions below that work, and listens to them: when they were made may have been lost.
    async fn working_below(&self, state: &Value) -> Result<Vec<String>, Fault> {
        let mut found = Vec::new();
        let mut above = vec![self.native.clone()];
        while let Some(session) = above.pop() {
            let children = self.get(&format!("/session/{session}/children")).await?;
            for Child { id } in list::<Child>(children) {
                if works(state, &id) && found.len() < CHILDREN_LOOKED {
                    self.routes.open_below(&self.native, &id);
                    found.push(id.clone());
                    above.push(id);
                }
            }
        }
        Ok(found)
    }

    async fn get(&self, path: &str) -> Result<Value, Fault> {
        self.api.get(&within(path, &self.cwd), QUICK_WAIT).await
    }
}

/// Whether a session works on something, by what the server says of all of them.
fn works(state: &Value, session: &str) -> bool {
    let kind = state.get(session).and_then(|state| state.get("type")).and_then(Value::as_str);
    !matches!(kind, None | Some("idle"))
}

/// Those of a list that can be read.
fn list<T: serde::de::DeserializeOwned>(value: Value) -> Vec<T> {
    let Value::Array(all) = value else { return Vec::new() };
    all.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect()
}
