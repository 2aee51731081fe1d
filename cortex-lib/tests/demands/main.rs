//! `docs/demands.md`: every demand, and the tests that show it. A test shows a demand by naming its number in a
//! comment.
#![expect(clippy::unwrap_used, reason = "a test may stop")]
#![expect(clippy::disallowed_methods, reason = "it reads the sources and writes the page")]

mod list;
mod scan;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use list::SECTIONS;
use scan::{Shown, shown_in};

/// Where tests of the whole project are.
const PACKAGES: [&str; 5] =
    ["cortex-lib", "cortex-runtimes", "cortex-runtimes/scripted", "cortex-app", "examples"];

struct Section {
    title: &'static str,
    demands: &'static [Demand],
}

struct Demand {
    id: u16,
    text: &'static str,
    when: When,
}

/// Whether a demand has to be shown already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    /// With a part that is not there yet.
    Later(&'static str),
}

/// The tests by the number of the demand that they show.
fn shown() -> BTreeMap<u16, Vec<Shown>> {
    let root = format!("{}/..", env!("CARGO_MANIFEST_DIR"));
    let mut all: BTreeMap<u16, Vec<Shown>> = BTreeMap::new();
    for shown in PACKAGES.iter().flat_map(|package| shown_in(root.as_ref(), package)) {
        all.entry(shown.id).or_default().push(shown);
    }
    for tests in all.values_mut() {
        tests.sort();
        tests.dedup();
    }
    all
}

fn demands() -> impl Iterator<Item = &'static Demand> {
    SECTIONS.iter().flat_map(|section| section.demands)
}

#[test]
fn every_demand_is_shown_by_a_test_or_waits_for_a_part_that_is_not_there() {
    let shown = shown();
    let open: Vec<_> = demands()
        .filter(|demand| demand.when == When::Now && !shown.contains_key(&demand.id))
        .map(|demand| format!("S-{:03} {}", demand.id, demand.text))
        .collect();
    assert!(open.is_empty(), "no test names\n{}", open.join("\n"));
}

#[test]
fn every_number_that_a_test_names_is_a_demand() {
    for (id, tests) in shown() {
        assert!(demands().any(|demand| demand.id == id), "S-{id:03} in {:?}", tests[0]);
    }
}

#[test]
fn the_page_of_the_demands_is_current() {
    let shown = shown();
    let mut page = "# Demands\n\n\
        What is asked of Cortex, and the tests that show it. Generated: a test shows a demand by naming its number in a comment.\n"
        .to_owned();
    for Section { title, demands } in SECTIONS {
        let _infallible =
            write!(page, "\n## {title}\n\n| | demand | shown by |\n| --- | --- | --- |\n");
        for demand in *demands {
            let tests: Vec<_> =
                shown.get(&demand.id).into_iter().flatten().map(Shown::link).collect();
            let by = match (demand.when, tests.is_empty()) {
                (When::Later(part), true) => format!("comes with {part}"),
                (When::Now | When::Later(_), _) => tests.join(", "),
            };
            let _infallible = writeln!(page, "| S-{:03} | {} | {by} |", demand.id, demand.text);
        }
    }
    let path = format!("{}/../docs/demands.md", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE").is_some() {
        fs_err::write(&path, &page).unwrap();
    }
    let stored = fs_err::read_to_string(&path).unwrap_or_default();
    assert!(
        stored.replace("\r\n", "\n") == page,
        "docs/demands.md is stale: run `UPDATE=1 cargo test -p cortex-lib --test demands`"
    );
}
