//! The core that commands act on.

use std::sync::Arc;

use crate::env::Env;
use crate::error::{Code, Error, Result};

/// A handle to one running core.
#[derive(Clone, Debug)]
pub struct Core {
    env: Arc<dyn Env>,
    ready: bool,
}

impl Core {
    /// A core in `env`; `ready` says whether it takes changes.
    pub fn new(env: Arc<dyn Env>, ready: bool) -> Self {
        Self { env, ready }
    }

    /// Its clock and randomness.
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    /// Fails with [`Code::CoreNotReady`] unless it takes changes.
    pub fn check_ready(&self) -> Result<()> {
        if self.ready {
            return Ok(());
        }
        Err(Error::new(Code::CoreNotReady, "the core does not take changes now"))
    }
}
