//! One process of the CLI: it may serve the threads of many sessions.
//!
//! One task owns the process and its pipes. It knows which thread's messages go to which session, and never waits for a
//! session: one that does not take what is told to it is cut off rather than let hold up the others.
//!
//! A server ends when nobody holds a [`Server`] any more: its input is closed, on which an idle CLI ends in 0.1 s, and
//! what does not end by itself is ended by force, with all that it started.

mod task;

use std::time::Duration;

use cortex_lib::error::{Code, Error, Result};
use cortex_lib::process::Owned;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use self::task::Task;
use super::wire::{Answer, FromCli};
use crate::own_folder::OwnFolder;

/// What sessions ask for and the process was not given yet.
const CALLS_MAX: usize = 256;
/// What a session was told and has not taken. It takes at once: more than this means that it hangs.
const TOLD_MAX: usize = 4096;
/// How long the CLI may take for an answer. All but the start of a thread came within 0.1 s.
const ANSWER_WAIT: Duration = Duration::from_secs(55);

/// A process that answers.
#[derive(Debug)]
pub(super) struct Server {
    calls: mpsc::Sender<Call>,
    ended: watch::Receiver<Option<String>>,
    pid: u32,
}

/// What a session is told.
#[derive(Debug)]
pub(super) enum Told {
    /// Something about its thread, or about the account.
    Said(FromCli),
    /// The answer to one of its requests.
    Answered {
        /// The session's own number for it.
        tag: u64,
        /// What it says.
        answer: Answer,
    },
}

/// A session's place in the process. Its thread may be another session's by now, so it has a number as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    /// The CLI's name of the thread.
    pub(super) thread: String,
    /// That of the request by which it was opened.
    pub(super) number: u64,
}

/// What became of the request for a thread.
#[derive(Debug)]
pub(super) struct Opened {
    /// What the CLI says.
    pub(super) answer: Answer,
    /// The number of the session's place, when it has one.
    pub(super) number: u64,
    /// All that is said about the thread.
    pub(super) told: mpsc::Receiver<Told>,
}

/// Whom the answer to a request goes to.
enum Asker {
    /// Somebody who waits for it alone.
    Caller(oneshot::Sender<Answer>),
    /// Somebody who will have the thread that it names.
    Opens(oneshot::Sender<(Answer, u64)>, mpsc::Sender<Told>),
    /// A session, by its own number for the request.
    Session(Registration, u64),
}

/// What the task is asked.
enum Call {
    Request { method: &'static str, params: Value, asker: Asker },
    Say(String),
    Leave(Registration),
    EndBy(Instant),
}

impl Server {
    /// Starts to talk with a process. `files` is kept as long as it lives.
    pub(super) fn begin(owned: Owned, files: Option<OwnFolder>) -> Self {
        let (calls, asked) = mpsc::channel(CALLS_MAX);
        let (ending, ended) = watch::channel(None);
        let pid = owned.pid();
        let task = Task::new(owned, ending);
        // It outlives the last handle until the process has ended, so nobody joins it: `ended` says when.
        drop(TaskTracker::new().spawn(async move {
            task.run(asked).await;
            drop(files);
        }));
        Self { calls, ended, pid }
    }

    /// The pid of the process.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it can be used.
    pub(super) fn is_alive(&self) -> bool {
        self.ended.borrow().is_none() && !self.calls.is_closed()
    }

    /// Why it has ended, once it has and nothing of it lives.
    pub(super) fn ended(&self) -> watch::Receiver<Option<String>> {
        self.ended.clone()
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    ///
    /// `runtime.session_ended`, `runtime.protocol_error` when no answer comes.
    pub(super) async fn ask(&self, method: &'static str, params: Value) -> Result<Answer> {
        let (reply, answer) = oneshot::channel();
        self.call(Call::Request { method, params, asker: Asker::Caller(reply) }).await?;
        self.answer(method, answer).await
    }

    /// Asks for a thread. Once it is there, all that is said about it is told to `session`.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub(super) async fn open(&self, method: &'static str, params: Value) -> Result<Opened> {
        let (reply, answer) = oneshot::channel();
        let (session, told) = mpsc::channel(TOLD_MAX);
        self.call(Call::Request { method, params, asker: Asker::Opens(reply, session) }).await?;
        let (answer, number) = self.answer(method, answer).await?;
        Ok(Opened { answer, number, told })
    }

    /// Asks for a session, which is told the answer in order with everything else.
    ///
    /// # Errors
    ///
    /// `runtime.session_ended`.
    pub(super) async fn ask_for(
        &self,
        session: &Registration,
        tag: u64,
        method: &'static str,
        params: Value,
    ) -> Result<()> {
        let asker = Asker::Session(session.clone(), tag);
        self.call(Call::Request { method, params, asker }).await
    }

    /// Writes a line.
    ///
    /// # Errors
    ///
    /// `runtime.session_ended`.
    pub(super) async fn say(&self, line: String) -> Result<()> {
        self.call(Call::Say(line)).await
    }

    /// The session does not listen to its thread any more. What still runs in that is ended.
    pub(super) async fn leave(&self, session: &Registration) {
        // An error means that nobody listens to anything any more.
        drop(self.call(Call::Leave(session.clone())).await);
    }

    /// As [`leave`](Self::leave), where nothing can be awaited.
    pub(super) fn leave_now(&self, session: Registration) {
        // With so many calls before it the process hangs, or is being ended.
        drop(self.calls.try_send(Call::Leave(session)));
    }

    /// The process must have ended by then, when nobody holds it.
    pub(super) async fn end_by(&self, deadline: Instant) {
        drop(self.call(Call::EndBy(deadline)).await);
    }

    async fn call(&self, call: Call) -> Result<()> {
        if self.calls.send(call).await.is_ok() {
            return Ok(());
        }
        Err(gone(self.ended()).await)
    }

    async fn answer<T>(&self, method: &str, answer: oneshot::Receiver<T>) -> Result<T> {
        match timeout(ANSWER_WAIT, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(gone(self.ended()).await),
            // A line that it cannot read is one that it never answers.
            Err(_) => Err(Error::new(
                Code::RuntimeProtocol,
                format!("Codex did not answer {method} within {} s", ANSWER_WAIT.as_secs()),
            )),
        }
    }
}

/// The error of a process that has ended, once it is known why.
async fn gone(mut ended: watch::Receiver<Option<String>>) -> Error {
    let why = ended.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
    // No reason means that its task is gone without a word, which only a stopped runtime does.
    let why = why.unwrap_or_else(|| "Codex is being ended".to_owned());
    Error::new(Code::RuntimeSessionEnded, why)
}

#[cfg(all(test, unix))]
mod tests {
    use cortex_lib::process::Program;
    use serde_json::json;

    use super::*;

    /// A session that is slow to go must not take the thread from the one that has resumed it.
    #[tokio::test]
    async fn a_late_farewell_is_not_for_the_next_session_of_a_thread() {
        // All that it opens is the thread `t`, about which it says how many lines it has read when it is told something else.
        let cli = r#"while read -r line; do n=$((n + 1))
            case $line in
            *open*) echo '{"id":'$n',"result":{"thread":{"id":"t"}}}';;
            *) echo '{"method":"told","params":{"threadId":"t","line":'$n'}}';;
            esac
        done"#;
        let program = Program::new(["sh", "-c", cli], "/", "codex-test");
        let server = Server::begin(program.spawn().await.unwrap(), None);
        let [old, mut new] =
            [server.open("open", json!({})).await, server.open("open", json!({})).await]
                .map(Result::unwrap);
        let at = |opened: &Opened| Registration { thread: "t".to_owned(), number: opened.number };
        server.leave(&at(&old)).await;
        server.ask_for(&at(&old), 7, "open", json!({})).await.unwrap();
        server.ask_for(&at(&new), 8, "open", json!({})).await.unwrap();
        server.say("hello\n".to_owned()).await.unwrap();
        // Neither the farewell nor the answer to the other is heard of.
        let Some(Told::Answered { tag: 8, .. }) = new.told.recv().await else { panic!("{new:?}") };
        let Some(Told::Said(FromCli::Note { params, .. })) = new.told.recv().await else {
            panic!("{new:?}")
        };
        assert_eq!(params.get("line"), Some(&json!(5)));
        // That of its own ends what runs, and lets go of the thread.
        server.leave(&at(&new)).await;
        assert!(new.told.recv().await.is_none());
        server.end_by(Instant::now()).await;
        let mut ended = server.ended();
        drop(server);
        ended.wait_for(Option::is_some).await.unwrap();
    }
}
