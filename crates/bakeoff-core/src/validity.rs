//! Detects why a measurement may not describe the system alone: a generator at its limit, or clients without answers.
//!
//! Not here: checks of a whole trial (`check`), the allowed failures of a trial (`check`, `search`).

use std::time::Duration;

use crate::lateness::{self, Delay, InflatedPercentile};
use crate::measurement::Measurement;
use crate::units::{count_text, figure_text, latency_text, plural};

/// Shortest delay of events in the generator that matters.
const EVENT_LAG_MIN: Duration = Duration::from_millis(1);
/// Maximum share of the time until a watcher knew a write that may be the generator's delay, both at p99.
const EVENT_LAG_MAX: f64 = 0.25;
/// Largest CPU share of the generator's busiest thread. Above it the generator may have limited the load.
const BUSIEST_MAX: f64 = 0.9;
/// Minimum window for a statement on how busy a thread is.
const BUSY_AFTER: Duration = Duration::from_secs(1);
/// Share of a closed load's window for which a generator thread may stand still: throughput is low by at most as much.
const STALLED_SHARE_MAX: f64 = 0.01;
/// Share of the window for which a CPU limit may throttle the generator. The kernel throttles for tens of
/// milliseconds at a time.
const THROTTLED_SHARE_MAX: f64 = 0.001;
/// Minimum failures at a node without a success that show that it served no client.
const NODE_ERRORS_MIN: u64 = 3;

/// Returns why a load describes the generator more than the server; empty if it does not.
pub(crate) fn generator_limits(measurement: &Measurement) -> Vec<String> {
    let limits =
        [generator_busy, generator_throttled, schedule_lagged, generator_stalled, answers_waited];
    limits.into_iter().filter_map(|limit| limit(measurement)).collect()
}

/// Checks the CPU share of the generator's busiest thread.
pub(crate) fn generator_busy(measurement: &Measurement) -> Option<String> {
    let busy = measurement.generator_busiest > BUSIEST_MAX && measurement.window >= BUSY_AFTER;
    busy.then(|| {
        format!(
            "the generator's busiest thread used {} % of its CPU: the server might do more, or \
             answer sooner",
            figure_text(measurement.generator_busiest * 100.0)
        )
    })
}

/// Checks for CPU throttling of the generator that would show in the percentiles.
pub fn generator_throttled(measurement: &Measurement) -> Option<String> {
    let share = measurement.generator_throttled.as_secs_f64() / measurement.window.as_secs_f64();
    (share > THROTTLED_SHARE_MAX).then(|| {
        format!(
            "a CPU limit held the generator back for {} of {}: give it more CPU (the quota of its cgroup, `limits.cpu` of \
             its pod)",
            latency_text(measurement.generator_throttled),
            latency_text(measurement.window)
        )
    })
}

/// Returns what is spoilt if the generator's delays of this kind spoilt it most.
fn spoilt_by(measurement: &Measurement, delay: Delay) -> Option<InflatedPercentile> {
    lateness::spoilt(measurement).filter(|found| found.by == delay)
}

/// Checks for late operations of an open load although clients were free. A closed load has no schedule.
pub(crate) fn schedule_lagged(measurement: &Measurement) -> Option<String> {
    let spoilt = spoilt_by(measurement, Delay::Sending)?;
    let lag = measurement.schedule_lag.quantile(0.99)?;
    Some(format!(
        "{}: it could not keep the schedule, and 1 % of operations went out {} late or later though a client was free",
        spoilt.text(),
        latency_text(lag)
    ))
}

/// Checks for stalls of a generator thread that hide what the server does: in a closed load for too much of the time,
/// in any load for too many operations.
pub(crate) fn generator_stalled(measurement: &Measurement) -> Option<String> {
    let (thread, stalled) = measurement.most_stalled()?;
    let of_thread = || measurement.stalls.iter().filter(|stall| stall.thread == thread);
    let longest = of_thread().max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    let spoilt = spoilt_by(measurement, Delay::Stall);
    let is_open = !measurement.schedule_lag.is_empty();
    let share = stalled.as_secs_f64() / measurement.window.as_secs_f64();
    (spoilt.is_some() || !is_open && share > STALLED_SHARE_MAX).then(|| {
        let length = Duration::try_from_secs_f64(longest.seconds).unwrap_or_default();
        let from = Duration::try_from_secs_f64(longest.from).unwrap_or_default();
        let more = match of_thread().count() - 1 {
            0 => String::new(),
            more => format!(" (and {} more of at least 100 ms)", count_text(more as u64)),
        };
        let added = spoilt.map_or_else(String::new, |spoilt| format!("; {}", spoilt.text()));
        format!(
            "the generator stood still for {}, from {} on{more}: what was due or answered meanwhile \
             waited for it and not for the server{added}",
            latency_text(length),
            latency_text(from)
        )
    })
}

/// Checks for answers to an open load that waited in the generator for too long. Latencies of a closed load follow from
/// the number of clients, and are not its subject.
pub(crate) fn answers_waited(measurement: &Measurement) -> Option<String> {
    let spoilt = spoilt_by(measurement, Delay::Reading)?;
    let lag = measurement.receive_lag.quantile(0.99)?;
    Some(format!(
        "{}: 1 % of answers that had arrived waited {} or longer until the generator read them",
        spoilt.text(),
        latency_text(lag)
    ))
}

/// Checks for events that waited in the generator for too long, so that a late loop would look like a late server.
pub fn events_waited(measurement: &Measurement) -> Option<String> {
    let watch = measurement.watch.as_deref()?;
    let (lag, known) = (watch.receive_lag.quantile(0.99)?, watch.known.quantile(0.99)?);
    let is_late = lag >= EVENT_LAG_MIN && lag.as_secs_f64() > EVENT_LAG_MAX * known.as_secs_f64();
    is_late.then(|| {
        format!(
            "1 % of the watchers' reads may have come {} or more after their bytes, and the p99 until a watcher knew \
             a write was {}: use fewer watchers or writes",
            latency_text(lag),
            latency_text(known)
        )
    })
}

/// Reports that nothing succeeded from some moment to the end of the load.
pub fn gave_out(measurement: &Measurement) -> Option<String> {
    let from = measurement.gave_out()?;
    let window = measurement.window.as_secs_f64();
    Some(format!("nothing succeeded from {from:.1} s on, of {window:.1} s"))
}

/// Explains why the figures describe only some clients; `None` if every client and node was served.
///
/// The served clients have the system for themselves, and are served fast.
pub fn unserved(measurement: &Measurement) -> Option<String> {
    let Measurement {
        unserved_clients,
        clients_with_work,
        clients_without_success,
        unconnected_clients,
        ..
    } = *measurement;
    let nodes = &measurement.targets;
    let failing = nodes.iter().find(|node| node.verified == 0 && node.errors >= NODE_ERRORS_MIN);
    if let Some(node) = failing.filter(|_| nodes.iter().any(|node| node.verified > 0)) {
        return Some(format!(
            "no operation at {} succeeded ({} failed): the figures describe the other nodes",
            node.node,
            count_text(node.errors)
        ));
    }
    if unserved_clients > 0 {
        let others = match unserved_clients == clients_with_work {
            true => "",
            false => ": the figures describe the other clients",
        };
        let unserved = count_text(unserved_clients);
        let all = count_text(clients_with_work);
        return Some(format!("{unserved} of {all} clients had only failures{others}"));
    }
    if unconnected_clients > 0 {
        let clients = plural(unconnected_clients, "client");
        return Some(format!(
            "{clients} never got a connection: the figures describe the other clients"
        ));
    }
    (clients_without_success * 2 > clients_with_work).then(|| {
        format!(
            "{} of {} clients completed nothing within the window of {}: load for longer, or with fewer clients",
            count_text(clients_without_success),
            count_text(clients_with_work),
            latency_text(measurement.window)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Latencies;

    #[test]
    fn other_clients_are_mentioned_if_there_are_any() {
        let of = |unserved_clients| {
            unserved(&Measurement {
                unserved_clients,
                clients_with_work: 8,
                ..Measurement::default()
            })
        };
        assert_eq!(of(8).as_deref(), Some("8 of 8 clients had only failures"));
        let some = "2 of 8 clients had only failures: the figures describe the other clients";
        assert_eq!(of(2).as_deref(), Some(some));
    }
    use crate::measurement::{GeneratorStall, OperationFigures};

    /// Returns an open load of ten seconds with this schedule lag and response time.
    fn measured(busiest: f64, schedule_lag_us: u64, response_us: u64) -> Measurement {
        let of = |us| {
            let mut latencies = Latencies::default();
            latencies.record_many(Duration::from_micros(us), 100);
            latencies
        };
        let figures = OperationFigures { response: of(response_us), ..OperationFigures::default() };
        let undelayed = of(response_us.saturating_sub(schedule_lag_us));
        Measurement {
            window: Duration::from_secs(10),
            generator_busiest: busiest,
            schedule_lag: of(schedule_lag_us),
            undelayed,
            operations: [("get".to_owned(), figures)].into(),
            ..Measurement::default()
        }
    }

    fn check(measurement: &Measurement, expected: &[&str]) {
        let reasons = generator_limits(measurement);
        assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
        for (reason, expected) in reasons.iter().zip(expected) {
            assert!(reason.contains(expected), "{reason}");
        }
    }

    #[test]
    fn busy_generator_is_reported() {
        check(&measured(0.9, 10, 100), &[]);
        check(&measured(0.91, 10, 100), &["91.0 % of its CPU"]);
        let short = Measurement { window: Duration::from_millis(900), ..measured(1.0, 10, 100) };
        check(&short, &[]);
    }

    #[test]
    fn schedule_lag_is_reported_if_it_matters() {
        check(&measured(0.1, 400, 1_000), &[]);
        check(&measured(0.1, 1_100, 2_000), &["could not keep the schedule"]);
        check(&measured(0.1, 1_100, 20_000), &[]);
        check(&measured(0.95, 15_000, 20_000), &["95.0 %", "could not keep the schedule"]);
    }

    #[test]
    fn stalled_generator_is_reported_for_any_load() {
        let stall = |thread, seconds| GeneratorStall { thread, from: 3.2, seconds };
        let stalled = |seconds, stalls: &[GeneratorStall]| Measurement {
            window: Duration::from_secs(seconds),
            schedule_lag: Latencies::default(),
            stalls: stalls.to_vec(),
            ..measured(0.1, 10, 1_000)
        };
        let why = "the generator stood still for 150 ms, from 3.20 s on";
        check(&stalled(10, &[stall(0, 0.15)]), &[why]);
        check(&stalled(160, &[stall(0, 0.15)]), &[]);
        check(&stalled(160, &[stall(0, 0.1), stall(1, 0.1)]), &[]);
        check(&stalled(16, &[stall(1, 0.1), stall(1, 0.1)]), &["(and 1 more of at least 100 ms)"]);
    }

    #[test]
    fn receive_lag_is_reported_if_it_matters() {
        let lagged = |lag_us, response_us| {
            let mut of = measured(0.1, 10, response_us);
            of.receive_lag.record_many(Duration::from_micros(lag_us), 100);
            of.undelayed.clear();
            let undelayed = Duration::from_micros(response_us - lag_us);
            of.undelayed.record_many(undelayed, 100);
            of
        };
        check(&lagged(400, 1_000), &[]);
        check(&lagged(1_100, 2_000), &["answers that had arrived waited 1.1"]);
        check(&lagged(1_100, 20_000), &[]);
        check(&Measurement { schedule_lag: Latencies::default(), ..lagged(1_100, 2_000) }, &[]);
    }
}
