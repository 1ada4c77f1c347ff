//! Makes the list of systems from the lines of the registry, so that one line makes a system exist, and a test of
//! seats for each that has cases.
//!
//! The lines are the public modules with a folder in `src/systems/mod.rs`; a folder's `SYSTEM` is what
//! the list holds. A macro could do it too, but `cargo fmt` does not find the files of modules in one.

#![allow(clippy::disallowed_macros, reason = "so cargo is told what to watch")]

use std::path::Path;
use std::{env, fs};

const SYSTEMS: &str = "src/systems";

fn main() {
    let lines = format!("{SYSTEMS}/mod.rs");
    println!("cargo::rerun-if-changed={lines}");
    let text = fs::read_to_string(&lines).expect("the registry can be read");
    let module =
        |line: &str| Some(line.strip_prefix("pub(crate) mod ")?.strip_suffix(';')?.to_owned());
    let is_folder = |name: &String| Path::new(SYSTEMS).join(name).is_dir();
    let systems: Vec<String> = text.lines().filter_map(module).filter(is_folder).collect();
    let list: String = systems.iter().map(|name| format!("{name}::SYSTEM, ")).collect();
    let out = env::var("OUT_DIR").expect("cargo names a folder");
    let out = Path::new(&out);
    fs::write(out.join("registry.rs"), format!("&[{list}]")).expect("the list can be written");
    let has_cases = |name: &&String| {
        let contract = format!("{SYSTEMS}/{name}/contract.json");
        println!("cargo::rerun-if-changed={contract}");
        fs::read_to_string(contract).is_ok_and(|text| text.contains("\"systems\":"))
    };
    let test = |name: &String| {
        format!("#[test] fn {name}() {{ super::runs_at_three_addresses(\"{name}\"); }}\n")
    };
    let tests: String = systems.iter().filter(has_cases).map(test).collect();
    fs::write(out.join("seated_tests.rs"), tests).expect("the tests can be written");
}
