//! A network without a way out. The test program runs itself again under `unshare(1)`; the scripted
//! servers live in the same process, and so in the same network.
//!
//! Where that is not permitted, as outside Linux, every CLI still has the scripted server as its
//! proxy, so that a request to another host is seen and refused.

use std::io::{self, Write as _};
use std::process::{Command, ExitCode};

/// Tells the program that it runs inside.
const INSIDE: &str = "CORTEX_TEST_OFFLINE";

/// Keeps the user id, since CLIs behave otherwise as root, and the capability to bring `lo` up.
const UNSHARE: [&str; 5] = ["--user", "--map-current-user", "--keep-caps", "--net", "--"];

/// Runs this program again in a network of its own and returns how that ended; nothing when this is
/// that run, or when it is not possible here, which is said on stderr.
///
/// Call it first in a main function without harness, after asking for the CLIs:
///
/// ```no_run
/// # use std::process::ExitCode;
/// use cortex_scripted::{cases, cli, offline, suite};
///
/// async fn it_starts() {}
///
/// fn main() -> ExitCode {
///     let Some(_claude) = cli::require(cli::claude_code()) else { return ExitCode::SUCCESS };
///     if let Some(ended) = offline::enter() {
///         return ended;
///     }
///     suite::run(&cases![it_starts])
/// }
/// ```
pub fn enter() -> Option<ExitCode> {
    if is_inside() {
        return None;
    }
    match again() {
        Ok(ended) => Some(ended),
        Err(why) => {
            let said = "a proxy guards instead of a network namespace";
            writeln!(io::stderr(), "NOT ISOLATED: {why}; {said}").unwrap_or_default();
            None
        }
    }
}

/// Whether this process runs in the network without a way out.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

fn again() -> Result<ExitCode, String> {
    let lo_up = ["ip", "link", "set", "lo", "up"];
    let tried = Command::new("unshare").args(UNSHARE).args(lo_up).output();
    let tried = tried.map_err(|error| format!("unshare does not run ({error})"))?;
    if !tried.status.success() {
        let said = String::from_utf8_lossy(&tried.stderr);
        return Err(format!("unshare is not permitted ({})", said.trim()));
    }
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let ended = Command::new("unshare")
        .args(UNSHARE)
        .args(["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"])
        .arg(me)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .status()
        .map_err(|error| format!("unshare does not run ({error})"))?;
    // A program that a signal ended has no code; it failed.
    let code = ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}
