//! Prints hey's output from figures: the summary, or one CSV line per answer.
//!
//! Every line has hey's format, so programs that parse hey's output parse this. Figures that hey lacks go to standard
//! error. An undefined figure is `NaN`, as in hey's average of no requests. hey prints its other undefined figures as
//! zero, which would look fast.
//!
//! Not here: the source of the figures (`super`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use bakeoff_core::histogram::{LATENCY_MAX_NS, Latencies};

/// Percentiles in the distribution.
const PERCENTILES: [u32; 7] = [10, 25, 50, 75, 90, 95, 99];

/// Bars of the histogram, besides the first, which holds the fastest answer.
const STEPS: usize = 10;

/// Length of the longest bar, in characters.
const BAR_MAX: u64 = 40;

/// Phases of an answer's time, by hey's names.
const PHASES: [&str; 5] = ["DNS+dialup", "DNS-lookup", "req write", "resp wait", "resp read"];

/// Figures of a run.
pub(super) struct Figures {
    /// Duration of the run.
    pub(super) total: Duration,
    /// Finished requests per second, failed ones included.
    pub(super) requests_per_second: f64,
    /// Latencies from due to answered, with any status. Timed-out requests count with the time they waited.
    pub(super) latencies: Latencies,
    pub(super) body_bytes: u64,
    /// Answers with a body that counts in `body_bytes`.
    pub(super) answers: u64,
    pub(super) statuses: BTreeMap<u16, u64>,
    /// Requests without an answer: the count of each kind, and its description.
    pub(super) errors: Vec<(u64, String)>,
    /// Average, fastest and slowest of each phase; `None` if no answer's phases were kept.
    pub(super) phases: Option<[Phase; 5]>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Phase {
    pub(super) average: Duration,
    pub(super) fastest: Duration,
    pub(super) slowest: Duration,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) total: Duration,
    pub(super) dial: Duration,
    pub(super) lookup: Duration,
    pub(super) write: Duration,
    pub(super) wait: Duration,
    pub(super) read: Duration,
    pub(super) status: u16,
    /// Start of its request, since the run began.
    pub(super) offset: Duration,
}

impl Answer {
    /// Returns the phases in hey's order.
    fn phases(&self) -> [Duration; 5] {
        [self.dial, self.lookup, self.write, self.wait, self.read]
    }
}

/// Returns the phases over these answers, or `None` without answers.
pub(super) fn phases(answers: &[Answer]) -> Option<[Phase; 5]> {
    let first = answers.first()?.phases();
    let mut phases = first.map(|part| Phase { average: part, fastest: part, slowest: part });
    let mut sums = first;
    for answer in &answers[1..] {
        for ((phase, sum), part) in phases.iter_mut().zip(&mut sums).zip(answer.phases()) {
            *sum += part;
            phase.fastest = phase.fastest.min(part);
            phase.slowest = phase.slowest.max(part);
        }
    }
    for (phase, sum) in phases.iter_mut().zip(sums) {
        phase.average = sum.div_f64(answers.len() as f64);
    }
    Some(phases)
}

pub(super) fn summary(figures: &Figures) -> String {
    let mut text = String::new();
    write_summary(figures, &mut text).expect("writing to memory does not fail");
    text
}

fn write_summary(figures: &Figures, to: &mut String) -> std::fmt::Result {
    let Figures { latencies, .. } = figures;
    let steps: Vec<(Duration, u64)> = latencies.recorded().collect();
    let time = |time: Option<Duration>| match time {
        Some(time) => number(time.as_secs_f64()),
        None if latencies.saturated() > 0 => format!(">{}", number(LATENCY_MAX_NS as f64 / 1e9)),
        None => number(f64::NAN),
    };
    let slowest = latencies.max().and(steps.last()).map(|step| step.0);
    writeln!(to, "\nSummary:")?;
    writeln!(to, "  Total:\t{} secs", number(figures.total.as_secs_f64()))?;
    writeln!(to, "  Slowest:\t{} secs", time(slowest))?;
    writeln!(to, "  Fastest:\t{} secs", time(steps.first().map(|step| step.0)))?;
    writeln!(to, "  Average:\t{} secs", time(latencies.mean()))?;
    writeln!(to, "  Requests/sec:\t{}", number(figures.requests_per_second))?;
    writeln!(to, "  ")?;
    if figures.body_bytes > 0 {
        writeln!(to, "  Total data:\t{} bytes", figures.body_bytes)?;
        let each = figures.body_bytes / figures.answers.max(1);
        writeln!(to, "  Size/request:\t{each} bytes")?;
    }

    writeln!(to, "\nResponse time histogram:")?;
    write_histogram(&steps, to)?;

    writeln!(to, "\n\nLatency distribution:")?;
    if !latencies.is_empty() {
        for percentile in PERCENTILES {
            let latency = latencies.quantile(f64::from(percentile) / 100.0);
            writeln!(to, "  {percentile}% in {} secs", time(latency))?;
        }
    }

    writeln!(to, "\nDetails (average, fastest, slowest):")?;
    for (place, name) in PHASES.into_iter().enumerate() {
        let phase = figures.phases.map(|phases| phases[place]);
        let part = |part: fn(Phase) -> Duration| {
            number(phase.map_or(f64::NAN, |phase| part(phase).as_secs_f64()))
        };
        let (average, fastest) = (part(|phase| phase.average), part(|phase| phase.fastest));
        let slowest = part(|phase| phase.slowest);
        writeln!(to, "  {name}:\t{average} secs, {fastest} secs, {slowest} secs")?;
    }

    writeln!(to, "\nStatus code distribution:")?;
    for (status, count) in &figures.statuses {
        writeln!(to, "  [{status}]\t{count} responses")?;
    }
    writeln!(to)?;
    if !figures.errors.is_empty() {
        writeln!(to, "Error distribution:")?;
        for (count, what) in &figures.errors {
            writeln!(to, "  [{count}]\t{what}")?;
        }
        return writeln!(to);
    }
    writeln!(to, "\n")
}

/// Writes eleven bars: one for the fastest answer, then ten equal steps up to the slowest.
fn write_histogram(steps: &[(Duration, u64)], to: &mut String) -> std::fmt::Result {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return Ok(()) };
    let (fastest, slowest) = (first.0.as_secs_f64(), last.0.as_secs_f64());
    let mut marks = [slowest; STEPS + 1];
    for (place, mark) in marks[..STEPS].iter_mut().enumerate() {
        *mark = fastest + (slowest - fastest) / STEPS as f64 * place as f64;
    }
    let mut counts = [0; STEPS + 1];
    for &(latency, count) in steps {
        let place = marks.iter().position(|&mark| latency.as_secs_f64() <= mark);
        counts[place.unwrap_or(STEPS)] += count;
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    for (mark, count) in marks.into_iter().zip(counts) {
        let bar = "■".repeat(((count * BAR_MAX + most / 2) / most) as usize);
        writeln!(to, "  {mark:.3} [{count}]\t|{bar}")?;
    }
    Ok(())
}

/// Returns one line per answer, below the header.
pub(super) fn csv(answers: &[Answer]) -> String {
    let mut text = String::from(
        "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset\n",
    );
    for answer in answers {
        write!(text, "{},", number(answer.total.as_secs_f64()))
            .expect("writing to memory does not fail");
        for part in answer.phases() {
            text.push_str(&number(part.as_secs_f64()));
            text.push(',');
        }
        text.push_str(&format!("{},{}\n", answer.status, number(answer.offset.as_secs_f64())));
    }
    text
}

/// Formats with four decimals; `NaN` and infinities are padded as in Go.
fn number(value: f64) -> String {
    format!("{value:>4.4}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(latencies_ms: &[u64]) -> Figures {
        let mut latencies = Latencies::default();
        for &ms in latencies_ms {
            latencies.record(Duration::from_millis(ms));
        }
        Figures {
            total: Duration::from_millis(1205),
            requests_per_second: latencies_ms.len() as f64 / 1.205,
            answers: latencies_ms.len() as u64,
            body_bytes: 6 * latencies_ms.len() as u64,
            statuses: BTreeMap::from([(200, latencies_ms.len() as u64)]),
            latencies,
            errors: Vec::new(),
            phases: None,
        }
    }

    #[test]
    fn the_summary_has_the_layout_of_hey() {
        // As hey 0.1.4 printed for six answers of 0.2 to 0.6 seconds.
        let mut figures = figures(&[202, 402, 601, 602, 603, 603]);
        figures.phases = Some(
            [Phase {
                average: Duration::from_micros(300),
                fastest: Duration::ZERO,
                slowest: Duration::from_millis(2),
            }; 5],
        );
        let expected = "
Summary:
  Total:\t1.2050 secs
  Slowest:\t0.6035 secs
  Fastest:\t0.2021 secs
  Average:\t0.5023 secs
  Requests/sec:\t4.9793
  \n  Total data:\t36 bytes
  Size/request:\t6 bytes

Response time histogram:
  0.202 [1]\t|■■■■■■■■■■
  0.242 [0]\t|
  0.282 [0]\t|
  0.323 [0]\t|
  0.363 [0]\t|
  0.403 [1]\t|■■■■■■■■■■
  0.443 [0]\t|
  0.483 [0]\t|
  0.523 [0]\t|
  0.563 [0]\t|
  0.603 [4]\t|■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■


Latency distribution:
  10% in 0.2021 secs
  25% in 0.4021 secs
  50% in 0.6014 secs
  75% in 0.6035 secs
  90% in 0.6035 secs
  95% in 0.6035 secs
  99% in 0.6035 secs

Details (average, fastest, slowest):
  DNS+dialup:\t0.0003 secs, 0.0000 secs, 0.0020 secs
  DNS-lookup:\t0.0003 secs, 0.0000 secs, 0.0020 secs
  req write:\t0.0003 secs, 0.0000 secs, 0.0020 secs
  resp wait:\t0.0003 secs, 0.0000 secs, 0.0020 secs
  resp read:\t0.0003 secs, 0.0000 secs, 0.0020 secs

Status code distribution:
  [200]\t6 responses



";
        assert_eq!(summary(&figures), expected);
    }

    #[test]
    fn lists_requests_without_an_answer_by_kind() {
        let mut figures = figures(&[1]);
        figures.errors = vec![(9, "status: 500".into())];
        let text = summary(&figures);
        assert!(
            text.ends_with("responses\n\nError distribution:\n  [9]\tstatus: 500\n\n"),
            "{text}"
        );
    }

    #[test]
    fn no_answers_print_nan_instead_of_zero() {
        let text = summary(&Figures { statuses: BTreeMap::new(), ..figures(&[]) });
        for line in ["Slowest:\t NaN secs", "Fastest:\t NaN secs", "Average:\t NaN secs"] {
            assert!(text.contains(line), "`{line}` is not in {text}");
        }
        assert!(!text.contains('%') && !text.contains("data"), "{text}");
        assert!(text.contains("  resp wait:\t NaN secs,  NaN secs,  NaN secs\n"), "{text}");
    }

    #[test]
    fn clipped_latencies_print_as_nan() {
        let text = summary(&figures(&[1, 1, 1, 4_000_000]));
        assert!(text.contains("Slowest:\t>3600.0000 secs"), "{text}");
        assert!(text.contains("50% in 0.0010 secs"), "{text}");
        assert!(text.contains("99% in >3600.0000 secs"), "{text}");
    }

    #[test]
    fn one_answer_has_all_percentiles_and_one_bar() {
        let text = summary(&figures(&[10]));
        assert_eq!(text.matches("% in 0.0100 secs").count(), PERCENTILES.len(), "{text}");
        assert_eq!(text.matches('■').count(), BAR_MAX as usize, "{text}");
    }

    #[test]
    fn each_answer_is_a_line_of_csv() {
        let ms = Duration::from_millis;
        let answer = Answer {
            total: ms(202),
            dial: ms(1),
            lookup: ms(0),
            write: ms(2),
            wait: ms(198),
            read: ms(1),
            status: 404,
            offset: ms(1500),
        };
        assert_eq!(
            csv(&[answer]),
            "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset\n\
             0.2020,0.0010,0.0000,0.0020,0.1980,0.0010,404,1.5000\n"
        );
        assert_eq!(csv(&[]).lines().count(), 1);
    }

    #[test]
    fn phases_are_averaged_over_the_answers() {
        let ms = Duration::from_millis;
        let waited = |wait| Answer { wait: ms(wait), ..Answer::default() };
        let [.., wait, read] = phases(&[waited(4), waited(1), waited(7)]).unwrap();
        assert_eq!(wait, Phase { average: ms(4), fastest: ms(1), slowest: ms(7) });
        assert_eq!(read, Phase::default());
        assert_eq!(phases(&[]), None);
    }
}
