//! `cortex agent attach`: a person's terminal becomes that of an agent, until they leave it.

use std::io::{ErrorKind, IsTerminal as _, Read as _, Write as _};
use std::pin::pin;
use std::time::Duration;

use cortex_lib::api::view::AgentView;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::AgentId;
use cortex_lib::local::{Client, TerminalStream};
use cortex_lib::port::TerminalSize;
use futures_util::FutureExt as _;
use futures_util::future::{Fuse, FusedFuture as _};
use tokio::sync::mpsc;

use super::screen::Screen;
use crate::run::words;
use crate::signals::StopRequests;
use crate::stdout;

/// Ctrl-]: what telnet leaves by. Programs do not use it, and no terminal keeps it for itself.
const LEAVE: u8 = 0x1d;
/// What is typed while the program does not read. More than that nobody types unseen.
const TYPED_BYTES_MAX: usize = 64 * 1024;
/// Pieces of what is typed that wait to be looked at.
const KEYS_MAX: usize = 16;
/// What was typed before leaving has this long to reach the program.
const LAST_KEYS: Duration = Duration::from_secs(1);

/// Keeps the title and how the wheel works for later.
const BEGIN: &str = "\x1b[22;0t\x1b[?1007s";
/// A terminal as programs expect it, also after half a sequence: links, look, margins, modes, keys, mouse, cursor,
/// tabs, characters, colours.
const RESET: &str = "\x1b\\\x1b]8;;\x1b\\\x1b[0m\x1b[?6l\x1b[r\x1b[?7h\x1b[4l\x1b[20l\x1b[?1l\x1b>\
    \x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?2004l\x1b[?2026l\
    \x1b[?12l\x1b[?25h\x1b[0 q\x1b[?5W\x1b(B\x1b)B\x0f\
    \x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b]112\x07";
/// The main screen, where what a program drew on a screen of its own is gone, and what was kept for later.
const END: &str = "\x1b[?47l\x1b[?1049l\x1b[?1007r\x1b[23;0t\x1b[999;1H\r\n";

/// Shows the terminal of an agent and types into it, until the person leaves or the session ends.
pub(super) async fn attach(client: &Client, agent: &AgentView, screen: Screen) -> Result<()> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        let message = "only a terminal can be attached to a terminal";
        return Err(Error::new(Code::InvalidArguments, message)
            .remedy("Call it in a terminal, without redirecting its input or output."));
    }
    let name = words::plain(&agent.name);
    let mut stops = StopRequests::listen()?;
    let sizes = Sizes::listen()?;
    // A core that hangs must not keep the person.
    let stream = tokio::select! {
        biased;
        () = stops.next() => return Ok(()),
        stream = client.attach(&agent.agent_id, Some(size()?)) => stream?,
    };
    // What is on the screen is the person's: it moves up, out of the way.
    let rows = "\n".repeat(size()?.rows.into());
    show(format!("Attached to {name}. Leave with Ctrl-]; the agent goes on.{rows}").as_bytes())?;
    let ended = {
        let _raw = Raw::enter()?;
        let id = agent.agent_id.clone();
        let attached = Attached { client, id, stream, stops, sizes, keys: keys() };
        attached.run().await?
    };
    screen.note(&match ended {
        Ended::Left => format!("Left {name}; the agent goes on."),
        Ended::Over(why) => format!("{name} is over: {}", words::plain(why.message())),
    });
    Ok(())
}

/// Writes to the person's terminal.
fn show(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| stdout::failure(&error))
}

/// The size of the person's terminal.
fn size() -> Result<TerminalSize> {
    let (columns, rows) = crossterm::terminal::size().map_err(|error| refused(&error))?;
    Ok(TerminalSize { rows, columns })
}

fn refused(error: &std::io::Error) -> Error {
    Error::new(Code::OutputFailed, format!("the terminal does not do as it should: {error}"))
}

/// What the person types, as it comes; `None` when the terminal is gone.
fn keys() -> mpsc::Receiver<Vec<u8>> {
    let (typed, keys) = mpsc::channel(KEYS_MAX);
    // A thread of its own, which nobody joins: reading a terminal cannot be broken off.
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut bytes = [0; 4096];
        loop {
            match input.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    let piece = bytes.get(..count).unwrap_or_default().to_vec();
                    if typed.blocking_send(piece).is_err() {
                        return;
                    }
                }
            }
        }
    });
    keys
}

/// New sizes of the person's terminal, as they come. Elsewhere than on Unix nobody tells of them.
struct Sizes {
    #[cfg(unix)]
    changes: tokio::signal::unix::Signal,
}

impl Sizes {
    #[cfg(unix)]
    fn listen() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let changes = signal(SignalKind::window_change()).map_err(|error| refused(&error))?;
        Ok(Self { changes })
    }

    #[cfg(not(unix))]
    fn listen() -> Result<Self> {
        Ok(Self {})
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        self.changes.recv().await;
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        std::future::pending().await
    }
}

/// The person's terminal, as bytes come and go. Dropping it gives the terminal back as it was.
struct Raw;

impl Raw {
    fn enter() -> Result<Self> {
        crossterm::terminal::enable_raw_mode().map_err(|error| refused(&error))?;
        let raw = Self;
        show(BEGIN.as_bytes())?;
        Ok(raw)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        drop(show(format!("{RESET}{END}").as_bytes()));
        drop(crossterm::terminal::disable_raw_mode());
    }
}

/// How it ended.
enum Ended {
    /// The person has left.
    Left,
    /// There is nothing to attach to any more.
    Over(Error),
}

struct Attached<'a> {
    client: &'a Client,
    id: AgentId,
    stream: TerminalStream,
    stops: StopRequests,
    sizes: Sizes,
    keys: mpsc::Receiver<Vec<u8>>,
}

impl Attached<'_> {
    async fn run(mut self) -> Result<Ended> {
        let (client, id) = (self.client, self.id.clone());
        let (mut typed, mut has_new_size) = (Vec::new(), false);
        // What the core is asked is waited for beside the keys: a core that hangs must not keep the person.
        let mut typing = pin!(Fuse::terminated());
        let mut resizing = pin!(Fuse::terminated());
        let mut attaching = pin!(Fuse::terminated());
        loop {
            if typing.is_terminated() && !typed.is_empty() {
                let bytes = std::mem::take(&mut typed);
                typing.set(client.type_into(&id, bytes).fuse());
            }
            if resizing.is_terminated() && std::mem::take(&mut has_new_size) {
                resizing.set(client.resize(&id, size()?).fuse());
            }
            tokio::select! {
                biased;
                () = self.stops.next() => return Ok(Ended::Left),
                written = &mut typing => {
                    if let Err(error) = written {
                        return over(error);
                    }
                }
                keys = self.keys.recv() => {
                    let keys = keys.unwrap_or_else(|| vec![LEAVE]);
                    let before = keys.split(|key| *key == LEAVE).next().unwrap_or_default();
                    let room = TYPED_BYTES_MAX.saturating_sub(typed.len()).min(before.len());
                    typed.extend_from_slice(before.get(..room).unwrap_or_default());
                    if before.len() < keys.len() {
                        let last = async {
                            if !typing.is_terminated() {
                                typing.as_mut().await.ok();
                            }
                            client.type_into(&id, typed).await.ok();
                        };
                        tokio::time::timeout(LAST_KEYS, last).await.ok();
                        return Ok(Ended::Left);
                    }
                }
                () = self.sizes.next() => has_new_size = true,
                resized = &mut resizing => {
                    if let Err(error) = resized {
                        return over(error);
                    }
                }
                attached = &mut attaching => match attached {
                    Ok(stream) => {
                        show(format!("{RESET}\x1b[H\x1b[2J").as_bytes())?;
                        self.stream = stream;
                    }
                    Err(error) => return over(error),
                },
                bytes = self.stream.next(), if attaching.is_terminated() => match bytes? {
                    Some(bytes) => show(&bytes)?,
                    // The session is over, or this terminal was too slow for it.
                    None => attaching.set(client.attach(&id, Some(size()?)).fuse()),
                },
            }
        }
    }
}

/// What an error means while one is attached: that it is over, or that something failed.
fn over(error: Error) -> Result<Ended> {
    match error.code() {
        Code::RuntimeSessionEnded | Code::AgentStateConflict | Code::AgentNotFound => {
            Ok(Ended::Over(error))
        }
        _ => Err(error),
    }
}
