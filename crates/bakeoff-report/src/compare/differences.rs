//! Describes the differences between two values: `values.size: 1024 -> 256`.
//!
//! The values are parts of a record's header, as serde writes them. The text contains no JSON.
//!
//! Not here: the choice of parts (`compare`, `gate`).

use std::collections::{BTreeMap, BTreeSet};

use bakeoff_core::units::shown;
use serde_json::Value;

/// Appends each path at which two values differ, with both values.
pub(super) fn unlike(place: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    if one == other {
        return;
    }
    if let (Some(ours), Some(theirs)) = (fields(one), fields(other)) {
        let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        for name in names {
            let below = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
            let of = |fields: &BTreeMap<String, &Value>| fields.get(name).copied().cloned();
            let (ours, theirs) = (of(&ours), of(&theirs));
            unlike(&below, &ours.unwrap_or_default(), &theirs.unwrap_or_default(), found);
        }
        return;
    }
    let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
    found.push(format!("{place}{} -> {}", shown(&words(one)), shown(&words(other))));
}

/// Returns the parts of a value by name: an object's fields, or a list's named items. For a setting, only its value
/// counts.
fn fields(value: &Value) -> Option<BTreeMap<String, &Value>> {
    match value {
        Value::Object(fields) => {
            Some(fields.iter().map(|(name, value)| (name.clone(), value)).collect())
        }
        Value::Array(items) => items.iter().map(named).collect(),
        _ => None,
    }
}

/// Returns the name and the value of an item of a list.
fn named(item: &Value) -> Option<(String, &Value)> {
    let name = item.get("name")?.as_str()?;
    Some((name.to_owned(), item.get("value").unwrap_or(item)))
}

/// Formats a value: `nothing`, `yes`, `1024`, `after 10`, `a, b`.
fn words(value: &Value) -> String {
    let joined = |parts: Vec<String>| {
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
    };
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            let text = number.to_string();
            text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
        }
        Value::Array(items) => joined(items.iter().map(words).collect()),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{name} {}", words(value));
            joined(fields.iter().map(field).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(one: Value, other: Value, expected: &[&str]) {
        let mut found = Vec::new();
        unlike("", &one, &other, &mut found);
        assert_eq!(found, expected);
    }

    #[test]
    fn differences_are_named_without_json() {
        check(json!({"a": 1}), json!({"a": 1}), &[]);
        check(json!("0.1"), json!("0.2"), &["0.1 -> 0.2"]);
        check(
            json!({"in_flight": 1, "keep_alive": true, "keys": {"count": 5}}),
            json!({"in_flight": 2.0, "keep_alive": false, "keys": {"count": 9}}),
            &["in_flight: 1 -> 2", "keep_alive: yes -> no", "keys.count: 5 -> 9"],
        );
        check(
            json!({"stop": {"after": 10.0}, "arrivals": "closed"}),
            json!({"stop": {"operations": 5}, "arrivals": {"poisson": {"rate": 10.5}}}),
            &[
                "arrivals: closed -> poisson rate 10.5",
                "stop.after: 10 -> nothing",
                "stop.operations: nothing -> 5",
            ],
        );
        check(json!({"clients": [1, 2]}), json!({"clients": []}), &["clients: 1, 2 -> nothing"]);
    }

    #[test]
    fn settings_are_compared_by_name() {
        let settings = |of: &[(&str, &str)]| {
            let one = |(name, value): &(&str, &str)| json!({"name": name, "value": value, "reason": format!("for {value}")});
            json!({"settings": of.iter().map(one).collect::<Vec<_>>()})
        };
        check(
            settings(&[("delay", "2ms"), ("nodes", "3"), ("sync", "none")]),
            settings(&[("sync", "none"), ("delay", "5ms")]),
            &["settings.delay: 2ms -> 5ms", "settings.nodes: 3 -> nothing"],
        );
        let parts = |version: &str| json!({"parts": [{"name": "a-storage", "version": version}]});
        check(parts("1"), parts("2"), &["parts.a-storage.version: 1 -> 2"]);
    }
}
