//! Draws rows of a picture: trials as dots, the median, and the interval against the leader.
//!
//! Positions across are percentages on the page, so that marks and text keep their size from phone to paper. The share
//! image has positions in units.
//!
//! Not here: the values (`document::picture`), what stands around a row (`picture`, `card`).

use std::fmt::Write as _;

use bakeoff_core::stats::rounds::Preference;

use crate::document::picture::{Panel, Row, number};

use super::page::escape;
use super::scale::{Axis, Unit};
use super::svg::{LOOKS, outline, short};

/// Height of a row on the page.
pub(super) const ROW: f64 = 46.0;
/// End of the axis as a share of the width, where the machine's limit is beyond it.
const CUT: f64 = 0.885;
/// Position of a limit beyond the axis.
const BEYOND: f64 = 0.965;
/// Ratio of the limit to the end of the axis up to which the axis is extended to the limit.
const NEAR: f64 = 1.25;
/// Width of a digit of a tick on the page's narrowest row, as a share of the width.
const TICK_DIGIT: f64 = 0.023;
/// The same in the share image, before its scale.
const TICK_DIGIT_LENGTH: f64 = 7.0;
/// Outline of the mark of the broken nodes' clients: a triangle below the dots.
pub(super) const BROKEN_CLIENTS: &str = "M0 6L6 16L-6 16z";
/// Distance of dots that would touch, as a share of the width.
const TOUCH: f64 = 0.024;

/// Where a row is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) enum RowWidth {
    /// Across the whole width of the page's column.
    Page,
    /// From `left` over `width` units, `scale` times as large as on the page.
    Units { left: f64, width: f64, scale: f64 },
}

impl RowWidth {
    /// Returns the outage of the broken nodes' clients if it is marked. The share image has no legend for the mark.
    fn broken_clients(self, row: &Row) -> Option<f64> {
        row.broken_clients.filter(|_| matches!(self, Self::Page))
    }
}

/// A panel's axis, and where its rows are drawn.
pub(super) struct Strip<'a> {
    panel: &'a Panel,
    axis: Axis,
    across: RowWidth,
    /// Position of the machine's limit, as a share.
    cap: Option<f64>,
}

impl<'a> Strip<'a> {
    pub(super) fn new(panel: &'a Panel, across: RowWidth) -> Self {
        let mut values: Vec<f64> =
            panel.rows.iter().flat_map(|row| &row.dots).map(|dot| dot.value).collect();
        values.extend(panel.rows.iter().filter_map(|row| across.broken_clients(row)));
        let unit = if panel.better == Preference::More { Unit::Count } else { Unit::Number };
        let fits = Axis::fitting(unit, &values, 4);
        let limit = panel.limit.as_ref().map(|limit| limit.per_second);
        let near = limit.filter(|limit| *limit <= fits.high() * NEAR);
        values.extend(near);
        let axis = if near.is_some() { Axis::fitting(unit, &values, 4) } else { fits };
        let is_cut = limit.is_some() && near.is_none();
        let axis = axis.between(0.0, if is_cut { CUT } else { 1.0 });
        let cap = limit.map(|limit| if is_cut { BEYOND } else { axis.at(limit) });
        Self { panel, axis, across, cap }
    }

    /// Returns true if the axis is logarithmic.
    pub(super) fn is_log(&self) -> bool {
        self.axis.is_log()
    }

    /// Returns true if a value lies within the axis.
    pub(super) fn shows(&self, value: f64) -> bool {
        value <= self.axis.high()
    }

    fn is_cut(&self) -> bool {
        self.cap == Some(BEYOND)
    }

    /// Formats a position.
    fn x(&self, share: f64) -> String {
        match self.across {
            RowWidth::Page => {
                let text = format!("{:.2}", share * 100.0);
                format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
            }
            RowWidth::Units { left, width, .. } => short(left + share * width),
        }
    }

    /// Scales a length of the page.
    fn long(&self, length: f64) -> f64 {
        match self.across {
            RowWidth::Page => length,
            RowWidth::Units { scale, .. } => length * scale,
        }
    }

    fn line(&self, to: &mut String, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let (x1, x2) = (self.x(x1), self.x(x2));
        let [y1, y2] = [y1, y2].map(|y| short(self.long(y)));
        let _ =
            write!(to, "<line class=\"{class}\" x1=\"{x1}\" x2=\"{x2}\" y1=\"{y1}\" y2=\"{y2}\"/>");
    }

    /// Draws a shape around a position.
    fn at(&self, to: &mut String, share: f64, y: f64, shape: &str) {
        let (x, y) = (self.x(share), short(self.long(y)));
        let _ = match self.across {
            RowWidth::Page => {
                write!(to, "<svg x=\"{x}\" y=\"{y}\" overflow=\"visible\">{shape}</svg>")
            }
            RowWidth::Units { scale, .. } => {
                let scale = short(scale);
                write!(to, "<g transform=\"translate({x} {y}) scale({scale})\">{shape}</g>")
            }
        };
    }

    /// Draws a row from its top: grid, lines, bar, median, dots.
    pub(super) fn row(&self, row: &Row) -> String {
        let mut to = String::new();
        for (x, _) in self.axis.ticks().filter(|(x, _)| *x > 0.0 || self.is_log()) {
            self.line(&mut to, "grid", (x, 0.0), (x, ROW));
        }
        if !self.is_log() {
            self.line(&mut to, "zero", (0.0, 0.0), (0.0, ROW));
        }
        if let Some(cap) = self.cap {
            self.line(&mut to, "cap", (cap, 0.0), (cap, ROW));
        }
        let leader = self.panel.leader.as_ref();
        if let Some((_, median)) = leader {
            let x = self.axis.at(*median);
            self.line(&mut to, "lead", (x, 0.0), (x, ROW));
        }
        let bar = row.bar.filter(|&(low, high)| !self.covers(low, high));
        // A bar takes the lower third, so dots move up.
        let middle = if bar.is_some() { 15.0 } else { 23.0 };
        if let Some((low, high)) = bar {
            self.bar(&mut to, low, high);
        }
        if let Some(median) = row.median {
            let x = self.axis.at(median);
            self.line(&mut to, "median", (x, middle - 12.0), (x, middle + 12.0));
        }
        for &published in row.published.iter().filter(|value| self.shows(**value)) {
            let says = format!("published for {}: {}", row.system, number(published));
            let ring = format!(
                "<path class=\"published\" d=\"M0-7L7 0L0 7L-7 0z\"><title>{}</title></path>",
                escape(&says)
            );
            self.at(&mut to, self.axis.at(published), middle, &ring);
        }
        if let Some(outage) = self.across.broken_clients(row) {
            let says = format!(
                "{}: the broken nodes' clients were out for {} s",
                row.system,
                number(outage)
            );
            let mark = format!(
                "<path class=\"broken\" d=\"{BROKEN_CLIENTS}\"><title>{}</title></path>",
                escape(&says)
            );
            self.at(&mut to, self.axis.at(outage), middle, &mark);
        }
        self.dots(&mut to, row, middle);
        to
    }

    /// Returns true if an interval covers the whole axis.
    fn covers(&self, low: f64, high: f64) -> bool {
        let ends = (self.axis.at(low), self.axis.at(high));
        ends.0 <= 0.01 && ends.1 >= self.axis.at(f64::INFINITY) - 1e-9 && !self.shows(high)
    }

    fn bar(&self, to: &mut String, low: f64, high: f64) {
        let (from, until) = (self.axis.at(low), self.axis.at(high));
        self.line(to, "bar", (from, 32.0), (until, 32.0));
        self.line(to, "bar", (from, 28.0), (from, 36.0));
        if self.shows(high) {
            self.line(to, "bar", (until, 28.0), (until, 36.0));
        } else {
            self.at(to, until, 32.0, "<path class=\"arrow\" d=\"M-6-5L0 0L-6 5\"/>");
        }
    }

    /// Draws the trials. Those that would touch step up or down; the one nearest to the median stays in the middle.
    fn dots(&self, to: &mut String, row: &Row, middle: f64) {
        let mut dots: Vec<(f64, &crate::document::picture::Dot)> =
            row.dots.iter().map(|dot| (self.axis.at(dot.value), dot)).collect();
        let median = row.median.map_or(0.0, |median| self.axis.at(median));
        dots.sort_by(|(a, _), (b, _)| (a - median).abs().total_cmp(&(b - median).abs()));
        let mut taken: Vec<(f64, f64)> = Vec::new();
        for (x, dot) in dots {
            let is_free = |aside: &&f64| {
                !taken.iter().any(|(at, by)| (at - x).abs() < TOUCH && (by - **aside).abs() < 7.0)
            };
            let aside = [0.0, -8.0, 8.0, -13.0, 13.0].iter().find(is_free).copied().unwrap_or(0.0);
            taken.push((x, aside));
            let (hollow, cross) = match dot.valid {
                true => ("", ""),
                false => (" hollow", "<path class=\"cross\" d=\"M-6-6L6 6M-6 6L6-6\"/>"),
            };
            let mark = format!(
                "<path class=\"mark s{}{hollow}\" d=\"{}\"><title>{}</title></path>{cross}",
                row.look % LOOKS,
                outline(row.look, 0.0, 0.0),
                escape(&dot.says)
            );
            self.at(to, x, middle + aside, &mark);
        }
    }

    /// Draws the axis: a line, ticks, and the break before a limit beyond it.
    pub(super) fn axis(&self) -> String {
        let mut to = String::new();
        let end = self.axis.at(f64::INFINITY);
        self.line(&mut to, "zero", (0.0, 0.0), (end, 0.0));
        let digit = match self.across {
            RowWidth::Page => TICK_DIGIT,
            RowWidth::Units { width, scale, .. } => TICK_DIGIT_LENGTH * scale / width,
        };
        let anywhere = (f64::NEG_INFINITY, f64::INFINITY);
        for (x, text) in self.axis.ticks_apart(digit, digit, anywhere) {
            let (x, y) = (self.x(x), short(self.long(16.0)));
            let _ = write!(
                to,
                "<text class=\"tick\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>"
            );
        }
        if self.is_cut() {
            self.at(&mut to, 0.905, 0.0, "<path class=\"cross\" d=\"M-5 5L0-5M0 5L5-5\"/>");
            self.line(&mut to, "zero", (0.925, 0.0), (1.0, 0.0));
        }
        to
    }

    /// Describes a row for a screen reader.
    pub(super) fn label(&self, row: &Row) -> String {
        let unit = self.panel.unit;
        let valid = || row.dots.iter().filter(|dot| dot.valid).map(|dot| dot.value);
        let trials = bakeoff_core::units::trials_text(valid().count());
        let (least, most) = (valid().fold(f64::INFINITY, f64::min), valid().fold(0.0, f64::max));
        let bar = row.bar.map_or_else(String::new, |(low, high)| {
            format!("; 95 % interval {} to {}{unit}", number(low), number(high))
        });
        match row.median {
            Some(_) => format!(
                "{}: {trials} from {} to {}{unit}, median {}{bar}",
                row.system,
                number(least),
                number(most),
                row.value
            ),
            None => format!("{}: {}", row.system, row.value),
        }
    }
}
