//! Cutting long texts without losing where they begin and end.

use crate::limits::REASON_BYTES_MAX;
use crate::secret::redact;

/// A text that fits, and whether something was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What was kept.
    pub text: String,
    /// Whether something is missing.
    pub truncated: bool,
}

/// Keeps at most `max` bytes: the first and the last half, with a line between that says how much is missing.
pub fn head_and_tail(text: &str, max: usize) -> Kept {
    if text.len() <= max {
        return Kept { text: text.to_owned(), truncated: false };
    }
    // Room for the line between.
    let half = max.saturating_sub(48) / 2;
    let (head, tail) =
        (text.floor_char_boundary(half), text.ceil_char_boundary(text.len().saturating_sub(half)));
    let (Some(first), Some(last)) = (text.get(..head), text.get(tail..)) else {
        return Kept { text: String::new(), truncated: true };
    };
    Kept {
        text: format!("{first}\n[… {} bytes left out …]\n{last}", tail.saturating_sub(head)),
        truncated: true,
    }
}

/// What is kept of the reason of a failure: no secrets, and at most 4 KiB. In this order: half a secret would
/// not be known for one.
pub fn reason(text: &str) -> String {
    head_and_tail(&redact(text), REASON_BYTES_MAX).text
}

/// Keeps the last `max` bytes.
pub fn tail(text: &str, max: usize) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(max))..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_kept_never_exceeds_its_bound(text in ".{0,400}", max in 48_usize..300) {
            let kept = head_and_tail(&text, max);
            prop_assert!(kept.text.len() <= max, "{} > {max}", kept.text.len());
            prop_assert_eq!(kept.truncated, text.len() > max);
            prop_assert!(tail(&text, max).len() <= max && text.ends_with(tail(&text, max)));
        }
    }

    #[test]
    fn head_and_tail_survive() {
        let kept = head_and_tail(&format!("begin{}end", "x".repeat(10_000)), 1_000);
        assert!(
            kept.text.starts_with("begin")
                && kept.text.ends_with("end")
                && kept.text.contains("bytes left out")
        );
    }
}
