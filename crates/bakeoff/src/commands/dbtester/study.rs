//! Turns a dbtester configuration into a study.
//!
//! Databases with the same benchmark share a workload and a load, so that a run compares them. Their clients may
//! differ. Values that no study can have are rejected with the configuration's line.
//!
//! Not here: running it (`control`), machines of nodes (`nodes`).

use std::collections::BTreeMap;
use std::time::Duration;

use bakeoff_compat::dbtester::{Benchmark, Database, Flag, Group, Product, WorkType};
use bakeoff_core::places::{Places, Purpose};
use bakeoff_core::study::{
    self, Arrivals, Clusters, DiagnosticSink, Diagnostics, ERRORS_MAX, KeyOrder, Keys,
    LinearizabilityCheck, Load, Operation, Payload, ReadConsistency, Routing, Stop, Study, System,
    Targets, ValueSizes, Workload,
};
use bakeoff_core::units::{ByteCount, plural};
use bakeoff_core::workload::{VALUE_SIZE_MIN, bare_size};
use bakeoff_systems as systems;

use super::ConfigFile;
use super::nodes::{self, Nodes};
use crate::cli::ControlArgs;
use crate::commands::gate;
use crate::failure::Failure;
use bakeoff_fleet::machines;

/// Timeout of an operation. dbtester had none.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Keys that an audit reads back.
const AUDIT_KEYS: u64 = 10_000;
/// Maximum stages of a load.
const STAGES_MAX: usize = 100;
/// dbtester's default options for the programs.
const ETCD_DEFAULTS: [(&str, &str); 2] =
    [("snapshot_count", "100000"), ("quota_size_bytes", "8000000000")];
const ZOOKEEPER_DEFAULTS: [(&str, &str); 4] =
    [("tick_time", "2000"), ("init_limit", "5"), ("sync_limit", "5"), ("snap_count", "100000")];

/// A study, and its relation to the configuration.
pub(super) struct StudyRequest<'a> {
    pub(super) study: Study,
    pub(super) databases: Vec<PlannedDatabase<'a>>,
    /// Differences from the configuration.
    pub(super) notes: Vec<String>,
    /// Machines of `--on`, in node order.
    pub(super) places: Option<Places>,
}

/// A database of a configuration and its system.
pub(super) struct PlannedDatabase<'a> {
    pub(super) group: &'a Group,
    /// Name of the system in the study.
    pub(super) system: String,
    /// dbtester's clients per connection.
    pub(super) clients_each: u64,
    pub(super) nodes: Nodes,
}

/// The part of a benchmark that databases must share to be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Work {
    kind: WorkType,
    requests: u64,
    rate: u64,
    same_key: bool,
    key_size: u64,
    value_size: u64,
    stale_read: bool,
    stages: usize,
    in_flight: u32,
}

/// Load of one database.
struct Clients {
    work: Work,
    stages: Vec<u32>,
}

struct EqualWork {
    work: Work,
    /// Names of the systems, each with its clients by stage.
    clients: Vec<(String, Vec<u32>)>,
}

/// Returns the study of a configuration and command line.
pub(super) fn study_request<'a>(
    file: &'a ConfigFile,
    args: &ControlArgs,
) -> Result<StudyRequest<'a>, Failure> {
    let chosen = chosen(file, args)?;
    let on = args.options.on.as_deref();
    let places = on.map(|path| machines::read_places(path, Purpose::Run)).transpose()?;
    let mut sink = DiagnosticSink::new(file.name.as_str(), file.text.as_str());
    let mut notes = Vec::new();
    let mut databases = Vec::new();
    let mut systems = Vec::new();
    let mut works: Vec<EqualWork> = Vec::new();
    for group in chosen {
        let nodes = nodes::place(group, args.here, places.as_ref(), &mut sink);
        let clients = clients(group, &mut sink);
        let options = options(group, args, &mut sink, &mut notes);
        let (Some(nodes), Some(clients), Some(options)) = (nodes, clients, options) else {
            continue;
        };
        let name = system_name(group.database);
        let mut system = System {
            name: name.clone(),
            kind: group.database.product().name().to_owned(),
            version: None,
            program: None,
            nodes: u32::try_from(group.nodes.len()).unwrap_or(u32::MAX),
            options: if nodes.servers() == study::Servers::Started {
                options
            } else {
                BTreeMap::new()
            },
            limits: None,
            servers: nodes.servers(),
            metrics: Vec::new(),
            tls: None,
            credentials: None,
            parts: BTreeMap::new(),
            process: None,
        };
        built(&mut system, group, args)?;
        systems.push(system);
        let clients_each = u64::from(clients.work.in_flight);
        let own = (name.clone(), clients.stages);
        match works.iter_mut().find(|alike| alike.work == clients.work) {
            Some(alike) => alike.clients.push(own),
            None => works.push(EqualWork { work: clients.work, clients: vec![own] }),
        }
        databases.push(PlannedDatabase { group, system: name, clients_each, nodes });
    }
    if !sink.is_empty() {
        return Err(sink.into_diagnostics().into());
    }
    let places = match &places {
        None => None,
        Some(places) => {
            let ordered = nodes::in_order(places, databases.iter().map(|one| &one.nodes));
            Some(ordered.ok_or_else(|| {
                Failure::input(
                    "the databases use different machines, or the same in another order",
                    "run them one by one, each with `--database-id ID`",
                )
            })?)
        }
    };
    remarks(&databases, &systems, &mut notes);
    let mut study = whole(file, systems, works);
    study::recheck(&study, &file.name, &systems::kinds()).map_err(without_places)?;
    if let Some(scale) = args.scale {
        study = study.scaled(scale)?;
    }
    Ok(StudyRequest { study, databases, notes, places })
}

/// Returns the databases to run.
fn chosen<'a>(file: &'a ConfigFile, args: &ControlArgs) -> Result<Vec<&'a Group>, Failure> {
    let config = &file.config;
    let groups = || config.groups.iter();
    let Some(id) = &args.database_id else {
        let listed = |group: &&Group| {
            config.compared.is_empty() || config.compared.contains(&group.database)
        };
        return Ok(groups().filter(listed).collect());
    };
    match groups().find(|group| group.database.id() == id) {
        Some(group) => Ok(vec![group]),
        None => {
            let known = groups().map(|group| group.database.id());
            let hint = study::suggest(id, known, "its databases:");
            Err(Failure::input(format!("`{}` has no database `{id}`", file.name), hint))
        }
    }
}

/// Returns the system's name for a database: its id with hyphens, since study names have no underscores.
fn system_name(database: Database) -> String {
    database.id().replace("__", "-").replace('_', "-")
}

/// Returns the clients of a database. Reports benchmarks that no study can have.
fn clients(group: &Group, sink: &mut DiagnosticSink<'_>) -> Option<Clients> {
    let Benchmark { work, requests, connections, clients, steps, rate, .. } = &group.benchmark;
    let id = group.database.id();
    if matches!(group.database.product(), Product::Zetcd | Product::Cetcd) {
        let what = format!("the program of `{id}`, a proxy of 2016, is no longer available");
        let hint = "remove it from `all_database_id_list`, or choose another database with `--database-id`";
        sink.hint(&group.at, what, hint);
        return None;
    }
    if !group.steps.stress.value {
        let what = format!("`{id}` is not loaded, so there is nothing to measure");
        let hint = "set `step2_stress_database: true`, or use `bakeoff start` to start servers for other tools";
        sink.hint(&group.steps.stress.at, what, hint);
        return None;
    }
    let Some(kind) = work.value else {
        let what = format!("`type` of `{id}` must be `write`, `read` or `read-oneshot`");
        sink.add(&work.at, what);
        return None;
    };
    if requests.value == 0 {
        sink.add(&requests.at, format!("`request_number` of `{id}` must be 1 or more"));
        return None;
    }
    let sweep = !steps.is_empty();
    if sweep && rate.value > 0 {
        let what =
            format!("`{id}` has a rate and steps of clients; a load can have only one of them");
        sink.hint(
            &rate.at,
            what,
            "remove one; at a rate, clients only limit the concurrent requests",
        );
        return None;
    }
    if steps.len() > STAGES_MAX {
        sink.add(&steps[STAGES_MAX].at, format!("a load has at most {STAGES_MAX} steps"));
        return None;
    }
    let (stages, in_flight) = match sweep {
        true => (steps.iter().map(|step| (step.value, &step.at)).collect::<Vec<_>>(), 1),
        false if kind == WorkType::ReadOneshot => (vec![(clients.value, &clients.at)], 1),
        false if connections.value == 0 || clients.value <= connections.value => {
            (vec![(clients.value, &clients.at)], 1)
        }
        false if clients.value % connections.value != 0 => {
            let what = format!(
                "{} clients of `{id}` cannot share {} connections evenly",
                clients.value, connections.value
            );
            sink.hint(
                &clients.at,
                what,
                "dbtester gave some connections one more client; choose a multiple of `connection_number`",
            );
            return None;
        }
        false => (vec![(connections.value, &connections.at)], clients.value / connections.value),
    };
    limits(group, kind, in_flight, sink);
    let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
    let mut counts = Vec::new();
    for (count, at) in stages {
        let share = requests.value / if sweep { steps.len() as u64 } else { 1 };
        match u32::try_from(count) {
            Ok(0) => sink.add(at, format!("`{id}` has no clients")),
            Ok(count) if u64::from(count) * u64::from(in_flight) > share => {
                let what = format!(
                    "`{id}` has {} clients for only {share} requests",
                    u64::from(count) * u64::from(in_flight)
                );
                sink.hint(
                    at,
                    what,
                    "raise `request_number` or lower the clients; bakeoff does not change either",
                );
            }
            Ok(count) => counts.push(count),
            Err(_) => sink
                .add(at, format!("`{count}` clients are more than the maximum of 4,294,967,295")),
        }
    }
    let benchmark = &group.benchmark;
    let reads = kind != WorkType::Write;
    let work = Work {
        kind,
        requests: requests.value,
        rate: rate.value,
        same_key: reads || benchmark.same_key,
        key_size: benchmark.key_size.value,
        value_size: benchmark.value_size.value,
        stale_read: reads && benchmark.stale_read,
        stages: counts.len(),
        in_flight,
    };
    (!counts.is_empty()).then_some(Clients { work, stages: counts })
}

/// Reports limits that a benchmark exceeds: too few key names, value sizes, requests per connection, a connection for
/// each request.
fn limits(group: &Group, kind: WorkType, in_flight: u64, sink: &mut DiagnosticSink<'_>) {
    let Benchmark { work, requests, clients, key_size, value_size, same_key, .. } =
        &group.benchmark;
    let id = group.database.id();
    let keys = if *same_key || kind != WorkType::Write { 1 } else { requests.value };
    let least = bare_size(keys);
    if key_size.value < least {
        let what = format!("{keys} keys of {} bytes have too few names", key_size.value);
        sink.hint(&key_size.at, what, format!("write `key_size_bytes: {least}` or more"));
    }
    let kinds = systems::kinds();
    let product = group.database.product().name();
    let Some(own) = kinds.iter().find(|one| one.name == product) else { return };
    let most = own.value_size_max;
    if !(VALUE_SIZE_MIN..=most).contains(&value_size.value) {
        let what = format!(
            "values of `{id}` must have {VALUE_SIZE_MIN} to {most} bytes, not {}",
            value_size.value
        );
        sink.hint(&value_size.at, what, "bakeoff verifies each value, which needs this minimum");
    }
    if in_flight > u64::from(own.in_flight_max) {
        let what = format!("`{id}` can have at most {} clients per connection", own.in_flight_max);
        sink.hint(&clients.at, what, "raise `connection_number`");
    }
    if kind == WorkType::ReadOneshot && !own.connection_each {
        let what = format!("`{id}` uses sessions, so bakeoff opens none for a single request");
        sink.hint(&work.at, what, "write `type: read`");
    }
}

fn options(
    group: &Group,
    args: &ControlArgs,
    sink: &mut DiagnosticSink<'_>,
    notes: &mut Vec<String>,
) -> Option<BTreeMap<String, String>> {
    let given = |name: &str| group.flags.get(name);
    let mut options = BTreeMap::new();
    let mut put = |defaults: &[(&str, &str)], option: &str, flag: &str, unit: &str| {
        let default = defaults.iter().find(|(name, _)| *name == flag).map(|(_, value)| *value);
        if let Some(value) = given(flag).map(|flag| flag.value.as_str()).or(default) {
            options.insert(option.to_owned(), format!("{value}{unit}"));
        }
    };
    match group.database.product() {
        Product::Etcd => {
            put(&ETCD_DEFAULTS, "snapshot-count", "snapshot_count", "");
            put(&ETCD_DEFAULTS, "quota", "quota_size_bytes", "");
        }
        Product::Zookeeper => {
            put(&ZOOKEEPER_DEFAULTS, "tick-time", "tick_time", "ms");
            put(&ZOOKEEPER_DEFAULTS, "init-limit", "init_limit", "");
            put(&ZOOKEEPER_DEFAULTS, "sync-limit", "sync_limit", "");
            put(&ZOOKEEPER_DEFAULTS, "snap-count", "snap_count", "");
            put(&[], "jute-maxbuffer", "java_d_jute_max_buffer", "");
            if given("max_client_connections").is_some() {
                notes.push(
                    "`max_client_connections` is ignored: all clients share one address, so bakeoff removes \
                     ZooKeeper's limit"
                        .to_owned(),
                );
            }
            if let Some(heap) = heap(group, args, sink)? {
                options.insert("heap".to_owned(), heap);
            }
        }
        Product::Consul | Product::Zetcd | Product::Cetcd => {}
    }
    Some(options)
}

/// Returns the size of ZooKeeper's heap, if one is set. Reports an invalid size, and one that exceeds this machine's
/// memory, and returns `None`.
fn heap(
    group: &Group,
    args: &ControlArgs,
    sink: &mut DiagnosticSink<'_>,
) -> Option<Option<String>> {
    if let Some(heap) = &args.zookeeper_heap {
        return Some(Some(heap.clone()));
    }
    let flag = |name: &str| group.flags.get(name);
    let Some(Flag { value, at }) = flag("java_xmx").or(flag("java_xms")) else { return Some(None) };
    // Java's suffixes are powers of 1024.
    let size = match value.strip_suffix(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T']) {
        Some(number) => {
            let letter = value[number.len()..].to_ascii_uppercase();
            format!("{number}{letter}iB")
        }
        None => value.clone(),
    };
    let Ok(ByteCount(bytes)) = size.parse() else {
        sink.add(at, format!("`{value}` is not a Java heap size, such as `512m`"));
        return None;
    };
    let here = group.steps.start.value && args.options.on.is_none();
    let (nodes, memory) = (group.nodes.len() as u64, bakeoff_fleet::environment::memory_bytes());
    if here && memory > 0 && bytes.saturating_mul(nodes) > memory {
        let what = format!("{nodes} heaps of {value} exceed this machine's {}", ByteCount(memory));
        sink.hint(at, what, "set a smaller heap with `--zookeeper-heap 512MiB`");
        return None;
    }
    Some(Some(size))
}

/// Sets the program or version of a system by `--build`.
fn built(system: &mut System, group: &Group, args: &ControlArgs) -> Result<(), Failure> {
    let id = group.database.id();
    for (of, asked) in &args.build {
        let known = Database::ALL.iter().map(|one| one.id());
        if Database::find(of).is_none() {
            let hint = study::suggest(of, known, "dbtester's databases:");
            return Err(Failure::input(
                format!("--build: `{of}` is not a dbtester database"),
                hint,
            ));
        }
        if of == id {
            let build = gate::build("--build", Some(asked), &[], Some(&system.kind))?;
            system.program = build.program;
            system.version = build.version;
        }
    }
    Ok(())
}

/// Adds notes on differences from the configuration.
fn remarks(databases: &[PlannedDatabase<'_>], systems: &[System], notes: &mut Vec<String>) {
    let replaced: usize = databases
        .iter()
        .map(|planned| match planned.nodes {
            Nodes::Here { replaced } => replaced,
            Nodes::On(_) | Nodes::Running(_) => 0,
        })
        .sum();
    if replaced > 0 {
        notes.push(format!(
            "this machine replaces {} of the configuration: the nodes of a database and its clients share CPUs, disk \
             and loopback",
            plural(replaced as u64, "machine")
        ));
    }
    let alike = |one: &System, other: &System| {
        one.kind == other.kind && one.program == other.program && one.version == other.version
    };
    let started: Vec<&System> = systems.iter().filter(|system| system.is_started()).collect();
    for (place, one) in started.iter().enumerate() {
        if let Some(other) = started[place + 1..].iter().find(|other| alike(one, other)) {
            notes.push(format!(
                "`{}` and `{}` run the same program, because dbtester's ids select no version; set one with \
                 `--build ID=VERSION`",
                one.name, other.name
            ));
        }
    }
    for planned in databases {
        let (id, steps) = (planned.group.database.id(), &planned.group.steps);
        if steps.start.value && !steps.stop.value {
            notes.push(format!(
                "`step3_stop_database: false` of `{id}` is ignored: bakeoff leaves nothing running"
            ));
        }
        let Benchmark { connections, clients, steps, .. } = &planned.group.benchmark;
        if steps.is_empty() && clients.value < connections.value {
            notes.push(format!(
                "`{id}` has more connections than clients; bakeoff opens one per client"
            ));
        }
    }
    if databases.iter().any(|planned| planned.group.steps.upload.value) {
        notes.push(
            "bakeoff uploads nothing; the files are in the folder that `analyze` reads".to_owned(),
        );
    }
}

fn whole(file: &ConfigFile, systems: Vec<System>, works: Vec<EqualWork>) -> Study {
    let config = &file.config;
    let stem = std::path::Path::new(&file.name).file_stem();
    let stem = stem.and_then(|stem| stem.to_str()).unwrap_or("dbtester").to_owned();
    let alone = works.len() == 1;
    let mut workloads = Vec::new();
    let mut loads = Vec::new();
    let suffixes = suffixes(&systems, &works);
    for (EqualWork { work, clients }, suffix) in works.into_iter().zip(suffixes) {
        let load = Load {
            name: format!("{}{suffix}", load_name(&work)),
            clients: clients[0].1.clone(),
            clients_for: clients[1..]
                .iter()
                .filter(|(_, own)| *own != clients[0].1)
                .cloned()
                .collect(),
            arrivals: match work.rate {
                0 => Arrivals::Closed,
                rate => Arrivals::Constant { rate: rate as f64 },
            },
            in_flight: work.in_flight,
            stop: Stop::Operations(work.requests),
            warmup: Duration::ZERO,
            timeout: TIMEOUT,
            targets: Routing::Same(Targets::All),
            keep_alive: work.kind != WorkType::ReadOneshot,
            tls_resumption: true,
            errors_max: ERRORS_MAX,
            find: None,
        };
        let systems = clients.into_iter().map(|(system, _)| system).collect::<Vec<_>>();
        workloads.push(workload(&work, &load, &suffix, if alone { Vec::new() } else { systems }));
        loads.push(load);
    }
    let title =
        if config.title.trim().is_empty() { stem.clone() } else { config.title.trim().to_owned() };
    let description = Some(config.description.trim().to_owned()).filter(|text| !text.is_empty());
    Study {
        name: stem,
        title,
        description,
        systems,
        workloads,
        loads,
        question: None,
        faults: Vec::new(),
        repeat: 1,
        trials: 1,
        audit_keys: AUDIT_KEYS,
        kill: None,
        linearizability: LinearizabilityCheck::Off,
        power_cuts: None,
        bit_flip: None,
        sample_every: Duration::from_secs(1),
        clusters: Clusters::Fresh,
        publication: None,
        published: Vec::new(),
        quick: None,
        is_quick: false,
        scale: 1.0,
    }
}

/// Returns a suffix per workload and load name: the products, numbered if they repeat. One workload has none.
fn suffixes(systems: &[System], works: &[EqualWork]) -> Vec<String> {
    if works.len() == 1 {
        return vec![String::new()];
    }
    let mut suffixes: Vec<String> = Vec::new();
    for EqualWork { clients, .. } in works {
        let kind = |(name, _): &(String, _)| {
            systems.iter().find(|system| system.name == *name).map(|system| system.kind.as_str())
        };
        let mut kinds: Vec<&str> = clients.iter().filter_map(kind).collect();
        kinds.dedup();
        let base = format!("-{}", kinds.join("-"));
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let free =
            std::iter::once(base.clone()).chain(numbered).find(|one| !suffixes.contains(one));
        suffixes.extend(free);
    }
    suffixes
}

fn load_name(work: &Work) -> &'static str {
    match (work.stages, work.rate) {
        (2.., _) => "sweep",
        (_, 0) => "closed",
        _ => "rate",
    }
}

fn workload(work: &Work, load: &Load, suffix: &str, systems: Vec<String>) -> Workload {
    let reads = work.kind != WorkType::Write;
    let operation = if reads { Operation::Get } else { Operation::Put };
    Workload {
        name: format!("{}{suffix}", work.kind.word()),
        mix: BTreeMap::from([(operation, 1)]),
        keys: Keys {
            count: if work.same_key { 1 } else { work.requests },
            size: work.key_size,
            order: if work.same_key { KeyOrder::Same } else { KeyOrder::Unique },
            per_directory: 0,
        },
        payload: Payload::Values(ValueSizes::Fixed(work.value_size)),
        with: BTreeMap::new(),
        reads: match (reads, work.stale_read) {
            (false, _) => ReadConsistency::Default,
            (true, true) => ReadConsistency::Stale,
            (true, false) => ReadConsistency::Linearizable,
        },
        fill: reads,
        loads: vec![load.name.clone()],
        systems,
    }
}

/// Removes line numbers from diagnostics: they refer to the generated study, which the user has never seen.
fn without_places(diagnostics: Diagnostics) -> Failure {
    let mut diagnostics = diagnostics;
    diagnostics.0.iter_mut().for_each(|one| one.place = None);
    diagnostics.into()
}
