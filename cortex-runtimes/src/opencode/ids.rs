//! Names of messages. They are ours to choose, so a prompt that is sent twice is one message; they are read in the
//! order of their names, so they carry the time as OpenCode's own do.

use cortex_lib::env::Env;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Random digits behind the time.
const RANDOM: usize = 14;

/// A new name: 12 hexadecimal digits of the time, 4096 to a millisecond, then random ones.
pub(super) fn message(env: &dyn Env) -> String {
    let time = (env.now().as_millis().cast_unsigned() << 12) & 0xffff_ffff_ffff;
    let mut random = env.mint_v4().as_u128();
    let mut name = format!("msg_{time:012x}");
    for _ in 0..RANDOM {
        let digit = usize::try_from(random % 62).unwrap_or_default();
        name.push(DIGITS.get(digit).copied().map_or('0', char::from));
        random /= 62;
    }
    name
}

#[cfg(test)]
mod tests {
    use cortex_lib::env::SystemEnv;

    use super::*;

    #[test]
    fn a_name_is_of_the_form_that_the_server_uses() {
        let env = SystemEnv::new();
        let name = message(&env);
        assert_eq!(name.len(), "msg_22c04d910001Yo4VmnkqS8G6HL".len());
        assert!(name.starts_with("msg_"));
        assert_ne!(name, message(&env));
    }
}
