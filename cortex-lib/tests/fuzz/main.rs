//! Replays the corpus of the fuzz targets: what was found once is found again by an ordinary run of the tests. How to look
//! for more stands in `docs/fuzzing.md`.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop")]

mod arguments;
mod connection;
mod shape;
mod stage;

use std::collections::BTreeSet;
use std::path::PathBuf;

use arguments::Calls;
use connection::Connections;
use cortex_lib::api::{OPERATOR, TOOLS};

/// The inputs of a target, in the order of their names.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = format!("{}/fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let files = fs_err::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut all: Vec<_> = files.map(|path| (path.clone(), fs_err::read(path).unwrap())).collect();
    all.sort();
    all
}

/// S-023, S-026
#[test]
fn no_connection_of_the_corpus_breaks_the_endpoint() {
    let mut connections = Connections::default();
    for (path, input) in corpus("connection") {
        connections.run(&input).unwrap_or_else(|problem| panic!("{}: {problem}", path.display()));
    }
    // A corpus of refusals alone would not get past the guard.
    for status in [200, 202, 400, 401, 403, 404, 405, 408, 411, 413, 415, 431] {
        assert!(connections.statuses.contains_key(&status), "nothing is answered with {status}");
    }
}

/// S-031, S-032, S-097
#[test]
fn no_arguments_of_the_corpus_break_a_command() {
    let mut calls = Calls::default();
    for (path, input) in corpus("arguments") {
        calls.run(&input).unwrap_or_else(|problem| panic!("{}: {problem}", path.display()));
    }
    // Who only meets refusals does not get into a tool.
    let missing = |seen: &BTreeSet<&'static str>| {
        let unseen = |name: &&str| !seen.contains(name);
        TOOLS.iter().map(|tool| tool.name).filter(unseen).collect::<Vec<_>>()
    };
    assert_eq!(missing(&calls.succeeded), [""; 0], "never succeed");
    assert_eq!(missing(&calls.refused), [""; 0], "never refuse arguments");
    assert!(OPERATOR.iter().any(|command| calls.succeeded.contains(command.name)));
}

/// The corpus is part of the repository; a run that finds much is cut down first (`cargo fuzz cmin`).
#[test]
fn the_corpus_is_small() {
    let files = ["connection", "arguments"].into_iter().flat_map(corpus);
    let size: usize = files.map(|(_, input)| input.len()).sum();
    assert!(size <= 300 * 1024, "{size} bytes");
}
