//! Validates JSON against the schemas in `schema/`.
//!
//! Not here: the contents of studies (`bakeoff_core::study`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Registry, ValidationError, Validator};
use serde_json::Value;

/// Schemas by name: `record`, `run`.
static SCHEMAS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let file = entry.file_name().into_string().unwrap();
        let name = file.strip_suffix(".schema.json").expect("a schema's name");
        (name.to_owned(), serde_json::from_str(&text).expect("a schema is JSON"))
    };
    std::fs::read_dir(folder).unwrap().map(read).collect()
});

/// Validators by the names of their schemas, which refer to each other by file name.
static VALIDATORS: LazyLock<BTreeMap<&str, Validator>> = LazyLock::new(|| {
    let address = |name: &str| format!("file:///{name}.schema.json");
    let all = SCHEMAS.iter().fold(Registry::new(), |all, (name, schema)| {
        all.add(address(name), schema).expect("a schema's address")
    });
    let registry = all.prepare().expect("schemas that refer to each other");
    let validator = |(name, schema): (&'static String, &Value)| {
        let options = jsonschema::options().with_base_uri(address(name)).with_registry(&registry);
        (name.as_str(), options.build(schema).unwrap())
    };
    SCHEMAS.iter().map(validator).collect()
});

/// Returns a schema as JSON.
pub(crate) fn json(name: &str) -> &'static Value {
    &SCHEMAS[name]
}

/// Returns the faults of a value, one line each.
pub(crate) fn faults(name: &str, value: &Value) -> Vec<String> {
    VALIDATORS[name].iter_errors(value).flat_map(|fault| lines(&fault)).collect()
}

/// Describes a fault; if no alternative fits, the faults of the one with the right constants.
fn lines(fault: &ValidationError<'_>) -> Vec<String> {
    use ValidationErrorKind::{AnyOf, Constant, OneOfNotValid};
    let line = || vec![format!("{}: {fault}", fault.instance_path())];
    match fault.kind() {
        AnyOf { context } | OneOfNotValid { context } => {
            let is_other = |one: &ValidationError<'_>| matches!(one.kind(), Constant { .. });
            let mut alternatives = context.iter().filter(|faults| !faults.iter().any(is_other));
            let best = alternatives.next();
            best.map_or_else(line, |faults| faults.iter().flat_map(lines).collect())
        }
        _ => line(),
    }
}

/// Panics if a value has faults.
#[track_caller]
pub(crate) fn allow(name: &str, value: &Value) {
    let faults = faults(name, value);
    assert!(faults.is_empty(), "{name}:\n{}", faults.join("\n"));
}
