//! Takes fields out of a configuration's mappings as dbtester's YAML reader does.
//!
//! That reader ignores a field that it does not know, whatever the field was meant to be. Here such a field is noted
//! with its place: `snap_count` stands for `snapshot_count` in every configuration of dbtester's own.
//!
//! Not here: YAML itself (`bakeoff_core::study::read_yaml`), what the fields mean (`config`).

use std::ops::Range;

use bakeoff_core::study::{DiagnosticSink, Place, PlacedEntry, PlacedNode, PlacedValue, suggest};
use bakeoff_core::units::shown;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Bytes of the configuration's text: of the value, or of what should hold it.
    pub at: Range<usize>,
}

/// Collects what is wrong with a file and what is only worth a note.
pub(super) struct Told<'a> {
    pub(super) sink: DiagnosticSink<'a>,
    pub(super) notes: Vec<String>,
    file: &'a str,
    text: &'a str,
}

impl<'a> Told<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Self { sink: DiagnosticSink::new(file, text), notes: Vec::new(), file, text }
    }

    /// Adds a note on a place.
    pub(super) fn note(&mut self, at: &Range<usize>, what: &str) {
        let Place { line, column, .. } = Place::locate(self.file, self.text, at);
        self.notes.push(format!("{}:{line}:{column}: {what}", self.file));
    }
}

/// A mapping of a configuration.
#[derive(Debug, Clone)]
pub(super) struct Section<'a> {
    /// Where it is named.
    pub(super) at: Range<usize>,
    entries: &'a [PlacedEntry],
}

impl<'a> Section<'a> {
    /// Takes a node for a mapping; nothing there is an empty one. Notes fields that are not `known`.
    pub(super) fn open(
        told: &mut Told<'_>,
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
                told.sink.hint(&node.at, what, format!("its fields: {}", known.join(", ")));
                &[]
            }
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            if told.notes.len() < NOTES_MAX {
                let hint = match entry.key.as_str() {
                    // dbtester's own configurations have it so.
                    "snap_count" if known.contains(&"snapshot_count") => {
                        "did you mean `snapshot_count`?".to_owned()
                    }
                    key => suggest(key, known.iter().copied(), "known fields:"),
                };
                let what = format!(
                    "`{}` is no field of {name}, and is ignored, as dbtester did; {hint}",
                    shown(&entry.key)
                );
                told.note(&entry.key_at, &what);
            }
        }
        Self { at: at.clone(), entries }
    }

    /// A mapping that is not there.
    pub(super) fn absent() -> Self {
        Self { at: 0..0, entries: &[] }
    }

    /// Returns the field's entry, if it is there and holds something.
    pub(super) fn entry(&self, name: &str) -> Option<&'a PlacedEntry> {
        self.entries.iter().find(|entry| entry.key == name && !entry.node.is_null())
    }

    /// Returns its fields, in the order of the file.
    pub(super) fn entries(&self) -> &'a [PlacedEntry] {
        self.entries
    }

    /// Returns where a field's value stands, or where the mapping is named.
    pub(super) fn place(&self, name: &str) -> Range<usize> {
        self.entry(name).map_or(&self.at, |entry| &entry.node.at).clone()
    }

    /// Opens the mapping in a field.
    pub(super) fn section(&self, told: &mut Told<'_>, name: &str, known: &[&str]) -> Section<'a> {
        match self.entry(name) {
            Some(entry) => {
                Section::open(told, format!("`{name}`"), &entry.key_at, &entry.node, known)
            }
            None => Section::absent(),
        }
    }

    /// Reads a text; one that is not there is empty.
    pub(super) fn text(&self, told: &mut Told<'_>, name: &str) -> String {
        self.entry(name).and_then(|entry| text(told, name, &entry.node)).unwrap_or_default()
    }

    /// Reads a whole number that is not negative; one that is not there is 0.
    pub(super) fn whole(&self, told: &mut Told<'_>, name: &str) -> u64 {
        self.entry(name).and_then(|entry| whole(told, name, &entry.node)).unwrap_or_default()
    }

    /// Reads a whole number together with its place.
    pub(super) fn placed(&self, told: &mut Told<'_>, name: &str) -> Located<u64> {
        Located { value: self.whole(told, name), at: self.place(name) }
    }

    /// Reads a port; one that is not there is `default`.
    pub(super) fn port(&self, told: &mut Told<'_>, name: &str, default: u16) -> u16 {
        match self.whole(told, name) {
            0 => default,
            port => u16::try_from(port).unwrap_or_else(|_| {
                let at = self.place(name);
                told.sink.refuse(&at, name, "a port, 1 to 65535", &format!("`{port}`"));
                default
            }),
        }
    }

    /// Reads a flag; one that is not there is false.
    pub(super) fn flag(&self, told: &mut Told<'_>, name: &str) -> bool {
        let Some(entry) = self.entry(name) else { return false };
        let read = match &entry.node.value {
            PlacedValue::Scalar { text, plain: true } => truth(text),
            _ => None,
        };
        read.unwrap_or_else(|| {
            told.sink.refuse(
                &entry.node.at,
                name,
                "`true` or `false`",
                &entry.node.seen("a mapping"),
            );
            false
        })
    }

    /// Reads the items of a list; one that is not there is empty.
    pub(super) fn list(&self, told: &mut Told<'_>, name: &str) -> &'a [PlacedNode] {
        let Some(entry) = self.entry(name) else { return &[] };
        match &entry.node.value {
            PlacedValue::List(items) => items,
            _ => {
                told.sink.refuse(&entry.node.at, name, "a list", &entry.node.seen("a mapping"));
                &[]
            }
        }
    }

    /// Reads a list of texts.
    pub(super) fn texts(&self, told: &mut Told<'_>, name: &str) -> Vec<Located<String>> {
        let items = self.list(told, name).iter();
        let read = items.filter_map(|node| {
            Some(Located { value: text(told, name, node)?, at: node.at.clone() })
        });
        read.collect()
    }

    /// Reads a list of whole numbers.
    pub(super) fn numbers(&self, told: &mut Told<'_>, name: &str) -> Vec<Located<u64>> {
        let items = self.list(told, name).iter();
        let read = items.filter_map(|node| {
            Some(Located { value: whole(told, name, node)?, at: node.at.clone() })
        });
        read.collect()
    }
}

/// More notes than this are not worth reading.
const NOTES_MAX: usize = 100;

/// Reads what YAML 1.1, which dbtester read, takes for a truth value.
fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

fn text(told: &mut Told<'_>, name: &str, node: &PlacedNode) -> Option<String> {
    let read = node.scalar().map(str::to_owned);
    if read.is_none() && !node.is_null() {
        told.sink.refuse(&node.at, name, "a text", &node.seen("a mapping"));
    }
    read
}

fn whole(told: &mut Told<'_>, name: &str, node: &PlacedNode) -> Option<u64> {
    let read = match &node.value {
        // `1_000_000` is a number of YAML 1.1.
        PlacedValue::Scalar { text, plain: true } => {
            let digits = text.trim_start_matches('+').replace('_', "");
            digits.parse().ok().filter(|number: &u64| i64::try_from(*number).is_ok())
        }
        _ => None,
    };
    if read.is_none() {
        let wanted = "a whole number, 0 or more";
        told.sink.refuse(&node.at, name, wanted, &node.seen("a mapping"));
    }
    read
}
