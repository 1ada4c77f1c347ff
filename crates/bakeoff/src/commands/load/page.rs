//! Lays out the lines and tables that `bakeoff load` prints, in colours if the terminal has them.
//!
//! Not here: the figures (`text`, `curve`).

use std::time::Duration;

use bakeoff_core::units::{figure_text, harmless, latency_text};
use bakeoff_report::Style;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";

/// Formats a share as a percentage: `4.2 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", figure_text(share * 100.0))
}

/// Formats a latency, or a dash for a missing one.
pub(super) fn latency(latency: Option<Duration>) -> String {
    latency.map_or_else(|| "–".to_owned(), latency_text)
}

/// Formats a rate without its unit, or a dash for a missing one.
pub(super) fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), figure_text)
}

/// Output text, built line by line.
pub(super) struct Page {
    pub(super) style: Style,
    pub(super) text: String,
}

impl Page {
    pub(super) fn gap(&mut self) {
        self.text.push('\n');
    }

    /// Adds prose, wrapped at the terminal's width.
    pub(super) fn line(&mut self, code: Option<&str>, line: &str) {
        let width = self.style.width.map_or(usize::MAX, |width| usize::from(width.max(20)));
        let indent = line.len() - line.trim_start().len();
        let (mut row, mut any_word) = (" ".repeat(indent), false);
        for word in line.split_whitespace() {
            if any_word && row.chars().count() + 1 + word.chars().count() > width {
                self.row(code, &row);
                (row, any_word) = (" ".repeat(indent + 2), false);
            }
            if any_word {
                row.push(' ');
            }
            row.push_str(word);
            any_word = true;
        }
        self.row(code, &row);
    }

    /// Adds one line without wrapping, with control characters replaced. `code` colours it if the style has colours.
    pub(super) fn row(&mut self, code: Option<&str>, row: &str) {
        let row = harmless(row);
        match code.filter(|_| self.style.colour) {
            Some(code) => self.text.push_str(&format!("\x1b[{code}m{row}\x1b[0m\n")),
            None => self.text.push_str(&format!("{row}\n")),
        }
    }

    pub(super) fn bold(&mut self, line: &str) {
        self.line(Some(BOLD), line);
    }

    pub(super) fn dim(&mut self, line: &str) {
        self.line(Some(DIM), line);
    }

    pub(super) fn alarm(&mut self, line: &str) {
        self.line(Some(RED), line);
    }

    /// Adds a red line without wrapping, so that its columns stay aligned.
    pub(super) fn alarm_row(&mut self, row: &str) {
        self.row(Some(RED), row);
    }

    pub(super) fn good(&mut self, line: &str) {
        self.line(Some(GREEN), line);
    }

    /// Adds a table whose first row is the head. The first column is left-aligned, the others are right-aligned.
    pub(super) fn table(&mut self, rows: &[Vec<String>]) {
        let columns = rows.first().map_or(0, Vec::len);
        let wide = |column: usize| {
            rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(wide).collect();
        for (number, row) in rows.iter().enumerate() {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let pad = " ".repeat(width - cell.chars().count());
                match column {
                    0 => line.push_str(&format!("{cell}{pad}")),
                    _ => line.push_str(&format!("  {pad}{cell}")),
                }
            }
            self.row((number == 0).then_some(DIM), line.trim_end());
        }
    }
}

/// Returns the first row of a table.
pub(super) fn head<'a>(corner: &'a str, heads: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    std::iter::once(corner).chain(heads).map(str::to_owned).collect()
}
