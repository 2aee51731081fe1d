//! The time of this machine.

use cortex_lib::env::{Env as _, SystemEnv};
use cortex_lib::time::Timestamp;

/// Now.
pub(crate) fn now() -> Timestamp {
    SystemEnv::new().now()
}
