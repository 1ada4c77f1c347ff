//! Draws delays of a known distribution, and records the true ones.
//!
//! Checks of measured latencies need an independent truth. The configured distribution is not exact: the machine wakes
//! late, and a stall delays everything. So the canary measures each delay, from the read of the request to the write of
//! its answer, and `/stats` reports both.
//!
//! A shape is its quantile function. Random draws match it up to sampling error. In a cycle, each [`CYCLE`] requests
//! draw [`CYCLE`] evenly spaced quantiles once each, so they match exactly.
//!
//! Not here: waiting and sending (`server`).

use std::time::{Duration, Instant};

use bakeoff_core::histogram::{Latencies, PackedLatencies};
use bakeoff_core::units;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

/// Body of the answers of `/truth`.
pub(super) const BODY: &[u8] = b"truth\n";
const CYCLE: u64 = 1000;
/// Step between the quantiles of successive requests. It shares no divisor with [`CYCLE`]. Near the golden ratio, any
/// few requests in a row spread over the whole distribution.
const STRIDE: u64 = 619;
/// Maximum delay of an answer, in seconds.
const DELAY_MAX_SECONDS: f64 = 3600.0;
/// Distance from a mode's middle to its ends, as a share of the middle.
const MODE_REACH: f64 = 0.25;

/// Configuration of the delays of `/truth`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Truth {
    pub(crate) shape: Shape,
    pub(crate) order: Order,
    /// Time before an answer is due in which the canary polls the clock instead of sleeping.
    pub(crate) spin: Duration,
}

/// A distribution of delays. Times are in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Constant {
        delay: f64,
    },
    /// All delays between two are equally likely.
    Uniform {
        from: f64,
        to: f64,
    },
    /// Many short, few long.
    Exponential {
        mean: f64,
    },
    /// The logarithm has a normal distribution with standard deviation `sigma`.
    LogNormal {
        median: f64,
        sigma: f64,
    },
    /// Most are around `fast`, a share is around `slow`, none between. Each mode is a triangle.
    Bimodal {
        fast: f64,
        slow: f64,
        slow_share: f64,
    },
    /// Quantiles (share, delay) with straight lines between. The first share is 0, the last is 1.
    Points(Vec<(f64, f64)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Independent draws from the canary's seed.
    Random,
    /// Repeated cycles through evenly spaced quantiles.
    Cycle,
}

impl Shape {
    /// Parses `constant:5ms`, `uniform:2ms,40ms`, `exponential:MEAN`, `lognormal:MEDIAN,SIGMA`,
    /// `bimodal:FAST,SLOW,SHARE` (formerly `humps`) or `points:0%=1ms,50%=2ms,100%=40ms`.
    pub(super) fn parse(text: &str) -> Result<Self, ShapeError> {
        let (name, values) = text.split_once(':').unwrap_or((text, ""));
        let values: Vec<&str> = values.split(',').collect();
        let shape = match (name, &values[..]) {
            ("constant", [delay]) => Self::Constant { delay: seconds(delay)? },
            ("uniform", [from, to]) => Self::Uniform { from: seconds(from)?, to: seconds(to)? },
            ("exponential", [mean]) => Self::Exponential { mean: seconds(mean)? },
            ("lognormal", [median, sigma]) => {
                let sigma = sigma.parse().ok().filter(|sigma| (0.0..=5.0).contains(sigma));
                let sigma = sigma.ok_or(ShapeError::Sigma)?;
                Self::LogNormal { median: seconds(median)?, sigma }
            }
            ("bimodal" | "humps", [fast, slow, share]) => Self::Bimodal {
                fast: seconds(fast)?,
                slow: seconds(slow)?,
                slow_share: units::parse_share(share)
                    .map_err(|_| ShapeError::NoShare((*share).to_owned()))?,
            },
            ("points", points) => {
                let point = |point: &&str| {
                    let (share, delay) = point.split_once('=').ok_or(ShapeError::Points)?;
                    let share = units::parse_share(share)
                        .map_err(|_| ShapeError::NoShare((*share).to_owned()))?;
                    Ok::<_, ShapeError>((share, seconds(delay)?))
                };
                Self::Points(points.iter().map(point).collect::<Result<_, _>>()?)
            }
            _ => return Err(ShapeError::NoDistribution),
        };
        match &shape {
            Self::Uniform { from, to } if from > to => Err(ShapeError::EndsBeforeItBegins),
            Self::Bimodal { fast, slow, .. }
                if fast * (1.0 + MODE_REACH) > slow * (1.0 - MODE_REACH) =>
            {
                Err(ShapeError::Overlap)
            }
            Self::Points(points) => {
                let rising = |w: &[(f64, f64)]| w[0].0 < w[1].0 && w[0].1 <= w[1].1;
                let whole = points.len() >= 2
                    && points[0].0 == 0.0
                    && points[points.len() - 1].0 == 1.0
                    && points.windows(2).all(rising);
                whole.then_some(shape).ok_or(ShapeError::NotRising)
            }
            _ => Ok(shape),
        }
    }

    /// Returns the quantile `at` (0 to 1), in seconds.
    fn quantile(&self, at: f64) -> f64 {
        match self {
            Self::Constant { delay } => *delay,
            Self::Uniform { from, to } => from + (to - from) * at,
            Self::Exponential { mean } => -mean * (-at).ln_1p(),
            Self::LogNormal { median, sigma } => median * (sigma * normal_quantile(at)).exp(),
            Self::Bimodal { fast, slow, slow_share } => {
                let fast_share = 1.0 - slow_share;
                if at < fast_share {
                    triangle(*fast, at / fast_share)
                } else {
                    triangle(*slow, (at - fast_share) / slow_share)
                }
            }
            Self::Points(points) => {
                let after = points.partition_point(|(share, _)| *share <= at);
                let after = after.clamp(1, points.len() - 1);
                let ((left, low), (right, high)) = (points[after - 1], points[after]);
                low + (high - low) * (at - left) / (right - left)
            }
        }
    }
}

/// Error of a text that is not a distribution.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShapeError {
    #[error(
        "is not a distribution: write `constant:5ms`, `uniform:2ms,40ms`, `exponential:5ms`, `lognormal:5ms,0.5`, \
         `bimodal:2ms,20ms,10%`, `points:0%=1ms,50%=2ms,100%=40ms`"
    )]
    NoDistribution,
    #[error("holds `{0}`, which is not a duration: write `5ms` or `1.5s`")]
    NoDuration(String),
    #[error("holds `{0}`, which is not a share: write `1%`, or a number from 0 to 1")]
    NoShare(String),
    #[error("needs a sigma from 0 to 5")]
    Sigma,
    #[error("needs points such as `50%=2ms`")]
    Points,
    #[error("needs rising points from `0%=` to `100%=`")]
    NotRising,
    #[error("ends before it begins")]
    EndsBeforeItBegins,
    #[error("has modes that overlap: each extends 25 % of its middle to both sides")]
    Overlap,
}

fn seconds(text: &str) -> Result<f64, ShapeError> {
    units::parse_duration(text)
        .map(|duration| duration.as_secs_f64())
        .map_err(|_| ShapeError::NoDuration(text.to_owned()))
}

/// Returns a quantile of a triangle around `middle`.
fn triangle(middle: f64, at: f64) -> f64 {
    let reach = middle * MODE_REACH;
    if at < 0.5 {
        middle - reach + reach * (2.0 * at).sqrt()
    } else {
        middle + reach - reach * (2.0 * (1.0 - at)).max(0.0).sqrt()
    }
}

/// Returns a quantile of the standard normal distribution, to seven digits: M. J. Wichura, "Algorithm AS 241: The
/// Percentage Points of the Normal Distribution", Applied Statistics 37 (1988), PPND7.
fn normal_quantile(at: f64) -> f64 {
    let polynomial = |x: f64, of: &[f64]| of.iter().rev().fold(0.0, |sum, c| sum * x + c);
    let centred = at - 0.5;
    if centred.abs() <= 0.425 {
        let r = 0.180_625 - centred * centred;
        return centred
            * polynomial(r, &[3.387_132_717_9, 50.434_271_938, 159.291_132_02, 59.109_374_72])
            / polynomial(r, &[1.0, 17.895_169_469, 78.757_757_664, 67.187_563_6]);
    }
    let r = (-at.min(1.0 - at).max(f64::MIN_POSITIVE).ln()).sqrt();
    let far = if r <= 5.0 {
        let r = r - 1.6;
        polynomial(r, &[1.423_437_277_7, 2.756_815_39, 1.306_728_481_6, 0.170_238_211_03])
            / polynomial(r, &[1.0, 0.737_001_642_5, 0.120_211_329_75])
    } else {
        let r = r - 5.0;
        polynomial(r, &[6.657_905_115, 3.081_226_386, 0.428_682_943_37, 0.017_337_203_997])
            / polynomial(r, &[1.0, 0.241_978_942_25, 0.012_258_202_635])
    };
    far.copysign(centred)
}

/// Draws delays and records the true ones.
pub(super) struct DelaySource {
    truth: Truth,
    random: Xoshiro256PlusPlus,
    number: u64,
    given: Latencies,
    late: Latencies,
}

/// Times of a request: arrival, and due time of the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestTimes {
    pub(super) at: Instant,
    pub(super) due: Instant,
}

/// Part of `/stats` about the delays.
#[derive(Debug, Serialize)]
pub(super) struct TruthStats {
    count: u64,
    p50_ns: u64,
    p75_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
    /// True delays.
    given: PackedLatencies,
    /// Lateness of each answer after its due time.
    late: PackedLatencies,
}

impl DelaySource {
    pub(super) fn new(truth: Truth, seed: u64) -> Self {
        Self {
            truth,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            number: 0,
            given: Latencies::default(),
            late: Latencies::default(),
        }
    }

    /// Returns the delay of the next answer.
    pub(super) fn delay(&mut self) -> Duration {
        let at = match self.truth.order {
            Order::Random => self.random.random::<f64>(),
            Order::Cycle => {
                let place = self.number % CYCLE * STRIDE % CYCLE;
                self.number += 1;
                (place as f64 + 0.5) / CYCLE as f64
            }
        };
        let seconds = self.truth.shape.quantile(at).clamp(0.0, DELAY_MAX_SECONDS);
        Duration::from_secs_f64(seconds)
    }

    /// Records the true delay of an answer sent at `out`.
    pub(super) fn note(&mut self, times: RequestTimes, out: Instant) {
        self.given.record(out.saturating_duration_since(times.at));
        self.late.record(out.saturating_duration_since(times.due));
    }

    pub(super) fn stats(&self) -> TruthStats {
        let quantile = |at| self.given.quantile(at).map_or(0, |delay| delay.as_nanos() as u64);
        TruthStats {
            count: self.given.count(),
            p50_ns: quantile(0.5),
            p75_ns: quantile(0.75),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: quantile(1.0),
            given: self.given.pack(),
            late: self.late.pack(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [&str; 6] = [
        "constant:5ms",
        "uniform:2ms,40ms",
        "exponential:5ms",
        "lognormal:5ms,0.8",
        "bimodal:2ms,20ms,10%",
        "points:0%=1ms,75%=2.6ms,90%=10.5ms,99%=40.8ms,100%=60ms",
    ];

    #[test]
    fn parses_the_former_name_of_bimodal() {
        let shape = |text| Shape::parse(text).unwrap();
        assert_eq!(shape("humps:2ms,20ms,10%"), shape("bimodal:2ms,20ms,10%"));
    }

    fn delay_source(shape: &str, order: Order) -> DelaySource {
        let shape = Shape::parse(shape).unwrap();
        DelaySource::new(Truth { shape, order, spin: Duration::ZERO }, 1)
    }

    fn sorted(delay_source: &mut DelaySource, count: usize) -> Vec<f64> {
        let mut delays: Vec<f64> = (0..count).map(|_| delay_source.delay().as_secs_f64()).collect();
        delays.sort_unstable_by(f64::total_cmp);
        delays
    }

    #[test]
    fn cycle_draws_each_quantile_once() {
        for text in SHAPES {
            let shape = Shape::parse(text).unwrap();
            for (place, delay) in
                sorted(&mut delay_source(text, Order::Cycle), CYCLE as usize).iter().enumerate()
            {
                let exact = shape.quantile((place as f64 + 0.5) / CYCLE as f64);
                assert!((delay - exact).abs() < 2e-9, "{text} at {place}: {delay}, {exact}");
            }
        }
    }

    #[test]
    fn random_delays_have_the_same_distribution() {
        for text in SHAPES {
            let shape = Shape::parse(text).unwrap();
            let delays = sorted(&mut delay_source(text, Order::Random), 100_000);
            for at in [0.1, 0.5, 0.75, 0.95, 0.99] {
                let seen = delays[(at * 100_000.0) as usize];
                // Sampling disturbs the share of delays below it, by up to three deviations.
                let off = 3.0 * (at * (1.0 - at) / 100_000.0_f64).sqrt();
                let between = shape.quantile(at - off) - 1e-9..=shape.quantile(at + off) + 1e-9;
                assert!(between.contains(&seen), "{text} at {at}: {seen} not in {between:?}");
            }
        }
    }

    #[test]
    fn quantiles_match_their_formulas() {
        let check = |text: &str, at: f64, milliseconds: f64| {
            let seen = Shape::parse(text).unwrap().quantile(at) * 1e3;
            assert!((seen - milliseconds).abs() < 1e-5 * milliseconds, "{text} at {at}: {seen}");
        };
        check("constant:5ms", 0.3, 5.0);
        check("uniform:2ms,40ms", 0.5, 21.0);
        check("exponential:5ms", 0.5, 5.0 * 2.0_f64.ln());
        check("lognormal:5ms,0.8", 0.5, 5.0);
        check("lognormal:1ms,1", 0.975, 1.959_963_985_f64.exp());
        check("lognormal:1ms,1", 0.001, (-3.090_232_306_f64).exp());
        check("lognormal:1ms,1", 1e-12, (-7.034_483_82_f64).exp());
        check("bimodal:2ms,20ms,10%", 0.45, 2.0);
        check("bimodal:2ms,20ms,10%", 0.95, 20.0);
        check("bimodal:2ms,20ms,10%", 0.899_999_999, 2.5);
        check("points:0%=1ms,50%=2ms,100%=40ms", 0.75, 21.0);
    }

    #[test]
    fn rejects_a_malformed_distribution_with_the_reason() {
        let fails = |text: &str, message: &str| {
            let error = Shape::parse(text).unwrap_err();
            assert!(error.to_string().contains(message), "{text}: {error}");
        };
        fails("normal:5ms", "is not a distribution");
        fails("constant", "holds ``, which is not a duration");
        fails("constant:5", "holds `5`, which is not a duration");
        fails("uniform:5ms", "is not a distribution");
        fails("uniform:5ms,2ms", "ends before it begins");
        fails("lognormal:5ms,NaN", "needs a sigma");
        fails("bimodal:2ms,3ms,10%", "modes that overlap");
        fails("bimodal:2ms,30ms,110%", "not a share");
        fails("points:0%=1ms", "from `0%=` to `100%=`");
        fails("points:0%=2ms,100%=1ms", "rising");
        fails("points:5ms", "needs points");
    }

    #[test]
    fn true_delays_are_reported_with_their_lateness() {
        let mut delay_source = delay_source("constant:5ms", Order::Cycle);
        let at = bakeoff_clock::now();
        let due = at + delay_source.delay();
        delay_source.note(RequestTimes { at, due }, due + Duration::from_micros(100));
        let stats = delay_source.stats();
        assert_eq!(stats.count, 1);
        assert!(stats.p50_ns.abs_diff(5_100_000) <= 5100, "{}", stats.p50_ns);
        let late = stats.late.unpack().unwrap().max().unwrap();
        assert!(late.as_nanos().abs_diff(100_000) <= 100, "{late:?}");
    }
}
