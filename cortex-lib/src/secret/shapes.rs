//! Secrets that are known by their shape alone: keys with a prefix, signed tokens, credentials in a URL.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// Keys that begin with what their provider put there so that they can be found. Behind each prefix stands
/// one class of bytes without a dot, so no candidate looks further than where it ends.
const PREFIXED: &[&str] = &[
    // Cortex: `Env::mint_secret`.
    "cortex_[a-z]{2,16}_[0-9a-f]{16,}",
    // Anthropic, OpenAI and those that took over the form.
    "sk-(?:ant|proj|svcacct|admin|None|or|lf)-[A-Za-z0-9_-]{8,}",
    "sk-[A-Za-z0-9]{20,}",
    "(?:xai|pplx|fw|nvapi|tgp_v1)-[A-Za-z0-9_-]{20,}",
    "gsk_[A-Za-z0-9]{20,}",
    "r8_[A-Za-z0-9]{20,}",
    "hf_[A-Za-z0-9]{20,}",
    // GitHub, GitLab.
    "gh[opsur]_[A-Za-z0-9]{16,}",
    "github_pat_[A-Za-z0-9_]{16,}",
    "gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[A-Za-z0-9_=-]{16,}",
    // Clouds.
    "(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\\b",
    "AIza[A-Za-z0-9_-]{30,}",
    "GOCSPX-[A-Za-z0-9_-]{20,}",
    "ya29\\.[A-Za-z0-9_-]{20,}",
    "dop_v1_[0-9a-f]{40,}",
    "dckr_pat_[A-Za-z0-9_-]{20,}",
    // Registries.
    "npm_[A-Za-z0-9]{20,}",
    "pypi-[A-Za-z0-9_-]{40,}",
    // Chat, mail, payment, trackers.
    "xox[abeoprs]-[A-Za-z0-9-]{10,}",
    "xapp-[0-9]-[A-Za-z0-9-]{10,}",
    "hooks\\.slack\\.com/services/[A-Za-z0-9/_+-]{20,}",
    "SG\\.[A-Za-z0-9_-]{16,32}\\.[A-Za-z0-9_-]{32,}",
    "(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}",
    "whsec_[A-Za-z0-9+/=]{16,}",
    "lin_api_[A-Za-z0-9]{20,}",
    "AGE-SECRET-KEY-1[A-Z0-9]{20,}",
];

/// A prefix counts where a word begins, behind `_`, and behind an escape as JSON writes a line break. The key
/// goes to the end of its word, so that nothing is left to become a key by itself.
static KEYS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(r"(?-u)(?:\b|_|\\[nrt])(?:{})[A-Za-z0-9_]*", PREFIXED.join("|")))
});

/// JSON Web Tokens: signed (also one whose signature is missing) and encrypted.
static SIGNED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?-u)(?:\b|_|\\[nrt])eyJ[A-Za-z0-9_-]{8,}(?:\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?|\.[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]{8,}){3})",
    )
});

/// What stands between `//` and `@` in a URL. A line, a quote or a slash ends it.
static URLS: LazyLock<Regex> = LazyLock::new(|| pattern("://([^ \t\r\n/?#\"'`<>]+)@"));

/// Where secrets of a known shape stand in `text`.
pub(super) fn find(text: &str, spans: &mut Vec<Range<usize>>) {
    spans.extend(KEYS.find_iter(text).map(|found| found.range()));
    spans.extend(SIGNED.find_iter(text).map(|found| found.range()));
    for found in URLS.captures_iter(text) {
        if let Some(login) = found.get(1).filter(|login| is_credential(login.as_str())) {
            spans.push(login.range());
        }
    }
}

/// Whether the part of a URL before its `@` holds a secret: a password behind a colon, or a token instead of
/// a name. `git@` is a name, and `${PASSWORD}` says where the secret is, not what it is.
fn is_credential(login: &str) -> bool {
    match login.split_once(':') {
        Some((_, password)) => !password.is_empty() && !super::assigned::is_reference(password),
        None => {
            login.len() >= 20
                && login.bytes().any(|byte| byte.is_ascii_digit())
                && login.bytes().any(|byte| byte.is_ascii_alphabetic())
        }
    }
}

#[expect(clippy::expect_used, reason = "the patterns are constants, and every test meets them")]
pub(super) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern of a secret is a regular expression")
}
