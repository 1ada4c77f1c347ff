//! A fairness sheet as data: rows of typed facts with their weights.
//!
//! Not here: finding and weighing facts (`fairness`), appearance (`document`).

use serde::Serialize;

use super::{UNKNOWN, grouped};

/// Differences between the systems of a run besides the product.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sheet {
    /// Names of the systems, in the study's order.
    pub systems: Vec<String>,
    /// Facts, one row each.
    pub rows: Vec<Row>,
    /// Differences that may decide the result, as clauses without full stops.
    pub findings: Vec<String>,
}

/// One fact about all systems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Row {
    /// Label: `a write is acknowledged`.
    pub what: String,
    /// One cell per system, in the order of `systems`.
    pub cells: Vec<Fact>,
    /// Difference between the systems, and its weight.
    pub weight: Weight,
}

/// A fact about one system. JSON holds its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(into = "String")]
pub enum Fact {
    /// Known, in this text.
    Known(String),
    /// Unknown.
    Unknown,
    /// It could have been measured but was not.
    NotMeasured,
    /// The system does not run the row's workload. Documents show it as not measured.
    DoesNotRun,
}

/// Weight of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// No difference.
    Same,
    /// Unknown for all systems.
    Unknown,
    /// A difference that readers should know.
    Matters,
    /// A difference that may decide the result by itself.
    Decides,
}

impl Sheet {
    /// Returns the rows with differences, deciding ones first.
    pub fn differing(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> =
            self.rows.iter().filter(|row| row.weight >= Weight::Matters).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.weight));
        rows
    }

    /// Returns the rows without differences.
    pub fn same(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.weight == Weight::Same)
    }

    /// Returns the rows about which nothing is known.
    pub fn unknown(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.weight == Weight::Unknown)
    }
}

impl Fact {
    /// Returns the text of the cell.
    pub fn text(&self) -> &str {
        match self {
            Self::Known(text) => text,
            Self::Unknown => UNKNOWN,
            Self::NotMeasured => "not measured",
            Self::DoesNotRun => "does not run it",
        }
    }
}

impl From<Fact> for String {
    fn from(fact: Fact) -> Self {
        fact.text().to_owned()
    }
}

impl From<String> for Fact {
    fn from(text: String) -> Self {
        Self::Known(text)
    }
}

impl Row {
    /// Groups the systems by the text of their cell, in the sheet's order. Leaves out systems that do not run the
    /// workload.
    pub fn groups<'a>(&'a self, systems: &'a [String]) -> Vec<(&'a str, Vec<&'a str>)> {
        let cells = systems.iter().map(String::as_str).zip(&self.cells);
        let about = cells.filter(|(_, cell)| **cell != Fact::DoesNotRun);
        grouped(about.map(|(name, cell)| (name, cell.text())))
    }
}
