//! Claims about programs on a pseudo-terminal.

use cortex_lib::domain::terminal::TerminalSize;
use cortex_lib::error::Code;
use cortex_lib::process::{Exit, Owned, Program, Pty};
use tokio::sync::mpsc::Receiver;

use super::{all_sleep, lives, living, sleepers, soon, unique, until};

const SIZE: TerminalSize = TerminalSize { rows: 33, columns: 111 };

/// A script on a terminal.
pub struct OnTerminal {
    pub owned: Owned,
    pub pty: Pty,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl OnTerminal {
    pub async fn bash(script: &str) -> Self {
        let program = Program::new(["bash", "-c", script], std::env::temp_dir(), unique());
        let (owned, pty) = program.spawn_on_terminal(SIZE).await.unwrap();
        let output = pty.take_output().unwrap();
        assert!(pty.take_output().is_none());
        Self { owned, pty, output, seen: String::new() }
    }

    /// Waits until it has printed this.
    async fn shows(&mut self, text: &str) {
        let look = async {
            while !self.seen.contains(text) {
                let bytes = self.output.recv().await;
                assert!(bytes.is_some(), "it showed no more than {:?}", self.seen);
                let bytes = bytes.unwrap_or_default();
                self.seen.push_str(&String::from_utf8_lossy(&bytes));
            }
        };
        soon(text, look).await;
    }

    async fn types(&self, text: &str) {
        soon("typing", self.pty.write(text.as_bytes().to_vec())).await.unwrap();
    }
}

pub async fn a_program_on_a_terminal_has_it_for_its_own() {
    let mut it = OnTerminal::bash(
        "test -t 0 && test -t 1 && test -t 2 && tty && echo \"to $$ $PPID\" > /dev/tty; stty size;
         echo \"$TERM $COLORTERM [$TMUX]\"; ps -o tpgid=,sid=,pgid= -p $$; read line; echo \"read $line\"",
    )
    .await;
    it.shows("xterm-256color truecolor []").await;
    assert!(it.seen.contains("/dev/pts/"), "{}", it.seen);
    let pid = it.owned.pid();
    assert!(it.seen.contains(&format!("to {pid} ")), "{}", it.seen);
    assert!(it.seen.contains("33 111"), "{}", it.seen);
    it.types("hello\r").await;
    it.shows("read hello").await;
    let ids: Vec<_> = it
        .seen
        .lines()
        .find(|line| line.contains(&pid.to_string()) && !line.contains("to"))
        .unwrap()
        .split_ascii_whitespace()
        .collect();
    assert_eq!(ids, [pid.to_string().as_str(); 3], "it leads the session and is in front");
    assert_eq!(soon("its exit", it.owned.exited()).await, Exit { code: Some(0), signal: None });
    soon("the end of its output", async { while it.output.recv().await.is_some() {} }).await;
    soon("the end", it.owned.end()).await;
}

pub async fn a_program_hears_of_a_new_size_and_of_ctrl_c() {
    let mut it =
        OnTerminal::bash("trap 'stty size' WINCH; echo up; while :; do sleep 0.01; done").await;
    it.shows("up").await;
    it.pty.resize(TerminalSize { rows: 44, columns: 222 }).unwrap();
    it.shows("44 222").await;
    soon("the end", it.owned.end()).await;

    // The kernel throws away what is shown while it sends the signal, so it is said more than once.
    let script = "trap stop=1 INT; echo up; until [ \"$stop\" ]; do read -t 0.01; done;
         for i in {1..20}; do echo interrupted; read -t 0.01; done; exit 9";
    let mut it = OnTerminal::bash(script).await;
    it.shows("up").await;
    it.types("\x03").await;
    it.shows("interrupted").await;
    assert_eq!(soon("its exit", it.owned.exited()).await, Exit { code: Some(9), signal: None });
}

pub async fn a_terminal_ends_with_its_tree_except(left: &[usize]) {
    let tag = unique();
    let it = OnTerminal::bash(&sleepers(&tag, "trap '' HUP TERM; set -m; sleep 1000 & wait")).await;
    until("all sleep", || all_sleep(&tag)).await;
    soon("the end", it.owned.end()).await;
    // The hang-up of the terminal may end one more than this process finds.
    let living = living(&tag);
    assert!(living.iter().all(|kind| left.contains(kind)), "{living:?} live");
    super::tidy(&tag);

    let tag = unique();
    let it = OnTerminal::bash(&format!("sleep {tag} & sleep {tag}")).await;
    until("it sleeps", || lives(&tag)).await;
    drop(it);
    until("all gone", || !lives(&tag)).await;
}

pub async fn output_that_nobody_takes_holds_the_program_up_and_is_not_lost() {
    let mut it = OnTerminal::bash("stty raw; head -c 3000000 /dev/zero; printf done").await;
    let mut count = 0;
    let all = async {
        while let Some(bytes) = it.output.recv().await {
            count += bytes.len();
        }
    };
    soon("all output", all).await;
    assert_eq!(count, 3_000_004);
    soon("the end", it.owned.end()).await;
}

pub async fn what_cannot_be_started_on_a_terminal_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let start = async |program: &str, cwd: &std::path::Path| {
        let program = Program::new([program], cwd, unique());
        program.spawn_on_terminal(SIZE).await.unwrap_err().code()
    };
    let missing = start("cortex-no-such-program", folder.path()).await;
    assert!([Code::RuntimeNotInstalled, Code::RuntimeStartFailed].contains(&missing));
    assert_eq!(start("sh", &folder.path().join("gone")).await, Code::ProjectInvalidRoot);
}
