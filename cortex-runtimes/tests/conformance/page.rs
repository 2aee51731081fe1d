//! The page that tells the results.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cortex_lib::domain::capability::Capability;
use cortex_runtimes::conformance::{self, Report, Verdict};
use serde::{Deserialize, Serialize};

/// What the page tells of one subject.
#[derive(Serialize, Deserialize)]
pub(crate) struct Column {
    subject: String,
    version: Option<String>,
    processes: String,
    /// What it claims, and the cases that showed it.
    capabilities: BTreeMap<Capability, Vec<String>>,
    /// What stands in the table, and what was seen besides.
    results: BTreeMap<String, (String, Option<String>)>,
}

impl Column {
    pub(crate) fn of(report: &Report) -> Self {
        let shown = |capability: &Capability| {
            let cases = report.shown_by(*capability).map(str::to_owned).collect();
            (*capability, cases)
        };
        let result = |(case, verdict): &(conformance::Case, Verdict)| {
            let told = match verdict {
                Verdict::Passed(note) => ("yes".to_owned(), note.clone()),
                Verdict::NotOffered(what) => (what.clone(), None),
                Verdict::NotShown(why) | Verdict::Failed(why) => {
                    (format!("not shown: {why}"), None)
                }
            };
            (case.name.to_owned(), told)
        };
        Self {
            subject: report.subject.clone(),
            version: report.version.clone(),
            processes: report.processes().to_owned(),
            capabilities: report.info.capabilities.iter().map(shown).collect(),
            results: report.results.iter().map(result).collect(),
        }
    }

    /// Whether it tells of every case that there is.
    pub(crate) fn is_whole(&self) -> bool {
        conformance::all().iter().all(|case| self.results.contains_key(case.name))
    }
}

const INTRODUCTION: &str = "# Runtimes

<!-- Generated: UPDATE=1 cargo test -p cortex-runtimes --test conformance -->

What the drivers of Cortex can do, as the conformance suite has seen it on the real programs, in the versions named here, in front of
a scripted model. A capability stands here only when a case has shown it: the suite fails when a driver claims one that no case
shows. How to write a driver, and how to run the suite over it: [writing-a-driver.md](writing-a-driver.md).

`scripted` is the runtime that stands for a driver in tests of the core; `command` runs any program once for each turn. On
your own logins the same suite runs with `CORTEX_LIVE_TESTS=1 cargo test -p cortex-runtimes --test conformance`; it spends tokens.
";

/// The page for these reports.
pub(crate) fn write(reports: &[Column]) -> String {
    let mut page = INTRODUCTION.to_owned();
    capabilities(&mut page, reports);
    for report in reports {
        runtime(&mut page, report);
    }
    cases(&mut page, reports);
    page
}

fn head(page: &mut String, first: &str, reports: &[Column]) {
    let names: Vec<_> = reports.iter().map(|report| format!("`{}`", report.subject)).collect();
    writeln!(page, "| {first} | {} |", names.join(" | ")).unwrap();
    writeln!(page, "| --- |{}", " --- |".repeat(reports.len())).unwrap();
}

fn row(page: &mut String, first: &str, cells: impl Iterator<Item = String>) {
    writeln!(page, "| {first} | {} |", cells.collect::<Vec<_>>().join(" | ")).unwrap();
}

fn capabilities(page: &mut String, reports: &[Column]) {
    page.push_str("\n## Capabilities\n\n");
    head(page, "", reports);
    let version = |report: &Column| report.version.clone().unwrap_or_else(|| "–".to_owned());
    row(page, "version", reports.iter().map(version));
    row(page, "processes", reports.iter().map(|report| report.processes.clone()));
    for capability in Capability::ALL {
        let has = |report: &Column| {
            let has = report.capabilities.contains_key(capability);
            if has { "yes" } else { "–" }.to_owned()
        };
        row(page, &format!("`{capability}`"), reports.iter().map(has));
    }
}

fn runtime(page: &mut String, report: &Column) {
    writeln!(page, "\n## {}\n", report.subject).unwrap();
    page.push_str("What showed its capabilities:\n\n");
    for (capability, cases) in &report.capabilities {
        let cases: Vec<_> = cases.iter().map(|case| words(case)).collect();
        writeln!(page, "- `{capability}`: {}", cases.join(" · ")).unwrap();
    }
    let noted = |case: conformance::Case| {
        let (_, note) = report.results.get(case.name)?;
        note.as_ref().map(|note| format!("- {}: {note}", words(case.name)))
    };
    let noted: Vec<_> = conformance::all().into_iter().filter_map(noted).collect();
    if !noted.is_empty() {
        writeln!(page, "\nWhat was seen besides:\n\n{}", noted.join("\n")).unwrap();
    }
}

fn cases(page: &mut String, reports: &[Column]) {
    page.push_str(
        "\n## Cases\n\nyes: it holds. A word instead: it takes this, which is not offered.\n",
    );
    let mut area = "";
    for case in conformance::all() {
        if case.area != area {
            area = case.area;
            writeln!(page, "\n### {area}\n").unwrap();
            head(page, "", reports);
        }
        let cell = |report: &Column| {
            report.results.get(case.name).map_or_else(String::new, |(told, _)| told.clone())
        };
        row(page, &words(case.name), reports.iter().map(cell));
    }
}

/// The name of a case as a sentence.
fn words(name: &str) -> String {
    let words =
        [("_", " "), ("utf8", "UTF-8"), ("cortex", "Cortex"), (" kb ", " KB "), (" mb ", " MB ")];
    words.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}
