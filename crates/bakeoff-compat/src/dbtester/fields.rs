//! Reads fields of a configuration's mappings as dbtester's YAML reader does.
//!
//! That reader silently ignores unknown fields. This one adds a note with the place. For example, all of dbtester's
//! own configurations write `snap_count` instead of `snapshot_count`.
//!
//! Not here: YAML itself (`bakeoff_core::study::read_yaml`), the meaning of the fields (`config`).

use std::ops::Range;

use bakeoff_core::study::{DiagnosticSink, Place, PlacedEntry, PlacedNode, PlacedValue, suggest};
use bakeoff_core::units::shown;

/// A value and its place in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedValue<T> {
    /// Parsed value.
    pub value: T,
    /// Range of the value in bytes, or of the mapping that lacks it.
    pub at: Range<usize>,
}

/// Collects diagnostics and notes on a file.
pub(super) struct Reporter<'a> {
    pub(super) sink: DiagnosticSink<'a>,
    pub(super) notes: Vec<String>,
    file: &'a str,
    text: &'a str,
}

impl<'a> Reporter<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Self { sink: DiagnosticSink::new(file, text), notes: Vec::new(), file, text }
    }

    pub(super) fn note(&mut self, at: &Range<usize>, what: &str) {
        let Place { line, column, .. } = Place::locate(self.file, self.text, at);
        self.notes.push(format!("{}:{line}:{column}: {what}", self.file));
    }
}

/// A mapping of a configuration.
#[derive(Debug, Clone)]
pub(super) struct Section<'a> {
    /// Range of its name.
    pub(super) at: Range<usize>,
    entries: &'a [PlacedEntry],
}

impl<'a> Section<'a> {
    /// Opens a node as a mapping. A null node is an empty mapping. Notes each field that is not in `known`.
    pub(super) fn open(
        reporter: &mut Reporter<'_>,
        name: impl Into<String>,
        at: &Range<usize>,
        node: &'a PlacedNode,
        known: &[&str],
    ) -> Self {
        let name = name.into();
        let entries: &[PlacedEntry] = match &node.value {
            PlacedValue::Map(entries) => entries,
            _ if node.is_null() => &[],
            _ => {
                let what = format!("{name} must be a mapping, not {}", node.seen("a mapping"));
                reporter.sink.hint(&node.at, what, format!("its fields: {}", known.join(", ")));
                &[]
            }
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            if reporter.notes.len() < NOTES_MAX {
                let hint = match entry.key.as_str() {
                    // dbtester's own configurations write this.
                    "snap_count" if known.contains(&"snapshot_count") => {
                        "did you mean `snapshot_count`?".to_owned()
                    }
                    key => suggest(key, known.iter().copied(), "known fields:"),
                };
                let what = format!(
                    "`{}` is not a field of {name} and is ignored, as in dbtester; {hint}",
                    shown(&entry.key)
                );
                reporter.note(&entry.key_at, &what);
            }
        }
        Self { at: at.clone(), entries }
    }

    /// Returns an empty section for a missing mapping.
    pub(super) fn absent() -> Self {
        Self { at: 0..0, entries: &[] }
    }

    /// Returns the field's entry, or `None` if it is missing or null.
    pub(super) fn entry(&self, name: &str) -> Option<&'a PlacedEntry> {
        self.entries.iter().find(|entry| entry.key == name && !entry.node.is_null())
    }

    /// Returns all fields, in the order of the file.
    pub(super) fn entries(&self) -> &'a [PlacedEntry] {
        self.entries
    }

    /// Returns the range of a field's value, or of the mapping's name if the field is missing.
    pub(super) fn place(&self, name: &str) -> Range<usize> {
        self.entry(name).map_or(&self.at, |entry| &entry.node.at).clone()
    }

    pub(super) fn section(
        &self,
        reporter: &mut Reporter<'_>,
        name: &str,
        known: &[&str],
    ) -> Section<'a> {
        match self.entry(name) {
            Some(entry) => {
                Section::open(reporter, format!("`{name}`"), &entry.key_at, &entry.node, known)
            }
            None => Section::absent(),
        }
    }

    /// Reads a text, or an empty one if the field is missing.
    pub(super) fn text(&self, reporter: &mut Reporter<'_>, name: &str) -> String {
        self.entry(name).and_then(|entry| text(reporter, name, &entry.node)).unwrap_or_default()
    }

    /// Reads a non-negative whole number, or 0 if the field is missing.
    pub(super) fn whole(&self, reporter: &mut Reporter<'_>, name: &str) -> u64 {
        self.entry(name).and_then(|entry| whole(reporter, name, &entry.node)).unwrap_or_default()
    }

    /// Reads a whole number with its place.
    pub(super) fn placed(&self, reporter: &mut Reporter<'_>, name: &str) -> LocatedValue<u64> {
        LocatedValue { value: self.whole(reporter, name), at: self.place(name) }
    }

    /// Reads a port. A missing field or 0 gives `default`.
    pub(super) fn port(&self, reporter: &mut Reporter<'_>, name: &str, default: u16) -> u16 {
        match self.whole(reporter, name) {
            0 => default,
            port => u16::try_from(port).unwrap_or_else(|_| {
                let at = self.place(name);
                reporter.sink.refuse(&at, name, "a port, 1 to 65535", &format!("`{port}`"));
                default
            }),
        }
    }

    /// Reads a flag, or false if the field is missing.
    pub(super) fn flag(&self, reporter: &mut Reporter<'_>, name: &str) -> bool {
        let Some(entry) = self.entry(name) else { return false };
        let read = match &entry.node.value {
            PlacedValue::Scalar { text, plain: true } => truth(text),
            _ => None,
        };
        read.unwrap_or_else(|| {
            reporter.sink.refuse(
                &entry.node.at,
                name,
                "`true` or `false`",
                &entry.node.seen("a mapping"),
            );
            false
        })
    }

    /// Reads the items of a list, or none if the field is missing.
    pub(super) fn list(&self, reporter: &mut Reporter<'_>, name: &str) -> &'a [PlacedNode] {
        let Some(entry) = self.entry(name) else { return &[] };
        match &entry.node.value {
            PlacedValue::List(items) => items,
            _ => {
                reporter.sink.refuse(&entry.node.at, name, "a list", &entry.node.seen("a mapping"));
                &[]
            }
        }
    }

    pub(super) fn texts(
        &self,
        reporter: &mut Reporter<'_>,
        name: &str,
    ) -> Vec<LocatedValue<String>> {
        let items = self.list(reporter, name).iter();
        let read = items.filter_map(|node| {
            Some(LocatedValue { value: text(reporter, name, node)?, at: node.at.clone() })
        });
        read.collect()
    }

    pub(super) fn numbers(
        &self,
        reporter: &mut Reporter<'_>,
        name: &str,
    ) -> Vec<LocatedValue<u64>> {
        let items = self.list(reporter, name).iter();
        let read = items.filter_map(|node| {
            Some(LocatedValue { value: whole(reporter, name, node)?, at: node.at.clone() })
        });
        read.collect()
    }
}

/// Most notes kept per file.
const NOTES_MAX: usize = 100;

/// Parses a truth value as YAML 1.1 does, which dbtester used.
fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

fn text(reporter: &mut Reporter<'_>, name: &str, node: &PlacedNode) -> Option<String> {
    let read = node.scalar().map(str::to_owned);
    if read.is_none() && !node.is_null() {
        reporter.sink.refuse(&node.at, name, "a text", &node.seen("a mapping"));
    }
    read
}

fn whole(reporter: &mut Reporter<'_>, name: &str, node: &PlacedNode) -> Option<u64> {
    let read = match &node.value {
        // YAML 1.1 accepts `1_000_000` as a number.
        PlacedValue::Scalar { text, plain: true } => {
            let digits = text.trim_start_matches('+').replace('_', "");
            digits.parse().ok().filter(|number: &u64| i64::try_from(*number).is_ok())
        }
        _ => None,
    };
    if read.is_none() {
        let wanted = "a whole number, 0 or more";
        reporter.sink.refuse(&node.at, name, wanted, &node.seen("a mapping"));
    }
    read
}
