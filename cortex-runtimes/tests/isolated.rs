//! Isolated tasks from their start to their integration: the real git, real programs, real files.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop, with what it saw")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{
    CreateAgent, CreateObjective, GetTaskStatus, IntegrateTask, ListTasks, StartAgent,
};
use cortex_lib::api::view::TaskView;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::plan::{Requirement, TaskSpec};
use cortex_lib::domain::task::{Evidence, TaskStatus};
use cortex_lib::domain::verification::{Verification, VerificationCommand};
use cortex_lib::ids::TaskId;
use cortex_lib::port::Runtime as _;
use cortex_lib::{Code, Cortex};
use cortex_runtimes::{CommandConfig, CommandRuntime};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// Waits until three of its kind run, then does what its task says, in the folder that it was given.
const PROGRAM: &str = r#"
instruction=$(cat)
case "$instruction" in
*TASK-X*) key=x ;;
*TASK-Y*) key=y ;;
*TASK-Z*) key=z ;;
esac
touch "$MEETING/$key"
tries=0
until test -e "$MEETING/x" -a -e "$MEETING/y" -a -e "$MEETING/z"; do
    tries=$((tries + 1))
    test $tries -lt 600 || { echo "the others did not come" >&2; exit 1; }
    sleep 0.1
done
case $key in
x) echo "by x" >a.txt ;;
y) echo "by y" >y.txt; mkdir -p build; echo "not kept" >build/out ;;
z) echo "by z" >a.txt ;;
esac
echo "$key is done"
"#;

/// Runs git as the person who works in the project.
#[expect(clippy::disallowed_methods, reason = "a person runs git without Cortex")]
fn git(root: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(arguments)
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn repository(root: &Path) {
    git(root, &["init", "--quiet", "-b", "main"]);
    // What the user's own configuration may say otherwise to the core.
    git(root, &["config", "core.autocrlf", "false"]);
    git(root, &["config", "core.excludesFile", ""]);
    fs_err::write(root.join("a.txt"), "a\n").unwrap();
    fs_err::write(root.join(".gitignore"), "build/\n").unwrap();
    git(root, &["add", "."]);
    git(root, &["commit", "--quiet", "-m", "first"]);
}

async fn open(data: &Path, meeting: &Path) -> Cortex {
    let argv = ["sh", "-c", PROGRAM].map(Into::into).to_vec();
    let env = BTreeMap::from([("MEETING".to_owned(), meeting.to_str().unwrap().to_owned())]);
    let config = CommandConfig { name: "shell".into(), argv, env };
    let runtime = Arc::new(CommandRuntime::new(config).unwrap());
    Cortex::builder(data).runtime(runtime).open().await.unwrap()
}

/// Runs the three tasks on three agents to their end.
async fn run(cortex: &Cortex, root: &Path) -> Vec<TaskId> {
    let user = cortex.as_user();
    // What is verified is the worktree: the project's own folder has no such line.
    let argv = ["sh", "-c", "grep -rqs '^by ' . && test -e .gitignore"].map(Into::into).to_vec();
    let commands = vec![VerificationCommand { argv, name: None }];
    let verification = Some(Verification { commands, timeout_secs: 60 });
    let add = AddProject { name: "p".into(), root: root.to_owned(), verification };
    let project_id = user.call(add).await.unwrap().project.project_id;
    let id = CommandRuntime::new(CommandConfig {
        name: "shell".into(),
        argv: vec!["sh".into()],
        env: BTreeMap::new(),
    });
    let runtime = id.unwrap().info().id.clone();
    for name in ["ada", "bob", "eve"] {
        let create = CreateAgent::new(&project_id, name, runtime.as_str());
        let agent_id = user.call(create).await.unwrap().agent.agent_id;
        user.call(StartAgent { agent_id }).await.unwrap();
    }
    let task = |key: &str| TaskSpec {
        requirements: vec![Requirement::WorkspaceIsolation],
        max_retries: Some(0),
        ..TaskSpec::new(key, format!("Do TASK-{}.", key.to_uppercase()))
    };
    let tasks = ["x", "y", "z"].map(task).to_vec();
    let mut events = cortex.events(Some(cortex.newest_event().unwrap()));
    let create = CreateObjective { project_id, title: "three".into(), tasks };
    let objective = user.call(create).await.unwrap().objective;
    let ended =
        async { while events.next().await.unwrap().unwrap().kind != EventKind::ObjectiveEnded {} };
    let Ok(()) = tokio::time::timeout(PATIENCE, ended).await else {
        panic!("they never ended: {:#?}", user.call(ListTasks {}).await)
    };
    objective.tasks.into_iter().map(|task| task.task_id).collect()
}

async fn see(cortex: &Cortex, id: &TaskId) -> TaskView {
    cortex.as_user().call(GetTaskStatus { task_id: id.clone() }).await.unwrap().task
}

/// Waits until something is so.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    let waited = async {
        while !holds().await {
            looks.tick().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waited).await.is_ok(), "{what} did not come");
}

/// S-173, S-174, S-175, S-176, S-178, S-179: three isolated tasks at once; two are integrated, the third conflicts by
/// name, and the project's folder holds exactly what was staged.
#[tokio::test(flavor = "multi_thread")]
async fn three_isolated_tasks_run_at_once_and_are_integrated_one_by_one() {
    let [data, folder, meeting] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let root = fs_err::canonicalize(folder.path()).unwrap();
    repository(&root);
    let cortex = open(data.path(), meeting.path()).await;
    let user = cortex.as_user();
    let tasks = run(&cortex, &root).await;
    let head = git(&root, &["rev-parse", "HEAD"]);
    for (id, path) in tasks.iter().zip(["a.txt", "y.txt", "a.txt"]) {
        let task = see(&cortex, id).await;
        assert_eq!(task.status, TaskStatus::Completed, "{task:#?}");
        let result = task.result.unwrap();
        assert_eq!(result.evidence, Evidence::Verified);
        let changed: Vec<_> =
            result.changed_files.unwrap().into_iter().map(|file| file.path).collect();
        assert_eq!(changed, [path], "what git ignores is not part of it");
        let record = task.attempts[0].verification.as_ref().unwrap();
        let branch = format!("cortex/{id}");
        let named = async || see(&cortex, id).await.workspace.unwrap().branch.is_some();
        until("the branch", named).await;
        let tree = git(&root, &["rev-parse", &format!("{branch}^{{tree}}")]);
        assert_eq!(record.tree.as_deref(), Some(tree.trim()), "the tree that was verified");
        assert_eq!(git(&root, &["rev-parse", &format!("{branch}^")]), head, "on the base");
    }
    assert_eq!(git(&root, &["status", "--porcelain"]), "", "the folder is untouched");
    assert_eq!(git(&root, &["branch", "--show-current"]), "main\n");

    let integrate = async |at: usize| {
        user.call(IntegrateTask { task_id: tasks[at].clone() }).await.map(|reply| reply.task)
    };
    let x = integrate(0).await.unwrap();
    assert_eq!(git(&root, &["status", "--porcelain"]), "M  a.txt\n", "staged, not committed");
    assert_eq!(git(&root, &["rev-parse", "HEAD"]), head);
    let worktree = x.workspace.unwrap().path;
    until("the removal of the worktree", async || !worktree.exists()).await;
    let error = integrate(1).await.unwrap_err();
    assert_eq!(error.code(), Code::WorkspaceIndexNotClean);
    git(&root, &["commit", "--quiet", "-m", "x"]);

    let y = integrate(1).await.unwrap();
    assert_eq!(y.integration.unwrap().left_behind, []);
    assert_eq!(git(&root, &["status", "--porcelain"]), "A  y.txt\n");
    assert_eq!(fs_err::read_to_string(root.join("a.txt")).unwrap(), "by x\n");
    assert_eq!(fs_err::read_to_string(root.join("y.txt")).unwrap(), "by y\n");
    assert!(!root.join("build").exists());
    git(&root, &["commit", "--quiet", "-m", "y"]);

    let error = integrate(2).await.unwrap_err();
    assert_eq!(error.code(), Code::WorkspaceConflict);
    assert!(error.message().contains("a.txt"), "{error}");
    assert_eq!(git(&root, &["status", "--porcelain"]), "", "nothing has changed");
    let z = see(&cortex, &tasks[2]).await;
    assert!(z.integration.is_none() && z.workspace.unwrap().path.exists());
    let branches = git(&root, &["branch", "--list", "cortex/*"]);
    assert_eq!(branches.lines().count(), 3, "the branches stay");
    cortex.shutdown().await.unwrap();
}
