//! Private keys in PEM form, whole or cut at either end.

use std::ops::Range;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
/// The line that opens a key, for what follows one.
pub(super) const OPENING: &str = "-----BEGIN PRIVATE KEY-----\n";
/// What a label of a private key ends with: `RSA PRIVATE KEY`, `PGP PRIVATE KEY BLOCK`.
const LABELS: [&str; 2] = ["PRIVATE KEY", "PRIVATE KEY BLOCK"];
/// Longer than any label there is.
const LABEL_BYTES_MAX: usize = 48;

/// A line that opens or closes a block.
struct Mark {
    span: Range<usize>,
    opens: bool,
}

/// Where private keys stand in `text`. A key without its end goes on for as long as lines look like one, and
/// so does one without its beginning, backwards.
pub(super) fn find(text: &str, spans: &mut Vec<Range<usize>>) {
    let marks = marks(text);
    let mut from = 0;
    for (nth, mark) in marks.iter().enumerate() {
        let before = nth.checked_sub(1).and_then(|before| marks.get(before));
        let after = marks.get(nth.saturating_add(1));
        let span = match (mark.opens, after) {
            (true, Some(end)) if !end.opens => mark.span.start..end.span.end,
            (true, _) => {
                let until = after.map_or(text.len(), |next| next.span.start);
                let body = text.get(mark.span.end..until).unwrap_or_default();
                mark.span.start..mark.span.end.saturating_add(body_ahead(body))
            }
            // The end of the block that was just taken.
            (false, _) if before.is_some_and(|before| before.opens) => continue,
            (false, _) => {
                let body = text.get(from..mark.span.start).unwrap_or_default();
                mark.span.start.saturating_sub(body_behind(body))..mark.span.end
            }
        };
        from = span.end;
        spans.push(span);
    }
}

/// Whether `text` ends inside a key.
pub(super) fn is_left_open(text: &str) -> bool {
    let marks = marks(text);
    marks.last().filter(|last| last.opens).is_some_and(|last| {
        let body = text.get(last.span.end..).unwrap_or_default();
        body_ahead(body) == body.len()
    })
}

/// The lines that open and close private keys, in their order.
fn marks(text: &str) -> Vec<Mark> {
    let mut marks: Vec<Mark> = [(BEGIN, true), (END, false)]
        .into_iter()
        .flat_map(|(word, opens)| {
            text.match_indices(word).filter_map(move |(at, word)| {
                let rest = text.get(at.saturating_add(word.len())..)?;
                let rest = rest.get(..rest.floor_char_boundary(LABEL_BYTES_MAX))?;
                let (label, _) = rest.split_once("-----")?;
                let end =
                    at.saturating_add(word.len()).saturating_add(label.len()).saturating_add(5);
                let private = LABELS.iter().any(|private| label.ends_with(private));
                private.then_some(Mark { span: at..end, opens })
            })
        })
        .collect();
    marks.sort_unstable_by_key(|mark| mark.span.start);
    marks
}

/// How many bytes at the beginning of `text` look like the inside of a key.
fn body_ahead(text: &str) -> usize {
    pieces(text).take_while(|piece| is_inside(piece)).map(str::len).sum()
}

/// How many bytes at its end do.
fn body_behind(text: &str) -> usize {
    let pieces: Vec<_> = pieces(text).collect();
    pieces.iter().rev().take_while(|piece| is_inside(piece)).map(|piece| piece.len()).sum()
}

/// Lines, also where a line break was written as an escape.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').flat_map(|line| line.split_inclusive("\\n"))
}

/// Whether a line may stand inside a key: base64, a header of an encrypted key, or nothing. Numbers and signs that
/// an editor, a diff or a program puts around it do not count.
fn is_inside(piece: &str) -> bool {
    let line = piece.trim_end_matches('\n').trim_end_matches("\\n").trim_end_matches("\\r");
    let line = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
    let around = |c: char| c.is_whitespace() || r#""'+,:;>|#)]}"#.contains(c) || c == '\u{2192}';
    let line = line.trim_matches(around);
    let is_header = ["Proc-Type:", "DEK-Info:", "Comment:", "Version:"];
    let is_base64 =
        line.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-'));
    is_base64 || is_header.iter().any(|header| line.starts_with(header))
}
