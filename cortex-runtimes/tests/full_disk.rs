//! A real core on a disk that fills up: a small file system that only this process sees and that ends with it.
#![expect(clippy::unwrap_used, reason = "a test may stop")]
#![expect(clippy::panic, reason = "a test may stop, with what it saw")]
#![expect(clippy::indexing_slicing, reason = "a test may stop")]
#![expect(clippy::print_stderr, reason = "what is skipped or never came is said")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts itself again, and times what it waits for"
)]

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{
    CancelTask, CreateAgent, CreateObjective, GetAgentStatus, ListAgents, ListProjects, ListTasks,
    RetryTask, SendMessage, StartAgent, StopAgent,
};
use cortex_lib::api::view::{ObjectiveView, TaskView};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::verification::{Verification, VerificationCommand};
use cortex_lib::engine::CoreState;
use cortex_lib::error::{Code, Result};
use cortex_lib::ids::{AgentId, ProjectId};
use cortex_lib::limits::{CLOSE_GRACE, SHUTDOWN_GRACE, STORE_RETRY_WAIT};
use cortex_lib::settings::Retry;
use cortex_lib::{Cortex, Settings};
use cortex_runtimes::{CommandConfig, CommandRuntime};
use cortex_scripted::{cases, suite};
use rusqlite::{Connection, types::Value as Cell};

/// Nothing that a test waits for takes longer.
const PATIENCE: Duration = Duration::from_mins(1);

/// Tells this program that it has its disk, and where.
const DISK: &str = "CORTEX_TEST_DISK";

fn main() -> ExitCode {
    cortex_lib::process::init();
    if std::env::var_os(DISK).is_none() {
        return with_a_small_disk();
    }
    suite::run(&cases![
        callers_are_refused_and_what_happens_is_kept,
        a_first_start_says_so_and_can_be_made_again,
        a_stop_ends_and_the_next_open_is_whole,
        a_stop_ends_although_something_is_due,
        an_objective_outlives_a_disk_that_fills_again_and_again,
    ])
}

/// Runs this program again in a namespace with a file system of 8 MB.
fn with_a_small_disk() -> ExitCode {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=8m tmpfs "$0" 2>/dev/null || exit 77; exec "$@""#;
    let ran = Command::new("unshare")
        .args(["--map-root-user", "--user", "--mount", "sh", "-c", script])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args(std::env::args_os().skip(1))
        .env(DISK, folder.path())
        .status();
    let skipped = |why: &str| {
        eprintln!("SKIPPED: {why}");
        ExitCode::SUCCESS
    };
    match ran.map(|status| status.code()) {
        Ok(Some(0)) => ExitCode::SUCCESS,
        Ok(Some(77)) => skipped("mounting is not permitted"),
        Ok(_) if !may_unshare() => skipped("a namespace of its own is not permitted"),
        Ok(_) => ExitCode::FAILURE,
        Err(error) => skipped(&format!("unshare does not run ({error})")),
    }
}

fn may_unshare() -> bool {
    let tried =
        Command::new("unshare").args(["--map-root-user", "--user", "--mount", "true"]).status();
    tried.is_ok_and(|status| status.success())
}

/// `left` waits for the file `go`; everything else answers at once.
const PROGRAM: &str = r#"
instruction=$(cat)
case "$instruction" in
*TASK-LEFT*)
    touch began
    while ! test -e go; do sleep 0.02; done
    echo LEFT-RESULT
    touch "done" ;;
*TASK-LAST*) echo "$instruction" | grep -o -e LEFT-RESULT -e RIGHT-RESULT | sort -u ;;
*TASK-RIGHT*) echo RIGHT-RESULT ;;
*) echo FIRST-RESULT ;;
esac
"#;

/// A data directory on the small disk, and a project elsewhere.
struct Place {
    disk: PathBuf,
    data: PathBuf,
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let disk = PathBuf::from(std::env::var_os(DISK).unwrap());
        let data = disk.join("data");
        if data.exists() {
            fs_err::remove_dir_all(&data).unwrap();
        }
        let place = Self { disk, data, root: tempfile::tempdir().unwrap() };
        place.free();
        place
    }

    /// Takes the last byte.
    fn fill(&self) {
        let mut ballast =
            fs_err::OpenOptions::new().create(true).append(true).open(self.ballast()).unwrap();
        for _page in 0..4096 {
            match ballast.write_all(&[0; 4096]) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("{} is not on the small disk", self.disk.display());
    }

    fn free(&self) {
        if self.ballast().exists() {
            fs_err::remove_file(self.ballast()).unwrap();
        }
    }

    fn ballast(&self) -> PathBuf {
        self.disk.join("ballast")
    }

    async fn open(&self) -> Result<Cortex> {
        let config = CommandConfig {
            name: "shell".into(),
            argv: ["sh", "-c", PROGRAM].map(Into::into).to_vec(),
            env: BTreeMap::new(),
        };
        let settings = Settings {
            retry: Retry { base_ms: 20, max_ms: 100, ..Retry::default() },
            ..Settings::default()
        };
        let runtime = Arc::new(CommandRuntime::new(config).unwrap());
        Cortex::builder(&self.data).settings(settings).runtime(runtime).open().await
    }

    fn touch(&self, name: &str) {
        fs_err::write(self.root.path().join(name), "").unwrap();
    }

    fn has(&self, name: &str) -> bool {
        self.root.path().join(name).exists()
    }

    /// Every row of every table, events too.
    fn rows(&self) -> Vec<(String, Vec<Cell>)> {
        let conn = self.store();
        let mut names =
            conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
        let names: Vec<String> =
            names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let mut rows = Vec::new();
        for name in names {
            let mut query = conn.prepare(&format!("SELECT * FROM {name}")).unwrap();
            let width = query.column_count();
            let found = query.query_map([], |row| (0..width).map(|at| row.get(at)).collect());
            rows.extend(found.unwrap().map(|row| (name.clone(), row.unwrap())));
        }
        assert!(rows.iter().any(|(table, _)| table == "event"));
        rows
    }

    fn store(&self) -> Connection {
        Connection::open(self.data.join("cortex.db")).unwrap()
    }

    fn is_whole(&self) {
        let conn = self.store();
        let found: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(found, "ok");
        let broken: i64 = conn
            .query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(broken, 0);
    }
}

/// A core with a project and two agents that run.
struct Bench {
    cortex: Cortex,
    project: ProjectId,
    agents: Vec<AgentId>,
}

impl Bench {
    async fn new(place: &Place) -> Self {
        let cortex = place.open().await.unwrap();
        let user = cortex.as_user();
        let argv = ["sh", "-c", "true"].map(Into::into).to_vec();
        let verification = Verification {
            commands: vec![VerificationCommand { argv, name: None }],
            timeout_secs: 60,
        };
        let add = AddProject {
            name: "p".into(),
            root: place.root.path().to_owned(),
            verification: Some(verification),
        };
        let project = user.call(add).await.unwrap().project.project_id;
        let mut agents = Vec::new();
        for name in ["ada", "bob"] {
            let create = CreateAgent::new(&project, name, "command:shell");
            let agent_id = user.call(create).await.unwrap().agent.agent_id;
            user.call(StartAgent { agent_id: agent_id.clone() }).await.unwrap();
            agents.push(agent_id);
        }
        Self { cortex, project, agents }
    }

    fn diamond(&self, change: impl Fn(TaskSpec) -> TaskSpec) -> CreateObjective {
        let task = |key: &str| TaskSpec::new(key, format!("Do TASK-{}.", key.to_uppercase()));
        let tasks = vec![
            task("first"),
            task("left").after(["first"]),
            task("right").after(["first"]),
            task("last").after(["left", "right"]),
        ];
        CreateObjective {
            project_id: self.project.clone(),
            title: "A diamond".into(),
            tasks: tasks.into_iter().map(change).collect(),
        }
    }

    async fn objective(&self) -> ObjectiveView {
        self.cortex.as_user().call(ListTasks {}).await.unwrap().objectives.pop().unwrap()
    }

    async fn task(&self, key: &str) -> TaskView {
        let tasks = self.objective().await.tasks;
        tasks.into_iter().find(|task| task.key == key).unwrap()
    }

    async fn until_task(&self, key: &str, status: TaskStatus) -> TaskView {
        let look = async || Some(self.task(key).await).filter(|task| task.status == status);
        let wanted = format!("{key} is {}", status.as_str());
        match until(&wanted, look).await {
            Some(task) => task,
            None => panic!("it never came: {wanted}\n{:#?}", self.objective().await),
        }
    }

    /// Runs the diamond until only `left` runs.
    async fn until_only_left_runs(&self, place: &Place, change: impl Fn(TaskSpec) -> TaskSpec) {
        self.cortex.as_user().call(self.diamond(change)).await.unwrap();
        self.until_task("right", TaskStatus::Completed).await;
        self.until_task("left", TaskStatus::Running).await;
        let begun = async || place.has("began").then_some(());
        assert_eq!(until("left has begun", begun).await, Some(()));
    }

    /// Every change is refused, and every look answered.
    async fn refuses_changes(&self, place: &Place) {
        let (user, project) = (self.cortex.as_user(), &self.project);
        let (before, newest) = (place.rows(), self.cortex.newest_event().unwrap());
        let left = self.task("left").await;
        let message = "hello".to_owned();
        let agent_id = self.agents[0].clone();
        let another = tempfile::tempdir().unwrap();
        let root = another.path().to_owned();
        let refused = [
            user.call(CreateAgent::new(project, "eve", "command:shell")).await.map(drop),
            user.call(AddProject { name: "q".into(), root, verification: None }).await.map(drop),
            user.call(self.diamond(|task| task)).await.map(drop),
            user.call(CancelTask { task_id: left.task_id.clone(), reason: None }).await.map(drop),
            user.call(StopAgent { agent_id: agent_id.clone() }).await.map(drop),
        ];
        for refusal in refused {
            let error = refusal.unwrap_err();
            assert_eq!(error.code(), Code::StoreDiskFull, "{error:?}");
            assert!(error.remediation().contains("Free some space"), "{error:?}");
            assert!(error.correlation_id().is_some());
        }
        // One of both agents runs `left`, which is no matter of the disk.
        for agent_id in self.agents.clone() {
            let error =
                user.call(SendMessage { agent_id, message: message.clone() }).await.unwrap_err();
            assert!(
                [Code::StoreDiskFull, Code::AgentStateConflict].contains(&error.code()),
                "{error:?}"
            );
        }
        assert_eq!(self.cortex.state(), CoreState::Ready);
        assert_eq!(user.call(ListProjects {}).await.unwrap().projects.len(), 1);
        assert_eq!(user.call(ListAgents { project_id: None }).await.unwrap().agents.len(), 2);
        assert_eq!(self.objective().await.tasks.len(), 4);
        assert_eq!(self.task("left").await.status, TaskStatus::Running);
        assert_eq!(self.cortex.newest_event().unwrap(), newest);
        assert_eq!(place.rows(), before, "something was kept");
    }
}

/// Waits for a condition of the world, which tells nobody when it comes about. None: it never came.
async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> Option<T> {
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let search = async {
        loop {
            ticks.tick().await;
            if let Some(found) = look().await {
                return found;
            }
        }
    };
    let found = tokio::time::timeout(PATIENCE, search).await.ok();
    if found.is_none() {
        eprintln!("it never came: {what}");
    }
    found
}

/// Conditions are closures over what a test holds, which stays on its thread.
async fn on_one_thread<F: Future<Output = ()> + 'static>(case: fn() -> F) {
    let here = tokio::runtime::Handle::current();
    let done = tokio::task::spawn_blocking(move || here.block_on(case())).await;
    done.unwrap_or_else(|stopped| std::panic::resume_unwind(stopped.into_panic()));
}

async fn callers_are_refused_and_what_happens_is_kept() {
    on_one_thread(refused_and_kept).await;
}

async fn refused_and_kept() {
    let place = Place::new();
    let bench = Bench::new(&place).await;
    bench.until_only_left_runs(&place, |task| task).await;
    let newest = bench.cortex.newest_event().unwrap();
    let mut events = bench.cortex.events(Some(newest));
    place.fill();
    bench.refuses_changes(&place).await;

    // The turn ends now, and its end cannot be written.
    place.touch("go");
    assert_eq!(until("left is done", async || place.has("done").then_some(())).await, Some(()));
    // Long enough for the engine to try in vain, more than once.
    let ended = Instant::now();
    while ended.elapsed() < STORE_RETRY_WAIT * 5 / 2 {
        bench.refuses_changes(&place).await;
    }
    tokio::select! { biased;
        told = events.next() => panic!("nothing was kept, so nothing is told: {told:?}"),
        () = std::future::ready(()) => {}
    }
    place.free();
    let last = bench.until_task("last", TaskStatus::Completed).await;
    assert_eq!(last.result.unwrap().text.trim(), "LEFT-RESULT\nRIGHT-RESULT");
    for task in bench.objective().await.tasks {
        assert_eq!(task.attempts.len(), 1, "nothing was lost, nothing was done twice: {task:#?}");
    }

    // What was published is what was kept, without a gap.
    let end = bench.cortex.newest_event().unwrap();
    let mut kept = bench.cortex.events(Some(newest));
    for seq in newest + 1..=end {
        let told = events.next().await.unwrap().unwrap();
        assert_eq!(told.seq, seq);
        assert_eq!(told, kept.next().await.unwrap().unwrap());
    }
    bench
        .cortex
        .as_user()
        .call(CreateAgent::new(&bench.project, "eve", "command:shell"))
        .await
        .unwrap();
    bench.cortex.shutdown().await.unwrap();
    place.is_whole();
}

async fn a_first_start_says_so_and_can_be_made_again() {
    let place = Place::new();
    place.fill();
    let error = place.open().await.unwrap_err();
    assert_eq!(error.code(), Code::StoreDiskFull, "{error:?}");
    place.free();
    place.open().await.unwrap().shutdown().await.unwrap();
    place.is_whole();
}

async fn a_stop_ends_and_the_next_open_is_whole() {
    on_one_thread(stopped).await;
}

async fn stopped() {
    let place = Place::new();
    let bench = Bench::new(&place).await;
    bench.until_only_left_runs(&place, |task| task).await;
    place.fill();
    stops_and_opens_again(&place, bench).await;
}

async fn a_stop_ends_although_something_is_due() {
    on_one_thread(stopped_when_due).await;
}

async fn stopped_when_due() {
    let place = Place::new();
    let bench = Bench::new(&place).await;
    // The shortest there is.
    let limit = 10;
    bench.until_only_left_runs(&place, |task| TaskSpec { timeout_secs: Some(limit), ..task }).await;
    let began = Instant::now();
    place.fill();
    while began.elapsed() < Duration::from_secs(limit.into()) + STORE_RETRY_WAIT {
        bench.refuses_changes(&place).await;
    }
    stops_and_opens_again(&place, bench).await;
}

/// On a full disk: stops it, and opens it again when there is space.
async fn stops_and_opens_again(place: &Place, bench: Bench) {
    let Bench { cortex, project, agents } = bench;
    let asked = Instant::now();
    let stop = tokio::time::timeout(CLOSE_GRACE + SHUTDOWN_GRACE, cortex.shutdown());
    // What a session leaves is removed with it, so that some space comes back; most of it is taken at once.
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    let flood = async {
        loop {
            ticks.tick().await;
            place.fill();
        }
    };
    let stopped = tokio::select! { biased;
        stopped = stop => stopped.unwrap(),
        () = flood => panic!("it floods for ever"),
    };
    if let Err(error) = stopped {
        assert_eq!(error.code(), Code::StoreDiskFull, "the end could not be written: {error:?}");
    }
    let took = asked.elapsed();
    assert!(took < CLOSE_GRACE, "nobody waits for what cannot be: {took:?}");
    assert_eq!(cortex.state(), CoreState::Stopped);
    let late = cortex.as_user().call(CreateAgent::new(&project, "eve", "command:shell")).await;
    assert_eq!(late.unwrap_err().code(), Code::CoreStopped);
    assert!(!place.has("done"), "the turn was ended");

    // A start on a full disk fails and says so; it leaves what is there.
    place.fill();
    let error = place.open().await.unwrap_err();
    assert_eq!(error.code(), Code::StoreDiskFull, "{error:?}");
    place.free();
    place.is_whole();

    let bench = Bench { cortex: place.open().await.unwrap(), project, agents };
    let left = bench.until_task("left", TaskStatus::Blocked).await;
    assert_eq!(left.failure.unwrap().cause, "recovery.outcome_unknown");
    for agent_id in bench.agents.clone() {
        let ready = async || {
            let see = GetAgentStatus { agent_id: agent_id.clone() };
            let agent = bench.cortex.as_user().call(see).await.unwrap().agent;
            (agent.state == AgentStatus::Ready).then_some(())
        };
        assert_eq!(until("the agent is back", ready).await, Some(()));
    }
    place.touch("go");
    let retry = RetryTask { task_id: left.task_id, execution_id: None, reason: None };
    bench.cortex.as_user().call(retry).await.unwrap();
    bench.until_task("last", TaskStatus::Completed).await;
    bench.cortex.shutdown().await.unwrap();
    place.is_whole();
}

async fn an_objective_outlives_a_disk_that_fills_again_and_again() {
    on_one_thread(again_and_again).await;
}

async fn again_and_again() {
    let place = Place::new();
    let bench = Bench::new(&place).await;
    place.touch("go");
    let call = bench.diamond(|task| TaskSpec { max_retries: Some(10), ..task });
    bench.cortex.as_user().call(call).await.unwrap();
    let mut full = 0;
    let mut ticks = tokio::time::interval(Duration::from_millis(130));
    let flood = async {
        loop {
            ticks.tick().await;
            place.fill();
            full += 1;
            ticks.tick().await;
            place.free();
            ticks.tick().await;
        }
    };
    let completed = async { bench.until_task("last", TaskStatus::Completed).await };
    let last = tokio::select! { biased;
        last = completed => last,
        () = flood => panic!("it floods for ever"),
    };
    assert!(full > 1, "the disk was full {full} times");
    place.free();
    assert_eq!(last.result.unwrap().text.trim(), "LEFT-RESULT\nRIGHT-RESULT");
    for task in bench.objective().await.tasks {
        let lost = task.attempts.iter().any(|attempt| attempt.cause.as_deref() == Some("lost"));
        assert!(!lost && task.status == TaskStatus::Completed, "{task:#?}");
    }
    bench.cortex.shutdown().await.unwrap();
    place.is_whole();
}
