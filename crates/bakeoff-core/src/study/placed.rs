//! Values that know where they stood in a file, and the diagnostics that show those places.
//!
//! Studies (YAML) and other tools' files (HCL) are read into the same tree and speak of what is wrong
//! with it in the same words.
//!
//! Not here: reading YAML into the tree (`tree`), fields with their bounds (`reading`).

use std::borrow::Cow;
use std::ops::Range;

use super::diagnostic::{Diagnostic, Diagnostics, Place};
use crate::units::shown;

/// More diagnostics than this are not worth reading.
const DIAGNOSTICS_MAX: usize = 100;

/// Bytes of the text.
pub type At = Range<usize>;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub struct PlacedNode {
    /// Where it stands.
    pub at: At,
    /// Its contents.
    pub value: PlacedValue,
    /// Bytes of text and nodes, for the bounds that `tree` keeps.
    pub(super) weight: usize,
    pub(super) height: usize,
}

impl PlacedNode {
    /// A value and its place.
    pub fn new(at: At, value: PlacedValue) -> PlacedNode {
        PlacedNode { at, value, weight: 0, height: 0 }
    }

    /// Returns what stands there as a message says it; `mapping` is the format's word for one.
    pub fn seen(&self, mapping: &str) -> String {
        match &self.value {
            PlacedValue::List(_) => "a list".to_owned(),
            PlacedValue::Map(_) => mapping.to_owned(),
            PlacedValue::Scalar { .. } if self.is_null() => "nothing".to_owned(),
            PlacedValue::Scalar { text, plain: true } => format!("`{}`", shown(text)),
            PlacedValue::Scalar { text, plain: false } => format!("the text `\"{}\"`", shown(text)),
        }
    }

    /// Returns whether nothing is written there, or that it is nothing.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, PlacedValue::Scalar { text, plain: true } if is_null(text))
    }

    /// Returns the text, number or flag as it is written; none for what holds others, and for null.
    pub fn scalar(&self) -> Option<&str> {
        match &self.value {
            PlacedValue::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// Returns the flag that is written there without quotes.
    pub fn flag(&self) -> Option<bool> {
        match &self.value {
            PlacedValue::Scalar { text, plain: true } => text.parse().ok(),
            _ => None,
        }
    }

    /// A node for a text that stands in no file, such as a default.
    pub(super) fn plain(text: &str) -> PlacedNode {
        let value = PlacedValue::Scalar { text: text.to_owned(), plain: true };
        PlacedNode { at: 0..0, value, weight: 0, height: 0 }
    }

    /// The same place, read as holding something else.
    pub(super) fn holding(&self, value: PlacedValue) -> PlacedNode {
        PlacedNode { at: self.at.clone(), value, weight: self.weight, height: self.height }
    }
}

/// A value of any format with places.
#[derive(Debug, Clone)]
pub enum PlacedValue {
    /// A text, a number, a flag or null.
    Scalar {
        /// As it is written, without its quotes.
        text: String,
        /// Whether it has no quotes, so that it may be a number.
        plain: bool,
    },
    /// `[a, b]`
    List(Vec<PlacedNode>),
    /// `{a: b}`, in the order of the file, every key once.
    Map(Vec<PlacedEntry>),
}

/// One `key: value` of a mapping.
#[derive(Debug, Clone)]
pub struct PlacedEntry {
    /// Its name.
    pub key: String,
    /// Where the name stands.
    pub key_at: At,
    /// Its meaning.
    pub node: PlacedNode,
}

/// Collects diagnostics and gives each its place.
#[derive(Debug, Default)]
pub struct DiagnosticSink<'a> {
    file: Cow<'a, str>,
    text: Cow<'a, str>,
    found: Vec<(At, Diagnostic)>,
}

impl<'a> DiagnosticSink<'a> {
    /// A sink for a file of this name, of which diagnostics show lines of `text`.
    pub fn new(file: impl Into<Cow<'a, str>>, text: impl Into<Cow<'a, str>>) -> DiagnosticSink<'a> {
        DiagnosticSink { file: file.into(), text: text.into(), found: Vec::new() }
    }

    /// Returns the file's text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Adds a diagnostic without a hint.
    pub fn add(&mut self, at: &At, what: impl Into<String>) {
        self.push(at, what.into(), None);
    }

    /// Adds a diagnostic with a hint.
    pub fn hint(&mut self, at: &At, what: impl Into<String>, hint: impl Into<String>) {
        self.push(at, what.into(), Some(hint.into()));
    }

    /// Adds a diagnostic of a secret, which its line shows as stars.
    pub fn hint_secret(&mut self, at: &At, what: impl Into<String>, hint: impl Into<String>) {
        let place = self.place(at).hidden();
        self.found.extend((!self.is_full()).then(|| {
            let (what, hint) = (what.into(), Some(hint.into()));
            (at.clone(), Diagnostic { what, place: Some(place), hint })
        }));
    }

    fn push(&mut self, at: &At, what: String, hint: Option<String>) {
        // The same alias wrong twice is one diagnostic.
        let known = self.found.iter().any(|(place, known)| place == at && known.what == what);
        if !self.is_full() && !known {
            let place = Some(self.place(at));
            self.found.push((at.clone(), Diagnostic { what, place, hint }));
        }
    }

    /// Returns where a piece of the text that stands at `at` begins and ends; all of it if the piece is not found. What
    /// follows `{` or `$` is another word.
    pub(super) fn piece(&self, at: &At, piece: &str) -> At {
        let text = self.text.get(at.clone()).unwrap_or_default();
        let found = text.match_indices(piece);
        let mut found = found.filter(|(place, _)| !text[..*place].ends_with(['{', '$']));
        found.next().map_or(at.clone(), |(place, _)| {
            let start = at.start + place;
            start..start + piece.len()
        })
    }

    fn place(&self, at: &At) -> Place {
        Place::locate(&self.file, &self.text, at)
    }

    /// Reports an unknown name: ``unknown field `name` in load `l` ``. An empty `inside` is left out.
    pub fn unknown(&mut self, at: &At, noun: &str, name: &str, inside: &str, hint: String) {
        let inside = if inside.is_empty() { String::new() } else { format!(" in {inside}") };
        self.hint(at, format!("unknown {noun} `{}`{inside}", shown(name)), hint);
    }

    /// Reports a value that is not as wanted. `seen` says what stands there instead.
    pub fn refuse(&mut self, at: &At, name: &str, wanted: &str, seen: &str) {
        self.add(at, format!("`{name}` must be {wanted}, not {seen}"));
    }

    /// Gives a hint to those of the diagnostics from the `known`-th on that have none.
    pub(super) fn hint_since(&mut self, known: usize, hint: impl Fn() -> String) {
        for (_, diagnostic) in self.found.iter_mut().skip(known) {
            diagnostic.hint.get_or_insert_with(&hint);
        }
    }

    /// Returns how many diagnostics there are.
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// Returns whether further diagnostics are dropped.
    pub fn is_full(&self) -> bool {
        self.found.len() >= DIAGNOSTICS_MAX
    }

    /// Returns whether nothing was reported.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All mistakes, in the order of the text.
    pub fn into_diagnostics(mut self) -> Diagnostics {
        self.found.sort_by_key(|(at, _)| at.start);
        Diagnostics(self.found.into_iter().map(|(_, diagnostic)| diagnostic).collect())
    }
}

/// Returns whether a text that is not quoted stands for nothing.
pub(super) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null")
}
