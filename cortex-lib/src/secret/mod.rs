//! What must not be seen: credentials of ours have no `Debug` and never reach a log, and what looks like one
//! in a text of others is taken out before it is stored or shown.

mod assigned;
mod pem;
mod redact;
mod shapes;

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

pub(crate) use self::redact::redact_in_place;
pub use self::redact::{LineRedactor, REDACTED, redact, redact_json};

/// A credential. It prints as `[secret]`; [`expose`](Self::expose) is the only way to its text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a credential in.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Whoever calls this answers for where it goes.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is stored instead of it.
    pub fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.0.as_bytes()).into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// The SHA-256 of a credential. Good enough without a salt: credentials are 256 random bits.
#[derive(Clone, Copy)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// From the bytes that were stored; `None` when they are not 32.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Compared in constant time: how long it takes says nothing about where two hashes differ.
impl PartialEq for SecretHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretHash {}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hash]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print() {
        let secret = Secret::new("cortex_user_0123");
        assert_eq!(format!("{secret:?} {:?}", secret.hash()), "[secret] [hash]");
    }

    #[test]
    fn a_hash_knows_its_secret_again() {
        let stored = Secret::new("a").hash();
        assert_eq!(SecretHash::from_bytes(stored.as_bytes()), Some(Secret::new("a").hash()));
        assert_ne!(stored, Secret::new("b").hash());
    }

    /// What is compared, in constant time, has nothing in common with the token, however much of a guess is right: so
    /// no time tells how much that is. A measured one would tell more about the machine.
    #[test]
    fn a_guess_that_is_nearly_right_looks_like_any_other() {
        let token = "cortex_user_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let right = Secret::new(token).hash();
        for known in 0..token.len() {
            let (beginning, rest) = token.split_at(known);
            let guess = format!("{beginning}{}", "x".repeat(rest.len()));
            let wrong = Secret::new(guess).hash();
            assert_ne!(right, wrong, "{known}");
            let pairs = right.as_bytes().iter().zip(wrong.as_bytes());
            let alike = pairs.take_while(|(a, b)| a == b).count();
            assert!(alike < 4, "{known} letters, {alike} bytes");
        }
    }
}
