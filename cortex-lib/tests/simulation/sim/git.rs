//! Git of a simulated life: some of its calls are slow, fail, or are done and not heard of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cortex_lib::Result;
use cortex_lib::error::{Code, Error};
use cortex_lib::ids::{AttemptId, SessionId};
use cortex_lib::port::{
    ChangedFile, Git, Host, Kept, Squash, VerificationOutcome, VerificationRequest, Verifier,
    Worktree,
};

use super::plan::{Choice, LAST, Plan};

/// How a call of git goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitQuirk {
    /// It takes this long.
    Slow(Duration),
    /// It fails after this time and has done nothing.
    Fail(Duration),
    /// It does what it is for, takes this long, and nobody hears that it ended well.
    Unheard(Duration),
}

/// A machine whose git follows a plan.
#[derive(Debug)]
pub struct SimHost {
    host: Arc<dyn Host>,
    git: SimGit,
}

#[derive(Debug)]
struct SimGit {
    host: Arc<dyn Host>,
    quirks: BTreeMap<usize, GitQuirk>,
    calls: AtomicUsize,
    /// What fails is owed until the next life, and there is none.
    last: bool,
}

impl SimHost {
    pub fn new(host: Arc<dyn Host>, plan: &Plan, life: u8) -> Self {
        let quirks = plan.choices().filter_map(|choice| match choice {
            Choice::Git(of, nth, quirk) if *of == life => Some((*nth, *quirk)),
            _ => None,
        });
        let git = SimGit {
            host: Arc::clone(&host),
            quirks: quirks.collect(),
            calls: AtomicUsize::new(0),
            last: life == LAST,
        };
        Self { host, git }
    }
}

impl SimGit {
    async fn run<T>(
        &self,
        may_fail: bool,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let nth = self.calls.fetch_add(1, Ordering::Relaxed);
        let failed = || Error::new(Code::WorkspaceUnavailable, "git failed");
        let quirk = self.quirks.get(&nth).copied();
        match quirk {
            None => work.await,
            Some(GitQuirk::Slow(time)) => {
                tokio::time::sleep(time).await;
                work.await
            }
            Some(GitQuirk::Fail(_) | GitQuirk::Unheard(_)) if self.last && !may_fail => work.await,
            Some(GitQuirk::Fail(time)) => {
                tokio::time::sleep(time).await;
                Err(failed())
            }
            Some(GitQuirk::Unheard(time)) => {
                drop(work.await);
                tokio::time::sleep(time).await;
                Err(failed())
            }
        }
    }

    fn git(&self) -> &dyn Git {
        self.host.git()
    }
}

#[async_trait]
impl Git for SimGit {
    async fn head(&self, root: &Path) -> Result<String> {
        self.run(true, self.git().head(root)).await
    }

    async fn add(&self, worktree: &Worktree) -> Result<String> {
        self.run(true, self.git().add(worktree)).await
    }

    async fn folder(&self, worktree: &Worktree) -> Result<PathBuf> {
        self.git().folder(worktree).await
    }

    async fn snapshot(&self, folder: &Path, objects: &Path) -> Result<String> {
        self.run(true, self.git().snapshot(folder, objects)).await
    }

    async fn changes(
        &self,
        folder: &Path,
        objects: &Path,
        from: &str,
        to: &str,
    ) -> Result<Vec<ChangedFile>> {
        self.run(true, self.git().changes(folder, objects, from, to)).await
    }

    async fn keep(&self, worktree: &Worktree, base: &str, reference: &str) -> Result<Kept> {
        self.run(false, self.git().keep(worktree, base, reference)).await
    }

    async fn point(&self, root: &Path, reference: &str, commit: &str) -> Result<()> {
        self.run(false, self.git().point(root, reference, commit)).await
    }

    async fn left_behind(&self, worktree: &Worktree, commit: &str) -> Result<Vec<ChangedFile>> {
        self.run(true, self.git().left_behind(worktree, commit)).await
    }

    async fn plan_squash(&self, root: &Path, base: &str, commit: &str) -> Result<Squash> {
        self.run(true, self.git().plan_squash(root, base, commit)).await
    }

    async fn squash(&self, root: &Path, squash: &Squash) -> Result<()> {
        self.run(false, self.git().squash(root, squash)).await
    }

    async fn remove(&self, worktree: &Worktree) -> Result<()> {
        self.run(false, self.git().remove(worktree)).await
    }
}

#[async_trait]
impl Verifier for SimHost {
    async fn verify(&self, request: VerificationRequest) -> VerificationOutcome {
        self.host.verify(request).await
    }
}

#[async_trait]
impl Host for SimHost {
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
        &self.git
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
