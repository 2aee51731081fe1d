//! Claims about programs and their trees that hold with and without an owner process, and what they need.
#![expect(clippy::unwrap_used, reason = "a test may stop")]
#![expect(clippy::disallowed_methods, reason = "a test looks at processes from outside")]

pub mod terminal;

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cortex_lib::error::Code;
use cortex_lib::process::{Exit, Owned, Program, Signal};
use fs_err as fs;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

/// How a program may start something and let go of it.
pub const KINDS: [(&str, &str); 6] = [
    ("same group", "sleep N &"),
    ("own session", "setsid sleep N &"),
    ("own session, cleared environment", "setsid env -i /usr/bin/sleep N &"),
    ("daemon", "(setsid sleep N &)"),
    ("daemon, cleared environment", "(setsid env -i /usr/bin/sleep N &)"),
    ("same group, cleared environment", "env -i /usr/bin/sleep N &"),
];

/// Longer than anything takes on a busy machine; a wait that is this long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A number that no other sleeper of this machine sleeps for.
pub fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("9{:07}{next:03}", std::process::id())
}

/// One script with a sleeper of each kind, known by `tag`, and what it does then.
pub fn sleepers(tag: &str, then: &str) -> String {
    let start: Vec<_> = KINDS
        .iter()
        .enumerate()
        .map(|(at, (_, script))| script.replace('N', &format!("{tag}{at}")))
        .collect();
    format!("{}\n{then}", start.join("\n"))
}

/// The kinds of sleepers that live.
pub fn living(tag: &str) -> BTreeSet<usize> {
    (0..KINDS.len()).filter(|at| lives(&format!("{tag}{at}"))).collect()
}

/// Whether a process with this argument lives.
pub fn lives(argument: &str) -> bool {
    !pids(argument).is_empty()
}

/// The processes with this argument. One that is dead has no arguments.
pub fn pids(argument: &str) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
                line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
            })
        })
        .collect()
}

/// Whether a sleeper of each kind sleeps by now, and the shells that let go of theirs are gone: until then such a sleeper
/// is found by its parent, or its environment is not cleared yet.
pub fn all_sleep(tag: &str) -> bool {
    KINDS.iter().enumerate().all(|(at, (_, script))| {
        let is_let_go = script.starts_with('(');
        let mut sleepers = pids(&format!("{tag}{at}")).into_iter().filter_map(name_and_parent);
        sleepers.any(|(name, parent)| {
            let parent = name_and_parent(parent).map(|(name, _)| name);
            name == "sleep" && !(is_let_go && parent.as_deref() == Some("bash"))
        })
    })
}

/// What a process is called, and what is above it.
fn name_and_parent(pid: i32) -> Option<(String, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    Some((name.to_owned(), rest.split_ascii_whitespace().nth(1)?.parse().ok()?))
}

/// Looks until it holds.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    let looks = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(PATIENCE, looks).await.is_ok(), "in vain: {what}");
}

/// Waits for it, but not for ever.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.map_err(|_| format!("in vain: {what}")).unwrap()
}

/// Starts a script.
pub async fn bash(script: &str) -> Owned {
    let program = Program::new(["bash", "-c", script], std::env::temp_dir(), unique());
    program.spawn().await.unwrap()
}

/// Everything it prints.
pub async fn output(owned: &Owned) -> Vec<u8> {
    let mut bytes = Vec::new();
    owned.take_stdout().unwrap().read_to_end(&mut bytes).await.unwrap();
    bytes
}

/// A process that is not owned. It ends with its claim, also when that does not hold.
pub struct Foreign(pub Child);

impl Foreign {
    pub fn sleep(number: &str) -> Self {
        Self(Command::new("sleep").arg(number).stdin(Stdio::null()).spawn().unwrap())
    }

    pub fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Ends the sleepers that are meant to be left, so that the machine is clean.
fn tidy(tag: &str) {
    for at in living(tag) {
        for pid in pids(&format!("{tag}{at}")) {
            Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        }
    }
}

pub async fn ending_a_program_ends_its_tree_except(left: &[usize]) {
    let tag = unique();
    let owned = bash(&sleepers(&tag, "sleep 1000")).await;
    until("all sleep", || all_sleep(&tag)).await;
    soon("the end", owned.end()).await;
    assert_eq!(living(&tag), left.iter().copied().collect());
    assert_eq!(owned.exited().await, Exit { code: None, signal: Some(9) });
    soon("a second end", owned.end()).await;
    tidy(&tag);
}

pub async fn dropping_the_handle_ends_the_tree_except(left: &[usize]) {
    let tag = unique();
    let owned = bash(&sleepers(&tag, "sleep 1000")).await;
    until("all sleep", || all_sleep(&tag)).await;
    drop(owned);
    until("all gone", || living(&tag) == left.iter().copied().collect()).await;
    tidy(&tag);
}

pub async fn a_program_that_ends_leaves_nothing_except(left: &[usize]) {
    let tag = unique();
    let owned = bash(&sleepers(&tag, "read line; exit 5")).await;
    until("all sleep", || all_sleep(&tag)).await;
    drop(owned.take_stdin());
    assert_eq!(soon("its exit", owned.exited()).await, Exit { code: Some(5), signal: None });
    until("all gone", || living(&tag) == left.iter().copied().collect()).await;
    tidy(&tag);
}

pub async fn dropping_the_runtime_and_the_handle_ends_the_tree() {
    let tag = unique();
    let script = format!("sleep {tag} & sleep {tag}");
    let inside = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(bash(&script))
    };
    let owned = std::thread::spawn(inside).join().unwrap();
    drop(owned);
    until("all gone", || !lives(&tag)).await;
}

pub async fn exit_codes_and_signals_are_kept() {
    let owned = bash("exit 7").await;
    let (first, second) =
        soon("its exit", async { tokio::join!(owned.exited(), owned.exited()) }).await;
    assert_eq!((first, second), (Exit { code: Some(7), signal: None }, first));
    let owned = bash("kill -SEGV $$").await;
    assert_eq!(soon("its exit", owned.exited()).await, Exit { code: None, signal: Some(11) });
    // 137 is what shells make of signal 9, and no signal.
    let owned = bash("exit 137").await;
    assert_eq!(soon("its exit", owned.exited()).await, Exit { code: Some(137), signal: None });
}

pub async fn a_program_that_ignores_signals_is_ended() {
    let tag = unique();
    let owned = bash(&format!("trap '' INT TERM; sleep {tag} & echo up; wait; sleep {tag}")).await;
    let mut line = [0; 3];
    owned.take_stdout().unwrap().read_exact(&mut line).await.unwrap();
    owned.signal(Signal::Interrupt);
    owned.signal(Signal::Terminate);
    soon("the end", owned.end()).await;
    assert_eq!(owned.exited().await, Exit { code: None, signal: Some(9) });
    assert!(!lives(&tag));
}

pub async fn a_signal_reaches_the_program_and_nothing_below_it() {
    let rest = "echo up; while :; do sleep 0.01; done";
    let owned = bash(&format!(
        "bash -c 'trap \"echo child\" INT; {rest}' & trap 'echo int; exit 3' INT; {rest}"
    ))
    .await;
    let mut stdout = owned.take_stdout().unwrap();
    let mut start = [0; 6];
    soon("both are up", stdout.read_exact(&mut start)).await.unwrap();
    owned.signal(Signal::Interrupt);
    assert_eq!(soon("its exit", owned.exited()).await, Exit { code: Some(3), signal: None });
    let mut rest = String::new();
    soon("its output", stdout.read_to_string(&mut rest)).await.unwrap();
    assert!(rest.contains("int") && !rest.contains("child"), "{rest}");
}

pub async fn output_arrives_whole_even_when_the_program_is_gone() {
    let owned = bash("head -c 60000 /dev/zero; echo done >&2").await;
    soon("its exit", owned.exited()).await;
    soon("the end", owned.end()).await;
    assert_eq!(output(&owned).await.len(), 60_000);
    let mut errors = String::new();
    owned.take_stderr().unwrap().read_to_string(&mut errors).await.unwrap();
    assert_eq!(errors, "done\n");
    let owned = bash("head -c 5000000 /dev/zero").await;
    assert_eq!(soon("all output", output(&owned)).await.len(), 5_000_000);
}

pub async fn what_is_written_arrives_and_closing_is_seen() {
    let owned = bash("cat").await;
    let mut stdin = owned.take_stdin().unwrap();
    assert!(owned.take_stdin().is_none());
    let text = "x".repeat(200 * 1024);
    let write = async {
        stdin.write_all(text.as_bytes()).await.unwrap();
        drop(stdin);
    };
    let ((), read) = soon("the echo", async { tokio::join!(write, output(&owned)) }).await;
    assert_eq!(read, text.as_bytes());
}

pub async fn a_pipe_ends_when_the_program_closes_it_and_lives_on() {
    let owned = bash("echo result; exec >&-; sleep 1000").await;
    assert_eq!(soon("the end of its output", output(&owned)).await, b"result\n");
    soon("the end", owned.end()).await;
}

pub async fn a_fork_storm_is_ended() {
    let tag = unique();
    let owned = bash(&format!(
        "f() {{ while :; do (setsid sleep {tag} &); sleep 0.005; done; }}; f & f &
         setsid bash -c 'while :; do sleep 0.01; (setsid sleep {tag} &); done' & wait"
    ))
    .await;
    until("the storm blows", || pids(&tag).len() > 40).await;
    soon("the end", owned.end()).await;
    assert!(!lives(&tag));
}

pub async fn a_foreign_process_of_the_same_name_survives() {
    let number = unique();
    let mut foreign = Foreign::sleep(&number);
    let owned = bash(&format!("sleep {number} & setsid sleep {number} & wait")).await;
    until("all sleep", || pids(&number).len() >= 3).await;
    soon("the end", owned.end()).await;
    assert!(foreign.lives());
    assert_eq!(cortex_lib::process::sweep([unique()]).await, 0);
    assert!(foreign.lives());
}

pub async fn programs_with_the_same_marker_end_one_by_one() {
    let (marker, number) = (unique(), unique());
    let program = Program::new(["sleep", &number], std::env::temp_dir(), marker);
    let (first, second) = (program.spawn().await.unwrap(), program.spawn().await.unwrap());
    until("both sleep", || pids(&number).len() == 2).await;
    soon("the end", first.end()).await;
    assert_eq!(pids(&number), [i32::try_from(second.pid()).unwrap()]);
    soon("the end", second.end()).await;
    assert!(!lives(&number));
}

pub async fn what_is_below_can_be_ended_while_the_program_lives_on() {
    let tag = unique();
    let owned =
        bash(&format!("sleep {tag} & (setsid sleep {tag} &); read line; echo alive; exit 4")).await;
    until("both sleep", || pids(&tag).len() == 2).await;
    soon("the clearing", owned.end_descendants()).await;
    assert!(!lives(&tag));
    soon("a clearing of nothing", owned.end_descendants()).await;
    drop(owned.take_stdin());
    assert_eq!(output(&owned).await, b"alive\n");
    assert_eq!(soon("its exit", owned.exited()).await, Exit { code: Some(4), signal: None });
    soon("a clearing after the end", owned.end_descendants()).await;
}

pub async fn what_cannot_be_started_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let start = async |program: &str, cwd: &std::path::Path| {
        let error = Program::new([program], cwd, unique()).spawn().await.unwrap_err();
        assert_eq!(error.detail("program").unwrap(), program);
        assert_eq!(error.detail("folder").unwrap(), cwd.to_str().unwrap());
        (error.code(), error.message().to_owned())
    };
    let gone = folder.path().join("gone");
    fs::write(folder.path().join("text"), "text").unwrap();
    let (code, message) = start("cortex-no-such-program", folder.path()).await;
    assert_eq!(code, Code::RuntimeNotInstalled);
    assert!(message.contains("cortex-no-such-program was not found"), "{message}");
    let (code, message) = start("./text", folder.path()).await;
    assert_eq!(code, Code::RuntimeStartFailed);
    assert!(message.contains("may not be run"), "{message}");
    let (code, message) = start("sh", &gone).await;
    assert_eq!(code, Code::ProjectInvalidRoot);
    assert!(message.contains("is not there"), "{message}");
    assert_eq!(start("a\0b", folder.path()).await.0, Code::RuntimeStartFailed);
}

pub async fn the_marker_and_the_environment_reach_the_program() {
    let cwd = tempfile::tempdir().unwrap();
    let folder = cwd.path().join("with space \u{e4}");
    fs::create_dir(&folder).unwrap();
    let owned = Program::new(["sh", "-c", "echo $CORTEX_OWNER $A $CORTEX_B; pwd"], &folder, "mark")
        .env("A", "one")
        .env("CORTEX_B", "two")
        .spawn()
        .await
        .unwrap();
    let printed = String::from_utf8(output(&owned).await).unwrap();
    assert_eq!(printed, format!("mark one two\n{}\n", folder.canonicalize().unwrap().display()));
}
