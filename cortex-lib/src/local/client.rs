//! The other side: asks a core that runs in another process.
//!
//! Each request has a connection of its own, so nothing has to be sorted, and a request that is dropped is over.

use std::fmt;
use std::path::{Path, PathBuf};

use interprocess::local_socket::tokio::Stream;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use super::address;
use super::wire::{Answer, Ask, Attach, Body, Bytes, Request, Resize, Typed};
use crate::api::Command;
use crate::engine::Output;
use crate::error::{Code, Error, Result};
use crate::ids::AgentId;
use crate::port::TerminalSize;
use crate::process::Lines;
use crate::store::Event;

/// Reaches the core that serves a data directory, as the user.
#[derive(Clone, Debug)]
pub struct Client {
    data_dir: PathBuf,
}

impl Client {
    /// Looks for the core of `data_dir`, an absolute path. None: no core serves it.
    ///
    /// # Errors
    ///
    /// `core.data_dir_not_absolute`; `core.local_socket_failed` when something is there but cannot be reached.
    pub async fn connect(data_dir: impl AsRef<Path>) -> Result<Option<Self>> {
        let data_dir = data_dir.as_ref();
        if !data_dir.is_absolute() {
            let message =
                format!("the data directory {} is not an absolute path", data_dir.display());
            return Err(Error::new(Code::DataDirNotAbsolute, message));
        }
        let client = Self { data_dir: data_dir.to_owned() };
        Ok(client.reach().await?.map(|_| client))
    }

    /// Runs `command` there.
    ///
    /// # Errors
    ///
    /// Those of the command, as the core tells them; `core.stopped` when the core is gone.
    pub async fn call<C: Command>(&self, command: C) -> Result<C::Output> {
        let args = serde_json::to_value(&command).map_err(|error| {
            Error::new(Code::Defect, format!("{} is no JSON: {error}", C::NAME))
        })?;
        let answer = self.call_json(C::NAME, args).await?;
        serde_json::from_value(answer).map_err(|error| {
            let message = format!("the core answers to {} in another way: {error}", C::NAME);
            Error::new(Code::LocalSocketFailed, message)
                .remedy("Use the same version of Cortex on both sides.")
        })
    }

    /// Runs the tool or operator command called `name` there.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call); `tool.not_found`.
    pub async fn call_json(&self, name: &str, args: Value) -> Result<Value> {
        let mut answers = self.ask(Ask::Call { name: name.to_owned(), args }).await?;
        match answers.next().await? {
            Body::Ok(value) => Ok(value),
            other => Err(unexpected(&other)),
        }
    }

    /// The committed events behind `after`, then those that come; without `after`, from the oldest kept.
    ///
    /// # Errors
    ///
    /// `core.stopped`, `core.local_socket_failed`.
    pub async fn events(&self, after: Option<u64>) -> Result<EventStream> {
        Ok(EventStream { answers: Some(self.listen(Ask::Events { after }).await?) })
    }

    /// What agents print, from now on.
    ///
    /// # Errors
    ///
    /// As [`events`](Self::events).
    pub async fn output(&self) -> Result<OutputStream> {
        Ok(OutputStream { answers: Some(self.listen(Ask::Output).await?) })
    }

    /// Attaches to the terminal of an agent, which gets the size first if one is given.
    ///
    /// # Errors
    ///
    /// `agent.not_found`, `agent.not_in_terminal_mode`, `agent.state_conflict`, `runtime.session_ended`;
    /// `core.stopped`.
    pub async fn attach(
        &self,
        agent_id: &AgentId,
        size: Option<TerminalSize>,
    ) -> Result<TerminalStream> {
        let ask = Ask::Attach(Attach { agent_id: agent_id.clone(), size });
        Ok(TerminalStream { answers: Some(self.listen(ask).await?) })
    }

    /// Types into the terminal of an agent. What is to be read in order is typed one after the other.
    ///
    /// # Errors
    ///
    /// As [`attach`](Self::attach).
    pub async fn type_into(&self, agent_id: &AgentId, bytes: Vec<u8>) -> Result<()> {
        let typed = Typed { agent_id: agent_id.clone(), bytes: Bytes(bytes) };
        self.listen(Ask::Type(typed)).await.map(drop)
    }

    /// Gives the terminal of an agent another size.
    ///
    /// # Errors
    ///
    /// As [`attach`](Self::attach).
    pub async fn resize(&self, agent_id: &AgentId, size: TerminalSize) -> Result<()> {
        self.listen(Ask::Resize(Resize { agent_id: agent_id.clone(), size })).await.map(drop)
    }

    /// Opens a stream and waits until it listens.
    async fn listen(&self, ask: Ask) -> Result<Answers> {
        let mut answers = self.ask(ask).await?;
        match answers.next().await? {
            Body::Ok(_) => Ok(answers),
            other => Err(unexpected(&other)),
        }
    }

    async fn ask(&self, ask: Ask) -> Result<Answers> {
        let stream = self.reach().await?.ok_or_else(gone)?;
        let mut line = serde_json::to_vec(&Request::new(1, ask))
            .map_err(|error| Error::new(Code::Defect, format!("a request is no JSON: {error}")))?;
        line.push(b'\n');
        (&stream).write_all(&line).await.map_err(|_| gone())?;
        Ok(Answers { lines: Lines::new(stream) })
    }

    async fn reach(&self) -> Result<Option<Stream>> {
        address::connect(&self.data_dir).await.map_err(|error| {
            let dir = self.data_dir.display();
            let message = format!("the core of {dir} cannot be reached: {error}");
            Error::new(Code::LocalSocketFailed, message)
        })
    }
}

/// Events of a core in another process, in order and without a gap.
pub struct EventStream {
    /// None: it is over.
    answers: Option<Answers>,
}

impl EventStream {
    /// The next event; waits for it. `None` when the core ends. Dropping the wait loses nothing.
    ///
    /// # Errors
    ///
    /// `core.stopped` when the core is gone without an end; what the core's log says.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        let Some(answers) = &mut self.answers else { return Ok(None) };
        let next = match answers.next().await {
            Ok(Body::Event(event)) => return Ok(Some(event)),
            Ok(Body::End(_)) => Ok(None),
            Ok(other) => Err(unexpected(&other)),
            Err(error) => Err(error),
        };
        self.answers = None;
        next
    }
}

/// What agents of a core in another process print.
pub struct OutputStream {
    answers: Option<Answers>,
}

impl OutputStream {
    /// The next output; `None` when the core is gone. Dropping the wait loses nothing.
    pub async fn next(&mut self) -> Option<Output> {
        let answers = self.answers.as_mut()?;
        if let Ok(Body::Output(output)) = answers.next().await {
            return Some(output);
        }
        self.answers = None;
        None
    }
}

/// What a terminal in another process shows: first a drawing of all of it, then what is printed.
pub struct TerminalStream {
    answers: Option<Answers>,
}

impl TerminalStream {
    /// What to write to a terminal next; waits for it. `None` when the session is over, and when this side was too slow:
    /// who attaches again sees all there is, or is told why not. Dropping the wait loses nothing.
    ///
    /// # Errors
    ///
    /// `core.stopped` when the core is gone.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(answers) = &mut self.answers else { return Ok(None) };
        let next = match answers.next().await {
            Ok(Body::Printed(bytes)) => return Ok(Some(bytes.0)),
            Ok(Body::End(_)) => Ok(None),
            Ok(other) => Err(unexpected(&other)),
            Err(error) => Err(error),
        };
        self.answers = None;
        next
    }
}

impl fmt::Debug for TerminalStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TerminalStream").finish_non_exhaustive()
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").finish_non_exhaustive()
    }
}

impl fmt::Debug for OutputStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputStream").finish_non_exhaustive()
    }
}

/// The answers to one request.
struct Answers {
    lines: Lines<Stream>,
}

impl Answers {
    async fn next(&mut self) -> Result<Body> {
        let line = self.lines.next_line().await.ok().flatten().ok_or_else(gone)?;
        let answer: Answer = serde_json::from_str(&line.text).map_err(|error| {
            let message = format!("the core answers in another way: {error}");
            Error::new(Code::LocalSocketFailed, message)
                .remedy("Use the same version of Cortex on both sides.")
        })?;
        match answer.body {
            Body::Error(wire) => Err(Error::from_wire(&wire)),
            body => Ok(body),
        }
    }
}

fn gone() -> Error {
    Error::new(Code::CoreStopped, "the core has gone")
}

fn unexpected(body: &Body) -> Error {
    Error::new(Code::Defect, format!("the core answered {body:?} out of turn"))
}
