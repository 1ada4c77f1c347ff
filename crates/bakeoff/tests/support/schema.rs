//! Validates JSON against the schemas in `schema/`.
//!
//! It knows the keywords of those schemas and rejects all others, so that none is ignored. An external validator would
//! add thirty crates to the build.
//!
//! Not here: the contents of studies (`bakeoff_core::study`).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

/// Keywords without constraints.
const WORDS: [&str; 4] = ["$schema", "$defs", "title", "description"];

/// Schemas by file name.
pub(crate) struct Schemas(BTreeMap<String, Value>);

/// A fault of a value with its path.
struct Fault {
    place: Vec<String>,
    what: String,
}

/// A schema within its file.
#[derive(Clone, Copy)]
struct Subschema<'a> {
    file: &'a str,
    schema: &'a Value,
}

impl Schemas {
    /// Reads all files of `schema/`.
    pub(crate) fn read() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let read = |file: std::fs::DirEntry| {
            let text = std::fs::read_to_string(file.path()).unwrap();
            let name = file.file_name().into_string().unwrap();
            (name, serde_json::from_str(&text).expect("a schema is JSON"))
        };
        Self(files.map(read).collect())
    }

    /// Returns a schema as JSON.
    pub(crate) fn json(&self, name: &str) -> &Value {
        self.0.get(&file(name)).unwrap_or_else(|| panic!("there is no schema `{name}`"))
    }

    /// Returns the faults of a value, one line each.
    pub(crate) fn faults(&self, name: &str, value: &Value) -> Vec<String> {
        let within = Subschema { file: &file(name), schema: self.json(name) };
        let faults = self.check(within, value);
        faults.iter().map(|fault| format!("/{}: {}", fault.place.join("/"), fault.what)).collect()
    }

    /// Panics if a value has faults.
    #[track_caller]
    pub(crate) fn allow(&self, name: &str, value: &Value) {
        let faults = self.faults(name, value);
        assert!(faults.is_empty(), "{name}:\n{}", faults.join("\n"));
    }

    fn check(&self, within: Subschema<'_>, value: &Value) -> Vec<Fault> {
        let keywords = within.schema.as_object().expect("a schema is an object");
        let mut faults = Vec::new();
        for (keyword, demand) in keywords {
            faults.extend(self.keyword(within, keyword, demand, value));
        }
        faults
    }

    fn keyword(
        &self,
        within: Subschema<'_>,
        keyword: &str,
        demand: &Value,
        value: &Value,
    ) -> Vec<Fault> {
        let keep = |kept: bool, what: &dyn Fn() -> String| match kept {
            true => Vec::new(),
            false => vec![Fault { place: Vec::new(), what: what() }],
        };
        let length = || value.as_array().map_or(0, Vec::len) as u64;
        match keyword {
            word if WORDS.contains(&word) => Vec::new(),
            "$ref" => self.check(self.target(within.file, text(demand)), value),
            "type" => {
                let types = demand.as_array().map_or(std::slice::from_ref(demand), Vec::as_slice);
                let is_one = types.iter().any(|one| is_of_type(text(one), value));
                keep(is_one, &|| format!("{} is no {demand}", short(value)))
            }
            "const" => keep(value == demand, &|| format!("{} is not {demand}", short(value))),
            "enum" => {
                let kept = elements(demand).contains(value);
                keep(kept, &|| format!("{} is not one of {demand}", short(value)))
            }
            "minimum" => {
                let kept = value.as_f64() >= demand.as_f64() || !value.is_number();
                keep(kept, &|| format!("{value} is less than {demand}"))
            }
            "minItems" => keep(Some(length()) >= demand.as_u64(), &|| "too few".to_owned()),
            "maxItems" => keep(Some(length()) <= demand.as_u64(), &|| "too many".to_owned()),
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                let each = |(place, item): (usize, &Value)| {
                    self.below(&place.to_string(), Subschema { schema: demand, ..within }, item)
                };
                items.flat_map(each).collect()
            }
            "required" => {
                let is_there = |name: &&Value| value.get(text(name)).is_some();
                let missing = elements(demand).iter().filter(|name| !is_there(name));
                let has = value.as_object().map(|_| missing.map(Value::to_string));
                let missing: Vec<String> = has.into_iter().flatten().collect();
                keep(missing.is_empty(), &|| format!("lacks {}", missing.join(", ")))
            }
            "properties" => {
                let each = |(name, schema): (&String, &Value)| {
                    let value = value.get(name)?;
                    Some(self.below(name, Subschema { schema, ..within }, value))
                };
                fields(demand).iter().filter_map(each).flatten().collect()
            }
            "additionalProperties" => self.additional(within, demand, value),
            "oneOf" | "anyOf" => self.either(within, keyword, elements(demand), value),
            _ => panic!("nothing is known of the keyword `{keyword}` in {}", within.file),
        }
    }

    /// Validates fields that the schema does not name against `additionalProperties`, or rejects them.
    fn additional(&self, within: Subschema<'_>, demand: &Value, value: &Value) -> Vec<Fault> {
        let named = within.schema.get("properties").and_then(Value::as_object);
        let is_named = |name: &String| named.is_some_and(|named| named.contains_key(name));
        let others = value.as_object().into_iter().flatten().filter(|(name, _)| !is_named(name));
        let each = |(name, value): (&String, &Value)| match demand {
            Value::Bool(false) => {
                vec![Fault { place: vec![name.clone()], what: "is not documented".to_owned() }]
            }
            schema => self.below(name, Subschema { schema, ..within }, value),
        };
        others.flat_map(each).collect()
    }

    /// Validates a value against several schemas. Returns the faults of the best fitting one.
    fn either(
        &self,
        within: Subschema<'_>,
        keyword: &str,
        schemas: &[Value],
        value: &Value,
    ) -> Vec<Fault> {
        let each = |schema| self.check(Subschema { schema, ..within }, value);
        let faults: Vec<Vec<Fault>> = schemas.iter().map(each).collect();
        match faults.iter().filter(|faults| faults.is_empty()).count() {
            0 => {
                let depth = |faults: &Vec<Fault>| {
                    faults.iter().map(|fault| fault.place.len()).min().unwrap_or(0)
                };
                let is_other_kind = |faults: &Vec<Fault>| {
                    faults.iter().any(|fault| fault.what.contains(" is not \""))
                };
                let best =
                    faults.into_iter().max_by_key(|faults| (!is_other_kind(faults), depth(faults)));
                best.unwrap_or_default()
            }
            1 => Vec::new(),
            _ if keyword == "anyOf" => Vec::new(),
            _ => vec![Fault { place: Vec::new(), what: "fits several schemas".to_owned() }],
        }
    }

    fn below(&self, step: &str, within: Subschema<'_>, value: &Value) -> Vec<Fault> {
        let mut faults = self.check(within, value);
        faults.iter_mut().for_each(|fault| fault.place.insert(0, step.to_owned()));
        faults
    }

    /// Returns the schema that `#/$defs/a` or `other.schema.json#/$defs/a` refers to.
    fn target<'a>(&'a self, from: &'a str, to: &'a str) -> Subschema<'a> {
        let (file, pointer) = to.split_once('#').expect("a reference has a `#`");
        let file = if file.is_empty() { from } else { file };
        let schema = self.0.get(file).and_then(|schema| schema.pointer(pointer));
        Subschema { file, schema: schema.unwrap_or_else(|| panic!("`{to}` leads nowhere")) }
    }
}

fn file(name: &str) -> String {
    format!("{name}.schema.json")
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64()
                || value.is_u64()
                || value.as_f64().is_some_and(|value| value.fract() == 0.0)
        }
        _ => panic!("there is no type `{name}`"),
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("it is a text")
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().expect("it is a list")
}

fn fields(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("it is an object")
}
