//! Generates a location test for each system with cases, from the folders of `bakeoff-systems`.
//!
//! The tests run in parallel and can be selected by name, and a new system needs no line here.
//!
//! Not here: the list of systems (`bakeoff-systems/build.rs`).

#![allow(clippy::disallowed_macros, reason = "cargo reads its instructions from stdout")]

use std::path::Path;
use std::{env, fs};

const SYSTEMS: &str = "../bakeoff-systems/src";

fn main() {
    // A new system adds a line to this file.
    println!("cargo::rerun-if-changed={SYSTEMS}/lib.rs");
    let entries = fs::read_dir(SYSTEMS).expect("the folders of the systems can be listed");
    let folders = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let has_cases = |name: &String| {
        let contract = format!("{SYSTEMS}/{name}/contract.json");
        if !Path::new(&contract).is_file() {
            return false; // cargo would run this again at each build, waiting for the file
        }
        println!("cargo::rerun-if-changed={contract}");
        fs::read_to_string(contract).is_ok_and(|text| text.contains("\"systems\":"))
    };
    let test = |name: &String| {
        format!("#[test] fn {name}() {{ super::runs_at_three_addresses(\"{name}\"); }}\n")
    };
    let tests: String = folders.filter(has_cases).map(|name| test(&name)).collect();
    let out = env::var("OUT_DIR").expect("cargo names a folder");
    fs::write(Path::new(&out).join("located_tests.rs"), tests).expect("the tests can be written");
}
