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

/// Returns a line with the headings, and one for each system, within `width` columns. Each has the tone of its text.
/// `figures`: the table of key figures, whose last columns are left out if they have no room.
pub(super) fn bars(of: &Picture, figures: &Table, width: usize) -> Vec<(Tone, String)> {
    let Some(panel) = of.panels.first() else { return Vec::new() };
    let names = panel.rows.iter().map(|row| row.system.chars().count()).max().unwrap_or(0);
    let names = names.min(NAME_MAX.max(width / 4));
    let all: Vec<&Column> = figures.groups.iter().flatten().collect();
    // Room is short in a line.
    let head = |column: &Column| column.head.join(" ").replace(" per operation", "/op");
    let wide = |column: &Column| {
        let cells = column.cells.iter().map(|cell| cell.text().chars().count());
        cells.chain([head(column).chars().count()]).max().unwrap_or(0)
    };
    let room = width.saturating_sub(names + 3);
    let mut columns: Vec<&Column> = Vec::new();
    let mut used = 0;
    for column in all {
        if used + wide(column) + 2 + BAR_MIN > room && !columns.is_empty() {
            break;
        }
        used += wide(column) + 2;
        columns.push(column);
    }
    let bar = room.saturating_sub(used).clamp(BAR_MIN, BAR_MAX);
    let left = names + 2 + bar;
    let line = |text: &str, cell: &dyn Fn(&Column) -> String| {
        let text: String = text.chars().take(left).collect();
        let cells: String =
            columns.iter().map(|column| format!("  {:>1$}", cell(column), wide(column))).collect();
        harmless(format!(" {text:left$}{cells}").trim_end())
    };
    let mut lines = vec![(Tone::Faint, line(&of.place, &head))];
    for row in &panel.rows {
        let place = figures.labels.iter().position(|name| *name == row.system);
        let cell = |column: &Column| {
            place.map_or_else(String::new, |place| column.cells[place].text().into_owned())
        };
        let name: String = row.system.chars().take(names).collect();
        let text = format!("{name:names$}  {}", drawn(panel, row, bar));
        lines.push((Tone::Plain, line(&text, &cell)));
    }
    lines
}

/// Draws a bar up to the median, the interval over it, and the leader's line.
fn drawn(panel: &Panel, row: &Row, width: usize) -> String {
    let medians = panel.rows.iter().filter_map(|row| row.median);
    let most = medians.fold(0.0, f64::max);
    // The leader's line needs the last column.
    let at = |value: f64| (value / most * (width - 1) as f64).round().max(0.0) as usize;
    let mut cells = vec![' '; width];
    if most <= 0.0 {
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
