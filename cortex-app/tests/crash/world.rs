//! What the tests stand on: a program that serves, the processes of this machine, and waiting for both.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use cortex_lib::api::tool::{ListAgents, ListTasks};
use cortex_lib::api::view::{AttemptView, TaskView};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::local::Client;
use cortex_lib::process::MARKER;
use cortex_lib::store::AttemptStatus;

/// Nothing that a test waits for takes longer.
const PATIENCE: Duration = Duration::from_mins(2);

/// A program that serves, and the way to it.
pub(crate) struct Core {
    pub(crate) child: Child,
    pub(crate) client: Client,
}

impl Core {
    pub(crate) async fn task(&self, key: &str) -> TaskView {
        let objective = self.client.call(ListTasks {}).await.unwrap().objectives.pop().unwrap();
        objective.tasks.into_iter().find(|task| task.key == key).unwrap()
    }

    pub(crate) async fn until_task(&self, key: &str, status: TaskStatus) -> TaskView {
        let wanted = format!("{key} is {}", status.as_str());
        until(&wanted, async || Some(self.task(key).await).filter(|task| task.status == status))
            .await
    }

    pub(crate) async fn until_agents_are_back(&self, count: usize) {
        until("the agents are back in their sessions", async || {
            let agents = self.client.call(ListAgents { project_id: None }).await.unwrap().agents;
            let back = agents
                .iter()
                .filter(|agent| matches!(agent.state, AgentStatus::Ready | AgentStatus::Busy));
            let back: Vec<_> = back.map(|agent| agent.session.as_ref().unwrap().resumed).collect();
            assert!(back.iter().all(|resumed| *resumed), "{agents:#?}");
            (back.len() == count).then_some(())
        })
        .await;
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Stops it in order; it ends well.
    pub(crate) fn stop(mut self) {
        self.signal("-TERM");
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "{ended:?}");
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // A test that stopped in the middle.
        if self.child.try_wait().is_ok_and(|exit| exit.is_none()) {
            self.signal("-KILL");
        }
    }
}

pub(crate) struct Process {
    pub(crate) arguments: String,
    pub(crate) environment: String,
}

pub(crate) fn processes() -> Vec<Process> {
    let read = |path: PathBuf| {
        fs_err::read(path).map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
    };
    let all = Path::new("/proc").read_dir().unwrap().flatten();
    let process = |path: PathBuf| {
        let state = read(path.join("stat")).ok()?;
        let dead =
            state.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'));
        (!dead).then(|| Process {
            arguments: read(path.join("cmdline")).unwrap_or_default(),
            environment: read(path.join("environ")).unwrap_or_default(),
        })
    };
    all.filter_map(|entry| process(entry.path())).collect()
}

impl Process {
    /// Whose it is, where it carries the mark that says so.
    pub(crate) fn owner(&self) -> Option<&str> {
        let entries = self.environment.split(' ');
        entries
            .filter_map(|entry| entry.split_once('='))
            .find_map(|(name, owner)| (name == MARKER).then_some(owner))
    }
}

/// How many processes live that carry one of these marks.
pub(crate) fn owned(owners: &BTreeSet<String>) -> usize {
    let of_them = |process: &Process| process.owner().is_some_and(|owner| owners.contains(owner));
    processes().iter().filter(|process| of_them(process)).count()
}

/// How many programs live that only this number in their arguments tells apart from others.
pub(crate) fn sleepers(number: u32) -> usize {
    let wanted = format!("sleep {number}");
    processes().into_iter().filter(|process| process.arguments.contains(&wanted)).count()
}

/// Waits for a condition of the world, which tells nobody when it comes about.
pub(crate) async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let search = async {
        loop {
            ticks.tick().await;
            if let Some(found) = look().await {
                return found;
            }
        }
    };
    tokio::time::timeout(PATIENCE, search).await.unwrap_or_else(|_| panic!("it never came: {what}"))
}

/// Conditions are closures over what a test holds, which stays on its thread.
pub(crate) async fn on_one_thread<F: Future<Output = ()> + 'static>(case: fn() -> F) {
    let here = tokio::runtime::Handle::current();
    let done = tokio::task::spawn_blocking(move || here.block_on(case())).await;
    done.unwrap_or_else(|stopped| std::panic::resume_unwind(stopped.into_panic()));
}

pub(crate) fn statuses(attempts: &[AttemptView]) -> Vec<AttemptStatus> {
    attempts.iter().map(|attempt| attempt.status).collect()
}
