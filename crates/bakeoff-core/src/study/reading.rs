//! Reads fields out of a mapping one by one, and reports faults in each.
//!
//! Every reader returns `None` for a value that it has reported. The caller then continues, so one pass over a study
//! finds all faults.
//!
//! Not here: the set of fields (`fields`), their combined meaning (`parse`).

use std::time::Duration;

use super::field::{Field, Form, NAME_PATTERN, NAMES_MAX, Requirement, Table};
use super::tree::{ByteRange, DiagnosticSink, Entry, Node, Value};
use crate::suggest::{list, nearest, suggest};
use crate::units::{self, ByteCount, Unreadable, shown};

/// Returns true for dotted numbers, or the first of them.
pub(super) fn is_version(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '~' | '_');
    text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(allowed)
}

/// Wraps a mapping whose fields are those of a table.
pub(super) struct Fields<'a> {
    table: &'static Table,
    /// Name in messages: `` load `sweep` ``.
    pub(super) what: String,
    /// Location of its name.
    pub(super) at: ByteRange,
    entries: &'a [Entry],
    /// Fields that unknown ones were probably meant to be; they are not reported as missing.
    meant: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Reports unknown fields, and wraps `node` as a mapping with the others.
    pub(super) fn open(
        sink: &mut DiagnosticSink<'_>,
        table: &'static Table,
        what: impl Into<String>,
        at: &ByteRange,
        node: &'a Node,
    ) -> Option<Fields<'a>> {
        let what = what.into();
        let Value::Map(entries) = &node.value else {
            let fields: Vec<_> = table.fields.iter().map(|field| field.name).collect();
            let seen = seen(node);
            let hint = format!("its fields: {}", list(&fields));
            sink.hint(&node.at, format!("{what} must be a mapping, not {seen}"), hint);
            return None;
        };
        let mut meant = Vec::new();
        for entry in entries {
            // There may be very many, and suggestions are expensive.
            let known = sink.is_full() || table.fields.iter().any(|field| field.name == entry.key);
            if !known {
                let known = || table.fields.iter().map(|field| field.name);
                let hint = suggest(&entry.key, known(), "known fields:");
                sink.unknown(&entry.key_at, "field", &entry.key, &what, hint);
                meant.extend(nearest(&entry.key, known()));
            }
        }
        Some(Fields { table, what, at: at.clone(), entries, meant })
    }

    /// Returns an omitted mapping, whose fields all have their defaults.
    pub(super) fn absent(table: &'static Table) -> Fields<'static> {
        Fields { table, what: table.name.to_owned(), at: 0..0, entries: &[], meant: Vec::new() }
    }

    /// Returns the declaration of a field. Any other name is a mistake of the parser.
    fn declared(&self, name: &str) -> Option<&'static Field> {
        let field = self.table.fields.iter().find(|field| field.name == name);
        debug_assert!(field.is_some(), "`{}` has no field `{name}`", self.table.name);
        field
    }

    /// Returns the field's name and value, if present.
    fn entry(&self, name: &str) -> Option<&'a Entry> {
        self.declared(name)?;
        self.entries.iter().find(|entry| entry.key == name)
    }

    /// Returns the field's value, if present.
    pub(super) fn node(&self, name: &str) -> Option<&'a Node> {
        self.entry(name).map(|entry| &entry.node)
    }

    /// Returns true if the study has a field of this name, known or not.
    pub(super) fn gives(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == name)
    }

    /// Returns the location of the field's name, or of the mapping's name without such a field.
    pub(super) fn key_at(&self, name: &str) -> &ByteRange {
        self.entry(name).map_or(&self.at, |entry| &entry.key_at)
    }

    /// Returns the location of the field's value, or of the mapping's name without such a field.
    pub(super) fn value_at(&self, name: &str) -> &ByteRange {
        self.node(name).map_or(&self.at, |node| &node.at)
    }

    /// Returns the field's form and node; reports a missing required field.
    fn field(
        &self,
        sink: &mut DiagnosticSink<'_>,
        name: &str,
    ) -> Option<(&'static Field, Option<&'a Node>)> {
        let (field, node) = (self.declared(name)?, self.node(name));
        if node.is_none()
            && matches!(field.given, Requirement::Always)
            && !self.meant.contains(&name)
        {
            let hint = format!("add `{name}: {}`", field.example);
            sink.hint(&self.at, format!("{} has no `{name}`", self.what), hint);
        }
        Some((field, node))
    }

    /// Parses a field by `read`; uses the default of an omitted field, if it has one.
    fn get<T>(
        &self,
        sink: &mut DiagnosticSink<'_>,
        name: &str,
        read: impl FnOnce(&mut DiagnosticSink<'_>, &'static Form, &Node) -> Option<T>,
    ) -> Option<T> {
        match self.field(sink, name)? {
            (field, Some(node)) => {
                let known = sink.len();
                let value = read(sink, &field.form, node);
                sink.hint_since(known, || format!("as in `{name}: {}`", field.example));
                value
            }
            (Field { given: Requirement::Default(text), form, .. }, None) => {
                read(sink, form, &Node::plain(text))
            }
            _ => None,
        }
    }

    pub(super) fn text(&self, sink: &mut DiagnosticSink<'_>, name: &str) -> Option<String> {
        self.get(sink, name, |sink, form, node| match form {
            Form::AsWritten => as_written(sink, name, node),
            Form::Text => text(sink, name, node),
            _ => misread(name),
        })
    }

    /// Parses a version: dotted numbers, or the first of them.
    pub(super) fn version(&self, sink: &mut DiagnosticSink<'_>, field: &str) -> Option<String> {
        let version = self.text(sink, field)?.trim().to_owned();
        if is_version(&version) {
            return Some(version);
        }
        let what = format!("`{}` is not a version", shown(&version));
        let hint = match version.strip_prefix('v') {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
                format!("did you mean `{}`?", shown(rest))
            }
            _ => {
                format!(
                    "write dotted numbers, `3.6.1`, or the first of them; without `{field}` bakeoff takes \
                     what it finds"
                )
            }
        };
        sink.hint(self.value_at(field), what, hint);
        None
    }

    pub(super) fn whole(&self, sink: &mut DiagnosticSink<'_>, name: &str) -> Option<u64> {
        self.get(sink, name, |sink, form, node| whole(sink, name, form, node))
    }

    pub(super) fn number(&self, sink: &mut DiagnosticSink<'_>, name: &str) -> Option<f64> {
        self.get(sink, name, |sink, form, node| number(sink, name, form, node))
    }

    pub(super) fn size(&self, sink: &mut DiagnosticSink<'_>, name: &str) -> Option<u64> {
        self.get(sink, name, |sink, form, node| size(sink, name, form, node))
    }

    pub(super) fn rate(&self, sink: &mut DiagnosticSink<'_>, name: &str) -> Option<f64> {
        self.get(sink, name, |sink, form, node| {
            let Form::Rate = form else { return misread(name) };
            let rate = unit(sink, name, node, units::parse_rate)?;
            if rate > 0.0 && rate <= 1e9 {
                return Some(rate);
            }
            let what = format!("`{name}` must be more than 0 and at most 1000000000/s");
            sink.hint(&node.at, what, "a load without a rate, and with `clients`, is closed");
            None
        })
    }

    pub(super) fn share(&self, sink: &mut DiagnosticSink<'_>, name: &str) -> Option<f64> {
        self.get(sink, name, |sink, form, node| match form {
            Form::Share => unit(sink, name, node, units::parse_share),
            _ => misread(name),
        })
    }

    pub(super) fn duration(&self, sink: &mut DiagnosticSink<'_>, name: &str) -> Option<Duration> {
        self.get(sink, name, |sink, form, node| {
            let Form::Duration { zero, max } = form else { return misread(name) };
            let duration = unit(sink, name, node, units::parse_duration)?;
            if duration.is_zero() && !zero {
                sink.add(&node.at, format!("`{name}` must be more than zero"));
                return None;
            }
            if units::parse_duration(max).is_ok_and(|max| duration > max) {
                sink.add(&node.at, format!("`{name}` must be at most {max}"));
                return None;
            }
            Some(duration)
        })
    }

    pub(super) fn flag(&self, sink: &mut DiagnosticSink<'_>, name: &str) -> Option<bool> {
        self.get(sink, name, |sink, form, node| {
            let Form::Flag = form else { return misread(name) };
            let flag = node.flag();
            if flag.is_none() {
                sink.refuse(&node.at, name, "`true` or `false`", &seen(node));
            }
            flag
        })
    }

    /// Parses a word and returns the element of `all` at its place; the form lists the words in that order.
    pub(super) fn word<T: Copy>(
        &self,
        sink: &mut DiagnosticSink<'_>,
        name: &str,
        all: &[T],
    ) -> Option<T> {
        self.get(sink, name, |sink, form, node| {
            let Form::Word(words) = form else { return misread(name) };
            let index = word(sink, name, words, node)?;
            all.get(index).copied()
        })
    }

    /// Returns the mapping in a field, with its own table.
    pub(super) fn table(&self, sink: &mut DiagnosticSink<'_>, name: &str) -> Option<Fields<'a>> {
        let (field, Some(node)) = self.field(sink, name)? else { return None };
        let Form::Table(table) = &field.form else { return misread(name) };
        let what = format!("`{name}` of {}", self.what);
        Fields::open(sink, table, what, self.key_at(name), node)
    }

    /// Returns the items of a list in a field. A single value counts as a list of one if the form allows it.
    pub(super) fn list(&self, sink: &mut DiagnosticSink<'_>, name: &str) -> Option<&'a [Node]> {
        let (field, Some(node)) = self.field(sink, name)? else { return None };
        match &node.value {
            Value::List(items) if items.is_empty() => {
                sink.hint(
                    &node.at,
                    format!("`{name}` is an empty list"),
                    format!("write `{name}: {}`", field.example),
                );
                None
            }
            Value::List(items) => Some(items),
            _ if matches!(field.form, Form::OneOrMany(_)) => Some(std::slice::from_ref(node)),
            _ => {
                let hint = format!("write `{name}: {}`", field.example);
                let what = format!("`{name}` must be a list, not {}", seen(node));
                sink.hint(&node.at, what, hint);
                None
            }
        }
    }

    /// Returns the entries of a mapping from names or words.
    pub(super) fn entries(&self, sink: &mut DiagnosticSink<'_>, name: &str) -> Option<&'a [Entry]> {
        let (field, Some(node)) = self.field(sink, name)? else { return None };
        match &node.value {
            Value::Map(entries) => Some(entries),
            _ => {
                let hint = format!("write `{name}: {}`", field.example);
                let what = format!("`{name}` must be a mapping, not {}", seen(node));
                sink.hint(&node.at, what, hint);
                None
            }
        }
    }

    /// Returns the entries of a section with user-chosen names; `noun` is the term for one.
    pub(super) fn named(
        &self,
        sink: &mut DiagnosticSink<'_>,
        name: &str,
        noun: &str,
    ) -> Vec<&'a Entry> {
        let Some(entries) = self.entries(sink, name) else { return Vec::new() };
        let at = self.key_at(name);
        if entries.is_empty() {
            sink.add(at, format!("the study has no {name}"));
        }
        if entries.len() > NAMES_MAX {
            sink.add(at, format!("the study has more than {NAMES_MAX} {name}"));
            return Vec::new();
        }
        let table = match self.field(sink, name) {
            Some((Field { form: Form::Named(Form::Table(table)), .. }, _)) => table,
            _ => return Vec::new(),
        };
        let (strayed, named): (Vec<_>, Vec<_>) =
            entries.iter().partition(|entry| has_strayed(table, entry));
        for entry in strayed {
            let what = format!("`{}` is where the name of a {noun} belongs", entry.key);
            let hint = format!("indent it below the {noun} whose field it is");
            sink.hint(&entry.key_at, what, hint);
        }
        for entry in named.iter().filter(|entry| !is_name(&entry.key)) {
            let what = format!("`{}` cannot be the name of a {noun}", shown(&entry.key));
            let hint = "names are lower-case letters, digits and hyphens, at most 40, as they \
                        become part of file names";
            sink.hint(&entry.key_at, what, hint);
        }
        named
    }
}

/// Returns true if `entry` is a field of `table` with too little indentation, not the name of a mapping with such
/// fields.
fn has_strayed(table: &Table, entry: &Entry) -> bool {
    let is_field = |name: &str| table.fields.iter().any(|field| field.name == name);
    let inside = match &entry.node.value {
        Value::Map(entries) => entries.iter().any(|entry| is_field(&entry.key)),
        _ => false,
    };
    is_field(&entry.key) && !inside
}

fn is_name(name: &str) -> bool {
    debug_assert_eq!(NAME_PATTERN, "^[a-z0-9][a-z0-9-]{0,39}$");
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=40).contains(&name.len()) && name.bytes().all(allowed) && !name.starts_with('-')
}

/// Returns nothing for a field that is declared in another form than it is read in, a mistake of the parser.
fn misread<T>(name: &str) -> Option<T> {
    debug_assert!(false, "`{name}` is declared in another form");
    None
}

/// Describes a node for a message.
pub(super) fn seen(node: &Node) -> String {
    node.seen("a mapping")
}

/// Returns the text of a scalar that is not null; `wanted` describes the expected value in messages.
fn scalar<'n>(
    sink: &mut DiagnosticSink<'_>,
    name: &str,
    wanted: &str,
    node: &'n Node,
) -> Option<&'n str> {
    let text = node.scalar();
    if text.is_none() {
        sink.refuse(&node.at, name, wanted, &seen(node));
    }
    text
}

/// Returns a text, number or flag as written, including white space in quotes and the last line break of a block.
pub(super) fn as_written(sink: &mut DiagnosticSink<'_>, name: &str, node: &Node) -> Option<String> {
    scalar(sink, name, "a text or a number", node).map(str::to_owned)
}

/// Returns a text that is not empty. A number is taken as written: `title: 2026`.
pub(super) fn text(sink: &mut DiagnosticSink<'_>, name: &str, node: &Node) -> Option<String> {
    let text = scalar(sink, name, "a text", node)?.trim();
    if text.is_empty() {
        sink.add(&node.at, format!("`{name}` is empty"));
        return None;
    }
    Some(text.to_owned())
}

/// Parses a whole number within the bounds of `form`.
pub(super) fn whole(
    sink: &mut DiagnosticSink<'_>,
    name: &str,
    form: &Form,
    node: &Node,
) -> Option<u64> {
    let Form::Whole { min, max } = form else { return misread(name) };
    let Value::Scalar { text, plain: true } = &node.value else {
        let what = format!("`{name}` must be a whole number, not {}", seen(node));
        match &node.value {
            Value::Scalar { text, .. } if text.parse::<u64>().is_ok() => {
                sink.hint(&node.at, what, "leave the quotes out");
            }
            _ => sink.add(&node.at, what),
        }
        return None;
    };
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u64>() {
        Ok(number) if digits && (*min..=*max).contains(&number) => Some(number),
        _ if digits || text.parse::<i64>().is_ok() => {
            let what = format!("`{name}` must be from {min} to {max}, not `{}`", shown(text));
            sink.add(&node.at, what);
            None
        }
        _ => {
            let what = format!("`{name}` must be a whole number, not {}", seen(node));
            match meant_number(text) {
                Some(meant) => sink.hint(&node.at, what, format!("did you mean `{meant}`?")),
                None => sink.add(&node.at, what),
            }
            None
        }
    }
}

/// Parses `1_000` or `1,000` as a number, and `1,10,100` as a list.
fn meant_number(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split(['_', ',', '\'']).map(str::trim).collect();
    let digits = |part: &&str| part.parse::<u32>().is_ok() && !part.starts_with('+');
    if parts.len() < 2 || parts.len() > 20 || !parts.iter().all(digits) {
        return None;
    }
    let thousands = parts[1..].iter().all(|part| part.len() == 3);
    let list = text.contains(',') && !thousands;
    Some(if list { format!("[{}]", parts.join(", ")) } else { parts.concat() })
}

/// Parses a decimal number within the bounds of `form`.
pub(super) fn number(
    sink: &mut DiagnosticSink<'_>,
    name: &str,
    form: &Form,
    node: &Node,
) -> Option<f64> {
    let Form::Number { min, from_min, max } = form else { return misread(name) };
    let value = match &node.value {
        Value::Scalar { text, plain: true } => text.parse::<f64>().ok().filter(|_| {
            // Rust accepts `inf` and `nan` as numbers, and JSON rejects `.5` and `1.`.
            text.starts_with(|c: char| c.is_ascii_digit() || c == '-') && !text.ends_with('.')
        }),
        _ => None,
    };
    let Some(value) = value else {
        sink.refuse(&node.at, name, "a number", &seen(node));
        return None;
    };
    if (value > *min || (*from_min && value == *min)) && value <= *max {
        return Some(value);
    }
    let from = if *from_min { "at least" } else { "more than" };
    // An unreachable bound need not be mentioned.
    let to = if *max < 1e6 { format!(" and at most {max}") } else { String::new() };
    let what = format!("`{name}` must be {from} {min}{to}, not {}", seen(node));
    sink.add(&node.at, what);
    None
}

/// Parses a size within the bounds of `form`, in bytes.
pub(super) fn size(
    sink: &mut DiagnosticSink<'_>,
    name: &str,
    form: &Form,
    node: &Node,
) -> Option<u64> {
    let ByteCount(bytes) = unit(sink, name, node, str::parse::<ByteCount>)?;
    // A field for one size or several sets its own default.
    let Form::Size { min, max } = form else { return Some(bytes) };
    if (*min..=*max).contains(&bytes) {
        return Some(bytes);
    }
    let (least, most) = (ByteCount(*min), ByteCount(*max));
    let what = format!("`{name}` must be from {least} to {most}, not {}", seen(node));
    let number = node.scalar().filter(|text| text.trim().bytes().all(|byte| byte.is_ascii_digit()));
    match (name, number) {
        ("size", _) => sink.hint(&node.at, what, "keys and values carry what proves them right"),
        (_, Some(number)) if bytes < *min => {
            let number = number.trim();
            sink.hint(
                &node.at,
                what,
                format!("a number alone is bytes; did you mean `{number}MiB`?"),
            );
        }
        _ => sink.add(&node.at, what),
    }
    None
}

/// Parses a quantity by `read`.
pub(super) fn unit<T>(
    sink: &mut DiagnosticSink<'_>,
    name: &str,
    node: &Node,
    read: impl FnOnce(&str) -> Result<T, Unreadable>,
) -> Option<T> {
    let text = scalar(sink, name, "a quantity", node)?.trim();
    match read(text) {
        Ok(value) => Some(value),
        Err(error) => {
            sink.hint(&node.at, format!("`{name}`: {}", error.what), error.hint);
            None
        }
    }
}

/// Returns the index of the given word in `words`.
pub(super) fn word(
    sink: &mut DiagnosticSink<'_>,
    name: &str,
    words: &[&str],
    node: &Node,
) -> Option<usize> {
    let text = scalar(sink, name, "a word", node)?.trim();
    let index = words.iter().position(|word| *word == text);
    if index.is_none() {
        let what = format!("`{name}` cannot be `{}`", shown(text));
        sink.hint(&node.at, what, suggest(text, words.iter().copied(), "known words:"));
    }
    index
}

/// Returns a field of a mapping, before the mapping is checked.
pub(super) fn unchecked<'a>(of: &'a Entry, name: &str) -> Option<&'a Entry> {
    match &of.node.value {
        Value::Map(fields) => fields.iter().find(|one| one.key == name),
        _ => None,
    }
}
