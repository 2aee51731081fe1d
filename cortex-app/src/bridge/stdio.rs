//! Standard input and output. Threads of their own read and write, which nobody joins: neither can be broken off, and
//! neither must hold up the end of the program.

use std::io::{self, BufRead as _};

use bytes::Bytes;
use futures_util::stream;
#[cfg(unix)]
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, oneshot};
use tokio_util::io::StreamReader;

use crate::stdout;

/// Answers that wait for a client that reads slowly.
const UNREAD_MAX: usize = 64;

/// What is written to this program.
pub(crate) fn input() -> impl AsyncRead + Unpin {
    let (read, mut pieces) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let piece = input.fill_buf().map(Bytes::copy_from_slice);
            let length = piece.as_ref().map_or(0, Bytes::len);
            if length == 0 && piece.is_ok() {
                break;
            }
            input.consume(length);
            if read.blocking_send(piece).is_err() || length == 0 {
                break;
            }
        }
    });
    StreamReader::new(stream::poll_fn(move |cx| pieces.poll_recv(cx)))
}

/// Ends when nobody can read any more what is printed, although nothing is being printed.
pub(crate) async fn unheard() {
    let (open, closed) = oneshot::channel::<()>();
    #[cfg(unix)]
    std::thread::spawn(move || {
        let out = io::stdout();
        // No event is asked for: what is left is that the other end is closed.
        let mut watched = [PollFd::new(&out, PollFlags::empty())];
        while poll(&mut watched, None) == Err(Errno::INTR) {}
        drop(open);
    });
    #[cfg(not(unix))]
    let _never_closed = open;
    drop(closed.await);
}

/// Prints each line that is sent, until all senders are gone or nobody reads any more; then the second part answers.
pub(crate) fn output() -> (mpsc::Sender<String>, oneshot::Receiver<io::Result<()>>) {
    let (say, mut lines) = mpsc::channel::<String>(UNREAD_MAX);
    let (end, ended) = oneshot::channel();
    std::thread::spawn(move || {
        let mut done = Ok(());
        while let Some(line) = lines.blocking_recv() {
            match stdout::line(&line) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    done = Err(error);
                    break;
                }
            }
        }
        // The program may end without waiting.
        drop(end.send(done));
    });
    (say, ended)
}
