//! Reading and writing the pipes of the CLI. Each of these may be dropped half-way and loses nothing.

use std::future;

use cortex_lib::process::{Line, Lines};
use tokio::io::{AsyncRead, AsyncWriteExt as _};
use tokio::process::ChildStdin;

/// The next line; `None` at the end of the stream.
pub(super) async fn text<R: AsyncRead + Unpin>(lines: &mut Lines<R>) -> Option<String> {
    match lines.next_line().await {
        Ok(line) => line.map(uncut),
        Err(error) => {
            tracing::debug!(%error, "a pipe of Claude Code broke");
            None
        }
    }
}

/// Like [`text`]; without a stream it waits for ever.
pub(super) async fn next<R: AsyncRead + Unpin>(
    lines: &mut Option<&mut Lines<R>>,
) -> Option<String> {
    match lines {
        Some(lines) => text(lines).await,
        None => future::pending().await,
    }
}

/// The next line, if it was read already.
pub(super) fn buffered<R: AsyncRead + Unpin>(lines: &mut Option<&mut Lines<R>>) -> Option<String> {
    lines.as_mut()?.buffered_line().map(uncut)
}

fn uncut(line: Line) -> String {
    if line.cut {
        tracing::warn!("a line of Claude Code was too long and is cut");
    }
    line.text
}

/// Writes some of `bytes`. A closed pipe takes everything and keeps nothing; `None`: it broke.
pub(super) async fn write(stdin: &mut Option<ChildStdin>, bytes: &[u8]) -> Option<usize> {
    match stdin {
        Some(stdin) => stdin.write(bytes).await.ok().filter(|count| *count > 0),
        None => Some(bytes.len()),
    }
}
