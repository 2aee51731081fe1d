//! A run on a terminal: a tree of tasks, a bar for each, drawn in place.

use std::time::Duration;

use console::{Style, measure_text_width};
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::time::Timestamp;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::progress::{Progress, Row};
use super::words;

/// A turn of the wheel that says: it runs.
const WHEEL: [&str; 8] = ["⠏", "⠛", "⠹", "⢸", "⣰", "⣤", "⣆", "⡇"];
/// Steps of a task that a bar shows: assigned, verified, ended.
const STEPS: u64 = 3;

/// The rows on the terminal.
#[derive(Debug)]
pub(crate) struct Screen {
    multi: MultiProgress,
    rows: Vec<ProgressBar>,
    total: Option<ProgressBar>,
    turn: usize,
}

impl Screen {
    /// On the standard error.
    pub(crate) fn new() -> Self {
        Self { multi: MultiProgress::new(), rows: Vec::new(), total: None, turn: 0 }
    }

    /// One row for each task, and one for all.
    pub(crate) fn begin(&mut self, progress: &Progress, now: Timestamp) {
        let (_, all) = progress.counts();
        let style = |template: &str| {
            // A template that does not parse would be a mistake of ours; a plain bar is shown then.
            ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("━╸─")
        };
        let add = |length: u64, style: ProgressStyle| {
            self.multi.add(ProgressBar::new(length).with_style(style))
        };
        self.total = Some(add(
            u64::try_from(all).unwrap_or(u64::MAX),
            style("{prefix} {bar:20.green/dim} {pos}/{len} {wide_msg}"),
        ));
        self.rows =
            (0..all).map(|_| add(STEPS, style("{prefix} {bar:6.cyan/dim} {wide_msg}"))).collect();
        self.draw(progress, now);
    }

    /// Draws everything as it is now.
    pub(crate) fn draw(&mut self, progress: &Progress, now: Timestamp) {
        self.turn = self.turn.wrapping_add(1);
        let rows = progress.rows(now);
        let widest = |width: fn(&Row) -> usize| rows.iter().map(width).max().unwrap_or(0);
        let title_width =
            widest(|row| measure_text_width(&row.branches) + measure_text_width(&row.title));
        let agent_width = widest(|row| row.agent.as_deref().map_or(0, measure_text_width));
        for (bar, row) in self.rows.iter().zip(&rows) {
            let style = style_of(row.status);
            let label = console::pad_str(
                &format!("{}{}", row.branches, row.title),
                title_width,
                console::Alignment::Left,
                None,
            )
            .into_owned();
            bar.set_prefix(format!("{} {label}", style.apply_to(self.mark(row.status))));
            bar.set_position(step_of(row.status));
            bar.set_message(message(row, agent_width, &style));
        }
        if let Some(total) = &self.total {
            let view = progress.view();
            let (ended, _) = progress.counts();
            let until = view.ended_at.unwrap_or(now);
            total.set_prefix(words::plain(&view.title));
            total.set_position(u64::try_from(ended).unwrap_or(u64::MAX));
            total.set_message(words::seconds(until.since(view.created_at)));
        }
    }

    /// Prints a line above the rows.
    pub(crate) fn line(&self, text: &str) {
        if self.rows.is_empty() {
            super::show::line(text);
        } else {
            // A terminal that is gone reads nothing.
            self.multi.println(text).ok();
        }
    }

    /// Takes the rows away, so that a person can read and type. The next draw brings them back.
    pub(crate) fn aside(&self) {
        self.multi.clear().ok();
    }

    /// Leaves the rows as they are.
    pub(crate) fn finish(&mut self) {
        for bar in self.rows.drain(..).chain(self.total.take()) {
            bar.abandon();
        }
    }

    fn mark(&self, status: TaskStatus) -> &'static str {
        match status {
            TaskStatus::Created | TaskStatus::Ready => "·",
            TaskStatus::Running | TaskStatus::Verifying => {
                WHEEL.get(self.turn % WHEEL.len()).copied().unwrap_or("⠿")
            }
            TaskStatus::Blocked => "!",
            TaskStatus::Completed => "✓",
            TaskStatus::Failed => "✗",
            TaskStatus::Cancelled => "-",
        }
    }
}

fn message(row: &Row, agent_width: usize, style: &Style) -> String {
    let time = row.elapsed.map(words::seconds).unwrap_or_default();
    let agent = row.agent.as_deref().unwrap_or_default();
    format!("{agent:agent_width$} {time:>8}  {}", style.apply_to(&row.note))
}

fn step_of(status: TaskStatus) -> u64 {
    match status {
        TaskStatus::Created | TaskStatus::Ready => 0,
        TaskStatus::Running | TaskStatus::Blocked => 1,
        TaskStatus::Verifying => 2,
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => STEPS,
    }
}

/// Colour only for state. `console` leaves it out where `NO_COLOR` says so.
fn style_of(status: TaskStatus) -> Style {
    let style = Style::new().for_stderr();
    match status {
        TaskStatus::Created | TaskStatus::Ready => style.dim(),
        TaskStatus::Running | TaskStatus::Verifying => style.cyan(),
        TaskStatus::Blocked => style.yellow(),
        TaskStatus::Completed => style.green(),
        TaskStatus::Failed | TaskStatus::Cancelled => style.red(),
    }
}

/// Between two draws.
pub(crate) const FRAME: Duration = Duration::from_millis(100);
