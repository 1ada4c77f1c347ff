//! A table of typed cells, whose meaning is in the type and not in the text.
//!
//! Columns that belong together form a group, such as a system's measured and published figures. A narrow terminal
//! breaks between groups.
//!
//! Not here: the choice of tables (`tables`, `matrix`), drawing (`render`).

use std::borrow::Cow;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// Title, if the section's heading is not enough.
    pub(crate) title: Option<String>,
    /// Heading of the first column.
    pub(crate) corner: String,
    pub(crate) labels: Vec<String>,
    /// All columns after the labels.
    pub(crate) groups: Vec<Vec<Column>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    /// Heading in one or more lines.
    pub(crate) head: Vec<String>,
    /// One cell per row of the table.
    pub(crate) cells: Vec<Cell>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Figure or text.
    Text(String),
    /// Figure that is proven better than all others of its row.
    Best(String),
    /// Figure of a system that is left out of the ranking.
    NotRanked(String),
    /// No valid trial.
    NotValid,
    /// An audit failed.
    Failed,
    /// The system does not run this workload.
    NotMeasured,
    /// No trial ran yet.
    NotRun,
    /// No value.
    Missing,
}

/// Emphasis of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Strong,
    Faint,
    Alarm,
}

impl Cell {
    /// Returns the cell's text without markup.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) | Self::NotRanked(text) => text.into(),
            Self::Best(text) => format!("{text} *").into(),
            Self::NotValid => "not valid".into(),
            Self::Failed => "FAILED".into(),
            Self::NotMeasured => "not measured".into(),
            Self::NotRun => "not run".into(),
            Self::Missing => "–".into(),
        }
    }

    /// Returns the cell's emphasis.
    pub(crate) fn tone(&self) -> Tone {
        match self {
            Self::Text(_) | Self::Missing => Tone::Plain,
            Self::Best(_) => Tone::Strong,
            Self::NotValid | Self::Failed | Self::NotRanked(_) => Tone::Alarm,
            Self::NotMeasured | Self::NotRun => Tone::Faint,
        }
    }

    /// Returns the figure of the cell, if it has one.
    pub(crate) fn figure(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Best(text) | Self::NotRanked(text) => Some(text),
            _ => None,
        }
    }

    /// Creates a cell from an optional text.
    pub(crate) fn or_missing(text: Option<String>) -> Self {
        text.map_or(Self::Missing, Self::Text)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
