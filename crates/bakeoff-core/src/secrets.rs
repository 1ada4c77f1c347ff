//! Keeps secrets out of texts that servers write: one that repeats a client's token must not put it into a record.
//!
//! Whoever comes to know a secret notes it here. What servers say is masked where it is cut
//! ([`crate::units::server_text`], examples of errors).
//!
//! Not here: texts of our own, into which no secret is ever written.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

/// So many bytes of an answer are searched for secrets before it is cut to what is shown.
pub const SEARCHED_MAX: usize = 16 << 10;

/// Shorter ones are part of too many words.
const LENGTH_MIN: usize = 6;
/// The mask in a secret's place.
const MASK: &str = "***";

static KNOWN: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Notes a secret of this process, if it is long enough to be told from other text: 6 bytes.
pub fn note(secret: &str) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    if secret.len() >= LENGTH_MIN && !known.iter().any(|one| one == secret) {
        known.push(secret.to_owned());
        // One that holds another is masked as a whole.
        known.sort_by_key(|one| std::cmp::Reverse(one.len()));
    }
}

/// Returns a text with each noted secret as `***`.
pub fn masked(text: &str) -> Cow<'_, str> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let mut masked = Cow::Borrowed(text);
    for secret in known.iter() {
        if masked.contains(secret.as_str()) {
            masked = Cow::Owned(masked.replace(secret.as_str(), MASK));
        }
    }
    masked
}

/// Returns whether a header or a parameter of a URL has a name that secrets have: `X-Vault-Token`, `api_key`.
pub fn is_named_by(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["token", "secret", "password", "passwd", "key", "auth", "credential", "signature"]
        .iter()
        .any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noted_secrets_are_masked_and_short_ones_are_not() {
        note("s3cret-of-secrets-tests");
        note("s3cret-of-secrets-tests-and-more");
        note("five5");
        let text = "token s3cret-of-secrets-tests, s3cret-of-secrets-tests-and-more, five5";
        assert_eq!(masked(text), "token ***, ***, five5");
        assert!(matches!(masked("nothing of it"), Cow::Borrowed(_)));
    }
}
