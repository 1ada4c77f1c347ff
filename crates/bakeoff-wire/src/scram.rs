//! The client's side of SCRAM-SHA-256 without channel binding (RFC 5802, RFC 7677): who shows that
//! it knows a password, and learns that the server knows it too, without sending it.
//!
//! Not here: how messages travel (`postgres`), and SASLprep: a password is taken byte for byte, which
//! is the same for printable ASCII.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::ProtocolError;

/// The most rounds that a server may ask for; PostgreSQL asks for 4096.
const ITERATIONS_MAX: u32 = 1 << 20;
/// "No channel binding" and no other identity (`gs2-header`).
const HEADER: &str = "n,,";

type Hash = [u8; 32];

/// One exchange.
pub(crate) struct Scram {
    first_bare: String,
    nonce: String,
    password: String,
    /// The signature that the server must answer last.
    expected: Option<Hash>,
}

impl Scram {
    /// `nonce`: printable ASCII without commas, never used before.
    pub(crate) fn new(user: &str, password: &str, nonce: &str) -> Self {
        let first_bare = format!("n={user},r={nonce}");
        Self { first_bare, nonce: nonce.into(), password: password.into(), expected: None }
    }

    /// `client-first-message`.
    pub(crate) fn first(&self) -> String {
        format!("{HEADER}{}", self.first_bare)
    }

    /// `client-final-message`, for the server's first.
    pub(crate) fn answer(&mut self, server_first: &str) -> Result<String, ProtocolError> {
        let wrong = || ProtocolError::new("its first SCRAM message cannot be read");
        let mut parts = server_first.split(',');
        let mut part = |name: &str| parts.next()?.strip_prefix(name);
        let nonce = part("r=").ok_or_else(wrong)?;
        let salt = part("s=").and_then(|salt| STANDARD.decode(salt).ok()).ok_or_else(wrong)?;
        let iterations = part("i=").and_then(|count| count.parse().ok()).ok_or_else(wrong)?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ProtocolError::new("its SCRAM nonce does not continue ours"));
        }
        if !(1..=ITERATIONS_MAX).contains(&iterations) {
            return Err(ProtocolError::new(format!("it asks for {iterations} SCRAM rounds")));
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

    /// Returns whether `server-final-message` proves that the server knows the password.
    pub(crate) fn verify(&self, server_final: &str) -> Result<(), ProtocolError> {
        let shown = server_final.strip_prefix("v=").and_then(|v| STANDARD.decode(v).ok());
        match (&self.expected, shown) {
            (Some(expected), Some(shown)) if shown == expected => Ok(()),
            _ => Err(ProtocolError::new("it does not know the password itself")),
        }
    }
}

/// PBKDF2 with HMAC-SHA-256, one block (`Hi`, RFC 5802 section 2.2).
fn salted_password(password: &[u8], salt: &[u8], iterations: u32) -> Hash {
    // A longer key than a block would be hashed first; so it is the same key.
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

/// Bytes that SHA-256 takes at a time.
const BLOCK: usize = 64;

fn hmac(key: &Hash, parts: &[&[u8]]) -> Hash {
    keyed(key, parts)
}

/// HMAC-SHA-256 (RFC 2104) of the parts put together; `key` is at most a block long.
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
    fn the_exchange_of_rfc_7677_comes_out() {
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
    fn a_server_that_does_not_play_by_the_rules_is_not_answered() {
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
    fn a_long_password_is_the_key_that_rfc_2104_makes_of_it() {
        let long = "p".repeat(65);
        let hash: Hash = Sha256::digest(&long).into();
        assert_eq!(
            salted_password(long.as_bytes(), b"salt", 2),
            salted_password(&hash, b"salt", 2)
        );
    }
}
