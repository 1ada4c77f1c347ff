//! A report as Markdown, for a pull request or a wiki: the sentence first, then the tables.
//!
//! What others wrote is escaped, so that a record cannot make headings, links or HTML.

use std::fmt::Write as _;

use crate::Report;
use crate::derive::{floor, nodes, said, stale};
use crate::document::tables::{self, Table};
use crate::document::words;

/// The whole report as GitHub-flavoured Markdown, ending in a newline.
pub fn markdown(report: &Report) -> String {
    let study = &report.header.study;
    let mut page = String::new();
    let mut paragraph = |text: &str| {
        let _ = writeln!(page, "{text}\n");
    };
    paragraph(&format!("# {}", escape(&words::title(study))));
    if !report.findings.is_empty() {
        let items = report.findings.iter().map(|finding| format!("**{}**", escape(finding)));
        paragraph(&list(items));
    }
    for line in words::found(study, &report.sentences) {
        paragraph(&escape(&line));
    }
    paragraph(&escape(&words::provenance(report)));
    let machine = words::machine(&report.header.environment);
    paragraph(&format!("Machine: {}", escape(&machine)));
    for comparison in &report.comparisons {
        paragraph(&format!("## {}", escape(&words::heading(study, comparison))));
        paragraph(&escape(&words::workload(comparison)));
        if comparison.contenders.iter().all(|one| one.trials.is_empty()) {
            paragraph("**no trial was run**");
            continue;
        }
        if let Some(combination) = words::combination(comparison) {
            paragraph(&escape(&combination));
        }
        paragraph(&table(&tables::main(comparison, true)));
        if let Some(judged) = tables::judgements(comparison) {
            paragraph(&escape(judged.title.as_deref().unwrap_or_default()));
            paragraph(&table(&judged));
            let unjudged: Vec<String> =
                words::unjudged(comparison).iter().map(|line| escape(line)).collect();
            if !unjudged.is_empty() {
                paragraph(&list(unjudged));
            }
        }
        let audits = words::audits(comparison).into_iter();
        let audits = audits.map(|line| format!("audit: {}", line.text));
        let errors = words::errors(comparison).into_iter().map(|line| format!("error: {line}"));
        let said = said::lines(comparison).into_iter().map(|line| format!("server said: {line}"));
        let notes: Vec<String> = floor::lines(comparison)
            .into_iter()
            .chain(words::published(report, comparison))
            .chain(words::seconds(comparison))
            .chain(words::latencies(comparison))
            .chain(words::invalid(comparison))
            .chain(audits)
            .chain(words::unchecked(comparison))
            .chain(stale::lines(comparison))
            .chain(errors)
            .chain(said)
            .map(|line| escape(&line))
            .collect();
        if !notes.is_empty() {
            paragraph(&list(notes));
        }
        let more = [
            tables::tries(comparison),
            nodes::table(comparison),
            tables::stages(comparison),
            tables::operations(comparison),
        ];
        for grid in more.into_iter().chain([stale::table(comparison)]).flatten() {
            if let Some(title) = &grid.title {
                paragraph(&format!("### {}", escape(title)));
            }
            paragraph(&table(&grid));
        }
    }
    paragraph("## Fairness: what differs between the contenders besides the product");
    paragraph(&table(&tables::fairness(&report.fairness)));
    paragraph("## Method");
    let demands = report.method.iter().map(|answer| {
        let (by, met) = (escape(answer.demand.by), answer.met.name());
        format!("{by}: {met}: {}", escape(&answer.why))
    });
    paragraph(&list(demands));
    paragraph("## Systems");
    let systems = report.header.systems.iter().map(|system| {
        let (line, details) = words::system(system);
        let details = details.iter().map(|detail| format!("\n  - {}", escape(detail)));
        format!("{}{}", escape(&line), details.collect::<String>())
    });
    paragraph(&list(systems));
    format!("{}\n", page.trim_end())
}

pub(crate) fn list(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")
}

/// A pipe table; of a heading with several lines, all stand in one.
pub(crate) fn table(of: &Table) -> String {
    let columns = || of.groups.iter().flatten();
    let head = columns().map(|column| format!(" {} |", escape(&column.head.join(" "))));
    let mut lines = vec![format!("| {} |{}", escape(&of.corner), head.collect::<String>())];
    lines.push(format!("| --- |{}", columns().map(|_| " ---: |").collect::<String>()));
    for (row, label) in of.labels.iter().enumerate() {
        let cells = columns().map(|column| format!(" {} |", escape(&column.cells[row])));
        lines.push(format!("| {} |{}", escape(label), cells.collect::<String>()));
    }
    lines.join("\n")
}

/// A text on one line that means nothing to Markdown.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => {
                escaped.push('\\');
                escaped.push(char);
            }
            // Escaped with a backslash this would still begin HTML for some readers.
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            char if char.is_control() => escaped.push(' '),
            char => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn what_others_wrote_is_text_and_nothing_else() {
        assert_eq!(escape("a|b\nc"), "a\\|b c");
        assert_eq!(escape("<img src=x>"), "&lt;img src=x>");
        assert_eq!(escape("`*[x](y)*`"), "\\`\\*\\[x\\](y)\\*\\`");
    }
}
