//! The chain of a record's lines: each line but the first holds the SHA-256 of the line before it.
//!
//! Whoever changes, removes or inserts a line has to write all later lines anew. That shows only to somebody who
//! knows the hash of the last line, so that [`Links::head`] is what to publish with a figure.
//!
//! Not here: reading lines (`record`).

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{Complaint, RecordLine, write_line};

/// The field of a line that holds the hash of the line before.
const FIELD: &str = "previous_sha256";

/// The end of a record that grows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    last: Option<String>,
}

impl Chain {
    /// Goes on behind the lines of a record that are there, the last of which is whole.
    pub fn behind(text: &[u8]) -> Self {
        let last = text.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty());
        Self { last: last.map(sha256) }
    }

    /// Returns the next line as text with its newline, linked to the one before.
    pub fn link(&mut self, line: &RecordLine) -> String {
        let mut text = write_line(line);
        if let Some(previous) = &self.last {
            // A line is an object that has a field at least.
            text.truncate(text.trim_end().len() - 1);
            text.push_str(&format!(",\"{FIELD}\":\"{previous}\"}}\n"));
        }
        self.last = Some(sha256(text.trim_end().as_bytes()));
        text
    }
}

/// The state of a record's chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Links {
    /// Number of whole lines.
    pub lines: usize,
    /// Number of lines that hold a hash.
    pub linked: usize,
    /// The lines that hold another hash than that of the line before, and those without one after one that has it.
    pub broken: Vec<Complaint>,
    /// The SHA-256 of the last whole line, in hexadecimal; empty where there is none.
    pub head: String,
}

/// Checks the links of a record's lines.
pub fn check(text: &[u8]) -> Links {
    #[derive(Deserialize)]
    struct Link {
        #[serde(rename = "previous_sha256")]
        previous: Option<String>,
    }
    let mut links = Links { lines: 0, linked: 0, broken: Vec::new(), head: String::new() };
    let whole = text.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
    for (number, line) in (1..).zip(whole) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let previous = serde_json::from_slice(line).ok().and_then(|link: Link| link.previous);
        let mut broken = |what: &str| {
            links.broken.push(Complaint { line: number, what: what.to_owned() });
        };
        match &previous {
            Some(_) if number == 1 => broken("it is the first line and follows another"),
            Some(previous) if *previous != links.head => {
                broken("the line before it is not the one that it was written after");
            }
            None if links.linked > 0 => broken("it is not linked to the line before it"),
            _ => {}
        }
        links.linked += usize::from(previous.is_some());
        links.lines = number;
        links.head = sha256(line);
    }
    links
}

/// Returns the SHA-256 of bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{RunEnd, RunResumed};
    use super::*;

    fn resumed(by: &str) -> RecordLine {
        RecordLine::Resumed(RunResumed { resumed: String::new(), bakeoff: by.to_owned() })
    }

    fn record() -> Vec<String> {
        let mut chain = Chain::default();
        let mut lines: Vec<String> = ["a", "b", "c"].map(|by| chain.link(&resumed(by))).into();
        // Resumed by another process, which sees the file alone.
        let mut chain = Chain::behind(lines.concat().as_bytes());
        let end = RunEnd { ended: String::new(), complete: true };
        lines.push(chain.link(&RecordLine::End(end)));
        lines
    }

    fn broken(lines: &[String]) -> Vec<usize> {
        check(lines.concat().as_bytes()).broken.iter().map(|one| one.line).collect()
    }

    #[test]
    fn each_line_is_linked_to_the_one_before() {
        let lines = record();
        let links = check(lines.concat().as_bytes());
        assert_eq!((links.lines, links.linked, &links.broken[..]), (4, 3, &[][..]));
        assert_eq!(links.head, sha256(lines[3].trim_end().as_bytes()));
        for line in &lines {
            RecordLine::parse(line).unwrap();
        }
    }

    #[test]
    fn altered_removed_inserted_and_swapped_lines_break_it() {
        let lines = record();
        let mut altered = lines.clone();
        altered[1] = altered[1].replace("\"b\"", "\"x\"");
        assert_eq!(broken(&altered), [3]);
        assert_eq!(broken(&[&lines[..1], &lines[2..]].concat()), [2]);
        assert_eq!(broken(&lines[1..]), [1]);
        let unlinked = write_line(&resumed("x"));
        assert_eq!(broken(&[&lines[..2], &[unlinked], &lines[2..]].concat()), [3, 4]);
        let swapped = [0, 2, 1, 3].map(|place| lines[place].clone());
        assert_eq!(broken(&swapped), [2, 3, 4]);
    }

    #[test]
    fn record_of_a_time_without_links_has_none_and_is_not_broken() {
        let text = [write_line(&resumed("a")), write_line(&resumed("b"))].concat();
        let links = check(text.as_bytes());
        assert_eq!((links.lines, links.linked, links.broken.len()), (2, 0, 0));
        assert_eq!(check(b"").lines, 0);
        assert_eq!(check(b"torn").lines, 0);
        assert_eq!(check(b"\xff\n{}\n").lines, 2);
    }
}
