use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A key of `prefix` with a body that no real one has. Written in two parts, so that no scanner of repositories
/// takes this file for a leak.
fn key(prefix: &str, body: &str) -> String {
    format!("{prefix}{body}")
}

const ALNUM: &str = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0";
/// The first bytes of a body.
fn first(count: usize) -> &'static str {
    ALNUM.split_at(count).0
}

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Every kind of secret, each alone.
fn secrets() -> Vec<String> {
    let upper = "ABCDEFGH12345678";
    let pem = |label: &str| {
        format!("-----BEGIN {label}-----\nMIIEvQ{ALNUM}\n{ALNUM}+/=\n-----END {label}-----")
    };
    vec![
        key("sk-ant-", &format!("api03-{ALNUM}-x_A")),
        key("sk-", ALNUM),
        key("sk-proj-", &format!("{ALNUM}_x-A")),
        key("ghp_", first(36)),
        key("gho_", first(36)),
        key("github_pat_", &format!("11ABC_{ALNUM}")),
        key("glpat-", first(20)),
        key("AKIA", upper),
        key("AIza", first(35)),
        key("xoxb-", "123456789012-abcdefABCDEF"),
        key("xoxp-", "123456789012-abcdefABCDEF"),
        key("npm_", first(36)),
        key("hf_", first(34)),
        key("cortex_user_", HEX),
        key("cortex_session_", HEX),
        key(
            "eyJhbGciOiJIUzI1NiJ9",
            ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
        ),
        pem("PRIVATE KEY"),
        pem("RSA PRIVATE KEY"),
        pem("OPENSSH PRIVATE KEY"),
        pem("PGP PRIVATE KEY BLOCK"),
    ]
}

/// Every kind of context, with the secret where `{}` stands.
const PLACES: &[(&str, &str)] = &[
    ("Authorization: Bearer {}", "f00dbabe12345678"),
    ("\"authorization\": \"Basic {}\"", "dXNlcjpwYXNzd29yZA=="),
    ("curl -H 'Authorization: token {}' x", "0123456789abcdef0123"),
    ("then bearer {} was sent", "f00dbabe12345678"),
    ("DB_PASSWORD={}", "swordfish"),
    ("export API_KEY={} && make", "Zm9v(bar)YmF6"),
    ("password={}", "hunter22"),
    ("host=db password={} user=x", "swordfish"),
    ("password: {}", "hunter-22"),
    ("secret: {}", "s3cr3t-v4lue"),
    ("\"api_key\": \"{}\"", "abcdefghijkl"),
    ("{\\\"apiKey\\\":\\\"{}\\\",\\\"a\\\":1}", "abcdefghijkl"),
    ("config['client_secret'] = '{}'", "correct-horse"),
    ("aws_secret_access_key = {}", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("run --password {} --verbose", "hunter22"),
    ("run --access-token={}", "abcd1234abcd1234"),
    ("?X-Amz-Signature={}&a=1", "0123456789abcdef0123456789abcdef"),
    ("//registry.npmjs.org/:_authToken={}", "6fd1c6a0-1111-2222-3333-44444444444f"),
    ("https://{}@github.com/a/b.git", "user:pass"),
    ("postgres://{}@db:5432/app", "app:p@ss/"),
    ("https://{}@github.com", "0123456789abcdef0123456789abcdef01234567"),
    ("Cookie: {}", "session=abcdef0123456789; theme=dark"),
];

#[test]
fn every_kind_of_secret_goes_and_what_stands_around_it_stays() {
    for secret in secrets() {
        assert_eq!(redact(&secret), REDACTED, "{secret}");
        for (before, after) in
            [("see ", " there"), ("(", ")"), ("line\\n", "\\n"), ("=", "\n"), ("x_", "")]
        {
            let text = format!("{before}{secret}{after}");
            let redacted = redact(&text);
            assert!(
                !redacted.contains(secret.split_at(12).0) && redacted.ends_with(after),
                "{text}: {redacted}"
            );
        }
    }
}

#[test]
fn a_value_with_a_telling_name_goes_and_its_name_stays() {
    for (place, secret) in PLACES {
        let secret = secret.trim_end_matches('/');
        let wanted = place.replacen("{}", REDACTED, 1);
        assert_eq!(redact(&place.replacen("{}", secret, 1)), wanted, "{place}");
    }
}

#[test]
fn a_private_key_goes_also_when_it_is_cut_or_escaped() {
    let lines = format!("{ALNUM}\n{ALNUM}\n{ALNUM}");
    let begun = format!("before\n-----BEGIN EC PRIVATE KEY-----\n{lines}");
    assert_eq!(redact(&begun), "before\n[secret]");
    let cut = format!("{begun}\n[… 40 bytes left out …]\nafter");
    assert_eq!(redact(&cut), "before\n[secret][… 40 bytes left out …]\nafter");
    let rest = format!("It said:\n\n{lines}\n-----END EC PRIVATE KEY-----\nafter");
    assert_eq!(redact(&rest), "It said:\n[secret]\nafter");
    let escaped = format!("{{\"key\":\"-----BEGIN PRIVATE KEY-----\\n{ALNUM}\\n{ALNUM}\"}}");
    assert!(!redact(&escaped).contains(ALNUM), "{}", redact(&escaped));
    let two = format!("{begun}\nand {begun}\n-----END EC PRIVATE KEY-----\nend");
    assert_eq!(redact(&two), "before\n[secret]and before\n[secret]\nend");
}

#[test]
fn what_only_looks_like_a_secret_stays() {
    let image = format!("data:image/png;base64,{}", "iVBORw0KGgoAAAANSUhEUgAA/+AB".repeat(400));
    let texts = [
        "commit 9ced753b0c6f7e5d4c3b2a1908f7e6d5c4b3a291",
        "550e8400-e29b-41d4-a716-446655440000",
        "0193b2c4-7d1e-7000-8000-000000000001 is the task",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "integrity sha512-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08==",
        "let token = lexer.next_token();",
        "fn login(password: &str, token: Option<String>) -> Secret {",
        "password = getpass.getpass()",
        "api_key=os.environ[\"API_KEY\"]",
        "apiKey: process.env.API_KEY,",
        "PASSWORD=${DB_PASSWORD} make",
        "TOKEN=$(cat token.txt)",
        "password: required",
        "\"password\": \"string\"",
        "Password: must be at least 8 characters",
        "max_tokens=4096 input_tokens: 15234",
        "{\"usage\":{\"input_tokens\":1200345,\"output_tokens\":12}}",
        "PWD=/home/user1/project",
        "Bearer authentication is used; bearer tokens expire",
        "Authorization: Bearer ${CORTEX_MCP_TOKEN}",
        "the task-abcdefghijklmnopqrstuvwxyz0123456789 and disk-0123456789abcdefghijkl",
        "<div class=\"sk-toggleable__label-arrow sk-folding-cube\">",
        "git@github.com:owner/repository.git and ssh://git@github.com/owner/repository",
        "http://localhost:8080/a/@scope/package@1.2.3",
        "https://user:${TOKEN}@host and https://[secret]@host",
        "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBm\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
        "npm_config_registry npm_lifecycle_event hf_transfer cortex_user_token cortex_session_id",
        "test secret::tests::a_secret_does_not_print ... ok",
        "secretary: everything2everyone; tokenizer: cl100k_base_v2_extended",
        "error[E0308]: mismatched types\n  --> src/main.rs:4:18",
        "eyJust a word. eyJ",
        "",
    ];
    for text in texts.iter().copied().chain([image.as_str()]) {
        let redacted = redact(text);
        assert!(matches!(redacted, Cow::Borrowed(_)), "{text}\n{redacted}");
        assert_eq!(redacted, text);
    }
}

#[test]
fn a_value_is_redacted_in_its_texts_and_by_the_names_of_its_fields() {
    let mut value = json!({
        "command": "curl -u x https://user:pass@host", "env": { "PASSWORD": "swordfish", "HOME": "/root" },
        "args": ["--token", key("ghp_", first(36))], "count": 3, "secret": true, "token": "short",
    });
    redact_json(&mut value);
    let wanted = json!({
        "command": "curl -u x https://[secret]@host", "env": { "PASSWORD": "[secret]", "HOME": "/root" },
        "args": ["--token", "[secret]"], "count": 3, "secret": true, "token": "short",
    });
    assert_eq!(value, wanted);
}

/// A text that a program made so that it takes long. Each is read in one go, whatever it repeats.
#[test]
fn a_text_of_20_mb_takes_no_longer_per_byte_than_a_short_one() {
    let hostile = [
        "password=",
        "password=a1",
        "authorization:",
        "authorization: bearer a1",
        "eyJ",
        "eyJaaaaaaaa.",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----\n",
        "://a:",
        "sk-ant-",
        "token ",
        "cookie: a=",
        "--",
        "A1b2",
        "x \n",
        "github_pat_",
    ];
    // Without optimisation the engine of the patterns is slow; what is quadratic shows in less, too.
    let size = if cfg!(debug_assertions) { 200_000 } else { 20_000_000 };
    for piece in hostile {
        let text = piece.repeat(size / piece.len());
        let redacted = redact(&text);
        assert!(redacted.len() <= text.len(), "{piece}");
    }
}

fn piece() -> impl Strategy<Value = String> {
    let known = secrets()
        .into_iter()
        .chain(PLACES.iter().map(|(place, secret)| place.replacen("{}", secret, 1)));
    let known: Vec<String> = known.collect();
    prop_oneof![
        3 => prop::sample::select(known),
        2 => prop::sample::select(vec![
            "password=", "token: ", "\"secret\":\"", "://", "@", "[", "(", "\\n", "\n", " ", "_", "=", "'",
            "sk-", "bearer ", "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "a1B2c3D4",
        ]).prop_map(str::to_owned),
        1 => "\\PC{0,12}",
    ]
}

#[test]
fn what_follows_cookies_is_not_taken_for_one() {
    let text = "Cookie: session=abcdef0123456789; theme=dark\\nDB_PASSWORD=swordfish";
    let once = redact(text).into_owned();
    assert_eq!(once, "Cookie: [secret]\\nDB_PASSWORD=[secret]");
    assert_eq!(redact(&once), once);
}

#[test]
fn a_name_that_begins_in_another_ones_value_has_its_own() {
    let text = "Authorization: Bearer f00dbabe12345678sk-Authorization: Bearer f00dbabe12345678";
    assert_eq!(redact(text), "Authorization: Bearer [secret] Bearer [secret]");
    let text = "password=a1B2c3D4-token: a1B2c3D4a1B2c3D4";
    assert_eq!(redact(text), "password=[secret] [secret]");
}

#[test]
fn a_key_goes_whose_end_only_shows_when_the_one_behind_it_is_gone() {
    let text = "AKIAABCDEFGH12345678_sk-ant-api03-A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0-x_A";
    assert_eq!(redact(text), "[secret][secret]");
}

proptest! {
    #[test]
    fn redacting_again_changes_nothing(pieces in prop::collection::vec(piece(), 0..8)) {
        let text = pieces.concat();
        let once = redact(&text).into_owned();
        prop_assert!(matches!(redact(&once), Cow::Borrowed(_)), "{text:?}\n{once:?}\n{:?}", redact(&once));
    }

    /// Only a secret of a few bytes is shorter than what replaces it.
    #[test]
    fn a_text_never_becomes_twice_as_long(pieces in prop::collection::vec(piece(), 0..8)) {
        let text = pieces.concat();
        prop_assert!(redact(&text).len() <= 2 * text.len());
    }

    #[test]
    fn whatever_comes_is_read(text: String, bytes: Vec<u8>) {
        redact(&text);
        redact(&String::from_utf8_lossy(&bytes));
    }
}
