//! Describes faults of a study: the problem, its place, and a hint.
//!
//! A diagnostic shows its line, so a reader need not open the file. Text from the file reaches a terminal, so it is
//! cut and its control characters are replaced.
//!
//! Not here: finding faults (`parse`), printing them (the binary's `messages`).

use std::fmt;
use std::ops::Range;

use crate::secrets;

/// Maximum characters shown of a source line.
const SHOWN_WIDTH: usize = 100;
/// Characters shown before the fault in a longer line.
const SHOWN_BEFORE: usize = 40;

/// Describes one fault of a study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Problem: `` unknown field `clinets` in load `sweep` ``.
    pub what: String,
    /// Place in a file; `None` if there is no single place.
    pub place: Option<Place>,
    /// Suggested fix.
    pub hint: Option<String>,
}

/// Locates a part of a study's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// File name as the user knows it.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Text of the line, or the part around the place.
    pub source: String,
    /// Start of the caret in `source`, in characters from 0.
    pub indent: usize,
    /// Number of marked characters; at least 1.
    pub width: usize,
}

/// Lists all faults of a study in the order of its lines; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Place {
    /// Locates the bytes `range` of `text`.
    pub fn locate(file: &str, text: &str, range: &Range<usize>) -> Place {
        let start = floor_boundary(text, range.start);
        let end = floor_boundary(text, range.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let number = text[..line_start].bytes().filter(|byte| *byte == b'\n').count() + 1;
        let before = text[line_start..start].chars().count();
        let width = text[start..end.min(line_end)].trim_end().chars().count().max(1);
        let whole = text[line_start..line_end].trim_end().chars().count() <= SHOWN_WIDTH;
        let skipped = if whole { 0 } else { before.saturating_sub(SHOWN_BEFORE) };
        let line = secrets::without_passwords(&text[line_start..line_end]);
        let source: String =
            line.trim_end().chars().skip(skipped).take(SHOWN_WIDTH).map(harmless).collect();
        let indent = before - skipped;
        let width = width.min(SHOWN_WIDTH.saturating_sub(indent)).max(1);
        Place { file: file.to_owned(), line: number, column: before + 1, source, indent, width }
    }

    /// Replaces the marked text by stars, because it is a secret.
    pub(super) fn hidden(mut self) -> Place {
        let meant = self.indent..self.indent + self.width;
        let star = |(place, c): (usize, char)| if meant.contains(&place) { '*' } else { c };
        self.source = self.source.chars().enumerate().map(star).collect();
        self
    }
}

fn floor_boundary(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Replaces a character by one character, so that carets stay aligned.
fn harmless(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        // These characters reorder a line on the terminal.
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c => c,
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "error: {}", secrets::without_passwords(&self.what))?;
        if let Some(place) = &self.place {
            let number = place.line.to_string();
            let gutter = " ".repeat(number.len());
            write!(to, "\n{gutter}--> {}:{}:{}", place.file, place.line, place.column)?;
            write!(to, "\n{gutter} |\n{number} | {}", place.source)?;
            write!(to, "\n{gutter} | {}{}", " ".repeat(place.indent), "^".repeat(place.width))?;
        }
        if let Some(hint) = &self.hint {
            write!(to, "\nhint: {}", secrets::without_passwords(hint))?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

impl fmt::Display for Diagnostics {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().enumerate() {
            if index > 0 {
                to.write_str("\n\n")?;
            }
            diagnostic.fmt(to)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Diagnostics {
        Diagnostics(vec![diagnostic])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, range: Range<usize>, expected: &str) {
        let place = Some(Place::locate("my.yaml", text, &range));
        let diagnostic = Diagnostic { what: "no".to_owned(), place, hint: Some("yes".to_owned()) };
        assert_eq!(diagnostic.to_string(), expected);
    }

    #[test]
    fn diagnostic_shows_its_line_and_a_caret() {
        check(
            "a: 1\nb: two\n",
            8..11,
            "error: no\n --> my.yaml:2:4\n  |\n2 | b: two\n  |    ^^^\nhint: yes",
        );
    }

    #[test]
    fn end_of_a_file_is_a_place() {
        check("", 0..0, "error: no\n --> my.yaml:1:1\n  |\n1 | \n  | ^\nhint: yes");
        check("a", 9..9, "error: no\n --> my.yaml:1:2\n  |\n1 | a\n  |  ^\nhint: yes");
    }

    #[test]
    fn place_of_many_lines_shows_the_first() {
        check(
            "a:\n  b: 1\n  c: 2\n",
            5..16,
            "error: no\n --> my.yaml:2:3\n  |\n2 |   b: 1\n  |   ^^^^\nhint: yes",
        );
    }

    #[test]
    fn terminal_control_in_a_study_is_replaced() {
        check(
            "\ta: \u{1b}[31m",
            4..5,
            "error: no\n --> my.yaml:1:5\n  |\n1 |  a: \u{fffd}[31m\n  |     ^\nhint: yes",
        );
    }

    #[test]
    fn passwords_in_addresses_are_not_shown() {
        let text = "endpoints: [http://root:pa@ss@h:1, b:c@d]";
        let place = Some(Place::locate("f", text, &(12..33)));
        let what = "`http://root:pa@ss@h:1` is no endpoint".to_owned();
        let shown = Diagnostic { what, place, hint: Some("root:x@y".to_owned()) }.to_string();
        assert_eq!(
            shown,
            "error: `http://root:*****@h:1` is no endpoint\n --> f:1:13\n  |\n1 | endpoints: \
             [http://root:*****@h:1, b:*@d]\n  |             ^^^^^^^^^^^^^^^^^^^^^\nhint: root:*@y"
        );
    }

    #[test]
    fn long_line_is_cut_around_the_diagnostic() {
        let text = format!("{}x{}", "a".repeat(5000), "b".repeat(5000));
        let place = Place::locate("f", &text, &(5000..5001));
        assert_eq!((place.column, place.indent, place.width), (5001, SHOWN_BEFORE, 1));
        assert_eq!(place.source.chars().count(), SHOWN_WIDTH);
        assert_eq!(place.source.chars().nth(place.indent), Some('x'));
    }
}
