//! A machine that follows a script.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::git::ScriptedGit;
use super::wait;
use super::world::{Asked, ScriptedWorld};
use crate::domain::verification::CommandReport;
use crate::error::{Code, Error, Result};
use crate::ids::{AttemptId, SessionId};
use crate::port::{Git, Host, VerificationOutcome, VerificationRequest, Verifier};

/// How a verification goes.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Every command ends well after this time.
    Pass(Duration),
    /// The first command fails after this time and prints this.
    Fail(Duration, String),
    /// The first command cannot run, for this reason.
    Unavailable(Duration, String),
    /// It does not end by itself; its time is over at last.
    Never,
}

type Verdicts = Arc<dyn Fn(&VerificationRequest) -> Verdict + Send + Sync>;

/// A machine that follows a script. As it is made, every folder is there and every verification passes.
#[derive(Clone)]
#[must_use = "a machine does nothing until a core runs on it"]
pub struct ScriptedHost {
    world: ScriptedWorld,
    verdicts: Verdicts,
    git: ScriptedGit,
}

impl fmt::Debug for ScriptedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedHost").finish_non_exhaustive()
    }
}

impl ScriptedHost {
    /// A machine in a world.
    pub fn new(world: &ScriptedWorld) -> Self {
        Self {
            world: world.clone(),
            verdicts: Arc::new(|_| Verdict::Pass(Duration::ZERO)),
            git: ScriptedGit::new(world),
        }
    }

    /// How each verification goes. Default: it passes at once.
    pub fn verify(
        mut self,
        verdict: impl Fn(&VerificationRequest) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        self.verdicts = Arc::new(verdict);
        self
    }
}

#[async_trait]
impl Verifier for ScriptedHost {
    async fn verify(&self, request: VerificationRequest) -> VerificationOutcome {
        self.world.note(Asked::Verify(request.clone()));
        let _commands = self.world.start(request.attempt_id.as_str());
        let report = |exit_code, output: &str, time: Duration| {
            let ran = request.commands.first()?;
            Some(CommandReport {
                name: ran.title().to_owned(),
                argv: ran.argv.clone(),
                exit_code,
                duration_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
                output: output.to_owned(),
            })
        };
        match (self.verdicts)(&request) {
            Verdict::Pass(time) => {
                wait(time).await;
                VerificationOutcome::Passed {
                    commands: Vec::from_iter(report(Some(0), "ok", time)),
                }
            }
            Verdict::Fail(time, output) => {
                wait(time).await;
                let commands = Vec::from_iter(report(Some(1), &output, time));
                let message = commands
                    .first()
                    .map_or_else(String::new, |ran| format!("{} ended with exit code 1", ran.name));
                VerificationOutcome::Failed { commands, message }
            }
            Verdict::Unavailable(time, message) => {
                wait(time).await;
                VerificationOutcome::Unavailable { commands: Vec::new(), message }
            }
            Verdict::Never => {
                wait(request.timeout).await;
                let commands = Vec::from_iter(report(None, "", request.timeout));
                let message = format!("timed out after {} s", request.timeout.as_secs());
                VerificationOutcome::Failed { commands, message }
            }
        }
    }
}

#[async_trait]
impl Host for ScriptedHost {
    async fn sweep(&self, markers: Vec<String>) -> usize {
        self.world.sweep(markers)
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.world.is_folder(path)
    }

    fn make_scratch(&self, session: &SessionId) -> Result<PathBuf> {
        if !self.world.put_scratch(session) {
            let message = "no folder for a session can be made";
            return Err(Error::new(Code::DataDirUnusable, message));
        }
        Ok(Path::new("/scratch").join(session.as_str()))
    }

    fn remove_scratch(&self, session: &SessionId) {
        self.world.remove_scratch(session);
    }

    fn git(&self) -> &dyn Git {
        &self.git
    }

    fn worktrees(&self) -> PathBuf {
        PathBuf::from("/worktrees")
    }

    fn objects(&self, attempt: &AttemptId) -> PathBuf {
        self.world.put_objects(attempt);
        Path::new("/objects").join(attempt.as_str())
    }

    fn keep_objects_of(&self, live: &BTreeSet<AttemptId>) {
        self.world.keep_objects_of(live);
    }
}
