//! What was read since the last commit, so that those who ask again and again cost little.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{ReadTx, Store};
use crate::error::Result;
use crate::limits::ANSWERS_KEPT;
use crate::time::Timestamp;

/// What was read, each under its type and what was asked. A lock, because it is held for a look or an insertion.
#[derive(Default)]
pub(super) struct Memo(Mutex<Found>);

#[derive(Default)]
struct Found {
    /// The commits when it was read; what comes later makes all of it old.
    commits: u64,
    answers: BTreeMap<(TypeId, String), Answer>,
}

struct Answer {
    /// When it is old even if nothing is committed.
    until: Option<Timestamp>,
    value: Arc<dyn Any + Send + Sync>,
}

impl Store {
    /// Reads like [`read`](Self::read) what `asked` stands for, or answers what that found since the last commit.
    ///
    /// `f` must depend on nothing but the store, `asked` and [`steady`](Self::steady); it tells when that time alone
    /// makes its answer old.
    pub(crate) fn read_once<T: Send + Sync + 'static>(
        &self,
        asked: String,
        f: impl FnOnce(&ReadTx<'_>) -> Result<(T, Option<Timestamp>)>,
    ) -> Result<Arc<T>> {
        // Counted before it is read: a commit in between makes what is read too old rather than too new.
        let commits = *self.changes().borrow();
        let key = (TypeId::of::<T>(), asked);
        let known = self.memo().find(commits, &key, self.steady());
        if let Some(known) = known.filter(|_| self.can_be_read()) {
            return Ok(known);
        }
        let (value, until) = self.read(f)?;
        let value = Arc::new(value);
        self.memo().keep(commits, key, Answer { until, value: Arc::clone(&value) as _ });
        Ok(value)
    }
}

impl Memo {
    fn find<T: Send + Sync + 'static>(
        &self,
        commits: u64,
        key: &(TypeId, String),
        now: Timestamp,
    ) -> Option<Arc<T>> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = found.answers.get(key).filter(|_| found.commits == commits)?;
        if answer.until.is_some_and(|until| until <= now) {
            return None;
        }
        Arc::clone(&answer.value).downcast().ok()
    }

    fn keep(&self, commits: u64, key: (TypeId, String), answer: Answer) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if found.commits < commits {
            *found = Found { commits, answers: BTreeMap::new() };
        }
        if found.commits == commits {
            if found.answers.len() >= ANSWERS_KEPT {
                found.answers.clear();
            }
            found.answers.insert(key, answer);
        }
    }
}
