//! Compares the schemas in `schema/`, and the pages of fields, with what the types yield. `BLESS=1` writes them anew
//! (`cargo xtask bless`).
//!
//! Not here: whether real outputs match the schemas (tests of `bakeoff`), the schema of studies (`bakeoff-core`).

use std::path::Path;

use bakeoff_core::record::chained_line::ChainedLine;
use bakeoff_core::schema::schema_of;
use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::load_json::LoadOutput;
use crate::render::comparison::RunComparisonJson;
use crate::render::history::Run;
use crate::render::json::run::ReportJson;
use crate::render::trend::TrendJson;

/// A page of fields: its file below `docs`, the text before the tables, and the types that it begins with. A type
/// that several pages need stands on the first.
type Page = (&'static str, &'static str, &'static [&'static str]);

/// Returns the text before the tables of a record.
macro_rules! of_record {
    ($title:literal) => {
        concat!(
            "# ",
            $title,
            "\n\n[The record of a run](../record-format.md) explains forms and lines. Fields that are optional are absent \
             without a value.\n"
        )
    };
}

const RECORD_PAGES: &[Page] = &[
    ("record/systems.md", of_record!("Systems of a study"), &["System"]),
    ("record/workloads.md", of_record!("Workloads and loads of a study"), &["Workload", "Load"]),
    ("record/study.md", of_record!("Study of a record"), &["Study", "StudySource"]),
    ("record/machine.md", of_record!("Machine of a run"), &["Environment"]),
    (
        "record/run.md",
        of_record!("Lines of a record besides trials"),
        &["RunHeader", "RunResumed", "RunExtended", "RunEnd"],
    ),
    ("record/measurement.md", of_record!("Measurement of a stage"), &["Measurement"]),
    ("record/samples.md", of_record!("Samples of a trial"), &["TrialSamples"]),
    (
        "record/verification.md",
        of_record!("Audits and checks of a trial"),
        &["Audit", "Check", "Durability", "JudgedHistory"],
    ),
    ("record/trial.md", of_record!("Trial line of a record"), &["TrialRecord"]),
];

const LOAD_PAGES: &[Page] = &[(
    "load-json.md",
    "# `bakeoff load --json`

`--json` prints one object on standard output: `LoadJson`, or for a search (`--find-max`) `SearchJson`.
[schema/load.schema.json](../schema/load.schema.json) is its schema. If a load cannot begin (a wrong flag, a server that
refuses connections, a limit on open files), standard output stays empty, standard error has the reason, and the exit
code its kind. New fields may appear within a `format`. A figure that does not exist is null.

Each trial of `bakeoff run --json` has a `measurement` with the same fields, without histograms.
",
    &["LoadJson", "SearchJson"],
)];

/// Maximum length of a line with an object in an object.
const LINE_MAX: usize = 160;

/// Maximum number of words of a type that are listed where it is used.
const WORDS_INLINE: usize = 8;

/// Compares a generated file with the one in the tree, or writes it if `BLESS` is set.
fn check(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    if kept != text && std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        return;
    }
    assert!(kept == text, "{} has changed; `cargo xtask bless`", path.display());
}

/// Compares the schema of a type with its file, and the tables of its fields with their pages.
fn check_schema<T: JsonSchema>(name: &str, title: &str, pages: &'static [Page]) {
    let schema = schema_of::<T>(title);
    check(&format!("schema/{name}.schema.json"), &format!("{}\n", written(&schema, "")));
    let reference = Reference::new(&schema, pages);
    pages.iter().for_each(|page| check(&format!("docs/{}", page.0), &reference.page(page)));
}

#[test]
fn schemas_follow_from_the_types() {
    check_schema::<ChainedLine>("record", "A line of a bakeoff record", RECORD_PAGES);
    check_schema::<LoadOutput>("load", "`bakeoff load --json`", LOAD_PAGES);
    check_schema::<ReportJson<'_>>("run", "`bakeoff run --json`", &[]);
    check_schema::<RunComparisonJson<'_>>("compare", "`bakeoff compare --json`", &[]);
    check_schema::<Vec<Run>>("history", "`bakeoff history --json`", &[]);
    check_schema::<TrendJson<'_>>("trend", "`bakeoff history --trend STUDY --json`", &[]);
}

/// Writes JSON with a line for each field of a type.
fn written(value: &Value, indent: &str) -> String {
    let short = value.to_string();
    if nesting(value) < 2 || (nesting(value) == 2 && short.len() <= LINE_MAX) {
        return short;
    }
    let deeper = format!("{indent}  ");
    let field = |(name, value): (&String, &Value)| {
        format!("\n{deeper}{}: {}", Value::from(name.as_str()), written(value, &deeper))
    };
    let item = |value: &Value| format!("\n{deeper}{}", written(value, &deeper));
    match value {
        Value::Object(fields) => {
            let fields: Vec<_> = fields.iter().map(field).collect();
            format!("{{{}\n{indent}}}", fields.join(","))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(item).collect();
            format!("[{}\n{indent}]", items.join(","))
        }
        _ => short,
    }
}

/// Returns how many objects and lists stand in each other.
fn nesting(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(nesting).max().unwrap_or_default(),
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or_default(),
        _ => 0,
    }
}

/// The types of a schema, each with its page.
struct Reference<'a> {
    definitions: &'a Map<String, Value>,
    places: Vec<(&'a str, &'static str)>,
}

impl<'a> Reference<'a> {
    fn new(schema: &'a Value, pages: &'static [Page]) -> Self {
        let definitions = schema["$defs"].as_object().unwrap();
        let mut reference = Self { definitions, places: Vec::new() };
        for (page, _, roots) in pages {
            roots.iter().for_each(|root| reference.place(root, page));
        }
        reference
    }

    /// Places a type and all types that it refers to on a page, unless another has them.
    fn place(&mut self, name: &str, page: &'static str) {
        let (name, schema) = self.definitions.get_key_value(name).unwrap();
        let is_placed = self.places.iter().any(|(placed, _)| placed == name);
        if !is_placed && !self.is_inline(name) {
            self.places.push((name, page));
            self.below(schema, page);
        }
    }

    /// Places the types that a schema refers to. Fields of a variant stand in its row.
    fn below(&mut self, schema: &'a Value, page: &'static str) {
        let Value::Object(all) = schema else {
            schema.as_array().into_iter().flatten().for_each(|below| self.below(below, page));
            return;
        };
        if let Some(name) = all.get("$ref").map(target) {
            match all.contains_key("properties") && !self.has_variants(name) {
                true => self.below(&self.definitions[name], page),
                false => self.place(name, page),
            }
        }
        all.values().for_each(|below| self.below(below, page));
    }

    /// Returns true for a type that is described where it is used: a few words, or no object.
    fn is_inline(&self, name: &str) -> bool {
        match words(&self.definitions[name]) {
            Some(words) => words.len() <= WORDS_INLINE,
            None => fields(&self.definitions[name]).is_empty() && !self.has_variants(name),
        }
    }

    fn has_variants(&self, name: &str) -> bool {
        !variants(&self.definitions[name]).is_empty()
    }

    fn page(&self, (page, opening, _): &Page) -> String {
        let mut text = format!("<!-- generated: cargo xtask bless -->\n{opening}");
        for (name, _) in self.places.iter().filter(|(_, at)| at == page) {
            text += &self.section(page, name);
        }
        text
    }

    /// Returns the heading of a type, its description and its table.
    fn section(&self, page: &str, name: &str) -> String {
        let schema = &self.definitions[name];
        let mut text = format!("\n## `{name}`\n\n{}\n\n", description(schema));
        if let Some(words) = words(schema) {
            text += "| value | meaning |\n| --- | --- |\n";
            for (word, meaning) in words {
                text += &format!("| `{word}` | {meaning} |\n");
            }
            return text;
        }
        text += "| field | form | meaning |\n| --- | --- | --- |\n";
        for field in fields(schema) {
            let optional = if field.required { "" } else { ", optional" };
            let form = self.form(page, field.schema);
            text += &format!(
                "| `{}` | {form}{optional} | {} |\n",
                field.name,
                description(field.schema)
            );
        }
        for flat in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            if flat.get("$ref").is_some() {
                text += &format!("| and all of {} | | |\n", self.form(page, flat));
            }
        }
        for variant in variants(schema) {
            let below = variant.get("$ref").map(|to| &self.definitions[target(to)]);
            let all = [Some(variant), below].into_iter().flatten().flat_map(fields);
            let (tags, others): (Vec<_>, Vec<_>) =
                all.partition(|field| field.schema.get("const").is_some());
            let one =
                |field: &Field<'_>| format!("`{}`: {}", field.name, self.form(page, field.schema));
            let [tags, mut others] =
                [tags, others].map(|fields| fields.iter().map(one).collect::<Vec<_>>());
            let nested = variant.get("$ref").filter(|to| self.has_variants(target(to)));
            others.extend(nested.map(|_| format!("and those of {}", self.form(page, variant))));
            let [tags, others] = [tags, others].map(|texts| texts.join("; "));
            let meaning = match description(variant) {
                text if text.is_empty() => below.map(description).unwrap_or_default(),
                text => text,
            };
            text += &match tags.is_empty() {
                true => format!("| {others} | | {meaning} |\n"),
                false => format!("| {tags} | {others} | {meaning} |\n"),
            };
        }
        text
    }

    /// Describes the form of a value in a few words.
    fn form(&self, page: &str, schema: &Value) -> String {
        let either = |forms: &[Value]| {
            let mut forms: Vec<String> = forms.iter().map(|one| self.form(page, one)).collect();
            let last = forms.pop().unwrap_or_default();
            if forms.is_empty() { last } else { format!("{} or {last}", forms.join(", ")) }
        };
        if let Some(to) = schema.get("$ref") {
            let name = target(to);
            let at = self.places.iter().find(|(placed, _)| *placed == name);
            return match at {
                None => self.form(page, &self.definitions[name]),
                Some((_, at)) if *at == page => format!("[`{name}`](#{})", name.to_lowercase()),
                Some((_, at)) => {
                    let file = at.rsplit('/').next().unwrap_or(at);
                    format!("[`{name}`]({file}#{})", name.to_lowercase())
                }
            };
        }
        if let Some(word) = schema.get("const") {
            return format!("`{}`", word.as_str().unwrap());
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            let words: Vec<_> =
                words.iter().map(|word| serde_json::json!({ "const": word })).collect();
            return either(&words);
        }
        if let Some(forms) = ["oneOf", "anyOf"].iter().find_map(|word| schema.get(word)?.as_array())
        {
            return either(forms);
        }
        let of = |schema: Option<&Value>| match schema {
            Some(below) if below.is_object() => format!(" of {}", self.form(page, below)),
            _ => String::new(),
        };
        let one = |kind: &str| match kind {
            "string" => "text".to_owned(),
            "integer" => "whole number".to_owned(),
            "number" => schema.get("format").and_then(Value::as_str).unwrap_or("number").to_owned(),
            "array" if schema.get("items").is_some() => {
                let items = of(schema.get("items"));
                format!("list{items}{}", if items.ends_with("number") { "s" } else { "" })
            }
            "array" => "list".to_owned(),
            "object" => {
                let named = ["properties", "patternProperties"]
                    .iter()
                    .find_map(|word| schema.get(word)?.as_object()?.values().next());
                let keys = schema.get("propertyNames").map(|keys| self.form(page, keys));
                let keys = keys.map(|keys| format!(" by {keys}")).unwrap_or_default();
                format!("object{}{keys}", of(named.or(schema.get("additionalProperties"))))
            }
            other => other.to_owned(),
        };
        match &schema["type"] {
            Value::Array(kinds) => {
                let kinds: Vec<_> = kinds.iter().map(|kind| one(kind.as_str().unwrap())).collect();
                kinds.join(" or ")
            }
            kind => one(kind.as_str().unwrap_or("any value")),
        }
    }
}

/// A field of an object.
struct Field<'a> {
    name: &'a str,
    schema: &'a Value,
    required: bool,
}

/// Returns the fields of an object, the required ones first in the order in which they are written.
fn fields(schema: &Value) -> Vec<Field<'_>> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Vec::new();
    };
    let required = schema.get("required").and_then(Value::as_array);
    let required: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    let place = |name: &str| required.iter().position(|one| *one == name);
    let mut fields: Vec<Field<'_>> = properties
        .iter()
        .map(|(name, schema)| Field { name, schema, required: place(name).is_some() })
        .collect();
    fields.sort_by_key(|field| place(field.name).unwrap_or(usize::MAX));
    fields
}

/// Returns the alternatives of an object, at any depth.
fn variants(schema: &Value) -> Vec<&Value> {
    let words = ["oneOf", "anyOf", "allOf"];
    let below = words.iter().filter_map(|word| schema.get(word)?.as_array()).flatten();
    let one = |variant| match fields(variant).is_empty() {
        true => variants(variant),
        false => vec![variant],
    };
    below.flat_map(one).collect()
}

/// Returns the words of a type that is one of several words, each with its meaning.
fn words(schema: &Value) -> Option<Vec<(&str, String)>> {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return words.iter().map(|word| Some((word.as_str()?, String::new()))).collect();
    }
    let mut all = Vec::new();
    for one in schema.get("oneOf")?.as_array()? {
        match one.get("const") {
            Some(word) => all.push((word.as_str()?, description(one))),
            None => all.extend(words(one)?),
        }
    }
    Some(all)
}

fn description(schema: &Value) -> String {
    schema.get("description").and_then(Value::as_str).unwrap_or_default().replace('|', "\\|")
}

/// Returns the name of the type that a reference leads to.
fn target(reference: &Value) -> &str {
    reference.as_str().and_then(|to| to.strip_prefix("#/$defs/")).unwrap()
}
