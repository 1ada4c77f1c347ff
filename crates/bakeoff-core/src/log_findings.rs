//! Finds warnings and errors in servers' logs, and counts similar ones together.
//!
//! A line's level is recognized by its form: a word in brackets (NGINX, Envoy, HashiCorp's, HAProxy), a field of JSON
//! (etcd, Vault, Envoy) or of `name=value` pairs, an early word (PostgreSQL, Java), a letter (Tarantool, klog). The
//! first level in a line counts, so an info line may quote an error. A line without a level is not counted: a stack
//! trace is not another error. If a server has its own words for levels, its kind declares them ([`LevelWord`]).
//!
//! Lines are counted by their [`fingerprint`]. One line of each kind is kept, without its secrets.
//!
//! Not here: reading files (the binary), tables (`report`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fingerprint::{fingerprint, redacted};
use crate::secrets;

/// Maximum kinds of lines kept per node; the most frequent are kept.
pub const KINDS_MAX: usize = 20;
/// Maximum distinct kinds while a log is read. Lines of further kinds are counted together.
const KINDS_READ_MAX: usize = 500;
/// Maximum length of an example in characters.
const EXAMPLE_MAX: usize = 300;
/// Maximum length of a line in bytes.
const LINE_MAX: usize = 8 << 10;
/// Bytes at the start of a line that may name its level, unless it is JSON or pairs.
const HEAD: usize = 200;
/// Number of words at the start of a line among which a bare word may be a level.
const WORDS: usize = 10;

/// Names the level of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// `warn`, `warning`.
    Warning,
    /// `error`, `severe`.
    Error,
    /// `crit`, `alert`, `emerg`, `fatal`, `panic`.
    Critical,
}

impl Level {
    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

/// Word by which a server names a level, standing alone among the first words of a line, and its level; `None` for a
/// harmless one.
pub type LevelWord = (&'static str, Option<Level>);

/// Holds the findings in one node's logs while the load ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeLog {
    /// Name of the node.
    pub node: String,
    /// Number of warning and error lines of all kinds.
    pub lines: u64,
    /// Kinds of lines, the most frequent first; at most 20 ([`KINDS_MAX`]).
    pub kinds: Vec<LogKind>,
    /// Bytes beyond the reading limit.
    #[serde(default, skip_serializing_if = "crate::units::is_zero")]
    pub unread_bytes: u64,
}

/// Counts lines with one fingerprint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogKind {
    /// Level of the lines.
    pub level: Level,
    /// Fingerprint of the lines.
    pub what: String,
    /// Number of lines.
    pub count: u64,
    /// First of these lines, without its secrets.
    pub example: String,
}

/// Counts a node's lines.
#[derive(Debug, Default)]
pub struct Tally {
    /// The server's own words for levels.
    words: &'static [LevelWord],
    lines: u64,
    kinds: BTreeMap<(Level, String), (u64, String)>,
}

impl Tally {
    /// Counts lines with these words for levels, in addition to the common ones.
    pub fn new(words: &'static [LevelWord]) -> Self {
        Self { words, ..Self::default() }
    }

    /// Counts a line, with or without its line break. Accepts any bytes.
    pub fn take(&mut self, line: &[u8]) {
        let line = &line[..line.len().min(LINE_MAX)];
        let line = String::from_utf8_lossy(line);
        let line = uncoloured(line.trim());
        let Some((level, message)) = complaint(&line, self.words) else { return };
        self.lines += 1;
        let kind = (level, fingerprint(&message));
        let full = self.kinds.len() >= KINDS_READ_MAX;
        match self.kinds.get_mut(&kind) {
            Some((count, _)) => *count += 1,
            None if full => {}
            None => {
                let mut example: String = redacted(&secrets::masked(&line));
                if let Some((end, _)) = example.char_indices().nth(EXAMPLE_MAX) {
                    example.truncate(end);
                    example.push('…');
                }
                self.kinds.insert(kind, (1, example));
            }
        }
    }

    /// Returns the counts; `None` if no line has a warning or error and all was read.
    pub fn finish(self, node: &str, unread_bytes: u64) -> Option<NodeLog> {
        if self.lines == 0 && unread_bytes == 0 {
            return None;
        }
        let kinds = self.kinds.into_iter();
        let mut kinds: Vec<LogKind> = kinds
            .map(|((level, what), (count, example))| LogKind { level, what, count, example })
            .collect();
        // Of equally frequent kinds the worse comes first.
        kinds.sort_by(|a, b| b.count.cmp(&a.count).then(b.level.cmp(&a.level)));
        kinds.truncate(KINDS_MAX);
        Some(NodeLog { node: node.to_owned(), lines: self.lines, kinds, unread_bytes })
    }
}

/// Removes colour escape codes from a line.
fn uncoloured(line: &str) -> Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return line.into();
    }
    let mut parts = line.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
        plain.push_str(part[code..].strip_prefix('m').unwrap_or(&part[code..]));
    }
    plain.into()
}

/// Returns the level and the message of a line; `None` for a harmless one.
fn complaint<'a>(line: &'a str, words: &[LevelWord]) -> Option<(Level, Cow<'a, str>)> {
    if line.starts_with('{')
        && let Ok(Value::Object(fields)) = serde_json::from_str(line)
    {
        return of_json(&fields);
    }
    let found = of_own_words(line, words)
        .or_else(|| of_letter(line))
        .or_else(|| of_brackets(line))
        .or_else(|| of_pairs(line))
        .or_else(|| of_words(line))?;
    let (level, message) = found;
    Some((level?, message))
}

/// Level, or `None` for a harmless one; and the message.
type ClassifiedLine<'a> = (Option<Level>, Cow<'a, str>);

/// Parses a word as a level; `None` if it is not one.
fn level(word: &str) -> Option<Option<Level>> {
    Some(match word.to_ascii_lowercase().as_str() {
        "trace" | "debug" | "info" | "notice" | "log" | "statement" | "detail" | "hint"
        | "context" => None,
        "warn" | "warning" => Some(Level::Warning),
        "err" | "error" | "severe" => Some(Level::Error),
        "crit" | "critical" | "alert" | "emerg" | "emergency" | "fatal" | "panic" | "dpanic" => {
            Some(Level::Critical)
        }
        _ => return None,
    })
}

/// Parses `{"level":"error","msg":"…","error":"…"}`, and `@level` and `@message`.
fn of_json<'a>(fields: &Map<String, Value>) -> Option<(Level, Cow<'a, str>)> {
    let text = |names: &[&str]| {
        names.iter().find_map(|name| fields.get(*name)?.as_str()).map(str::to_owned)
    };
    let own = text(&["level", "@level", "severity", "lvl", "log.level"])?;
    let level = level(&own)??;
    let message = text(&["msg", "@message", "message", "text", "event"]).unwrap_or_default();
    let error = text(&["error", "err", "cause", "exception"]);
    let message = match error {
        // Written like pairs, so the quoted error survives the fingerprint.
        Some(error) => format!("{message} error=\"{}\"", error.replace('"', "'")),
        None => message,
    };
    Some((level, message.into()))
}

/// Parses `12:M 23 Nov 2026 04:42:30.113 # …` of Redis, whose word for a warning is `#`.
fn of_own_words<'a>(line: &'a str, words: &[LevelWord]) -> Option<ClassifiedLine<'a>> {
    let mut rest = line;
    for _ in 0..WORDS {
        let (token, after) = rest.split_once(' ')?;
        if let Some((_, level)) = words.iter().find(|(word, _)| *word == token) {
            return Some((*level, after.trim_start().into()));
        }
        rest = after;
    }
    None
}

/// Parses `E1122 09:12:34.5 …` of klog, and Tarantool's `… main/103/init.lua E> …`.
fn of_letter(line: &str) -> Option<ClassifiedLine<'_>> {
    let of = |letter: u8| match letter {
        b'W' => Some(Some(Level::Warning)),
        b'E' => Some(Some(Level::Error)),
        b'F' | b'C' | b'!' => Some(Some(Level::Critical)),
        b'I' | b'D' | b'V' => Some(None),
        _ => None,
    };
    let first = line.split(' ').next().unwrap_or_default().as_bytes();
    if let [letter @ (b'W' | b'E' | b'F' | b'I'), digits @ ..] = first
        && digits.len() == 4
        && digits.iter().all(u8::is_ascii_digit)
    {
        // A time, a thread and a place follow, up to a bracket.
        let message = line.split_once("] ").map_or("", |(_, message)| message);
        return Some((of(*letter)?, message.into()));
    }
    let head = head(line);
    let at = head.find("> ")?;
    let [.., b' ', letter] = &head.as_bytes()[..at] else { return None };
    Some((of(*letter)?, line[at + 2..].into()))
}

/// Parses `… [error] 12#12: *5 …`, `[…][12][error][upstream] …`, `… [WARN]  agent: …`.
fn of_brackets(line: &str) -> Option<ClassifiedLine<'_>> {
    let head = head(line);
    for (open, _) in head.match_indices('[') {
        let Some(length) = head[open + 1..].find(']') else { continue };
        let Some(found) = level(&head[open + 1..open + 1 + length]) else { continue };
        let message = line[open + length + 2..].trim_start();
        return Some((found, nginx(message).into()));
    }
    None
}

/// Returns NGINX's message without the leading process, thread and connection, and without the trailing request.
fn nginx(message: &str) -> &str {
    let numbers = |text: &str, signs: &str| {
        text.bytes()
            .take_while(|byte| byte.is_ascii_digit() || signs.as_bytes().contains(byte))
            .count()
    };
    let message = match message.get(numbers(message, "#")..) {
        Some(rest) if rest.len() < message.len() => rest.strip_prefix(": ").unwrap_or(message),
        _ => message,
    };
    let message = match message.strip_prefix('*') {
        Some(rest) => rest[numbers(rest, "")..].trim_start(),
        None => message,
    };
    message.find(", client: ").map_or(message, |end| &message[..end])
}

/// Parses `ts=… level=error msg="…" err="…"`.
fn of_pairs(line: &str) -> Option<ClassifiedLine<'_>> {
    let own = ["level", "lvl", "severity"].iter().find_map(|name| pair(line, name))?;
    let found = level(own)?;
    let message = ["msg", "message"].iter().find_map(|name| pair(line, name)).unwrap_or(line);
    let error = ["error", "err"].iter().find_map(|name| pair(line, name));
    Some(match error {
        Some(error) => (found, format!("{message} error=\"{error}\"").into()),
        None => (found, message.into()),
    })
}

/// Returns the value of `name=value` or `name="value"`.
fn pair<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let is_whole = |at: usize| at == 0 || line.as_bytes()[at - 1].is_ascii_whitespace();
    let places = line.match_indices(name).filter(|(at, _)| is_whole(*at));
    let value = places.filter_map(|(at, _)| line[at + name.len()..].strip_prefix('=')).next()?;
    match value.strip_prefix('"') {
        Some(quoted) => {
            let escaped = |at: usize| quoted.as_bytes()[..at].ends_with(b"\\");
            let end = quoted.match_indices('"').map(|(at, _)| at).find(|&at| !escaped(at));
            Some(&quoted[..end.unwrap_or(quoted.len())])
        }
        None => value.split_ascii_whitespace().next(),
    }
}

/// Parses a bare word as the level: in capitals among the first words (`… ERROR:  …`, `… - WARN  [main] …`), in lower
/// case after a time (`2026-11-22T09:12:34Z<tab>error<tab>…`), or first and followed by a colon.
fn of_words(line: &str) -> Option<ClassifiedLine<'_>> {
    let head = head(line);
    let mut only_times = true;
    let mut rest = head;
    for place in 0..WORDS {
        rest = rest.trim_start();
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        if token.is_empty() {
            return None;
        }
        let word = token.strip_suffix(':').unwrap_or(token);
        let in_capitals = word.bytes().all(|byte| byte.is_ascii_uppercase());
        let leads = place == 0 && token.ends_with(':') || place > 0 && only_times;
        if (in_capitals || leads)
            && let Some(found) = level(word)
        {
            let message = line[head.len() - after.len()..].trim_start();
            return Some((found, message.into()));
        }
        only_times &= token.starts_with(|first: char| first.is_ascii_digit());
        rest = after;
    }
    None
}

fn head(line: &str) -> &str {
    let mut end = line.len().min(HEAD);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    &line[..end]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns how a line is counted, as `level: fingerprint`; `-` if it is not.
    fn counted(line: &str) -> String {
        counted_by(&[], line)
    }

    fn counted_by(words: &'static [LevelWord], line: &str) -> String {
        let mut tally = Tally::new(words);
        tally.take(line.as_bytes());
        match tally.finish("n", 0) {
            Some(log) => format!("{}: {}", log.kinds[0].level.name(), log.kinds[0].what),
            None => "-".to_owned(),
        }
    }

    #[test]
    fn own_words_of_a_server_precede_the_common_ones() {
        const WORDS: &[LevelWord] = &[("#", Some(Level::Warning)), ("*", None)];
        let line = "12:M 23 Nov 2026 04:42:30.113 # Short read from the primary";
        assert_eq!(counted(line), "-");
        assert_eq!(counted_by(WORDS, line), "warning: Short read from the primary");
        assert_eq!(
            counted_by(WORDS, "12:M 23 Nov 2026 04:42:30.113 * Said: ERROR by a client"),
            "-"
        );
        assert_eq!(counted_by(WORDS, "no level of its own, and a #tag"), "-");
        assert_eq!(counted_by(WORDS, "ERROR: a common one"), "error: a common one");
    }

    #[test]
    fn lines_of_many_programs_are_recognized_by_level() {
        for (line, expected) in [
            (
                "2026/11/22 09:12:34 [error] 31#31: *5 [lua] gateway.lua:23: timeout, client: 127.0.0.1, \
                 server: localhost, request: \"GET / HTTP/1.1\", host: \"127.0.0.1:8443\"",
                "error: [lua] gateway.lua:N: timeout",
            ),
            (
                "2026/11/22 09:12:34 [crit] 31#31: *7 SSL_do_handshake() failed",
                "critical: SSL_do_handshake() failed",
            ),
            ("2026/11/22 09:12:34 [notice] 31#31: signal process started [error]", "-"),
            (
                "[2026-11-22 09:12:34.567][12][warning][config] [source/a.cc:12] gRPC stream closed: 14",
                "warning: [config] [source/a.cc:N] gRPC stream closed: N",
            ),
            (
                "2026-11-22T09:12:34.567Z [ERROR] agent.http: Request error: url=/v1/kv/9 error=\"no leader\"",
                "error: agent.http: Request error: url=/vN/kv/N error=\"no leader\"",
            ),
            ("2026-11-22T09:12:34.567Z [INFO]  agent: [ERROR] was said", "-"),
            (
                r#"{"level":"warn","ts":"2026-11-22T09:12:34Z","msg":"apply took too long","took":"1s"}"#,
                "warning: apply took too long",
            ),
            (
                r#"{"@level":"error","@message":"core: failed","error":"node 3 is gone"}"#,
                "error: core: failed error=\"node N is gone\"",
            ),
            (r#"{"level":"info","msg":"error"}"#, "-"),
            (r#"{"level": torn"#, "-"),
            (
                r#"ts=2026-11-22 level=error msg="write failed" err="disk 3 \"full\"" n=1"#,
                "error: write failed error=\"disk N \\\"full\\\"\"",
            ),
            ("level=info msg=\"no ERROR here\"", "-"),
            (
                "2026-11-22 09:12:34.567 UTC [123] ERROR:  relation \"a\" does not exist at character 15",
                "error: relation \"…\" does not exist at character N",
            ),
            ("2026-11-22 09:12:34.567 UTC [123] STATEMENT:  SELECT ERROR", "-"),
            (
                "2026-11-22 09:12:34,567 [myid:1] - WARN  [SyncThread:1:FileTxnLog@380] - fsync took 1200ms",
                "warning: [SyncThread:N:FileTxnLog@N] - fsync took N",
            ),
            ("2026-11-22T09:12:34.5Z\twarn\tads\tstream 12 closed", "warning: ads stream N closed"),
            (
                "2026-11-22 09:12:34.567 [31] main/103/init.lua E> ER_TIMEOUT: took 3",
                "error: ER_TIMEOUT: took N",
            ),
            ("2026-11-22 09:12:34.567 [31] main/103/init.lua I> ERROR in words", "-"),
            ("E1122 09:12:34.567890   12 reflector.go:138] watch failed", "error: watch failed"),
            ("[ALERT]    (31) : cannot bind", "critical: (N) : cannot bind"),
            ("\u{1b}[31m[error]\u{1b}[0m it broke", "error: it broke"),
            ("panic: runtime error", "critical: runtime error"),
            ("error: something", "error: something"),
            ("an error in passing", "-"),
            ("there were 5 errors, said ERROR", "error: "),
            ("", "-"),
        ] {
            assert_eq!(counted(line), expected, "{line}");
        }
    }

    #[test]
    fn similar_lines_are_counted_together_with_a_redacted_example() {
        let mut tally = Tally::default();
        for number in 0..7 {
            tally.take(
                format!("09:00:0{number} [error] {number}#1: *{number} no {number}\n").as_bytes(),
            );
        }
        tally.take(b"09:00:09 [warn] header X-Vault-Token: s.abc \xff\n");
        let log = tally.finish("gateway-1", 0).expect("there were complaints");
        assert_eq!((log.node.as_str(), log.lines, log.kinds.len()), ("gateway-1", 8, 2));
        assert_eq!((log.kinds[0].count, log.kinds[0].what.as_str()), (7, "no N"));
        assert_eq!(log.kinds[0].example, "09:00:00 [error] 0#1: *0 no 0");
        assert!(log.kinds[1].example.ends_with("X-Vault-Token: [hidden] \u{fffd}"), "{log:?}");
    }

    #[test]
    fn number_of_kinds_is_limited() {
        let mut tally = Tally::default();
        for number in 0..2000_u32 {
            let word: String =
                number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
            (0..=number % 3).for_each(|_| tally.take(format!("[error] {word}").as_bytes()));
        }
        let log = tally.finish("n", 0).expect("there were complaints");
        assert_eq!((log.lines, log.kinds.len()), (3999, KINDS_MAX));
        assert!(log.kinds.iter().all(|kind| kind.count == 3), "the most frequent are kept");
    }

    #[test]
    fn clean_log_is_none_unless_partly_unread() {
        assert_eq!(Tally::default().finish("n", 0), None);
        assert_eq!(Tally::default().finish("n", 5).map(|log| log.unread_bytes), Some(5));
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(line in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut tally = Tally::default();
            tally.take(&line);
            tally.finish("n", 0);
        }

        #[test]
        fn log_like_text_never_panics(
            line in "([0-9]{1,4}[-/: ]){0,4}(\\[?(error|WARN|fatal)\\]?|level=|\\{\"level\":|E>|E1122|\u{1b}\\[3).{0,60}",
        ) {
            let mut tally = Tally::default();
            tally.take(line.as_bytes());
            tally.finish("n", 0);
        }
    }
}
