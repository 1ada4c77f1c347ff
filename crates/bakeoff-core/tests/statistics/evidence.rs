//! Writes tables of `docs/evidence/`, most of them of `statistics.md`, from the simulations that compute them.
//!
//! Simulations are seeded, so each run yields the same figures. `BLESS=1` rewrites the page (`cargo xtask bless`);
//! otherwise a table that differs fails its test.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Lock for reading and writing a page: tests of one binary run in parallel.
static PAGE: Mutex<()> = Mutex::new(());

/// Builds a table of the page.
pub(crate) struct Table {
    page: &'static str,
    name: &'static str,
    text: String,
}

impl Table {
    /// Starts a table of `statistics.md`.
    pub(crate) fn new(name: &'static str, columns: &[&str]) -> Self {
        Self::on("statistics.md", name, columns)
    }

    /// Starts a table of a page between the marks `NAME: begin` and `NAME: end`.
    pub(crate) fn on(page: &'static str, name: &'static str, columns: &[&str]) -> Self {
        let rule = vec!["---"; columns.len()].join(" | ");
        Self { page, name, text: format!("| {} |\n| {rule} |\n", columns.join(" | ")) }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        self.text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }

    /// Compares the table with the page, or writes it.
    ///
    /// # Panics
    /// Panics if the page has another table, or no place for this one.
    #[track_caller]
    pub(crate) fn hold(self) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/evidence");
        let path = folder.join(self.page);
        let _alone = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
        let page = fs::read_to_string(&path).expect("the page is there");
        let (begin, end) =
            (format!("<!-- {}: begin -->\n", self.name), format!("<!-- {}: end -->", self.name));
        let from = page.find(&begin).expect("the page has a place for the table") + begin.len();
        let to = from + page[from..].find(&end).expect("the place has an end");
        let expected = format!("\n{}\n", self.text);
        if std::env::var_os("BLESS").is_some() {
            let blessed = format!("{}{expected}{}", &page[..from], &page[to..]);
            fs::write(&path, blessed).expect("the page is written");
            return;
        }
        assert_eq!(page[from..to], expected, "`cargo xtask bless` writes it anew");
    }
}

/// Formats a share as a percentage with this many decimals.
pub(crate) fn percent(share: f64, decimals: usize) -> String {
    format!("{:.decimals$} %", share * 100.0)
}
