//! Which folders the sessions of a server work in. For each the server keeps a configuration, and runs what that names;
//! with the last session it lets go of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The folders in use.
#[derive(Debug, Default)]
pub(super) struct Folders {
    // Counted when sessions open and close, never held over an await.
    used: Mutex<BTreeMap<PathBuf, Use>>,
    freed: Notify,
}

#[derive(Clone, Copy, Debug)]
enum Use {
    /// By so many sessions.
    By(usize),
    /// The server lets go of it.
    Ending,
}

impl Folders {
    /// A session begins in a folder. It waits while the server lets go of the same.
    pub(super) async fn enter(&self, folder: &Path) {
        loop {
            let freed = self.freed.notified();
            {
                let mut used = self.locked();
                let entry = used.entry(folder.to_owned()).or_insert(Use::By(0));
                if let Use::By(sessions) = entry {
                    *sessions += 1;
                    return;
                }
            }
            freed.await;
        }
    }

    /// A session ends in a folder. When it was the last: `end` is done before another one enters.
    pub(super) async fn leave(&self, folder: &Path, end: impl Future<Output = ()>) {
        let was_last = {
            let mut used = self.locked();
            match used.get_mut(folder) {
                Some(Use::By(sessions)) if *sessions > 1 => {
                    *sessions -= 1;
                    false
                }
                Some(entry @ Use::By(_)) => {
                    *entry = Use::Ending;
                    true
                }
                Some(Use::Ending) | None => false,
            }
        };
        if was_last {
            let freed = Freed { folders: self, folder };
            end.await;
            drop(freed);
        }
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Use>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets others in, also when the end was not waited for.
struct Freed<'a> {
    folders: &'a Folders,
    folder: &'a Path,
}

impl Drop for Freed<'_> {
    fn drop(&mut self) {
        self.folders.locked().remove(self.folder);
        self.folders.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_is_let_go_with_its_last_session_and_none_enters_meanwhile() {
        let (folders, folder) = (Folders::default(), Path::new("/p"));
        folders.enter(folder).await;
        folders.enter(folder).await;
        folders.leave(folder, async { panic!("somebody works there") }).await;
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let leaving = folders.leave(folder, async { drop(ended.await) });
        let entering = async {
            tokio::task::yield_now().await;
            let mut entered = std::pin::pin!(folders.enter(folder));
            let early = std::future::poll_fn(|context| {
                std::task::Poll::Ready(entered.as_mut().poll(context).is_ready())
            });
            assert!(!early.await, "it is let go of first");
            end.send(()).unwrap();
            entered.await;
        };
        tokio::join!(leaving, entering);
        assert!(matches!(folders.locked().get(folder), Some(Use::By(1))));
    }
}
