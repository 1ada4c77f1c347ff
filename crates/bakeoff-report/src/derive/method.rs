//! Assesses which published rules for measurements a run meets.
//!
//! Twelve papers, rule books and tools define rules for performance measurements. The table of how bakeoff meets each
//! is here and in `docs/evidence/demands.md`, and a test keeps both equal. Whether a run meets a rule is computed from
//! its record, because a study may use closed loads, one trial or a running cluster.
//!
//! Not here: the checks (`check`), tests of samples (`stats::samples`).

use bakeoff_core::check::{AuditSubject, CheckName, Verdict};
use bakeoff_core::ranked_latencies::RankedLatencies;
use bakeoff_core::record::{Record, StageRecord, TrialRecord};
use bakeoff_core::repeat::follows_plan;
use bakeoff_core::stats::samples::{
    ANDERSON_DARLING_MAX, GAPS_MIN, SECONDS_MIN, anderson_darling, quantile_interval,
};
use bakeoff_core::stats::{TRIALS_MIN, and};
use bakeoff_core::study::{Arrivals, Clusters, Load, Stop};
use bakeoff_core::units::{
    count_text, duration_text, figure_text, latency_text, plural, share_text, trials_text,
};

use crate::derive::fairness::{Sheet, Weight};

/// Window in seconds that MLPerf Inference demands in its server scenario since version 2.
const MLPERF_SECONDS: f64 = 600.0;
/// Shortest window in seconds and fewest operations of any serious measurement.
const LEAST: (f64, u64) = (5.0, 1000);
/// Quantile whose intervals are reported.
const QUANTILE: f64 = 0.99;

/// One published rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// Source: `Tene, How NOT to Measure Latency`.
    pub by: &'static str,
    /// Demand of the source.
    pub asks: &'static str,
    /// How bakeoff meets it.
    pub does: &'static str,
    /// Check of a run, or test, that shows it.
    pub shown_by: &'static str,
    /// Remaining gap in bakeoff.
    pub lacks: &'static str,
}

/// Whether a run meets a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compliance {
    /// Met.
    Yes,
    /// Met in part.
    InPart,
    /// Not met.
    No,
    /// Does not apply to this run.
    NotAsked,
}

impl Compliance {
    /// Returns the text for tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "met",
            Self::InPart => "in part",
            Self::No => "not met",
            Self::NotAsked => "not asked",
        }
    }
}

/// Assessment of one rule for one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// Rule.
    pub demand: &'static Demand,
    /// Result.
    pub met: Compliance,
    /// Evidence in the record.
    pub why: String,
}

/// The rules, in the order of the table.
pub const DEMANDS: [Demand; 12] = [
    Demand {
        by: "Tene, How NOT to Measure Latency (2013)",
        asks: "no coordinated omission: count from the moment a request was due, and leave none out",
        does: "open loads: response time from due to done; waiting counts, and failed or dropped operations rank last",
        shown_by: "`schedule`, `timers`; `tests/commands/precision.rs` stops a server for a second",
        lacks: "closed loads show a stall to as many operations as there are clients",
    },
    Demand {
        by: "Schroeder, Wierman and Harchol-Balter, Open Versus Closed (NSDI 2006)",
        asks: "choose an open, closed or partly open load on purpose, and say which",
        does: "both kinds; every table and sentence names its load's",
        shown_by: "snapshots of reports",
        lacks: "no partly open load: sessions that arrive and then work closed",
    },
    Demand {
        by: "Mytkowicz and others, Producing Wrong Data (ASPLOS 2009)",
        asks: "vary what ought not to matter: environment, layout, order",
        does: "servers have a bare environment, padded by another length each round; the order in each round and the pauses are random",
        shown_by: "unit tests of `composition` and `plan`; the test for an effect of position",
        lacks: "lengths of paths and addresses of code are not varied",
    },
    Demand {
        by: "Zhang and others, Treadmill (ISCA 2016)",
        asks: "open arrivals, no queue in the client, servers restarted for each repetition, no pooled percentiles",
        does: "fresh clusters each trial; each trial's percentile is its own, and trials are combined by their median",
        shown_by: "`generator`, `schedule`; `cargo xtask calibrate`",
        lacks: "without `--on`, one machine generates the load",
    },
    Demand {
        by: "Kogias and others, Lancet (ATC 2019)",
        asks: "test your own samples: gaps as requested, independence, intervals of each quantile",
        does: "Anderson–Darling on the first 1,000 gaps of Poisson loads, Spearman between seconds, intervals over seconds",
        shown_by: "`stats::samples`; `bakeoff report RUN --method`",
        lacks: "a failed test is reported but does not extend the load",
    },
    Demand {
        by: "Raasveldt and others, Fair Benchmarking Considered Difficult (DBTest 2018)",
        asks: "equal work, right answers, equal tuning, everything that reproduces it",
        does: "the same requests for all, every answer verified, defaults kept, differences weighed on a fairness sheet",
        shown_by: "`answers`, `errors`, audits; the fairness sheet",
        lacks: "no expert of each system tuned it",
    },
    Demand {
        by: "SPEC and TPC, full disclosure reports",
        asks: "hardware, software, versions and every setting, so that anyone can check",
        does: "machine, kernel, disk, versions, SHA-256 of programs, settings with reasons, seeds and histograms in the record",
        shown_by: "`docs/record-format.md`; the tests that read old records",
        lacks: "no price, no auditor",
    },
    Demand {
        by: "MLPerf Inference",
        asks: "a least duration and a least number of requests for each percentile",
        does: "a percentile p needs 10/(1-p) operations to be shown or judged; objectives that cannot reach it are refused",
        shown_by: "tests of studies and reports; this run's shortest window",
        lacks: "no shipped study runs for its 600 s",
    },
    Demand {
        by: "ClickBench",
        asks: "one command repeats it on any machine; cold and warm are separate; raw results are there",
        does: "`bakeoff run STUDY --seed N`; fill, warm-up and load are separate phases; the record is the raw result",
        shown_by: "CI runs the shipped studies' systems from a clean checkout",
        lacks: "caches of the kernel are not dropped",
    },
    Demand {
        by: "Kasture and Sanchez, TailBench (IISWC 2016)",
        asks: "know what the harness itself adds: measure it, and load over a network too",
        does: "loopback and disk measured before and between trials; schedule lag and receive lag recorded",
        shown_by: "`generator`, `receive lag`; the machine baseline",
        lacks: "without `--on`, generator and servers share a machine",
    },
    Demand {
        by: "criterion.rs",
        asks: "warm up, sample enough, show intervals, call no change that is within noise",
        does: "warm-up by default, a check for a steady state, intervals corrected over the whole report",
        shown_by: "`stationary`; `tests/statistics/calibration.rs`",
        lacks: "outliers are kept and not classified",
    },
    Demand {
        by: "Jepsen",
        asks: "are acknowledged writes kept, and answers right, while things break?",
        does: "values verify themselves; acknowledged writes are read back after the load and after a kill of all nodes; \
               on request also after faults and simulated power cuts, with histories checked for linearizability",
        shown_by: "audits; the fault matrix",
        lacks: "no skewed clock",
    },
];

/// Assesses each rule, in the order of [`DEMANDS`].
pub fn answers(record: &Record, sheet: &Sheet) -> Vec<Assessment> {
    let run = Run { record, sheet };
    let found = [
        run.omission(),
        run.kind_of_load(),
        run.varied(),
        run.restarted(),
        run.own_samples(),
        run.fair(),
        run.disclosed(),
        run.long_enough(),
        run.repeatable(),
        run.harness(),
        run.steady(),
        run.safe(),
    ];
    let answer = |(demand, (met, why)): (&'static Demand, (Compliance, String))| Assessment {
        demand,
        met,
        why,
    };
    DEMANDS.iter().zip(found).map(answer).collect()
}

/// Returns a summary: `this run meets 8 of 12 published rules for measurements, and 3 in part`.
pub(crate) fn summary(answers: &[Assessment]) -> String {
    let count = |met: Compliance| answers.iter().filter(|answer| answer.met == met).count();
    let part = match count(Compliance::InPart) {
        0 => String::new(),
        some => format!(", and {some} in part"),
    };
    format!(
        "method: this run meets {} of {} published rules for measurements{part}; see `bakeoff report RUN \
         --method`",
        count(Compliance::Yes),
        answers.len()
    )
}

struct Run<'a> {
    record: &'a Record,
    sheet: &'a Sheet,
}

/// Counts of a check's verdicts over all trials.
struct VerdictCounts {
    passed: usize,
    failed: usize,
}

impl VerdictCounts {
    /// Returns true if the check passed at least once and never failed.
    fn holds(&self) -> bool {
        self.passed > 0 && self.failed == 0
    }
}

impl Run<'_> {
    fn valid(&self) -> impl Iterator<Item = &TrialRecord> {
        self.record.trials.iter().filter(|trial| trial.invalid_because().is_empty())
    }

    fn stages(&self) -> impl Iterator<Item = &StageRecord> {
        self.valid().flat_map(TrialRecord::figured)
    }

    fn checked(&self, name: CheckName) -> VerdictCounts {
        let all = || self.record.trials.iter().flat_map(|trial| &trial.checks);
        let count = |of: fn(&Verdict) -> bool| {
            all().filter(|check| check.name == name && of(&check.verdict)).count()
        };
        VerdictCounts { passed: count(Verdict::passed), failed: count(Verdict::failed) }
    }

    /// Returns the loads that some workload runs under.
    fn loads(&self) -> Vec<&Load> {
        let study = &self.record.header.study;
        let used = |load: &&Load| study.workloads.iter().any(|of| of.loads.contains(&load.name));
        study.loads.iter().filter(used).collect()
    }

    fn omission(&self) -> (Compliance, String) {
        let loads = self.loads();
        let open = loads.iter().filter(|load| is_open(load)).count();
        if open == 0 {
            return (
                Compliance::InPart,
                "all loads are closed: few operations feel a stall".to_owned(),
            );
        }
        let late = self
            .stages()
            .filter_map(|stage| stage.measurement.schedule_lag.quantile(QUANTILE))
            .max();
        let late = late.map_or(String::new(), |late| {
            format!("; 99 % of operations went out at most {} late", latency_text(late))
        });
        let loads = format!("{open} of {} are open{late}", plural(loads.len() as u64, "load"));
        match self.checked(CheckName::Schedule) {
            VerdictCounts { failed: 0, .. } => (Compliance::Yes, loads),
            VerdictCounts { failed, .. } => (
                Compliance::InPart,
                format!("{loads}; {} fell behind schedule", trials_text(failed)),
            ),
        }
    }

    fn kind_of_load(&self) -> (Compliance, String) {
        let (open, closed): (Vec<&Load>, Vec<&Load>) =
            self.loads().into_iter().partition(|load| is_open(load));
        let names = |of: &[&Load]| and(&of.iter().map(|load| &load.name).collect::<Vec<_>>());
        let text = [("closed", closed), ("open", open)]
            .iter()
            .filter(|(_, loads)| !loads.is_empty())
            .map(|(kind, loads)| format!("{kind}: {}", names(loads)))
            .collect::<Vec<_>>();
        (Compliance::Yes, text.join("; "))
    }

    fn varied(&self) -> (Compliance, String) {
        let header = &self.record.header;
        let study = &header.study;
        if !study.starts_any() {
            return (
                Compliance::No,
                "the servers ran already and were not started by bakeoff".to_owned(),
            );
        }
        if study.trials < 2 {
            return (Compliance::No, "one round: nothing was varied".to_owned());
        }
        let drawn = follows_plan(self.record);
        let met = if drawn { Compliance::Yes } else { Compliance::InPart };
        let order = match drawn {
            true => "the seed drew each round's order",
            false => "the seed did not draw the order",
        };
        (met, format!("{} rounds; {order}; environments were padded differently", study.trials))
    }

    fn restarted(&self) -> (Compliance, String) {
        let study = &self.record.header.study;
        let trials = trials_text(study.trials as usize);
        if (study.trials as usize) < TRIALS_MIN {
            return (Compliance::No, format!("{trials} of each system"));
        }
        let running = self.record.header.systems.iter().any(|system| system.already_running);
        if running || study.clusters == Clusters::Kept {
            let why = "on servers that were not restarted, so all share one process's luck";
            return (Compliance::InPart, format!("{trials} of each system, {why}"));
        }
        let open = self.loads().into_iter().any(is_open);
        let closed = if open { "" } else { "; closed loads only" };
        let met = if open { Compliance::Yes } else { Compliance::InPart };
        (met, format!("{trials} of each system, each on its own servers{closed}"))
    }

    fn own_samples(&self) -> (Compliance, String) {
        let mut text = Vec::new();
        let mut fails = false;
        let sampled: Vec<f64> = self.stages().filter_map(gaps_statistic).collect();
        let poisson =
            self.loads().iter().any(|load| matches!(load.arrivals, Arrivals::Poisson { .. }));
        match (sampled.iter().copied().reduce(f64::max), poisson) {
            (Some(worst), _) => {
                let refused = sampled.iter().filter(|&&one| one > ANDERSON_DARLING_MAX).count();
                // About one in a hundred is rejected by chance.
                fails |= refused > 1 + sampled.len() / 50;
                text.push(format!(
                    "gaps: Anderson–Darling at most {} in {} (1 % lie above {ANDERSON_DARLING_MAX})",
                    figure_text(worst),
                    plural(sampled.len() as u64, "stage"),
                ));
            }
            (None, true) => {
                fails = true;
                text.push(format!("no stage has {GAPS_MIN} gaps to test"));
            }
            (None, false) => text.push("no Poisson load with gaps to test".to_owned()),
        }
        let intervals: Vec<(f64, bool)> = self.stages().filter_map(interval_of_p99).collect();
        let widest = intervals.iter().map(|&(width, _)| width).reduce(f64::max);
        match widest {
            Some(widest) => {
                let dependent = intervals.iter().filter(|(_, dependent)| *dependent).count();
                fails |= dependent > 1 + intervals.len() / 50;
                text.push(format!(
                    "p99 of each trial known to within {} or better; seconds depend on each other in {dependent} \
                     of {}",
                    share_text(widest),
                    plural(intervals.len() as u64, "stage")
                ));
            }
            None => {
                fails = true;
                text.push(format!("no stage has {SECONDS_MIN} seconds for an interval of its p99"));
            }
        }
        (if fails { Compliance::InPart } else { Compliance::Yes }, text.join("; "))
    }

    fn fair(&self) -> (Compliance, String) {
        let verified: u64 = self.stages().map(|stage| stage.measurement.verified()).sum();
        let answers = self.checked(CheckName::Answers);
        let decide = self.sheet.rows.iter().filter(|row| row.weight == Weight::Decides).count();
        let text = format!("{} answers verified", count_text(verified));
        if verified == 0 || answers.failed > 0 {
            return (
                Compliance::No,
                format!("{text}; wrong or stale ones in {}", trials_text(answers.failed)),
            );
        }
        match decide {
            0 => (
                Compliance::Yes,
                format!("{text}; no difference that may decide besides the product"),
            ),
            some => (
                Compliance::InPart,
                format!(
                    "{text}; {} that may decide: see the fairness sheet",
                    plural(some as u64, "difference")
                ),
            ),
        }
    }

    fn disclosed(&self) -> (Compliance, String) {
        let header = &self.record.header;
        let machine = &header.environment;
        let unknown: Vec<&str> = header
            .systems
            .iter()
            .filter(|system| system.version.is_none() || system.sha256.is_none())
            .map(|system| system.name.as_str())
            .collect();
        if !unknown.is_empty() {
            return (
                Compliance::InPart,
                format!("version or SHA-256 unknown for {}", and(&unknown)),
            );
        }
        let known = !machine.kernel.is_empty() && !machine.cpu_model.is_empty();
        let settings: usize = header.systems.iter().map(|system| system.settings.len()).sum();
        let text = format!(
            "machine, {} and {} in the record",
            plural(header.systems.len() as u64, "program"),
            plural(settings as u64, "setting")
        );
        (if known { Compliance::Yes } else { Compliance::InPart }, text)
    }

    fn long_enough(&self) -> (Compliance, String) {
        let windows = self.stages().map(|stage| stage.measurement.window);
        let counts = self.stages().map(|stage| {
            let measured = &stage.measurement;
            measured.verified() + measured.error_count()
        });
        let (Some(window), Some(count)) = (windows.min(), counts.min()) else {
            return (Compliance::No, "nothing was measured".to_owned());
        };
        let seconds = window.as_secs_f64();
        let met = match () {
            () if seconds >= MLPERF_SECONDS && count >= LEAST.1 => Compliance::Yes,
            () if seconds >= LEAST.0 && count >= LEAST.1 => Compliance::InPart,
            () => Compliance::No,
        };
        // Converts the window to whole milliseconds for its text.
        let window = duration_text(std::time::Duration::from_millis((seconds * 1e3) as u64));
        let why =
            format!("the shortest window is {window}, the fewest operations {}", count_text(count));
        (met, why)
    }

    fn repeatable(&self) -> (Compliance, String) {
        let header = &self.record.header;
        let again = format!("`{}`", header.repeat_command());
        match self.record.is_complete() {
            true => (Compliance::Yes, format!("{again} repeats it")),
            false => {
                (Compliance::InPart, format!("{again} would repeat it, but the run is incomplete"))
            }
        }
    }

    fn harness(&self) -> (Compliance, String) {
        let environment = &self.record.header.environment;
        let generator = self.checked(CheckName::Generator);
        let lag = self.checked(CheckName::ReceiveLag);
        if environment.machine_baseline.is_none() {
            return (Compliance::No, "no machine baseline was measured".to_owned());
        }
        if generator.failed + lag.failed > 0 {
            let failed = trials_text(generator.failed.max(lag.failed));
            return (Compliance::InPart, format!("the generator limited {failed}"));
        }
        match environment.shared_with_servers {
            true => (
                Compliance::InPart,
                "machine baseline measured; generator and servers share the machine".to_owned(),
            ),
            false => (
                Compliance::Yes,
                "machine baseline measured; the generator had its own machine".to_owned(),
            ),
        }
    }

    fn steady(&self) -> (Compliance, String) {
        let cold = |load: &&&Load| load.warmup.is_zero() && matches!(load.stop, Stop::After(_));
        let loads = self.loads();
        let cold: Vec<&String> = loads.iter().filter(cold).map(|load| &load.name).collect();
        if !cold.is_empty() {
            return (Compliance::InPart, format!("no warm-up in {}", and(&cold)));
        }
        let stationary = self.checked(CheckName::Stationary);
        let trials = self.record.header.study.trials as usize;
        let text = format!("warmed up; {} of each system", trials_text(trials));
        match () {
            () if trials < TRIALS_MIN => {
                (Compliance::InPart, format!("{text}: too few for an interval"))
            }
            () if stationary.failed > 0 => (
                Compliance::InPart,
                format!("{text}; {} not stationary", trials_text(stationary.failed)),
            ),
            () if !stationary.holds() => {
                (Compliance::InPart, format!("{text}; no check for a steady state"))
            }
            () => (Compliance::Yes, text),
        }
    }

    fn safe(&self) -> (Compliance, String) {
        if !self.record.header.study.workloads.iter().any(bakeoff_core::study::Workload::writes) {
            return (Compliance::NotAsked, "nothing was written that could be lost".to_owned());
        }
        let audits = || self.record.trials.iter().flat_map(|trial| &trial.audits);
        let writes = || audits().filter(|audit| audit.of == AuditSubject::Writes);
        let made = writes().filter(|a| !matches!(a.verdict, Verdict::NotChecked(_))).count();
        let failed = writes().filter(|audit| audit.verdict.failed()).count();
        match made {
            0 => (Compliance::No, "no acknowledged write was read back".to_owned()),
            made => (
                Compliance::InPart,
                format!(
                    "{} of acknowledged writes, {failed} of them failed",
                    plural(made as u64, "audit")
                ),
            ),
        }
    }
}

fn is_open(load: &Load) -> bool {
    load.arrivals.rate().is_some()
}

/// Returns the Anderson–Darling statistic of a stage's gaps, if it has enough of them.
fn gaps_statistic(stage: &StageRecord) -> Option<f64> {
    let sent = &stage.measurement.sent;
    let gaps: Vec<f64> =
        sent.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64).collect();
    anderson_darling(&gaps)
}

/// Returns half the width of the interval of a stage's p99, as a share of the p99, and whether its seconds depend on
/// each other. `None` without an interval: the p99 is undefined if 1 % of a stage's operations failed.
fn interval_of_p99(stage: &StageRecord) -> Option<(f64, bool)> {
    let seconds: Vec<RankedLatencies<'_>> = stage
        .measurement
        .seconds
        .iter()
        .map(|second| Some(second.responses().ok()?.packed()))
        .collect::<Option<_>>()?;
    let interval = quantile_interval(&seconds, QUANTILE)?;
    let (low, high) = (interval.low.as_secs_f64(), interval.high.as_secs_f64());
    let width = if high > 0.0 { (high - low) / (high + low) } else { 0.0 };
    Some((width, interval.is_dependent(seconds.len())))
}

/// Returns the table of `docs/evidence/demands.md`.
#[cfg(test)]
fn table() -> String {
    let row = |one: &Demand| {
        format!("| {} | {} | {} | {} | {} |\n", one.by, one.asks, one.does, one.shown_by, one.lacks)
    };
    let head = "| source | rule | what bakeoff does | evidence | missing |\n";
    let rows: String = DEMANDS.iter().map(row).collect();
    format!("{head}| --- | --- | --- | --- | --- |\n{rows}")
}

#[cfg(test)]
mod tests;
