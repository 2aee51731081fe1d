//! Placeholder until the verifier lands.
use std::sync::Arc;

use async_trait::async_trait;

use crate::env::Env;
use crate::port::{VerificationOutcome, VerificationRequest, Verifier};

/// Runs verification commands as processes.
#[derive(Debug)]
pub struct ProcessVerifier(#[expect(dead_code, reason = "soon")] Arc<dyn Env>);

impl ProcessVerifier {
    /// On this machine.
    pub fn new(env: Arc<dyn Env>) -> Self {
        Self(env)
    }
}

#[async_trait]
impl Verifier for ProcessVerifier {
    async fn verify(&self, _: VerificationRequest) -> VerificationOutcome {
        VerificationOutcome::Unavailable {
            commands: Vec::new(),
            message: "not there yet".to_owned(),
        }
    }
}
