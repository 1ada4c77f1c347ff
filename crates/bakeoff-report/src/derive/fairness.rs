//! The fairness sheet: differences between the systems of a run besides the product.
//!
//! Each row is a fact with one cell per system, and a weight. A difference that may decide the result by itself (one
//! node against three, memory against a majority's disks) is also a finding above every table. Equal facts are listed
//! too, to show that they were compared. An unknown fact is never taken for equal.
//!
//! Not here: figures and their comparison (`comparison`, `stats`), the machine baseline (`machine_baseline`),
//! appearance (`terminal`, `markdown`, `json`).

use bakeoff_core::measurement::{ErrorKind, Measurement};
use bakeoff_core::record::{AckLocation, Freshness, Record, SystemRecord, TrialRecord};
use bakeoff_core::stats::and;
use bakeoff_core::study::{
    self, Clusters, Load, ReadConsistency, Routing, Study, Targets, Workload,
};
use bakeoff_core::units::{ByteCount, count_text, share_text};

use crate::derive::ack_locations::{acknowledged_words, medium};
use crate::derive::comparison::Comparison;
use crate::derive::node_failures::survives;
use crate::model::contender::Contender;

mod limits;
mod machines;
mod parts;
mod sheet;
mod syncs;
mod transport;
mod watches;

pub use sheet::{Fact, Row, Sheet, Weight};

/// Smallest share of errors on one side alone that may decide.
const ERRORS_DECIDE: f64 = 0.01;
/// Largest ratio of message sizes that count as equal: the lengths of numbers in them vary.
const BYTES_ALIKE: f64 = 1.02;
/// Text for an unknown part of a sentence.
const UNKNOWN: &str = "unknown";

/// One system, with everything known about it.
struct Side<'a> {
    name: &'a str,
    asked: &'a study::System,
    is: &'a SystemRecord,
    trials: Vec<&'a TrialRecord>,
}

/// Returns the sheet of a run.
pub(crate) fn sheet(record: &Record, comparisons: &[Comparison]) -> Sheet {
    let study = &record.header.study;
    let sides = sides(record);
    let mut sheet = Sheet {
        systems: sides.iter().map(|side| side.name.to_owned()).collect(),
        ..Sheet::default()
    };
    let mut add = |(row, finding): (Row, Option<String>)| {
        if row.weight == Weight::Decides {
            sheet.findings.extend(finding);
        }
        sheet.rows.push(row);
    };
    add(started(study, &sides));
    add(nodes(study, &sides));
    machines::row(record, &sides).into_iter().for_each(&mut add);
    parts::rows(&sides).into_iter().for_each(&mut add);
    if !is_of_services(study) {
        add(acknowledged(study, &sides));
        syncs::row(&sides).into_iter().for_each(|row| add((row, None)));
    }
    for asked in reads_asked(study) {
        add(reads(asked, &sides));
    }
    add(transport::row(&sides));
    transport::between(&sides).into_iter().for_each(&mut add);
    transport::handshakes(&sides).into_iter().for_each(&mut add);
    add(plain("authentication", &sides, Weight::Matters, |side| {
        let certificate = side.asked.tls.as_ref().is_some_and(|tls| tls.cert.is_some());
        let shown = certificate && side.asked.endpoints().iter().any(|endpoint| endpoint.tls);
        let certificate = shown.then(|| "client certificate".to_owned());
        let ways: Vec<String> =
            certificate.into_iter().chain(side.is.authentication.clone()).collect();
        if ways.is_empty() { "none".to_owned() } else { ways.join(" and ") }
    }));
    add(limits::row(&sides));
    if study.with_disk_faults().is_some() {
        add(disks(study, &sides));
    }
    let shared = record.header.environment.shared_with_servers;
    add(plain("load generator", &sides, Weight::Decides, |side| limits::generator(side, shared)));
    limits::generator_delays(&sides).into_iter().for_each(&mut add);
    add(plain("version", &sides, Weight::Matters, |side| {
        format!("{} {}", side.is.kind, side.is.version.as_deref().unwrap_or("of unknown version"))
    }));
    add(plain("date of the version", &sides, Weight::Matters, |side| {
        side.is.date.clone().map_or(Fact::Unknown, Fact::Known)
    }));
    add(plain("non-default settings", &sides, Weight::Matters, settings));
    for load in &study.loads {
        let what = match study.loads.len() {
            1 => "clients".to_owned(),
            _ => format!("clients under {}", load.name),
        };
        add(clients(&what, load, &sides));
    }
    watches::rows(&sides).into_iter().for_each(&mut add);
    add(plain("nodes that clients use", &sides, Weight::Matters, |_| targets(study)));
    for workload in &study.workloads {
        let of = if study.workloads.len() == 1 { "" } else { &*format!(" of {}", workload.name) };
        add(bytes(&format!("bytes per request{of}"), workload, &sides, |all| all.bytes_sent));
        add(bytes(&format!("bytes per response{of}"), workload, &sides, |all| all.bytes_received));
    }
    errors(comparisons, &sides).into_iter().for_each(add);
    sheet.findings.extend(machines::findings(record));
    sheet
}

fn sides(record: &Record) -> Vec<Side<'_>> {
    let header = &record.header;
    let side = |is| {
        let is: &SystemRecord = is;
        let asked = header.study.systems.iter().find(|system| system.name == is.name)?;
        let trials = record.trials.iter().filter(|trial| trial.trial.system == is.name);
        Some(Side { name: &is.name, asked, is, trials: trials.collect() })
    };
    header.systems.iter().filter_map(side).collect()
}

/// Groups names by equal values, in order of their first occurrence.
fn grouped<'a, T: PartialEq>(of: impl Iterator<Item = (&'a str, T)>) -> Vec<(T, Vec<&'a str>)> {
    let mut groups: Vec<(T, Vec<&'a str>)> = Vec::new();
    for (name, what) in of {
        match groups.iter_mut().find(|(same, _)| *same == what) {
            Some((_, names)) => names.push(name),
            None => groups.push((what, vec![name])),
        }
    }
    groups
}

fn alike<T: PartialEq>(all: impl IntoIterator<Item = T>) -> bool {
    let mut all = all.into_iter();
    all.next().is_none_or(|first| all.all(|one| one == first))
}

/// Creates a row whose cells are compared by their text. `weight`: the weight of a difference.
fn plain<T: Into<Fact>>(
    what: &str,
    sides: &[Side<'_>],
    weight: Weight,
    cell: impl Fn(&Side<'_>) -> T,
) -> (Row, Option<String>) {
    let cells: Vec<Fact> = sides.iter().map(|side| cell(side).into()).collect();
    let weight = weight_of(&cells, weight);
    (Row { what: what.to_owned(), cells, weight }, None)
}

/// Compares the disks of the nodes, if the study breaks some.
fn disks(study: &Study, sides: &[Side<'_>]) -> (Row, Option<String>) {
    let place = |side: &Side<'_>| match study.disk_faults_of(side.name).next() {
        Some(_) => "a file system in memory that can break",
        None => "the machine's disk",
    };
    let (row, _) =
        plain("disk of the nodes", sides, Weight::Decides, |side| place(side).to_owned());
    let groups = by_group(sides, place).into_iter();
    let groups: Vec<String> = groups.map(|(place, names)| format!("{names} on {place}")).collect();
    (row, Some(format!("the nodes' disks differ: {}", groups.join(", "))))
}

/// Returns the weight of these cells, `differing` if their texts differ.
fn weight_of(cells: &[Fact], differing: Weight) -> Weight {
    let asked = || cells.iter().filter(|cell| **cell != Fact::DoesNotRun);
    match asked().next() {
        _ if !alike(asked()) => differing,
        Some(Fact::Unknown | Fact::NotMeasured) => Weight::Unknown,
        _ => Weight::Same,
    }
}

/// Groups systems by a value, with their names joined: `etcd and consul`.
fn by_group<T: PartialEq>(sides: &[Side<'_>], of: impl Fn(&Side<'_>) -> T) -> Vec<(T, String)> {
    let groups = grouped(sides.iter().map(|side| (side.name, of(side))));
    groups.into_iter().map(|(what, names)| (what, and(&names))).collect()
}

fn started(study: &Study, sides: &[Side<'_>]) -> (Row, Option<String>) {
    let (row, _) = plain("started", sides, Weight::Decides, |side| match study.clusters {
        _ if side.is.already_running => "ran already, not started by bakeoff".to_owned(),
        Clusters::Fresh => "by bakeoff, afresh for each trial".to_owned(),
        Clusters::Kept => "by bakeoff, once for all trials".to_owned(),
    });
    let (ran, own): (Vec<&Side<'_>>, Vec<&Side<'_>>) =
        sides.iter().partition(|side| side.is.already_running);
    let names = |of: &[&Side<'_>]| and(&of.iter().map(|side| side.name).collect::<Vec<_>>());
    let finding = format!(
        "{} ran already, but {} started on this machine by bakeoff: hardware, network, settings and \
         other work there may differ and are unknown",
        names(&ran),
        if own.len() == 1 {
            format!("{} was", names(&own))
        } else {
            format!("{} were", names(&own))
        },
    );
    (row, Some(finding))
}

/// Returns true if all workloads send HTTP requests to services, which guarantee nothing about data.
fn is_of_services(study: &Study) -> bool {
    study.workloads.iter().all(|workload| workload.request().is_some())
}

fn nodes(study: &Study, sides: &[Side<'_>]) -> (Row, Option<String>) {
    if is_of_services(study) {
        return plain("nodes", sides, Weight::Matters, |side| match side.is.already_running {
            true if side.is.nodes == 1 => "1 endpoint given".to_owned(),
            true => format!("{} endpoints given", side.is.nodes),
            false => side.is.nodes.to_string(),
        });
    }
    let (mut row, _) = plain("nodes", sides, Weight::Matters, |side| {
        let nodes = side.is.nodes;
        match survives(side.is) {
            _ if side.is.already_running => {
                let endpoints = if nodes == 1 { "endpoint" } else { "endpoints" };
                format!("{nodes} {endpoints} given; how many nodes may fail is {UNKNOWN}")
            }
            None => format!("{nodes}; how many of them may fail is {UNKNOWN}"),
            Some(0) if nodes == 1 => "1, survives no failure of a node".to_owned(),
            Some(0) => format!("{nodes}, survive no failure of a node"),
            Some(failures) => format!("{nodes}, survive the failure of {failures}"),
        }
    });
    let known: Vec<&Side<'_>> = sides.iter().filter(|side| survives(side.is).is_some()).collect();
    if alike(known.iter().map(|side| survives(side.is))) {
        return (row, None);
    }
    row.weight = Weight::Decides;
    let stated = |side: &&Side<'_>| {
        let failures = match survives(side.is) {
            None | Some(0) => "survives no failure of a node".to_owned(),
            Some(1) => "survives the failure of one node".to_owned(),
            Some(failures) => format!("survives the failure of {} nodes", number_word(failures)),
        };
        let place = side.is.acknowledged_in().map_or(String::new(), |place| {
            format!("acknowledges a write {} and ", acknowledged_words(place))
        });
        (format!("{place}{failures}"), side.is.nodes)
    };
    let groups = grouped(known.iter().map(|side| (side.name, stated(side))));
    let clauses: Vec<String> =
        groups.iter().map(|((what, _), names)| clause(names, what)).collect();
    let sizes: Vec<u32> = groups.iter().map(|((_, nodes), _)| *nodes).collect();
    let head = match (sizes.as_slice(), known.len()) {
        ([1, many] | [many, 1], 2) => {
            format!("one system is a single node and the other a cluster of {}", number_word(*many))
        }
        (sizes, _) if sizes.contains(&1) => {
            "some systems are clusters and others single nodes".to_owned()
        }
        _ => "the systems do not survive the same failures".to_owned(),
    };
    (row, Some(format!("{head}: {}", clauses.join("; "))))
}

/// Returns `etcd survives …`, `each of etcd and consul survives …`.
fn clause(names: &[&str], what: &str) -> String {
    match names {
        [one] => format!("{one} {what}"),
        many => format!("each of {} {what}", and(many)),
    }
}

fn number_word(number: u32) -> String {
    const WORDS: [&str; 10] =
        ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    WORDS.get(number as usize).map_or_else(|| number.to_string(), |word| (*word).to_owned())
}

fn acknowledged(study: &Study, sides: &[Side<'_>]) -> (Row, Option<String>) {
    let (mut row, _) = plain("a write is acknowledged", sides, Weight::Matters, |side| match side
        .is
        .acknowledged_in()
    {
        Some(place) => Fact::Known(match side.is.guarantees.claimed_in {
            None => acknowledged_words(place).to_owned(),
            Some(claimed) => format!(
                "observed {}, claimed {}",
                acknowledged_words(place),
                acknowledged_words(claimed)
            ),
        }),
        None if side.is.already_running => {
            Fact::Known(format!("{} (its settings are unknown)", side.is.guarantees.acknowledged))
        }
        None if side.is.guarantees.acknowledged.is_empty() => Fact::Unknown,
        None => Fact::Known(side.is.guarantees.acknowledged.clone()),
    });
    let known: Vec<(&str, AckLocation)> = sides
        .iter()
        .filter_map(|side| side.is.acknowledged_in().map(|place| (side.name, place)))
        .collect();
    let writes = study.workloads.iter().any(Workload::writes);
    if alike(known.iter().map(|(_, place)| place)) || !writes {
        return (row, None);
    }
    row.weight = Weight::Decides;
    let least = known.iter().map(|(_, place)| medium(*place)).min().unwrap_or_default();
    if alike(known.iter().map(|(_, place)| medium(*place))) {
        return (row, None); // one node against several: the row of nodes covers it
    }
    let clauses: Vec<String> = grouped(known.iter().copied())
        .iter()
        .map(|(place, names)| {
            clause(names, &format!("acknowledges a write {}", acknowledged_words(*place)))
        })
        .collect();
    let weak = known.iter().filter(|(_, place)| medium(*place) == least).map(|(name, _)| *name);
    let event = if least == 0 { "the end of a program" } else { "a power cut" };
    let finding = format!(
        "acknowledged writes are not equally safe: {}; {event} may take what {} acknowledged",
        clauses.join("; "),
        and(&weak.collect::<Vec<_>>())
    );
    (row, Some(finding))
}

/// Returns the read consistencies of the workloads that read.
fn reads_asked(study: &Study) -> Vec<ReadConsistency> {
    let mut asked = Vec::new();
    for workload in &study.workloads {
        if workload.reads_any() && !asked.contains(&workload.reads) {
            asked.push(workload.reads);
        }
    }
    asked
}

fn reads(asked: ReadConsistency, sides: &[Side<'_>]) -> (Row, Option<String>) {
    let freshness = |side: &Side<'_>| side.is.guarantees.freshness.get(&asked).copied();
    let is_only = |side: &Side<'_>| side.is.nodes == 1 && !side.is.already_running;
    let what = format!("{asked} reads return");
    let (mut row, _) = plain(&what, sides, Weight::Matters, |side| match freshness(side) {
        Some(Freshness::Linearizable) => {
            Fact::Known("the newest acknowledged value (linearizable)".to_owned())
        }
        Some(Freshness::Leader) => {
            Fact::Known("the leader's value, stale only right after a change of leader".to_owned())
        }
        Some(Freshness::NodeAsked) if is_only(side) => {
            Fact::Known("the only node's value".to_owned())
        }
        Some(Freshness::NodeAsked) => {
            Fact::Known("the queried node's value, which may be stale".to_owned())
        }
        None if side.is.guarantees.reads.is_empty() => Fact::Unknown,
        None => Fact::Known(side.is.guarantees.reads.clone()),
    });
    let may_be_stale =
        |side: &Side<'_>| Some(freshness(side)? == Freshness::NodeAsked && !is_only(side));
    let known: Vec<(&str, bool)> =
        sides.iter().filter_map(|side| Some((side.name, may_be_stale(side)?))).collect();
    if alike(known.iter().map(|(_, old)| old)) {
        return (row, None);
    }
    row.weight = Weight::Decides;
    let names = |old: bool| {
        and(&known.iter().filter(|(_, is)| *is == old).map(|(name, _)| *name).collect::<Vec<_>>())
    };
    let finding = format!(
        "{asked} reads are not equally fresh: those of {} may be stale, those of {} may not",
        names(true),
        names(false)
    );
    (row, Some(finding))
}

fn settings(side: &Side<'_>) -> Fact {
    if side.is.already_running {
        return Fact::Unknown;
    }
    let settings = side.is.settings.iter().map(|set| format!("{} = {}", set.name, set.value));
    let settings: Vec<String> = settings.collect();
    Fact::Known(if settings.is_empty() { "none".to_owned() } else { settings.join(", ") })
}

fn clients(what: &str, load: &Load, sides: &[Side<'_>]) -> (Row, Option<String>) {
    let stages = |side: &Side<'_>| {
        let counts: Vec<String> =
            load.clients_on(side.name).iter().map(|&count| count_text(count.into())).collect();
        counts.join(", then ")
    };
    let (row, _) = plain(what, sides, Weight::Decides, |side| match load.in_flight {
        1 => format!("{}, one operation at a time", stages(side)),
        many => format!("{}, each with up to {many} operations in flight", stages(side)),
    });
    let groups: Vec<String> = by_group(sides, stages)
        .into_iter()
        .map(|(clients, names)| format!("{names} {clients}"))
        .collect();
    let finding = format!(
        "the systems had different numbers of clients under {}: {}",
        load.name,
        groups.join(", ")
    );
    (row, Some(finding))
}

fn targets(study: &Study) -> String {
    let words = |routing: Routing| {
        let words = |targets: Targets| match targets {
            Targets::All => "all, in turn",
            Targets::Leader => "the leader",
            Targets::Followers => "the followers",
        };
        match routing {
            Routing::Same(targets) => words(targets).to_owned(),
            Routing::Split { writes, reads } => {
                format!("writes: {}; reads: {}", words(writes), words(reads))
            }
        }
    };
    let groups = grouped(study.loads.iter().map(|load| (load.name.as_str(), words(load.targets))));
    match groups.as_slice() {
        [(only, _)] => only.clone(),
        several => {
            let of = |(what, names): &(String, Vec<&str>)| format!("{what} under {}", and(names));
            several.iter().map(of).collect::<Vec<_>>().join("; ")
        }
    }
}

/// Returns the row of a workload's message sizes, over all loads.
fn bytes(
    what: &str,
    workload: &Workload,
    sides: &[Side<'_>],
    count: fn(&Measurement) -> u64,
) -> (Row, Option<String>) {
    let mean = |side: &Side<'_>| {
        let trials = side.trials.iter().filter(|trial| trial.trial.workload == workload.name);
        let stages = || trials.clone().flat_map(|trial| &trial.stages);
        let bytes: u64 = stages().map(|stage| count(&stage.measurement)).sum();
        let sent: u64 = stages().map(|stage| messages(&stage.measurement)).sum();
        (bytes > 0 && sent > 0).then(|| bytes as f64 / sent as f64)
    };
    let means: Vec<Option<f64>> = sides.iter().map(mean).collect();
    let text = |(side, mean): (&Side<'_>, &Option<f64>)| match mean {
        Some(mean) => Fact::Known(ByteCount(mean.round() as u64).to_string()),
        None if workload.is_done_by(side.asked) => Fact::NotMeasured,
        None => Fact::DoesNotRun,
    };
    let known = || means.iter().flatten().copied();
    let (least, most) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
    let weight = if most > least * BYTES_ALIKE { Weight::Matters } else { Weight::Same };
    // Show equal sizes as one number.
    let shown = match weight {
        Weight::Same => means.iter().map(|mean| mean.and(known().next())).collect(),
        _ => means,
    };
    let cells: Vec<Fact> = sides.iter().zip(&shown).map(text).collect();
    let weight = weight_of(&cells, Weight::Matters);
    (Row { what: what.to_owned(), cells, weight }, None)
}

/// Returns the number of operations that were sent to a server, including warm-up.
fn messages(of: &Measurement) -> u64 {
    let never_sent = of.errors_of(ErrorKind::Dropped) + of.errors_of(ErrorKind::Refused);
    (of.verified() + of.error_count() + of.warmup_operations).saturating_sub(never_sent)
}

/// Merges two rows without errors.
fn joined(mut row: Row, other: &Row) -> Row {
    for (cell, other) in row.cells.iter_mut().zip(&other.cells) {
        if *cell == Fact::DoesNotRun || *other == Fact::NotMeasured {
            cell.clone_from(other);
        }
    }
    row.weight = weight_of(&row.cells, Weight::Matters);
    row
}

/// Returns a row for each workload and load with failed operations, and one for all others.
fn errors(comparisons: &[Comparison], sides: &[Side<'_>]) -> Vec<(Row, Option<String>)> {
    let mut rows = Vec::new();
    let mut without: Option<Row> = None;
    for comparison in comparisons {
        let place = comparison.place();
        let contender = |name: &str| comparison.contenders.iter().find(|one| one.system == name);
        let share = |name: &str| contender(name)?.error_share();
        let text = |share: f64| if share > 0.0 { share_text(share) } else { "none".to_owned() };
        let (row, _) =
            plain(
                &format!("errors under {place}"),
                sides,
                Weight::Matters,
                |side| match contender(side.name).map(Contender::error_share) {
                    None => Fact::DoesNotRun,
                    Some(share) => {
                        share.map_or(Fact::NotMeasured, |share| Fact::Known(text(share)))
                    }
                },
            );
        let measured: Vec<(&str, f64)> =
            sides.iter().filter_map(|side| Some((side.name, share(side.name)?))).collect();
        if measured.iter().all(|(_, share)| *share == 0.0) {
            without = Some(match without {
                None => row,
                Some(before) => joined(before, &row),
            });
            continue;
        }
        let (many, few): (Vec<_>, Vec<_>) =
            measured.into_iter().partition(|(_, share)| *share > ERRORS_DECIDE);
        let decides = !many.is_empty() && !few.is_empty();
        let weight = if decides { Weight::Decides } else { row.weight };
        // If most operations of a system failed, another finding covers it.
        let stated =
            decides && comparison.contenders.iter().all(|one| one.mostly_errors().is_none());
        let whose = |of: &[(&str, f64)]| {
            let each: Vec<String> =
                of.iter().map(|(name, share)| format!("{} of {name}'s", text(*share))).collect();
            and(&each.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let finding = stated.then(|| {
            format!("under {place}, {} operations failed, but {}", whose(&many), whose(&few))
        });
        rows.push((Row { weight, ..row }, finding));
    }
    if let Some(row) = without {
        let what = if rows.is_empty() { "errors" } else { "errors under all others" };
        rows.push((Row { what: what.to_owned(), ..row }, None));
    }
    rows
}
