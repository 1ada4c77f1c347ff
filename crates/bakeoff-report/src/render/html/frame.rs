//! The frame of a chart: its width, the position of its axes, and the space below them.
//!
//! Not here: ticks (`scale`), drawing (`svg`).

use super::scale::Axis;
use super::svg::Svg;

/// Height below an axis for its ticks and its name.
const BELOW: f64 = 40.0;
/// Distance from the axis down to its name.
const NAME: f64 = 34.0;

/// Dimensions of a chart, in units of its drawing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) width: f64,
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
}

impl Frame {
    /// Frame of a chart with rows and one axis below them.
    pub(super) const ROWS: Self = Self { width: 480.0, left: 12.0, right: 466.0, top: 4.0 };

    /// Returns the position of a centred text.
    pub(super) fn middle(&self) -> f64 {
        f64::midpoint(self.left, self.right)
    }

    /// Places an axis from left to right.
    pub(super) fn across(&self, axis: Axis) -> Axis {
        axis.between(self.left, self.right)
    }

    /// Starts a drawing with a horizontal axis at `bottom`, and its name.
    pub(super) fn with_axis_below(&self, across: &Axis, bottom: f64, name: &str) -> Svg {
        let mut svg = Svg::new(self.width, bottom + BELOW);
        self.draw_below(&mut svg, across, bottom, name);
        svg
    }

    /// Starts a drawing with a vertical axis, a horizontal one at `bottom`, and the latter's name.
    pub(super) fn with_axes(&self, across: &Axis, up: &Axis, bottom: f64, name: &str) -> Svg {
        let mut svg = Svg::new(self.width, bottom + BELOW);
        svg.axis_left(up, self.left, self.right);
        self.draw_below(&mut svg, across, bottom, name);
        svg
    }

    fn draw_below(&self, svg: &mut Svg, across: &Axis, bottom: f64, name: &str) {
        svg.axis_below(across, self.top, bottom);
        svg.text("label", "middle", self.middle(), bottom + NAME, name);
    }
}
