//! Programs without an owner process: this test binary's main is not ours, so it cannot call
//! `process::init`.
#![cfg(target_os = "linux")]

mod trees;

/// A daemon that cleared its environment shows no trace of where it came from: the stated limit.
const DAEMON_WITHOUT_ENVIRONMENT: usize = 4;
/// It shows one while its parent lives.
const SESSION_WITHOUT_ENVIRONMENT: usize = 2;

#[tokio::test]
async fn ending_a_program_ends_its_tree() {
    trees::ending_a_program_ends_its_tree_except(&[DAEMON_WITHOUT_ENVIRONMENT]).await;
}

#[tokio::test]
async fn dropping_the_handle_ends_the_tree() {
    trees::dropping_the_handle_ends_the_tree_except(&[DAEMON_WITHOUT_ENVIRONMENT]).await;
}

#[tokio::test]
async fn a_program_that_ends_leaves_nothing() {
    let left = [SESSION_WITHOUT_ENVIRONMENT, DAEMON_WITHOUT_ENVIRONMENT];
    trees::a_program_that_ends_leaves_nothing_except(&left).await;
}

macro_rules! also {
    ($($claim:ident)+) => {
        $(#[tokio::test]
        async fn $claim() {
            trees::$claim().await;
        })+
    };
}

also! {
    dropping_the_runtime_and_the_handle_ends_the_tree
    exit_codes_and_signals_are_kept
    a_program_that_ignores_signals_is_ended
    a_signal_reaches_the_program_and_nothing_below_it
    output_arrives_whole_even_when_the_program_is_gone
    what_is_written_arrives_and_closing_is_seen
    a_pipe_ends_when_the_program_closes_it_and_lives_on
    a_fork_storm_is_ended
    a_foreign_process_of_the_same_name_survives
    programs_with_the_same_marker_end_one_by_one
    what_is_below_can_be_ended_while_the_program_lives_on
    what_cannot_be_started_is_told_apart
    the_marker_and_the_environment_reach_the_program
}

macro_rules! on_a_terminal {
    ($($claim:ident)+) => {
        $(#[tokio::test]
        async fn $claim() {
            trees::terminal::$claim().await;
        })+
    };
}

on_a_terminal! {
    a_program_on_a_terminal_has_it_for_its_own
    a_program_hears_of_a_new_size_and_of_ctrl_c
    output_that_nobody_takes_holds_the_program_up_and_is_not_lost
    what_cannot_be_started_on_a_terminal_is_told
}

#[tokio::test]
async fn a_terminal_ends_with_its_tree() {
    trees::terminal::a_terminal_ends_with_its_tree_except(&[DAEMON_WITHOUT_ENVIRONMENT]).await;
}
