//! Writes the registry's tables into the documents: `docs/systems/KIND.md`, and the list in `docs/systems.md`.
//!
//! A page opens with a sentence about its system. The registry's tables are between two markers. `BLESS=1` rewrites
//! them, and creates missing pages (`cargo xtask bless`). The rest of a page is written by hand.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use bakeoff_core::study::{Kind, KindOption, OptionForm};
use bakeoff_install::Recipe;

use super::declaration::Origin;
use super::{System, registry};

const BEGIN: &str = "<!-- registry: begin -->";
const END: &str = "<!-- registry: end -->";

/// Returns the tables of one system's page.
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
    row("maintenance in [faults](../faults.md#maintenance)", &maintenance.join(", "));
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

/// Returns the list of all systems, each with the opening sentence of its page.
fn list(pages: &[(Kind, String)]) -> String {
    let mut text = String::from("| system | what it is | nodes |\n| --- | --- | --- |\n");
    for (kind, page) in pages {
        let sentence = page.lines().nth(2).unwrap_or_default();
        let _ = writeln!(
            text,
            "| [{name}](systems/{name}.md) | {sentence} | {nodes} |",
            name = kind.name,
            nodes = nodes(kind)
        );
    }
    text
}

fn nodes(kind: &Kind) -> String {
    if kind.nodes_max == 1 { "1".into() } else { format!("1 to {}", kind.nodes_max) }
}

/// Replaces the text between the markers of a page.
fn renewed(page: &str, tables: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", tables.trim()))
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

/// Compares a page with its tables, or writes it. Returns the page.
fn hold(path: &Path, opening: &str, tables: &str) -> String {
    let bless = std::env::var_os("BLESS").is_some();
    let page = match fs::read_to_string(path) {
        Err(_) if bless => format!("{opening}\n\n{BEGIN}\n{END}\n"),
        page => {
            page.unwrap_or_else(|why| panic!("{}: {why}; run `cargo xtask bless`", path.display()))
        }
    };
    let expected = renewed(&page, tables);
    let expected = expected.unwrap_or_else(|| panic!("{} lacks the markers", path.display()));
    if bless {
        fs::write(path, &expected).expect("the page is written");
    } else {
        assert!(
            page == expected,
            "{} differs from the registry; run `cargo xtask bless`",
            path.display()
        );
    }
    expected
}

#[test]
fn documents_match_the_registry() {
    let docs = root().join("docs");
    let pages: Vec<(Kind, String)> = registry()
        .iter()
        .map(|system| {
            let kind = system.kind();
            let path = docs.join("systems").join(format!("{}.md", kind.name));
            let opening = format!("# {name}\n\nA system of kind `{name}`.", name = kind.name);
            let page = hold(&path, &opening, &tables(*system));
            (kind, page)
        })
        .collect();
    hold(&docs.join("systems.md"), "# Systems", &list(&pages));
    let of_no_system = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        path.parent().is_some_and(|folder| folder.ends_with("docs/systems"))
            && !pages.iter().any(|(kind, _)| kind.name == name)
    };
    let strays: Vec<PathBuf> = documents().into_iter().filter(of_no_system).collect();
    assert!(strays.is_empty(), "pages without a system: {strays:?}");
}

/// Returns the anchor that GitHub gives to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns the text of a document without code.
fn prose(text: &str) -> String {
    let mut prose = String::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if !inside {
            let outside_code = line.split('`').step_by(2);
            prose.push_str(&outside_code.collect::<Vec<_>>().join("`"));
            prose.push('\n');
        }
    }
    prose
}

#[test]
fn links_between_documents_resolve() {
    if std::env::var_os("BLESS").is_some() {
        // Another test may be writing a page.
        return;
    }
    let mut broken = Vec::new();
    let more = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name));
    for path in documents().into_iter().chain(more) {
        let text = fs::read_to_string(&path).expect("the document can be read");
        for link in prose(&text).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let to = match file {
                "" => path.clone(),
                file => path.parent().unwrap_or(Path::new("")).join(file),
            };
            let has_anchor = || {
                let Ok(text) = fs::read_to_string(&to) else { return false };
                let headings = text.lines().filter(|line| line.starts_with('#'));
                headings
                    .map(|line| anchor(line.trim_start_matches('#').trim()))
                    .any(|one| one == fragment)
            };
            if !to.exists() || (!fragment.is_empty() && !has_anchor()) {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}
