//! `add_project`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use std::path::{Path, PathBuf};

use crate::api::reply::ProjectReply;
use crate::api::view::ProjectView;
use crate::api::{Access, Command, Effect, Granted};
use crate::domain::verification::Verification;
use crate::error::{Code, Error, Problem, Result};
use crate::ids::ProjectId;
use crate::store::Project;

/// Register a folder as a project. It is not trusted until `update_project` says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddProject {
    /// Unique among projects.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// Its folder, absolute; it must exist.
    pub root: PathBuf,
    /// The commands that decide whether a result holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
}

/// The folder by its one true name: a link and what it points to are the same project.
fn canonical(root: &Path) -> Result<PathBuf> {
    if !root.is_absolute() {
        return Err(Error::invalid(
            Code::InvalidArguments,
            vec![Problem::new("root", "must be an absolute path")],
        ));
    }
    let invalid = |why: &dyn std::fmt::Display| {
        Error::new(
            Code::ProjectInvalidRoot,
            format!("{} cannot be a project: {why}", root.display()),
        )
        .remedy("Give an existing folder.")
    };
    let canonical = dunce::canonicalize(root).map_err(|error| invalid(&error))?;
    if !canonical.is_dir() {
        return Err(invalid(&"it is not a folder"));
    }
    if canonical.to_str().is_none() {
        return Err(invalid(&"its path is not valid UTF-8"));
    }
    Ok(canonical)
}

/// Refuses a folder of Cortex itself: agents would write into the store that they are run by.
fn check_outside(data_dir: &Path, root: &Path) -> Result<()> {
    let data_dir = dunce::canonicalize(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    if !root.starts_with(&data_dir) {
        return Ok(());
    }
    let message = format!("{} is in the data directory of Cortex", root.display());
    Err(Error::new(Code::ProjectInvalidRoot, message).remedy("Give a folder outside of it."))
}

impl Command for AddProject {
    type Output = ProjectReply;
    const NAME: &'static str = "add_project";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] =
        &[Code::ProjectNameTaken, Code::ProjectRootTaken, Code::ProjectInvalidRoot];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let root = canonical(&self.root)?;
        check_outside(cx.core().data_dir(), &root)?;
        let is_git = root.join(".git").exists();
        let project = cx.core().store().write(move |tx| {
            let project = Project {
                id: ProjectId::new(tx.env().mint()),
                name: self.name,
                root,
                is_git,
                verification: self.verification,
                trusted: false,
                created_at: tx.now(),
            };
            tx.insert_project(&project)?;
            Ok(project)
        });
        Ok(ProjectReply { project: ProjectView::of(project.await?) })
    }
}
