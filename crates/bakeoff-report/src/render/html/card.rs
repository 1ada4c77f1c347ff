//! The share image: the answer and its picture on 1200 by 630, for links and slides.
//!
//! It is SVG with its own colours and needs no style sheet. The dots and bars are those of the page. The image is always
//! light, and has no text below 22 units.
//!
//! Not here: pixels (`render::png`), the values (`document::picture`).

use std::fmt::Write as _;

use crate::document::outages;
use crate::document::picture::{Panel, Picture};
use crate::document::report::Report;
use crate::document::{verification, words};

use super::page::escape;
use super::strip::{ROW, RowWidth, Strip};
use super::svg::{LOOKS, short};

/// Size of the image.
pub(crate) const SIZE: (u32, u32) = (1200, 630);
const LEFT: f64 = 64.0;
const RIGHT: f64 = 1136.0;
/// Size of marks compared with the page.
const SCALE: f64 = 1.8;
/// Most systems in the picture.
const SYSTEMS: usize = 6;
/// Top and bottom of the rows.
const ROWS: (f64, f64) = (334.0, 500.0);
/// Sizes of text: names and titles, supporting sentences, notes.
const BOLD: f64 = 25.0;
const SUPPORT: f64 = 28.0;
const NOTE: f64 = 22.0;
/// Distance of names from the panel.
const GAP: f64 = 16.0;
/// Width that names take on the left.
const NAMES: f64 = 172.0;
/// Width that the median takes on the right of a panel.
const VALUES: f64 = 110.0;

const STYLE: &str = "text{fill:#16191d}.head{font-weight:700;letter-spacing:-.6px}.h58{font-size:58px}.h50{font-size:50px}.h42{font-size:42px}.h34{font-size:34px}.h28{font-size:28px}\
.say{font-size:28px}.b{font-size:25px;font-weight:700}.n,.tick{font-size:22px;fill:#535b64}.v{font-size:28px;font-weight:700}\
.grid{stroke:#e6e9ec;stroke-width:2}.zero{stroke:#535b64;stroke-width:2;fill:none}.lead{stroke:#16191d;stroke-width:2}\
.cap{stroke:#16191d;stroke-width:2.5;stroke-dasharray:3 5}.bar{stroke:#16191d;stroke-width:3.5}\
.arrow,.cross{stroke:#16191d;stroke-width:2;fill:none}.median{stroke:#16191d;stroke-width:5}\
.published{fill:#fff;stroke:#16191d;stroke-width:1.6}.mark{stroke:#fff;stroke-width:1}.hollow{fill:#fff;stroke-width:1.4}";
/// Colours of the systems, as in the style sheet's light form.
const COLOURS: [&str; LOOKS] =
    ["#0072b2", "#b84a00", "#007d5c", "#9a3f80", "#7d6200", "#2878a8", "#5b5b5b", "#b00020"];

/// Returns the share image as SVG.
pub fn card(report: &Report) -> String {
    let verdict = &report.headline.verdict;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
         role=\"img\" aria-labelledby=\"t d\" font-family=\"Noto Sans,system-ui,sans-serif\">\
         <title id=\"t\">{}</title><desc id=\"d\">{}</desc><style>{STYLE}",
        escape(verdict),
        escape(&report.headline.support.join(" ")),
        w = SIZE.0,
        h = SIZE.1,
    );
    for (look, colour) in COLOURS.iter().enumerate() {
        let _ =
            write!(svg, ".s{look}{{fill:{colour}}}.hollow.s{look}{{fill:#fff;stroke:{colour}}}");
    }
    svg.push_str("</style><rect width=\"1200\" height=\"630\" fill=\"#fff\"/>");
    let mut text = |class: &str, x: f64, y: f64, anchor: &str, line: &str| {
        let (x, y, line) = (short(x), short(y), escape(line));
        let _ = write!(
            svg,
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{line}</text>"
        );
    };
    text("b", LEFT, 66.0, "start", "bakeoff");
    let when = words::when(report);
    text("n", RIGHT, 66.0, "end", when.split(',').next().unwrap_or_default());
    let (size, lines) = headline(verdict);
    let mut y = 92.0 + size * 0.82;
    for line in &lines {
        text(&format!("head h{size}"), LEFT, y, "start", line);
        y += size * 1.12;
    }
    let support = report.headline.support.join(" ");
    // The picture's titles begin at 296.
    y += 4.0 - size * 0.3;
    let room = ((290.0 - y) / 36.0 + 1.0).clamp(1.0, 2.0) as usize;
    for line in wrap(&support, RIGHT - LEFT, SUPPORT, false, room) {
        text("say", LEFT, y, "start", &line);
        y += 36.0;
    }
    let shown = report.pictures.first();
    if let Some(picture) = shown {
        let note = fitted(&note(picture, report), RIGHT - LEFT, NOTE);
        text("n", LEFT, 564.0, "start", &note);
    }
    let machine = fitted(&words::machine(&report.header.environment), RIGHT - LEFT, NOTE);
    text("n", LEFT, 598.0, "start", &machine);
    svg.extend(shown.map(panels));
    svg.push_str("</svg>\n");
    svg
}

/// Returns the size and the lines of the heading. A condition at its end is never cut, so long headings have smaller
/// letters.
fn headline(verdict: &str) -> (f64, Vec<String>) {
    for (size, most) in [(58.0, 2), (50.0, 2), (42.0, 3), (34.0, 4)] {
        let lines = wrap(verdict, RIGHT - LEFT, size, true, usize::MAX);
        if lines.len() <= most {
            return (size, lines);
        }
    }
    (28.0, wrap(verdict, RIGHT - LEFT, 28.0, true, 5))
}

/// Returns the legend below the picture.
fn note(picture: &Picture, report: &Report) -> String {
    let dots = if picture.dot == outages::DOT { "injections" } else { "trials" };
    let leader = picture.panels.first().and_then(|panel| panel.leader.as_ref());
    let rows = picture.panels.first().map_or(0, |panel| panel.rows.len());
    let more = rows.saturating_sub(SYSTEMS);
    let loads = match report.pictures.len() {
        1 => String::new(),
        loads => format!(", 1 of {loads} loads"),
    };
    // The first words explain the load, the others what a client does under it.
    let load = picture.load.split(':').next().unwrap_or_default();
    let mut parts = vec![format!("{} ({load}){loads}", picture.place)];
    if !verification::all_are_valid(report) {
        parts.push(format!("trials valid: {}", verification::trials(report)));
    }
    parts.push(format!("dots: {dots}"));
    let limit = picture.panels.iter().find_map(|panel| panel.limit.as_ref());
    parts.extend(limit.map(|limit| format!("dashes: {}", limit.name)));
    parts.extend(
        leader.map(|(name, _)| format!("bar: 95 % interval against {name}'s median, the line")),
    );
    if more > 0 {
        let systems = if more == 1 { "system" } else { "systems" };
        parts.push(format!("{more} more {systems} in the report"));
    }
    format!("{}.", parts.join("; "))
}

fn panels(picture: &Picture) -> String {
    // A single panel leaves room for long names.
    let longest = picture.panels.iter().flat_map(|panel| &panel.rows);
    let longest = longest.map(|row| width(&row.system, BOLD, true) + GAP).fold(NAMES, f64::max);
    let names = if picture.panels.len() == 1 { longest.min(2.0 * NAMES) } else { NAMES };
    let left = LEFT + names;
    let spans = match picture.panels.len() {
        1 => vec![(left, RIGHT - VALUES - left)],
        _ => vec![(left, 400.0), (left + 400.0 + VALUES + 60.0, 220.0)],
    };
    let mut svg = String::new();
    for (number, (panel, (left, width))) in picture.panels.iter().zip(spans).enumerate() {
        panel_at(&mut svg, panel, left, width, (number == 0).then_some(names));
    }
    svg
}

/// Draws a panel. `names`: the width of the systems' names on its left.
fn panel_at(svg: &mut String, of: &Panel, left: f64, width: f64, names: Option<f64>) {
    let rows = &of.rows[..of.rows.len().min(SYSTEMS)];
    let height = (ROWS.1 - ROWS.0) / rows.len().max(1) as f64;
    let scale = SCALE.min(height / ROW);
    let strip = Strip::new(of, RowWidth::Units { left, width, scale });
    let log = if strip.is_log() { " (log)" } else { "" };
    let title = fitted(&format!("{}{log}", of.title), width + VALUES, BOLD);
    let _ =
        write!(svg, "<text class=\"b\" x=\"{}\" y=\"318\">{}</text>", short(left), escape(&title));
    for (number, row) in rows.iter().enumerate() {
        let top = ROWS.0 + height * number as f64;
        let middle = top + height / 2.0 + 9.0;
        let _ = write!(svg, "<g transform=\"translate(0 {})\">{}</g>", short(top), strip.row(row));
        let is_number = row.value.starts_with(|first: char| first.is_ascii_digit());
        let (class, x, y) =
            (if is_number { "v" } else { "n" }, left + width + VALUES, short(middle));
        let value = row.value.split(':').next().unwrap_or_default();
        let (x, value) = (short(x), escape(value));
        let _ = write!(
            svg,
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{value}</text>"
        );
        if let Some(names) = names {
            let name = escape(&fitted(&row.system, names - GAP, BOLD));
            let (x, y) = (short(LEFT), short(middle));
            let _ = write!(svg, "<text class=\"b\" x=\"{x}\" y=\"{y}\">{name}</text>");
        }
    }
    let bottom = ROWS.0 + height * rows.len() as f64;
    let _ = write!(
        svg,
        "<g transform=\"translate(0 {})\">{}</g>",
        short(bottom.min(ROWS.0 + ROW * scale * rows.len() as f64)),
        strip.axis()
    );
}

/// Estimates the width of a text in Noto Sans, generously.
fn width(text: &str, size: f64, bold: bool) -> f64 {
    let em = |char: char| match char {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '!' | '|' | ' ' => 0.29,
        'f' | 't' | 'r' | '(' | ')' | '-' | '/' => 0.41,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
        char if char.is_uppercase() => 0.68,
        char if char.is_ascii() => 0.6,
        _ => 1.0,
    };
    text.chars().map(em).sum::<f64>() * size * if bold { 1.04 } else { 0.97 }
}

/// Cuts a text to a width.
fn fitted(text: &str, room: f64, size: f64) -> String {
    if width(text, size, false) <= room {
        return text.to_owned();
    }
    let mut kept: String = text.to_owned();
    while width(&kept, size, false) + size > room && kept.pop().is_some() {}
    format!("{}…", kept.trim_end())
}

/// Wraps a text into at most `most` lines; the last is cut.
fn wrap(text: &str, room: f64, size: f64, bold: bool, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if width(&longer, size, bold) <= room || line.is_empty() {
            *line = longer;
        } else {
            lines.push(word.to_owned());
        }
    }
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            *last = fitted(&format!("{last} …"), room, size);
        }
    }
    lines
}
