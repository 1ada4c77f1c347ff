//! Writes the registry's tables into `docs/systems.md`: the list of all systems, and the tables of each.
//!
//! A section opens with a sentence about its system. The registry's tables are between two markers. `BLESS=1` rewrites
//! them, and adds missing sections (`cargo xtask bless`). The rest of the page is written by hand.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use bakeoff_core::study::{Kind, KindOption, OptionForm};
use bakeoff_install::Recipe;

use super::declaration::Origin;
use super::{System, registry};

/// Name of the markers around the list of all systems. Those around a system's tables have the name of its kind.
const LIST: &str = "registry";

/// Returns the tables of one system.
fn tables(system: &dyn System) -> String {
    let mut text = String::new();
    let kind = system.kind();
    let guarantees = system.guarantees(&super::plain(kind.name));
    let operations: Vec<&str> = kind.operations.iter().map(|operation| operation.name()).collect();
    let reads: Vec<&str> = kind.reads.iter().map(|reads| reads.name()).collect();
    text.push_str("| | |\n| --- | --- |\n");
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "| {name} | {value} |");
        }
    };
    if kind.is_part() {
        row("used as", "a part of other systems only");
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
    row("nodes", &nodes(&kind));
    if !kind.is_part() {
        if kind.key_size_max < u64::MAX {
            row("longest key", &format!("{} bytes", kind.key_size_max));
        }
        if kind.value_size_max < u64::MAX {
            row("largest value", &format!("{} bytes", kind.value_size_max));
        }
        row("operations in flight on one session", &kind.in_flight_max.to_string());
    }
    let maintenance: Vec<&str> = kind.maintenance.iter().map(|one| one.operation.name()).collect();
    row("maintenance in [faults](faults.md#maintenance)", &maintenance.join(", "));
    let origin = system.declares().origin;
    row("can come from", &sources(&origin, origin.recipe()));
    for recipe in origin.recipes().iter().skip(1) {
        let name = match kind.has_product(recipe.system) {
            true => format!("`product: {}` can come from", recipe.system),
            false => format!("{} can come from", recipe.system),
        };
        row(&name, &sources(&origin, Some(recipe)));
    }
    text.push('\n');
    options("option", kind.options, &mut text);
    options("`with:` of a workload", kind.parameters, &mut text);
    parts(&kind, &mut text);
    text
}

/// Returns the list of all systems, each with the opening sentence of its section.
fn list(page: &str) -> String {
    let mut text = String::from("| system | what it is | nodes |\n| --- | --- | --- |\n");
    for system in registry() {
        let kind = system.kind();
        let sentence = opening(page, kind.name).unwrap_or_default();
        let _ = writeln!(
            text,
            "| [{name}](#{name}) | {sentence} | {nodes} |",
            name = kind.name,
            nodes = nodes(&kind)
        );
    }
    text
}

/// Returns the sentence below a system's heading.
fn opening<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    page.split_once(&format!("\n## {name}\n\n"))?.1.lines().next()
}

fn nodes(kind: &Kind) -> String {
    if kind.nodes_max == 1 { "1".into() } else { format!("1 to {}", kind.nodes_max) }
}

/// Returns both markers of this name.
fn markers(name: &str) -> (String, String) {
    (format!("<!-- {name}: begin -->"), format!("<!-- {name}: end -->"))
}

/// Replaces the text between the markers of this name.
fn renewed(page: &str, name: &str, tables: &str) -> Option<String> {
    let (begin, end) = markers(name);
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n\n{}\n\n{end}{after}", tables.trim()))
}

/// Appends the table of parts.
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

fn sources(origin: &Origin, recipe: Option<&Recipe>) -> String {
    let recipe = match (origin, recipe) {
        (Origin::Bakeoff, _) => return "it is part of bakeoff".to_owned(),
        (Origin::Study(words), _) => return (*words).to_owned(),
        (_, None) => return String::new(),
        (_, Some(recipe)) => recipe,
    };
    let titles: Vec<String> = recipe.sources.iter().map(|source| source.title()).collect();
    let then = if titles.is_empty() { "" } else { ", then: " };
    format!("a path in the study, `PATH`{then}{}", titles.join("; "))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the documents: those in `docs/` and its folders, and the README.
pub(super) fn documents() -> Vec<PathBuf> {
    let mut paths = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false => paths.push(path),
            }
        }
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    paths
}

/// Returns the page with current tables. Adds a section for each kind that has none.
fn current(page: &str) -> String {
    let mut page = page.to_owned();
    for system in registry() {
        let name = system.kind().name;
        if opening(&page, name).is_none() {
            let (begin, end) = markers(name);
            let section = format!("A system of kind `{name}`.\n\n{begin}\n{end}");
            let _ = write!(page, "\n## {name}\n\n{section}\n");
        }
        let renewed = renewed(&page, name, &tables(*system));
        page = renewed.unwrap_or_else(|| panic!("the section `{name}` lacks its markers"));
    }
    renewed(&page, LIST, &list(&page)).expect("the page has the markers of its list")
}

#[test]
fn systems_page_matches_the_registry() {
    let path = root().join("docs/systems.md");
    let page = fs::read_to_string(&path).expect("the page is there");
    let expected = current(&page);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &expected).expect("the page is written");
    } else {
        assert!(page == expected, "docs/systems.md differs from the registry; `cargo xtask bless`");
    }
    let names = expected.lines().filter_map(|line| {
        line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(": begin -->"))
    });
    let is_kind = |name: &str| registry().iter().any(|system| system.kind().name == name);
    let strays: Vec<&str> = names.filter(|name| *name != LIST && !is_kind(name)).collect();
    assert!(strays.is_empty(), "sections without a system: {strays:?}");
}
