//! Draws one quantity over another: a line for each system, and the same as a table.
//!
//! Not here: what is drawn (`curve`, `fan_out`, `leases`).

use bakeoff_core::units::plural;

use super::frame::Frame;
use super::page::{figure, grid};
use super::scale::{Axis, Unit};
use super::svg::{Svg, legend, stroke, swatch};

const FRAME: Frame = Frame { width: 480.0, left: 70.0, right: 464.0, top: 12.0 };
const BOTTOM: f64 = 210.0;

/// A mark of a system's line.
pub(super) struct Spot {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Text of the mark.
    pub(super) says: String,
    /// Cells of its row in the table.
    pub(super) row: Vec<String>,
}

/// Marks of a system, joined in their order.
pub(super) struct SystemLine {
    /// Place in the study, which sets colour and mark.
    pub(super) look: usize,
    pub(super) name: String,
    pub(super) spots: Vec<Spot>,
    /// Sentence for readers who do not see the drawing.
    pub(super) summary: String,
}

/// Fewest numbers of a line: two are a line by chance.
const NUMBERS_MIN: usize = 3;

/// A system's figure at a number of something.
pub(super) struct NumberedFigure {
    pub(super) number: u64,
    pub(super) figure: f64,
    pub(super) text: String,
}

impl SystemLine {
    /// Returns the line of a system over the numbers of `noun`; `None` with too few numbers.
    pub(super) fn over_numbers(
        (look, name): (usize, &str),
        noun: &str,
        mut figures: Vec<NumberedFigure>,
    ) -> Option<Self> {
        figures.sort_by_key(|of| of.number);
        figures.dedup_by_key(|of| of.number);
        let last = figures.last().filter(|_| figures.len() >= NUMBERS_MIN)?;
        let summary = format!("{name}: {} with {}", last.text, plural(last.number, noun));
        let spot = |NumberedFigure { number, figure, text }| {
            let count = plural(number, noun);
            Spot {
                x: number as f64,
                y: figure,
                says: format!("{name}, {count}: {text}"),
                row: vec![name.to_owned(), count, text],
            }
        };
        let spots = figures.into_iter().map(spot).collect();
        Some(Self { look, name: name.to_owned(), spots, summary })
    }
}

/// A chart of lines.
pub(super) struct LineChart<'a> {
    pub(super) caption: &'a str,
    /// Title of the drawing and of its table.
    pub(super) title: &'a str,
    /// Name and unit of the axis across.
    pub(super) across: (&'a str, Unit),
    /// Unit of the axis upwards.
    pub(super) up: Unit,
    /// How it was measured, and how to read it.
    pub(super) how: &'a str,
    /// Heads of the table.
    pub(super) head: &'a [&'a str],
    pub(super) lines: &'a [SystemLine],
}

impl LineChart<'_> {
    /// Returns the chart as HTML.
    pub(super) fn html(&self) -> String {
        let Self { caption, title, across: (name, unit), up, how, head, lines } = self;
        let spots = || lines.iter().flat_map(|line| &line.spots);
        let x = Axis::fitting(*unit, &spots().map(|spot| spot.x).collect::<Vec<_>>(), 5);
        let y = Axis::fitting(*up, &spots().map(|spot| spot.y).collect::<Vec<_>>(), 5);
        let (x, y) = (FRAME.across(x), y.between(BOTTOM, FRAME.top));
        let log = if x.is_log() { " (logarithmic)" } else { "" };
        let mut svg = FRAME.with_axes(&x, &y, BOTTOM, &format!("{name}{log}"));
        for line in *lines {
            let look = line.look;
            let places = line.spots.iter().map(|spot| (x.at(spot.x), y.at(spot.y)));
            svg.path(&stroke(look), places);
            for spot in &line.spots {
                svg.mark(look, "", x.at(spot.x), y.at(spot.y), &spot.says);
            }
        }
        let entries: Vec<(Svg, String)> = lines
            .iter()
            .map(|line| {
                let swatch = swatch(|svg| {
                    svg.path(&stroke(line.look), [(1.0, 7.0), (29.0, 7.0)].into_iter());
                    svg.mark(line.look, "", 15.0, 7.0, "");
                });
                (swatch, line.name.clone())
            })
            .collect();
        let summaries: Vec<&str> = lines.iter().map(|line| line.summary.as_str()).collect();
        let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
        let rows: Vec<Vec<String>> = spots().map(|spot| spot.row.clone()).collect();
        figure(
            caption,
            &legend(&entries),
            &svg.finish(title, &summaries.join("; ")),
            how,
            &grid(title, &head, &rows),
        )
    }
}
