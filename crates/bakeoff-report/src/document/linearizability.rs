//! The verdicts on histories: a sentence for each system, and a table of the operations that show a violation.
//!
//! Not here: judging (`bakeoff_core::linearizability`), histories that were not judged (`words::unchecked`).

use bakeoff_core::linearizability::judged_history::{
    HistoryVerdict, JudgedHistory, LegalPrefix, OperationOutcome, ShownAction, ShownOperation,
    ShownViolation,
};
use bakeoff_core::units::{count_text, harmless, plural, trials_text};

use super::line::{AuditLine, shortened};
use super::table::{Column, Table};
use crate::derive::comparison::Comparison;
use crate::model::contender::Contender;

/// Characters of a drawn interval's line.
const DRAWN: usize = 40;

/// Returns the judged histories of a system, with the number of their trial.
fn judged(of: &Contender) -> impl Iterator<Item = (u32, &JudgedHistory)> {
    of.trials.iter().filter_map(|trial| Some((trial.number, trial.verdicts.history.as_ref()?)))
}

/// Returns a sentence for the linearizable histories of each system, and one for each violation.
pub(crate) fn lines(of: &Comparison) -> Vec<AuditLine> {
    let mut lines = Vec::new();
    for contender in &of.contenders {
        let name = &contender.system;
        let of_verdict = |verdict: &HistoryVerdict| {
            let all = judged(contender).filter(|(_, one)| one.verdict == *verdict);
            all.collect::<Vec<_>>()
        };
        let linearizable = of_verdict(&HistoryVerdict::Linearizable);
        if !linearizable.is_empty() {
            let text = format!("{name}: {}", linearizable_text(&linearizable));
            lines.push(AuditLine { text, failed: false });
        }
        for (number, one) in of_verdict(&HistoryVerdict::Violated) {
            let text = format!("{name}: {}", violated_text(number, one));
            lines.push(AuditLine { text, failed: !one.unguaranteed });
        }
    }
    lines
}

/// Returns `linearizable: some order explains every answer of 120 operations on 9 keys (2 trials)`.
fn linearizable_text(of: &[(u32, &JudgedHistory)]) -> String {
    let sum = |count: fn(&JudgedHistory) -> u64| of.iter().map(|(_, one)| count(one)).sum::<u64>();
    let keys = of.iter().map(|(_, one)| one.keys).max().unwrap_or(0);
    let mut text = format!(
        "linearizable: some order explains every answer of {} on {} ({})",
        plural(sum(|one| one.operations), "operation"),
        plural(keys, "key"),
        trials_text(of.len()),
    );
    let unknown = sum(|one| one.unknown);
    if unknown > 0 {
        text.push_str(&format!("; {} had an unknown outcome", plural(unknown, "write")));
    }
    let deleted = of.iter().map(|(_, one)| one.keys_deleted).max().unwrap_or(0);
    if deleted > 0 {
        text.push_str(&format!("; not judged: {} with deletes", plural(deleted, "key")));
    }
    if of.iter().any(|(_, one)| one.unguaranteed) {
        text.push_str("; passed, though nothing guarantees it");
    }
    text
}

fn violated_text(number: u32, of: &JudgedHistory) -> String {
    let mut text = format!(
        "NOT LINEARIZABLE (trial {number:02}): no order explains every answer about {} of {}",
        count_text(of.keys_violated),
        plural(of.keys, "key"),
    );
    if let Some(shown) = &of.violation {
        text.push_str(&format!(
            "; key `{}`: {}; {}",
            shown.key,
            shown.text(),
            legal_text(&shown.legal)
        ));
    }
    if of.unguaranteed {
        text.push_str("; this breaks no guarantee: such reads may be stale");
    }
    if let Some(kept) = &of.kept {
        text.push_str(&format!("; history: {}", kept.file));
    }
    text
}

/// Returns the longest legal prefix in words.
fn legal_text(of: &LegalPrefix) -> String {
    match of.until_ms {
        Some(until) => format!(
            "linearizable up to {until:.3} ms, the end of the first {} of its {}",
            count_text(of.operations),
            plural(of.of, "operation"),
        ),
        None => format!("the first of its {} to end shows it", plural(of.of, "operation")),
    }
}

/// Returns a table of each system's first violation: its operations by start, with their intervals drawn.
pub(crate) fn tables(of: &Comparison) -> Vec<Table> {
    let violations = of.contenders.iter().filter_map(|contender| {
        let found =
            judged(contender).find_map(|(number, one)| Some((number, one.violation.as_ref()?)));
        found.map(|(number, shown)| table(&contender.system, number, shown))
    });
    violations.collect()
}

fn table(system: &str, number: u32, of: &ShownViolation) -> Table {
    let all = &of.operations;
    let column = |head: &str, cell: &dyn Fn(&ShownOperation) -> String| Column {
        head: vec![head.to_owned()],
        cells: all.iter().map(|one| cell(one).into()).collect(),
    };
    let ended = |one: &ShownOperation| match one.end_ms {
        Some(end) => format!("{end:.3}"),
        None => "unknown".to_owned(),
    };
    let drawn = intervals(all);
    let mut drawn = Column {
        head: vec!["interval".to_owned()],
        cells: drawn.into_iter().map(Into::into).collect(),
    };
    let mut labels: Vec<String> = all.iter().map(client).collect();
    let mut columns = vec![
        column("operation", &|one| action_text(one)),
        column("from, ms", &|one| format!("{:.3}", one.start_ms)),
        column("to, ms", &ended),
    ];
    if of.more > 0 {
        labels.push(format!("and {} more", count_text(of.more)));
        columns.iter_mut().chain([&mut drawn]).for_each(|one| one.cells.push(String::new().into()));
    }
    columns.push(drawn);
    Table {
        title: Some(format!(
            "operations that show it: {system}, trial {number:02}, key {}",
            of.key
        )),
        corner: "client".to_owned(),
        labels,
        groups: vec![columns],
    }
}

/// Returns an operation in words: `write 17`, `read nothing`, `write 18, refused`.
fn action_text(of: &ShownOperation) -> String {
    let known = |value: Option<u32>| value.map_or("nothing".to_owned(), |value| value.to_string());
    let action = match of.action {
        ShownAction::Write { value } => format!("write {value}"),
        ShownAction::Read { value } => format!("read {}", known(value)),
        ShownAction::CompareAndSet { expected, value } => {
            format!("replace {} by {value}", known(expected))
        }
        ShownAction::Delete => "delete".to_owned(),
    };
    match of.outcome {
        OperationOutcome::Refused => format!("{action}, refused"),
        OperationOutcome::Done | OperationOutcome::Unknown => action,
    }
}

/// The operations that show a violation, drawn on a common scale.
///
/// Moments, not times, are evenly spaced: one fill may lie seconds before two overlapping reads.
#[derive(Debug, Clone)]
pub(crate) struct Drawing {
    /// `etcd, trial 01: write 1 was read after write 2, which began after it had ended (key a)`.
    pub(crate) title: String,
    /// Operations by start.
    pub(crate) rows: Vec<DrawnOperation>,
    /// Position of the last moment; the first one is 0.
    pub(crate) last: usize,
    /// Number of further operations.
    pub(crate) more: u64,
}

/// One drawn operation.
#[derive(Debug, Clone)]
pub(crate) struct DrawnOperation {
    /// `client 4 at etcd-2`.
    pub(crate) client: String,
    /// `write 17`.
    pub(crate) action: String,
    /// Position of its start.
    pub(crate) from: usize,
    /// Position of its end; `None` if its outcome is unknown.
    pub(crate) to: Option<usize>,
}

/// Longest name of a key in a title.
const KEY_MAX: usize = 26;
/// Most operations of a drawing on the first screen.
const ROWS_MAX: usize = 5;

impl Drawing {
    /// Draws a violation. `place`: a clause about its system and trial, or empty.
    pub(crate) fn new(of: &ShownViolation, place: &str) -> Self {
        let (from_to, last) = positions(&of.operations);
        let rows = of.operations.iter().zip(from_to).map(|(one, (from, to))| DrawnOperation {
            client: client(one),
            action: action_text(one),
            from,
            to,
        });
        let key = shortened(&of.key, KEY_MAX);
        let title = format!("{place}{} (key {key})", of.text());
        Self { title, rows: rows.collect(), last, more: of.more }
    }

    /// Returns at most five operations, and the number of the others.
    pub(crate) fn first_rows(&self) -> (&[DrawnOperation], u64) {
        let shown = self.rows.len().min(ROWS_MAX);
        (&self.rows[..shown], self.more + (self.rows.len() - shown) as u64)
    }

    /// Draws at most five operations as text, within `width` columns if they suffice.
    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let (rows, more) = self.first_rows();
        let widest = |text: &dyn Fn(&DrawnOperation) -> usize| rows.iter().map(text).max();
        let actions = widest(&|one| one.action.chars().count()).unwrap_or(0);
        let room = width.saturating_sub(actions + 4 + DRAWN / 2).max(8);
        let clients = widest(&|one| one.client.chars().count()).unwrap_or(0).min(room);
        let drawn = width.saturating_sub(clients + actions + 4).clamp(DRAWN / 2, DRAWN);
        let line = |one: &DrawnOperation| {
            let client = shortened(&one.client, clients);
            let bar = bar(one.from, one.to, self.last, drawn);
            format!("{client:clients$}  {:>actions$}  {bar}", one.action)
        };
        let mut lines: Vec<String> = rows.iter().map(line).collect();
        if more > 0 {
            lines.push(format!("and {}", plural(more, "more operation")));
        }
        lines
    }
}

/// Returns a judged history in words, with the smallest violation drawn. `width`: columns of the terminal, if it is one.
pub fn history_text(of: &JudgedHistory, width: Option<u16>) -> String {
    let keys = |count| plural(count, "key");
    let verdict = match &of.verdict {
        HistoryVerdict::Linearizable => {
            format!("linearizable: some order explains every answer about {}", keys(of.keys))
        }
        HistoryVerdict::Violated => format!(
            "not linearizable: no order explains every answer about {} of {}",
            count_text(of.keys_violated),
            keys(of.keys)
        ),
        HistoryVerdict::Undecided(why) => format!("not decided: {why}"),
        HistoryVerdict::NotChecked(why) => format!("not judged: {why}"),
    };
    let mut counts = vec![plural(of.operations, "operation")];
    let parts = [(of.unknown, "of unknown outcome"), (of.refused, "refused")];
    counts.extend(
        parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", plural(*count, "write"))),
    );
    if of.keys_deleted > 0 {
        counts.push(format!("not judged: {} with deletes", keys(of.keys_deleted)));
    }
    let mut lines = vec![verdict, counts.join("; ")];
    if let Some(shown) = &of.violation {
        let drawing = Drawing::new(shown, "");
        lines.extend([drawing.title.clone(), legal_text(&shown.legal), String::new()]);
        lines.extend(drawing.lines(width.map_or(100, usize::from)));
    }
    lines.iter().map(|line| format!("{}\n", harmless(line))).collect()
}

/// Returns the positions of the starts and ends among all moments, and the last position.
fn positions(of: &[ShownOperation]) -> (Vec<(usize, Option<usize>)>, usize) {
    let mut moments: Vec<f64> =
        of.iter().flat_map(|one| [Some(one.start_ms), one.end_ms]).flatten().collect();
    moments.sort_unstable_by(f64::total_cmp);
    moments.dedup();
    let never = usize::from(of.iter().any(|one| one.end_ms.is_none()));
    let last = (moments.len() + never).saturating_sub(1).max(1);
    let position = |at: f64| moments.partition_point(|one| *one < at);
    let each = of.iter().map(|one| (position(one.start_ms), one.end_ms.map(position)));
    (each.collect(), last)
}

/// Draws an interval in `width` characters. An operation of unknown outcome has no end.
fn bar(from: usize, to: Option<usize>, last: usize, width: usize) -> String {
    let column = |position: usize| position * (width - 1) / last;
    let from = column(from);
    let end = to.map_or(width - 1, column).max(from);
    let char = |place: usize| match place {
        _ if place < from || place > end => '·',
        _ if place == from => '├',
        _ if place == end && to.is_some() => '┤',
        _ if place == end => '▸',
        _ => '─',
    };
    (0..width).map(char).collect()
}

/// Draws the intervals on a common scale.
fn intervals(of: &[ShownOperation]) -> Vec<String> {
    let (from_to, last) = positions(of);
    from_to.into_iter().map(|(from, to)| bar(from, to, last, DRAWN)).collect()
}

/// Returns `client 4 at etcd-2`, or `client 4` in a history without nodes.
fn client(of: &ShownOperation) -> String {
    match of.node.as_str() {
        "" | "-" => format!("client {}", of.client),
        node => format!("client {} at {node}", of.client),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(start_ms: f64, end_ms: Option<f64>) -> ShownOperation {
        ShownOperation {
            client: 1,
            node: "a".to_owned(),
            action: ShownAction::Read { value: None },
            outcome: OperationOutcome::Done,
            start_ms,
            end_ms,
        }
    }

    #[test]
    fn intervals_show_order_and_overlap() {
        let drawn = intervals(&[
            operation(-9000.0, Some(1.0)),
            operation(0.5, Some(2.0)),
            operation(3.0, None),
        ]);
        assert_eq!(
            drawn,
            [
                "├──────────────┤························",
                "·······├───────────────┤················",
                "·······························├───────▸",
            ]
        );
    }

    #[test]
    fn any_times_are_drawn() {
        for times in [(0.0, Some(0.0)), (5.0, None), (1.0, Some(0.5))] {
            let drawn = intervals(&[operation(times.0, times.1)]);
            assert_eq!(drawn[0].chars().count(), DRAWN, "{drawn:?}");
        }
        assert!(intervals(&[]).is_empty());
    }
}
