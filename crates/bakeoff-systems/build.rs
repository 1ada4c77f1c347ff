//! Generates the list of systems from the registry, so that one line adds a system.
//!
//! The registry is the list of `pub(crate) mod` lines in `src/lib.rs`. The generated list holds each module's
//! `SYSTEM`. A macro could do this too, but `cargo fmt` would not find the module files.

#![allow(clippy::disallowed_macros, reason = "cargo reads from it what to watch")]

use std::path::Path;
use std::{env, fs};

const SOURCE: &str = "src";

fn main() {
    let lines = format!("{SOURCE}/lib.rs");
    println!("cargo::rerun-if-changed={lines}");
    let text = fs::read_to_string(&lines).expect("the registry can be read");
    let module =
        |line: &str| Some(line.strip_prefix("pub(crate) mod ")?.strip_suffix(';')?.to_owned());
    let is_folder = |name: &String| Path::new(SOURCE).join(name).is_dir();
    let systems = text.lines().filter_map(module).filter(is_folder);
    let list: String = systems.map(|name| format!("{name}::SYSTEM, ")).collect();
    let out = env::var("OUT_DIR").expect("cargo names a folder");
    fs::write(Path::new(&out).join("registry.rs"), format!("&[{list}]"))
        .expect("the list can be written");
}
