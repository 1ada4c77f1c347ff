//! Makes the list of systems from the lines of the registry, so that one line makes a system exist.
//!
//! The lines are the modules with a folder in `src/lib.rs`; a folder's `SYSTEM` is what the list holds. A macro could
//! do it too, but `cargo fmt` does not find the files of modules in one.

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
