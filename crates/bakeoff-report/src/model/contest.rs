//! One workload under one load: the trials of all systems.
//!
//! Not here: one system (`contender`), the comparison (`derive::comparison`), texts (`words`), tables (`tables`).

use bakeoff_core::plan;
use bakeoff_core::ranked_latencies;
use bakeoff_core::read_write_split::{self, Side};
use bakeoff_core::record::Record;
use bakeoff_core::stats;
use bakeoff_core::study::{Clusters, Load, Operation, Study, System, Workload};
use bakeoff_core::units::duration_text;

use crate::model::contender::{Contender, contender};
use crate::model::guarantees::BrokenGuarantees;
use crate::model::quantity::{Point, Quantity};

/// All systems under one workload and load.
#[derive(Debug, Clone)]
pub(crate) struct Contest {
    pub(crate) workload: Workload,
    pub(crate) load: Load,
    pub(crate) contenders: Vec<Contender>,
    /// Systems whose trials all ran on the same servers: kept ones, or endpoints.
    same_servers: Vec<String>,
}

impl Contest {
    /// Returns every workload under each of its loads, in the study's order.
    pub(crate) fn all(record: &Record) -> Vec<Self> {
        let study = &record.header.study;
        let mut all = Vec::new();
        for workload in &study.workloads {
            for load in study.loads.iter().filter(|load| workload.loads.contains(&load.name)) {
                let systems = study.systems.iter().enumerate();
                let put_to_it = systems.filter(|(_, system)| workload.is_done_by(system));
                let one = Self {
                    contenders: put_to_it
                        .map(|(look, system)| contender(record, &system.name, look, workload, load))
                        .collect(),
                    workload: workload.clone(),
                    load: load.clone(),
                    same_servers: same_servers(study, workload),
                };
                all.push(one);
            }
        }
        all
    }

    /// Returns the guarantees that systems broke, each once, in the study's order.
    pub(crate) fn violations<'a>(all: impl Iterator<Item = &'a Self>) -> Vec<&'a BrokenGuarantees> {
        let contenders = all.flat_map(|one| &one.contenders);
        let mut found: Vec<(usize, &BrokenGuarantees)> =
            contenders.filter_map(|one| Some((one.look, one.broken.as_ref()?))).collect();
        found.sort_by_key(|(look, _)| *look);
        found.dedup_by_key(|(look, _)| *look);
        found.into_iter().map(|(_, one)| one).collect()
    }

    /// Returns a sentence for each system that broke a guarantee, without a full stop.
    pub(crate) fn broken_guarantees<'a>(all: impl Iterator<Item = &'a Self>) -> Vec<String> {
        Self::violations(all).into_iter().filter_map(BrokenGuarantees::sentence).collect()
    }

    /// Returns `create/steady`.
    pub(crate) fn place(&self) -> String {
        format!("{}/{}", self.workload.name, self.load.name)
    }

    /// Returns the kind of load: `closed load, 64 clients`. A load of new servers that may not be warm says so.
    pub(crate) fn load_text(&self) -> String {
        let text = plan::load_text(&self.load);
        match plan::measured_start(&self.load).filter(|_| self.same_servers.is_empty()) {
            Some(first) => format!("{text}, the first {} after a start", duration_text(first)),
            None => text,
        }
    }

    /// Returns `create/steady (closed load, 64 clients)`.
    pub(crate) fn place_and_load(&self) -> String {
        format!("{} ({})", self.place(), self.load_text())
    }

    /// Returns the highest percentile that every valid trial of every system supports: p99, or a lower one with fewer
    /// operations. It depends on the number of operations and never on their latencies.
    pub(crate) fn tail(&self, stage: Option<usize>) -> Point {
        let fewest = self.contenders.iter().filter_map(|one| one.operations_min(stage)).min();
        let name = fewest.map_or("p99", |operations| ranked_latencies::tail(operations).0);
        Point::ALL.into_iter().find(|point| point.name() == name).unwrap_or(Point::P99)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.load.arrivals.rate().is_some()
    }

    /// Returns the quantity that its systems are compared by.
    pub(crate) fn compared(&self) -> Quantity {
        match self.load.find {
            Some(_) => Quantity::HighestRate,
            None if self.is_split() => Quantity::ThroughputOf(Side::Writes),
            None => Quantity::ThroughputMean,
        }
    }

    /// Returns true if writes and reads are two loads, each at its own speed.
    pub(crate) fn is_split(&self) -> bool {
        read_write_split::is_split(&self.workload, &self.load)
    }

    /// Returns `puts` if clients do nothing else, or `operations`.
    pub(crate) fn counted(&self) -> &'static str {
        match self.workload.mix.keys().collect::<Vec<_>>().as_slice() {
            [Operation::Put] => "puts",
            [Operation::Get] => "gets",
            [Operation::Delete] => "deletes",
            [Operation::List] => "lists",
            _ => "operations",
        }
    }

    /// Returns a clause about systems whose trials share servers. Such trials repeat properties of these servers:
    /// placement, layout of the data, choices made at their start.
    pub(crate) fn of_these_servers(&self) -> Option<String> {
        let names: Vec<&str> = self.same_servers.iter().map(String::as_str).collect();
        match names[..] {
            [] => None,
            [name] => Some(format!(
                "all trials of {name} ran on the same servers: its figures describe these servers and may not \
                 represent the product"
            )),
            _ => Some(format!(
                "each of {} ran all its trials on the same servers: the figures describe these servers and may \
                 not represent the products",
                stats::and(&names)
            )),
        }
    }

    /// Returns true if any trial ran.
    pub(crate) fn was_run(&self) -> bool {
        self.contenders.iter().any(|one| !one.trials.is_empty())
    }

    /// Returns true if a trial had watchers.
    pub(crate) fn is_watched(&self) -> bool {
        let trials = self.contenders.iter().flat_map(|one| &one.trials);
        trials.into_iter().any(|trial| trial.verdicts.watches.is_some())
    }

    /// Returns true if clients read.
    pub(crate) fn reads(&self) -> bool {
        self.workload.reads_any()
    }

    /// Returns true if clients write, so audits are possible.
    pub(crate) fn writes(&self) -> bool {
        self.workload.writes()
    }
}

/// Returns the systems whose trials all share the same servers.
fn same_servers(study: &Study, workload: &Workload) -> Vec<String> {
    let put_to_it = study.systems.iter().filter(|system| workload.is_done_by(system));
    let same = |system: &&System| !system.is_started() || study.clusters == Clusters::Kept;
    put_to_it.filter(same).map(|system| system.name.clone()).collect()
}
