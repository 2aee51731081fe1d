//! Secrets that are known by the name they are given to: `password=…`, `"api_key": "…"`, `Authorization: …`.
//!
//! Code and prose use the same names for things that are no secrets, so here the value is judged too: when in
//! doubt a value with a telling name goes, a word of a language or a call stays.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::redact::REDACTED;
use super::shapes::pattern;

/// Names whose value is a secret, by how they end. Case does not count.
const NAMES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "client[_-]?secret",
    "secret[_-]?key",
    "secret[_-]?key[_-]?base",
    "api[_-]?key",
    "access[_-]?key",
    "account[_-]?key",
    "private[_-]?key",
    "signing[_-]?key",
    "encryption[_-]?key",
    "auth[_-]?token",
    "access[_-]?token",
    "refresh[_-]?token",
    "session[_-]?token",
    "security[_-]?token",
    "bot[_-]?token",
    "_auth",
    "amz-signature",
    "token",
];

/// The name behind which fewer values are secrets: parsers and pages have tokens too.
const WEAK_NAME: &str = "token";

/// Words that stand where a secret would: types, and what documentation writes.
const WORDS: &[&str] = &[
    "string",
    "str",
    "text",
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "required",
    "optional",
    "null",
    "none",
    "undefined",
    "true",
    "false",
    "example",
    "hidden",
    "redacted",
    "placeholder",
    "default",
    "boolean",
    "number",
    "object",
    "unknown",
    "missing",
    "invalid",
    "empty",
    "expired",
];

/// What is looked at of a value before it is judged. It bounds the work for a text full of names.
const JUDGED_BYTES_MAX: usize = 512;

/// A name, and all up to its value.
static ASSIGNED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(
        r#"((?i-u:{}))(?:(\\?(?:["'`]\]?)?[ \t]{{0,4}}(?:=>|:=|==?|:)[ \t]{{0,4}})|[ \t]{{1,4}})(\\?["'`])?"#,
        NAMES.join("|")
    ))
});

/// Headers that carry a credential, and all up to it.
static HEADERS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?i-u:\bauthorization\\?["']?[ \t]{0,4}[:=][ \t]{0,4}\\?["']?((?:basic|bearer|token|digest|negotiate|apikey)[ \t]{1,4})?|\b(bearer)(?:[ \t]{1,4}|%20))"#,
    )
});

/// Cookies of a request or an answer, up to the end of the line.
static COOKIES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        "(?i-u:\\b(?:set-)?cookie)\\\\?[\"']?[ \t]{0,4}:[ \t]{0,4}\\\\?[\"']?([^ \t\r\n\"'=;\\\\\\[]{1,64}=[^\r\n\"'\\\\]{8,})",
    )
});

/// Where secrets with a name stand in `text`.
pub(super) fn find(text: &str, spans: &mut Vec<Range<usize>>) {
    find_assigned(text, spans);
    find_in_headers(text, spans);
    for found in COOKIES.captures_iter(text) {
        spans.extend(found.get(1).map(|cookies| cookies.range()));
    }
}

fn find_assigned(text: &str, spans: &mut Vec<Range<usize>>) {
    // What stands inside a value that is taken out anyway is not looked at: each byte is read once. A name may begin
    // there and have its value behind it.
    let mut done = 0;
    for found in ASSIGNED.captures_iter(text) {
        let (Some(whole), Some(name)) = (found.get(0), found.get(1)) else { continue };
        let Some(rest) = text.get(whole.end()..).filter(|_| whole.end() > done) else {
            continue;
        };
        let value = Value {
            name: name.as_str(),
            before: text.get(..name.start()).unwrap_or_default(),
            separator: found.get(2).map(|separator| separator.as_str()),
            quote: found.get(3).and_then(|quote| quote.as_str().chars().last()),
            rest,
        };
        if let Some(len) = value.secret_len() {
            done = whole.end().saturating_add(len);
            spans.push(whole.end()..done);
        }
    }
}

fn find_in_headers(text: &str, spans: &mut Vec<Range<usize>>) {
    let ends = ends_bare;
    let mut done = 0;
    for found in HEADERS.captures_iter(text) {
        let Some(whole) = found.get(0).filter(|whole| whole.end() > done) else { continue };
        let Some(rest) = text.get(whole.end()..) else { continue };
        let with_scheme = found.get(1).or(found.get(2)).is_some();
        if is_header_secret(until(rest, JUDGED_BYTES_MAX, ends), with_scheme) {
            done = whole.end().saturating_add(until(rest, rest.len(), ends).len());
            spans.push(whole.end()..done);
        }
    }
}

/// Whether the field `name` of an object holds a secret in `text`.
pub(super) fn is_secret_field(name: &str, text: &str) -> bool {
    let assigned = format!("{name}=");
    let found = ASSIGNED.captures(&assigned).and_then(|found| found.get(1));
    found.is_some_and(|name| is_quoted_secret(name.as_str(), text))
}

/// Something that stands behind a telling name.
struct Value<'a> {
    name: &'a str,
    /// The text before the name.
    before: &'a str,
    /// What stands between the name and the value. None: blanks alone, as behind an option of a command.
    separator: Option<&'a str>,
    quote: Option<char>,
    rest: &'a str,
}

impl Value<'_> {
    /// How long the secret is; none when it is not one.
    fn secret_len(&self) -> Option<usize> {
        let is_option = || {
            let start = self.before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            let word = self.before.get(start.map_or(0, |at| at.saturating_add(1))..);
            word.is_some_and(|word| word.starts_with("--"))
        };
        if self.separator.is_none() && !is_option() {
            return None;
        }
        if let Some(quote) = self.quote {
            let ends = |c| c == quote || c == '\n';
            let value = until(self.rest, JUDGED_BYTES_MAX, ends);
            let value = value.strip_suffix('\\').unwrap_or(value);
            if !is_quoted_secret(self.name, value) {
                return None;
            }
            let all = until(self.rest, self.rest.len(), ends);
            return Some(all.strip_suffix('\\').unwrap_or(all).len());
        }
        let ends = if self.is_environment() { ends_word } else { ends_bare };
        let value = until(self.rest, JUDGED_BYTES_MAX, ends);
        let next = self.rest.get(value.len()..).and_then(|rest| rest.chars().next());
        // A call, an index, a type or a block: code, not a value.
        let is_code = matches!(next, Some('(' | '[' | '<' | '{'));
        if is_code || !self.is_bare_secret(value) {
            return None;
        }
        Some(until(self.rest, self.rest.len(), ends).len())
    }

    /// Whether a value without quotes is a secret.
    fn is_bare_secret(&self, value: &str) -> bool {
        if is_placeholder(value) || is_word(value) || value.starts_with(['/', '.', '~', '=']) {
            return false;
        }
        let kinds = Kinds::of(value);
        let is_weak = self.name.eq_ignore_ascii_case(WEAK_NAME);
        if self.is_environment() {
            return value.len() >= if is_weak { 12 } else { 6 } && !kinds.is_number();
        }
        if is_weak {
            return value.len() >= 16 && kinds.is_mixed() && !value.contains("::");
        }
        let mixed = value.len() >= 8 && kinds.is_mixed() && !value.contains("::");
        // `password=swordfish`, as connection strings have it; `password=get_password` is code.
        let tight = self.separator == Some("=") && value.len() >= 8 && kinds.is_one_word();
        mixed || tight
    }

    /// Whether it is written as environment variables are: `DB_PASSWORD=`.
    fn is_environment(&self) -> bool {
        self.separator == Some("=") && !self.name.bytes().any(|byte| byte.is_ascii_lowercase())
    }
}

/// Whether a value in quotes is a secret. What has blanks in it is a sentence.
fn is_quoted_secret(name: &str, value: &str) -> bool {
    if is_placeholder(value) || is_word(value) || value.contains(char::is_whitespace) {
        return false;
    }
    let kinds = Kinds::of(value);
    if name.eq_ignore_ascii_case(WEAK_NAME) {
        return value.len() >= 16 && kinds.is_mixed();
    }
    value.len() >= 6 && !kinds.is_number()
}

/// Whether what stands in a header is a credential and not a word of a sentence.
fn is_header_secret(value: &str, with_scheme: bool) -> bool {
    let kinds = Kinds::of(value);
    if is_placeholder(value) || value.contains("::") {
        return false;
    }
    // Base64 may have no digit; a word has no capital inside.
    let is_encoded = value.len() >= 12 && kinds.upper_inside && kinds.lower;
    if with_scheme {
        is_encoded || value.len() >= 8 && kinds.is_mixed()
    } else {
        value.len() >= 16 && kinds.is_mixed()
    }
}

/// Whether a value says where the secret is, not what it is: a variable, a template, a mask.
pub(super) fn is_reference(value: &str) -> bool {
    let mut chars = value.chars();
    match (chars.next(), chars.next()) {
        // Something else took a part of it out already.
        _ if value.contains(REDACTED) => true,
        (Some('{' | '<' | '[' | '*'), _) | (Some('%'), Some('(' | '{' | 's' | 'v')) => true,
        // A hash of a password begins with `$2b$`.
        (Some('$'), second) => !second.is_some_and(|c| c.is_ascii_digit()),
        _ => false,
    }
}

/// Whether nothing can be made of a value: a reference, nothing at all, or `xxxxxx`.
fn is_placeholder(value: &str) -> bool {
    let first = value.chars().next();
    is_reference(value) || value.chars().all(|c| Some(c) == first)
}

fn is_word(value: &str) -> bool {
    WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Whether `c` ends a word of a shell, about.
fn ends_word(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ';' | '\\')
}

/// Whether `c` ends a value that has no quotes.
fn ends_bare(c: char) -> bool {
    c.is_whitespace() || "\"'`,;&|()[]{}<>\\".contains(c)
}

/// The beginning of `text` up to what ends it, at most `max` bytes.
fn until(text: &str, max: usize, ends: impl Fn(char) -> bool) -> &str {
    let text = text.get(..text.floor_char_boundary(max)).unwrap_or_default();
    text.get(..text.find(ends).unwrap_or(text.len())).unwrap_or_default()
}

/// What sorts of characters a value has.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and any of them may hold"
)]
struct Kinds {
    digit: bool,
    lower: bool,
    upper: bool,
    /// An upper case letter that is not the first.
    upper_inside: bool,
    /// `_`, `.` or `-`, which join words of a name.
    joint: bool,
}

impl Kinds {
    fn of(value: &str) -> Self {
        let mut kinds = Self::default();
        for (at, c) in value.chars().enumerate() {
            kinds.digit |= c.is_ascii_digit();
            kinds.lower |= c.is_lowercase();
            kinds.upper |= c.is_uppercase();
            kinds.upper_inside |= at > 0 && c.is_uppercase();
            kinds.joint |= matches!(c, '_' | '.' | '-');
        }
        kinds
    }

    /// Letters and digits: hardly a word of a language.
    fn is_mixed(&self) -> bool {
        self.digit && (self.lower || self.upper)
    }

    fn is_number(&self) -> bool {
        !self.lower && !self.upper
    }

    fn is_one_word(&self) -> bool {
        !self.joint && !self.is_number()
    }
}
