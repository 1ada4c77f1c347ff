//! Draws a plot as SVG: one line per database, two axes, and their titles.
//!
//! dbtester also draws PNG, which its tables and READMEs do not need.

use std::fmt::Write as _;

use super::Contender;
use crate::dbtester::Product;
use crate::dbtester::number;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 52.0;
/// Minimum number of marks on an axis.
const TICKS: f64 = 5.0;

pub(super) struct Curve {
    name: String,
    /// Colour and dash pattern. The dashes distinguish the lines without colour.
    style: (&'static str, &'static str),
    /// Points in order; `None` for an unknown value, which leaves a gap in the line.
    points: Vec<Option<(f64, f64)>>,
}

impl Curve {
    pub(super) fn new(
        contender: &Contender<'_>,
        points: impl IntoIterator<Item = (Option<f64>, Option<f64>)>,
    ) -> Self {
        use crate::dbtester::Database;
        let style = match (contender.database.product(), contender.database) {
            (_, Database::EtcdOther) => ("#1b7837", "6 3"),
            (_, Database::EtcdTip) => ("#185aa9", ""),
            (_, Database::EtcdV3_2) => ("#0097a7", "2 3"),
            (_, Database::EtcdV3_3) => ("#3f51b5", "10 3"),
            (Product::Zookeeper, _) => ("#4d9221", "4 2 1 2"),
            (Product::Consul, _) => ("#d6004f", "8 2 2 2"),
            _ => ("#8c6d00", "1 2"),
        };
        let points = points.into_iter().map(|(x, y)| x.zip(y)).collect();
        Self { name: contender.tag.clone(), style, points }
    }
}

/// Draws curves below the plot's title and next to the titles of its axes.
pub(super) fn svg([title, x_axis, y_axis]: [&str; 3], curves: &[Curve]) -> String {
    let all = || curves.iter().flat_map(|curve| curve.points.iter().copied().flatten());
    let x_end = nice(all().map(|(x, _)| x).fold(0.0, f64::max));
    let y_end = nice(all().map(|(_, y)| y).fold(0.0, f64::max));
    let x = |value: f64| LEFT + value / x_end * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - value.max(0.0) / y_end * (HEIGHT - TOP - BOTTOM);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>{}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n",
        escaped(&format!("{title}: {y_axis}")),
        escaped(title),
    );
    let mut add =
        |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("text takes text");
    for tick in ticks(y_end) {
        let (at, label) = (y(tick), label(tick));
        add(format_args!(
            "<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{label}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0
        ));
    }
    for tick in ticks(x_end) {
        let (at, label) = (x(tick), label(tick));
        let below = HEIGHT - BOTTOM + 18.0;
        add(format_args!(
            "<text x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{label}</text>"
        ));
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let (x_axis, y_axis) = (escaped(x_axis), escaped(y_axis));
    let bottom = HEIGHT - 12.0;
    add(format_args!(
        "<text x=\"{middle:.1}\" y=\"{bottom:.1}\" text-anchor=\"middle\">{x_axis}</text>"
    ));
    let side = (TOP + HEIGHT - BOTTOM) / 2.0;
    add(format_args!(
        "<text transform=\"translate(16 {side:.1})rotate(-90)\" text-anchor=\"middle\">{y_axis}</text>"
    ));
    let mut legend = LEFT;
    for Curve { name, style: (colour, dashes), points } in curves {
        let mut path = String::new();
        let mut before = None;
        for point in points {
            if let Some((at, value)) = *point {
                // A single point becomes a short line.
                let command = if before.is_some() { "L" } else { "M" };
                let dot = if before.is_some() { "" } else { "m-2 0h4m-2 0" };
                write!(path, "{command}{:.1} {:.1}{dot}", x(at), y(value))
                    .expect("text takes text");
            }
            before = *point;
        }
        let line = format!(
            "stroke=\"{colour}\" stroke-dasharray=\"{dashes}\" stroke-width=\"2\" fill=\"none\""
        );
        add(format_args!("<path d=\"{path}\" {line}><title>{}</title></path>", escaped(name)));
        add(format_args!(
            "<path d=\"M{legend:.1} 40h28\" {line}/><text x=\"{:.1}\" y=\"44\">{}</text>",
            legend + 34.0,
            escaped(name)
        ));
        legend += 60.0 + 7.0 * name.chars().count() as f64;
    }
    text.push_str("</svg>\n");
    text
}

/// Returns the end of an axis: the smallest 1, 2 or 5 times a power of ten that covers `most`.
fn nice(most: f64) -> f64 {
    if !(most.is_finite() && most > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(most.log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|end| *end >= most).unwrap_or(power * 10.0)
}

fn ticks(end: f64) -> impl Iterator<Item = f64> {
    (0..=TICKS as u32).map(move |tick| end * f64::from(tick) / TICKS)
}

fn label(value: f64) -> String {
    match value {
        value if value >= 1000.0 => number::commas(value.round() as u64),
        value => format!("{:.3}", value).trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace(|c: char| c.is_control(), " ")
}
