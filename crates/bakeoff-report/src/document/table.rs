//! A table of typed cells: what stands in it is known by its type, not by its words.
//!
//! Columns that belong together (a system's, its own and the published) form a group, so that a
//! narrow terminal can break between groups.
//!
//! Not here: which tables there are (`tables`, `matrix`), how they are drawn (`render`).

use std::borrow::Cow;
use std::fmt;

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// Names it, where the section's heading does not.
    pub(crate) title: Option<String>,
    /// Heading of the first column.
    pub(crate) corner: String,
    /// Labels of the rows.
    pub(crate) labels: Vec<String>,
    /// The other columns.
    pub(crate) groups: Vec<Vec<Column>>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    /// One or more lines.
    pub(crate) head: Vec<String>,
    /// As many as the table has rows.
    pub(crate) cells: Vec<Cell>,
}

/// A cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    /// A figure or words.
    Text(String),
    /// The figure that is proven better than all others of its row.
    Best(String),
    /// A figure of a system that is left out of the ranking.
    NotRanked(String),
    /// No trial may be used.
    NotValid,
    /// An audit failed.
    Failed,
    /// No system is proven better than all others.
    NotShown,
    /// Nothing was compared: too few trials, or fewer than two systems.
    NotJudged,
    /// The system does not run this workload.
    NotMeasured,
    /// No trial was run yet.
    NotRun,
    /// There is nothing to show.
    Missing,
}

/// How a text is to stand out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Strong,
    Faint,
    Alarm,
}

impl Cell {
    /// Returns what is read in it, without what marks it.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) | Self::NotRanked(text) => text.into(),
            Self::Best(text) => format!("{text} *").into(),
            Self::NotValid => "not valid".into(),
            Self::Failed => "FAILED".into(),
            Self::NotShown => "not shown".into(),
            Self::NotJudged => "not judged".into(),
            Self::NotMeasured => "not measured".into(),
            Self::NotRun => "not run".into(),
            Self::Missing => "–".into(),
        }
    }

    /// Returns how it stands out.
    pub(crate) fn tone(&self) -> Tone {
        match self {
            Self::Text(_) | Self::Missing => Tone::Plain,
            Self::Best(_) => Tone::Strong,
            Self::NotValid | Self::Failed | Self::NotRanked(_) => Tone::Alarm,
            Self::NotShown | Self::NotJudged | Self::NotMeasured | Self::NotRun => Tone::Faint,
        }
    }

    /// Returns the figure in it, if there is one.
    pub(crate) fn figure(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Best(text) | Self::NotRanked(text) => Some(text),
            _ => None,
        }
    }

    /// Makes a cell of a text that may be missing.
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
