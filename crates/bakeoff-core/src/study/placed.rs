//! Holds values with their position in a file, and collects diagnostics that show it.
//!
//! Studies (YAML) and other tools' files (HCL) are parsed into the same tree, and their faults are reported in the
//! same words.
//!
//! Not here: parsing YAML (`tree`), fields with their bounds (`reading`).

use std::borrow::Cow;
use std::ops::Range;

use super::diagnostic::{Diagnostic, Diagnostics, Place};
use crate::units::shown;

/// Maximum number of diagnostics.
const DIAGNOSTICS_MAX: usize = 100;

/// Byte range of the text.
pub type ByteRange = Range<usize>;

/// Holds a value and its position.
#[derive(Debug, Clone)]
pub struct PlacedNode {
    /// Position in the text.
    pub at: ByteRange,
    /// Value at this position.
    pub value: PlacedValue,
    /// Weight in bytes of text and nodes, limited by `tree`.
    pub(super) weight: usize,
    pub(super) height: usize,
}

impl PlacedNode {
    /// Creates a node from a position and a value.
    pub fn new(at: ByteRange, value: PlacedValue) -> PlacedNode {
        PlacedNode { at, value, weight: 0, height: 0 }
    }

    /// Describes the value for a message; `mapping` is the format's word for one.
    pub fn seen(&self, mapping: &str) -> String {
        match &self.value {
            PlacedValue::List(_) => "a list".to_owned(),
            PlacedValue::Map(_) => mapping.to_owned(),
            PlacedValue::Scalar { .. } if self.is_null() => "nothing".to_owned(),
            PlacedValue::Scalar { text, plain: true } => format!("`{}`", shown(text)),
            PlacedValue::Scalar { text, plain: false } => format!("the text `\"{}\"`", shown(text)),
        }
    }

    /// Returns true for an empty or null value.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, PlacedValue::Scalar { text, plain: true } if is_null(text))
    }

    /// Returns the text, number or flag as written; `None` for collections and null.
    pub fn scalar(&self) -> Option<&str> {
        match &self.value {
            PlacedValue::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// Returns an unquoted flag.
    pub fn flag(&self) -> Option<bool> {
        match &self.value {
            PlacedValue::Scalar { text, plain: true } => text.parse().ok(),
            _ => None,
        }
    }

    /// Creates a node for a text outside of any file, such as a default.
    pub(super) fn plain(text: &str) -> PlacedNode {
        let value = PlacedValue::Scalar { text: text.to_owned(), plain: true };
        PlacedNode { at: 0..0, value, weight: 0, height: 0 }
    }

    /// Returns the value of a mapping's entry.
    pub(super) fn entry(&self, name: &str) -> Option<&PlacedNode> {
        let PlacedValue::Map(entries) = &self.value else { return None };
        entries.iter().find(|entry| entry.key == name).map(|entry| &entry.node)
    }

    /// Returns the mapping with the entries of another one, which replace those of the same name.
    pub(super) fn with(&self, other: &PlacedNode) -> PlacedNode {
        let (PlacedValue::Map(own), PlacedValue::Map(others)) = (&self.value, &other.value) else {
            return self.clone();
        };
        let is_replaced = |entry: &PlacedEntry| others.iter().any(|one| one.key == entry.key);
        let kept = own.iter().filter(|entry| !is_replaced(entry));
        self.holding(PlacedValue::Map(kept.chain(others).cloned().collect()))
    }

    /// Returns true for a list or mapping without entries.
    pub(super) fn is_empty(&self) -> bool {
        match &self.value {
            PlacedValue::List(items) => items.is_empty(),
            PlacedValue::Map(entries) => entries.is_empty(),
            PlacedValue::Scalar { .. } => false,
        }
    }

    /// Replaces the value, keeping the position.
    pub(super) fn holding(&self, value: PlacedValue) -> PlacedNode {
        PlacedNode { at: self.at.clone(), value, weight: self.weight, height: self.height }
    }
}

/// Holds a value of any format.
#[derive(Debug, Clone)]
pub enum PlacedValue {
    /// Text, number, flag or null.
    Scalar {
        /// Text as written, without quotes.
        text: String,
        /// True if it has no quotes, so it may be a number.
        plain: bool,
    },
    /// List: `[a, b]`.
    List(Vec<PlacedNode>),
    /// Mapping: `{a: b}`, in the order of the file, every key once.
    Map(Vec<PlacedEntry>),
}

/// Holds one `key: value` of a mapping.
#[derive(Debug, Clone)]
pub struct PlacedEntry {
    /// Name of the entry.
    pub key: String,
    /// Position of the name.
    pub key_at: ByteRange,
    /// Value of the entry.
    pub node: PlacedNode,
}

/// Collects diagnostics and gives each its place.
#[derive(Debug, Default)]
pub struct DiagnosticSink<'a> {
    file: Cow<'a, str>,
    text: Cow<'a, str>,
    found: Vec<(ByteRange, Diagnostic)>,
}

impl<'a> DiagnosticSink<'a> {
    /// Creates a sink for the named file, whose lines come from `text`.
    pub fn new(file: impl Into<Cow<'a, str>>, text: impl Into<Cow<'a, str>>) -> DiagnosticSink<'a> {
        DiagnosticSink { file: file.into(), text: text.into(), found: Vec::new() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Adds a diagnostic without a hint.
    pub fn add(&mut self, at: &ByteRange, what: impl Into<String>) {
        self.push(at, what.into(), None);
    }

    /// Adds a diagnostic with a hint.
    pub fn hint(&mut self, at: &ByteRange, what: impl Into<String>, hint: impl Into<String>) {
        self.push(at, what.into(), Some(hint.into()));
    }

    /// Adds a diagnostic about a secret, which its line shows as stars.
    pub fn hint_secret(
        &mut self,
        at: &ByteRange,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let place = self.place(at).hidden();
        self.found.extend((!self.is_full()).then(|| {
            let (what, hint) = (what.into(), Some(hint.into()));
            (at.clone(), Diagnostic { what, place: Some(place), hint })
        }));
    }

    fn push(&mut self, at: &ByteRange, what: String, hint: Option<String>) {
        // The same fault in a repeated alias is one diagnostic.
        let known = self.found.iter().any(|(place, known)| place == at && known.what == what);
        if !self.is_full() && !known {
            let place = Some(self.place(at));
            self.found.push((at.clone(), Diagnostic { what, place, hint }));
        }
    }

    /// Returns the range of a piece of the text at `at`; the whole range if it is not found. A piece after `{` or `$`
    /// is another word.
    pub(super) fn piece(&self, at: &ByteRange, piece: &str) -> ByteRange {
        let text = self.text.get(at.clone()).unwrap_or_default();
        let found = text.match_indices(piece);
        let mut found = found.filter(|(place, _)| !text[..*place].ends_with(['{', '$']));
        found.next().map_or(at.clone(), |(place, _)| {
            let start = at.start + place;
            start..start + piece.len()
        })
    }

    /// Returns the file and line of a place: `places.yaml:3`.
    pub fn line_of(&self, at: &ByteRange) -> String {
        let Place { file, line, .. } = self.place(at);
        format!("{file}:{line}")
    }

    fn place(&self, at: &ByteRange) -> Place {
        Place::locate(&self.file, &self.text, at)
    }

    /// Reports an unknown name: ``unknown field `name` in load `l` ``. An empty `inside` is omitted.
    pub fn unknown(&mut self, at: &ByteRange, noun: &str, name: &str, inside: &str, hint: String) {
        let inside = if inside.is_empty() { String::new() } else { format!(" in {inside}") };
        self.hint(at, format!("unknown {noun} `{}`{inside}", shown(name)), hint);
    }

    /// Reports an unexpected value; `seen` describes it.
    pub fn refuse(&mut self, at: &ByteRange, name: &str, wanted: &str, seen: &str) {
        self.add(at, format!("`{name}` must be {wanted}, not {seen}"));
    }

    /// Adds a hint to the diagnostics from the `known`-th on that have none.
    pub(super) fn hint_since(&mut self, known: usize, hint: impl Fn() -> String) {
        for (_, diagnostic) in self.found.iter_mut().skip(known) {
            diagnostic.hint.get_or_insert_with(&hint);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// Returns true if further diagnostics are dropped.
    pub fn is_full(&self) -> bool {
        self.found.len() >= DIAGNOSTICS_MAX
    }

    /// Returns true if nothing was reported.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns all faults in the order of the text.
    pub fn into_diagnostics(mut self) -> Diagnostics {
        self.found.sort_by_key(|(at, _)| at.start);
        Diagnostics(self.found.into_iter().map(|(_, diagnostic)| diagnostic).collect())
    }
}

/// Returns true if an unquoted text means null.
pub(super) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null")
}
