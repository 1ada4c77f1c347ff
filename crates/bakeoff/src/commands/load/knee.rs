//! Finds the knee of a latency curve.
//!
//! Kneedle (V. Satopää, J. Albrecht, D. Irwin, B. Raghavan: "Finding a 'Kneedle' in a Haystack:
//! Detecting Knee Points in System Behavior", ICDCS Workshops 2011), for a convex rising curve, with
//! sensitivity 1 and without its smoothing. The points are few, and each is a measurement of seconds.
//! Both axes are scaled to 0 to 1. The knee is the point where the curve lies furthest below its diagonal, if the
//! distance then falls by more than the mean step along the rates.
//!
//! Not here: the choice of points (`curve`).

/// The paper's S: the fall that marks a knee, in mean steps.
const SENSITIVITY: f64 = 1.0;
/// Minimum number of points. With fewer, any curve has a bend.
const POINTS_MIN: usize = 4;

/// Returns the rate at the knee of a curve of (rate, latency) points. `None` if it has no knee or too few points.
/// Points may come in any order. The last point of a rate replaces earlier ones.
pub(super) fn knee(points: &[(f64, f64)]) -> Option<f64> {
    let mut curve: Vec<(f64, f64)> = Vec::new();
    for &(x, y) in points {
        match curve.iter_mut().find(|point| point.0 == x) {
            Some(point) => point.1 = y,
            None => curve.push((x, y)),
        }
    }
    if curve.len() < POINTS_MIN || curve.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
        return None;
    }
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    let xs = scaled(curve.iter().map(|point| point.0))?;
    let ys = scaled(curve.iter().map(|point| point.1))?;
    let below: Vec<f64> = xs.iter().zip(&ys).map(|(x, y)| x - y).collect();
    let mean_step = 1.0 / (xs.len() - 1) as f64;
    let rises_and_falls =
        |&place: &usize| below[place] > below[place - 1] && below[place] >= below[place + 1];
    let is_knee = |&place: &usize| {
        let threshold = below[place] - SENSITIVITY * mean_step;
        let later = below[place + 1..].iter();
        // As in the paper, search up to the next local maximum. Behind a higher one, this point is not the knee.
        later.take_while(|&&value| value <= below[place]).any(|&value| value < threshold)
    };
    let candidates = (1..below.len() - 1).filter(rises_and_falls).filter(is_knee);
    let best = candidates.max_by(|&a, &b| below[a].total_cmp(&below[b]))?;
    Some(curve[best].0)
}

/// Scales values to 0 to 1; `None` if all are equal.
fn scaled(values: impl Iterator<Item = f64> + Clone) -> Option<Vec<f64>> {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.clone().fold(f64::NEG_INFINITY, f64::max);
    (high > low).then(|| values.map(|value| (value - low) / (high - low)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_the_knee_of_a_queue() {
        // M/M/1 at 1,000 operations a second: 1 / (1000 - rate).
        let points: Vec<(f64, f64)> =
            (1..20).map(|step| f64::from(step) * 50.0).map(|x| (x, 1.0 / (1000.0 - x))).collect();
        let knee = knee(&points).unwrap();
        assert!((750.0..=900.0).contains(&knee), "{knee}");
    }

    #[test]
    fn ignores_order_and_takes_the_last_point_of_a_rate() {
        let points =
            [(100.0, 1.0), (800.0, 9.0), (200.0, 1.0), (400.0, 9.0), (600.0, 2.0), (400.0, 1.1)];
        assert_eq!(knee(&points), Some(600.0));
    }

    #[test]
    fn line_and_flat_curve_have_no_knee() {
        let line: Vec<(f64, f64)> = (1..9).map(|x| (f64::from(x), f64::from(x))).collect();
        assert_eq!(knee(&line), None);
        let flat: Vec<(f64, f64)> = (1..9).map(|x| (f64::from(x), 3.0)).collect();
        assert_eq!(knee(&flat), None);
        assert_eq!(knee(&[(1.0, 1.0), (2.0, 1.0), (3.0, 9.0)]), None, "too few points");
    }

    proptest! {
        #[test]
        fn knee_is_one_of_the_rates(points in prop::collection::vec((0.0f64..1e6, 0.0f64..1e6), 0..12)) {
            if let Some(rate) = knee(&points) {
                prop_assert!(points.iter().any(|point| point.0 == rate));
            }
        }
    }
}
