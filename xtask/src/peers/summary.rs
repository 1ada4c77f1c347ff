//! Computes medians and ranges, and writes tables.

/// Summary of several observations: median, minimum and maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Summarizes one or more observations.
    pub(crate) fn measure(observed: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = observed.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            _ => sorted[middle],
        };
        Self { median, min: sorted[0], max: sorted[sorted.len() - 1] }
    }

    /// Formats as `12.3 (11.9–13.0)`.
    pub(crate) fn text(self, decimals: usize) -> String {
        let Self { median, min, max } = self;
        format!("{median:.decimals$} ({min:.decimals$}–{max:.decimals$})")
    }
}

/// Returns a Markdown table.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut lines = vec![format!("| {} |", head.join(" | "))];
    lines.push(format!("|{}|", vec![" --- "; head.len()].join("|")));
    lines.extend(rows.iter().map(|row| format!("| {} |", row.join(" | "))));
    lines.join("\n")
}

/// Replaces the section between a document's markers, or appends it if there are none.
pub(super) fn replace_section(document: &str, name: &str, section: &str) -> String {
    let (begin, end) = (format!("<!-- {name}: begin -->"), format!("<!-- {name}: end -->"));
    let whole = format!("{begin}\n\n{}\n\n{end}", section.trim());
    match (document.find(&begin), document.find(&end)) {
        (Some(from), Some(to)) if from < to => {
            format!("{}{whole}{}", &document[..from], &document[to + end.len()..])
        }
        _ => format!("{}\n\n{whole}\n", document.trim_end()),
    }
}

pub(super) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_median_least_and_most() {
        assert_eq!(Spread::measure([3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::measure([4.0, 1.0]).median, 2.5);
        assert_eq!(Spread::measure([1.0, 2.0, 4.0]).text(1), "2.0 (1.0–4.0)");
    }

    #[test]
    fn a_section_is_replaced_and_the_rest_is_left() {
        let document = "# Title\n\n<!-- x: begin -->\nold\n<!-- x: end -->\n\nAfter.\n";
        let replaced = replace_section(document, "x", "new");
        assert_eq!(replaced, "# Title\n\n<!-- x: begin -->\n\nnew\n\n<!-- x: end -->\n\nAfter.\n");
        assert_eq!(replace_section(&replaced, "x", "new"), replaced);
        assert!(
            replace_section("# Title\n", "x", "new").starts_with("# Title\n\n<!-- x: begin -->")
        );
    }
}
