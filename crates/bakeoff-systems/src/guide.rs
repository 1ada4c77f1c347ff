//! Keeps the snippets of the guide to adding a system equal to the real files.
//!
//! A comment above each snippet names its source, `<!-- FILE: NAME -->`. The file marks it with `// guide: NAME` and
//! `// guide: end`. Pieces of one name are joined with an ellipsis between them. `BLESS=1` updates the guide (`cargo
//! xtask bless`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const END: &str = "// guide: end";
const BEGIN: &str = "// guide: ";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the piece of a file with this name, with common indentation removed.
fn piece(text: &str, name: &str) -> Option<String> {
    let begin = format!("{BEGIN}{name}");
    let mut pieces = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line.trim() == begin) {
        let piece: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != END).collect();
        let filled = piece.iter().filter(|line| !line.trim().is_empty());
        let indent = filled.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
        let cut = piece.iter().map(|line| line.get(indent..).unwrap_or_default());
        pieces.push(cut.collect::<Vec<_>>().join("\n"));
    }
    if pieces.is_empty() { None } else { Some(pieces.join("\n// …\n")) }
}

/// Returns the guide with current snippets, and the sources of the snippets.
fn renewed(
    guide: &str,
    read: impl Fn(&str) -> Option<String>,
) -> Result<(String, BTreeSet<(String, String)>), String> {
    let mut places = BTreeSet::new();
    let mut out = String::new();
    let mut above = "";
    let mut lines = guide.lines();
    while let Some(line) = lines.next() {
        out += line;
        out.push('\n');
        if line == "```rust" {
            let place = above.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
            let Some((file, name)) = place.and_then(|place| place.split_once(": ")) else {
                return Err(format!("a snippet below `{above}` has no source comment"));
            };
            let text = read(file).ok_or_else(|| format!("cannot read `{file}`"))?;
            let snippet = piece(&text, name);
            out += &snippet.ok_or_else(|| format!("`{file}` has no `{BEGIN}{name}`"))?;
            out += "\n```\n";
            places.insert((file.to_owned(), name.to_owned()));
            if !lines.any(|line| line == "```") {
                return Err(format!("the snippet `{name}` has no end"));
            }
        }
        above = line;
    }
    Ok((out, places))
}

#[test]
fn guide_snippets_equal_their_files() {
    let path = root().join("docs/adding-a-system.md");
    let guide = fs::read_to_string(&path).expect("the guide is there");
    let read = |file: &str| fs::read_to_string(root().join(file)).ok();
    let (renewed, places) = renewed(&guide, read).unwrap_or_else(|why| panic!("{why}"));
    for file in places.iter().map(|(file, _)| file).collect::<BTreeSet<_>>() {
        let text = read(file).unwrap_or_default();
        for name in text.lines().filter_map(|line| line.trim().strip_prefix(BEGIN)) {
            let shown = name == "end" || places.contains(&(file.clone(), name.to_owned()));
            assert!(shown, "`{file}` marks `{name}`, which the guide does not show");
        }
    }
    if guide != renewed && std::env::var_os("BLESS").is_some() {
        fs::write(&path, &renewed).expect("the guide is written");
        return;
    }
    assert!(guide == renewed, "the guide differs from the code; run `cargo xtask bless`");
}

#[test]
fn piece_loses_its_common_indentation() {
    let text = "a\n    // guide: one\n    b {\n\n        c\n    }\n    // guide: end\nd\n// guide: one\ne\n// guide: end\n";
    assert_eq!(piece(text, "one").unwrap(), "b {\n\n    c\n}\n// …\ne");
    assert_eq!(piece(text, "two"), None);
}

#[test]
fn stale_snippet_is_replaced_and_unknown_source_refused() {
    let read =
        |file: &str| (file == "f.rs").then(|| "// guide: n\nnew\n// guide: end\n".to_owned());
    let guide = "text\n<!-- f.rs: n -->\n```rust\nold\n```\nmore\n";
    let (text, places) = renewed(guide, read).unwrap();
    assert_eq!(text, "text\n<!-- f.rs: n -->\n```rust\nnew\n```\nmore\n");
    assert_eq!(places.len(), 1);
    for (guide, expected) in [
        ("text\n```rust\nold\n```\n", "a snippet below `text` has no source comment"),
        ("<!-- g.rs: n -->\n```rust\nold\n```\n", "cannot read `g.rs`"),
        ("<!-- f.rs: m -->\n```rust\nold\n```\n", "`f.rs` has no `// guide: m`"),
        ("<!-- f.rs: n -->\n```rust\nold\n", "the snippet `n` has no end"),
    ] {
        assert_eq!(renewed(guide, read).unwrap_err(), expected);
    }
}
