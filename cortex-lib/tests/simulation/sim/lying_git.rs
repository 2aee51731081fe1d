//! A machine whose git lies: what a wrong core or a wrong adapter would do to files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cortex_lib::Result;
use cortex_lib::ids::{AttemptId, SessionId};
use cortex_lib::port::{
    ChangedFile, Git, Host, Kept, ScriptedWorld, Squash, VerificationOutcome, VerificationRequest,
    Verifier, Worktree,
};

use super::defects::Lie;

#[derive(Debug)]
pub struct LyingGit {
    pub host: Arc<dyn Host>,
    pub world: ScriptedWorld,
    pub lie: Lie,
}

#[async_trait]
impl Git for LyingGit {
    async fn head(&self, root: &Path) -> Result<String> {
        self.host.git().head(root).await
    }

    async fn add(&self, worktree: &Worktree) -> Result<String> {
        self.host.git().add(worktree).await
    }

    async fn folder(&self, worktree: &Worktree) -> Result<PathBuf> {
        self.host.git().folder(worktree).await
    }

    async fn snapshot(&self, folder: &Path, objects: &Path) -> Result<String> {
        self.host.git().snapshot(folder, objects).await
    }

    async fn changes(
        &self,
        folder: &Path,
        objects: &Path,
        from: &str,
        to: &str,
    ) -> Result<Vec<ChangedFile>> {
        self.host.git().changes(folder, objects, from, to).await
    }

    async fn keep(&self, worktree: &Worktree, base: &str, reference: &str) -> Result<Kept> {
        let git = self.host.git();
        let kept = git.keep(worktree, base, reference).await?;
        if self.lie == Lie::KeepingStages
            && let Ok(squash) = git.plan_squash(&worktree.root, base, &kept.commit).await
        {
            git.squash(&worktree.root, &squash).await?;
        }
        Ok(kept)
    }

    async fn point(&self, root: &Path, reference: &str, commit: &str) -> Result<()> {
        self.host.git().point(root, reference, commit).await
    }

    async fn left_behind(&self, worktree: &Worktree, commit: &str) -> Result<Vec<ChangedFile>> {
        self.host.git().left_behind(worktree, commit).await
    }

    async fn plan_squash(&self, root: &Path, base: &str, commit: &str) -> Result<Squash> {
        self.host.git().plan_squash(root, base, commit).await
    }

    async fn squash(&self, root: &Path, squash: &Squash) -> Result<()> {
        self.host.git().squash(root, squash).await
    }

    async fn remove(&self, worktree: &Worktree) -> Result<()> {
        match self.lie {
            Lie::RemovalsLeaveAll => return Ok(()),
            Lie::RemovalsTakeAll => self.world.take_worktree(&worktree.path),
            _ => {}
        }
        self.host.git().remove(worktree).await
    }
}

#[async_trait]
impl Verifier for LyingGit {
    async fn verify(&self, request: VerificationRequest) -> VerificationOutcome {
        self.host.verify(request).await
    }
}

#[async_trait]
impl Host for LyingGit {
    async fn sweep(&self, markers: Vec<String>) -> usize {
        self.host.sweep(markers).await
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.host.is_folder(path)
    }

    fn make_scratch(&self, session: &SessionId) -> Result<PathBuf> {
        self.host.make_scratch(session)
    }

    fn remove_scratch(&self, session: &SessionId) {
        self.host.remove_scratch(session);
    }

    fn git(&self) -> &dyn Git {
        self
    }

    fn worktrees(&self) -> PathBuf {
        self.host.worktrees()
    }

    fn objects(&self, attempt: &AttemptId) -> PathBuf {
        self.host.objects(attempt)
    }

    fn keep_objects_of(&self, live: &std::collections::BTreeSet<AttemptId>) {
        self.host.keep_objects_of(live);
    }
}
