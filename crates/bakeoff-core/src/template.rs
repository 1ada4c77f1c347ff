//! Renders texts of a request whose words in braces change with each request, such as `/users/{key}`. Also holds the
//! table whose columns they may name.
//!
//! `{{key}}` is the text `{key}`. Braces that do not look like a word stay as they are, so JSON can be written
//! plainly: `{"id": {sequence}}`. `${key}` is left alone, because it is a variable of other tools. A study knows its
//! words and rejects others. A URL on a command line may contain any braces, and keeps unknown ones.
//!
//! Not here: words of a command or its files, which stand for ports and folders.

use std::borrow::Cow;
use std::convert::Infallible;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;
use serde::{Deserialize, Serialize};

use crate::suggest::suggest;
use crate::workload::mix64;

/// Maximum characters of `{random:N}`.
pub const RANDOM_MAX: usize = 1 << 16;

/// Words that are available in every request.
const KNOWN: [&str; 4] = ["{key}", "{sequence}", "{client}", "{random:8}"];

/// Suffix after a column's name and a colon that escapes its value for JSON.
const JSON: &str = "json";
/// Suffix that turns a message in Base64 into the body of a gRPC call.
const GRPC: &str = "grpc";

/// Alphabet of `{random:N}`: characters that are safe in paths, headers and JSON.
const RANDOM_CHARACTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Holds a text and its words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

/// Holds a part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Fixed text.
    Text(String),
    /// Word that changes with each request.
    Word(Word),
}

/// Names the meaning of a word in braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// `{key}`: number of the operation's key.
    Key,
    /// `{sequence}`: number of the request in its load, from 0.
    Sequence,
    /// `{client}`: number of the client, from 0.
    Client,
    /// `{random:8}`: this many random characters.
    Random(usize),
    /// `{name}`: value of this column in the current row.
    Column(usize),
    /// `{name:json}`: value of this column in the current row, escaped as the content of a JSON string.
    JsonColumn(usize),
    /// `{name:grpc}`: value of this column in the current row, decoded from Base64, after the prefix of a gRPC message.
    GrpcColumn(usize),
}

/// Holds values that requests take row by row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Values of each row, one per column.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns the row for the request with this number; requests take rows in turn. Empty without rows.
    pub fn row(&self, sequence: u64) -> &[String] {
        let rows = self.rows.len() as u64;
        sequence.checked_rem(rows).map_or(&[], |place| &self.rows[place as usize])
    }

    /// Rejects a body that takes a message that is not Base64.
    ///
    /// # Errors
    /// Names the row and the column.
    pub fn check_body(&self, body: &Template) -> Result<(), String> {
        for word in body.words() {
            let Word::GrpcColumn(place) = *word else { continue };
            let is_invalid = |row: &Vec<String>| grpc_message(&row[place]).is_none();
            if let Some(row) = self.rows.iter().position(is_invalid) {
                return Err(format!(
                    "row {} of the table holds a message in `{}` that is not Base64",
                    row + 1,
                    self.columns[place]
                ));
            }
        }
        Ok(())
    }

    /// Rejects a path or header that takes the bytes of a message; `place` names it.
    ///
    /// # Errors
    /// Names the column.
    pub fn check_text(&self, place: &str, text: &Template) -> Result<(), String> {
        let bytes = text.words().find_map(|word| match word {
            Word::GrpcColumn(column) => Some(&self.columns[*column]),
            _ => None,
        });
        match bytes {
            Some(column) => {
                Err(format!("{place} takes `{{{column}:grpc}}`, which only a body can hold"))
            }
            None => Ok(()),
        }
    }

    /// Rejects a header that takes a value with a line break.
    ///
    /// # Errors
    /// Names the row and the column.
    pub fn check_header(&self, name: &str, header: &Template) -> Result<(), String> {
        self.check_text(&format!("header `{name}`"), header)?;
        for word in header.words() {
            let Word::Column(place) = *word else { continue };
            let breaks =
                |row: &Vec<String>| row[place].bytes().any(|byte| byte < 0x20 || byte == 0x7f);
            if let Some(row) = self.rows.iter().position(breaks) {
                return Err(format!(
                    "row {} of the table holds a line break or control character in `{}`, which header `{name}` takes",
                    row + 1,
                    self.columns[place]
                ));
            }
        }
        Ok(())
    }
}

/// Holds the values of all words in one request.
#[derive(Debug, Clone, Copy)]
pub struct WordValues<'a> {
    /// Value of `{key}`.
    pub key: u64,
    /// Value of `{sequence}`.
    pub sequence: u64,
    /// Value of `{client}`.
    pub client: u32,
    /// Seed of `{random:N}`, together with the sequence.
    pub seed: u64,
    /// Current row of the table; empty if there is none.
    pub row: &'a [String],
}

/// Explains why a text is not a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// An unknown word; the hint lists the known ones.
    #[error("`{{{word}}}` stands for nothing")]
    Unknown {
        /// Word without braces.
        word: String,
        /// Suggested fix.
        hint: String,
    },
    /// `{random:N}` requests no characters, or too many.
    #[error("`{{{0}}}` must request 1 to {RANDOM_MAX} random characters")]
    RandomLength(String),
}

impl TemplateError {
    /// Returns the word with its braces.
    pub fn word(&self) -> String {
        let (Self::Unknown { word, .. } | Self::RandomLength(word)) = self;
        format!("{{{word}}}")
    }

    /// Returns how to fix it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown { hint, .. } => hint.clone(),
            Self::RandomLength(_) => "write `{random:8}`".to_owned(),
        }
    }
}

impl Template {
    /// Parses a text; `columns` are those of its table.
    ///
    /// # Errors
    /// Reports the first unknown word.
    pub fn parse(text: &str, columns: &[String]) -> Result<Self, TemplateError> {
        Self::scan(text, |_| true, |word| meaning(word, columns).map(Some))
    }

    /// Parses a text in which only `{sequence}`, `{client}`, `{random:8}` and these columns are words, and
    /// `{{client}}` is the text `{client}`. All else stays as it is. Unknown words are returned, too.
    pub fn parse_known(text: &str, columns: &[String]) -> (Self, Vec<String>) {
        let known = |word: &str| meaning(word, columns).ok().filter(|word| *word != Word::Key);
        let mut unknown = Vec::new();
        let scanned = Self::scan(
            text,
            |word| known(word).is_some(),
            |word| {
                let found = known(word);
                if found.is_none() {
                    unknown.push(format!("{{{word}}}"));
                }
                Ok::<_, Infallible>(found)
            },
        );
        let Ok(template) = scanned;
        (template, unknown)
    }

    /// Splits a text. `escapes` decides which words in double braces lose one pair. A word for which `read` returns
    /// `None` is text.
    fn scan<E>(
        text: &str,
        escapes: impl Fn(&str) -> bool,
        mut read: impl FnMut(&str) -> Result<Option<Word>, E>,
    ) -> Result<Self, E> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            let is_variable = rest[..at].ends_with('$');
            plain.push_str(&rest[..at]);
            rest = &rest[at..];
            let doubled = rest.strip_prefix('{').and_then(|inner| {
                let (word, after) = word_at(inner)?;
                Some((word, after.strip_prefix('}')?))
            });
            if let Some((word, after)) = doubled {
                let kept = if escapes(word) { 1 } else { 0 };
                plain.push_str(&rest[kept..word.len() + 4 - kept]);
                rest = after;
            } else if let Some((word, after)) = word_at(rest).filter(|_| !is_variable) {
                match read(word)? {
                    None => plain.push_str(&rest[..word.len() + 2]),
                    Some(meaning) => {
                        if !plain.is_empty() {
                            parts.push(Part::Text(std::mem::take(&mut plain)));
                        }
                        parts.push(Part::Word(meaning));
                    }
                }
                rest = after;
            } else {
                plain.push('{');
                rest = &rest[1..];
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { parts })
    }

    /// Returns a template that is fixed text, including all braces.
    pub fn verbatim(text: String) -> Self {
        Self { parts: vec![Part::Text(text)] }
    }

    /// Appends another template.
    pub fn append(&mut self, other: Self) {
        self.parts.extend(other.parts);
    }

    /// Returns the text if it has no words.
    pub fn plain(&self) -> Option<&str> {
        match &self.parts[..] {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns its words, in order.
    pub fn words(&self) -> impl Iterator<Item = &Word> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Word(word) => Some(word),
        })
    }

    /// Appends the text of one request. `salt` distinguishes the templates of one request, so that their random words
    /// differ. `escape` appends a value from a table.
    pub fn write(
        &self,
        values: &WordValues<'_>,
        salt: u64,
        escape: fn(&str, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        let mut random: Option<SplitMix64> = None;
        for part in &self.parts {
            // Writing to a vector cannot fail.
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Word(Word::Key) => drop(write!(out, "{}", values.key)),
                Part::Word(Word::Sequence) => drop(write!(out, "{}", values.sequence)),
                Part::Word(Word::Client) => drop(write!(out, "{}", values.client)),
                Part::Word(Word::Random(length)) => {
                    let seed = mix64(mix64(values.seed) ^ values.sequence);
                    let random =
                        random.get_or_insert_with(|| SplitMix64::seed_from_u64(seed ^ mix64(salt)));
                    let characters = (0..*length).map(|_| {
                        RANDOM_CHARACTERS[random.random_range(0..RANDOM_CHARACTERS.len())]
                    });
                    out.extend(characters);
                }
                Part::Word(Word::Column(place)) => escape(column(values.row, *place), out),
                Part::Word(Word::JsonColumn(place)) => {
                    escape(&json_content(column(values.row, *place)), out);
                }
                Part::Word(Word::GrpcColumn(place)) => {
                    out.extend(grpc_message(column(values.row, *place)).unwrap_or_default());
                }
            }
        }
    }
}

fn column(row: &[String], place: usize) -> &str {
    row.get(place).map_or("", String::as_str)
}

/// Returns a message of gRPC: a zero byte for "not compressed", four bytes for the length, and the content, which is
/// given in Base64.
fn grpc_message(base64: &str) -> Option<Vec<u8>> {
    let content = STANDARD.decode(base64.trim()).ok()?;
    let length = u32::try_from(content.len()).ok()?;
    Some([&[0], &length.to_be_bytes()[..], &content].concat())
}

/// Escapes a value for the inside of a JSON string (RFC 8259 section 7).
fn json_content(value: &str) -> Cow<'_, str> {
    if !value.bytes().any(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        return Cow::Borrowed(value);
    }
    let quoted = serde_json::Value::from(value).to_string();
    Cow::Owned(quoted[1..quoted.len() - 1].to_owned())
}

/// Appends a value unchanged.
pub fn verbatim(value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(value.as_bytes());
}

/// Appends a value for a path or query; bytes that are not unreserved (RFC 3986 section 2.3) are percent-encoded.
pub fn percent_encoded(value: &str, out: &mut Vec<u8>) {
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte),
            _ => drop(write!(out, "%{byte:02X}")), // writing to a vector cannot fail
        }
    }
}

/// Returns true if a name can stand in braces.
pub fn is_word(name: &str) -> bool {
    let of_words = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(of_words)
}

/// Splits a word, without its braces, off the start of a text.
fn word_at(text: &str) -> Option<(&str, &str)> {
    let (word, after) = text.strip_prefix('{')?.split_once('}')?;
    let (name, number) = word.split_once(':').unwrap_or((word, "0"));
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_word(name) && (is_number || number == JSON || number == GRPC)).then_some((word, after))
}

fn meaning(word: &str, columns: &[String]) -> Result<Word, TemplateError> {
    let place = |name: &str| columns.iter().position(|column| column == name);
    if let Some(place) = place(word) {
        return Ok(Word::Column(place));
    }
    match word.split_once(':') {
        Some((name, JSON)) => {
            if let Some(place) = place(name) {
                return Ok(Word::JsonColumn(place));
            }
        }
        Some((name, GRPC)) => {
            if let Some(place) = place(name) {
                return Ok(Word::GrpcColumn(place));
            }
        }
        None if word == "key" => return Ok(Word::Key),
        None if word == "sequence" => return Ok(Word::Sequence),
        None if word == "client" => return Ok(Word::Client),
        None if word == "random" => return Err(TemplateError::RandomLength(word.to_owned())),
        Some(("random", length)) => {
            let length = length.parse().ok().filter(|length| (1..=RANDOM_MAX).contains(length));
            return length
                .map(Word::Random)
                .ok_or_else(|| TemplateError::RandomLength(word.to_owned()));
        }
        _ => {}
    }
    let columns = columns.iter().map(|column| format!("{{{column}}}"));
    let known: Vec<String> = KNOWN.map(str::to_owned).into_iter().chain(columns).collect();
    let written = format!("{{{word}}}");
    let hint = suggest(&written, known.iter().map(String::as_str), "there are");
    let end = if hint.ends_with('?') { "" } else { ";" };
    let hint = format!("{hint}{end} `{{{written}}}` is the text itself");
    Err(TemplateError::Unknown { word: word.to_owned(), hint })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn columns() -> [String; 2] {
        ["user".to_owned(), "Home.Page".to_owned()]
    }

    fn written(text: &str) -> String {
        let row = ["a b".to_owned(), "ä/?".to_owned()];
        let values = WordValues { key: 7, sequence: 41, client: 3, seed: 1, row: &row };
        let mut out = Vec::new();
        Template::parse(text, &columns()).unwrap().write(&values, 0, percent_encoded, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn words_are_replaced_and_other_text_stays() {
        for (text, expected) in [
            ("/users/{key}?at={sequence}&by={client}", "/users/7?at=41&by=3"),
            ("{\"id\": {sequence}, \"of\": {\"a\": {}}}", "{\"id\": 41, \"of\": {\"a\": {}}}"),
            ("{{key}} ${key} {a b} { key } {key", "{key} ${key} {a b} { key } {key"),
            ("/{user}/{Home.Page}", "/a%20b/%C3%A4%2F%3F"),
            ("/{user:json}", "/a%20b"),
            ("", ""),
        ] {
            assert_eq!(written(text), expected, "{text}");
        }
    }

    #[test]
    fn random_words_have_their_length_and_depend_on_the_seed() {
        let text = "{random:8}-{random:8}";
        let made = written(text);
        let (one, other) = made.split_once('-').unwrap();
        assert_eq!((one.len(), other.len()), (8, 8));
        assert_ne!(one, other);
        assert_eq!(written(text), made);
    }

    #[test]
    fn unknown_word_is_rejected() {
        let rejected = |text: &str| {
            let error = Template::parse(text, &columns()).unwrap_err();
            format!("{error}; {}", error.hint())
        };
        let kye = rejected("/{kye}");
        assert!(kye.contains("`{kye}` stands for nothing"), "{kye}");
        assert!(kye.contains("did you mean `{key}`? `{{kye}}` is the text itself"), "{kye}");
        assert!(rejected("{usr}").contains("`{user}`"), "a column");
        assert!(rejected("{usr:json}").contains("`{usr:json}` stands for nothing"));
        assert!(rejected("{key:json}").contains("`{key:json}` stands for nothing"), "a number");
        for wrong in ["{random}", "{random:0}", "{random:65537}", "{random:99999999999999999999}"] {
            assert!(rejected(wrong).contains("1 to 65536 random characters"), "{wrong}");
        }
    }

    #[test]
    fn unknown_words_stay_text_if_allowed() {
        let check = |text: &str, expected: &str, unknown: &[&str]| {
            let (template, seen) = Template::parse_known(text, &["user".to_owned()]);
            let row = ["a\"b\\c\nä\u{1}".to_owned()];
            let values = WordValues { key: 7, sequence: 41, client: 3, seed: 1, row: &row };
            let mut out = Vec::new();
            template.write(&values, 0, verbatim, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{text}");
            assert_eq!(seen, unknown, "{text}");
        };
        check("/a/{sequence}?by={client}", "/a/41?by=3", &[]);
        check("/a/{{sequence}}/{{client}}", "/a/{sequence}/{client}", &[]);
        check("/a/{id}/{key}/{random}", "/a/{id}/{key}/{random}", &["{id}", "{key}", "{random}"]);
        // Braces of other languages pass unchanged.
        check("{{name}} ${client} { a {b: {sequence}} }", "{{name}} ${client} { a {b: 41} }", &[]);
        check("{{{client}}}", "{{client}}", &[]);
        check("{\"a\": \"{user:json}\"}", "{\"a\": \"a\\\"b\\\\c\\nä\\u0001\"}", &[]);
        check("{{user:json}} {usr:json}", "{user:json} {usr:json}", &["{usr:json}"]);
    }

    #[test]
    fn rows_are_taken_in_turn_and_line_breaks_in_headers_are_reported() {
        let rows = ["a", "b\n"].map(|value| vec![value.to_owned()]);
        let table = Table { columns: vec!["user".to_owned()], rows: rows.to_vec() };
        assert_eq!((table.row(0), table.row(3)), (&rows[0][..], &rows[1][..]));
        assert!(Table::default().row(3).is_empty());
        let header = |text: &str| {
            table.check_header("x-user", &Template::parse(text, &table.columns).unwrap())
        };
        let rejected = header("n {user}").unwrap_err();
        assert!(
            rejected.starts_with("row 2 of the table holds") && rejected.contains("`x-user`"),
            "{rejected}"
        );
        assert_eq!(header("{user:json} {client}"), Ok(()), "escaped");
    }

    #[test]
    fn message_of_a_row_is_framed_for_grpc_and_only_a_body_takes_it() {
        let rows = ["CgFr", "", "no Base64!"].map(|value| vec![value.to_owned()]);
        let mut table = Table { columns: vec!["message".to_owned()], rows: rows.to_vec() };
        let body = Template::parse("{message:grpc}", &table.columns).unwrap();
        let refused = table.check_body(&body).unwrap_err();
        assert_eq!(refused, "row 3 of the table holds a message in `message` that is not Base64");
        table.rows.pop();
        assert_eq!(table.check_body(&body), Ok(()));
        let written = |row| {
            let values =
                WordValues { key: 0, sequence: 0, client: 0, seed: 0, row: table.row(row) };
            let mut out = Vec::new();
            body.write(&values, 0, verbatim, &mut out);
            out
        };
        assert_eq!([written(0), written(1)], [b"\0\0\0\0\x03\x0a\x01k".to_vec(), vec![0; 5]]);
        let refused = table.check_header("x", &body).unwrap_err();
        assert_eq!(refused, "header `x` takes `{message:grpc}`, which only a body can hold");
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[{}$a-c:0-9key\\PC]{0,40}") {
            let (known, _) = Template::parse_known(&text, &columns());
            prop_assert_eq!(known.plain().is_some(), known.words().next().is_none());
            if let Ok(template) = Template::parse(&text, &columns()) {
                prop_assert_eq!(template.plain().is_some(), template.words().next().is_none());
            }
        }
    }
}
