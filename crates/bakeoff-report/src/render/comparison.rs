//! Renders two compared runs as terminal text, Markdown and JSON.

use bakeoff_core::record::Gate;
use bakeoff_core::stats::Figure;
use bakeoff_core::stats::gate::FALSE_STOPS;
use serde::Serialize;
use serde_json::{Number, Value};

use super::json::{number, written};
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
    written(RunComparisonJson::new(compared))
}

/// Holds what `bakeoff compare --json` and `bakeoff gate --json` print. Fields may be added within a `format`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunComparisonJson<'a> {
    /// Version of this form.
    format: u32,
    /// Base: a run or a build.
    base: &'a str,
    /// Run or build that is compared with it.
    new: &'a str,
    /// Other differences between them.
    differences: &'a [String],
    /// Folder of the run, for a gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    /// Terms and verdict of a gate.
    gate: Option<GateJson<'a>>,
    /// Number of runs from which the spread between runs is known.
    runs_known: Option<usize>,
    /// Reason why nothing can be proven.
    nothing_provable_because: Option<String>,
    /// Changes under each workload and load.
    comparisons: Vec<SectionJson<'a>>,
    /// Conditions, with their outcomes.
    fail_if: Vec<OutcomeJson<'a>>,
}

/// Describes the terms and the verdict of a gate.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct GateJson<'a> {
    /// System of both builds.
    system: &'a str,
    /// Maximum share of merges without a change that are stopped.
    false_stops: f64,
    /// Loss that must be detected, as a share.
    detect: f64,
    /// Share of slow trials that the new build can have without one among its trials, at 95 %; `None` if one was slow, or nothing was judged.
    slow_share_unseen: Option<f64>,
    /// Verdict in words.
    verdict: Option<String>,
}

/// Holds the changes under one workload and load.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SectionJson<'a> {
    /// Workload and load: `workload/load`.
    place: &'a str,
    /// `closed` if clients wait for their answers, `open` if operations are due at a rate.
    load_kind: &'static str,
    /// The load in a few words: `closed load, 64 clients`.
    load_text: &'a str,
    /// Number of comparisons that intervals are corrected for.
    corrected_for: usize,
    /// Change of each figure of each system.
    changes: Vec<ChangeJson<'a>>,
}

/// Describes the change of a figure of a system.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ChangeJson<'a> {
    /// Name of the system.
    system: &'a str,
    /// Name of the figure, as in a report. Percentiles rank failures above all successes.
    quantity: String,
    /// Clients of the stage; `None` for all stages.
    clients: Option<u32>,
    /// Median of the base.
    base_median: Option<Number>,
    /// Median of the new one.
    new_median: Option<Number>,
    /// Valid trials of the base.
    base_trials: usize,
    /// Valid trials of the new one.
    new_trials: usize,
    /// Change as a share of the base; the difference of shares.
    change: Option<f64>,
    /// Confidence interval of the change.
    interval: Option<(f64, f64)>,
    /// Verdict: `higher`, `lower`, `none-shown` or `not-judged`.
    verdict: String,
    /// Minimum detectable effect, if no difference is shown.
    would_have_seen: Option<f64>,
    /// Number of slow trials of a gate's new build that the base's do not explain.
    slow_trials: Option<usize>,
    /// Reason why it was not judged.
    not_judged_because: Option<String>,
}

/// Describes the outcome of a condition.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OutcomeJson<'a> {
    /// Condition as given.
    condition: &'a str,
    /// Outcome: `proven`, `cannot-tell` or `holds-not`.
    outcome: &'static str,
    /// Places, and what was seen there.
    #[serde(rename = "where")]
    where_: &'a [String],
}

impl<'a> RunComparisonJson<'a> {
    fn new(of: &'a RunComparison) -> Self {
        let gate = |gate: &'a Gate| GateJson {
            system: &gate.system,
            false_stops: FALSE_STOPS,
            detect: gate.detect,
            slow_share_unseen: of.unseen_share(),
            verdict: of.verdict(),
        };
        Self {
            format: FORMAT,
            base: &of.base,
            new: &of.new,
            differences: &of.differences,
            run: None,
            gate: of.gate.as_ref().map(gate),
            runs_known: of.runs,
            nothing_provable_because: of.unproven.map(|why| why.to_string()),
            comparisons: of.sections.iter().map(SectionJson::new).collect(),
            fail_if: of.outcomes.iter().map(OutcomeJson::new).collect(),
        }
    }
}

impl<'a> SectionJson<'a> {
    fn new(of: &'a Section) -> Self {
        Self {
            place: &of.place,
            load_kind: of.load_kind,
            load_text: &of.load,
            corrected_for: of.family,
            changes: of.changes.iter().map(ChangeJson::new).collect(),
        }
    }
}

impl<'a> ChangeJson<'a> {
    fn new(of: &'a Change) -> Self {
        Self {
            system: &of.system,
            quantity: of.quantity.name(),
            clients: of.clients,
            base_median: number(of.quantity, of.base.median),
            new_median: number(of.quantity, of.new.median),
            base_trials: of.base.trials,
            new_trials: of.new.trials,
            change: of.change(),
            interval: of.interval(),
            verdict: of.verdict().replace(' ', "-"),
            would_have_seen: of.min_detectable(),
            slow_trials: of.slow.map(|slow| slow.new),
            not_judged_because: of.why_not.as_ref().map(NotJudged::to_string),
        }
    }
}

impl<'a> OutcomeJson<'a> {
    fn new((condition, outcome): &'a (String, FailIfOutcome)) -> Self {
        let (outcome, where_) = match outcome {
            FailIfOutcome::Proven(where_) => ("proven", where_.as_slice()),
            FailIfOutcome::CannotTell(where_) => ("cannot-tell", where_.as_slice()),
            FailIfOutcome::HoldsNot => ("holds-not", [].as_slice()),
        };
        Self { condition, outcome, where_ }
    }
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
