//! Detects answers that waited for a delayed acknowledgement: head and body in two writes, with Nagle's algorithm on.
//!
//! If a server writes a small body after the head, the kernel holds the body back until the client has acknowledged
//! the head (RFC 896). The client delays that by 40 ms, because it has nothing else to send (`TCP_DELACK_MIN` in
//! Linux's `include/net/tcp.h`), plus one or two timer ticks. Such an answer takes 40 to 42 ms with 1,000 ticks a
//! second, and 44 or 48 ms with 250, however fast the server is.
//!
//! The engine sees the pause between head and body. If a proxy hides it, a spike among the service times remains.
//!
//! Not here: the number of trials that show it (the report).

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Measurement;
use crate::histogram::Latencies;
use crate::units::{self, latency_text, share_text};

/// Duration of an answer that waited for a delayed acknowledgement, with a small margin for the server itself.
const DELAYED: RangeInclusive<Duration> = Duration::from_millis(40)..=Duration::from_millis(49);
/// Length of the pause between head and body. The generator may have read the head slightly late.
const DELAYED_END: RangeInclusive<Duration> = Duration::from_millis(39)..=*DELAYED.end();
/// Maximum duration of an answer that did not wait, half of the delay.
const QUICK_MAX: Duration = Duration::from_millis(20);
/// End of the range above a spike that is checked. Many answers there mean that the spike is the start of a mode.
const ABOVE_MAX: Duration = Duration::from_millis(60);
/// Maximum answers, or pauses, next to a spike, as a share of the spike.
const OTHERS_MAX: f64 = 0.1;
/// Minimum number of delayed answers, and of quick ones next to a spike. Fewer may be chance.
const ANSWERS_MIN: u64 = 20;
/// Minimum share of delayed answers.
const SHARE_MIN: f64 = 0.01;

/// Counts answers that paused before their last bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PausedEnds {
    /// Pauses of 39 to 49 ms.
    pub delayed: u64,
    /// Other pauses between 20 and 60 ms.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub others: u64,
}

impl PausedEnds {
    /// Counts an answer by its pause. Short pauses, the usual case, are not counted.
    #[inline]
    pub fn count(&mut self, pause: Duration) {
        if pause >= QUICK_MAX {
            self.count_long(pause);
        }
    }

    #[cold]
    fn count_long(&mut self, pause: Duration) {
        if DELAYED_END.contains(&pause) {
            self.delayed += 1;
        } else if pause <= ABOVE_MAX {
            self.others += 1;
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.delayed += other.delayed;
        self.others += other.others;
    }

    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Describes answers that took as long as a delayed acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DelayedAcks {
    /// Share of all answers, 0 to 1.
    pub share: f64,
    /// Median of the answers below a spike; `None` if the pause itself was seen.
    quick: Option<Duration>,
}

impl DelayedAcks {
    /// Describes the delay: `42.0 % of answers took 40 to 48 ms, the quicker ones 210 µs at the median: this is what
    /// a delayed ACK …`.
    pub fn text(&self) -> String {
        let share = share_text(self.share);
        let seen = match self.quick.map(latency_text) {
            None => format!("{share} of answers ended 40 to 48 ms after they began"),
            Some(quick) => format!(
                "{share} of answers took 40 to 48 ms, the quicker ones {quick} at the median"
            ),
        };
        format!(
            "{seen}: this is what a delayed ACK looks like if the server writes head and body separately without \
             TCP_NODELAY; have it write both at once, or set TCP_NODELAY on its connections"
        )
    }
}

impl Measurement {
    /// Returns the answers that waited for a delayed acknowledgement, if there are enough.
    pub fn delayed_acks(&self) -> Option<DelayedAcks> {
        let service = self.total().service;
        let PausedEnds { delayed, others } = self.paused_ends;
        let share = (delayed as f64 / service.count() as f64).min(1.0);
        let is_spike = others as f64 <= OTHERS_MAX * delayed as f64;
        match is_spike && delayed >= ANSWERS_MIN && share >= SHARE_MIN {
            true => Some(DelayedAcks { share, quick: None }),
            false => spike(&service),
        }
    }
}

/// Finds a spike at 40 to 48 ms while other service times are far shorter.
fn spike(service: &Latencies) -> Option<DelayedAcks> {
    let (mut quick, mut between, mut delayed, mut above) = (Latencies::default(), 0, 0, 0);
    for (time, count) in service.recorded() {
        match time {
            _ if time <= QUICK_MAX => quick.record_many(time, count),
            _ if time < *DELAYED.start() => between += count,
            _ if time <= *DELAYED.end() => delayed += count,
            _ if time <= ABOVE_MAX => above += count,
            _ => break,
        }
    }
    let share = delayed as f64 / service.count() as f64;
    let others_max = OTHERS_MAX * delayed as f64;
    let is_spike = between as f64 <= others_max && above as f64 <= others_max;
    let is_many = quick.count() >= ANSWERS_MIN && delayed >= ANSWERS_MIN && share >= SHARE_MIN;
    let quick = quick.quantile(0.5).filter(|_| is_spike && is_many)?;
    Some(DelayedAcks { share, quick: Some(quick) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::OperationFigures;

    /// Detects delays from answers by duration in milliseconds, and by pause.
    fn paused(times: &[(f64, u64)], pauses: &[(f64, u64)]) -> Option<DelayedAcks> {
        let time = |milliseconds: f64| Duration::from_secs_f64(milliseconds / 1e3);
        let mut figures = OperationFigures::default();
        for &(milliseconds, count) in times {
            figures.service.record_many(time(milliseconds), count);
        }
        let mut paused_ends = PausedEnds::default();
        for &(milliseconds, count) in pauses {
            (0..count).for_each(|_| paused_ends.count(time(milliseconds)));
        }
        let operations = [("get".to_owned(), figures)].into();
        Measurement { operations, paused_ends, ..Measurement::default() }.delayed_acks()
    }

    fn found_in(times: &[(f64, u64)]) -> Option<DelayedAcks> {
        paused(times, &[])
    }

    #[test]
    fn spike_at_40_ms_above_quick_answers_is_a_delayed_ack() {
        let found = found_in(&[(0.2, 580), (40.1, 200), (44.1, 120), (48.2, 100)]).unwrap();
        let begins = "42.0 % of answers took 40 to 48 ms, the quicker ones 200 µs at the median: this is what a";
        assert!(found.text().starts_with(begins), "{}", found.text());
        // Nearly all answers wait once a connection has been used for a while, or only 1 % do.
        assert!(found_in(&[(0.2, 64), (44.1, 9000), (48.2, 500)]).is_some());
        assert!(found_in(&[(0.2, 9900), (40.5, 100)]).is_some());
        // A few answers are in between, and others are far above.
        assert!(
            found_in(&[(0.2, 900), (30.0, 10), (40.5, 100), (50.0, 10), (200.0, 500)]).is_some()
        );
    }

    #[test]
    fn pauses_within_answers_are_delayed_acks_for_any_service_time() {
        let found = paused(&[(41.0, 1000)], &[(39.9, 900), (48.0, 97), (12.0, 900)]).unwrap();
        let begins =
            "99.7 % of answers ended 40 to 48 ms after they began: this is what a delayed ACK";
        assert!(found.text().starts_with(begins), "{}", found.text());
        assert_eq!(paused(&[(41.0, 1000)], &[(40.1, 19)]), None, "few");
        assert_eq!(paused(&[(0.2, 10_000)], &[(40.1, 99)]), None, "fewer than 1 %");
        assert_eq!(paused(&[(41.0, 1000)], &[(25.0, 40), (40.1, 200)]), None, "other waits");
    }

    #[test]
    fn other_answers_of_40_ms_are_not_delayed_acks() {
        for (why, times) in [
            ("no answers", &[][..]),
            ("a network or a server that takes 41 ms", &[(41.0, 1000)]),
            ("few that wait", &[(0.2, 100), (40.5, 19)]),
            ("fewer than 1 %", &[(0.2, 10_000), (40.5, 100)]),
            ("few quick ones", &[(0.2, 19), (40.5, 1000)]),
            ("a broad distribution", &[(10.0, 100), (30.0, 100), (41.0, 100), (50.0, 100)]),
            ("a tail down to 40 ms", &[(0.2, 900), (25.0, 60), (35.0, 30), (41.0, 25)]),
            ("the beginning of a mode", &[(0.2, 900), (42.0, 30), (47.0, 90), (52.0, 90)]),
            ("timers of 50 ms", &[(0.2, 900), (50.0, 100)]),
        ] {
            assert_eq!(found_in(times), None, "{why}");
        }
    }
}
