//! Texts of programs and models on one line: what a person reads in a list.

/// `text` on one line of at most `chars_max` characters. Line ends stay visible as `⏎`.
pub(crate) fn one_line(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    for (count, c) in text.trim().chars().enumerate() {
        if count == chars_max {
            line.push('…');
            break;
        }
        match c {
            '\n' => line.push('⏎'),
            c if c.is_control() => line.push(' '),
            c => line.push(c),
        }
    }
    line
}
