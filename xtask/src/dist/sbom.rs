//! Writes the bill of materials: each crate that is linked into bakeoff, in the form of CycloneDX 1.6.
//!
//! C code (LuaJIT, mimalloc, ring's assembly) comes inside crates and is listed by them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::VERSION;
use crate::{Failure, cargo};

/// Returns the bill as JSON.
pub(super) fn bill() -> Result<String, Failure> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--locked", "--format-version", "1"]);
    metadata.args(["--filter-platform", "x86_64-unknown-linux-musl"]);
    metadata.args(["--features", "bakeoff/portable"]);
    let output = metadata.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("`cargo metadata` printed no JSON: {error}"))?;
    let bill = bill_of(&metadata).ok_or("`cargo metadata` has no package `bakeoff`")?;
    serde_json::to_string_pretty(&bill).map_err(|error| error.to_string())
}

fn bill_of(metadata: &Value) -> Option<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array()?;
    let packages: BTreeMap<String, &Value> =
        packages.iter().map(|package| (text(&package["id"]), package)).collect();
    let nodes = metadata["resolve"]["nodes"].as_array()?;
    let needs: BTreeMap<String, Vec<String>> =
        nodes.iter().map(|node| (text(&node["id"]), linked(node))).collect();
    let own = packages.iter().find(|(_, package)| package["name"] == "bakeoff")?.0.clone();
    let mut seen = BTreeSet::from([own.clone()]);
    let mut next = vec![own.clone()];
    while let Some(id) = next.pop() {
        next.extend(
            needs.get(&id).into_iter().flatten().filter(|id| seen.insert((*id).clone())).cloned(),
        );
    }
    let url = |id: &String| {
        let package = packages.get(id)?;
        Some(format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"])))
    };
    let mut components: Vec<Value> = seen
        .iter()
        .filter(|id| **id != own)
        .filter_map(|id| {
            let package = packages.get(id)?;
            let mut component = json!({
                "type": "library",
                "bom-ref": url(id)?,
                "purl": url(id)?,
                "name": package["name"],
                "version": package["version"],
            });
            if let Some(license) = package["license"].as_str() {
                // Old crates separate alternatives by a slash, which SPDX does not know.
                let expression = license.replace('/', " OR ");
                component["licenses"] = json!([{"expression": expression}]);
            }
            Some(component)
        })
        .collect();
    components.sort_by_key(|component| text(&component["purl"]));
    let mut dependencies: Vec<Value> = seen
        .iter()
        .filter_map(|id| {
            let mut on: Vec<String> = needs.get(id).into_iter().flatten().filter_map(url).collect();
            on.sort();
            Some(json!({"ref": url(id)?, "dependsOn": on}))
        })
        .collect();
    dependencies.sort_by_key(|dependency| text(&dependency["ref"]));
    let own_url = url(&own)?;
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": own_url, "purl": own_url,
            "name": "bakeoff", "version": VERSION,
        }},
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Returns the crates that a crate links, without those of build scripts and tests.
fn linked(node: &Value) -> Vec<String> {
    let dependencies = node["deps"].as_array().into_iter().flatten();
    let is_linked = |one: &&Value| {
        one["dep_kinds"]
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    dependencies.filter(is_linked).filter_map(|one| Some(one["pkg"].as_str()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bill_lists_linked_crates_and_no_build_scripts() {
        let package = |name: &str| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0"});
        let needs = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("bakeoff"), package("serde"), package("cc"), package("unused")],
            "resolve": {"nodes": [
                {"id": "bakeoff", "deps": [needs("serde", Value::Null), needs("cc", json!("build"))]},
                {"id": "serde", "deps": []}, {"id": "cc", "deps": []}, {"id": "unused", "deps": []},
            ]},
        });
        let bill = bill_of(&metadata).unwrap();
        let names: Vec<&Value> =
            bill["components"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["serde"]);
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(
            bill["dependencies"][0],
            json!({"ref": "pkg:cargo/bakeoff@1.0.0", "dependsOn": ["pkg:cargo/serde@1.0.0"]})
        );
        assert_eq!(bill_of(&json!({"packages": []})), None);
    }
}
