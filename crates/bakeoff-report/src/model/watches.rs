//! What the watchers of a load observed: figures of a measurement, and the guarantees over whole trials.
//!
//! Figures come from a trial's load, guarantees also from all its injections: a promise holds while nodes are down.
//!
//! Not here: names of figures (`quantity`), texts and tables (`document::watches`), judging events
//! (`bakeoff_core::watch`).

use std::time::Duration;

use bakeoff_core::measurement::{Measurement, OperationFigures};
use bakeoff_core::memory::MemoryGrowth;
use bakeoff_core::ranked_latencies::RankedLatencies;
use bakeoff_core::read_write_split::Side;
use bakeoff_core::record::TrialRecord;
use bakeoff_core::stats::{Figure, and};
use bakeoff_core::study::Operation;
use bakeoff_core::units::{count_text, plural};
use bakeoff_core::watch::{
    CatchUp, GuaranteeOutcome, GuaranteeState, WatchCounts, WatchFigures, WatchGuarantee,
};

use crate::model::figures::Figures;
use crate::model::quantity::{Point, Quantity, WatchCount, WatchQuantity};

/// Statistics of the time to know.
const KNOWN: [Point; 5] = [Point::P50, Point::P90, Point::P99, Point::P999, Point::Slowest];
/// Statistics of the time to catch up.
const CAUGHT_UP: [Point; 2] = [Point::P50, Point::Slowest];
/// Statistics of all other times.
const TIMES: [Point; 2] = [Point::P50, Point::P99];

/// Returns the figures of a measurement's watchers; empty without watchers.
pub(crate) fn figures(of: &Measurement) -> Figures {
    let Some(watch) = of.watch.as_deref() else { return Figures::new() };
    let writes = writes(of);
    let (known, first, last) = (
        RankedLatencies::of_values(&watch.known),
        RankedLatencies::of_values(&watch.first),
        RankedLatencies::of_values(&watch.last),
    );
    let due_to_last = RankedLatencies::of_values(&watch.due_to_last);
    let after = RankedLatencies::of_values(&watch.after_acknowledgement);
    let (alone, lag) =
        (RankedLatencies::of_values(&watch.alone), RankedLatencies::of_values(&watch.receive_lag));
    let (responses, services) = (writes.responses(), writes.services());
    let mut found: Vec<(WatchQuantity, Figure)> = scalars(watch);
    found.extend(KNOWN.map(|point| (WatchQuantity::Known(point), point.read(&known))));
    for point in TIMES {
        found.extend([
            (WatchQuantity::Acknowledged(point), point.read(&services)),
            (WatchQuantity::First(point), point.read(&first)),
            (WatchQuantity::Last(point), point.read(&last)),
            (WatchQuantity::DueToLast(point), point.read(&due_to_last)),
            (WatchQuantity::AfterAcknowledgement(point), point.read(&after)),
            (WatchQuantity::Writes(point), point.read(&responses)),
            (WatchQuantity::WritesAlone(point), point.read(&alone)),
            (WatchQuantity::ReceiveLag(point), point.read(&lag)),
        ]);
    }
    let counts = WatchCount::ALL.into_iter().map(|count| {
        (WatchQuantity::Count(count), Figure::Value(number_of(&watch.counts, count) as f64))
    });
    let all = found.into_iter().chain(counts);
    all.map(|(quantity, figure)| (Quantity::Watch(quantity), figure)).collect()
}

/// Returns the figures of writes, of all operations that write.
fn writes(of: &Measurement) -> OperationFigures {
    let mut writes = OperationFigures::default();
    let writing = Operation::ALL.iter().filter(|operation| Side::Writes.has(**operation));
    writing
        .filter_map(|operation| of.operations.get(operation.name()))
        .for_each(|operation| writes.merge(operation));
    writes
}

/// Returns the figures that are no distributions and no counts.
fn scalars(of: &WatchFigures) -> Vec<(WatchQuantity, Figure)> {
    let ratio = |value: f64, by: f64| Figure::from((by > 0.0).then(|| value / by));
    let events = of.load_events() as f64;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mut found = vec![
        (WatchQuantity::Watchers, Figure::Value(of.watchers.into())),
        (WatchQuantity::Connections, Figure::Value(of.connections.into())),
        (WatchQuantity::Delivered, of.delivered_share().into()),
        (WatchQuantity::Early, ratio(of.before_acknowledgement as f64, of.timed as f64)),
        (WatchQuantity::SetupRate, ratio(of.watchers.into(), of.setup.as_secs_f64())),
        (WatchQuantity::BytesPerEvent, ratio(of.bytes_received as f64, events)),
        (WatchQuantity::CpuPerEvent, ratio(ms(of.cpu), events)),
        (WatchQuantity::LongestSilence, Figure::Value(ms(of.longest_silence))),
    ];
    if let Some(catch_up) = &of.catch_up {
        found.extend(caught_up(catch_up));
    }
    if let Some(memory) = &of.server_memory {
        found.push((WatchQuantity::ServerMemory, per_watcher(memory, of.watchers)));
    }
    // Streams need no requests.
    if of.requests > 0 {
        found.push((WatchQuantity::RequestsPerEvent, ratio(of.requests as f64, events)));
    }
    found
}

/// Returns the figures of watchers that began with old events. Times are lower bounds if some had not caught up when the
/// load began.
fn caught_up(of: &CatchUp) -> Vec<(WatchQuantity, Figure)> {
    let took = RankedLatencies::of_values(&of.took);
    let seconds = of.lasted.as_secs_f64();
    let rate = (seconds > 0.0).then(|| of.events as f64 / seconds);
    let time = |point: Point| match (point.read(&took), of.is_complete()) {
        (Figure::Value(ms), false) if point != Point::Slowest => Figure::AtLeast(ms),
        (_, false) => Figure::AtLeast(seconds * 1e3),
        (figure, true) => figure,
    };
    let mut found = vec![(WatchQuantity::OldEventRate, rate.into())];
    found.extend(CAUGHT_UP.map(|point| (WatchQuantity::CatchUp(point), time(point))));
    found
}

/// Returns the growth of the servers' memory per watcher. With a growth within the usual variation, there are too few
/// watchers.
fn per_watcher(of: &MemoryGrowth, watchers: u32) -> Figure {
    let had = u64::from(watchers);
    match of.shown() {
        Some(grown) => Figure::Value(grown as f64 / f64::from(watchers.max(1))),
        None => {
            let grown = of.after_bytes.saturating_sub(of.before_bytes).max(1);
            let needed = had.saturating_mul(of.variation_bytes.max(1)).div_ceil(grown);
            Figure::TooFew { had, needed: needed.max(had + 1) }
        }
    }
}

/// Returns one of the counts.
pub(crate) fn number_of(of: &WatchCounts, count: WatchCount) -> u64 {
    match count {
        WatchCount::Events => of.events,
        WatchCount::Lost => of.lost,
        WatchCount::LostOnResume => of.lost_on_resume,
        WatchCount::Undelivered => of.undelivered,
        WatchCount::Repeated => of.repeated,
        WatchCount::Reordered => of.reordered,
        WatchCount::Phantoms => of.phantoms,
        WatchCount::EarlyBookmarks => of.after_bookmark.saturating_add(of.early_bookmarks),
        WatchCount::Resumes => of.resumes,
        WatchCount::HistoriesGone => of.histories_gone,
        WatchCount::Gone => of.gone,
        WatchCount::Unjudged => of.unjudged,
    }
}

/// How a system kept the guarantees of its watches, over all stages and injections of a trial, or of several.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct JudgedWatches {
    pub(crate) guarantees: Vec<GuaranteeOutcome>,
    pub(crate) counts: WatchCounts,
    /// Lost connections and ended watches, in words.
    pub(crate) interruptions: Vec<String>,
}

impl JudgedWatches {
    /// Returns the verdict on a trial; `None` if nothing was watched.
    pub(crate) fn of_trial(trial: &TrialRecord) -> Option<Self> {
        let injected = trial.injections.iter().map(|one| &one.stage);
        let stages = trial.stages.iter().chain(injected);
        let figures = stages.filter_map(|stage| stage.measurement.watch.as_deref());
        Self::sum(figures.map(Self::of_figures))
    }

    fn of_figures(figures: &WatchFigures) -> Self {
        Self {
            guarantees: figures.guarantees.clone(),
            counts: figures.counts.clone(),
            interruptions: figures.interruptions.clone(),
        }
    }

    /// Returns the verdict on several trials: the worst state of each guarantee. `None` without any.
    pub(crate) fn sum(all: impl Iterator<Item = Self>) -> Option<Self> {
        all.reduce(|mut sum, one| {
            sum.counts.merge(&one.counts);
            GuaranteeOutcome::merge(&mut sum.guarantees, &one.guarantees);
            sum.interruptions.extend(one.interruptions);
            sum
        })
    }

    /// Returns the state of a guarantee; `None` if it was not judged.
    pub(crate) fn state(&self, of: WatchGuarantee) -> Option<GuaranteeState> {
        self.guarantees.iter().find(|one| one.guarantee == of).map(|one| one.state)
    }

    /// Returns the promised guarantees that were broken, with the number of times.
    pub(crate) fn broken(&self) -> impl Iterator<Item = (WatchGuarantee, u64)> {
        self.guarantees.iter().filter_map(|one| match one.state {
            GuaranteeState::Broken(times) => Some((one.guarantee, times)),
            _ => None,
        })
    }

    /// Returns true if a promise was broken, or an event has no explanation.
    pub(crate) fn has_failed(&self) -> bool {
        self.broken().next().is_some() || self.counts.phantoms > 0
    }

    /// Returns what the system did against its guarantees, as a clause behind its name: `broke a guarantee of its watches:
    /// 212 of 1,200,000 events were lost (reliable)`. `None` if it kept all.
    pub(crate) fn failure(&self) -> Option<String> {
        let broken: Vec<String> = self
            .broken()
            .map(|(guarantee, times)| format!("{} ({guarantee})", self.words(guarantee, times)))
            .collect();
        let guarantees = match broken.len() {
            0 => None,
            1 => Some(format!("broke a guarantee of its watches: {}", broken[0])),
            several => {
                Some(format!("broke {several} guarantees of its watches: {}", broken.join(", ")))
            }
        };
        let phantoms = (self.counts.phantoms > 0).then(|| {
            let events = plural(self.counts.phantoms, "event");
            format!("sent watchers {events} that no write explains")
        });
        let clauses: Vec<String> = phantoms.into_iter().chain(guarantees).collect();
        (!clauses.is_empty()).then(|| and(&clauses))
    }

    /// Words how often a guarantee was broken.
    fn words(&self, guarantee: WatchGuarantee, times: u64) -> String {
        let events = plural(times, "event");
        match guarantee {
            WatchGuarantee::Ordered => format!("{events} came out of order"),
            WatchGuarantee::Unique => format!("{events} came twice"),
            WatchGuarantee::Atomic => format!("{} came in parts", plural(times, "write")),
            WatchGuarantee::Reliable => {
                let were = if times == 1 { "was" } else { "were" };
                let expected = plural(self.counts.expected, "event");
                format!("{} of {expected} {were} lost", count_text(times))
            }
            WatchGuarantee::Resumable => {
                let were = if times == 1 { "was" } else { "were" };
                format!("{events} {were} lost on a resume")
            }
            WatchGuarantee::Bookmarkable => {
                format!("progress was reported too early {}", plural(times, "time"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(guarantee: WatchGuarantee, state: GuaranteeState) -> JudgedWatches {
        JudgedWatches {
            guarantees: vec![GuaranteeOutcome { guarantee, state }],
            counts: WatchCounts { expected: 1_200_000, ..WatchCounts::default() },
            interruptions: Vec::new(),
        }
    }

    /// Returns the state of a guarantee over two trials.
    fn over(one: GuaranteeState, other: GuaranteeState) -> GuaranteeState {
        let guarantee = WatchGuarantee::Reliable;
        let all = [judged(guarantee, one), judged(guarantee, other)];
        let sum = JudgedWatches::sum(all.into_iter()).expect("two trials");
        sum.state(guarantee).expect("it was judged")
    }

    #[test]
    fn worst_state_of_all_trials_counts() {
        use GuaranteeState::{Broken, Kept, NotPromised, NotReached};
        assert_eq!(over(Kept, Broken(3)), Broken(3));
        assert_eq!(over(Broken(1), Broken(3)), Broken(4));
        assert_eq!(over(NotReached, Kept), Kept);
        assert_eq!(over(NotReached, NotReached), NotReached);
        assert_eq!(over(NotPromised(0), NotPromised(2)), NotPromised(2));
        assert_eq!(over(Broken(u64::MAX), Broken(1)), Broken(u64::MAX));
    }

    #[test]
    fn broken_promise_is_a_clause_and_an_unpromised_one_is_not() {
        let lost = judged(WatchGuarantee::Reliable, GuaranteeState::Broken(212));
        let clause =
            "broke a guarantee of its watches: 212 of 1,200,000 events were lost (reliable)";
        assert_eq!(lost.failure().as_deref(), Some(clause));
        let again = judged(WatchGuarantee::Unique, GuaranteeState::NotPromised(9));
        assert_eq!(again.failure(), None);
        assert!(!again.has_failed());
        let mut both = lost;
        both.guarantees
            .extend(judged(WatchGuarantee::Unique, GuaranteeState::Broken(1)).guarantees);
        both.counts.phantoms = 1;
        let clause = "sent watchers 1 event that no write explains and broke 2 guarantees of its watches: \
                      212 of 1,200,000 events were lost (reliable), 1 event came twice (unique)";
        assert_eq!(both.failure().as_deref(), Some(clause));
    }
}
