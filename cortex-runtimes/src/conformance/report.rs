//! What a run of the suite found.

use std::collections::BTreeSet;
use std::fmt;

use cortex_lib::domain::capability::Capability;
use cortex_lib::port::{ProcessStrategy, RuntimeInfo};

use super::case::{Case, Verdict};

/// What the suite found about one driver.
#[derive(Clone, Debug)]
pub struct Report {
    /// The subject's name.
    pub subject: String,
    /// What the driver says about itself.
    pub info: RuntimeInfo,
    /// The version of its program, when it tells one.
    pub version: Option<String>,
    /// Whether a real model played the agent.
    pub is_live: bool,
    /// Every case that ran, in order.
    pub results: Vec<(Case, Verdict)>,
}

impl Report {
    /// What is wrong, a line each. Nothing: the driver conforms, as far as cases ran.
    pub fn failures(&self) -> Vec<String> {
        let failed = self.results.iter().filter_map(|(case, verdict)| match verdict {
            Verdict::Failed(why) => Some(format!("{}: {why}", case.name)),
            Verdict::Passed(_) | Verdict::NotOffered(_) | Verdict::NotShown(_) => None,
        });
        failed.collect()
    }

    /// The capabilities that the driver claims and that no case showed. With a real model some are left to the scripted one.
    pub fn not_shown(&self) -> BTreeSet<Capability> {
        let claims = self.info.capabilities.iter();
        claims.filter(|claimed| self.shown_by(**claimed).next().is_none()).copied().collect()
    }

    /// The cases that showed a capability.
    pub fn shown_by(&self, capability: Capability) -> impl Iterator<Item = &'static str> {
        self.results.iter().filter_map(move |(case, verdict)| {
            let shows = case.shows.contains(&capability) && matches!(verdict, Verdict::Passed(_));
            shows.then_some(case.name)
        })
    }

    /// How the driver uses processes, in words.
    pub fn processes(&self) -> &'static str {
        match self.info.process_strategy {
            ProcessStrategy::ProcessPerSession => "one for each session",
            ProcessStrategy::ProcessPerTurn => "one for each turn",
            ProcessStrategy::SharedServer => "one for many sessions",
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version.as_deref().unwrap_or("without a version");
        writeln!(f, "{} ({version})", self.subject)?;
        for (case, verdict) in &self.results {
            writeln!(f, "  {:<12} {:<56} {verdict}", case.area, case.name)?;
        }
        for capability in self.not_shown() {
            writeln!(f, "  {capability} is claimed and no case showed it")?;
        }
        Ok(())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(None) => f.write_str("passed"),
            Self::Passed(Some(note)) => write!(f, "passed: {note}"),
            Self::NotOffered(what) => write!(f, "not offered: {what}"),
            Self::NotShown(why) => write!(f, "not shown: {why}"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
        }
    }
}
