//! Generates the JSON Schema of studies, for editors and other programs, from the tables that the parser uses.
//!
//! The schema covers names, forms and bounds. Only the parser checks combinations of fields, and the abilities of
//! each kind of system.

use serde_json::{Map, Value, json};

use super::field::{Field, Form, NAME_PATTERN, NAMES_MAX, Requirement, STAGES_MAX, Table};
use super::fields;
use crate::statuses::{STATUS_MAX, STATUS_MIN};

/// Pattern of a size as text.
const SIZE_PATTERN: &str = r"^[0-9]+(\.[0-9]+)? *(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)?$";
const DURATION_PATTERN: &str = r"^([0-9]+(\.[0-9]+)? *(h|m|s|ms|us|µs|ns) *)+$";
/// Pattern of a rate as text.
const RATE_PATTERN: &str = r"^[0-9]+(\.[0-9]+)? *(/s|/m|/h)?$";
/// Pattern of a share as text.
const SHARE_PATTERN: &str = r"^[0-9]+(\.[0-9]+)? *%$";
const PERCENT_PATTERN: &str = r"^[0-9]+ *%$";
/// Pattern of statuses as text.
const STATUS_PATTERN: &str =
    "^ *[2-9](xx|[0-9]{2}( *- *[2-9][0-9]{2})?) *(, *[2-9](xx|[0-9]{2}( *- *[2-9][0-9]{2})?) *)*$";
/// Pattern of a text that is not empty.
const TEXT_PATTERN: &str = r"\S";

/// Returns the schema in `schema/study.schema.json`.
pub fn schema() -> Value {
    let mut definitions = Map::new();
    let mut root = object(&fields::STUDY, &mut definitions);
    if let Value::Object(root) = &mut root {
        root.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        root.insert("title".into(), json!("bakeoff study"));
        root.insert("$defs".into(), Value::Object(definitions));
    }
    root
}

/// Returns the text of the schema file.
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}

fn object(table: &Table, definitions: &mut Map<String, Value>) -> Value {
    let always = |field: &&Field| matches!(field.given, Requirement::Always);
    let required: Vec<_> = table.fields.iter().filter(always).map(|field| field.name).collect();
    let mut properties = Map::new();
    for field in table.fields {
        let mut schema = form(&field.form, definitions);
        if let Value::Object(schema) = &mut schema {
            schema.insert("description".into(), json!(field.meaning));
            if let Requirement::Default(text) = field.given {
                let value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
                schema.insert("default".into(), value);
            }
        }
        properties.insert(field.name.into(), schema);
    }
    let mut object = json!({
        "type": "object",
        "description": table.meaning,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    if !table.one_of.is_empty() {
        let sets = table.one_of.iter().map(|names| json!({ "required": names }));
        object["oneOf"] = sets.collect();
    }
    object
}

fn form(wanted: &Form, definitions: &mut Map<String, Value>) -> Value {
    match wanted {
        // YAML reads `2026` and `true` as other types; here they are text as written.
        Form::Text => json!({"type": ["string", "number", "boolean"], "pattern": TEXT_PATTERN}),
        Form::AsWritten => json!({"type": ["string", "number", "boolean"]}),
        Form::Flag => json!({"type": "boolean"}),
        Form::Word(words) => json!({"enum": words}),
        Form::Whole { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Form::Number { min, from_min, max } => {
            let from = if *from_min { "minimum" } else { "exclusiveMinimum" };
            json!({"type": "number", from: min, "maximum": max})
        }
        Form::Size { min, max } => json!({"anyOf": [
            {"type": "integer", "minimum": min, "maximum": max},
            {"type": "string", "pattern": SIZE_PATTERN},
        ]}),
        Form::Duration { .. } => json!({"type": "string", "pattern": DURATION_PATTERN}),
        Form::Rate => json!({"anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1_000_000_000},
            {"type": "string", "pattern": RATE_PATTERN},
        ]}),
        Form::Share => json!({"anyOf": [
            {"type": "number", "minimum": 0, "maximum": 1},
            {"type": "string", "pattern": SHARE_PATTERN},
        ]}),
        Form::Status => json!({"anyOf": [
            {"type": "integer", "minimum": STATUS_MIN, "maximum": STATUS_MAX},
            {"type": "string", "pattern": STATUS_PATTERN},
        ]}),
        Form::Percent => json!({"type": "string", "pattern": PERCENT_PATTERN}),
        Form::OneOrMany(one) => {
            let one = form(one, definitions);
            let many =
                json!({"type": "array", "items": one, "minItems": 1, "maxItems": STAGES_MAX});
            json!({ "anyOf": [one, many] })
        }
        Form::List(one) => {
            json!({"type": "array", "items": form(one, definitions), "minItems": 1})
        }
        Form::Table(table) => {
            if !definitions.contains_key(table.name) {
                let schema = object(table, definitions);
                definitions.insert(table.name.into(), schema);
            }
            json!({"$ref": format!("#/$defs/{}", table.name)})
        }
        Form::Named(one) => json!({
            "type": "object",
            "propertyNames": {"pattern": NAME_PATTERN},
            "additionalProperties": form(one, definitions),
            "minProperties": 1,
            "maxProperties": NAMES_MAX,
        }),
        Form::Open(one) => {
            json!({"type": "object", "additionalProperties": form(one, definitions)})
        }
        Form::Keyed(words, one) => {
            let one = form(one, definitions);
            let properties: Map<_, _> =
                words.iter().map(|word| ((*word).to_owned(), one.clone())).collect();
            json!({
                "type": "object",
                "properties": properties,
                "additionalProperties": false,
                "minProperties": 1,
            })
        }
        Form::Either(forms) => {
            let forms: Vec<_> = forms.iter().map(|one| form(one, definitions)).collect();
            json!({ "anyOf": forms })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::study::diagnostic::Diagnostics;
    use crate::study::fields::STUDY;
    use crate::study::parse;
    use crate::study::parse::tests::{BASE, EVERY_FAULT, EVERY_FIELD};
    use crate::study::reference::tables;
    use crate::study::shipped::shipped;
    use crate::study::testing::kinds;
    use crate::study::tree::{self, DiagnosticSink, Node};

    fn tree(text: &str) -> Node {
        let mut sink = DiagnosticSink::new("my.yaml", text);
        tree::read(text, &mut sink).expect("YAML")
    }

    /// Returns the value of a node under YAML 1.2.
    fn value(node: &Node) -> Value {
        match &node.value {
            tree::Value::Scalar { text, plain: true } => {
                serde_json::from_str(text).unwrap_or_else(|_| json!(text))
            }
            tree::Value::Scalar { text, plain: false } => json!(text),
            tree::Value::List(items) => items.iter().map(value).collect(),
            tree::Value::Map(entries) => {
                let pair = |entry: &tree::Entry| (entry.key.clone(), value(&entry.node));
                Value::Object(entries.iter().map(pair).collect())
            }
        }
    }

    /// Returns true if `value` matches `schema`.
    fn accepts(schema: &Value, value: &Value) -> bool {
        jsonschema::is_valid(schema, value)
    }

    fn read(text: &str) -> Result<(), Diagnostics> {
        parse("my", "my.yaml", text, &kinds()).map(|_| ())
    }

    #[test]
    fn schema_file_matches_the_parser_tables() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/study.schema.json");
        let kept = || std::fs::read_to_string(&path).unwrap_or_default();
        if kept() != schema_text() && std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(&path, schema_text()).expect("the schema is written");
        }
        assert!(kept() == schema_text(), "the schema has changed; `cargo xtask bless`");
    }

    #[test]
    fn schema_accepts_studies_that_parse() {
        let texts = shipped().iter().map(|(_, text)| *text).chain([BASE, EVERY_FIELD, EVERY_FAULT]);
        for text in texts {
            assert_eq!(read(text), Ok(()));
            assert!(accepts(&schema(), &value(&tree(text))), "refused by the schema: {text}");
        }
    }

    #[test]
    fn schema_rejects_detectable_faults() {
        let spoilt = [
            ("title: t", "titel: t"),
            ("title: t", "title: [t]"),
            ("title: t", "title: t\ntrials: 0"),
            ("kind: etcd", "sort: etcd"),
            ("{put: 1}", "{}"),
            ("{put: 1}", "{puts: 1}"),
            ("{put: 1}", "{put: -1}"),
            ("{count: 100}", "{count: 100, order: random}"),
            ("{count: 100}", "{count: 100, order: {zipfian: 0}}"),
            ("{count: 100}", "{count: 100, size: 0}"),
            ("{count: 100}", "{count: 100, size: 64kb}"),
            ("{count: 100}", "{count: 100}\n    fill: yes"),
            ("clients: 2", "clinets: 2"),
            ("clients: 2", "clients: [0]"),
            ("clients: 2", "clients: 2\n    rate: fast"),
            ("clients: 2", "clients: 2\n    rate: 0"),
            ("clients: 2", "clients: 2\n    targets: follower"),
            ("  steady:", "  Steady:"),
            ("{after: 1s}", "{after: 1}"),
            ("{after: 1s}", "{after: 1s, operations: 10}"),
            ("{after: 1s}", "{}"),
        ];
        for (from, to) in spoilt {
            let text = BASE.replacen(from, to, 1);
            assert!(read(&text).is_err(), "accepted by parse: {to}");
            assert!(!accepts(&schema(), &value(&tree(&text))), "accepted by the schema: {to}");
        }
    }

    #[test]
    fn study_with_every_field_is_parsed() {
        fn visit(wanted: &Form, node: &Node, seen: &mut BTreeSet<(&str, &str)>) {
            match (wanted, &node.value) {
                (Form::Table(table), tree::Value::Map(entries)) => {
                    for entry in entries {
                        let field = table.fields.iter().find(|field| field.name == entry.key);
                        let field = field.expect("a known field");
                        seen.insert((table.name, field.name));
                        visit(&field.form, &entry.node, seen);
                    }
                }
                (Form::Named(one) | Form::Open(one), tree::Value::Map(entries)) => {
                    entries.iter().for_each(|entry| visit(one, &entry.node, seen));
                }
                (Form::List(one), tree::Value::List(items)) => {
                    items.iter().for_each(|item| visit(one, item, seen));
                }
                (Form::Either(forms), tree::Value::Map(_)) => {
                    let tables = forms.iter().filter(|form| matches!(form, Form::Table(_)));
                    tables.for_each(|form| visit(form, node, seen));
                }
                _ => {}
            }
        }
        let mut seen = BTreeSet::new();
        for text in [EVERY_FIELD, EVERY_FAULT] {
            visit(&Form::Table(&STUDY), &tree(text), &mut seen);
        }
        for table in tables() {
            for field in table.fields {
                assert!(seen.contains(&(table.name, field.name)), "{} {}", table.name, field.name);
            }
            assert!(table.name == "study" || schema()["$defs"].get(table.name).is_some());
        }
        assert_eq!(read(EVERY_FIELD), Ok(()));
    }

    #[test]
    fn every_example_in_a_hint_is_valid() {
        for field in tables().iter().flat_map(|table| table.fields) {
            let example = value(&tree(field.example));
            let mut definitions = Map::new();
            let form = form(&field.form, &mut definitions);
            let schema = json!({"allOf": [form], "$defs": definitions});
            assert!(accepts(&schema, &example), "{}", field.name);
        }
    }
}
