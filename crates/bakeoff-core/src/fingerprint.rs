//! Fingerprints messages of servers and hides the secrets in them.
//!
//! [`redacted`] shows one message without its secrets. [`fingerprint`] also removes variable parts, so that similar
//! messages are counted together. Both look only at form and know no product. A harmless word that looks like a
//! secret is hidden too, which is the better mistake.
//!
//! Not here: finding the error lines of a log (`log_findings`).

/// Maximum length of a fingerprint in characters.
pub const FINGERPRINT_MAX: usize = 160;

/// Replacement for a secret.
const HIDDEN: &str = "[hidden]";

/// Parts of names whose value is secret.
const SECRET_NAMES: [&str; 12] = [
    "token",
    "passw",
    "secret",
    "authorization",
    "cookie",
    "credential",
    "apikey",
    "api_key",
    "api-key",
    "private",
    "session",
    "signature",
];
/// Names whose value contains spaces and commas, and extends to the end of the quotation.
const LONG_VALUES: [&str; 2] = ["authorization", "cookie"];

/// Minimum length of a word that may be a secret.
const RANDOM_MIN: usize = 16;

/// Returns the text on one line with possible secrets hidden: values of names like `token` and `password`, users of
/// URLs, random-looking words.
pub fn redacted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (word, after) = rest.split_at(word_len(rest));
        if word.is_empty() {
            if let Some(user) = user_of_url(rest) {
                out.push_str("://");
                out.push_str(HIDDEN);
                rest = &rest[user..];
                continue;
            }
            out.push(if first.is_control() { ' ' } else { first });
            rest = &rest[first.len_utf8()..];
            continue;
        }
        if let Some((kept, value)) = named_secret(word, after) {
            out.push_str(word);
            out.push_str(&after[..kept]);
            out.push_str(HIDDEN);
            rest = &after[kept + value..];
            continue;
        }
        out.push_str(if looks_random(word) { HIDDEN } else { word });
        rest = after;
    }
    out.trim().to_owned()
}

/// Returns the length in bytes of the word at the start of a text.
fn word_len(text: &str) -> usize {
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+');
    text.bytes().take_while(is_of_word).count()
}

/// Returns the offset of the host in a text that begins with `://user:password@`.
fn user_of_url(text: &str) -> Option<usize> {
    let authority = text.strip_prefix("://")?;
    let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '?' | ',');
    let authority = &authority[..authority.find(ends).unwrap_or(authority.len())];
    authority.rfind('@').map(|at| "://".len() + at)
}

/// Returns the bytes between a secret's name and its value, and the value's length in bytes.
fn named_secret(name: &str, after: &str) -> Option<(usize, usize)> {
    let name = name.to_ascii_lowercase();
    if !SECRET_NAMES.iter().any(|part| name.contains(part)) {
        return None;
    }
    let bytes = after.as_bytes();
    // Matches `"token": "…"`, also within a string: `\"token\": \"…\"`.
    let skip = |mut at: usize, of: &[u8]| {
        while bytes.get(at).is_some_and(|byte| of.contains(byte)) {
            at += 1;
        }
        at
    };
    let sign = skip(0, b"\\\"' ");
    if !bytes.get(sign).is_some_and(|byte| matches!(byte, b'=' | b':')) {
        return None;
    }
    let begin = skip(sign + 1, b"\\\"' ");
    let quote = bytes[sign + 1..begin].iter().rev().find(|byte| matches!(byte, b'"' | b'\''));
    let long = LONG_VALUES.iter().any(|part| name.contains(part));
    let ends = |byte: &u8| match quote {
        Some(quote) => byte == quote || *byte == b'\\',
        None if long => matches!(byte, b'"' | b'\'' | b'\n' | b'\r'),
        None => byte.is_ascii_whitespace() || b"\"'\\,;&})]".contains(byte),
    };
    let value = &bytes[begin..];
    let length = value.iter().position(ends).unwrap_or(value.len());
    (length > 0).then_some((begin, length))
}

/// Returns true if a word looks random: long, and alternating between lower case, upper case and digits more often
/// than man-made words. In evenly drawn letters and digits more than half of the neighbours differ, in hexadecimal
/// ones nearly half, in `LeaderElectionFailedException` a quarter.
fn looks_random(word: &str) -> bool {
    let class = |byte: u8| match byte {
        b'a'..=b'z' => Some(1),
        b'A'..=b'Z' => Some(2),
        b'0'..=b'9' => Some(3),
        _ => None,
    };
    let classes: Vec<u8> = word.bytes().filter_map(class).collect();
    let count = |of: u8| classes.iter().filter(|class| **class == of).count();
    let (digits, all) = (count(3), classes.len());
    if all < RANDOM_MIN {
        return false;
    }
    let changes = classes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    match (digits, all - digits) {
        (3.., 3..) => changes * 5 >= all,
        (_, 3..) => changes * 3 >= all,
        _ => false, // a long number
    }
}

/// Replaces numbers, addresses, times and ids by `N` and quoted strings by `"…"`, in at most [`FINGERPRINT_MAX`]
/// characters.
pub fn fingerprint(text: &str) -> String {
    reduced(text, true)
}

/// Fingerprints an answer; keeps text in `"` and a leading status: `503: {"errors":["not ready"]}`.
pub fn fingerprint_of_answer(text: &str) -> String {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (status, rest) = text.split_at(digits);
    // An HTML error page has its message in the title.
    let title = rest.split_once("<title>").and_then(|(_, page)| page.split_once("</title>"));
    if let Some((title, _)) = title.filter(|_| rest.starts_with(':')) {
        return cut(&format!("{status}: {}", reduced(title, false)));
    }
    match status.is_empty() || !(rest.is_empty() || rest.starts_with(':')) {
        true => reduced(text, false),
        false => cut(&format!("{status}{}", reduced(rest, false))),
    }
}

fn reduced(text: &str, quotes_vary: bool) -> String {
    // Longer text does not reach the fingerprint.
    let mut longest = text.len().min(16 * FINGERPRINT_MAX);
    while !text.is_char_boundary(longest) {
        longest -= 1;
    }
    let hidden = redacted(&text[..longest]);
    let mut out = String::with_capacity(hidden.len());
    let mut rest = hidden.as_str();
    while let Some(at) = rest.find(['"', '`']) {
        let (before, from) = rest.split_at(at);
        push_words(before, &mut out);
        let quote = if from.starts_with('`') { '`' } else { '"' };
        let Some(length) = quotation(quote, from) else {
            out.push(quote);
            rest = &from[1..];
            continue;
        };
        let varies = quoted_varies(quote, quotes_vary, &out);
        out.push(quote);
        if varies {
            out.push('…');
        } else {
            push_words(&from[1..length - 1], &mut out);
        }
        out.push(quote);
        rest = &from[length..];
    }
    push_words(rest, &mut out);
    cut(out.trim())
}

/// Appends unquoted words and the characters between them.
fn push_words(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (word, after) = rest.split_at(word_len(rest));
        if word.is_empty() {
            match first {
                c if c.is_whitespace() && out.ends_with(' ') => {}
                c if c.is_whitespace() => out.push(' '),
                c => out.push(c),
            }
            rest = &rest[first.len_utf8()..];
            continue;
        }
        // A hyphen may join a date, an id, or words.
        for (place, part) in word.split('-').enumerate() {
            if place > 0 {
                out.push('-');
            }
            push_word(part, out);
        }
        rest = after;
    }
}

/// Returns true if a quotation is replaced. Values of `error=` and similar names are kept, because they name the
/// cause.
fn quoted_varies(quote: char, quotes_vary: bool, before: &str) -> bool {
    let tells = || ["error=", "err=", "msg=", "message=", "reason=", "cause="];
    quote == '`' || quotes_vary && !tells().iter().any(|name| before.ends_with(name))
}

/// Returns the length in bytes of the quotation at the start, including its quotes.
fn quotation(quote: char, text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Appends a word with its numbers as `N`. Numbers joined by punctuation (`127.0.0.1:80`) count as one.
fn push_word(word: &str, out: &mut String) {
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    if !has_digit {
        out.push_str(word);
        return;
    }
    let is_hex = word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let starts = word.starts_with(|first: char| first.is_ascii_digit());
    if is_hex || starts {
        let joined = out.strip_suffix(['.', ':', ',', '/', '-', '+']);
        match joined.filter(|before| before.ends_with('N')).map(str::len) {
            Some(length) => out.truncate(length),
            None => out.push('N'),
        }
        return;
    }
    let mut in_number = false;
    for c in word.chars() {
        let digit = c.is_ascii_digit();
        if !digit {
            out.push(c);
        } else if !in_number {
            out.push('N');
        }
        in_number = digit;
    }
}

fn cut(text: &str) -> String {
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(FINGERPRINT_MAX).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hides(text: &str, expected: &str) {
        assert_eq!(redacted(text), expected);
    }

    #[test]
    fn hides_fields_named_like_secrets() {
        hides("login with password=hunter2, again", "login with password=[hidden], again");
        hides("X-Vault-Token: abc def", "X-Vault-Token: [hidden] def");
        hides(r#"{"client_token":"abc","n":1}"#, r#"{"client_token":"[hidden]","n":1}"#);
        hides(r#"body {\"token\": \"abc\"}"#, r#"body {\"token\": \"[hidden]\"}"#);
        hides(r#"secret_id="two words", x"#, r#"secret_id="[hidden]", x"#);
        hides("Authorization: Basic dXNl cjpw, x", "Authorization: [hidden]");
        hides(r#"cookie: "a=b; c=d", host: "h""#, r#"cookie: "[hidden]", host: "h""#);
        hides("GET /x?token=abc&n=1", "GET /x?token=[hidden]&n=1");
        hides("postgres://ada:pw@127.0.0.1:5/x", "postgres://[hidden]@127.0.0.1:5/x");
    }

    #[test]
    fn hides_random_looking_words_and_keeps_names() {
        for secret in [
            "hvs.CAESIJlU1nuWw5l2u0zXvHh4KHGh2cyN1pSnVZ",
            "6f1ed002-ab5f-42b1-8e7d-9a3c5d2b4e6f",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
            "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
        ] {
            let shown = redacted(&format!("found {secret} there"));
            let longest = secret.split('.').max_by_key(|part| part.len()).unwrap_or_default();
            assert!(!shown.contains(longest) && shown.contains(HIDDEN), "{shown}");
        }
        for plain in [
            "org.apache.zookeeper.server.quorum.LeaderElectionFailedException",
            "2026-11-22T09:12:34.567890Z",
            "/tmp/runs/2026-11-22-202450-kv-stores/nodes/bakeoff-12-etcd-1",
            "1234567890123456789012345",
            "the session expired and the token was refused",
            "kv_store_leader_election_timeout",
        ] {
            hides(plain, plain);
        }
    }

    #[test]
    fn similar_lines_have_one_fingerprint() {
        let check = |texts: &[&str], expected: &str| {
            for text in texts {
                assert_eq!(fingerprint(text), expected);
            }
        };
        check(
            &[
                "connect() to 127.0.0.1:8080 failed (111: Connection refused), took 12.5ms",
                "connect() to 10.1.2.3:99 failed (111: Connection refused),  took 3s",
            ],
            "connect() to N failed (N: Connection refused), took N",
        );
        check(
            &[
                r#"open() "/a/b" failed at 2026-11-22T09:12:34.5Z for 0a1b2c3d4e5f"#,
                r#"open() "/c \" d" failed at 2025-01-02T00:00:00.0Z for ffff0000aaaa"#,
            ],
            r#"open() "…" failed at N for N"#,
        );
        check(&["node etcd-1 lost etcd-2", "node etcd-3 lost etcd-1"], "node etcd-N lost etcd-N");
        check(
            &[r#"request failed: url=/v1/kv/7 error="No cluster leader""#],
            r#"request failed: url=/vN/kv/N error="No cluster leader""#,
        );
        check(&[r#"error="2 left" at="x" and "y""#], r#"error="N left" at="…" and "…""#);
    }

    #[test]
    fn fingerprint_of_an_answer_keeps_its_status_and_text() {
        let check = |text: &str, expected: &str| assert_eq!(fingerprint_of_answer(text), expected);
        check("500", "500");
        check(
            "503: {\"errors\":[\"node 3 is sealed\"]}",
            "503: {\"errors\":[\"node N is sealed\"]}",
        );
        let page = "<html> <head><title>503 Not Now</title></head> <body>503 Not Now</body>";
        check(&format!("503: {page}"), "503: N Not Now");
        check("key `bakeoff/0a` has 12 bytes", "key `…` has N bytes");
        check("12 bytes are missing", "N bytes are missing");
    }

    proptest! {
        #[test]
        fn any_text_has_a_fingerprint_of_bounded_length(text in "\\PC{0,400}|[0-9a-fN.:\"`, =]{0,400}") {
            prop_assert!(fingerprint(&text).chars().count() <= FINGERPRINT_MAX + 1);
            prop_assert!(fingerprint_of_answer(&text).chars().count() <= FINGERPRINT_MAX + 1);
        }

        #[test]
        fn named_secret_is_never_shown(secret in "[a-z]{6,12}", sign in "=|: |\":\"|='") {
            let shown = redacted(&format!("x token{sign}{secret} y"));
            prop_assert!(!shown.contains(&secret), "{}", shown);
        }
    }
}
