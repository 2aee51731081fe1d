//! The standard output, where results go. What cannot be written there is a failure: a script that reads half of
//! a result must not take it for the whole.

use std::io::{ErrorKind, Result, Write as _};

use cortex_lib::error::{Code, Error};

/// Prints one line at once: whoever reads follows live. Returns whether anybody reads: a reader that has gone away
/// wants no more, and that is no failure.
pub(crate) fn line(text: &str) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// The failure to print, as commands tell it.
pub(crate) fn failure(error: &std::io::Error) -> Error {
    let message = format!("the standard output cannot be written: {error}");
    Error::new(Code::OutputFailed, message)
}
