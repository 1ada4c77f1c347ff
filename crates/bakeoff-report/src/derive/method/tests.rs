//! Tests of [`super`].

use super::*;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/evidence/demands.md");
const MARKS: (&str, &str) = ("<!-- demands -->\n", "<!-- end of demands -->");

/// Rewrites the table if `BLESS=1` is set.
#[test]
fn document_contains_the_table() {
    let text = std::fs::read_to_string(DOCUMENT).unwrap();
    let from = text.find(MARKS.0).expect("the first mark is there") + MARKS.0.len();
    let to = text.find(MARKS.1).expect("the second mark is there");
    if std::env::var_os("BLESS").is_some() {
        let blessed = format!("{}{}{}", &text[..from], table(), &text[to..]);
        std::fs::write(DOCUMENT, blessed).unwrap();
        return;
    }
    assert_eq!(&text[from..to], table(), "`cargo xtask bless` rewrites it");
}

#[test]
fn rows_of_the_table_are_one_line_each() {
    for one in DEMANDS {
        for cell in [one.by, one.asks, one.does, one.shown_by, one.lacks] {
            assert!(!cell.is_empty() && !cell.contains(['|', '\n']), "{cell}");
        }
    }
}
