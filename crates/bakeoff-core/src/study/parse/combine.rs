//! Checks combinations of a workload, a load and a system.

use std::collections::BTreeSet;

use super::faults::ReadFaults;
use super::loads::ReadLoad;
use super::systems::{ReadSystem, abilities, option_value};
use super::workloads::ReadWorkload;
use crate::study::reading::Fields;
use crate::study::tree::{ByteRange, DiagnosticSink};
use crate::study::{
    Arrivals, Clusters, KeyOrder, Kind, Load, Operation, ReadConsistency, Servers, Stop, Targets,
    Workload,
};
use crate::suggest::{list, suggest};
use crate::units::{duration_text, shown};
use crate::watch::{WatchRange, WatchStart};
use crate::workload::{KEY_PREFIX, prefixed_size};

/// Maximum requests in flight per client over HTTP/2. RFC 9113 section 6.5.2 recommends that servers allow at least
/// this number.
const STREAMS_MAX: u32 = 100;

pub(super) fn check(
    sink: &mut DiagnosticSink<'_>,
    systems: &[ReadSystem<'_>],
    workloads: &[ReadWorkload],
    loads: &[ReadLoad],
    clusters: Option<Clusters>,
) {
    for read in workloads {
        for system in systems.iter().filter(|system| read.is_done_by(system)) {
            if let Some(kind) = system.kind {
                can_do(sink, read, system, kind);
                has_history(sink, read, system, kind, clusters);
            }
            if let Some(workload) = &read.workload {
                can_clear(sink, read, workload, system, clusters);
            }
        }
        if let Some(workload) = &read.workload {
            for load in loads.iter().filter(|load| read.loads.contains(&load.name)) {
                if let Some(resolved) = &load.load {
                    splittable(sink, workload, load, resolved);
                    keeps_connections(sink, workload, load, resolved);
                    watched_once(sink, workload, load, resolved);
                    watches_own_key(sink, read, load, resolved);
                }
            }
        }
    }
    let used: BTreeSet<&String> = workloads.iter().flat_map(|read| &read.loads).collect();
    for read in loads {
        if !used.contains(&read.name) && !workloads.is_empty() {
            let what = format!("no workload uses load `{}`", read.name);
            let hint = "name it in the `loads` of a workload, or remove it";
            sink.hint(&read.at, what, hint);
        }
        let Some(load) = &read.load else { continue };
        let meets = |system: &&ReadSystem<'_>| {
            workloads.iter().any(|work| work.loads.contains(&read.name) && work.is_done_by(system))
        };
        for system in systems.iter().filter(meets) {
            let works = workloads
                .iter()
                .filter(|work| work.loads.contains(&read.name) && work.is_done_by(system));
            bearable(sink, read, load, system);
            in_flight(sink, read, load, system, works);
        }
    }
}

/// Checks that a fault of watchers finds some in each workload that its systems run.
pub(super) fn watchers_exist(
    sink: &mut DiagnosticSink<'_>,
    top: &Fields<'_>,
    workloads: &[ReadWorkload],
    faults: &ReadFaults,
) {
    let fault = faults.faults.iter().flatten().find(|fault| fault.action.needs_watchers());
    let Some(fault) = fault else { return };
    let unwatched = workloads.iter().find(|read| {
        let befalls =
            read.systems.is_empty() || read.systems.iter().any(|name| fault.befalls(name));
        befalls && read.workload.as_ref().is_some_and(|workload| workload.watchers.is_none())
    });
    if let Some(read) = unwatched {
        let what = format!(
            "fault `{}` happens to watchers, and workload `{}` has none",
            fault.name, read.name
        );
        let hint = "give the workload `watchers`, or a study of its own";
        sink.hint(top.key_at("faults"), what, hint);
    }
}

/// Checks that unique keys last for each load, with all injections of faults.
pub(super) fn keys_last(
    sink: &mut DiagnosticSink<'_>,
    workloads: &[ReadWorkload],
    loads: &[ReadLoad],
    faults: &ReadFaults,
) {
    let faults_alone = faults.faults.iter().flatten().filter(|fault| fault.alone);
    let injections = faults_alone.count() as u64;
    let runs = 1 + injections * u64::from(faults.repeat.unwrap_or(1));
    for read in workloads {
        let Some(workload) = &read.workload else { continue };
        for load in loads.iter().filter(|load| read.loads.contains(&load.name)) {
            if let Some(resolved) = &load.load {
                enough_keys(sink, read, workload, (load, resolved), runs);
            }
        }
    }
}

/// Checks that the kind of system has the abilities that the workload needs.
fn can_do(sink: &mut DiagnosticSink<'_>, read: &ReadWorkload, of: &ReadSystem<'_>, kind: &Kind) {
    let system = &of.name;
    for (operation, at) in &read.mix_at {
        if !kind.operations.contains(operation) {
            let what = format!("system `{system}` cannot `{operation}`");
            sink.hint(at, what, abilities(kind));
        } else if let Some(why) = of.system.as_ref().and_then(|one| (kind.lacks)(one, *operation)) {
            let what = format!("system `{system}` cannot `{operation}`: {why}");
            let hint = "name those that can in the workload's `systems`";
            sink.hint(at, what, hint);
        }
    }
    for entry in &read.with {
        match kind.parameters.iter().find(|parameter| parameter.name == entry.key) {
            Some(parameter) => {
                option_value(sink, parameter.name, &parameter.form, &entry.node);
            }
            None => {
                let what =
                    format!("system `{system}` knows no `{}` to work with", shown(&entry.key));
                let names = kind.parameters.iter().map(|parameter| parameter.name);
                sink.hint(&entry.key_at, what, suggest(&entry.key, names, "it knows:"));
            }
        }
    }
    can_watch(sink, read, of, kind);
    let reading = read.mix_at.keys().any(|operation| operation.reads());
    if let Some(reads) = read.reads
        && reading
        && reads != ReadConsistency::Freshest
        && !kind.reads.contains(&reads)
    {
        let names: Vec<_> = kind.reads.iter().map(|reads| reads.name()).collect();
        let (what, hint) = match (read.says_reads, names.as_slice()) {
            (true, names) => (
                format!("system `{system}` has no `{reads}` reads"),
                format!("kind `{}` has reads that are {}", kind.name, list(names)),
            ),
            (false, names) => (
                format!(
                    "reads are `{reads}` unless a workload says otherwise, and system `{system}` has no such reads"
                ),
                format!("add `reads: {}`, or `reads: freshest`", names.join("`, or `reads: ")),
            ),
        };
        sink.hint(&read.reads_at, what, hint);
    }
    let group = read.workload.as_ref().and_then(Workload::group);
    if let Some(size) = read.value_size
        && size.saturating_mul(group.unwrap_or(1).into()) > kind.value_size_max
    {
        let in_one = group.map(|keys| format!(" in transactions of {keys}")).unwrap_or_default();
        let what = format!("values of {size} bytes{in_one} are too large for system `{system}`");
        let hint = format!("kind `{}` takes at most {} bytes", kind.name, kind.value_size_max);
        sink.hint(&read.value_size_at, what, hint);
    }
    let key_size = read.workload.as_ref().map(|workload| workload.keys.size);
    if let Some(size) = key_size.filter(|&size| size > kind.key_size_max) {
        let what = format!("keys of {size} bytes are too long for system `{system}`");
        let hint = format!("kind `{}` takes at most {} bytes", kind.name, kind.key_size_max);
        sink.hint(&read.key_size_at, what, hint);
    }
}

/// Checks that the kind of system has the watches that the workload needs.
fn can_watch(sink: &mut DiagnosticSink<'_>, read: &ReadWorkload, of: &ReadSystem<'_>, kind: &Kind) {
    let system = &of.name;
    let watchers = read.workload.as_ref().and_then(|workload| workload.watchers.as_ref());
    let Some(watchers) = watchers else { return };
    let at = &read.watchers_at;
    let Some(watches) = kind.watches_of(of.system.as_ref()) else {
        let what = format!("system `{system}` has no watches that bakeoff can use");
        let hint = "name the systems that have watches in the workload's `systems`";
        return sink.hint(at, what, hint);
    };
    if let Some(why) = of.system.as_ref().and_then(|one| (kind.lacks)(one, Operation::Watch)) {
        let what = format!("system `{system}` cannot notify watchers: {why}");
        return sink.hint(at, what, "name those that can in the workload's `systems`");
    }
    if watchers.previous && !watches.previous {
        let what = format!("events of system `{system}` never hold the value before the write");
        sink.hint(at, what, "leave `previous` out");
    }
    if watchers.of == WatchRange::Prefix && !watches.prefix {
        let what = format!("a watcher of system `{system}` cannot watch all keys");
        sink.hint(at, what, "write `of: key`");
    }
}

/// Checks that watchers which begin with old events find them, and only those of their own load.
fn has_history(
    sink: &mut DiagnosticSink<'_>,
    read: &ReadWorkload,
    of: &ReadSystem<'_>,
    kind: &Kind,
    clusters: Option<Clusters>,
) {
    let watchers = read.workload.as_ref().and_then(|workload| workload.watchers.as_ref());
    let (Some(watchers), Some(watches)) = (watchers, kind.watches_of(of.system.as_ref())) else {
        return;
    };
    if watchers.from == WatchStart::Now {
        return;
    }
    let (system, at) = (&of.name, &read.watchers_at);
    if !watches.oldest {
        let what = format!("a watcher of system `{system}` cannot begin with old events");
        sink.hint(at, what, "leave `from` out, or name those that can in the workload's `systems`");
        return;
    }
    let runs = of.system.as_ref().is_some_and(|system| system.servers != Servers::Started);
    let whose = match clusters {
        _ if runs => "runs already",
        Some(Clusters::Kept) => "is kept from trial to trial",
        _ => return,
    };
    let what = format!("system `{system}` {whose}, so its history holds events of other loads");
    sink.hint(at, what, "leave `from` out, or let bakeoff start a new cluster for each trial");
}

/// Checks that a workload's keys can be distinguished from foreign ones if they must be removed.
fn can_clear(
    sink: &mut DiagnosticSink<'_>,
    read: &ReadWorkload,
    workload: &Workload,
    of: &ReadSystem<'_>,
    clusters: Option<Clusters>,
) {
    let (size, least) = (workload.keys.size, prefixed_size(workload.keys.count));
    let stored = workload.mix.keys().any(|operation| operation.is_stored());
    if size >= least || !stored {
        return;
    }
    let whose = match (&of.system, clusters) {
        (Some(system), _) if system.servers != Servers::Started => "runs already",
        (_, Some(Clusters::Kept)) => "is kept from trial to trial",
        _ => return,
    };
    let what = format!(
        "keys of {size} bytes have no room for `{KEY_PREFIX}`, and system `{}` {whose}: they could not be printed from \
         others when they are removed",
        of.name
    );
    sink.hint(&read.key_size_at, what, format!("write `size: {least}` or more"));
}

/// Checks that unique keys last for `runs` runs of the load, as far as that is known. A closed load that ends by time
/// may still run out of them during the run.
fn enough_keys(
    sink: &mut DiagnosticSink<'_>,
    read: &ReadWorkload,
    workload: &Workload,
    (load, resolved): (&ReadLoad, &Load),
    runs: u64,
) {
    if workload.keys.order != KeyOrder::Unique {
        return;
    }
    let rate = resolved.arrivals.rate();
    let warm = rate.unwrap_or_default() * resolved.warmup.as_secs_f64();
    let measured = match (resolved.stop, rate) {
        (Stop::Operations(operations), _) => operations as f64,
        (Stop::After(time), Some(rate)) => rate * time.as_secs_f64(),
        (Stop::After(_), None) => return,
    };
    let needed = ((warm + measured) * runs as f64).ceil();
    let count = workload.keys.count;
    if needed > count as f64 {
        let what = format!(
            "load `{}` has {needed} operations, and workload `{}` has {count} unique keys",
            load.name, read.name
        );
        let mut hint = format!(
            "in `unique` order each key is touched once; write `count: {needed}`, or another order"
        );
        if load.usual_warmup && runs == 1 && measured.ceil() <= count as f64 {
            let usual = duration_text(resolved.warmup);
            hint = format!(
                "the usual warm-up of {usual} touches keys, too; write `count: {needed}`, or \
                 `warmup: 0s` in the load"
            );
        }
        sink.hint(&read.order_at, what, hint);
    }
}

/// Checks that a load with separate nodes for writes and reads can be divided between them.
fn splittable(
    sink: &mut DiagnosticSink<'_>,
    workload: &Workload,
    load: &ReadLoad,
    resolved: &Load,
) {
    if !resolved.targets.is_split() || !workload.can_split() {
        return;
    }
    if let KeyOrder::Latest { .. } = workload.keys.order {
        let what = format!(
            "workload `{}` reads what was written last, and load `{}` has clients of their own for writes",
            workload.name, load.name
        );
        let hint = "those who read would not know what was written; write `targets: all`";
        sink.hint(&load.targets_at, what, hint);
    }
    let places = load
        .clients_for_at
        .iter()
        .flat_map(|(system, places)| places.iter().zip(resolved.clients_on(system)));
    for (at, _) in
        load.clients_at.iter().zip(&resolved.clients).chain(places).filter(|one| *one.1 == 1)
    {
        let what = format!(
            "load `{}` has one client for the writes and the reads of workload `{}`",
            load.name, workload.name
        );
        let hint = "with `targets` of their own each needs one: write `clients: 2` or more";
        sink.hint(at, what, hint);
    }
    if let (Arrivals::Closed, Stop::Operations(_)) = (resolved.arrivals, resolved.stop) {
        let what = format!(
            "load `{}` ends by a count, and its writes and reads go at paces of their own",
            load.name
        );
        let hint =
            "one of the two would go on alone; write `stop: {after: 30s}`, or give it a `rate`";
        sink.hint(&load.stop_at, what, hint);
    }
}

/// Rejects operations of two requests if each operation has its own connection.
fn keeps_connections(
    sink: &mut DiagnosticSink<'_>,
    workload: &Workload,
    load: &ReadLoad,
    resolved: &Load,
) {
    let of_two = workload.mix.keys().find(|operation| operation.reads_first());
    if let (Some(operation), false) = (of_two, resolved.keep_alive) {
        let what = format!(
            "a `{operation}` of workload `{}` is two requests, and load `{}` has a connection for one",
            workload.name, load.name
        );
        sink.hint(&load.keep_alive_at, what, "leave `keep-alive` out");
    }
}

/// Rejects watchers of a load with several stages: each stage would create them anew.
fn watched_once(
    sink: &mut DiagnosticSink<'_>,
    workload: &Workload,
    load: &ReadLoad,
    resolved: &Load,
) {
    if let (Some(_), Some(second)) = (&workload.watchers, load.clients_at.get(1))
        && resolved.clients.len() > 1
    {
        let what = format!(
            "workload `{}` has watchers, and load `{}` has several stages",
            workload.name, load.name
        );
        sink.hint(second, what, "give each number of clients a load of its own");
    }
}

/// Rejects a `watch` by more clients than keys: a client's watcher would get the events of others.
fn watches_own_key(
    sink: &mut DiagnosticSink<'_>,
    read: &ReadWorkload,
    load: &ReadLoad,
    resolved: &Load,
) {
    let Some(workload) = &read.workload else { return };
    let most = resolved.clients.iter().copied().max().unwrap_or(0);
    if let Some(at) = read.mix_at.get(&Operation::Watch)
        && u64::from(most) > workload.keys.count
    {
        let what = format!(
            "each client of a `watch` has a key of its own, and load `{}` has {most} clients for {} keys",
            load.name, workload.keys.count
        );
        sink.hint(at, what, format!("write `count: {most}`, or use `watchers`"));
    }
}

/// Checks that the system can run under the load.
fn bearable(sink: &mut DiagnosticSink<'_>, read: &ReadLoad, load: &Load, system: &ReadSystem<'_>) {
    let followers =
        [true, false].map(|writes| load.targets.choose(writes)).contains(&Targets::Followers);
    if followers && system.nodes == Some(1) {
        let what = format!("system `{}` has one node, and so no followers", system.name);
        let many = system.kind.is_some_and(|kind| kind.nodes_max > 1);
        let hint = if many { "give it `nodes: 3`, or " } else { "" };
        sink.hint(&read.targets_at, what, format!("{hint}write `targets: all`"));
    }
    if let Some(kind) = system.kind
        && !load.keep_alive
        && !kind.connection_each
    {
        let what = format!("system `{}` cannot have a connection for each operation", system.name);
        let hint = format!(
            "a client of kind `{}` keeps what it agreed on with the server; leave `keep-alive` out",
            kind.name
        );
        sink.hint(&read.keep_alive_at, what, hint);
    }
    let places = read.clients_for_at.get(&system.name).unwrap_or(&read.clients_at);
    for short in load.too_few_operations(&system.name) {
        let at: &ByteRange = places.get(short.stage).unwrap_or(&read.stop_at);
        sink.hint(at, short.to_string(), short.hint());
    }
}

/// Returns why a client of a workload has one operation in flight; `None` if it may have several.
fn one_at_a_time(work: &ReadWorkload) -> Option<&'static str> {
    let has = |operation| work.mix_at.contains_key(&operation);
    match () {
        () if has(Operation::Lock) => Some("a client holds one lock at a time"),
        () if has(Operation::Move) => Some("a client has one transaction at a time"),
        () => None,
    }
}

/// Checks that the clients of each workload can have this many operations in flight.
fn in_flight<'w>(
    sink: &mut DiagnosticSink<'_>,
    read: &ReadLoad,
    load: &Load,
    system: &ReadSystem<'_>,
    mut works: impl Iterator<Item = &'w ReadWorkload> + Clone,
) {
    let Some(kind) = system.kind else { return };
    if load.in_flight > 1
        && let Some((work, why)) = works.clone().find_map(|work| Some((work, one_at_a_time(work)?)))
    {
        let what = format!(
            "{why}, and has {} operations of workload `{}` in flight",
            load.in_flight, work.name
        );
        sink.hint(&read.in_flight_at, what, "leave `in-flight` out; add clients");
    }
    let http2 = |work: &ReadWorkload| {
        work.workload.as_ref().is_some_and(|one| one.request().is_some_and(|request| request.http2))
    };
    let streams = works.all(http2);
    let most = if streams { kind.in_flight_max.max(STREAMS_MAX) } else { kind.in_flight_max };
    if load.in_flight > most {
        let in_flight = load.in_flight;
        let what = format!("system `{}` cannot have {in_flight} operations in flight", system.name);
        let client = format!("a client of kind `{}`", kind.name);
        let client = if streams { "a client over HTTP/2" } else { &client };
        let more = match most {
            1 if kind.takes_requests() => "; write `http2: true` in its request, or add clients",
            _ => "; add clients",
        };
        let hint = format!("{client} has at most {most}{more}");
        sink.hint(&read.in_flight_at, what, hint);
    }
}
