//! A project as callers see it.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::verification::Verification;
use crate::ids::ProjectId;
use crate::store::Project;
use crate::time::Timestamp;

/// A folder that agents work in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectView {
    /// The project.
    pub project_id: ProjectId,
    /// Unique among projects.
    pub name: String,
    /// Its folder, absolute.
    pub root: PathBuf,
    /// Whether its folder is the root of a git work tree.
    pub is_git_repository: bool,
    /// The commands that decide whether a result holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// Whether what its folder brings for a runtime counts: settings, hooks and MCP servers. A person says so.
    pub trusted: bool,
    /// When it was registered.
    pub created_at: Timestamp,
}

impl ProjectView {
    pub(crate) fn of(project: Project) -> Self {
        Self {
            project_id: project.id,
            name: project.name,
            root: project.root,
            is_git_repository: project.is_git,
            verification: project.verification,
            trusted: project.trusted,
            created_at: project.created_at,
        }
    }
}
