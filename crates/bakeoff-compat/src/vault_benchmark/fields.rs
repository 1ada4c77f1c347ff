//! Reads the options of a block, and remembers which ones were read.
//!
//! A test type reads its options by name. An option that nothing reads is unknown and is reported with its line.
//! Diagnostics are collected and reported together, so reading continues after one. An invalid value then counts as
//! missing, and `Config::finish` reports it.
//!
//! Values are converted as in vault-benchmark. A number or truth value becomes a text where a text is expected, and a
//! numeric text becomes a number.
//!
//! Not here: the file's syntax (`hcl`), its top level (`config`).

use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use bakeoff_core::study::{DiagnosticSink, PlacedEntry, PlacedNode, PlacedValue as Value, suggest};
use bakeoff_core::units::shown;
use serde_json::Value as Json;

use super::hcl::{Block, Body, Entry, is_secret};
use crate::flags;

/// Environment variables that start with `VAULT_`, by name.
#[derive(Debug, Default, Clone)]
pub(super) struct Environment(BTreeMap<String, String>);

/// Shares a file's diagnostics and environment among its blocks.
#[derive(Debug)]
pub(super) struct FileContext {
    sink: RefCell<DiagnosticSink<'static>>,
    environment: Environment,
}

#[derive(Debug, Clone)]
pub(super) struct Fields {
    known: Rc<BlockState>,
    shared: Rc<FileContext>,
}

/// A block, and the options read from it.
#[derive(Debug)]
struct BlockState {
    /// Name in messages: `` `role` of test `x` ``.
    name: String,
    /// Range of the block's name. For a missing block: the range of the block around it.
    at: Range<usize>,
    is_written: bool,
    labels: Vec<(String, Range<usize>)>,
    attributes: Vec<PlacedEntry>,
    blocks: Vec<(String, Range<usize>, Rc<BlockState>)>,
    read_names: RefCell<Vec<&'static str>>,
    passed_over: Cell<bool>,
}

/// Describes an option of a test type. [`Fields::read`] reads a list of them.
///
/// The constructors below choose the form: `text("path").or("x")`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    name: &'static str,
    form: Form,
    default: Default,
    required: bool,
    variable: Option<&'static str>,
    in_path: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Whole,
    Flag { kept: bool },
    Texts,
    Map,
    Any,
}

#[derive(Debug, Clone, Copy)]
enum Default {
    None,
    Text(&'static str),
    Whole(i64),
    Flag(bool),
    Texts(&'static [&'static str]),
}

/// Declares a text.
pub(super) const fn text(name: &'static str) -> Field {
    Field::new(name, Form::Text)
}

/// Declares a whole number.
pub(super) const fn whole(name: &'static str) -> Field {
    Field::new(name, Form::Whole)
}

/// Declares a truth value whose `false` counts as missing, as in vault-benchmark.
pub(super) const fn flag(name: &'static str) -> Field {
    Field::new(name, Form::Flag { kept: false })
}

/// Declares a truth value whose `false` is sent, because the server's default is `true`.
pub(super) const fn switch(name: &'static str) -> Field {
    Field::new(name, Form::Flag { kept: true })
}

/// Declares a list of texts.
pub(super) const fn texts(name: &'static str) -> Field {
    Field::new(name, Form::Texts)
}

/// Declares an object of texts.
pub(super) const fn map(name: &'static str) -> Field {
    Field::new(name, Form::Map)
}

/// Declares a value of any type, passed on as JSON.
pub(super) const fn any(name: &'static str) -> Field {
    Field::new(name, Form::Any)
}

impl Field {
    const fn new(name: &'static str, form: Form) -> Self {
        Self { name, form, default: Default::None, required: false, variable: None, in_path: false }
    }

    /// Returns the environment variable that replaces a missing value.
    pub(super) const fn variable(&self) -> Option<&'static str> {
        self.variable
    }

    pub(super) const fn or(mut self, default: &'static str) -> Self {
        self.default = Default::Text(default);
        self
    }

    pub(super) const fn or_whole(mut self, default: i64) -> Self {
        self.default = Default::Whole(default);
        self
    }

    pub(super) const fn or_flag(mut self, default: bool) -> Self {
        self.default = Default::Flag(default);
        self
    }

    pub(super) const fn or_texts(mut self, default: &'static [&'static str]) -> Self {
        self.default = Default::Texts(default);
        self
    }

    /// Sets the environment variable that replaces a missing value: `VAULT_BENCHMARK_…`.
    pub(super) const fn or_variable(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    /// Requires a non-empty value, in the file or in its variable.
    pub(super) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Uses the value only in paths, not in bodies.
    pub(super) const fn in_path(mut self) -> Self {
        self.in_path = true;
        self
    }

    pub(super) const fn is_in_path(&self) -> bool {
        self.in_path
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    #[cfg(test)]
    pub(super) const fn is_required(&self) -> bool {
        self.required
    }

    /// Returns a line that sets the option.
    #[cfg(test)]
    pub(super) fn example(&self) -> String {
        let value = match self.form {
            Form::Text => "\"x\"",
            Form::Whole => "1",
            Form::Flag { .. } => "true",
            Form::Texts => "[\"x\"]",
            Form::Map | Form::Any => "{ x = \"y\" }",
        };
        format!("{} = {value}\n", self.name)
    }
}

impl Environment {
    /// Reads the variables of this process that start with `VAULT_` and are UTF-8.
    pub(super) fn of_this_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let all = std::env::vars_os().filter_map(text);
        Self(all.filter(|(name, _)| name.starts_with("VAULT_")).collect())
    }

    /// Returns a variable's value. An empty variable counts as set.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        Self(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
    }
}

impl FileContext {
    pub(super) fn new(sink: DiagnosticSink<'static>, environment: Environment) -> Self {
        Self { sink: RefCell::new(sink), environment }
    }

    pub(super) fn sink(&self) -> RefMut<'_, DiagnosticSink<'static>> {
        self.sink.borrow_mut()
    }
}

impl BlockState {
    fn new(name: String, at: Range<usize>, body: Body) -> Self {
        let mut known = Self {
            name,
            at,
            is_written: true,
            labels: Vec::new(),
            attributes: Vec::new(),
            blocks: Vec::new(),
            read_names: RefCell::default(),
            passed_over: Cell::default(),
        };
        for entry in body.entries {
            match entry {
                Entry::Attribute(attribute) => known.attributes.push(attribute),
                Entry::Block(Block { ident, at, labels, body }) => {
                    let name = match (&*known.name, labels.get(1).or(labels.first())) {
                        (_, Some((label, _))) => format!("{ident} `{}`", shown(label)),
                        ("", None) => format!("`{ident}`"),
                        (outer, None) => format!("`{ident}` of {outer}"),
                    };
                    let mut block = Self::new(name, at.clone(), body);
                    block.labels = labels;
                    known.blocks.push((ident, at, Rc::new(block)));
                }
            }
        }
        known
    }

    /// Reports every option that nothing read.
    fn finish(&self, shared: &FileContext) {
        if self.passed_over.get() {
            return;
        }
        let read_names = self.read_names.borrow();
        let unknown = |name: &str, at: &Range<usize>, noun: &str| {
            if !read_names.contains(&name) {
                let hint = suggest(name, read_names.iter().copied(), "known options:");
                shared.sink().unknown(at, noun, name, &self.name, hint);
            }
        };
        for attribute in &self.attributes {
            unknown(&attribute.key, &attribute.key_at, "option");
        }
        for (name, at, block) in &self.blocks {
            unknown(name, at, "block");
            if read_names.contains(&name.as_str()) {
                block.finish(shared);
            }
        }
    }
}

impl Fields {
    pub(super) fn top(body: Body, shared: &Rc<FileContext>) -> Self {
        Self {
            known: Rc::new(BlockState::new(String::new(), 0..0, body)),
            shared: Rc::clone(shared),
        }
    }

    /// Reports every option that nothing read, in this block and in each nested block that was read.
    pub(super) fn finish(&self) {
        self.known.finish(&self.shared);
    }

    /// Suppresses reports for this block: an unknown test type is one error, not one per option.
    pub(super) fn pass_over(&self) {
        self.known.passed_over.set(true);
    }

    pub(super) fn shared(&self) -> &FileContext {
        &self.shared
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.known.at.clone()
    }

    /// Returns the block's labels with their ranges.
    pub(super) fn labels(&self) -> &[(String, Range<usize>)] {
        &self.known.labels
    }

    /// Reports a fault of an option, or of the block if the option is missing.
    pub(super) fn diagnostic(&self, name: &str, what: impl Into<String>, hint: impl Into<String>) {
        let at = self.at(name);
        self.shared.sink().hint(&at, what, hint);
    }

    fn at(&self, name: &str) -> Range<usize> {
        let block = || self.known.blocks.iter().find(|(ident, _, _)| ident == name);
        self.attribute(name)
            .map(|attribute| attribute.node.at.clone())
            .or_else(|| block().map(|(_, at, _)| at.clone()))
            .unwrap_or_else(|| self.known.at.clone())
    }

    fn attribute(&self, name: &str) -> Option<&PlacedEntry> {
        self.known.attributes.iter().find(|attribute| attribute.key == name)
    }

    /// Returns an option's value and marks the option as read; `null` counts as missing.
    fn read_node(&self, name: &'static str) -> Option<&PlacedNode> {
        self.mark_read(name);
        if let Some((_, at, _)) = self.known.blocks.iter().find(|(ident, _, _)| ident == name) {
            let what = format!("`{name}` is an option, not a block");
            self.shared.sink().hint(at, what, format!("write `{name} = …`"));
        }
        Some(&self.attribute(name)?.node).filter(|node| !node.is_null())
    }

    fn mark_read(&self, name: &'static str) {
        let mut read_names = self.known.read_names.borrow_mut();
        if !read_names.contains(&name) {
            read_names.push(name);
        }
    }

    /// Reports an invalid value. Hides the value if it is secret.
    fn refuse<T>(&self, name: &str, wanted: &str, node: &PlacedNode) -> Option<T> {
        let seen = match &node.value {
            Value::Scalar { plain: true, .. } if is_secret(name) => "a number or a flag".to_owned(),
            Value::Scalar { plain: false, .. } if is_secret(name) => "a text".to_owned(),
            _ => node.seen("an object"),
        };
        self.shared.sink().refuse(&node.at, name, wanted, &seen);
        None
    }

    /// Reads a text. Numbers and truth values count as texts.
    pub(super) fn text(&self, name: &'static str) -> Option<String> {
        let node = self.read_node(name)?;
        node.scalar().map(str::to_owned).or_else(|| self.refuse(name, "a text", node))
    }

    pub(super) fn whole(&self, name: &'static str) -> Option<i64> {
        let node = self.read_node(name)?;
        let number = node.scalar().and_then(|text| text.parse().ok());
        number.or_else(|| self.refuse(name, "a whole number", node))
    }

    /// Reads a whole number of at least `min`.
    pub(super) fn whole_from(&self, name: &'static str, min: i64) -> Option<i64> {
        let number = self.whole(name)?;
        if number >= min {
            return Some(number);
        }
        let what = format!("`{name}` must be at least {min}, not `{number}`");
        self.shared.sink().add(&self.at(name), what);
        None
    }

    pub(super) fn flag(&self, name: &'static str) -> Option<bool> {
        let node = self.read_node(name)?;
        let flag = match &node.value {
            Value::Scalar { text, plain: false } if text == "true" || text == "1" => Some(true),
            Value::Scalar { text, plain: false } if text == "false" || text == "0" => Some(false),
            _ => node.flag(),
        };
        flag.or_else(|| self.refuse(name, "`true` or `false`", node))
    }

    /// Returns true if the option is written as `""`.
    pub(super) fn is_empty_text(&self, name: &'static str) -> bool {
        self.read_node(name).and_then(quoted).is_some_and(str::is_empty)
    }

    /// Reads a duration in Go's notation: `1m30s`.
    pub(super) fn duration(&self, name: &'static str) -> Option<Duration> {
        let node = self.read_node(name)?;
        let duration = quoted(node).and_then(flags::duration);
        duration.or_else(|| self.refuse(name, "a duration such as `\"90s\"` or `\"1m30s\"`", node))
    }

    pub(super) fn texts(&self, name: &'static str) -> Option<Vec<String>> {
        let node = self.read_node(name)?;
        let Value::List(items) = &node.value else {
            return self.refuse(name, "a list of texts", node);
        };
        let item = |item: &PlacedNode| {
            let text = item.scalar().map(str::to_owned);
            text.or_else(|| self.refuse(name, "a list of texts", item))
        };
        items.iter().map(item).collect()
    }

    pub(super) fn map(&self, name: &'static str) -> Option<BTreeMap<String, String>> {
        let node = self.read_node(name)?;
        let Value::Map(entries) = &node.value else {
            return self.refuse(name, "an object of texts, `{ a = \"b\" }`", node);
        };
        let entry = |PlacedEntry { key, node, .. }: &PlacedEntry| {
            let text = node.scalar().map(str::to_owned);
            let text = text.or_else(|| self.refuse(name, "an object of texts", node));
            Some((key.clone(), text?))
        };
        entries.iter().map(entry).collect()
    }

    /// Reads a value of any type.
    pub(super) fn json(&self, name: &'static str) -> Option<Json> {
        Some(json(self.read_node(name)?))
    }

    /// Returns the value of an environment variable.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.shared.environment.get(name)
    }

    /// Returns a block's options. A missing block is empty, so its defaults apply. A second block of the same name is
    /// reported.
    pub(super) fn block(&self, name: &'static str) -> Fields {
        let mut blocks = self.blocks(name);
        if blocks.len() > 1 {
            let what = format!("there is a second `{name}`; only one is allowed here");
            self.shared.sink().add(&blocks[1].known.at, what);
        }
        if blocks.is_empty() {
            let outer = &self.known;
            let name = format!("`{name}` of {}", outer.name);
            let mut known = BlockState::new(name, outer.at.clone(), Body::default());
            known.is_written = false;
            return Fields { known: Rc::new(known), shared: Rc::clone(&self.shared) };
        }
        blocks.swap_remove(0)
    }

    /// Returns all blocks of this name, in the file's order.
    pub(super) fn blocks(&self, name: &'static str) -> Vec<Fields> {
        self.mark_read(name);
        if let Some(attribute) = self.attribute(name) {
            let what = format!("`{name}` is a block, not an option");
            let hint = format!("write `{name} {{ … }}` without `=`");
            self.shared.sink().hint(&attribute.key_at, what, hint);
        }
        let blocks = self.known.blocks.iter().filter(|(ident, _, _)| ident == name);
        let fields = |known: &Rc<BlockState>| Fields {
            known: Rc::clone(known),
            shared: Rc::clone(&self.shared),
        };
        blocks.map(|(_, _, known)| fields(known)).collect()
    }

    /// Reads these options into the body of a request. As in vault-benchmark, empty, zero and false values are left
    /// out.
    pub(super) fn read(&self, fields: &[Field]) -> serde_json::Map<String, Json> {
        let value = |field: &Field| {
            let name = field.name;
            let value = match field.form {
                Form::Text => self.text(name).map(Json::from),
                Form::Whole => self.whole(name).map(Json::from),
                Form::Flag { .. } => self.flag(name).map(Json::from),
                Form::Texts => self.texts(name).map(Json::from),
                Form::Map => self.map(name).map(|map| serde_json::json!(map)),
                Form::Any => self.json(name),
            };
            let variable = || field.variable.and_then(|name| self.variable(name)).map(Json::from);
            // An invalid value is reported already, so do not also report it as missing.
            let is_unread = value.is_none() && self.is_filled(name);
            let value = value.or_else(variable).or_else(|| field.default.json());
            let value = value.filter(|value| !field.leaves_out(value));
            if value.is_none() && field.required && !is_unread {
                self.miss(field);
            }
            Some((name.to_owned(), value?))
        };
        fields.iter().filter_map(value).collect()
    }

    fn is_filled(&self, name: &str) -> bool {
        self.attribute(name).is_some_and(|attribute| !attribute.node.is_null())
    }

    fn miss(&self, field: &Field) {
        let what = format!("{} needs `{}`", self.known.name, field.name);
        let hint = match field.variable {
            Some(variable) => format!("write it there, or set `{variable}`"),
            None => format!("write `{} = …` there", field.name),
        };
        self.shared.sink().hint(&self.known.at, what, hint);
    }
}

impl Field {
    /// Returns true if vault-benchmark leaves this value out of the request.
    fn leaves_out(&self, value: &Json) -> bool {
        match value {
            Json::Null => true,
            Json::Bool(flag) => !flag && self.form == Form::Flag { kept: false },
            Json::Number(number) => number.as_i64() == Some(0),
            Json::String(text) => text.is_empty(),
            Json::Array(_) | Json::Object(_) => false,
        }
    }
}

impl Default {
    fn json(self) -> Option<Json> {
        match self {
            Self::None => None,
            Self::Text(text) => Some(text.into()),
            Self::Whole(number) => Some(number.into()),
            Self::Flag(flag) => Some(flag.into()),
            Self::Texts(texts) => Some(texts.into()),
        }
    }
}

/// Returns the text of a quoted value.
fn quoted(node: &PlacedNode) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, plain: false } => Some(text),
        _ => None,
    }
}

fn json(node: &PlacedNode) -> Json {
    match &node.value {
        // Numbers, flags and `null` have the same notation in HCL and JSON.
        Value::Scalar { text, plain: true } => {
            serde_json::from_str(text).unwrap_or_else(|_| text.clone().into())
        }
        Value::Scalar { text, plain: false } => Json::from(text.clone()),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), json(&entry.node))).collect()
        }
    }
}

#[cfg(test)]
mod tests;
