//! The cases of all subjects as tests, and what they found.

use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use cortex_runtimes::conformance::{self, Report, Subject, Verdict};
use cortex_scripted::suite::Case;

use crate::page::{self, Column};

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
        let subjects = self.subjects;
        let missing = self.missing;
        tests.push(Case::new("the_page_says_what_was_found", move || {
            let found: Vec<_> =
                subjects.iter().map(|(one, found)| (one.name().to_owned(), whole(found))).collect();
            Box::pin(async move { is_current(found, missing) })
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

/// Compares the page with what was found, when everything was. With `UPDATE` set it stores the page; of a subject that did
/// not run this time it tells what was found when it did.
fn is_current(found: Vec<(String, Option<Report>)>, missing: bool) {
    let update = crate::variable("UPDATE").is_some();
    let (count, mut columns) = (found.len(), Vec::new());
    for (subject, report) in found {
        let kept =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("conformance-{subject}.json"));
        let column = match report {
            Some(report) if report.is_live => return,
            Some(report) => {
                let column = Column::of(&report);
                fs_err::write(&kept, serde_json::to_string(&column).unwrap()).unwrap();
                Some(column)
            }
            None if update => {
                let text = fs_err::read_to_string(&kept).unwrap_or_default();
                serde_json::from_str(&text).ok().filter(Column::is_whole)
            }
            None => None,
        };
        columns.extend(column);
    }
    // A program that is not here, or a part that did not run.
    if missing || columns.len() < count {
        return;
    }
    let page = page::write(&columns);
    if update {
        fs_err::write(PAGE, &page).unwrap();
    }
    let stored = fs_err::read_to_string(PAGE).unwrap_or_default();
    assert!(
        stored.replace("\r\n", "\n") == page,
        "docs/runtimes.md is stale: run `UPDATE=1 cargo test -p cortex-runtimes --test conformance`"
    );
}
