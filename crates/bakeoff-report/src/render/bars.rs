//! Bars of a picture for a terminal: a line for each system, with its interval against the leader and key figures.
//!
//! Not here: the values (`document::picture`), the lines around them (`terminal`).

use bakeoff_core::units::harmless;

use crate::document::picture::{Panel, Picture, Row};
use crate::document::table::{Column, Table, Tone};

/// Narrowest bar that shows a difference.
const BAR_MIN: usize = 10;
const BAR_MAX: usize = 48;
/// Longest name of a system on a narrow terminal; a quarter of a wider one.
const NAME_MAX: usize = 16;

/// Begins of the headings that are left out without room, the first one first. All others stay.
const DROPPED: [&str; 6] = ["p99.9", "CPU", "memory", "undisturbed", "p50", "ratio"];

/// Returns a line with the headings, and one for each system, within `width` columns. Each has the tone of its text.
/// `figures`: the table of key figures. What has no room even without the [`DROPPED`] columns follows in further blocks.
pub(super) fn bars(of: &Picture, figures: &Table, width: usize) -> Vec<(Tone, String)> {
    let Some(panel) = of.panels.first() else { return Vec::new() };
    let longest = panel.rows.iter().map(|row| row.system.chars().count()).max().unwrap_or(0);
    // The heading of the names is the load's.
    let names = longest.max(of.place.chars().count());
    let names = names.min(NAME_MAX.max(width / 4));
    // Room is short in a line.
    let head = |column: &Column| column.head.join(" ").replace(" per operation", "/op");
    let wide = |column: &Column| {
        let cells = column.cells.iter().map(|cell| cell.text().chars().count());
        cells.chain([head(column).chars().count()]).max().unwrap_or(0)
    };
    let room = width.saturating_sub(names + 3);
    let least = if compares(panel) { BAR_MIN } else { 0 };
    let mut columns: Vec<&Column> = figures.groups.iter().flatten().collect();
    let used = |columns: &[&Column]| columns.iter().map(|one| wide(one) + 2).sum::<usize>();
    for begin in DROPPED {
        while used(&columns) + least > room
            && let Some(place) = columns.iter().rposition(|one| head(one).starts_with(begin))
        {
            columns.remove(place);
        }
    }
    // Without room for a bar, figures come first.
    let bar = match room.saturating_sub(used(&columns)) {
        spare if least > 0 && spare >= BAR_MIN => spare.min(BAR_MAX),
        _ => 0,
    };
    let left = names + 2 + bar;
    let mut lines = Vec::new();
    for block in blocks(&columns, (width.saturating_sub(left + 1), &wide)) {
        let line = |text: &str, cell: &dyn Fn(&Column) -> String| {
            let cells: String = block
                .iter()
                .map(|column| format!("  {:>1$}", cell(column), wide(column)))
                .collect();
            harmless(format!(" {:left$}{cells}", cut(text, left)).trim_end())
        };
        lines.push((Tone::Faint, line(&of.place, &head)));
        for row in &panel.rows {
            let place = figures.labels.iter().position(|name| *name == row.system);
            let cell = |column: &Column| {
                place.map_or_else(String::new, |place| column.cells[place].text().into_owned())
            };
            let name = cut(&row.system, names);
            let text = format!("{name:names$}  {}", drawn(panel, row, bar));
            lines.push((Tone::Plain, line(&text, &cell)));
        }
    }
    lines
}

/// Splits columns into blocks that fit into `room`, each with at least one column.
fn blocks<'a>(
    columns: &[&'a Column],
    (room, wide): (usize, &dyn Fn(&Column) -> usize),
) -> Vec<Vec<&'a Column>> {
    let (mut blocks, mut used) = (vec![Vec::new()], 0);
    for column in columns {
        used += wide(column) + 2;
        match blocks.last_mut() {
            Some(block) if used <= room || block.is_empty() => block.push(*column),
            _ => {
                used = wide(column) + 2;
                blocks.push(vec![*column]);
            }
        }
    }
    blocks
}

/// Returns true if bars show a difference: the systems are compared, and their figures are not all the same.
fn compares(panel: &Panel) -> bool {
    let medians = || panel.rows.iter().filter_map(|row| row.median);
    let (least, most) = (medians().fold(f64::MAX, f64::min), medians().fold(0.0, f64::max));
    panel.leader.is_some() && most > 1.01 * least
}

/// Shortens a text in its middle, with a mark.
fn cut(text: &str, room: usize) -> String {
    let count = text.chars().count();
    if count <= room {
        return text.to_owned();
    }
    let (begin, end) = (room.saturating_sub(1).div_ceil(2), room.saturating_sub(1) / 2);
    let chars = || text.chars();
    chars().take(begin).chain(['…']).chain(chars().skip(count - end)).collect()
}

/// Draws a bar up to the median, the interval over it, and the leader's line.
fn drawn(panel: &Panel, row: &Row, width: usize) -> String {
    let medians = panel.rows.iter().filter_map(|row| row.median);
    let most = medians.fold(0.0, f64::max);
    // The leader's line needs the last column.
    let at = |value: f64| (value / most * (width - 1) as f64).round().max(0.0) as usize;
    let mut cells = vec![' '; width];
    if most <= 0.0 || width == 0 {
        return cells.into_iter().collect();
    }
    for cell in cells.iter_mut().take(row.median.map_or(0, at)) {
        *cell = '█';
    }
    if let Some((_, leader)) = panel.leader {
        cells[at(leader).min(width - 1)] = '│';
    }
    if let Some((low, high)) = row.bar {
        let (from, until) = (at(low).min(width - 1), at(high).min(width - 1));
        for cell in &mut cells[from..=until] {
            *cell = '─';
        }
        cells[from] = '├';
        cells[until] = if high > most { '→' } else { '┤' };
    }
    cells.into_iter().collect()
}
