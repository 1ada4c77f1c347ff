//! The parts of a report that are words: what was asked, on what, of whom, and what was checked.
//!
//! Not here: tables (`tables`), the sentence (`stats`).

use std::time::Duration;

use bakeoff_core::check::{Audit, Audited, Verdict};
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::plan;
use bakeoff_core::record::{Environment, PartRecord, Setting, SystemRecord};
use bakeoff_core::search;
use bakeoff_core::stats::{Figure, and};
use bakeoff_core::study::{
    Arrivals, KeyOrder, Load, Operation, Routing, Stop, Study, System, Targets,
};
use bakeoff_core::units::{
    ByteCount, count_text, duration_text, latency_text, plural, rate_text, trials_text,
};

use crate::Report;
use crate::derive::comparison::Comparison;
use crate::derive::fairness::{Row, Sheet};
use crate::derive::judgement::{JudgedAs, Judgement};
use crate::model::contender::{Contender, not_checked};
use crate::model::figures::{Point, Quantity};
use crate::model::trial::TrialFigures;

/// How many texts of errors are shown for each system.
const TEXTS_SHOWN: usize = 5;
/// How many digits of a SHA-256 are shown to people.
const SHA_SHOWN: usize = 12;

/// `scaled to 0.01 of the study's`; `None` for a study as it stands.
pub(crate) fn scale(study: &Study) -> Option<String> {
    ((study.scale - 1.0).abs() > 1e-9)
        .then(|| format!("scaled to {} of the study's", scale_number(study)))
}

/// The scale without the noise of binary fractions.
fn scale_number(study: &Study) -> String {
    let text = format!("{:.9}", study.scale);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The title, and what kind of shadow of the study this is.
pub(crate) fn title(study: &Study) -> String {
    match scale(study) {
        Some(scale) => format!("{} ({scale} counts)", study.title),
        None => study.title.clone(),
    }
}

/// What was found, a paragraph for each workload and load.
pub(crate) fn found(study: &Study, sentences: &[String]) -> Vec<String> {
    let scale = scale(study).map(|scale| format!("With counts {scale}:"));
    let nothing = sentences.is_empty().then(|| "nothing was measured.".to_owned());
    let sentences = sentences.iter().map(|one| format!("{one}."));
    scale.into_iter().chain(nothing).chain(sentences).collect()
}

/// Returns the run in a sentence.
pub(crate) fn summary(report: &Report) -> String {
    let found = report.summary.as_deref().unwrap_or("nothing was measured");
    match scale(&report.header.study) {
        Some(scale) => format!("With counts {scale}: {found}."),
        None => format!("{found}."),
    }
}

/// Returns how many workloads and loads have something judged: each is a family of comparisons.
pub(crate) fn families(of: &[Comparison]) -> usize {
    let judged = |one: &&Comparison| one.judgements.iter().any(|judged| judged.answer.is_some());
    of.iter().filter(judged).count()
}

/// Over how many families claims were drawn, and which hold for all together; `None` for one family,
/// and where nothing is claimed.
pub(crate) fn together(of: &[Comparison]) -> Option<String> {
    let families = families(of);
    let judgements = |one: &Comparison| -> Vec<bool> {
        one.judgements.iter().filter_map(|judged| judged.in_report).collect()
    };
    let claims: usize = of.iter().map(|one| judgements(one).len()).sum();
    if families < 2 || claims == 0 {
        return None;
    }
    let alone: Vec<String> =
        of.iter().filter(|one| judgements(one).contains(&false)).map(|one| one.place()).collect();
    let over = format!("over {families} workloads and loads");
    Some(match alone.as_slice() {
        [] => format!("drawn {over}; the leading claims hold at 5 % for all of them together"),
        alone => format!(
            "drawn {over}; a leading claim under {} holds at 5 % taken by itself, and not for all of \
             them together",
            and(alone)
        ),
    })
}

/// When, by what, from which seed.
pub(crate) fn provenance(report: &Report) -> String {
    let header = &report.header;
    let ended = report.ended.as_ref().map_or(String::new(), |ended| format!(" to {ended}"));
    format!(
        "study {}, {}{ended}, bakeoff {}, seed {}",
        header.study.name, header.started, header.bakeoff, header.seed
    )
}

/// The machine in a line.
pub(crate) fn machine(of: &Environment) -> String {
    let mut parts = vec![
        of.cpu_model.clone(),
        if of.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", of.cpus) },
        format!("{} memory", ByteCount(of.memory_bytes)),
        of.kernel.clone(),
        of.file_system.clone(),
    ];
    parts.push(match (of.disk_sync_median_us, of.disk_sync_p99_us) {
        (None, _) => "time to sync 1 KiB to disk not measured".to_owned(),
        (Some(median), p99) => {
            let p99 = p99.map_or(String::new(), |p99| format!(" (p99 {})", micros(p99)));
            format!("1 KiB synced to disk in {}{p99}", micros(median))
        }
    });
    parts.push(match of.generator_threads {
        1 => "1 generator thread".to_owned(),
        threads => format!("{threads} generator threads"),
    });
    if of.shared_with_servers {
        parts.push("generator and servers share the CPUs".to_owned());
    }
    if of.shared_machine {
        parts.push("others worked on the machine, as bakeoff was told".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

fn micros(micros: f64) -> String {
    Duration::try_from_secs_f64(micros / 1e6).map_or_else(|_| "–".to_owned(), latency_text)
}

/// A system in a line, and what is to be known of it and of its parts.
pub(crate) fn system(of: &SystemRecord) -> (String, Vec<String>) {
    let guarantees = [
        ("replication", &of.guarantees.replication),
        ("acknowledged", &of.guarantees.acknowledged),
        ("reads", &of.guarantees.reads),
    ];
    let wording =
        |text: &str| if text.is_empty() { "not said".to_owned() } else { text.to_owned() };
    let mut lines: Vec<String> =
        guarantees.iter().map(|(name, text)| format!("{name}: {}", wording(text))).collect();
    lines.extend(of.settings.iter().map(setting));
    lines.extend(of.between.iter().map(|between| format!("between its parts: {between}")));
    for PartRecord { role, part } in &of.parts {
        lines.push(format!("{role}: {}", product(part)));
        lines.extend(part.settings.iter().map(|set| format!("{role}: {}", setting(set))));
    }
    (format!("{}: {}", of.name, product(of)), lines)
}

fn setting(set: &Setting) -> String {
    let reason = if set.reason.is_empty() { "no reason given" } else { &set.reason };
    format!("set {} = {}: {reason}", set.name, set.value)
}

/// `etcd 3.4.23, 3 nodes, Debian package etcd-server 3.4.23+dfsg-4, sha256 2f1f68a05e52…`.
fn product(of: &SystemRecord) -> String {
    let version = of.version.as_deref().unwrap_or("of unknown version");
    let nodes = if of.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", of.nodes) };
    let mut parts = vec![format!("{} {version}", of.kind), nodes];
    if of.already_running {
        parts.push("already running, not started by bakeoff".to_owned());
    }
    parts.extend(of.source.clone());
    parts.extend(of.date.as_ref().map(|date| format!("dated {date}")));
    if let Some(sha256) = &of.sha256 {
        let prefix: String = sha256.chars().take(SHA_SHOWN).collect();
        parts.push(format!("sha256 {prefix}…"));
    }
    parts.join(", ")
}

/// So long the cell of a fact may be in a line; settings may be thousands of characters.
const FACT_MAX: usize = 120;

/// Returns the beginning of a text that is too long for a line, cut between its parts.
pub(crate) fn brief(text: &str) -> Option<String> {
    let (end, _) = text.char_indices().nth(FACT_MAX)?;
    let part = text[..end].rfind([',', ';']).unwrap_or(end);
    Some(format!("{}, …", &text[..part]))
}

/// `transport: etcd: TLS 1.3; zookeeper: plain TCP`.
pub(crate) fn fairness_row(row: &Row, systems: &[String]) -> String {
    let groups = row.groups(systems);
    let cells: Vec<String> =
        groups.iter().map(|(cell, names)| format!("{}: {}", and(names), in_brief(cell))).collect();
    format!("{}: {}", row.what, cells.join("; "))
}

fn in_brief(cell: &str) -> String {
    brief(cell).unwrap_or_else(|| cell.to_owned())
}

/// All in which the contenders do not differ in one line, and what is not known in another.
pub(crate) fn fairness_rest(sheet: &Sheet) -> Vec<String> {
    let same = sheet.same().map(|row| match row.groups(&sheet.systems).first() {
        Some((cell, _)) => format!("{} ({})", row.what, in_brief(cell)),
        None => row.what.clone(),
    });
    let (same, unknown): (Vec<String>, Vec<String>) =
        (same.collect(), sheet.unknown().map(|row| row.what.clone()).collect());
    [("the same for all", same), ("not known", unknown)]
        .into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(what, rows)| format!("{what}: {}", rows.join("; ")))
        .collect()
}

/// `create under sweep: closed load, 1 to 1000 clients, 1,000,000 operations`.
pub(crate) fn heading(study: &Study, of: &Comparison) -> String {
    let scaled =
        scale(study).map_or(String::new(), |_| format!(" (scaled to {})", scale_number(study)));
    format!("{} under {}{scaled}: {}", of.workload.name, of.load.name, load(study, &of.load))
}

fn load(study: &Study, load: &Load) -> String {
    let mut parts = vec![format!("{} load", plan::load_kind(load))];
    if let (Some(find), Some(first)) = (&load.find, load.arrivals.rate()) {
        let (objective, first) = (find.text(), rate_text(first));
        parts.push(format!(
            "the highest rate looked for that keeps {objective}, beginning at {first}"
        ));
        if let Stop::After(time) = load.stop {
            let most = duration_text(search::longest(time, load.warmup));
            parts.push(format!("at most {most} for all tries"));
        }
    }
    match load.arrivals {
        Arrivals::Closed => {}
        Arrivals::Constant { .. } if load.find.is_some() => {
            parts.push("at equal distances".to_owned())
        }
        Arrivals::Poisson { .. } if load.find.is_some() => {
            parts.push("with Poisson arrivals".to_owned())
        }
        Arrivals::Constant { rate } => {
            parts.push(format!("{} at equal distances", rate_text(rate)))
        }
        Arrivals::Poisson { rate } => {
            parts.push(format!("{} with Poisson arrivals", rate_text(rate)))
        }
    }
    // What a system has of its own is said where it differs.
    let own = |system: &&System| load.clients_on(&system.name) != load.clients.as_slice();
    let (own, general): (Vec<&System>, Vec<&System>) = study.systems.iter().partition(own);
    if !general.is_empty() {
        parts.push(clients(&load.clients));
    }
    parts.extend(
        own.iter().map(|one| format!("{} for {}", clients(load.clients_on(&one.name)), one.name)),
    );
    if load.in_flight > 1 {
        parts.push(format!("{} operations in flight each", load.in_flight));
    }
    parts.push(match load.stop {
        Stop::After(time) => duration_text(time),
        Stop::Operations(1) => "1 operation".to_owned(),
        Stop::Operations(count) => format!("{} operations", count_text(count)),
    });
    parts.join(", ")
}

fn clients(stages: &[u32]) -> String {
    match stages {
        [1] => "1 client".to_owned(),
        [only] => format!("{only} clients"),
        stages => {
            let least = stages.iter().min().copied().unwrap_or_default();
            let most = stages.iter().max().copied().unwrap_or_default();
            format!("{least} to {most} clients")
        }
    }
}

/// What clients do, in a line.
pub(crate) fn workload(of: &Comparison) -> String {
    let (work, load) = (&of.workload, &of.load);
    let all: u64 = work.mix.values().map(|&weight| u64::from(weight)).sum();
    let share = |weight: u32| {
        let text = format!("{:.1}", f64::from(weight) * 100.0 / all.max(1) as f64);
        text.trim_end_matches(".0").to_owned()
    };
    let mix: Vec<String> = match work.mix.len() {
        1 => work.mix.keys().map(|op| op.name().to_owned()).collect(),
        _ => work.mix.iter().map(|(op, &weight)| format!("{} % {op}", share(weight))).collect(),
    };
    let order = match work.keys.order {
        KeyOrder::Sequential => "in sequence".to_owned(),
        KeyOrder::Unique => "each once".to_owned(),
        KeyOrder::Uniform => "uniformly chosen".to_owned(),
        KeyOrder::Zipfian { exponent } => format!("zipfian ({exponent})"),
        KeyOrder::Same => "always the first".to_owned(),
    };
    let keys = plural(work.keys.count, "key");
    let mut parts = vec![and(&mix)];
    let stored = work.mix.keys().any(|op| Operation::KEY_VALUE.contains(op));
    let texts = work.mix.keys().any(|op| op.takes_text());
    if stored {
        parts.push(format!("{keys} of {} B, {order}", work.keys.size));
    }
    if let Some(size) = work.value_size().map(ByteCount) {
        match (stored, texts) {
            (true, _) => parts.push(format!("values of {size}")),
            (false, true) => parts.push(format!("texts of {size}")),
            (false, false) => {}
        }
    }
    let with: Vec<String> =
        work.with.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if !with.is_empty() {
        parts.push(format!("with {}", with.join(", ")));
    }
    if of.reads() {
        parts.push(format!("{} reads", work.reads));
    }
    if work.fill {
        parts.push("all keys written beforehand".to_owned());
    }
    if !load.warmup.is_zero() {
        parts.push(format!("after {} of warm-up", duration_text(load.warmup)));
    }
    parts.push(format!("operations time out after {}", duration_text(load.timeout)));
    match load.targets {
        Routing::Same(Targets::All) => {}
        Routing::Same(Targets::Leader) => parts.push("sent to the leader only".to_owned()),
        Routing::Same(Targets::Followers) => parts.push("sent to the followers only".to_owned()),
        Routing::Split { writes, reads } => parts.push(format!(
            "writes sent to {} and reads to {}, by clients of their own",
            nodes_named(writes),
            nodes_named(reads)
        )),
    }
    if !load.keep_alive {
        parts.push("a new connection for each operation".to_owned());
    }
    parts.join("; ")
}

/// Nodes as a sentence names them.
fn nodes_named(targets: Targets) -> &'static str {
    match targets {
        Targets::All => "all nodes",
        Targets::Leader => "the leader",
        Targets::Followers => "the followers",
    }
}

/// Returns how the figures of the table came about; `None` for one trial each.
pub(crate) fn combination(of: &Comparison) -> Option<String> {
    let counts: Vec<usize> =
        of.contenders.iter().map(Contender::valid_count).filter(|&count| count > 0).collect();
    let (least, most) = (counts.iter().min()?, counts.iter().max()?);
    if *most < 2 {
        return None;
    }
    let trials = match least == most {
        true => trials_text(*most),
        false => format!("{least} to {most} valid trials"),
    };
    Some(format!("median of {trials}; errors and other mishaps: sum of all of them"))
}

/// Returns where the published figures come from; empty where there are none.
pub(crate) fn published(report: &Report, of: &Comparison) -> Vec<String> {
    if of.contenders.iter().all(|one| one.published.is_empty()) {
        return Vec::new();
    }
    let mut lines = vec![match &report.header.study.publication {
        None => "published figures: the study does not say where they come from".to_owned(),
        Some(from) => {
            let versions =
                from.versions.as_ref().map_or(String::new(), |versions| format!("; {versions}"));
            format!("published figures: {}, on {}{versions}", from.title, from.hardware)
        }
    }];
    if scale(&report.header.study).is_some() {
        lines.push("published figures are at the study's full counts".to_owned());
    }
    let notes = of.contenders.iter().filter(|one| !one.notes.is_empty());
    lines
        .extend(notes.map(|one| format!("published for {}: {}", one.system, one.notes.join("; "))));
    lines
}

/// Why there are no extremes of throughput.
pub(crate) fn seconds(of: &Comparison) -> Option<String> {
    let missing = |one: &Contender| {
        one.valid().any(|trial| trial.get(Quantity::ThroughputMax) == Figure::Absent)
    };
    of.contenders.iter().any(missing).then(|| {
        "throughput max and min are those of whole seconds, and are left out where the parts of \
         seconds at the ends of stages are more than a fifth of the measured time"
            .to_owned()
    })
}

/// What a reader must know of the latencies: where failures rank, and which percentiles had too few
/// operations.
pub(crate) fn latencies(of: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    let failing = |one: &&Contender| one.valid_count() > 0 && one.errors_worth_saying().is_some();
    let names: Vec<&str> =
        of.contenders.iter().filter(failing).map(|one| one.system.as_str()).collect();
    if !names.is_empty() {
        lines.push(format!(
            "latencies are those of all operations that were due: what failed of {} has no answer and \
             ranks last",
            and(&names)
        ));
    }
    for point in Point::ALL {
        let few = |one: &Contender| match one.shown(Quantity::Response(point)) {
            Figure::TooFew { had, needed } => {
                Some((needed, format!("{} {}", one.system, count_text(had))))
            }
            _ => None,
        };
        let few: Vec<(u64, String)> = of.contenders.iter().filter_map(few).collect();
        let Some((needed, _)) = few.first() else { continue };
        let (name, needed) = (point.name(), count_text(*needed));
        let had: Vec<&str> = few.iter().map(|(_, had)| had.as_str()).collect();
        let had = and(&had);
        lines.push(format!("{name} needs {needed} operations, and a trial had fewer: {had}"));
    }
    lines
}

/// The trials that are not used, with their reasons.
pub(crate) fn invalid(of: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for contender in &of.contenders {
        for trial in contender.trials.iter().filter(|trial| !trial.valid()) {
            let measured = if trial.interrupted { until_then(trial) } else { None };
            lines.push(format!(
                "not valid: trial {:02} ({}, round {}): {}{}",
                trial.number,
                contender.system,
                trial.round,
                trial.invalid_because.join("; "),
                measured.unwrap_or_default(),
            ));
        }
    }
    lines
}

/// What an interrupted trial had measured.
fn until_then(trial: &TrialFigures) -> Option<String> {
    let text = |quantity: Quantity| quantity.text(trial.get(quantity));
    trial.get(Quantity::Verified).value()?;
    let (verified, seconds) = (text(Quantity::Verified), text(Quantity::Seconds));
    Some(format!(" ({verified} operations verified in {seconds} s by then)"))
}

/// An audit that held in some trials, by what is told of it. Counts are those of single trials, the least
/// and the most; of passages they are sums.
#[derive(PartialEq)]
struct Held {
    of: Audited,
    read: (u64, u64),
    acknowledged: (u64, u64),
    /// Of how many of those that were read any loss would have been noticed; `None` where nobody counted.
    claimed: Option<(u64, u64)>,
    /// Clients that wrote while the nodes were killed, and writes acknowledged by then; `None` where
    /// they were killed at rest, in any of the trials, or not at all.
    under_load: Option<[(u64, u64); 2]>,
    /// Why they were killed at rest in any of the trials, where they were to be killed under load.
    at_rest: Option<String>,
    /// Whether nobody guaranteed it.
    unguaranteed: bool,
    trials: usize,
}

impl Held {
    fn sum(passed: &[&Audit]) -> Self {
        let of = passed[0].of;
        let told = |count: fn(&Audit) -> u64| match of {
            Audited::Writes => {
                let counts = || passed.iter().map(|audit| count(audit));
                (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
            }
            Audited::Passages => {
                let sum = passed.iter().map(|audit| count(audit)).sum();
                (sum, sum)
            }
        };
        let counted = passed.iter().all(|audit| audit.claimed.is_some());
        Self {
            of,
            read: told(|audit| audit.read),
            acknowledged: told(|audit| audit.acknowledged),
            claimed: counted.then(|| told(|audit| audit.claimed.unwrap_or(0))),
            under_load: passed.iter().all(|audit| audit.under_load.is_some()).then(|| {
                [
                    told(|audit| audit.under_load.map_or(0, |killed| killed.clients.into())),
                    told(|audit| audit.under_load.map_or(0, |killed| killed.acknowledged)),
                ]
            }),
            at_rest: passed.iter().find_map(|audit| audit.at_rest_because.clone()),
            unguaranteed: passed.iter().any(|audit| audit.unguaranteed),
            trials: passed.len(),
        }
    }

    /// `9 of 10 acknowledged keys read back after the load (1 trial)`.
    fn words(&self, when: &str) -> String {
        let range = |(least, most): (u64, u64)| match least == most {
            true => count_text(least),
            false => format!("{} to {}", count_text(least), count_text(most)),
        };
        let (read, all, trials) =
            (range(self.read), range(self.acknowledged), trials_text(self.trials));
        let keys = match (self.read == self.acknowledged, self.read.0 == self.read.1) {
            (true, false) => format!("all of {all}"),
            (true, true) => format!("{read} of {all}"),
            (false, _) => format!("a sample of {read} of {all}"),
        };
        let each = if self.trials > 1 { "in each of " } else { "" };
        let claimed = self
            .claimed
            .filter(|&claimed| claimed < self.read)
            .map_or_else(String::new, |claimed| {
                format!(", of {} of which any loss would have been noticed", range(claimed))
            });
        let killed = self.under_load.map_or_else(String::new, |[clients, acknowledged]| {
            format!(
                ", killed while {} clients wrote ({} writes acknowledged in that time)",
                range(clients),
                range(acknowledged),
            )
        });
        let at_rest = self.at_rest.as_ref().map_or_else(String::new, |why| {
            let some = if self.trials > 1 { " in some" } else { "" };
            format!(", killed at rest{some}: {why}")
        });
        let unguaranteed =
            if self.unguaranteed { "; passed, though nothing guarantees it" } else { "" };
        match self.of {
            Audited::Writes => format!(
                "{keys} acknowledged keys read back {when} \
                 ({each}{trials}){killed}{at_rest}{claimed}{unguaranteed}"
            ),
            Audited::Passages => format!(
                "nothing passed unchecked {when}: {read} requests passed, {all} were granted ({trials})"
            ),
        }
    }
}

/// What an audit found, in words.
pub(crate) struct AuditLine {
    pub(crate) text: String,
    /// Whether an audit failed.
    pub(crate) failed: bool,
}

/// Tells what auditing found, for each system and moment.
pub(crate) fn audits(of: &Comparison) -> Vec<AuditLine> {
    let mut lines = Vec::new();
    for contender in &of.contenders {
        let name = &contender.system;
        let mut moments: Vec<&str> = Vec::new();
        for audit in contender.trials.iter().flat_map(|trial| &trial.audits) {
            if !moments.contains(&audit.when.as_str()) {
                moments.push(&audit.when);
            }
        }
        // What held, and when: mostly the same at each moment, and then said once.
        let mut held: Vec<(Held, Vec<&str>)> = Vec::new();
        let mut failed = Vec::new();
        for when in moments {
            let here = |audit: &&Audit| audit.when == when;
            let audits = || {
                contender.trials.iter().flat_map(move |trial| {
                    trial.audits.iter().filter(here).map(move |audit| (trial.number, audit))
                })
            };
            let passed: Vec<&Audit> =
                audits().map(|(_, audit)| audit).filter(|audit| audit.verdict.passed()).collect();
            if !passed.is_empty() {
                let found = Held::sum(&passed);
                match held.iter_mut().find(|(same, _)| *same == found) {
                    Some((_, moments)) => moments.push(when),
                    None => held.push((found, vec![when])),
                }
            }
            for (number, audit) in audits() {
                if let Verdict::Failed(why) = &audit.verdict {
                    let text = format!("{name}: FAILED {when} (trial {number:02}): {why}");
                    failed.push(AuditLine { text, failed: true });
                }
            }
        }
        let line = |text| AuditLine { text, failed: false };
        lines.extend(
            held.into_iter()
                .map(|(held, moments)| line(format!("{name}: {}", held.words(&and(&moments))))),
        );
        lines.extend(failed);
        let missing = |trial: &&TrialFigures| trial.audits.is_empty() && !trial.figures.is_empty();
        let without = contender.trials.iter().filter(missing).count();
        if without > 0 && of.writes() {
            let of = trials_text(without);
            lines.push(line(format!("{name}: not checked: no audit took place in {of}")));
        }
    }
    lines
}

/// What was not judged, with why: once for each reason.
pub(crate) fn unjudged(of: &Comparison) -> Vec<String> {
    let not = of.judgements.iter().filter(|one| matches!(one.verdict, JudgedAs::NotJudged(_)));
    let mut lines: Vec<String> = not.map(Judgement::words).collect();
    lines.dedup();
    lines
}

/// All that could not be checked, with why. What follows from the load alone is said once for all
/// systems.
pub(crate) fn unchecked(of: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    let mut of_the_load: Vec<(String, usize)> = Vec::new();
    for contender in &of.contenders {
        for (what, why, count) in not_checked(&contender.trials) {
            if what == "stationary" {
                match of_the_load.iter_mut().find(|(same, _)| *same == why) {
                    Some((_, all)) => *all += count,
                    None => of_the_load.push((why, count)),
                }
                continue;
            }
            let of = trials_text(count);
            lines.push(format!("{}: not checked: {what}: {why} ({of})", contender.system));
        }
    }
    lines.extend(
        of_the_load
            .into_iter()
            .map(|(why, count)| format!("not checked: stationary: {why} ({})", trials_text(count))),
    );
    lines
}

/// What errors of a system said, in all its trials, the most frequent first: kind, text, count, and
/// whether there are others of the kind.
pub(crate) fn error_texts(of: &Contender) -> Vec<(ErrorKind, String, u64, bool)> {
    let mut texts: Vec<(ErrorKind, String, u64, bool)> = Vec::new();
    for (kind, one) in of.trials.iter().flat_map(|trial| &trial.error_texts) {
        match texts.iter_mut().find(|(k, text, ..)| k == kind && *text == one.text) {
            Some((_, _, count, _)) => *count += one.count,
            None => texts.push((*kind, one.text.clone(), one.count, false)),
        }
    }
    texts.sort_by_key(|(_, _, count, _)| std::cmp::Reverse(*count));
    let kinds: Vec<ErrorKind> = texts.iter().map(|(kind, ..)| *kind).collect();
    for (kind, _, _, others) in &mut texts {
        *others = kinds.iter().filter(|one| *one == kind).count() > 1;
    }
    texts
}

/// The first error of each kind, for each system; before them what errors said, and how often.
pub(crate) fn errors(of: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for contender in &of.contenders {
        for (kind, text, count, others) in error_texts(contender).into_iter().take(TEXTS_SHOWN) {
            // Where one text is all there is, the first error says it.
            if others {
                let (name, count) = (&contender.system, count_text(count));
                lines.push(format!("{name}: {count} × `{}`: {text}", kind.name()));
            }
        }
        let mut seen: Vec<Option<ErrorKind>> = Vec::new();
        for (kind, example) in contender.trials.iter().flat_map(|trial| &trial.examples) {
            if seen.contains(kind) {
                continue;
            }
            seen.push(*kind);
            let kind = kind.map_or("connection lost", ErrorKind::name);
            let asked =
                if example.node.is_empty() { String::new() } else { format!("{}, ", example.node) };
            lines.push(format!(
                "{}: first `{kind}` ({asked}after {:.1} s): {}",
                contender.system, example.at_seconds, example.what
            ));
        }
    }
    lines
}
