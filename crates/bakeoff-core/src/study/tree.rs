//! Parses YAML into a tree with the position of every node.
//!
//! Studies come from untrusted authors, so the tree is bounded in size and depth. An alias counts as much as the node
//! that it repeats. YAML features without use in a study (tags, several documents, complex keys) are reported as
//! faults.
//!
//! Not here: the tree itself (`placed`), the meaning of fields (`parse`).

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span};

use super::diagnostic::Place;
pub(super) use super::placed::{
    ByteRange, DiagnosticSink, PlacedEntry as Entry, PlacedNode as Node, PlacedValue as Value,
};
use crate::units::shown;

/// Maximum size of a study in bytes: a record holds it, escaped, in at most 1 MiB.
pub const STUDY_SIZE_MAX: usize = 512 << 10;
/// Maximum nesting depth; a study needs six levels.
const DEPTH_MAX: usize = 24;
/// Maximum weight of a tree with expanded aliases: bytes of text, and [`NODE_WEIGHT`] for each node.
const WEIGHT_MAX: usize = 16 << 20;
const NODE_WEIGHT: usize = 16;

/// Holds the words of messages about a YAML file.
#[derive(Debug, Clone, Copy)]
pub struct YamlWords {
    /// Noun for the file: `study`.
    pub noun: &'static str,
    /// Hint for an empty file.
    pub empty: &'static str,
    /// Hint for a file that is far too long.
    pub long: &'static str,
}

/// Words of messages about studies.
const STUDY: YamlWords = YamlWords {
    noun: "study",
    empty: "`bakeoff studies` names some to start from",
    long: "a study names what is compared; it holds no data",
};

/// Parses a study; `None` if it cannot be parsed far enough to continue.
pub(crate) fn read(text: &str, sink: &mut DiagnosticSink<'_>) -> Option<Node> {
    read_yaml(text, &STUDY, sink)
}

/// Parses `text`, which must hold one document, into a tree with positions. Returns `None` if it cannot be parsed far
/// enough to continue; the diagnostics then say why.
pub fn read_yaml(text: &str, words: &YamlWords, sink: &mut DiagnosticSink<'_>) -> Option<Node> {
    let noun = words.noun;
    if text.len() > STUDY_SIZE_MAX {
        let what = format!("the {noun} is longer than {STUDY_SIZE_MAX} bytes");
        sink.hint(&(0..0), what, words.long);
        return None;
    }
    let mut options = granit_parser::Options::default();
    options.flow_nesting_limit = DEPTH_MAX + 1;
    options.block_nesting_limit = DEPTH_MAX + 1;
    options.set_emit_comments(false);
    let (open, anchors) = (Vec::new(), HashMap::new());
    let mut growing = TreeBuilder { noun, open, anchors, root: None, weight: 0 };
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = match next {
            Ok(next) => next,
            Err(error) => {
                unreadable(text, &error, sink);
                return None;
            }
        };
        let mut at = range(text, &span);
        if event.tag().is_some() {
            at.start = span.tag_start().and_then(|tag| tag.byte_offset()).unwrap_or(at.start);
        }
        if let Err(Fatal { at: own, what, hint }) = growing.grow(event, at.clone(), sink) {
            sink.hint(&own.unwrap_or(at), what, hint);
            return None;
        }
    }
    if growing.root.is_none() {
        sink.hint(&(0..0), format!("the {noun} is empty"), words.empty);
    }
    growing.root
}

fn range(text: &str, span: &Span) -> ByteRange {
    let range = span.byte_range().unwrap_or(text.len()..text.len());
    // A block's span ends where the next token begins; its own text ends earlier.
    let own = text.get(range.clone()).map_or(0, |slice| slice.trim_end().len());
    range.start..range.start + own
}

fn unreadable(text: &str, error: &ScanError, sink: &mut DiagnosticSink<'_>) {
    let at = error.marker().byte_offset().unwrap_or(text.len()).min(text.len());
    let what = format!("this is not YAML: {}", error.info());
    let line = text[..text.floor_char_boundary(at)].rsplit('\n').next().unwrap_or_default();
    let hint = if line.contains('\t') {
        "YAML is indented with spaces, not with tabs"
    } else if matches!(error.kind(), ErrorKind::UnknownAnchor) {
        "`*name` repeats what `&name` marks further up; put other text with a `*` in quotes"
    } else if matches!(error.kind(), ErrorKind::MappingValueNotAllowed) {
        "quote text that contains a colon, or check the line's indentation"
    } else {
        "look for a missing colon, quote or bracket, here or above"
    };
    sink.hint(&(at..at), what, hint);
}

/// Builds a tree.
struct TreeBuilder {
    /// Noun of messages, see [`YamlWords::noun`].
    noun: &'static str,
    /// Open collections, outermost first.
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    root: Option<Node>,
    weight: usize,
}

struct Open {
    at: ByteRange,
    anchor: usize,
    weight: usize,
    height: usize,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, lines: HashMap<String, usize>, key: Option<(String, ByteRange)> },
}

/// Describes a fault that stops parsing. `at` is set if it is not at the current event.
struct Fatal {
    at: Option<ByteRange>,
    what: String,
    hint: String,
}

fn fatal<T>(what: impl Into<String>, hint: impl Into<String>) -> Result<T, Fatal> {
    Err(Fatal { at: None, what: what.into(), hint: hint.into() })
}

impl TreeBuilder {
    fn grow(
        &mut self,
        event: Event<'_>,
        at: ByteRange,
        sink: &mut DiagnosticSink<'_>,
    ) -> Result<(), Fatal> {
        if let Some(tag) = event.tag() {
            return fatal(
                format!("a {} has no use for the tag `{}`", self.noun, shown(&tag.to_string())),
                "leave it out; text in quotes is text, everything else is read as it looks",
            );
        }
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                let hint = format!("one file holds one {}", self.noun);
                return fatal("a second document begins here", hint);
            }
            Event::Scalar(text, style, anchor, _) => {
                let plain = matches!(style, ScalarStyle::Plain);
                let weight = NODE_WEIGHT + text.len();
                let value = Value::Scalar { text: text.into_owned(), plain };
                let node = Node { at, value, weight, height: 0 };
                self.anchored(anchor, node, sink)?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.descend(at, anchor, Items::List(Vec::new()))?;
            }
            Event::MappingStart(_, anchor, _) => {
                let entries = Vec::new();
                let items = Items::Map { entries, lines: HashMap::new(), key: None };
                self.descend(at, anchor, items)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    let value = match open.items {
                        Items::List(items) => Value::List(items),
                        Items::Map { entries, .. } => Value::Map(entries),
                    };
                    let end =
                        if open.at.is_empty() { self.end_of(&value, &open.at) } else { at.end };
                    let at = open.at.start..end;
                    let node = Node { at, value, weight: open.weight, height: open.height + 1 };
                    self.anchored(open.anchor, node, sink)?;
                }
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(node) => self.put(node, true, sink)?,
                None => {
                    return fatal("an alias is inside the node that it repeats", "write it out");
                }
            },
            _ => {}
        }
        Ok(())
    }

    /// A block collection has no closing bracket, so it ends with its last item.
    fn end_of(&self, value: &Value, at: &ByteRange) -> usize {
        match value {
            Value::List(items) => items.last().map_or(at.end, |node| node.at.end),
            Value::Map(entries) => entries.last().map_or(at.end, |entry| entry.node.at.end),
            Value::Scalar { .. } => at.end,
        }
        .max(at.start)
    }

    fn descend(&mut self, at: ByteRange, anchor: usize, items: Items) -> Result<(), Fatal> {
        if self.open.len() >= DEPTH_MAX {
            return self.too_deep();
        }
        self.open.push(Open { at, anchor, weight: NODE_WEIGHT, height: 0, items });
        Ok(())
    }

    fn anchored(
        &mut self,
        anchor: usize,
        node: Node,
        sink: &mut DiagnosticSink<'_>,
    ) -> Result<(), Fatal> {
        if anchor != 0 {
            self.weigh(node.weight)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.put(node, false, sink)
    }

    fn too_deep<T>(&self) -> Result<T, Fatal> {
        fatal("this is nested too deeply", format!("a {} needs six levels", self.noun))
    }

    fn weigh(&mut self, weight: usize) -> Result<(), Fatal> {
        self.weight = self.weight.saturating_add(weight);
        if self.weight > WEIGHT_MAX {
            return fatal(
                format!("the {} is too large with its aliases written out", self.noun),
                "name each thing once; aliases of aliases multiply",
            );
        }
        Ok(())
    }

    fn put(
        &mut self,
        node: Node,
        repeated: bool,
        sink: &mut DiagnosticSink<'_>,
    ) -> Result<(), Fatal> {
        if self.open.len() + node.height > DEPTH_MAX {
            return self.too_deep();
        }
        // Nodes that are not repeated were weighed one by one.
        self.weigh(if repeated || node.height == 0 { node.weight } else { NODE_WEIGHT })?;
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.weight = open.weight.saturating_add(node.weight);
        open.height = open.height.max(node.height);
        match &mut open.items {
            Items::List(items) => items.push(node),
            Items::Map { entries, lines, key } => match key.take() {
                None => match node.value {
                    Value::Scalar { text, .. } => *key = Some((text, node.at)),
                    _ => {
                        let what = "a list or mapping cannot be a name".to_owned();
                        let hint = "quote a name with brackets in it".to_owned();
                        return Err(Fatal { at: Some(node.at), what, hint });
                    }
                },
                Some((name, key_at)) => match lines.get(&name) {
                    // Locating a line is expensive, and there may be very many.
                    Some(_) if sink.is_full() => {}
                    Some(first) => {
                        let line = Place::locate("", sink.text(), &(*first..*first)).line;
                        let what = format!("`{}` is given twice", shown(&name));
                        sink.hint(&key_at, what, format!("it is already in line {line}"));
                    }
                    None => {
                        lines.insert(name.clone(), key_at.start);
                        entries.push(Entry { key: name, key_at, node });
                    }
                },
            },
        }
        Ok(())
    }
}
