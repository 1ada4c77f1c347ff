//! Generates JSON Schemas of what bakeoff writes, from the types that it writes.
//!
//! Doc comments become descriptions, so they describe fields to users too. A schema does not forbid other fields:
//! formats may grow. Only tests need schemas, so the feature `schema` is off in the program.
//!
//! Not here: the schema of studies (`study::schema`), the files and tables (tests of `bakeoff-report`).

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

/// Format of a number of seconds.
const SECONDS: &str = "seconds";

/// Returns the schema of what is written for a type.
pub fn schema_of<T: JsonSchema>(title: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let tidied = settings.with_transform(RecursiveTransform(tidy));
    let mut schema = tidied.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}

/// Stands for a duration, which is written as a number of seconds.
pub struct DurationSeconds;

impl JsonSchema for DurationSeconds {
    fn schema_name() -> Cow<'static, str> {
        SECONDS.into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "format": SECONDS})
    }
}

/// Stands for a map whose keys are words of a type.
pub struct KeyedMap<K, V>(PhantomData<(K, V)>);

impl<K: JsonSchema, V: JsonSchema> JsonSchema for KeyedMap<K, V> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}_by_{}", V::schema_name(), K::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": generator.subschema_for::<K>(),
            "additionalProperties": generator.subschema_for::<V>(),
        })
    }
}

/// Stands for a flattened type, whose fields a schema then refers to instead of repeating them.
pub struct Flat<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for Flat<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"allOf": [generator.subschema_for::<T>()]})
    }
}

/// Removes words of Rust from one level of a schema.
fn tidy(schema: &mut Schema) {
    if schema.get("format").is_some_and(|format| format != SECONDS) {
        schema.remove("format");
    }
    schema.remove("default");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = description(text, "absent");
    }
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| {
        required.as_array().is_some_and(|names| names.iter().any(|one| one.as_str() == Some(name)))
    };
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        let Some(property) = property.as_object_mut() else { continue };
        let none = if is_required(name) { "null" } else { "absent" };
        if let Some(Value::String(text)) = property.get_mut("description") {
            *text = description(text, none);
        }
        if !is_required(name) {
            remove_null(property);
        }
    }
}

/// Removes null from the types of a field that is absent without a value.
fn remove_null(property: &mut Map<String, Value>) {
    let is_null = |one: &Value| one == "null" || one.get("type").is_some_and(|kind| kind == "null");
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|one| !is_null(one));
        if let [one] = types.as_slice() {
            let one = one.clone();
            property.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(forms)) = property.get_mut("anyOf") {
        forms.retain(|one| !is_null(one));
        if let [Value::Object(one)] = forms.as_mut_slice() {
            let one = std::mem::take(one);
            property.remove("anyOf");
            property.extend(one);
        }
    }
}

/// Rewrites a doc comment for readers of JSON: its first paragraph in one line, without links of rustdoc. `none` is
/// the word for `None`.
fn description(comment: &str, none: &str) -> String {
    let paragraph = comment.split("\n\n").next().unwrap_or_default();
    let mut text = String::new();
    let mut rest = &*paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    while let Some((before, name, after)) = link(rest) {
        rest = after;
        if let (Some(before), Some(after)) = (before.strip_suffix(" ("), after.strip_prefix(')')) {
            // A link in parentheses leads readers of the code to more.
            text += before;
            rest = after;
            continue;
        }
        text += before;
        text += "`";
        text += name.rsplit("::").next().unwrap_or(name);
        text += "`";
    }
    text += rest;
    let mut first = none.to_owned();
    first[..1].make_ascii_uppercase();
    if let Some(rest) = text.strip_prefix("`None`") {
        text = format!("{first}{rest}");
    }
    text.replace(". `None`", &format!(". {first}")).replace("`None`", none)
}

/// Finds the first link of rustdoc: the text before it, its name, and the text after it.
fn link(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("[`")?;
    let (name, after) = rest.split_once("`]")?;
    let target = after.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    Some((before, name, target.map_or(after, |(_, after)| after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_have_no_words_of_rust() {
        assert_eq!(
            description(
                "At most 9 ([`MAX`](super::MAX)) of\n[`Self::of`]; `None` if unknown. `None` in\nall.\n\nMore.",
                "null"
            ),
            "At most 9 of `of`; null if unknown. Null in all."
        );
    }
}
