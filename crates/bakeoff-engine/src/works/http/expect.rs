//! Decides if a response counts as a success.

use std::borrow::Cow;
use std::fmt::Write as _;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::secrets;
use bakeoff_core::statuses::Statuses;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::source::Body;
use crate::work::Failure;

/// Sets the conditions for a successful response.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Expect {
    /// Accepted statuses.
    pub statuses: Statuses,
    /// Condition on the body; `None` accepts any body.
    pub body: Option<ExpectBody>,
}

/// Sets a condition on a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExpectBody {
    /// The body contains these bytes.
    Contains(Vec<u8>),
    /// The body has this SHA-256 digest.
    Sha256([u8; 32]),
}

/// Explains why an expectation is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpectError {
    /// The text to search for is empty.
    #[error("an empty text is part of every body")]
    EmptyText,
    /// A SHA-256 has this many digits instead of 64.
    #[error("a SHA-256 has 64 hexadecimal digits, not {0}")]
    DigestLength(usize),
    /// A SHA-256 has a character that is not a hexadecimal digit.
    #[error("a SHA-256 has hexadecimal digits only")]
    DigestDigits,
}

impl ExpectBody {
    /// Parses `sha256:HEX`; any other text must be part of the body.
    pub fn parse(text: &str) -> Result<Self, ExpectError> {
        let Some(hex) = text.strip_prefix("sha256:") else {
            if text.is_empty() {
                return Err(ExpectError::EmptyText);
            }
            return Ok(Self::Contains(text.as_bytes().to_vec()));
        };
        let mut digest = [0; 32];
        let digits = hex.as_bytes();
        if digits.len() != 64 {
            return Err(ExpectError::DigestLength(digits.len()));
        }
        for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'));
            *byte = pair
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                .ok_or(ExpectError::DigestDigits)?;
        }
        Ok(Self::Sha256(digest))
    }
}

impl Expect {
    /// Judges a response. The error names the deviation.
    #[inline]
    pub fn judge(&self, status: u16, body: Body<'_>) -> Result<(), Failure> {
        if !self.statuses.has(status) {
            return Err(unexpected(status, body.bytes));
        }
        match &self.body {
            None => Ok(()),
            Some(expected) => expected.judge(body.bytes),
        }
    }
}

#[cold]
fn unexpected(status: u16, body: &[u8]) -> Failure {
    let refuses_plain_text = refuses_plain_text(status, body);
    let hint = match status {
        _ if refuses_plain_text => PLAIN_TEXT_REFUSED,
        301 | 302 | 303 | 307 | 308 => " (a redirect, which is not followed)",
        _ => "",
    };
    let what = format!("status {status}{hint}{}", beginning(body));
    Failure { refuses_plain_text, ..Failure::new(ErrorKind::Status, what) }
}

/// Hint after the status of an answer to plain text on a TLS port.
pub const PLAIN_TEXT_REFUSED: &str = " (this port speaks TLS: try `https://`, or `tls` in a study)";

/// Returns true if an answer says that plain text reached a TLS port, in the words of NGINX, Go, Apache or Envoy.
pub fn refuses_plain_text(status: u16, body: &[u8]) -> bool {
    status == 400 && contains(&body[..body.len().min(1000)], b"HTTPS")
}

impl ExpectBody {
    fn judge(&self, body: &[u8]) -> Result<(), Failure> {
        let what = match self {
            Self::Contains(part) if contains(body, part) => return Ok(()),
            Self::Contains(_) => {
                format!("a body of {} bytes without the text{}", body.len(), beginning(body))
            }
            Self::Sha256(expected) => {
                let digest = Sha256::digest(body);
                if digest.as_slice() == expected {
                    return Ok(());
                }
                let mut hex = String::new();
                for byte in digest {
                    let _ = write!(hex, "{byte:02x}"); // writing into a string cannot fail
                }
                format!("a body of {} bytes with the SHA-256 {hex}", body.len())
            }
        };
        Err(Failure::new(ErrorKind::WrongValue, what))
    }
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

/// Returns the beginning of a body, for an error example.
fn beginning(body: &[u8]) -> String {
    const SHOWN: usize = 60;
    if body.is_empty() {
        return String::new();
    }
    // Mask before truncating, so that no part of a secret remains.
    let searched = String::from_utf8_lossy(&body[..body.len().min(secrets::SEARCHED_MAX)]);
    let masked = match secrets::masked(&searched) {
        Cow::Owned(masked) => Some(masked),
        Cow::Borrowed(_) => None,
    };
    let body = masked.as_ref().map_or(body, |masked| masked.as_bytes());
    let shown = body.get(..SHOWN).unwrap_or(body);
    let rest = if body.len() > SHOWN { "…" } else { "" };
    format!(": `{}{rest}`", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_is_judged_by_its_text_or_digest() {
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let judge = |expect: &str, body: &str| {
            let expect =
                Expect { body: Some(ExpectBody::parse(expect).unwrap()), ..Expect::default() };
            let body = Body { bytes: body.as_bytes(), length: body.len() };
            expect.judge(200, body).map_err(|failure| failure.kind)
        };
        assert_eq!(judge(&format!("sha256:{of_abc}"), "abc"), Ok(()));
        assert_eq!(judge(&format!("sha256:{of_abc}"), "abd"), Err(ErrorKind::WrongValue));
        assert_eq!(judge("bc", "abc"), Ok(()));
        assert_eq!(judge("abcd", "abc"), Err(ErrorKind::WrongValue));
        assert_eq!(judge("a", ""), Err(ErrorKind::WrongValue));
        for wrong in ["", "sha256:", "sha256:zz", &format!("sha256:+{}", &of_abc[1..])] {
            assert!(ExpectBody::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn unexpected_status_fails_and_shows_the_body() {
        let failure = Expect::default().judge(503, Body { bytes: b"no\n", length: 3 }).unwrap_err();
        assert_eq!((failure.kind, &*failure.what), (ErrorKind::Status, "status 503: `no\\n`"));
    }
}
