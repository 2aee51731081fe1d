//! A small main function for tests that need one of their own, with the arguments and the output of
//! the usual harness, so that `cargo test NAME` and test runners work alike.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One test.
#[derive(Clone)]
pub struct Case {
    name: String,
    run: Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Case {
    /// A test with its name; [`cases!`](crate::cases) writes this.
    pub fn new(
        name: impl Into<String>,
        run: impl Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), run: Arc::new(run) }
    }
}

/// The cases of some async functions, each named after its function.
#[macro_export]
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        [$($crate::suite::Case::new(stringify!($name), || Box::pin($name()))),*]
    };
}

/// A test that takes longer waits for something that never comes.
const PATIENCE: Duration = Duration::from_mins(3);

/// Runs the cases that the arguments choose, one after the other, and says how they ended.
pub fn run(cases: &[Case]) -> ExitCode {
    let wish = Wish::read(std::env::args().skip(1));
    report(cases, &wish, &mut io::stdout()).unwrap_or(ExitCode::FAILURE)
}

fn report(cases: &[Case], wish: &Wish, out: &mut impl io::Write) -> io::Result<ExitCode> {
    let chosen: Vec<&Case> = cases.iter().filter(|case| wish.chooses(&case.name)).collect();
    if wish.list {
        for case in chosen {
            writeln!(out, "{}: test", case.name)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let began = Instant::now();
    writeln!(out, "\nrunning {} tests", chosen.len())?;
    let mut failed = Vec::new();
    for case in &chosen {
        write!(out, "test {} ... ", case.name)?;
        out.flush()?;
        match alone(case) {
            Ok(()) => writeln!(out, "ok")?,
            Err(why) => {
                writeln!(out, "FAILED ({why})")?;
                failed.push(case.name.as_str());
            }
        }
    }
    let (word, passed) =
        (if failed.is_empty() { "ok" } else { "FAILED" }, chosen.len() - failed.len());
    if !failed.is_empty() {
        writeln!(out, "\nfailures:\n    {}", failed.join("\n    "))?;
    }
    let (failed, left) = (failed.len(), cases.len() - chosen.len());
    let counts =
        format!("{passed} passed; {failed} failed; 0 ignored; 0 measured; {left} filtered out");
    let took = began.elapsed().as_secs_f64();
    writeln!(out, "\ntest result: {word}. {counts}; finished in {took:.2}s\n")?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Each case has a runtime of its own, so that what it leaves behind ends with it.
fn alone(case: &Case) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let ended = runtime
        .block_on(async { tokio::time::timeout(PATIENCE, tokio::spawn((case.run)())).await });
    runtime.shutdown_timeout(Duration::from_secs(1));
    match ended {
        Ok(Ok(())) => Ok(()),
        // The panic hook has printed the message already.
        Ok(Err(_)) => Err("panicked".to_owned()),
        Err(_) => Err(format!("not done in {} s", PATIENCE.as_secs())),
    }
}

/// What the arguments ask for, as the usual harness reads them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    list: bool,
    exact: bool,
    none: bool,
    names: Vec<String>,
    skip: Vec<String>,
}

impl Wish {
    fn read(arguments: impl Iterator<Item = String>) -> Self {
        let mut wish = Self::default();
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => wish.list = true,
                "--exact" => wish.exact = true,
                // No case here is ever marked so.
                "--ignored" => wish.none = true,
                "--skip" => wish.skip.extend(arguments.next()),
                "--format" | "--test-threads" | "--color" | "--logfile" => drop(arguments.next()),
                flag if flag.starts_with('-') => {}
                _ => wish.names.push(argument),
            }
        }
        wish
    }

    fn chooses(&self, name: &str) -> bool {
        let fits =
            |wanted: &String| if self.exact { name == wanted } else { name.contains(wanted) };
        let wanted = self.names.is_empty() || self.names.iter().any(fits);
        wanted && !self.none && !self.skip.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passes() {}

    async fn fails() {
        panic!("on purpose");
    }

    fn output(arguments: &[&str]) -> String {
        let wish = Wish::read(arguments.iter().map(ToString::to_string));
        let mut out = Vec::new();
        report(&cases![passes, fails], &wish, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_failing_case_fails_the_suite() {
        let said = output(&[]);
        assert!(said.contains("test passes ... ok\ntest fails ... FAILED (panicked)"), "{said}");
        assert!(said.contains("test result: FAILED. 1 passed; 1 failed;"), "{said}");
    }

    #[test]
    fn arguments_choose_as_in_the_usual_harness() {
        assert_eq!(output(&["--list", "--format", "terse"]), "passes: test\nfails: test\n");
        assert_eq!(output(&["--list", "pass"]), "passes: test\n");
        assert_eq!(output(&["--list", "--exact", "pass"]), "");
        assert_eq!(output(&["--list", "--skip", "pass"]), "fails: test\n");
        assert_eq!(output(&["--list", "--ignored"]), "");
    }
}
