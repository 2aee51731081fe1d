//! Programs under an owner process. Its main calls `process::init` first, so it has no test harness: it runs
//! its claims itself, and understands the arguments by which test runners list and choose.
#![expect(clippy::unwrap_used, reason = "a test may stop")]
#![expect(clippy::disallowed_methods, reason = "a test looks at processes from outside")]
#![expect(clippy::print_stdout, reason = "it is its own harness")]

#[cfg(target_os = "linux")]
mod trees;

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let plain = arguments.peek().is_some_and(|role| role == linux::PLAIN_CORE);
    if !plain {
        cortex_lib::process::init();
    }
    let arguments: Vec<String> = arguments.collect();
    linux::main(&arguments);
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::pin::Pin;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use cortex_lib::domain::terminal::TerminalSize;
    use cortex_lib::process::{Program, sweep};
    use fs_err as fs;

    use crate::trees::{
        self, Foreign, all_sleep, bash, lives, living, sleepers, soon, unique, until,
    };

    /// The core that is killed, with and without owner.
    const CORE: &str = "core";
    const TERMINAL_CORE: &str = "terminal-core";
    pub(super) const PLAIN_CORE: &str = "plain-core";
    /// What a core that runs inside a session has in its environment and must not hand on.
    const OUTER_TOKEN: &str = "CORTEX_MCP_TOKEN";

    type Claim = fn() -> Pin<Box<dyn Future<Output = ()> + Send>>;

    macro_rules! claims {
        ($($name:ident: $claim:expr,)+) => {
            &[$((stringify!($name), || Box::pin($claim)),)+]
        };
    }

    const CLAIMS: &[(&str, Claim)] = claims! {
        ending_a_program_ends_its_tree: trees::ending_a_program_ends_its_tree_except(&[]),
        dropping_the_handle_ends_the_tree: trees::dropping_the_handle_ends_the_tree_except(&[]),
        a_program_that_ends_leaves_nothing: trees::a_program_that_ends_leaves_nothing_except(&[]),
        dropping_the_runtime_and_the_handle_ends_the_tree:
            trees::dropping_the_runtime_and_the_handle_ends_the_tree(),
        exit_codes_and_signals_are_kept: trees::exit_codes_and_signals_are_kept(),
        a_program_that_ignores_signals_is_ended: trees::a_program_that_ignores_signals_is_ended(),
        a_signal_reaches_the_program_and_nothing_below_it:
            trees::a_signal_reaches_the_program_and_nothing_below_it(),
        output_arrives_whole_even_when_the_program_is_gone:
            trees::output_arrives_whole_even_when_the_program_is_gone(),
        what_is_written_arrives_and_closing_is_seen:
            trees::what_is_written_arrives_and_closing_is_seen(),
        a_pipe_ends_when_the_program_closes_it_and_lives_on:
            trees::a_pipe_ends_when_the_program_closes_it_and_lives_on(),
        a_fork_storm_is_ended: trees::a_fork_storm_is_ended(),
        a_foreign_process_of_the_same_name_survives:
            trees::a_foreign_process_of_the_same_name_survives(),
        programs_with_the_same_marker_end_one_by_one:
            trees::programs_with_the_same_marker_end_one_by_one(),
        what_is_below_can_be_ended_while_the_program_lives_on:
            trees::what_is_below_can_be_ended_while_the_program_lives_on(),
        what_cannot_be_started_is_told_apart: trees::what_cannot_be_started_is_told_apart(),
        the_marker_and_the_environment_reach_the_program:
            trees::the_marker_and_the_environment_reach_the_program(),
        a_program_on_a_terminal_has_it_for_its_own:
            trees::terminal::a_program_on_a_terminal_has_it_for_its_own(),
        a_program_hears_of_a_new_size_and_of_ctrl_c:
            trees::terminal::a_program_hears_of_a_new_size_and_of_ctrl_c(),
        a_terminal_ends_with_its_tree: trees::terminal::a_terminal_ends_with_its_tree_except(&[]),
        output_that_nobody_takes_holds_the_program_up_and_is_not_lost:
            trees::terminal::output_that_nobody_takes_holds_the_program_up_and_is_not_lost(),
        what_cannot_be_started_on_a_terminal_is_told:
            trees::terminal::what_cannot_be_started_on_a_terminal_is_told(),
        no_terminal_outlives_a_killed_core: no_terminal_outlives_a_killed_core(),
        each_program_runs_below_an_owner: each_program_runs_below_an_owner(),
        nothing_outlives_a_killed_core: nothing_outlives_a_killed_core(),
        nothing_outlives_a_killed_owner: nothing_outlives_a_killed_owner(),
        what_a_killed_core_without_owners_left_is_swept:
            what_a_killed_core_without_owners_left_is_swept(),
        variables_of_cortex_are_not_handed_on: variables_of_cortex_are_not_handed_on(),
        a_program_that_forks_and_exits_at_once_leaves_no_owner:
            a_program_that_forks_and_exits_at_once_leaves_no_owner(),
    };

    pub(super) fn main(arguments: &[String]) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        if let [role, marker, script] = arguments
            && [CORE, PLAIN_CORE, TERMINAL_CORE].contains(&role.as_str())
        {
            return runtime.block_on(be_core(role, marker, script));
        }
        let flag = |name: &str| arguments.iter().any(|argument| argument == name);
        let wanted: Vec<_> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
        let chosen = CLAIMS.iter().filter(|(name, _)| {
            !flag("--ignored")
                && (wanted.is_empty()
                    || wanted.iter().any(|word| {
                        if flag("--exact") { name == word } else { name.contains(word.as_str()) }
                    }))
        });
        if flag("--list") {
            chosen.for_each(|(name, _)| println!("{name}: test"));
            return;
        }
        let (mut passed, mut failed) = (0, 0);
        for (name, claim) in chosen {
            let held = runtime.block_on(async { tokio::spawn(claim()).await.is_ok() });
            println!("test {name} ... {}", if held { "ok" } else { "FAILED" });
            *(if held { &mut passed } else { &mut failed }) += 1;
        }
        println!("\n{passed} passed, {failed} failed");
        assert_eq!(failed, 0, "claims do not hold");
    }

    /// The part of a core that owns one program, until it is killed.
    async fn be_core(role: &str, marker: &str, script: &str) {
        let program = Program::new(["bash", "-c", script], std::env::temp_dir(), marker);
        let (owned, _pty) = if role == TERMINAL_CORE {
            let size = TerminalSize { rows: 24, columns: 80 };
            let (owned, pty) = program.spawn_on_terminal(size).await.unwrap();
            (owned, Some(pty))
        } else {
            (program.spawn().await.unwrap(), None)
        };
        println!("{}", owned.pid());
        std::io::stdout().flush().unwrap();
        owned.exited().await;
    }

    /// Starts a core with a program, and returns it with the program's pid.
    fn core(role: &str, marker: &str, script: &str) -> (Foreign, u32) {
        let core = Command::new("/proc/self/exe")
            .args([role, marker, script])
            .env(OUTER_TOKEN, "outer")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut core = Foreign(core);
        let mut line = String::new();
        BufReader::new(core.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (core, line.trim().parse().unwrap())
    }

    fn parent(pid: u32) -> u32 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }

    fn name(pid: u32) -> String {
        fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim().to_owned()
    }

    /// Whether it runs. A dead one may wait a while for its parent, which may be the system's first process.
    fn runs(pid: u32) -> bool {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.starts_with(" Z"))
    }

    async fn each_program_runs_below_an_owner() {
        let owned = bash("sleep 1000").await;
        let above = parent(owned.pid());
        assert_eq!((name(above).as_str(), parent(above)), ("cortex-owner", std::process::id()));
        // It holds no end of the program's pipes: input, output and errors are its own.
        for fd in 0..3 {
            let file = fs::read_link(format!("/proc/{above}/fd/{fd}")).unwrap();
            assert_eq!(file.to_str(), Some("/dev/null"));
        }
        let pipes = fs::read_dir(format!("/proc/{above}/fd")).unwrap().flatten();
        let pipes = pipes.filter_map(|fd| fs::read_link(fd.path()).ok());
        assert_eq!(pipes.filter(|file| file.starts_with("pipe:")).count(), 0);
        soon("the end", owned.end()).await;
        assert!(!runs(above));
    }

    async fn nothing_outlives_a_killed_core() {
        let tag = unique();
        let (mut core, program) =
            core(CORE, &unique(), &sleepers(&tag, "trap '' TERM; sleep 1000"));
        until("all sleep", || all_sleep(&tag)).await;
        let owner = parent(program);
        core.0.kill().unwrap();
        let killed = Instant::now();
        until("all gone", || living(&tag).is_empty() && !runs(program) && !runs(owner)).await;
        let took = killed.elapsed();
        core.0.wait().unwrap();
        assert!(took < Duration::from_secs(1), "it took {took:?}");
    }

    /// Processes: a terminal hangs up with the core, and what takes no notice of that is ended all the same.
    async fn no_terminal_outlives_a_killed_core() {
        let tag = unique();
        let script = format!("trap '' HUP TERM; {}", sleepers(&tag, "sleep 1000"));
        let (mut core, program) = core(TERMINAL_CORE, &unique(), &script);
        until("all sleep", || all_sleep(&tag)).await;
        let owner = parent(program);
        assert_eq!(name(owner), "cortex-owner");
        core.0.kill().unwrap();
        core.0.wait().unwrap();
        until("all gone", || living(&tag).is_empty() && !runs(program) && !runs(owner)).await;
    }

    async fn nothing_outlives_a_killed_owner() {
        let tag = unique();
        let owned = bash(&format!("sleep {tag} & (setsid sleep {tag} &); sleep {tag}")).await;
        until("all sleep", || trees::pids(&tag).len() >= 3).await;
        let above = parent(owned.pid()).to_string();
        assert!(Command::new("kill").args(["-9", &above]).status().unwrap().success());
        let exit = soon("its exit", owned.exited()).await;
        assert_eq!((exit.code, exit.signal), (None, None), "nobody saw it");
        soon("the end", owned.end()).await;
        assert!(!lives(&tag));
    }

    async fn what_a_killed_core_without_owners_left_is_swept() {
        let (tag, marker) = (unique(), unique());
        let (mut core, program) =
            core(PLAIN_CORE, &marker, &sleepers(&tag, &format!("sleep {tag}; true")));
        until("all sleep", || all_sleep(&tag) && lives(&tag)).await;
        assert_eq!(parent(program), core.0.id(), "there is no owner");
        core.0.kill().unwrap();
        core.0.wait().unwrap();
        assert!(runs(program), "nobody ends it");
        assert_eq!(sweep([unique()]).await, 0);
        // The program, its five sleepers that can be told, and the last sleep.
        assert_eq!(sweep([unique(), marker]).await, 7);
        assert_eq!(living(&tag).into_iter().collect::<Vec<_>>(), [4], "the stated limit");
        for pid in trees::pids(&format!("{tag}4")) {
            Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        }
    }

    async fn variables_of_cortex_are_not_handed_on() {
        for role in [CORE, PLAIN_CORE] {
            let tag = unique();
            let (mut core, program) = core(role, &unique(), &format!("sleep {tag}; true"));
            until("it sleeps", || lives(&tag)).await;
            let environ = |pid: u32| {
                let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap();
                String::from_utf8(bytes).unwrap()
            };
            assert!(environ(core.0.id()).contains(OUTER_TOKEN));
            assert!(!environ(program).contains(OUTER_TOKEN), "{role}");
            if role == CORE {
                assert!(!environ(parent(program)).contains(OUTER_TOKEN), "its owner");
                assert!(!environ(program).contains("CORTEX_OWNER_PROCESS"));
            }
            core.0.kill().unwrap();
            core.0.wait().unwrap();
            for pid in trees::pids(&tag) {
                Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
            }
            until("it is gone", || !lives(&tag) && !runs(program)).await;
        }
    }

    async fn a_program_that_forks_and_exits_at_once_leaves_no_owner() {
        let tag = unique();
        for _ in 0..20 {
            let owned = bash(&format!("(setsid env -i /usr/bin/sleep {tag} &) & exit 0")).await;
            soon("the end", owned.end()).await;
        }
        assert!(!lives(&tag));
        let me = std::process::id();
        let owners = fs::read_dir("/proc").unwrap().flatten();
        let owners = owners.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let names = owners.filter(|pid| runs(*pid) && parent(*pid) == me).map(name);
        assert_eq!(names.filter(|name| name == "cortex-owner").count(), 0);
    }
}
