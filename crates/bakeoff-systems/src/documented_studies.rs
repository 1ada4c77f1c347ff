//! Checks that every study in the documents is valid, so that readers can copy it.
//!
//! Every block of YAML in `docs/*.md` and the README is a complete study or places file. The tests parse them as
//! `bakeoff run` does, against the registry, and start nothing.

use std::fs;

use bakeoff_core::places::Places;
use bakeoff_core::study;

use super::kinds;
use super::table::documents;

/// Returns the blocks of YAML in a document, each with the number of its first line. Empty lines before each block
/// make diagnostics show the document's line numbers.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        match &mut open {
            None if line == "```yaml" => open = Some((index + 2, "\n".repeat(index + 1))),
            None => {}
            Some(_) if line == "```" => blocks.extend(open.take()),
            Some((_, block)) => {
                block.push_str(line);
                block.push('\n');
            }
        }
    }
    blocks.extend(open);
    blocks
}

#[test]
fn every_yaml_block_in_the_documents_is_valid() {
    let mut diagnostics = Vec::new();
    let mut read = Vec::new();
    for path in documents() {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (line, block) in blocks(&text) {
            if block.trim_start().starts_with("machines:")
                || block.trim_start().starts_with("kubernetes:")
            {
                // A places file, not a study.
                let places = Places::parse(&name, &block);
                diagnostics.extend(places.err().map(|wrong| wrong.to_string()));
                continue;
            }
            match study::parse("documented", &name, &block, &kinds()) {
                Ok(_) => read.push(name.clone()),
                Err(wrong) => diagnostics.push(format!("the study at {name}:{line}:\n{wrong}")),
            }
        }
    }
    assert!(diagnostics.is_empty(), "{}", diagnostics.join("\n"));
    for holder in ["recipes.md", "studies.md"] {
        assert!(read.iter().any(|name| name == holder), "{holder} shows no study: {read:?}");
    }
}

#[test]
fn blocks_are_found_with_their_lines() {
    let text =
        "# A\n\n```rust\nfn a() {}\n```\n```yaml\ntitle: a\nb: 1\n```\n```\nno\n```\n```yaml\nc\n";
    let (first, second) = ("\n\n\n\n\n\ntitle: a\nb: 1\n", format!("{}c\n", "\n".repeat(13)));
    assert_eq!(blocks(text), [(7, first.to_owned()), (14, second)]);
}
