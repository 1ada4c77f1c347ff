//! A fairness sheet as data: rows of typed facts with their weights.
//!
//! Not here: how the facts are found and weighed (`fairness`), how a sheet looks (`document`).

use serde::Serialize;

use super::{UNKNOWN, grouped};

/// Differences between the contenders of a run besides the product.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sheet {
    /// The contenders, in the study's order.
    pub systems: Vec<String>,
    /// The facts.
    pub rows: Vec<Row>,
    /// The differences that may decide the answer, in words: clauses without full stops.
    pub findings: Vec<String>,
}

/// One fact about all contenders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its label: `a write is acknowledged`.
    pub what: String,
    /// One for each system, in the sheet's order of systems.
    pub cells: Vec<Fact>,
    /// Whether the contenders differ in it, and how much that matters.
    pub weight: Weight,
}

/// Knowledge of one system in one row. JSON has its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum Fact {
    /// It is known, in these words.
    Known(String),
    /// Nobody says it.
    Unknown,
    /// It would have been measured, and was not.
    NotMeasured,
    /// The system does not run the workload that the row is about; documents show it as not measured.
    DoesNotRun,
}

/// How much a difference matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// There is none.
    Same,
    /// Nothing is known of it, for none of the contenders.
    Unknown,
    /// It ought to be known.
    Matters,
    /// It may decide the answer by itself.
    Decides,
}

impl Sheet {
    /// The rows in which the contenders differ, those that decide first.
    pub fn differing(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> =
            self.rows.iter().filter(|row| row.weight >= Weight::Matters).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.weight));
        rows
    }

    /// The rows in which they do not.
    pub fn same(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.weight == Weight::Same)
    }

    /// The rows of which nothing is known.
    pub fn unknown(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.weight == Weight::Unknown)
    }
}

impl Fact {
    /// Returns what is read of it.
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
    /// The systems by what they have in their cell, in the sheet's order, without those that the row is
    /// not about.
    pub fn groups<'a>(&'a self, systems: &'a [String]) -> Vec<(&'a str, Vec<&'a str>)> {
        let cells = systems.iter().map(String::as_str).zip(&self.cells);
        let about = cells.filter(|(_, cell)| **cell != Fact::DoesNotRun);
        grouped(about.map(|(name, cell)| (name, cell.text())))
    }
}
