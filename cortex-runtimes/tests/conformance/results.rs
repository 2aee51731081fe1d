//! The cases of all subjects as tests, and what they found.

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use cortex_runtimes::conformance::{self, Report, Subject, Verdict};
use cortex_scripted::suite::Case;

use crate::page;

/// Where the results are told.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/runtimes.md");

/// What was found about one subject so far.
type Found = Arc<Mutex<Option<Report>>>;

/// The subjects, in the order of the table.
#[derive(Default)]
pub(crate) struct Results {
    subjects: Vec<(Arc<dyn Subject>, Found)>,
    missing: bool,
}

impl Results {
    pub(crate) fn subject(&mut self, subject: Arc<dyn Subject>) {
        self.subjects.push((subject, Arc::default()));
    }

    /// A program is not on this machine: the page cannot be compared.
    pub(crate) fn lack_one(&mut self) {
        self.missing = true;
    }

    /// A test for each case of each subject, named after both, one for what the subject claims, and one for the page.
    pub(crate) fn tests(self) -> Vec<Case> {
        let mut tests = Vec::new();
        for (subject, found) in &self.subjects {
            for case in conformance::all() {
                let (subject, found) = (Arc::clone(subject), Arc::clone(found));
                let name = format!("{}::{}", subject.name(), case.name);
                tests.push(Case::new(name, move || {
                    let (subject, found) = (Arc::clone(&subject), Arc::clone(&found));
                    Box::pin(async move { run(&*subject, &found, case).await })
                }));
            }
            let (name, found) = (subject.name(), Arc::clone(found));
            let name = format!("{name}::every_capability_it_claims_was_shown");
            tests.push(Case::new(name, move || {
                let found = Arc::clone(&found);
                Box::pin(async move { every_claim_was_shown(&found) })
            }));
        }
        tests.push(Case::new("the_page_says_what_was_found", move || {
            let reports = self.subjects.iter().map(|(_, found)| whole(found)).collect();
            let missing = self.missing;
            Box::pin(async move { is_current(reports, missing) })
        }));
        tests
    }
}

async fn run(subject: &dyn Subject, found: &Mutex<Option<Report>>, case: conformance::Case) {
    let known = found.lock().unwrap().clone();
    let mut known = match known {
        Some(known) => known,
        None => conformance::begin(subject).await.unwrap(),
    };
    let verdict = conformance::run_case(subject, &known.info, &case).await;
    if subject.is_live() {
        writeln!(std::io::stdout(), "{verdict}").unwrap_or_default();
    }
    known.results.push((case, verdict.clone()));
    *found.lock().unwrap() = Some(known);
    if let Verdict::Failed(why) = verdict {
        panic!("{why}");
    }
}

/// The report, when every case ran and held.
fn whole(found: &Mutex<Option<Report>>) -> Option<Report> {
    let all = conformance::all().len();
    let held = |report: &Report| report.results.len() == all && report.failures().is_empty();
    found.lock().unwrap().clone().filter(held)
}

fn every_claim_was_shown(found: &Mutex<Option<Report>>) {
    match whole(found) {
        // With a real model some cases are left to the scripted one.
        Some(report) if !report.is_live => assert_eq!(report.not_shown(), [].into()),
        Some(_) | None => {}
    }
}

/// Compares the page with what was found; with `UPDATE` set, stores it. Only when all was found.
fn is_current(reports: Option<Vec<Report>>, missing: bool) {
    let Some(reports) =
        reports.filter(|reports| !missing && reports.iter().all(|one| !one.is_live))
    else {
        return;
    };
    let page = page::write(&reports);
    if crate::variable("UPDATE").is_some() {
        fs_err::write(PAGE, &page).unwrap();
    }
    let stored = fs_err::read_to_string(PAGE).unwrap_or_default();
    assert!(
        stored.replace("\r\n", "\n") == page,
        "docs/runtimes.md is stale: run `UPDATE=1 cargo test -p cortex-runtimes --test conformance`"
    );
}
