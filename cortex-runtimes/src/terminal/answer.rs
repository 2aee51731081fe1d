//! What the screen answers when a program asks its terminal something.

use std::sync::mpsc::{Receiver, Sender, channel};

use alacritty_terminal::event::{Event, EventListener, WindowSize};
use alacritty_terminal::vte::ansi::{NamedColor, Rgb};
use cortex_lib::port::TerminalSize;

/// What is said of the size of a character. Nobody can know it: several terminals may be attached, or none.
const CELL_WIDTH: u16 = 8;
const CELL_HEIGHT: u16 = 16;

/// The first colours of a palette, as xterm has them.
const BASIC: [(u8, u8, u8); 16] = [
    (0, 0, 0),
    (205, 0, 0),
    (0, 205, 0),
    (205, 205, 0),
    (0, 0, 238),
    (205, 0, 205),
    (0, 205, 205),
    (229, 229, 229),
    (127, 127, 127),
    (255, 0, 0),
    (0, 255, 0),
    (255, 255, 0),
    (92, 92, 255),
    (255, 0, 255),
    (0, 255, 255),
    (255, 255, 255),
];
const LIGHT: (u8, u8, u8) = (229, 229, 229);
const DARK: (u8, u8, u8) = (24, 24, 24);

/// Takes what the screen tells while it reads.
#[derive(Debug)]
pub(super) struct Listener(Sender<Event>);

impl EventListener for Listener {
    fn send_event(&self, event: Event) {
        // A screen that is gone needs no answers.
        self.0.send(event).ok();
    }
}

/// What the screen told. It is emptied after each piece of output, which bounds it.
#[derive(Debug)]
pub(super) struct Told(Receiver<Event>);

/// What a program is answered, and what became of its title.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) bytes: Vec<u8>,
    /// The newest title, empty if there is none any more; `None`: nothing was said of it.
    pub(super) title: Option<String>,
}

pub(super) fn listener() -> (Listener, Told) {
    let (tell, told) = channel();
    (Listener(tell), Told(told))
}

impl Told {
    /// What was told since the last time, answered.
    pub(super) fn answers(
        &self,
        size: TerminalSize,
        color: impl Fn(usize) -> Option<Rgb>,
    ) -> Answers {
        let mut answers = Answers::default();
        for event in self.0.try_iter() {
            match event {
                Event::PtyWrite(text) => answers.bytes.extend_from_slice(text.as_bytes()),
                Event::ColorRequest(index, say) => {
                    let color = color(index).unwrap_or_else(|| usual(index));
                    answers.bytes.extend_from_slice(say(color).as_bytes());
                }
                Event::TextAreaSizeRequest(say) => {
                    let window = WindowSize {
                        num_lines: size.rows,
                        num_cols: size.columns,
                        cell_width: CELL_WIDTH,
                        cell_height: CELL_HEIGHT,
                    };
                    answers.bytes.extend_from_slice(say(window).as_bytes());
                }
                Event::Title(title) => answers.title = Some(title),
                Event::ResetTitle => answers.title = Some(String::new()),
                // The clipboard is the person's; the rest is for a window.
                _ => {}
            }
        }
        answers
    }
}

/// The colour at this place when the program has not set another one. Most terminals that people code in are dark.
fn usual(index: usize) -> Rgb {
    let (r, g, b) = if let Some(basic) = BASIC.get(index) {
        *basic
    } else if let Ok(index @ 16..=255) = u8::try_from(index) {
        palette(index)
    } else if index == NamedColor::Background as usize {
        DARK
    } else {
        LIGHT
    };
    Rgb { r, g, b }
}

/// The cube of 216 colours, then 24 greys.
fn palette(index: u8) -> (u8, u8, u8) {
    if let Some(grey) = index.checked_sub(232) {
        let level = 8 + 10 * grey;
        return (level, level, level);
    }
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    let index = index.saturating_sub(16);
    (level(index / 36), level(index / 6 % 6), level(index % 6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_palette_is_that_of_xterm() {
        let rgb = |index| {
            let Rgb { r, g, b } = usual(index);
            (r, g, b)
        };
        assert_eq!(
            [rgb(1), rgb(16), rgb(21), rgb(196), rgb(231), rgb(232), rgb(255)],
            [
                (205, 0, 0),
                (0, 0, 0),
                (0, 0, 255),
                (255, 0, 0),
                (255, 255, 255),
                (8, 8, 8),
                (238, 238, 238)
            ]
        );
        assert_eq!((rgb(256), rgb(257)), (LIGHT, DARK));
    }
}
