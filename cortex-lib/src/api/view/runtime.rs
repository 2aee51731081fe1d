//! A runtime as callers see it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::capability::Capability;
use crate::engine::KnownHealth;
use crate::ids::RuntimeId;
use crate::port::{Health, ProcessStrategy, Runtime};
use crate::time::Timestamp;

/// A kind of agent that can be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuntimeView {
    /// Readable and stable.
    pub runtime_id: RuntimeId,
    /// The name people know it by.
    pub name: String,
    /// The version of its program, once it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where its program is, once it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<PathBuf>,
    /// What it can do.
    pub capabilities: BTreeSet<Capability>,
    /// How its sessions use processes.
    pub process_strategy: ProcessStrategy,
    /// The model it takes when an agent names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The models it offers, when that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// Whether it can start now.
    pub health: HealthView,
}

/// Whether a runtime can start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthView {
    /// How it is.
    pub status: Health,
    /// When somebody last looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<Timestamp>,
    /// Whether it is logged in, as far as that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logged_in: Option<bool>,
    /// What was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What to do when it cannot start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<String>,
}

impl RuntimeView {
    /// Puts together what a runtime says of itself and what is known of its health.
    pub(crate) fn of(runtime: &Arc<dyn Runtime>, known: KnownHealth) -> Self {
        let info = runtime.info();
        let report = known.report;
        let field =
            |pick: fn(&crate::port::HealthReport) -> Option<String>| report.as_ref().and_then(pick);
        Self {
            runtime_id: info.id.clone(),
            name: info.name.clone(),
            version: field(|report| report.version.clone()),
            executable: report.as_ref().and_then(|report| report.executable.clone()),
            capabilities: info.capabilities.clone(),
            process_strategy: info.process_strategy,
            model: info.default_model.clone(),
            models: info.models.clone(),
            health: HealthView {
                status: known.health,
                checked_at: known.checked_at,
                logged_in: report.as_ref().and_then(|report| report.logged_in),
                message: field(|report| report.message.clone()),
                remediation: field(|report| report.remediation.clone()),
            },
        }
    }
}
