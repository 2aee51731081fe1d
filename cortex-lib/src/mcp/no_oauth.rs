//! What stands for OAuth where it is not built in: nothing.

use std::future::Ready;

use hyper::Request;
use hyper::body::Incoming;
use serde_json::Value;

use super::refusal::Answer;
use crate::error::Result;
use crate::secret::SecretHash;

/// There is none.
#[derive(Debug)]
pub(super) enum Public {}

impl Public {
    pub(super) fn is_host(&self, _: &str) -> bool {
        match *self {}
    }

    pub(super) fn takes_pages(&self) -> bool {
        match *self {}
    }

    pub(super) fn serves(_: &str) -> bool {
        false
    }

    pub(super) fn challenge(&self) -> String {
        match *self {}
    }

    pub(super) fn metadata(&self) -> Value {
        match *self {}
    }

    pub(super) fn opens(&self, _: &SecretHash) -> Result<bool> {
        match *self {}
    }

    pub(super) fn answer(&self, _: Request<Incoming>) -> Ready<Answer> {
        match *self {}
    }
}
