//! Writes mappings and lists as YAML in flow style, which accepts JSON's strings.
//!
//! Not here: a study's fields (`write`, `fault`).

use std::fmt::Display;
use std::time::Duration;

/// Collects the entries of one mapping.
#[derive(Default)]
pub(super) struct Entries(Vec<String>);

impl Entries {
    pub(super) fn add(&mut self, name: &str, value: impl Display) {
        self.0.push(format!("{}: {value}", quoted(name)));
    }

    pub(super) fn option(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// Adds a nested mapping unless it is empty.
    pub(super) fn some(&mut self, name: &str, values: Vec<(&String, String)>) {
        if !values.is_empty() {
            self.add(name, map(values));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn text(self) -> String {
        format!("{{{}}}", self.0.join(", "))
    }
}

pub(super) fn map<K: AsRef<str>>(values: impl IntoIterator<Item = (K, impl Display)>) -> String {
    let mut entries = Entries::default();
    values.into_iter().for_each(|(name, value)| entries.add(name.as_ref(), value));
    entries.text()
}

pub(super) fn list(values: impl IntoIterator<Item = impl Display>) -> String {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    format!("[{}]", values.join(", "))
}

pub(super) fn texts(of: &std::collections::BTreeMap<String, String>) -> Vec<(&String, String)> {
    of.iter().map(|(name, text)| (name, quoted(text))).collect()
}

pub(super) fn duration(of: Duration) -> String {
    quoted(&format!("{}ns", of.as_nanos()))
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
