//! A run as a list of choices. Without a choice everything is tame: callers do nothing, agents answer after a
//! second, the disk has room and the power stays. So a choice can be left out, and what is left is a run too.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use cortex_lib::domain::attempt::Cause;
use cortex_lib::port::{Opening, Verdict};
use cortex_lib::store::Fate;

use super::acts::{self, Act};
use super::dice::Dice;
use super::git::GitQuirk;
use cortex_lib::error::{Code, Error};

/// The life that rests at the end: its disk and its power do not fail, and every run has it.
pub const LAST: u8 = 9;
/// Lives before the last one.
const LIVES_MAX: u64 = 2;
/// Callers that race.
const CALLERS: u8 = 3;
/// What each caller does in a life.
const STEPS: u64 = 6;
/// Turns, openings and verifications of a life that may go wrong. Later ones are tame, so that a run comes to rest.
const TURNS: usize = 30;
/// Commits of a life that may go wrong.
const COMMITS: u64 = 400;

/// Something about a run that is not tame.
#[derive(Clone, Debug)]
pub enum Choice {
    /// A life before the last one.
    Life(u8),
    /// The life is set up in another way.
    Setting(u8, Setting),
    /// A caller does something, some time after its step before.
    Step {
        /// In which life.
        life: u8,
        /// Who.
        caller: u8,
        /// How long after its step before.
        after: Duration,
        /// What.
        act: &'static Act,
        /// Decides the arguments.
        dice: u64,
    },
    /// Something happens in the world.
    Event(u8, Duration, Event),
    /// A commit does not go well; the first one of a life is 0.
    Fault(u8, u64, Fate),
    /// The process is killed.
    Kill(u8, Duration),
    /// A turn does not go well; the first one of a life is 0.
    Turn(u8, usize, Quirk),
    /// A session does not open at once.
    Opening(u8, usize, Opening),
    /// A call of git does not go well; the first one of a life is 0.
    Git(u8, usize, GitQuirk),
    /// A verification does not pass at once.
    Verdict(u8, usize, Verdict),
}

/// How a life differs from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Agents are not started again when the core opens.
    RestoreNothing,
    /// Sessions take this long to close.
    CloseTakes(Duration),
    /// The core is stopped at once, not in order.
    StopAtOnce,
    /// Results that nobody verifies count.
    ApproveUnverified,
    /// Agents may use their tools.
    AllowTools,
    /// People are asked about tools.
    AskPeople,
    /// A question waits as long as its turn.
    WaitForPeople,
    /// As many sessions may live.
    Processes(u32),
    /// As many verifications may run.
    Verifications(u32),
}

/// Something that happens in the world, whoever works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A session that lives dies, whatever it does.
    SessionDies,
    /// A session says something that nobody asked for.
    Gibberish,
    /// The project's folder is not there for some time.
    FolderGone(Duration),
}

/// How a turn differs from one that is answered after a second.
#[derive(Clone, Debug)]
pub enum Quirk {
    /// It does not hear interrupts.
    Deaf,
    /// It plans what no plan may be.
    PlansBadly(u64),
    /// It ends this long after an interrupt.
    InterruptedAfter(Duration),
    /// An interrupt fails.
    InterruptFails,
    /// It is accepted after this time.
    AcceptedAfter(Duration),
    /// What it says still comes when its session is closed.
    OutlivesClose,
    /// It asks whether it may use a tool.
    Asks,
    /// It asks its user something.
    AsksUser,
    /// It asks for two tools side by side, and takes one of them back.
    AsksTwice,
    /// It takes this long.
    Takes(Duration),
    /// It does not end with an answer.
    Ends(Ending),
}

/// How a turn ends that does not end with one answer.
#[derive(Clone, Debug)]
pub enum Ending {
    Never,
    NeverAccepted,
    Refused(Code),
    Failed(Cause),
    RateLimited,
    Crash,
    LetGo,
    AnswersTwice,
    AnswersThenCrashes(Duration),
    /// It says that it was interrupted though nobody asked, and answers later.
    EndsUnasked(Duration),
    /// It says that a turn nobody knows has ended.
    AnswersForMadeUp,
    /// It says that one of the earlier turns has ended.
    AnswersForEarlier(u64),
    LongTool(Duration),
    FailsThenAnswers,
    /// It says things that do not fit before it answers.
    Gibberish,
}

/// A run: a seed, and which of the choices that follow from it are kept.
#[derive(Clone)]
pub struct Plan {
    pub seed: u64,
    /// All choices of the seed, and whether each is kept.
    choices: Vec<(Choice, bool)>,
}

impl Plan {
    /// All choices of a seed.
    pub fn of(seed: u64) -> Self {
        let dice = Dice::new(seed);
        let mut choices = Vec::new();
        let lives = u8::try_from(dice.roll(LIVES_MAX + 1)).unwrap();
        for life in (1..=lives).chain([LAST]) {
            life_of(&dice.fork(), life, &mut choices);
        }
        Self { seed, choices: choices.into_iter().map(|choice| (choice, true)).collect() }
    }

    /// A run that somebody wrote down.
    pub fn written(seed: u64, choices: impl IntoIterator<Item = Choice>) -> Self {
        Self { seed, choices: choices.into_iter().map(|choice| (choice, true)).collect() }
    }

    /// The kept choices, in order.
    pub fn choices(&self) -> impl Iterator<Item = &Choice> {
        self.choices.iter().filter(|(_, kept)| *kept).map(|(choice, _)| choice)
    }

    /// The numbers of the kept choices.
    pub fn kept(&self) -> Vec<usize> {
        let numbered = self.choices.iter().enumerate();
        numbered.filter(|(_, (_, kept))| *kept).map(|(nth, _)| nth).collect()
    }

    /// The same run with these choices only.
    pub fn keep(&self, kept: &[usize]) -> Self {
        let kept: BTreeSet<_> = kept.iter().collect();
        let numbered = self.choices.iter().enumerate();
        let choices = numbered.map(|(nth, (choice, _))| (choice.clone(), kept.contains(&nth)));
        Self { seed: self.seed, choices: choices.collect() }
    }

    /// The lives of the run, in order.
    pub fn lives(&self) -> Vec<u8> {
        let lives = self.choices().filter_map(|choice| match choice {
            Choice::Life(life) => Some(*life),
            _ => None,
        });
        lives.chain([LAST]).collect()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lives = self.lives();
        for nth in self.kept() {
            let Some((choice, _)) = self.choices.get(nth) else { continue };
            if lives.contains(&choice.life()) {
                writeln!(f, "  {nth}: {choice:?}")?;
            }
        }
        Ok(())
    }
}

impl Choice {
    /// The life it is about.
    pub fn life(&self) -> u8 {
        match self {
            Self::Life(life)
            | Self::Setting(life, _)
            | Self::Step { life, .. }
            | Self::Event(life, ..)
            | Self::Fault(life, ..)
            | Self::Kill(life, _)
            | Self::Turn(life, ..)
            | Self::Git(life, ..)
            | Self::Opening(life, ..)
            | Self::Verdict(life, ..) => *life,
        }
    }
}

/// Writes numbers as `0,3,17-19`.
pub fn ranges(numbers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == number => *end = number,
            _ => runs.push((number, number)),
        }
    }
    let texts = runs.into_iter().map(|(from, to)| match to - from {
        0 => from.to_string(),
        _ => format!("{from}-{to}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Reads what [`ranges`] writes.
pub fn parse_ranges(text: &str) -> Vec<usize> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let number = |text: &str| text.trim().parse::<usize>().unwrap();
    let spans = parts.map(|part| match part.split_once('-') {
        Some((from, to)) => number(from)..=number(to),
        None => number(part)..=number(part),
    });
    spans.flatten().collect()
}

fn life_of(dice: &Dice, life: u8, choices: &mut Vec<Choice>) {
    if life != LAST {
        choices.push(Choice::Life(life));
    }
    settings(&dice.fork(), life, choices);
    steps(&dice.fork(), life, choices);
    turns(&dice.fork(), life, choices);
    faults(&dice.fork(), life, choices);
    let dice = dice.fork();
    for _ in 0..dice.roll(3) {
        let event = match dice.roll(4) {
            0 | 1 => Event::SessionDies,
            2 => Event::Gibberish,
            _ => Event::FolderGone(dice.seconds(60)),
        };
        choices.push(Choice::Event(life, dice.seconds(100), event));
    }
}

fn settings(dice: &Dice, life: u8, choices: &mut Vec<Choice>) {
    let mut set = |once_in: u64, setting: Setting| {
        if dice.once_in(once_in) {
            choices.push(Choice::Setting(life, setting));
        }
    };
    set(4, Setting::RestoreNothing);
    set(1, Setting::CloseTakes(dice.seconds(15)));
    set(3, Setting::StopAtOnce);
    set(5, Setting::ApproveUnverified);
    set(3, Setting::AllowTools);
    set(2, Setting::AskPeople);
    set(4, Setting::WaitForPeople);
    set(4, Setting::Processes(u32::try_from(1 + dice.roll(5)).unwrap()));
    set(4, Setting::Verifications(1));
}

fn steps(dice: &Dice, life: u8, choices: &mut Vec<Choice>) {
    for caller in 1..=CALLERS {
        for _ in 0..STEPS {
            let after = dice.seconds(20);
            choices.push(Choice::Step {
                life,
                caller,
                after,
                act: acts::roll(dice),
                dice: dice.next(),
            });
        }
    }
}

fn faults(dice: &Dice, life: u8, choices: &mut Vec<Choice>) {
    if life == LAST {
        return;
    }
    if dice.once_in(3) {
        choices.push(Choice::Kill(life, dice.seconds(120)));
    }
    for commit in 0..COMMITS {
        // What a start settles is worth more crashes than the rest.
        let fate = match dice.roll(if commit < 3 { 30 } else { 300 }) {
            0 | 1 => Fate::LoseBefore,
            2 => Fate::LoseAfter,
            3 => Fate::LoseAnswered,
            4 => Fate::FailCommit,
            5 => Fate::FailButKeep,
            6..10 => Fate::DiskFull,
            10..12 => Fate::Locked,
            _ => continue,
        };
        choices.push(Choice::Fault(life, commit, fate));
        if matches!(fate, Fate::LoseBefore | Fate::LoseAfter | Fate::LoseAnswered) {
            return;
        }
    }
}

fn turns(dice: &Dice, life: u8, choices: &mut Vec<Choice>) {
    for nth in 0..TURNS {
        let opening = match dice.roll(30) {
            0 => Some(Opening::Never),
            1 => Some(Opening::Fail(
                dice.seconds(5),
                Error::new(Code::RuntimeStartFailed, "no start"),
            )),
            2 => Some(Opening::Fail(
                Duration::ZERO,
                Error::new(Code::RuntimeNotLoggedIn, "no login"),
            )),
            3..6 => Some(Opening::After(dice.seconds(70))),
            _ => None,
        };
        choices.extend(opening.map(|how| Choice::Opening(life, nth, how)));
        let verdict = match dice.roll(8) {
            0 => Some(Verdict::Never),
            1 | 2 => Some(Verdict::Fail(dice.seconds(20), "it does not hold".to_owned())),
            3 => Some(Verdict::Unavailable(dice.seconds(5), "not there".to_owned())),
            4 | 5 => Some(Verdict::Pass(dice.seconds(30))),
            _ => None,
        };
        choices.extend(verdict.map(|how| Choice::Verdict(life, nth, how)));
        let interrupt = match dice.roll(8) {
            0 => Some(Quirk::Deaf),
            1 => Some(Quirk::InterruptedAfter(dice.seconds(40))),
            2 => Some(Quirk::InterruptFails),
            _ => None,
        };
        let more = match dice.roll(12) {
            0 => Some(Quirk::AcceptedAfter(dice.seconds(20))),
            1 => Some(Quirk::OutlivesClose),
            2..5 => Some(Quirk::Asks),
            5 => Some(Quirk::AsksUser),
            6 => Some(Quirk::AsksTwice),
            _ => None,
        };
        let git = match dice.roll(12) {
            0 => Some(GitQuirk::Slow(dice.seconds(90))),
            1 => Some(GitQuirk::Fail(dice.seconds(90))),
            2 => Some(GitQuirk::Unheard(dice.seconds(90))),
            _ => None,
        };
        choices
            .extend(git.map(|how| Choice::Git(life, usize::try_from(dice.roll(60)).unwrap(), how)));
        let plans = dice.once_in(6).then(|| Quirk::PlansBadly(dice.next()));
        let takes = (!dice.once_in(3)).then(|| Quirk::Takes(dice.seconds(60)));
        let ends = ending(dice).map(Quirk::Ends);
        let quirks = [interrupt, more, plans, takes, ends].into_iter().flatten();
        choices.extend(quirks.map(|quirk| Choice::Turn(life, nth, quirk)));
    }
}

fn ending(dice: &Dice) -> Option<Ending> {
    Some(match dice.roll(28) {
        0 => Ending::Never,
        1 => Ending::NeverAccepted,
        2 => Ending::Refused(Code::RuntimeRefused),
        3 => Ending::Refused(Code::RuntimeProtocol),
        4 => Ending::Failed(Cause::Transient),
        5 => Ending::Failed(Cause::Error),
        6 => Ending::Failed(Cause::Refused),
        7 => Ending::RateLimited,
        8 => Ending::Crash,
        9 => Ending::LetGo,
        10 => Ending::AnswersTwice,
        11 => Ending::EndsUnasked(dice.seconds(30)),
        12 => Ending::AnswersThenCrashes(dice.seconds(30)),
        13 => Ending::AnswersForMadeUp,
        14 => Ending::AnswersForEarlier(dice.next()),
        15 => Ending::LongTool(dice.seconds(400)),
        16 => Ending::FailsThenAnswers,
        17 => Ending::Gibberish,
        _ => return None,
    })
}
