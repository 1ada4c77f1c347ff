//! Combines figures of faults: one figure for each cluster, and bounds that stay bounds.
//!
//! Injections of one cluster share its leader, its data and its start, so they are not independent: intervals that
//! count each of them are too narrow (`docs/method/outages.md`). A cluster contributes the mean of its
//! injections. A mean that contains a bound is a bound, so it never passes for a length.
//!
//! Not here: the figures of an injection (`crate::outage`), the test itself (`judge`).

use serde::Serialize;

use super::judge::{Scale, Trials, interval_alone};
use super::middle;

/// Holds a figure of zero or more, or its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BoundedFigure {
    /// Least possible value.
    pub least: f64,
    /// Greatest possible value; `None` if it has no upper bound.
    pub most: Option<f64>,
}

impl BoundedFigure {
    /// Returns a figure that is known exactly.
    pub fn exact(value: f64) -> Self {
        Self { least: value, most: Some(value) }
    }

    /// Returns a figure of this value or more.
    pub fn at_least(value: f64) -> Self {
        Self { least: value, most: None }
    }

    /// Returns a figure between zero and this value.
    pub fn less_than(value: f64) -> Self {
        Self { least: 0.0, most: Some(value) }
    }

    /// Returns the value; `None` if only bounds are known.
    pub fn value(self) -> Option<f64> {
        self.most.filter(|most| *most == self.least)
    }

    /// Returns the finite end that a chart draws: the lower bound if there is no upper one.
    pub fn drawn(self) -> f64 {
        self.most.unwrap_or(self.least)
    }

    fn greatest(self) -> f64 {
        self.most.unwrap_or(f64::INFINITY)
    }

    fn between(least: f64, most: f64) -> Self {
        Self { least, most: Some(most).filter(|most| most.is_finite()) }
    }
}

/// Returns the mean of a cluster's figures; `None` without any.
pub fn mean(of: &[BoundedFigure]) -> Option<BoundedFigure> {
    let mean =
        |value: fn(&BoundedFigure) -> f64| of.iter().map(value).sum::<f64>() / of.len() as f64;
    (!of.is_empty())
        .then(|| BoundedFigure::between(mean(|one| one.least), mean(|one| one.greatest())))
}

/// Returns the median of clusters' figures; `None` without any.
pub fn median(of: &[BoundedFigure]) -> Option<BoundedFigure> {
    let median = |value: fn(&BoundedFigure) -> f64| {
        let mut values: Vec<f64> = of.iter().map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        middle(&values)
    };
    (!of.is_empty())
        .then(|| BoundedFigure::between(median(|one| one.least), median(|one| one.greatest())))
}

/// Returns the 95 % interval over clusters; `None` with too few, or if one figure is a bound. Figures below `floor`
/// count as `floor`.
pub fn interval(of: &[BoundedFigure], floor: f64) -> Option<(f64, f64)> {
    let values: Option<Vec<f64>> = of.iter().map(|one| Some(one.value()?.max(floor))).collect();
    interval_alone(&values?, Scale::Ratio)
}

/// Returns the figures by which two systems' clusters are compared. Bounds count at the end that is nearer to the
/// other system, so a declared difference holds for any value within them. Returns `None` if the bounds leave no
/// order. Figures below `floor` count as `floor`.
pub fn trials(one: &[BoundedFigure], other: &[BoundedFigure], floor: f64) -> Option<Trials> {
    let least =
        |of: &[BoundedFigure]| of.iter().map(|one| one.least.max(floor)).collect::<Vec<f64>>();
    let most =
        |of: &[BoundedFigure]| of.iter().map(|one| one.greatest().max(floor)).collect::<Vec<f64>>();
    let is_below = |a: &[f64], b: &[f64]| {
        let logs = |of: &[f64]| of.iter().map(|value| value.ln()).sum::<f64>() / of.len() as f64;
        logs(a) <= logs(b)
    };
    let (low, high) = (most(one), least(other));
    if is_below(&low, &high) {
        return Some(Trials::Apart(low, high));
    }
    let (high, low) = (least(one), most(other));
    is_below(&low, &high).then_some(Trials::Apart(high, low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_that_contains_a_bound_is_a_bound() {
        let exact = [BoundedFigure::exact(1.0), BoundedFigure::exact(2.0)];
        assert_eq!(mean(&exact), Some(BoundedFigure::exact(1.5)));
        let short = [BoundedFigure::exact(1.0), BoundedFigure::less_than(0.5)];
        assert_eq!(mean(&short), Some(BoundedFigure { least: 0.5, most: Some(0.75) }));
        let long = [BoundedFigure::exact(1.0), BoundedFigure::at_least(8.0)];
        assert_eq!(mean(&long), Some(BoundedFigure::at_least(4.5)));
        assert_eq!((mean(&[]), median(&[])), (None, None));
        assert_eq!(median(&[exact[0], long[1], exact[1]]), Some(exact[1]));
        assert_eq!(median(&[exact[0], long[1]]), Some(BoundedFigure::at_least(4.5)));
    }

    #[test]
    fn interval_needs_three_clusters_without_bounds() {
        let three = [1.0, 1.1, 1.2].map(BoundedFigure::exact);
        let (low, high) = interval(&three, 0.01).expect("three are enough");
        assert!(low < 1.0 && high > 1.2, "{low} {high}");
        assert_eq!(interval(&three[..2], 0.01), None);
        assert_eq!(interval(&[three[0], three[1], BoundedFigure::at_least(1.2)], 0.01), None);
    }

    #[test]
    fn bounds_are_compared_at_their_nearer_ends() {
        let short = [1.0, 1.1, 1.2].map(BoundedFigure::exact);
        let long = [5.0, 8.0, 6.0].map(BoundedFigure::at_least);
        let expected = Trials::Apart(vec![1.0, 1.1, 1.2], vec![5.0, 8.0, 6.0]);
        assert_eq!(trials(&short, &long, 0.01), Some(expected));
        assert_eq!(trials(&long, &long, 0.01), None, "either may be longer");
        let least = [BoundedFigure::at_least(0.5); 3];
        assert_eq!(trials(&short, &least, 0.01), None, "the second may be shorter or longer");
        let none = [BoundedFigure::exact(0.0); 3];
        let expected = Trials::Apart(vec![0.01; 3], vec![1.0, 1.1, 1.2]);
        assert_eq!(trials(&none, &short, 0.01), Some(expected));
    }
}
