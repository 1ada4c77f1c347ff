//! Masks secrets in server texts: a server that repeats a client's token must not put it into a record.
//!
//! Code that learns a secret registers it here. Server texts are masked before they are cut
//! ([`crate::units::server_text`], examples of errors).
//!
//! Not here: bakeoff's own texts, which never contain secrets.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

/// Bytes of an answer that are searched for secrets before the answer is cut for display.
pub const SEARCHED_MAX: usize = 16 << 10;

/// Minimum length of a secret in bytes. Shorter ones would match too many words.
const LENGTH_MIN: usize = 6;
const MASK: &str = "***";

static KNOWN: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Registers a secret of this process, if it has at least 6 bytes.
pub fn note(secret: &str) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    if secret.len() >= LENGTH_MIN && !known.iter().any(|one| one == secret) {
        known.push(secret.to_owned());
        // Longer secrets first, so that one that contains another is masked as a whole.
        known.sort_by_key(|one| std::cmp::Reverse(one.len()));
    }
}

/// Replaces each registered secret in a text by `***`.
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

/// Replaces the password of each `USER:PASSWORD@HOST` in a text by stars, as many as it has characters.
pub fn without_passwords(text: &str) -> Cow<'_, str> {
    if !text.contains('@') {
        return Cow::Borrowed(text);
    }
    let ends_word = |c: char| c.is_whitespace() || "\"'`,[]{}<>".contains(c);
    let word = |word: &str| {
        let begin = word.find("://").map_or(0, |at| at + "://".len());
        let colon = word[begin..].find(':').map(|at| begin + at + 1);
        match (colon, word.rfind('@')) {
            (Some(colon), Some(at)) if colon <= at => {
                let stars = "*".repeat(word[colon..at].chars().count());
                format!("{}{stars}{}", &word[..colon], &word[at..])
            }
            _ => word.to_owned(),
        }
    };
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(ends_word) {
        let end = part.char_indices().next_back().filter(|(_, c)| ends_word(*c));
        let (of, end) = part.split_at(end.map_or(part.len(), |(at, _)| at));
        shown.push_str(&word(of));
        shown.push_str(end);
    }
    Cow::Owned(shown)
}

/// Returns true if a header or URL parameter has a typical name of a secret, such as `X-Vault-Token` or `api_key`.
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
    fn passwords_in_addresses_are_starred() {
        for (text, shown) in [
            ("a http://me:s3c@h:1/p b", "a http://me:***@h:1/p b"),
            ("[redis://:pw@h:1,me:ä@h]", "[redis://:**@h:1,me:*@h]"),
            ("http://me:p@ss/w@h", "http://me:******@h"),
            ("me@h etcd@3.6 http://h:1/x", "me@h etcd@3.6 http://h:1/x"),
            ("h:1 me@h", "h:1 me@h"),
            ("@:@", "@:@"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }

    #[test]
    fn registered_secrets_are_masked_unless_short() {
        note("s3cret-of-secrets-tests");
        note("s3cret-of-secrets-tests-and-more");
        note("five5");
        let text = "token s3cret-of-secrets-tests, s3cret-of-secrets-tests-and-more, five5";
        assert_eq!(masked(text), "token ***, ***, five5");
        assert!(matches!(masked("nothing of it"), Cow::Borrowed(_)));
    }
}
