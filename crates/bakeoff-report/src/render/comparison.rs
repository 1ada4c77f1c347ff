//! Renders two compared runs as terminal text, Markdown and JSON.

use bakeoff_core::stats::Figure;
use bakeoff_core::stats::gate::FALSE_STOPS;
use serde_json::{Value, json as value};

use super::json::number;
use super::markdown as md;
use super::terminal::{Page, Style};
use crate::compare::fail_if::signed;
use crate::compare::not_judged::NotJudged;
use crate::compare::{Change, FailIfOutcome, RunComparison, Section, scale};
use crate::document::table::{Cell, Column, Table, Tone};
use crate::document::tables;

/// Version of the JSON. Raised when a name or a meaning changes, but not for additions.
const FORMAT: u32 = 1;

/// Renders the comparison as text for a terminal, ending in a newline.
pub fn terminal(compared: &RunComparison, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    for (name, run) in [("base", &compared.base), ("new", &compared.new)] {
        page.line(Tone::Faint, &format!("{name}: {run}"));
    }
    for difference in &compared.differences {
        page.item(Tone::Alarm, "! ", difference);
    }
    if let Some(note) = compared.note() {
        page.item(Tone::Strong, "", &note);
    }
    if compared.sections.is_empty() {
        page.line(Tone::Alarm, NOT_COMPARABLE);
    }
    for section in &compared.sections {
        page.gap();
        page.table(&table(compared, section));
        for line in section.notes() {
            page.item(Tone::Faint, "", &line);
        }
    }
    if !compared.outcomes.is_empty() {
        page.gap();
    }
    for (condition, outcome) in &compared.outcomes {
        let colour =
            if matches!(outcome, FailIfOutcome::Proven(_)) { Tone::Alarm } else { Tone::Strong };
        let (found, where_) = words(outcome);
        page.line(colour, &format!("{condition}: {found}"));
        for line in where_ {
            page.item(Tone::Plain, "  ", line);
        }
    }
    if let Some(verdict) = compared.verdict() {
        page.gap();
        page.line(Tone::Strong, &format!("{verdict}."));
    }
    page.text
}

const NOT_COMPARABLE: &str = "the runs have no workload and load in common";

/// Renders the comparison as GitHub-flavoured Markdown, ending in a newline.
pub fn markdown(compared: &RunComparison) -> String {
    let mut paragraphs = vec![
        match &compared.gate {
            None => "# Two runs compared".to_owned(),
            Some(gate) => format!("# Two builds of {}", md::escape(&gate.system)),
        },
        md::list([
            format!("base: {}", md::escape(&compared.base)),
            format!("new: {}", md::escape(&compared.new)),
        ]),
    ];
    paragraphs.extend(compared.verdict().map(|verdict| format!("**{}.**", md::escape(&verdict))));
    if !compared.outcomes.is_empty() {
        paragraphs.push(md::list(compared.outcomes.iter().map(|(condition, outcome)| {
            let (found, where_) = words(outcome);
            let below: String =
                where_.iter().map(|line| format!("\n  - {}", md::escape(line))).collect();
            format!("**{}: {found}**{below}", md::escape(condition))
        })));
    }
    if !compared.differences.is_empty() {
        let items = compared.differences.iter().map(|one| format!("**{}**", md::escape(one)));
        paragraphs.push(md::list(items));
    }
    paragraphs.extend(compared.note().map(|note| format!("**{}**", md::escape(&note))));
    if compared.sections.is_empty() {
        paragraphs.push(format!("**{NOT_COMPARABLE}**"));
    }
    for section in &compared.sections {
        let table = table(compared, section);
        paragraphs.push(format!("## {}", md::escape(table.title.as_deref().unwrap_or_default())));
        paragraphs.push(md::table(&table));
        let notes: Vec<String> = section.notes().iter().map(|line| md::escape(line)).collect();
        if !notes.is_empty() {
            paragraphs.push(md::list(notes));
        }
    }
    format!("{}\n", paragraphs.join("\n\n"))
}

/// Renders the comparison as JSON.
pub fn json(compared: &RunComparison) -> Value {
    let outcome = |(condition, outcome): &(String, FailIfOutcome)| {
        let (name, where_) = match outcome {
            FailIfOutcome::Proven(where_) => ("proven", where_.as_slice()),
            FailIfOutcome::CannotTell(where_) => ("cannot-tell", where_.as_slice()),
            FailIfOutcome::HoldsNot => ("holds-not", [].as_slice()),
        };
        value!({"condition": condition, "outcome": name, "where": where_})
    };
    let section = |section: &Section| {
        value!({
            "place": section.place,
            "load_kind": section.load_kind,
            "load_text": section.load,
            "corrected_for": section.family,
            "changes": section.changes.iter().map(change).collect::<Vec<_>>(),
        })
    };
    value!({
        "format": FORMAT,
        "base": compared.base,
        "new": compared.new,
        "differences": compared.differences,
        "gate": compared.gate.as_ref().map(|gate| value!({
            "system": gate.system,
            "false_stops": FALSE_STOPS,
            "detect": gate.detect,
            "slow_share_unseen": compared.unseen_share(),
            "verdict": compared.verdict(),
        })),
        "runs_known": compared.runs,
        "nothing_provable_because": compared.unproven.map(|why| why.to_string()),
        "comparisons": compared.sections.iter().map(section).collect::<Vec<_>>(),
        "fail_if": compared.outcomes.iter().map(outcome).collect::<Vec<_>>(),
    })
}

fn change(of: &Change) -> Value {
    value!({
        "system": of.system,
        "quantity": of.quantity.name(),
        "clients": of.clients,
        "base_median": number(of.quantity, of.base.median),
        "new_median": number(of.quantity, of.new.median),
        "base_trials": of.base.trials,
        "new_trials": of.new.trials,
        "change": of.change(),
        "interval": of.interval().map(|(low, high)| [low, high]),
        "verdict": of.verdict().replace(' ', "-"),
        "would_have_seen": of.min_detectable(),
        "slow_trials": of.slow.map(|slow| slow.new),
        "not_judged_because": of.why_not.as_ref().map(NotJudged::to_string),
    })
}

fn words(outcome: &FailIfOutcome) -> (&'static str, &[String]) {
    match outcome {
        FailIfOutcome::Proven(where_) => ("proven", where_),
        FailIfOutcome::CannotTell(where_) => ("cannot tell", where_),
        FailIfOutcome::HoldsNot => ("does not hold", &[]),
    }
}

impl RunComparison {
    /// Returns a note to read before the tables.
    fn note(&self) -> Option<String> {
        let runs = self.runs.map(|runs| {
            format!(
                "the intervals include the spread between {runs} runs of this study on this \
                 machine"
            )
        });
        let unproven = self.unproven.as_ref().map(|why| format!("nothing can be proven: {why}"));
        unproven.or(runs)
    }
}

impl Section {
    /// Returns why changes were not judged. Reasons for all changes appear above the tables instead.
    fn notes(&self) -> Vec<String> {
        let is_of_one = |why: &&NotJudged| !matches!(why, NotJudged::Unproven(_));
        let mut notes: Vec<String> = self
            .changes
            .iter()
            .filter_map(|change| {
                let why = change.why_not.as_ref().filter(is_of_one)?;
                Some(format!("{} {}: not judged: {why}", change.system, change.label()))
            })
            .collect();
        notes.dedup();
        notes
    }
}

fn table(compared: &RunComparison, section: &Section) -> Table {
    let sure = compared.confidence_text();
    let column = |head: &str, cell: &dyn Fn(&Change) -> Cell| Column {
        head: vec![head.to_owned()],
        cells: section.changes.iter().map(cell).collect(),
    };
    let text =
        |of: &Change, figure: Figure| tables::shown(figure, |figure| of.quantity.text(figure));
    let sign = |of: &Change, change: f64| signed(change, scale(of.quantity));
    let corrected = match section.family {
        0 => "nothing judged".to_owned(),
        1 => format!("{sure} intervals"),
        family => format!("{sure} intervals corrected for {family} comparisons"),
    };
    Table {
        title: Some(format!("{}, {}; {corrected}", section.place, section.load)),
        corner: String::new(),
        labels: section
            .changes
            .iter()
            .map(|change| format!("{} {}", change.system, change.label()))
            .collect(),
        groups: vec![
            vec![
                column("base", &|of| text(of, of.base.median)),
                column("new", &|of| text(of, of.new.median)),
                column("change", &|of| {
                    Cell::or_missing(of.change().map(|change| sign(of, change)))
                }),
            ],
            vec![
                column(&format!("{sure} interval"), &|of| {
                    let between = |(low, high)| format!("{} to {}", sign(of, low), sign(of, high));
                    Cell::or_missing(of.interval().map(between))
                }),
                column("verdict", &|of| of.verdict().into()),
                column("min. detectable", &|of| Cell::or_missing(of.min_detectable_text())),
                column("trials", &|of| format!("{} and {}", of.base.trials, of.new.trials).into()),
            ],
        ],
    }
}
