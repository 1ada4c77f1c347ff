//! Answers that waited for a delayed acknowledgement: head and body in two writes, Nagle's algorithm on.
//!
//! A server that writes a small body after the head holds it back until the client has acknowledged the head (RFC 896).
//! The client delays that by 40 ms, as it has nothing else to send (`TCP_DELACK_MIN` in Linux's `include/net/tcp.h`), and
//! by one or two ticks of its timer. So such an answer takes 40 to 42 ms with 1,000 ticks a second, 44 or 48 ms with 250,
//! however quick the server is.
//!
//! The engine sees the pause between head and body. If something in front of the server hides that, a spike among the
//! service times is left.
//!
//! Not here: how many trials show it (the report).

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Measurement;
use crate::histogram::Latencies;
use crate::units::{self, latency_text, share_text};

/// How long an answer takes at least and at most that waited for one, with a little for the server itself.
const DELAYED: RangeInclusive<Duration> = Duration::from_millis(40)..=Duration::from_millis(49);
/// The same for the pause between head and body: the generator may have read the head a little late.
const DELAYED_END: RangeInclusive<Duration> = Duration::from_millis(39)..=*DELAYED.end();
/// An answer that did not wait takes half of that at most,
const QUICK_MAX: Duration = Duration::from_millis(20);
/// and longer ones are looked at up to here: the spike would be the beginning of a mode.
const ABOVE_MAX: Duration = Duration::from_millis(60);
/// The most answers, or pauses, just below a spike and just above it, as a part of the spike.
const BESIDE_MAX: f64 = 0.1;
/// Answers that have to have waited, and quick ones beside a spike: fewer are chance.
const ANSWERS_MIN: u64 = 20;
/// The least share of answers that have waited.
const SHARE_MIN: f64 = 0.01;

/// Answers that paused before their last bytes came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PausedEnds {
    /// Pauses of 39 to 49 ms.
    pub delayed: u64,
    /// Other pauses between 20 and 60 ms.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub others: u64,
}

impl PausedEnds {
    /// Counts an answer by its pause. Nearly all pauses are short and not counted.
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

/// Answers that took as long as an acknowledgement is delayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DelayedAcks {
    /// Their share of all answers, 0 to 1.
    pub share: f64,
    /// The median of the answers below a spike; `None` if the pause itself was seen.
    quick: Option<Duration>,
}

impl DelayedAcks {
    /// `42.0 % of answers took 40 to 48 ms, the quicker ones 210 µs at the median: this is what a delayed ACK …`.
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
        let is_spike = others as f64 <= BESIDE_MAX * delayed as f64;
        match is_spike && delayed >= ANSWERS_MIN && share >= SHARE_MIN {
            true => Some(DelayedAcks { share, quick: None }),
            false => spike(&service),
        }
    }
}

/// Finds a spike at 40 to 48 ms among service times that are far shorter otherwise.
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
    let beside_max = BESIDE_MAX * delayed as f64;
    let is_spike = between as f64 <= beside_max && above as f64 <= beside_max;
    let is_many = quick.count() >= ANSWERS_MIN && delayed >= ANSWERS_MIN && share >= SHARE_MIN;
    let quick = quick.quantile(0.5).filter(|_| is_spike && is_many)?;
    Some(DelayedAcks { share, quick: Some(quick) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::OperationFigures;

    /// Answers by milliseconds and how many took so long, and by how many paused for so long.
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
        // Nearly all wait, once a connection has been used for a while; or 1 % do.
        assert!(found_in(&[(0.2, 64), (44.1, 9000), (48.2, 500)]).is_some());
        assert!(found_in(&[(0.2, 9900), (40.5, 100)]).is_some());
        // Some are between, and others are far above.
        assert!(
            found_in(&[(0.2, 900), (30.0, 10), (40.5, 100), (50.0, 10), (200.0, 500)]).is_some()
        );
    }

    #[test]
    fn pauses_within_answers_are_delayed_acks_whatever_the_others_take() {
        let found = paused(&[(41.0, 1000)], &[(39.9, 900), (48.0, 97), (12.0, 900)]).unwrap();
        let begins =
            "99.7 % of answers ended 40 to 48 ms after they began: this is what a delayed ACK";
        assert!(found.text().starts_with(begins), "{}", found.text());
        assert_eq!(paused(&[(41.0, 1000)], &[(40.1, 19)]), None, "few");
        assert_eq!(paused(&[(0.2, 10_000)], &[(40.1, 99)]), None, "fewer than 1 %");
        assert_eq!(paused(&[(41.0, 1000)], &[(25.0, 40), (40.1, 200)]), None, "other waits");
    }

    #[test]
    fn other_answers_of_40_ms_are_none() {
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
