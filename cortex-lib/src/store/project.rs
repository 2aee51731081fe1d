//! Projects: folders that agents work in.

use std::path::{Path, PathBuf};

use rusqlite::named_params;
use serde_json::json;

use super::column::{Json, json_or_none};
use super::row::Row;
use super::{NewEvent, ReadTx, WriteTx};
use crate::domain::event::EventKind;
use crate::domain::verification::Verification;
use crate::error::{Code, Error, Result};
use crate::ids::ProjectId;
use crate::time::Timestamp;

/// A registered folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The project.
    pub id: ProjectId,
    /// Unique among projects.
    pub name: String,
    /// Absolute and canonical.
    pub root: PathBuf,
    /// Whether it was the root of a git work tree when it was registered.
    pub is_git: bool,
    /// What decides whether results hold.
    pub verification: Option<Verification>,
    /// Whether what the folder brings for a runtime counts: its settings, hooks and servers.
    pub trusted: bool,
    /// When it was registered.
    pub created_at: Timestamp,
}

const COLUMNS: &str = "project_id, name, root, is_git, verification, trusted, created_at";

fn from_row(row: &Row<'_>) -> rusqlite::Result<Project> {
    Ok(Project {
        id: row.get("project_id")?,
        name: row.get("name")?,
        root: PathBuf::from(row.get::<String>("root")?),
        is_git: row.get("is_git")?,
        verification: json_or_none(row, "verification")?,
        trusted: row.get("trusted")?,
        created_at: row.get("created_at")?,
    })
}

impl ReadTx<'_> {
    /// Every project, oldest first.
    pub fn projects(&self) -> Result<Vec<Project>> {
        let query = format!(
            "SELECT {COLUMNS} FROM project WHERE removed_at IS NULL ORDER BY created_at, project_id"
        );
        self.rows(&query, [], from_row)
    }

    /// One project.
    ///
    /// # Errors
    ///
    /// `project.not_found`.
    pub fn project(&self, id: &ProjectId) -> Result<Project> {
        let query =
            format!("SELECT {COLUMNS} FROM project WHERE project_id = ?1 AND removed_at IS NULL");
        self.row(&query, [id], from_row)?.ok_or_else(|| {
            Error::new(Code::ProjectNotFound, format!("there is no project {id}"))
                .with("project_id", id.as_str())
        })
    }
}

impl WriteTx<'_> {
    /// Registers a folder.
    ///
    /// # Errors
    ///
    /// `project.name_taken`, `project.root_taken`.
    pub fn insert_project(&mut self, project: &Project) -> Result<()> {
        self.check_project_name(&project.name, None)?;
        self.check_project_root(&project.root)?;
        self.execute(
            "INSERT INTO project (project_id, name, root, is_git, verification, trusted, created_at)
                 VALUES (:id, :name, :root, :is_git, :verification, :trusted, :created_at)",
            named_params! {
                ":id": project.id,
                ":name": project.name,
                ":root": text_of(&project.root)?,
                ":is_git": project.is_git,
                ":verification": project.verification.as_ref().map(Json),
                ":trusted": project.trusted,
                ":created_at": project.created_at,
            },
        )?;
        self.tell_project(EventKind::ProjectCreated, project)
    }

    /// Stores what a person changed about a project.
    ///
    /// # Errors
    ///
    /// `project.name_taken`.
    pub fn update_project(&mut self, project: &Project) -> Result<()> {
        self.check_project_name(&project.name, Some(&project.id))?;
        self.execute(
            "UPDATE project SET name = :name, verification = :verification, trusted = :trusted WHERE project_id = :id",
            named_params! {
                ":id": project.id,
                ":name": project.name,
                ":verification": project.verification.as_ref().map(Json),
                ":trusted": project.trusted,
            },
        )?;
        self.tell_project(EventKind::ProjectUpdated, project)
    }

    /// Takes a project off the lists. Its history stays; its files are never touched.
    pub fn remove_project(&mut self, project: &Project) -> Result<()> {
        self.execute(
            "UPDATE project SET removed_at = ?2 WHERE project_id = ?1",
            (&project.id, self.now()),
        )?;
        self.tell_project(EventKind::ProjectRemoved, project)
    }

    fn check_project_name(&self, name: &str, but: Option<&ProjectId>) -> Result<()> {
        let taken: Option<ProjectId> = self.row(
            "SELECT project_id FROM project WHERE name = ?1 AND removed_at IS NULL",
            [name],
            |row| row.only(),
        )?;
        match taken {
            Some(id) if but != Some(&id) => Err(Error::new(
                Code::ProjectNameTaken,
                format!("project {id} has the name {name:?}"),
            )
            .with("project_id", id.as_str())),
            Some(_) | None => Ok(()),
        }
    }

    /// One folder, one project: two would hold the same files without knowing of each other.
    fn check_project_root(&self, root: &Path) -> Result<()> {
        let taken: Option<ProjectId> = self.row(
            "SELECT project_id FROM project WHERE root = ?1 AND removed_at IS NULL",
            [text_of(root)?],
            |row| row.only(),
        )?;
        let Some(id) = taken else { return Ok(()) };
        let message = format!("{} is the folder of project {id}", root.display());
        Err(Error::new(Code::ProjectRootTaken, message).with("project_id", id.as_str()))
    }

    fn tell_project(&mut self, kind: EventKind, project: &Project) -> Result<()> {
        let data = json!({ "name": project.name, "trusted": project.trusted });
        self.emit(NewEvent { kind, project_id: Some(project.id.clone()), agent_id: None, data })
    }
}

/// A path as it is stored. Roots that are not UTF-8 are refused where they come in.
pub(super) fn text_of(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        Error::new(Code::ProjectInvalidRoot, format!("{} is not valid UTF-8", path.display()))
    })
}
