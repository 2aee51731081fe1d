//! Runs cases over a subject.

use cortex_lib::port::RuntimeInfo;

use super::case::{Case, Seen, Stop, Verdict};
use super::cases;
use super::place::Bench;
use super::report::Report;
use super::scenario::Scenario;
use super::subject::Subject;

/// Every case of the suite, in the order of a session's life.
pub fn all() -> Vec<Case> {
    cases::all()
}

/// Runs every case over a subject, one after the other.
///
/// # Errors
///
/// What hinders the subject, when it gives no runtime.
pub async fn run(subject: &dyn Subject) -> Result<Report, String> {
    let mut report = begin(subject).await?;
    for case in all() {
        let verdict = run_case(subject, &report.info, &case).await;
        report.results.push((case, verdict));
    }
    Ok(report)
}

/// A report without results: for those who run the cases one by one.
///
/// # Errors
///
/// What hinders the subject, when it gives no runtime.
pub async fn begin(subject: &dyn Subject) -> Result<Report, String> {
    let runtime = subject.stage(&Scenario::new()).await?;
    let runtime = runtime.runtime();
    let (info, version) = (runtime.info().clone(), runtime.check().await.version);
    let (subject, is_live) = (subject.name().to_owned(), subject.is_live());
    Ok(Report { subject, info, version, is_live, results: Vec::new() })
}

/// Runs one case over a subject whose driver says this about itself.
pub async fn run_case(subject: &dyn Subject, info: &RuntimeInfo, case: &Case) -> Verdict {
    let abilities = subject.abilities();
    let capability = case.shows.iter().find(|shown| !info.capabilities.contains(shown));
    let ability = case.needs.iter().find(|needed| !abilities.contains(needed));
    match (capability, ability) {
        (Some(capability), _) => return Verdict::NotOffered(capability.to_string()),
        (None, Some(ability)) => return Verdict::NotOffered(ability.words().to_owned()),
        (None, None) => {}
    }
    let bench = Bench { subject, capabilities: &info.capabilities };
    match (case.run)(&bench).await {
        Ok(Seen::Held) => Verdict::Passed(None),
        Ok(Seen::Noted(note)) => Verdict::Passed(Some(note)),
        Err(Stop::NotShown(why)) => Verdict::NotShown(why),
        Err(Stop::Failed(why)) => Verdict::Failed(why),
    }
}
