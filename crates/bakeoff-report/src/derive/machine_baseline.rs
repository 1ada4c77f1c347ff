//! Compares each system's throughput with the machine baseline.
//!
//! The baseline is measured before the first trial. It holds the rate of durable appends to this disk at each number of
//! clients that share a sync, and the rate of round trips over loopback to a server that does nothing. The share
//! reached shows what a system adds to the unavoidable. Only closed loads are compared, because an open load sets its
//! own rate. Only workloads that just write are compared with the disk, because then each client has a write in flight.
//!
//! A system that acknowledges before a write is on disk is not compared with the disk. The disk is measured before each
//! round, because virtual disks change from minute to minute. The limit is therefore a range.
//!
//! If servers ran on other machines, the limit is that of the fastest of their disks: no system did more by waiting for
//! its disk. Loopback is no limit then; the network between machines is reported separately.
//!
//! Not here: measuring (the binary), the fairness sheet (`fairness`).

use bakeoff_core::record::{AckLocation, BaselineAppends, BaselineRoundTrips, Record};
use bakeoff_core::stats::{Figure, and, summary};
use bakeoff_core::study::Load;
use bakeoff_core::units::{ByteCount, count_text, figure_text, rate_text};
use serde::Serialize;

use crate::derive::ack_locations::acknowledged_words;
use crate::model::contender::Contender;
use crate::model::contest::Contest;
use crate::model::quantity::Quantity;

/// Largest ratio between the sizes of keys with values and of the baseline's appends.
const SIZE_ALIKE: u64 = 2;

/// A system's throughput with one number of clients, and the machine's limits there.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BaselineShare {
    /// System.
    pub system: String,
    /// Clients of the stage.
    pub clients: u32,
    /// Most operations in flight: clients times operations in flight of each.
    pub under_way: u32,
    /// Operations per second, the median of the valid trials.
    pub throughput: f64,
    /// Share of the disk's limit; `None` if it is unknown or does not apply.
    pub disk: Option<ShareOfLimit>,
    /// Share of the loopback limit.
    pub loopback: Option<ShareOfLimit>,
}

/// Share of a limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShareOfLimit {
    /// Limit per second. For a disk, by the median sync; the median over the rounds.
    pub per_second: f64,
    /// Smallest and largest limit of the rounds, if it was measured in several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second_range: Option<(f64, f64)>,
    /// Limit by the mean sync.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second_mean: Option<f64>,
    /// Share reached; 1 is the whole limit.
    pub share: f64,
    /// True if an operation took less time than the fastest sync, so not all operations can have waited for one.
    pub quicker_than_any_sync: bool,
}

/// The machine's limits for one workload under one load.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    /// Appends measured before each round; empty if the disk does not apply.
    appends: Vec<Vec<BaselineAppends>>,
    append_bytes: u64,
    round_trips: Vec<BaselineRoundTrips>,
    /// True if servers ran on other machines: the limit is then that of the fastest of their disks.
    elsewhere: bool,
    /// Systems whose servers bakeoff started.
    started: Vec<OwnSystem>,
}

/// A system that bakeoff started, as far as the disk is concerned.
#[derive(Debug, Clone)]
struct OwnSystem {
    name: String,
    nodes: u32,
    acknowledged_in: Option<AckLocation>,
}

impl Limits {
    /// Returns the limits; `None` without a machine baseline, and for an open load.
    pub(crate) fn from_record(record: &Record, contest: &Contest) -> Option<Self> {
        let machine_baseline = record.header.environment.machine_baseline.as_ref()?;
        if contest.is_open() {
            return None;
        }
        let (work, baseline_bytes) = (&contest.workload, machine_baseline.append_bytes);
        let bytes = work.keys.size + work.value_size().unwrap_or(0);
        let alike = bytes <= baseline_bytes.saturating_mul(SIZE_ALIKE)
            && baseline_bytes <= bytes.saturating_mul(SIZE_ALIKE);
        // Operations that store nothing (a ping, a check) do not concern the disk.
        let only_writes = work.mix.keys().all(|operation| operation.writes());
        let rounds = || {
            let later = record.trials.iter().map(|trial| &trial.baseline_appends);
            std::iter::once(&machine_baseline.appends)
                .chain(later)
                .filter(|points| !points.is_empty())
        };
        let started = record.header.systems.iter().filter(|system| !system.already_running);
        Some(Self {
            appends: if alike && only_writes { rounds().cloned().collect() } else { Vec::new() },
            append_bytes: baseline_bytes,
            round_trips: machine_baseline.round_trips.clone(),
            elsewhere: record.header.environment.has_places(),
            started: started
                .map(|system| OwnSystem {
                    name: system.name.clone(),
                    nodes: system.nodes,
                    acknowledged_in: system.guarantees.acknowledged_in,
                })
                .collect(),
        })
    }

    fn started(&self, system: &str) -> Option<&OwnSystem> {
        self.started.iter().find(|started| started.name == system)
    }

    /// Returns true if a system's writes wait for this disk, according to its guarantees.
    fn waits_for_disk(&self, system: &str) -> bool {
        let started = self.started(system);
        started.is_some_and(|one| one.acknowledged_in.is_none_or(is_disk))
    }

    /// Returns true if the writes of any of these systems wait for this disk.
    pub(crate) fn any_waits_for_disk<'a>(&self, systems: impl Iterator<Item = &'a str>) -> bool {
        let mut systems = systems;
        systems.any(|system| self.waits_for_disk(system))
    }

    /// Returns a sentence for each system that acknowledges before its writes are on this disk.
    fn not_held(&self, of: &Contest) -> Vec<String> {
        let measured = of.contenders.iter().filter(|one| one.valid().next().is_some());
        let early = measured.filter_map(|one| {
            let place = self.started(&one.system)?.acknowledged_in.filter(|&at| !is_disk(at))?;
            Some(format!(
                "{} is not compared with this disk: it acknowledges earlier ({})",
                one.system,
                acknowledged_words(place)
            ))
        });
        if self.appends.is_empty() { Vec::new() } else { early.collect() }
    }

    /// Explains a system's throughput above the disk's limit.
    fn beyond(name: &str, share: ShareOfLimit) -> String {
        let not_all = "these writes were not all on disk when acknowledged";
        if share.quicker_than_any_sync {
            format!(
                "{name} did more than this disk can commit: {not_all}, because a write took less time \
                 than the fastest sync observed on this disk"
            )
        } else {
            format!(
                "{name} did more than this disk committed in the baseline: the disk was \
                 faster during these trials, or {not_all}"
            )
        }
    }

    /// Returns, for each round, the appends per second when `under_way` share each sync, in ascending order.
    fn disk_rounds(&self, under_way: u32, rate: fn(&BaselineAppends) -> Option<f64>) -> Vec<f64> {
        let point = |point: &BaselineAppends| Some((point.clients, rate(point)?));
        let of =
            |points: &Vec<BaselineAppends>| between(points.iter().filter_map(point), under_way);
        let mut rates: Vec<f64> = self.appends.iter().filter_map(of).collect();
        rates.sort_by(f64::total_cmp);
        rates
    }

    /// Returns the appends per second when `under_way` share each sync, by the median sync: the median over the rounds.
    pub(crate) fn disk(&self, under_way: u32) -> Option<f64> {
        let rates = self.disk_rounds(under_way, |point| Some(point.per_second));
        summary(rates.into_iter().map(Figure::Value)).median.value()
    }

    /// Returns the smallest and the largest rate of the rounds; `None` with fewer than two.
    pub(crate) fn disk_range(&self, under_way: u32) -> Option<(f64, f64)> {
        let rates = self.disk_rounds(under_way, |point| Some(point.per_second));
        (rates.len() > 1).then(|| (rates[0], rates[rates.len() - 1]))
    }

    /// Returns the appends per second by the mean sync: the median over the rounds.
    fn disk_mean(&self, under_way: u32) -> Option<f64> {
        let rates = self.disk_rounds(under_way, |point| point.per_second_mean);
        summary(rates.into_iter().map(Figure::Value)).median.value()
    }

    /// Returns the round trips per second with `under_way` clients.
    pub(crate) fn loopback(&self, under_way: u32) -> Option<f64> {
        between(self.round_trips.iter().map(|point| (point.clients, point.per_second)), under_way)
    }

    /// Returns the shortest time of any write with its sync, in seconds.
    fn quickest_sync(&self) -> Option<f64> {
        let quickest = self.appends.iter().flatten().filter_map(|point| point.quickest_us);
        quickest.min_by(f64::total_cmp).map(|micros| micros / 1e6)
    }

    fn bound(&self, load: &Load, of: &Contender, clients: u32, throughput: f64) -> BaselineShare {
        let under_way = clients.saturating_mul(load.in_flight);
        let seconds_each = f64::from(under_way) / throughput;
        let quicker = self.quickest_sync().is_some_and(|quickest| seconds_each < quickest);
        let share = |limit: Option<f64>, quicker_than_any_sync| {
            let per_second = limit?;
            Some(ShareOfLimit {
                per_second,
                per_second_range: None,
                per_second_mean: None,
                share: throughput / per_second,
                quicker_than_any_sync,
            })
        };
        let disk = share(self.disk(under_way).filter(|_| self.waits_for_disk(&of.system)), quicker);
        BaselineShare {
            system: of.system.clone(),
            clients,
            under_way,
            throughput,
            disk: disk.map(|disk| ShareOfLimit {
                per_second_range: self.disk_range(under_way),
                per_second_mean: self.disk_mean(under_way),
                ..disk
            }),
            // Operations on one connection share round trips, and the baseline has no such figure.
            loopback: share(self.loopback(under_way).filter(|_| load.in_flight == 1), false),
        }
    }
}

fn is_disk(place: AckLocation) -> bool {
    place.is_on_disk()
}

/// Interpolates the rate at `clients` between the two points around it, on logarithmic axes; `None` outside them.
fn between(points: impl Iterator<Item = (u32, f64)>, clients: u32) -> Option<f64> {
    let points: Vec<(u32, f64)> =
        points.filter(|(_, rate)| *rate > 0.0 && rate.is_finite()).collect();
    let below = points.iter().filter(|(count, _)| *count <= clients).max_by_key(|(at, _)| *at);
    let above = points.iter().filter(|(count, _)| *count >= clients).min_by_key(|(at, _)| *at);
    let (&(low, from), &(high, to)) = (below?, above?);
    if low == high {
        return Some(from);
    }
    let log = |count: u32| f64::from(count.max(1)).ln();
    let place = (log(clients) - log(low)) / (log(high) - log(low));
    Some((from.ln() + place * (to.ln() - from.ln())).exp())
}

/// Returns a bound for every stage of every system with a rate and a limit.
pub(crate) fn bounds(of: &Contest, limits: Option<&Limits>) -> Vec<BaselineShare> {
    let Some(limits) = limits else { return Vec::new() };
    let mut bounds = Vec::new();
    for one in of.contenders.iter().filter(|one| one.mostly_errors().is_none()) {
        let stages = of.load.clients_on(&one.system);
        for (place, &clients) in stages.iter().enumerate() {
            let nth = stages[..place].iter().filter(|&&before| before == clients).count();
            let Figure::Value(rate) = one.stage(clients, nth, Quantity::ThroughputMean) else {
                continue;
            };
            let bound = limits.bound(&of.load, one, clients, rate);
            if rate > 0.0 && (bound.disk.is_some() || bound.loopback.is_some()) {
                bounds.push(bound);
            }
        }
    }
    bounds
}

/// Returns each system's largest share of the machine's limits, as sentences without full stops.
pub(crate) fn lines(of: &Contest, limits: Option<&Limits>) -> Vec<String> {
    let Some(limits) = limits else { return Vec::new() };
    let best = best(of, Some(limits));
    let several = best.iter().any(|bound| bound.clients != best[0].clients);
    let sweep = of.contenders.iter().any(|one| of.load.clients_on(&one.system).len() > 1);
    let mut lines = Vec::new();

    // If the limits differ, each system's limit follows its share.
    let reached = |all: &[(&BaselineShare, ShareOfLimit)]| {
        let each = all.iter().enumerate().map(|(place, (bound, share))| {
            let verb = match place {
                0 if sweep => " reaches at best",
                0 => " reaches",
                _ => "",
            };
            let at = if several {
                format!(" ({}, {})", clients(bound.under_way), rate_text(share.per_second))
            } else {
                String::new()
            };
            let reached = match share.per_second_range {
                Some((least, most)) => {
                    let (low, high) = (bound.throughput / most, bound.throughput / least);
                    let (low, high) = (percent(low), percent(high));
                    if low == high { low } else { format!("{low} to {high}") }
                }
                None => percent(share.share),
            };
            format!("{}{verb} {reached}{at}", bound.system)
        });
        and(&each.collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>())
    };
    let on_disk = || best.iter().filter_map(|bound| Some((bound, bound.disk?)));
    let disk: Vec<(&BaselineShare, ShareOfLimit)> = on_disk().collect();
    if let Some((first, share)) = disk.first() {
        let appends = ByteCount(limits.append_bytes);
        let what = if several {
            format!("with as many clients (appends of {appends}, all of them sharing each sync)")
        } else {
            let rates = match share.per_second_range {
                Some((least, most)) => format!(
                    "{} to {}",
                    count_text(least.round() as u64),
                    per_second(most, "appends")
                ),
                None => per_second(share.per_second, "appends"),
            };
            let mean = share.per_second_mean.map_or_else(String::new, |mean| {
                format!(" by the median sync, {} by the mean", count_text(mean.round() as u64))
            });
            format!(
                "with {} ({rates} of {appends}{mean}, all of them sharing each sync)",
                clients(first.under_way),
            )
        };
        let whose =
            if limits.elsewhere { "the fastest of the servers' disks" } else { "this disk" };
        lines.push(format!("{} of what {whose} can commit {what}", reached(&disk)));
        let beyond = on_disk().filter(|(_, share)| share.share > 1.0);
        lines.extend(beyond.map(|(bound, share)| Limits::beyond(&bound.system, share)));
        let syncs_everywhere = |name: &&str| {
            limits.started(name).is_some_and(|one| {
                one.nodes > 1 && one.acknowledged_in == Some(AckLocation::MajorityDisks)
            })
        };
        let names = on_disk().map(|(bound, _)| bound.system.as_str());
        let clusters: Vec<&str> = names.filter(syncs_everywhere).collect();
        if !clusters.is_empty() && !limits.elsewhere {
            let nodes = clusters.iter().filter_map(|name| Some(limits.started(name)?.nodes));
            let nodes = nodes.max().unwrap_or(1);
            lines.push(format!(
                "the nodes of {} all sync to this one disk: if it handles one sync at a time, \
                 {} nodes can reach about {} of that",
                and(&clusters),
                count_text(nodes.into()),
                percent(1.0 / f64::from(nodes)),
            ));
        }
    }
    lines.extend(limits.not_held(of));
    let loopback: Vec<(&BaselineShare, ShareOfLimit)> =
        best.iter().filter_map(|bound| Some((bound, bound.loopback?))).collect();
    if let Some((first, share)) = loopback.first() {
        let nothing = "and a server that does nothing";
        let what = if several {
            format!("with as many clients {nothing}")
        } else {
            let rate = per_second(share.per_second, "round trips");
            format!("with {} {nothing} ({rate})", clients(first.under_way))
        };
        lines.push(format!("{} of what loopback and this generator do {what}", reached(&loopback)));
    }
    lines
}

fn per_second(rate: f64, what: &str) -> String {
    format!("{} {what}/s", count_text(rate.round() as u64))
}

fn clients(count: u32) -> String {
    if count == 1 { "1 client".to_owned() } else { format!("{} clients", count_text(count.into())) }
}

/// Returns each system's stage with the highest rate.
fn best(of: &Contest, limits: Option<&Limits>) -> Vec<BaselineShare> {
    let mut best: Vec<BaselineShare> = Vec::new();
    for bound in bounds(of, limits) {
        match best.iter_mut().find(|one| one.system == bound.system) {
            Some(one) if one.throughput < bound.throughput => *one = bound,
            Some(_) => {}
            None => best.push(bound),
        }
    }
    best
}

/// Formats a share: `43 %`, `4.3 %`, `0.043 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p >= 9.95 => format!("{} %", count_text(p.round() as u64)),
        p if p >= 0.995 => format!("{p:.1} %"),
        p => format!("{} %", figure_text(p)),
    }
}
