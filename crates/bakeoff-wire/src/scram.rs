//! Implements the client's side of SCRAM-SHA-256 without channel binding (RFC 5802, RFC 7677). Both sides prove
//! knowledge of the password without sending it.
//!
//! Not here: the transport of the messages (`postgres`), and SASLprep. Passwords are taken byte for byte, which is
//! equivalent for printable ASCII.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::ProtocolError;

/// Maximum rounds that a server may request; PostgreSQL requests 4096.
const ITERATIONS_MAX: u32 = 1 << 20;
/// The `gs2-header`: no channel binding and no other identity.
const HEADER: &str = "n,,";

type Hash = [u8; 32];

/// Runs one exchange.
pub(crate) struct Scram {
    first_bare: String,
    nonce: String,
    password: String,
    /// Signature that the server's last message must contain.
    expected: Option<Hash>,
}

impl Scram {
    /// Starts an exchange. `nonce` is printable ASCII without commas and must never be reused.
    pub(crate) fn new(user: &str, password: &str, nonce: &str) -> Self {
        let first_bare = format!("n={user},r={nonce}");
        Self { first_bare, nonce: nonce.into(), password: password.into(), expected: None }
    }

    /// Returns the `client-first-message`.
    pub(crate) fn first(&self) -> String {
        format!("{HEADER}{}", self.first_bare)
    }

    /// Returns the `client-final-message` for the server's first message.
    pub(crate) fn answer(&mut self, server_first: &str) -> Result<String, ProtocolError> {
        let wrong = || ProtocolError::new("its first SCRAM message is malformed");
        let mut parts = server_first.split(',');
        let mut part = |name: &str| parts.next()?.strip_prefix(name);
        let nonce = part("r=").ok_or_else(wrong)?;
        let salt = part("s=").and_then(|salt| STANDARD.decode(salt).ok()).ok_or_else(wrong)?;
        let iterations = part("i=").and_then(|count| count.parse().ok()).ok_or_else(wrong)?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ProtocolError::new("its SCRAM nonce does not continue ours"));
        }
        if !(1..=ITERATIONS_MAX).contains(&iterations) {
            return Err(ProtocolError::new(format!("it requires {iterations} SCRAM rounds")));
        }
        let salted = salted_password(self.password.as_bytes(), &salt, iterations);
        let bare = format!("c={},r={nonce}", STANDARD.encode(HEADER));
        let message = format!("{},{server_first},{bare}", self.first_bare);
        let client_key = hmac(&salted, &[b"Client Key"]);
        let signature = hmac(&Sha256::digest(client_key).into(), &[message.as_bytes()]);
        let mut proof = client_key;
        proof.iter_mut().zip(signature).for_each(|(byte, other)| *byte ^= other);
        self.expected = Some(hmac(&hmac(&salted, &[b"Server Key"]), &[message.as_bytes()]));
        Ok(format!("{bare},p={}", STANDARD.encode(proof)))
    }

    /// Checks that the `server-final-message` proves knowledge of the password.
    pub(crate) fn verify(&self, server_final: &str) -> Result<(), ProtocolError> {
        let shown = server_final.strip_prefix("v=").and_then(|v| STANDARD.decode(v).ok());
        match (&self.expected, shown) {
            (Some(expected), Some(shown)) if shown == expected => Ok(()),
            _ => Err(ProtocolError::new("it failed to prove that it knows the password")),
        }
    }
}

/// Computes PBKDF2 with HMAC-SHA-256, one block (`Hi`, RFC 5802 section 2.2).
fn salted_password(password: &[u8], salt: &[u8], iterations: u32) -> Hash {
    // HMAC hashes keys longer than a block first. Doing it here once gives the same key.
    let key: Hash;
    let password = if password.len() > BLOCK {
        key = Sha256::digest(password).into();
        &key[..]
    } else {
        password
    };
    let mut last = keyed(password, &[salt, &1u32.to_be_bytes()]);
    let mut all = last;
    for _ in 1..iterations {
        last = keyed(password, &[&last]);
        all.iter_mut().zip(last).for_each(|(byte, other)| *byte ^= other);
    }
    all
}

/// Block size of SHA-256 in bytes.
const BLOCK: usize = 64;

fn hmac(key: &Hash, parts: &[&[u8]]) -> Hash {
    keyed(key, parts)
}

/// Computes HMAC-SHA-256 (RFC 2104) of the concatenated parts; `key` is at most one block long.
fn keyed(key: &[u8], parts: &[&[u8]]) -> Hash {
    let pad = |with: u8| {
        let mut block = [with; BLOCK];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let mut inner = Sha256::new();
    inner.update(pad(0x36));
    parts.iter().for_each(|part| inner.update(part));
    let mut outer = Sha256::new();
    outer.update(pad(0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                                s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    #[test]
    fn exchange_matches_the_example_of_rfc_7677() {
        let mut scram = Scram::new("user", "pencil", NONCE);
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        assert_eq!(
            scram.answer(SERVER_FIRST).unwrap(),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        scram.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
        assert!(scram.verify("v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").is_err());
        assert!(scram.verify("e=other-error").is_err());
    }

    #[test]
    fn server_that_breaks_the_rules_gets_no_answer() {
        let fails = |first: &str| {
            assert!(Scram::new("", "pencil", NONCE).answer(first).is_err(), "{first}");
        };
        fails("");
        fails("r=somebody-elses,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        fails(&format!("r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
        fails(&format!("r={NONCE}x,s=*,i=4096"));
        fails(&format!("r={NONCE}x,s=W22Z,i=0"));
        fails(&format!("r={NONCE}x,s=W22Z,i=4000000000"));
        assert!(Scram::new("", "pencil", NONCE).verify("v=").is_err());
    }

    #[test]
    fn long_password_is_hashed_as_in_rfc_2104() {
        let long = "p".repeat(65);
        let hash: Hash = Sha256::digest(&long).into();
        assert_eq!(
            salted_password(long.as_bytes(), b"salt", 2),
            salted_password(&hash, b"salt", 2)
        );
    }
}
