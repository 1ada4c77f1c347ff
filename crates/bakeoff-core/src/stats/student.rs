//! Implements Student's t distribution: the uncertainty of a mean whose spread is estimated from the same few trials.
//!
//! The distribution function is a regularized incomplete beta function, evaluated by its continued fraction
//! (Abramowitz and Stegun, 26.7.1 and 26.5.8) with the modified method of Lentz. Degrees of freedom may be fractions,
//! as in Welch's test.
//!
//! Not here: the tests (`judge`).

use std::f64::consts::PI;

/// Returns the probability that |t| with these degrees of freedom is at least `t`: a two-sided p-value.
pub(super) fn two_sided(t: f64, freedom: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// Returns the |t| that is exceeded with probability `p`, above 0 and below 1.
///
/// Uses Newton's steps on the logarithm of the probability against that of t. That function is concave, so they
/// converge from above; no step exceeds a factor of four. The start is near the solution if the normal quantile is:
/// Abramowitz and Stegun, 26.2.23, corrected for the degrees of freedom by 26.7.5.
pub(super) fn critical(p: f64, freedom: f64) -> f64 {
    let half = freedom / 2.0;
    let scale = ln_gamma(half + 0.5) - ln_gamma(half) - 0.5 * (freedom * PI).ln();
    let density = |t: f64| (scale - (half + 0.5) * (t * t / freedom).ln_1p()).exp();
    let s = (-2.0 * (p / 2.0).ln()).sqrt();
    let normal = s
        - (2.515_517 + s * (0.802_853 + s * 0.010_328))
            / (1.0 + s * (1.432_788 + s * (0.189_269 + s * 0.001_308)));
    let square = normal * normal;
    let corrected = normal
        * (1.0
            + (square + 1.0) / (4.0 * freedom)
            + ((5.0 * square + 16.0) * square + 3.0) / (96.0 * freedom * freedom));
    let mut t = if corrected > 1e-3 { corrected } else { 1.0 };
    for _ in 0..100 {
        let reached = two_sided(t, freedom);
        let step = (reached / p).ln() * reached / (2.0 * density(t) * t);
        t *= step.clamp(-1.4, 1.4).exp();
        // Each step squares the error, so the remaining error is in the last digits.
        if step.abs() < 1e-6 {
            break;
        }
    }
    t
}

/// Returns the probability that an F variable is at least `f`, with the degrees of freedom `explained` and `left`
/// (Abramowitz and Stegun, 26.6.2).
pub(super) fn f_above(f: f64, explained: f64, left: f64) -> f64 {
    incomplete_beta(left / 2.0, explained / 2.0, left / (left + explained * f))
}

/// Returns the true difference, in standard errors, that exceeds `critical` with the probability whose normal
/// quantile is `reach`.
///
/// Let S be the ratio of the estimated to the true standard error, and Z standard normal. The difference δ is
/// detected if Z + δ > critical × S. Z − critical × S is approximated as normal; its mean and variance follow from
/// those of S, a chi variable.
pub(super) fn detectable(critical: f64, freedom: f64, reach: f64) -> f64 {
    let half = freedom / 2.0;
    let mean = (ln_gamma(half + 0.5) - ln_gamma(half)).exp() / half.sqrt();
    critical * mean + reach * (1.0 + critical * critical * (1.0 - mean * mean)).sqrt()
}

/// Returns the upper confidence bound of a standard deviation relative to its estimate. `reach` is the normal
/// quantile of the confidence.
///
/// The squared estimate is chi-square distributed; its quantile is Wilson's and Hilferty's approximation (1931). With
/// 2 degrees of freedom the bound is 3 % too wide at a confidence of 90 %, and less with more.
pub(super) fn scatter_bound(freedom: f64, reach: f64) -> f64 {
    let part = 2.0 / (9.0 * freedom);
    let quantile = (1.0 - part - reach * part.sqrt()).max(0.05).powi(3);
    quantile.recip().sqrt()
}

/// Returns the logarithm of Γ(x), x > 0: Stirling's series, from 10 up by Γ(x + 1) = x Γ(x).
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut less) = (x, 0.0);
    while x < 10.0 {
        less += x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5))
        - 1.0 / (1680.0 * x.powi(7));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series - less
}

fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln();
    // The fraction converges fast below this point; above it the mirror image does.
    if x < (a + 1.0) / (a + b + 2.0) {
        front.exp() * fraction(a, b, x) / a
    } else {
        1.0 - front.exp() * fraction(b, a, 1.0 - x) / b
    }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let away = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = value;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            value *= d * c;
        }
        if (value / before - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_printed_tables() {
        // Two-sided, to three places, as in printed tables of Student's t.
        for (p, freedom, expected) in [
            (0.05, 1.0, 12.706),
            (0.05, 2.0, 4.303),
            (0.05, 4.0, 2.776),
            (0.01, 4.0, 4.604),
            (0.05, 6.0, 2.447),
            (0.01, 8.0, 3.355),
            (0.001, 8.0, 5.041),
            (0.05, 30.0, 2.042),
            (0.05, 1e6, 1.960),
        ] {
            let found = critical(p, freedom);
            assert!((found - expected).abs() < 6e-4, "{p} {freedom}: {found}");
            assert!((two_sided(found, freedom) - p).abs() < 1e-9);
        }
    }

    #[test]
    fn quantiles_of_f_match_the_printed_tables() {
        for (f, explained, left, expected) in
            [(4.965, 1.0, 10.0, 0.05), (3.885, 2.0, 12.0, 0.05), (5.636, 5.0, 10.0, 0.01)]
        {
            let found = f_above(f, explained, left);
            assert!((found / expected - 1.0).abs() < 1e-3, "{f} {explained} {left}: {found}");
        }
    }

    #[test]
    fn scatter_bound_matches_the_printed_chi_square() {
        for (freedom, printed) in [(2.0, 0.211), (4.0, 1.064), (6.0, 2.204), (11.0, 5.578)] {
            let bound = scatter_bound(freedom, 1.281_551_6);
            let expected = (freedom / printed).sqrt();
            assert!((bound / expected - 1.0).abs() < 0.04, "{freedom}: {bound} {expected}");
        }
    }

    #[test]
    fn quantiles_are_found_over_the_whole_range() {
        for freedom in [0.7, 1.0, 2.5, 6.0, 40.0, 1e4] {
            for p in [0.9, 0.5, 0.05, 1e-3, 1e-6, 1e-9] {
                let back = two_sided(critical(p, freedom), freedom);
                assert!((back / p - 1.0).abs() < 1e-6, "{p} {freedom}: {back}");
            }
        }
    }

    #[test]
    fn one_and_two_degrees_of_freedom_match_the_closed_form() {
        for t in [0.01_f64, 0.3, 1.0, 4.0, 100.0] {
            let one = 1.0 - 2.0 / PI * t.atan();
            assert!((two_sided(t, 1.0) - one).abs() < 1e-11, "{t}");
            let two = 1.0 - t / (2.0 + t * t).sqrt();
            assert!((two_sided(t, 2.0) - two).abs() < 1e-11, "{t}");
        }
        assert_eq!(two_sided(0.0, 5.0), 1.0);
        assert_eq!(two_sided(f64::INFINITY, 5.0), 0.0);
    }
}
