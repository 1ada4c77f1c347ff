//! The texts of a report: study, machine, systems, and results of checks.
//!
//! Not here: the workload (`workload`), audits (`audits`), tables (`tables`), the sentence (`stats`).

mod audits;
mod workload;

pub(crate) use audits::audits;
pub(crate) use workload::{heading, workload};

use std::collections::BTreeSet;
use std::time::Duration;

use bakeoff_core::check::CheckName;
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::record::{
    Environment, NetworkPath, PartRecord, RoundCount, RunMachine, Setting, SystemRecord,
    UpgradeRecord,
};
use bakeoff_core::stats::{Figure, and};
use bakeoff_core::study::Study;
use bakeoff_core::units::{
    ByteCount, count_text, figure_text, latency_text, plural, ranges_text, trials_text,
};
use jiff::Timestamp;

use crate::derive::comparison::Comparison;
use crate::derive::fairness::{Row, Sheet};
use crate::derive::judgement::{JudgedAs, Judgement};
use crate::document::report::Report;
use crate::document::sentences::scale;
use crate::model::contender::{Contender, MissingVerdict, not_checked};
use crate::model::events::EventKind;
use crate::model::quantity::{Point, Quantity};
use crate::model::trial::TrialFigures;

/// Most error texts to show for each system.
const TEXTS_SHOWN: usize = 5;
/// Most digits of a SHA-256 to show.
const SHA_SHOWN: usize = 12;

/// Returns the title, with `quick form` and the scale of such a study.
pub(crate) fn title(study: &Study) -> String {
    study.full_title()
}

/// Returns study, time, version and seed.
pub(crate) fn provenance(report: &Report) -> String {
    let header = &report.header;
    let ended = report.ended.as_ref().map_or(String::new(), |ended| format!(" to {ended}"));
    format!(
        "study {}, {}{ended}, bakeoff {}, seed {}{}",
        header.study.name,
        header.started,
        header.bakeoff,
        header.seed,
        rounds(report)
    )
}

/// Returns when the run took place: `27 November 2026, 07:34 UTC, 2 min 20 s`.
pub(crate) fn when(report: &Report) -> String {
    let started = &report.header.started;
    let moment = |text: &str| text.parse::<Timestamp>().ok();
    let Some(began) = moment(started) else { return started.clone() };
    let seconds = report.ended.as_deref().and_then(moment).map(|end| (end - began).get_seconds());
    // A clock may be set back.
    let seconds = seconds.filter(|seconds| *seconds >= 0);
    let took = match seconds.map(|seconds| (seconds / 3600, seconds / 60 % 60, seconds % 60)) {
        None => String::new(),
        Some((0, 0, seconds)) => format!(", {seconds} s"),
        Some((0, minutes, seconds)) => format!(", {minutes} min {seconds} s"),
        Some((hours, minutes, _)) => format!(", {hours} h {minutes} min"),
    };
    format!("{}{took}", began.strftime("%-d %B %Y, %H:%M UTC"))
}

/// Returns the clause on the rounds of an adaptive run. Empty if their number was fixed.
pub(crate) fn rounds(report: &Report) -> String {
    let most = report.header.study.trials;
    match (report.header.rounds, report.answered_after) {
        (RoundCount::Fixed, _) => String::new(),
        (RoundCount::Adaptive, None) => format!(", up to {most} rounds"),
        (RoundCount::Adaptive, Some(rounds)) => {
            format!(", {rounds} of up to {most} rounds: they answered every leading question")
        }
    }
}

/// Returns the machine, or the machines of a run, without how fast they are.
pub(crate) fn machine_in_brief(of: &Environment) -> String {
    let one = |of: &Environment| {
        let cpus = plural(of.cpus.into(), "CPU");
        let memory = ByteCount(of.memory_bytes);
        format!("{}, {cpus}, {memory} memory, {}, {}", of.cpu_model, of.kernel, of.file_system)
    };
    match &of.machines[..] {
        [] => one(of),
        _ if of.has_own_networks() => one(of),
        machines => {
            let each: Vec<String> = machines
                .iter()
                .map(|machine| format!("{}: {}", machine.name, one(&machine.environment)))
                .collect();
            each.join("; ")
        }
    }
}

/// Returns the machine in a line.
pub(crate) fn machine(of: &Environment) -> String {
    let mut parts = vec![
        of.cpu_model.clone(),
        if of.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", of.cpus) },
        format!("{} memory", ByteCount(of.memory_bytes)),
        of.kernel.clone(),
        of.file_system.clone(),
    ];
    parts.push(match (of.disk_sync_median_us, of.disk_sync_p99_us) {
        (None, _) => "time to sync 1 KiB not measured".to_owned(),
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
        parts.push("machine shared with other work (`--shared-machine`)".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    let own = parts.join(", ");
    if of.machines.is_empty() {
        return own;
    }
    if of.has_own_networks() {
        let trips = network(of).map_or(String::new(), |trips| format!(", {trips}"));
        let apart = match of.is_relayed() {
            true => {
                "relays carry all connections to the nodes and between them, so that each round trip takes longer"
            }
            false => "each node and the generator have a network of their own",
        };
        return format!("{own}; {apart}{trips}");
    }
    let mut elsewhere: Vec<String> = of.machines.iter().map(run_machine).collect();
    elsewhere.extend(network(of));
    format!("{}; coordinated from {own}", elsewhere.join("; "))
}

/// Returns the fastest and the slowest network path between the machines of a run.
fn network(of: &Environment) -> Option<String> {
    let by_trip = |a: &&NetworkPath, b: &&NetworkPath| a.median_us.total_cmp(&b.median_us);
    let quick = of.network.iter().min_by(by_trip)?;
    let slow = of.network.iter().max_by(by_trip)?;
    let path = |path: &NetworkPath| {
        let rate = ByteCount(path.bytes_per_second.max(0.0) as u64);
        format!("{} from {} to {} ({rate}/s)", micros(path.median_us), path.from, path.to)
    };
    Some(match quick == slow {
        true => format!("median round trip {}", path(quick)),
        false => format!("median round trips {} to {}", path(quick), path(slow)),
    })
}

/// Returns one of the run's machines in a line.
fn run_machine(of: &RunMachine) -> String {
    let takes = match (of.servers, of.generator) {
        (true, true) => "servers and load",
        (true, false) => "servers",
        (false, true) => "load",
        (false, false) => "nothing",
    };
    let node = of.pod.as_ref().map_or(String::new(), |pod| format!(" on {}", pod.node));
    let is = &of.environment;
    let sync = is.disk_sync_median_us.filter(|_| of.servers).map(micros);
    let sync = sync.map_or(String::new(), |sync| format!(", 1 KiB synced in {sync}"));
    let tunnel = if of.tunnel { ", connected through its agent" } else { "" };
    let kept = match &of.cpus[..] {
        [] => String::new(),
        cpus => format!(" (pinned to CPUs {})", ranges_text(cpus)),
    };
    format!(
        "`{}` ({takes}{node}): {}, {}{kept}, {}{sync}{tunnel}",
        of.name,
        is.cpu_model,
        plural(is.cpus.into(), "CPU"),
        ByteCount(is.memory_bytes)
    )
}

fn micros(micros: f64) -> String {
    Duration::try_from_secs_f64(micros / 1e6).map_or_else(|_| "–".to_owned(), latency_text)
}

/// Returns a system in a line, and the details of it and its parts.
pub(crate) fn system(of: &SystemRecord) -> (String, Vec<String>) {
    let guarantees = [
        ("replication", &of.guarantees.replication),
        ("acknowledged", &of.guarantees.acknowledged),
        ("reads", &of.guarantees.reads),
    ];
    let wording =
        |text: &str| if text.is_empty() { "not stated".to_owned() } else { text.to_owned() };
    // A service guarantees nothing about data.
    let some = guarantees.iter().any(|(_, text)| !text.is_empty());
    let mut lines: Vec<String> = guarantees
        .iter()
        .filter(|_| some)
        .map(|(name, text)| format!("{name}: {}", wording(text)))
        .collect();
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

/// Returns `etcd 3.4.23, 3 nodes, Debian package etcd-server 3.4.23+dfsg-4, sha256 2f1f68a05e52…`.
fn product(of: &SystemRecord) -> String {
    let version = of.version.as_deref().unwrap_or("of unknown version");
    let nodes = if of.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", of.nodes) };
    let mut parts = vec![format!("{} {version}", of.kind), nodes];
    if of.already_running {
        parts.push("already running, not started by bakeoff".to_owned());
    }
    parts.extend(of.source.clone());
    parts.extend(of.tls_version.clone().filter(|_| of.already_running));
    parts.extend(of.date.as_ref().map(|date| format!("dated {date}")));
    parts.extend(of.sha256.as_deref().map(sha256));
    parts.extend(of.upgrade.as_ref().map(upgrade));
    parts.join(", ")
}

fn sha256(whole: &str) -> String {
    let prefix: String = whole.chars().take(SHA_SHOWN).collect();
    format!("sha256 {prefix}…")
}

/// Returns `upgraded to 3.6.16, Go module go.etcd.io/etcd/server/v3 v3.6.16, sha256 2f1f68a05e52…`.
pub(crate) fn upgrade(to: &UpgradeRecord) -> String {
    format!("upgraded to {}, {}, {}", to.version, to.source, sha256(&to.sha256))
}

/// Most characters of a fact's cell in a line; settings may take thousands.
const FACT_MAX: usize = 120;

/// Most characters of differences in a line, which are more important than equal parts.
const DIFFERENCES_MAX: usize = 400;

/// Returns a shortened text if it is too long for a line, cut between its parts.
pub(crate) fn brief(text: &str) -> Option<String> {
    cut(text, FACT_MAX)
}

/// Returns a shortened text if it has more than `most` characters, cut between its parts.
fn cut(text: &str, most: usize) -> Option<String> {
    let (end, _) = text.char_indices().nth(most)?;
    let part = text[..end].rfind([',', ';']).unwrap_or(end);
    Some(format!("{}, …", &text[..part]))
}

/// Returns `transport: etcd: TLS 1.3; zookeeper: plain TCP`.
pub(crate) fn fairness_row(row: &Row, systems: &[String]) -> String {
    let groups = row.groups(systems);
    // In long cells, leave out the parts that all cells have in common.
    let parts: Vec<BTreeSet<&str>> =
        groups.iter().map(|(cell, _)| cell.split(", ").collect()).collect();
    let is_common = |part: &str| parts.len() > 1 && parts.iter().all(|all| all.contains(part));
    let shown = |cell: &str| {
        if brief(cell).is_none() {
            return cell.to_owned();
        }
        let (common, own): (Vec<&str>, Vec<&str>) =
            cell.split(", ").partition(|part| is_common(part));
        let differences = own.join(", ");
        let differences = cut(&differences, DIFFERENCES_MAX).unwrap_or(differences);
        match (common.len(), own.is_empty()) {
            (0, _) => differences,
            (same, true) => format!("only the {same} that all have"),
            (same, false) => format!("{differences}, and {same} that all have"),
        }
    };
    let cells: Vec<String> =
        groups.iter().map(|(cell, names)| format!("{}: {}", and(names), shown(cell))).collect();
    format!("{}: {}", row.what, cells.join("; "))
}

fn in_brief(cell: &str) -> String {
    brief(cell).unwrap_or_else(|| cell.to_owned())
}

/// Returns all equal facts in one line, and all unknown ones in another.
pub(crate) fn fairness_rest(sheet: &Sheet) -> Vec<String> {
    let same = sheet.same().map(|row| match row.groups(&sheet.systems).first() {
        Some((cell, _)) => format!("{} ({})", row.what, in_brief(cell)),
        None => row.what.clone(),
    });
    let (same, unknown): (Vec<String>, Vec<String>) =
        (same.collect(), sheet.unknown().map(|row| row.what.clone()).collect());
    [("equal for all", same), ("unknown", unknown)]
        .into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(what, rows)| format!("{what}: {}", rows.join("; ")))
        .collect()
}

/// Returns how trials are combined in the table; `None` for one trial each.
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
    Some(format!("medians of {trials}; error counts are totals"))
}

/// Returns the source of the published figures; empty if there are none.
pub(crate) fn published(report: &Report, of: &Comparison) -> Vec<String> {
    let outages = of.outages.iter().flat_map(|fault| {
        fault.systems.iter().filter_map(|one| {
            let notes = match one.notes.is_empty() {
                true => String::new(),
                false => format!(" ({})", one.notes.join("; ")),
            };
            let (system, name, text) = (&one.system, &fault.fault.name, one.published_text()?);
            Some(format!("published for {system}, {name}: out for {text}{notes}"))
        })
    });
    let outages: Vec<String> = outages.collect();
    if outages.is_empty() && of.contenders.iter().all(|one| one.published.is_empty()) {
        return Vec::new();
    }
    let mut lines = vec![match &report.header.study.publication {
        None => "published figures: the study does not name their source".to_owned(),
        Some(from) => {
            let versions =
                from.versions.as_ref().map_or(String::new(), |versions| format!("; {versions}"));
            format!("published figures: {}, on {}{versions}", from.title, from.hardware)
        }
    }];
    if scale(&report.header.study).is_some() {
        lines.push("published figures are for the study's full counts".to_owned());
    }
    let notes = of.contenders.iter().filter(|one| !one.notes.is_empty());
    lines
        .extend(notes.map(|one| format!("published for {}: {}", one.system, one.notes.join("; "))));
    lines.extend(outages);
    lines
}

/// Returns why minimum and maximum throughput are missing.
pub(crate) fn seconds(of: &Comparison) -> Option<String> {
    let missing = |one: &Contender| {
        one.valid().any(|trial| trial.get(Quantity::ThroughputMax) == Figure::Absent)
    };
    of.contenders.iter().any(missing).then(|| {
        "throughput max and min use whole seconds; they are left out if partial \
         seconds at the ends of stages exceed a fifth of the measured time"
            .to_owned()
    })
}

/// Returns notes on latencies: the rank of failures, and percentiles with too few operations.
pub(crate) fn latencies(of: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    let failing = |one: &&Contender| one.valid_count() > 0 && one.errors_worth_saying().is_some();
    let names: Vec<&str> =
        of.contenders.iter().filter(failing).map(|one| one.system.as_str()).collect();
    if !names.is_empty() {
        lines.push(format!(
            "latencies include all operations that were due; failures of {} rank above every \
             success",
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
        lines.push(format!("{name} needs {needed} operations; a trial had fewer: {had}"));
    }
    lines
}

/// Returns the invalid trials with their reasons.
pub(crate) fn invalid(of: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for contender in &of.contenders {
        for trial in contender.trials.iter().filter(|trial| !trial.valid()) {
            let measured = if trial.validity.interrupted { until_then(trial) } else { None };
            lines.push(format!(
                "not valid: trial {:02} ({}, round {}): {}{}",
                trial.number,
                contender.system,
                trial.round,
                trial.validity.invalid_because.join("; "),
                measured.unwrap_or_default(),
            ));
        }
    }
    lines
}

/// Returns unplanned events of servers. Deliberate kills appear under audits.
pub(crate) fn events(of: &Comparison) -> Vec<String> {
    let trials =
        of.contenders.iter().flat_map(|one| one.trials.iter().map(move |trial| (one, trial)));
    let lines = trials.flat_map(|(one, trial)| {
        let events = trial.drawn.timeline.events.iter();
        let unplanned = events.filter(|event| event.kind == EventKind::Unplanned);
        unplanned.map(move |event| {
            let (number, at) = (trial.number, figure_text(event.at));
            format!("{}: {}, {at} s into trial {number:02}", one.system, event.text)
        })
    });
    lines.collect()
}

/// Returns how much an interrupted trial had measured.
fn until_then(trial: &TrialFigures) -> Option<String> {
    let text = |quantity: Quantity| quantity.text(trial.get(quantity));
    trial.get(Quantity::Verified).value()?;
    let (verified, seconds) = (text(Quantity::Verified), text(Quantity::Seconds));
    Some(format!(" ({verified} operations verified in {seconds} s by then)"))
}

/// Returns the pairs that were not judged, once per reason.
pub(crate) fn unjudged(of: &Comparison) -> Vec<String> {
    let not = of.judgements.iter().filter(|one| matches!(one.verdict, JudgedAs::NotJudged(_)));
    let mut lines: Vec<String> = not.map(Judgement::words).collect();
    lines.dedup();
    lines
}

/// Returns everything that could not be checked, with the reason. Reasons that depend only on the load are listed once
/// for all systems.
pub(crate) fn unchecked(of: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    let mut of_the_load: Vec<(String, usize)> = Vec::new();
    for contender in &of.contenders {
        for (what, why, count) in not_checked(&contender.trials) {
            if what == MissingVerdict::Check(CheckName::Stationary) {
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

/// Returns the error texts of all of a system's trials, the most frequent first: kind, text, count, and whether the
/// kind has other texts.
pub(crate) fn error_texts(of: &Contender) -> Vec<(ErrorKind, String, u64, bool)> {
    let mut texts: Vec<(ErrorKind, String, u64, bool)> = Vec::new();
    for (kind, one) in of.trials.iter().flat_map(|trial| &trial.errors.error_texts) {
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

/// Returns each system's error texts with counts, and the first error of each kind.
pub(crate) fn errors(of: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for contender in &of.contenders {
        for (kind, text, count, others) in error_texts(contender).into_iter().take(TEXTS_SHOWN) {
            // A single text is already in the first error.
            if others {
                let (name, count) = (&contender.system, count_text(count));
                lines.push(format!("{name}: {count} × `{}`: {text}", kind.name()));
            }
        }
        let mut seen: Vec<Option<ErrorKind>> = Vec::new();
        for (kind, example) in contender.trials.iter().flat_map(|trial| &trial.errors.examples) {
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
