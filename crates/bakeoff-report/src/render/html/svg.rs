//! Drawings: lines, marks and text as SVG, with colours from the style sheet.
//!
//! Each system has its own colour, mark and dash pattern, so colour is never the only sign. There are no `style`
//! attributes, because the page's policy forbids them.
//!
//! Not here: positions (`scale`), the content of drawings (the sections).

use std::fmt::Write as _;

use super::page::escape;
use super::scale::Axis;

/// Number of colours, marks and dash patterns, after which they repeat.
pub(super) const LOOKS: usize = 8;

/// A drawing in progress.
#[derive(Debug)]
pub(super) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// Formats a coordinate, rounded to a tenth.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { body: String::new(), width, height }
    }

    /// Returns the drawing with a title and a description for screen readers.
    pub(super) fn finish(self, title: &str, description: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\"><title>{}</title><desc>{}</desc>{}</svg>",
            short(self.width),
            short(self.height),
            escape(title),
            escape(description),
            self.body
        )
    }

    pub(super) fn line(&mut self, class: &str, x1: f64, y1: f64, x2: f64, y2: f64) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(short);
        let _ = write!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"
        );
    }

    pub(super) fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        let [x, y, width, height] = [x, y, width.max(0.0), height.max(0.0)].map(short);
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        );
    }

    /// Draws a text. `anchor`: `start`, `middle` or `end`.
    pub(super) fn text(&mut self, class: &str, anchor: &str, x: f64, y: f64, text: &str) {
        let (x, y, text) = (short(x), short(y), escape(text));
        let anchor = match anchor {
            "start" => String::new(),
            other => format!(" text-anchor=\"{other}\""),
        };
        let _ =
            write!(self.body, "<text class=\"{class}\"{anchor} x=\"{x}\" y=\"{y}\">{text}</text>");
    }

    /// Draws a line through these points, interrupted at NaN. A single point becomes a short dash to be visible.
    pub(super) fn path(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let (mut path, mut pen_down, mut last) = (String::new(), false, (0.0, 0.0));
        let mut alone = false;
        let dash = |path: &mut String, (x, y): (f64, f64)| {
            let _ = write!(path, "M{} {}h4", short(x - 2.0), short(y));
        };
        for (x, y) in points {
            if !(x.is_finite() && y.is_finite()) {
                if alone {
                    dash(&mut path, last);
                }
                (pen_down, alone) = (false, false);
                continue;
            }
            let _ = write!(path, "{}{} {}", if pen_down { 'L' } else { 'M' }, short(x), short(y));
            alone = !pen_down;
            (pen_down, last) = (true, (x, y));
        }
        if alone {
            dash(&mut path, last);
        }
        if !path.is_empty() {
            let _ = write!(self.body, "<path class=\"{class}\" d=\"{path}\"/>");
        }
    }

    /// Draws a closed shape through these points.
    pub(super) fn area(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(
                path,
                "{}{} {}",
                if path.is_empty() { 'M' } else { 'L' },
                short(x),
                short(y)
            );
        }
        if !path.is_empty() {
            let _ = write!(self.body, "<path class=\"{class}\" d=\"{path}Z\"/>");
        }
    }

    /// Draws the mark of a published figure.
    pub(super) fn published(&mut self, x: f64, y: f64, says: &str) {
        self.ring(&format!("M{} {}m0 -7l7 7l-7 7l-7 -7z", short(x), short(y)), says);
    }

    /// Draws a system's mark with a tooltip.
    pub(super) fn mark(&mut self, look: usize, class: &str, x: f64, y: f64, says: &str) {
        let _ = write!(
            self.body,
            "<path class=\"mark s{} {class}\" d=\"{}\">",
            look % LOOKS,
            outline(look, x, y)
        );
        if !says.is_empty() {
            let _ = write!(self.body, "<title>{}</title>", escape(says));
        }
        self.body.push_str("</path>");
    }

    /// Draws the mark of a published figure, by its outline.
    pub(super) fn ring(&mut self, outline: &str, says: &str) {
        let _ = write!(self.body, "<path class=\"published\" d=\"{outline}\">");
        if !says.is_empty() {
            let _ = write!(self.body, "<title>{}</title>", escape(says));
        }
        self.body.push_str("</path>");
    }

    /// Draws the grid lines and ticks of an axis at the bottom of an area from `top` to `bottom`.
    pub(super) fn axis_below(&mut self, axis: &Axis, top: f64, bottom: f64) {
        let lines =
            axis.ticks().map(|(x, _)| format!("M{} {}V{}", short(x), short(top), short(bottom)));
        let lines: String = lines.collect();
        let _ = write!(self.body, "<path class=\"grid\" d=\"{lines}\"/>");
        self.ticks_below(axis, bottom);
    }

    /// Draws the line and the ticks of an axis, without a grid.
    pub(super) fn ticks_below(&mut self, axis: &Axis, bottom: f64) {
        for (x, text) in axis.ticks_apart(7.2, 6.0, (0.0, self.width)) {
            self.text("tick", "middle", x, bottom + 16.0, &text);
        }
        let (from, to) = (axis.at(f64::NEG_INFINITY), axis.at(f64::INFINITY));
        self.line("axis", from, bottom, to, bottom);
    }

    /// Draws the grid lines and ticks of an axis at the left of an area from `left` to `right`.
    pub(super) fn axis_left(&mut self, axis: &Axis, left: f64, right: f64) {
        let lines =
            axis.ticks().map(|(y, _)| format!("M{} {}H{}", short(left), short(y), short(right)));
        let lines: String = lines.collect();
        let _ = write!(self.body, "<path class=\"grid\" d=\"{lines}\"/>");
        let mut free_below = f64::INFINITY;
        for (y, text) in axis.ticks() {
            // From the bottom up; a tick without room is left out.
            if y > free_below {
                continue;
            }
            free_below = y - 14.0;
            self.text("tick", "end", left - 6.0, y + 4.0, &text);
        }
    }
}

/// Returns the shape of a system's mark, about 9 units wide.
pub(super) fn outline(look: usize, x: f64, y: f64) -> String {
    let (x, y) = (short(x), short(y));
    let shape = match look % LOOKS {
        0 => "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
        1 => "m-4 -4h8v8h-8z",
        2 => "m0 -5.2l5 8.7h-10z",
        3 => "m0 -5.6l5.6 5.6l-5.6 5.6l-5.6 -5.6z",
        4 => "m0 5.2l5 -8.7h-10z",
        5 => "m-2 -5h4v3h3v4h-3v3h-4v-3h-3v-4h3z",
        6 => "m-2.9 -5h5.8l2.9 5l-2.9 5h-5.8l-2.9 -5z",
        _ => "m0 -5.5l1.6 3.9h4.2l-3.3 2.7l1.2 4.2l-3.7 -2.4l-3.7 2.4l1.2 -4.2l-3.3 -2.7h4.2z",
    };
    format!("M{x} {y}{shape}")
}

/// Returns the classes of a system's line.
pub(super) fn stroke(look: usize) -> String {
    dashed(look, look)
}

/// Returns the classes of a line with a system's colour and dashes of its own.
pub(super) fn dashed(look: usize, dashes: usize) -> String {
    format!("line s{} d{}", look % LOOKS, dashes % LOOKS)
}

/// Returns a legend. Each entry is a drawing of 30 by 14 with a text.
pub(super) fn legend(entries: &[(Svg, String)]) -> String {
    let mut list = String::from("<ul class=\"legend\">");
    for (drawing, says) in entries {
        let _ = write!(
            list,
            "<li><svg viewBox=\"0 0 30 14\" aria-hidden=\"true\">{}</svg>{}</li>",
            drawing.body,
            escape(says)
        );
    }
    list.push_str("</ul>");
    list
}

/// Returns a drawing for a legend.
pub(super) fn swatch(draw: impl FnOnce(&mut Svg)) -> Svg {
    let mut svg = Svg::new(30.0, 14.0);
    draw(&mut svg);
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_where_there_is_no_number() {
        let mut svg = Svg::new(10.0, 10.0);
        let points = [(0.0, 1.0), (1.0, 2.04), (2.0, f64::NAN), (3.0, 3.0)];
        svg.path("line", points.into_iter());
        assert_eq!(svg.body, "<path class=\"line\" d=\"M0 1L1 2M3 3M1 3h4\"/>");
    }

    #[test]
    fn every_system_looks_different() {
        let looks: std::collections::BTreeSet<String> =
            (0..LOOKS).map(|look| outline(look, 0.0, 0.0)).collect();
        assert_eq!(looks.len(), LOOKS);
        assert_eq!(outline(LOOKS, 0.0, 0.0), outline(0, 0.0, 0.0));
    }

    #[test]
    fn foreign_text_is_no_markup() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text("t", "start", 0.0, 0.0, "<script>");
        let text = svg.finish("a & b", "</svg>");
        assert!(!text.contains("<script>") && text.matches("</svg>").count() == 1, "{text}");
    }
}
