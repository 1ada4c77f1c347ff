//! The table of systems in the documents, derived from the registry and compared with it.
//!
//! Any document may hold it, between two marks; `docs/systems.md` must. `BLESS=1` writes it anew
//! (`cargo xtask bless`).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use bakeoff_core::study::{Kind, KindOption, OptionForm};

use super::declaration::Origin;
use super::{System, registry};

const BEGIN: &str = "<!-- systems: begin -->";
const END: &str = "<!-- systems: end -->";

/// One section a system, in the registry's order.
fn table() -> String {
    let mut text = String::new();
    for system in registry() {
        section(*system, &mut text);
    }
    text
}

fn section(system: &dyn System, text: &mut String) {
    let kind = system.kind();
    let guarantees = system.guarantees(&crate::commands::catalogue::plain(kind.name));
    let operations: Vec<&str> = kind.operations.iter().map(|operation| operation.name()).collect();
    let reads: Vec<&str> = kind.reads.iter().map(|reads| reads.name()).collect();
    let nodes = if kind.nodes_max == 1 { "1".into() } else { format!("1 to {}", kind.nodes_max) };
    let _ = writeln!(text, "## {}\n\n| | |\n| --- | --- |", kind.name);
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "| {name} | {value} |");
    };
    if kind.is_part() {
        row("is", "only ever a part of other systems");
    }
    if let Some(service) = kind.emulates {
        row("emulates", service);
    }
    row("replication", &guarantees.replication);
    row("acknowledges a write", &guarantees.acknowledged);
    row("reads", &guarantees.reads);
    if !kind.is_part() {
        if !reads.is_empty() {
            row("`reads:` in a study", &reads.join(", "));
        }
        row("operations", &operations.join(", "));
    }
    row("nodes", &nodes);
    if !kind.is_part() {
        if kind.value_size_max < u64::MAX {
            row("largest value", &format!("{} bytes", kind.value_size_max));
        }
        row("operations in flight on one session", &kind.in_flight_max.to_string());
    }
    row("can come from", &sources(system));
    text.push('\n');
    options("option", kind.options, text);
    options("`with:` of a workload", kind.parameters, text);
    parts(&kind, text);
}

/// The parts that it may have.
fn parts(kind: &Kind, text: &mut String) {
    if kind.roles.is_empty() {
        return;
    }
    text.push_str("| part | kinds | what it does |\n| --- | --- | --- |\n");
    for role in kind.roles {
        let kinds = role.kinds.join(" or ");
        let _ = writeln!(text, "| `{}` | {kinds} | {} |", role.name, role.meaning);
    }
    text.push('\n');
}

fn options(what: &str, options: &[KindOption], text: &mut String) {
    if options.is_empty() {
        return;
    }
    let _ = writeln!(text, "| {what} | value | meaning |\n| --- | --- | --- |");
    for option in options {
        let form = match &option.form {
            OptionForm::Word(words) => words.join(" or "),
            OptionForm::Number => "a whole number".into(),
            OptionForm::Size => "a size: `1GiB`".into(),
            OptionForm::Duration => "a duration: `500ms`".into(),
            OptionForm::Share => "a share: `1%`".into(),
            OptionForm::Text => "text".into(),
        };
        let _ = writeln!(text, "| `{}` | {form} | {} |", option.name, option.meaning);
    }
    text.push('\n');
}

fn sources(system: &dyn System) -> String {
    let recipe = match system.declares().origin {
        Origin::Recipe(recipe) => recipe,
        Origin::Bakeoff => return "it is part of bakeoff".to_owned(),
        Origin::Study(words) => return words.to_owned(),
    };
    let titles: Vec<String> = recipe.sources.iter().map(|source| source.title()).collect();
    format!("a path in the study, `PATH`, then: {}", titles.join("; "))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The documents: those of `docs/`, and the README.
pub(super) fn documents() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = docs.map(|entry| entry.path()).collect();
    paths.push(root().join("README.md"));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths
}

#[test]
fn documents_match_the_registry() {
    let expected = format!("{BEGIN}\n\n{}\n\n{END}", table().trim());
    let mut holders = 0;
    for path in documents() {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let (Some(from), Some(to)) = (text.find(BEGIN), text.find(END)) else { continue };
        holders += 1;
        let held = text.get(from..to + END.len()).unwrap_or_default();
        if held != expected && std::env::var_os("BLESS").is_some() {
            fs::write(&path, text.replacen(held, &expected, 1)).expect("the document is written");
            continue;
        }
        assert!(
            held == expected,
            "{} is not what the registry says; `cargo xtask bless`",
            path.display()
        );
    }
    assert!(holders > 0, "no document holds the table of systems between `{BEGIN}` and `{END}`");
}
