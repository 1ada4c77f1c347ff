//! Makes a test of seats for each system that has cases, out of the folders of `bakeoff-systems`.
//!
//! Each runs beside the others and can be chosen by its name, and a new system needs no line for it.
//!
//! Not here: the list of systems (`bakeoff-systems/build.rs`).

#![allow(clippy::disallowed_macros, reason = "cargo reads from it what to watch")]

use std::path::Path;
use std::{env, fs};

const SYSTEMS: &str = "../bakeoff-systems/src";

fn main() {
    // A new system is a line in it.
    println!("cargo::rerun-if-changed={SYSTEMS}/lib.rs");
    let entries = fs::read_dir(SYSTEMS).expect("the folders of the systems can be listed");
    let folders = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let has_cases = |name: &String| {
        let contract = format!("{SYSTEMS}/{name}/contract.json");
        println!("cargo::rerun-if-changed={contract}");
        fs::read_to_string(contract).is_ok_and(|text| text.contains("\"systems\":"))
    };
    let test = |name: &String| {
        format!("#[test] fn {name}() {{ super::runs_at_three_addresses(\"{name}\"); }}\n")
    };
    let tests: String = folders.filter(has_cases).map(|name| test(&name)).collect();
    let out = env::var("OUT_DIR").expect("cargo names a folder");
    fs::write(Path::new(&out).join("seated_tests.rs"), tests).expect("the tests can be written");
}
