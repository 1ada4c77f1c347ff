//! Chains a record's lines: each line after the first holds the SHA-256 of the previous line.
//!
//! Changing, removing or inserting a line requires rewriting all later lines. That is visible only to someone who
//! knows the hash of the last line, so publish [`Links::head`] with a figure.
//!
//! Not here: parsing lines (`record`).

use serde::Deserialize;

use super::origin::OriginKey;
use super::{Complaint, RecordLine, write_line};
use crate::digest::sha256;

/// Field of a line that holds the hash of the previous line.
const FIELD: &str = "previous_sha256";

/// Links new lines to the end of a record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    last: Option<String>,
    /// Marks each line; `None` leaves lines without a mark.
    key: Option<OriginKey>,
}

impl Chain {
    /// Begins a record.
    pub fn new(key: Option<OriginKey>) -> Self {
        Self { last: None, key }
    }

    /// Continues after the existing lines of a record. The last line must be complete.
    pub fn behind(text: &[u8], key: Option<OriginKey>) -> Self {
        let last = text.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty());
        Self { last: last.map(sha256), key }
    }

    /// Formats the next line with its newline, linked to the previous one.
    pub fn link(&mut self, line: &RecordLine) -> String {
        self.link_text(write_line(line))
    }

    /// Links a line that [`write_line`] formatted.
    pub fn link_text(&mut self, mut text: String) -> String {
        text.truncate(text.trim_end().len());
        if let Some(previous) = &self.last {
            // A line is an object with at least one field.
            text.truncate(text.len() - 1);
            text.push_str(&format!(",\"{FIELD}\":\"{previous}\"}}"));
        }
        if let Some(key) = &self.key {
            key.mark(&mut text);
        }
        self.last = Some(sha256(text.as_bytes()));
        text.push('\n');
        text
    }
}

/// Describes the state of a record's chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Links {
    /// Number of complete lines.
    pub lines: usize,
    /// Lines whose hash does not match the previous line, and lines after the first without a hash.
    pub broken: Vec<Complaint>,
    /// SHA-256 of the last complete line, in hexadecimal; empty if there is none.
    pub head: String,
}

/// Checks the links of a record's lines.
pub fn check(text: &[u8]) -> Links {
    #[derive(Deserialize)]
    struct Link {
        #[serde(rename = "previous_sha256")]
        previous: Option<String>,
    }
    let mut links = Links { lines: 0, broken: Vec::new(), head: String::new() };
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
            None if number > 1 => broken("it is not linked to the line before it"),
            _ => {}
        }
        links.lines = number;
        links.head = sha256(line);
    }
    links
}

impl OriginKey {
    /// Returns true if this key marked the last complete line of a record, and every line is linked to the one before.
    pub fn vouches_for(&self, record: &[u8]) -> bool {
        let links = check(record);
        let is_linked = links.broken.is_empty();
        let whole = record.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last);
        let last = record[..whole].rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        is_linked && self.marked(last)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RunEnd, RunResumed};
    use super::*;

    fn resumed(by: &str) -> RecordLine {
        RecordLine::Resumed(RunResumed {
            resumed: String::new(),
            bakeoff: by.to_owned(),
            environment: Box::default(),
        })
    }

    fn record() -> Vec<String> {
        let mut chain = Chain::default();
        let mut lines: Vec<String> = ["a", "b", "c"].map(|by| chain.link(&resumed(by))).into();
        // Resumed by another process, which only has the file.
        let mut chain = Chain::behind(lines.concat().as_bytes(), None);
        let end = RunEnd { ended: String::new(), complete: true, answered_after: None };
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
        assert_eq!((links.lines, &links.broken[..]), (4, &[][..]));
        assert_eq!(links.head, sha256(lines[3].trim_end().as_bytes()));
        for line in &lines {
            RecordLine::parse(line).unwrap();
        }
    }

    #[test]
    fn altered_removed_inserted_and_swapped_lines_break_the_chain() {
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
    fn record_without_links_is_broken_from_its_second_line_on() {
        let lines = ["a", "b", "c"].map(|by| write_line(&resumed(by)));
        assert_eq!(broken(&lines), [2, 3]);
        assert_eq!(check(b"").lines, 0);
        assert_eq!(check(b"torn").lines, 0);
        assert_eq!(check(b"\xff\n{}\n").lines, 2);
    }
}
