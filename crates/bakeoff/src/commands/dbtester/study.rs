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
    self, Build, DiagnosticSink, Diagnostics, SourcedStudy, StudyChanges, System,
    UncheckedSurroundings,
};
use bakeoff_core::units::{ByteCount, duration_text, plural};
use bakeoff_core::workload::{VALUE_SIZE_MIN, bare_size};
use bakeoff_systems as systems;
use serde_json::{Map, Value, json};

use super::ConfigFile;
use super::nodes::{self, Nodes};
use crate::cli::ControlArgs;
use crate::commands::gate;
use crate::failure::Failure;
use bakeoff_fleet::machines;

/// Timeout of an operation. dbtester had none.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum stages of a load.
const STAGES_MAX: usize = 100;
/// dbtester's default options for the programs.
const ETCD_DEFAULTS: [(&str, &str); 2] =
    [("snapshot_count", "100000"), ("quota_size_bytes", "8000000000")];
const ZOOKEEPER_DEFAULTS: [(&str, &str); 4] =
    [("tick_time", "2000"), ("init_limit", "5"), ("sync_limit", "5"), ("snap_count", "100000")];

/// Name, kind and fields of a system.
type DatabaseSystem = (String, &'static str, Value);

/// A study, and its relation to the configuration.
pub(super) struct StudyRequest<'a> {
    pub(super) sourced: SourcedStudy,
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
        let kind = group.database.product().name();
        let build = build(group, args)?;
        let mut system = json!({"kind": kind, "version": build.version, "program": build.program});
        match nodes.servers() {
            study::Servers::Started => {
                system["nodes"] = group.nodes.len().into();
                system["options"] = json!(options);
            }
            study::Servers::Running(endpoints) => {
                let urls = endpoints.iter().map(|one| format!("http://{}", one.authority()));
                system["endpoints"] = urls.collect();
            }
        }
        systems.push((name.clone(), kind, system));
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
    let (name, text) = whole(file, systems, works);
    let changes = StudyChanges { scale: args.scale, ..StudyChanges::default() };
    let of = (&*name, &*file.name, &*text);
    let sourced = SourcedStudy::read(of, changes, &systems::kinds(), &UncheckedSurroundings)
        .map_err(without_places)?;
    remarks(&databases, &sourced.study.systems, &mut notes);
    Ok(StudyRequest { sourced, databases, notes, places })
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

/// Returns the program or version of a database by `--build`.
fn build(group: &Group, args: &ControlArgs) -> Result<Build, Failure> {
    let database = group.database;
    let mut build = Build::default();
    for (of, asked) in &args.build {
        let known = Database::ALL.iter().map(|one| one.id());
        if Database::find(of).is_none() {
            let hint = study::suggest(of, known, "dbtester's databases:");
            return Err(Failure::input(
                format!("--build: `{of}` is not a dbtester database"),
                hint,
            ));
        }
        if of == database.id() {
            build = gate::build("--build", Some(asked), &[], Some(database.product().name()))?;
        }
    }
    Ok(build)
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

/// Returns the name and the text of the study. Its parts are JSON, which YAML includes.
fn whole(
    file: &ConfigFile,
    systems: Vec<DatabaseSystem>,
    works: Vec<EqualWork>,
) -> (String, String) {
    let config = &file.config;
    let stem = std::path::Path::new(&file.name).file_stem();
    let stem = stem.and_then(|stem| stem.to_str()).unwrap_or("dbtester").to_owned();
    let alone = works.len() == 1;
    let (mut workloads, mut loads) = (Vec::new(), Vec::new());
    let suffixes = suffixes(&systems, &works);
    for (EqualWork { work, clients }, suffix) in works.into_iter().zip(suffixes) {
        let load = format!("{}{suffix}", load_name(&work));
        let mut workload = workload(&work, &load);
        if !alone {
            workload["systems"] = clients.iter().map(|(system, _)| system.as_str()).collect();
        }
        workloads.push((format!("{}{suffix}", work.kind.word()), workload));
        loads.push((load, load_of(&work, &clients)));
    }
    let title = Some(config.title.trim()).filter(|title| !title.is_empty()).unwrap_or(&stem);
    let mut text = format!("title: {}\n", json!(title));
    if !config.description.trim().is_empty() {
        text += &format!("description: {}\n", json!(config.description.trim()));
    }
    let systems = systems.into_iter().map(|(name, _, system)| (name, system)).collect();
    for (section, entries) in [("systems", systems), ("workloads", workloads), ("loads", loads)] {
        text += &format!("{section}:\n");
        for (name, fields) in entries {
            text += &format!("  {name}: {}\n", without_nulls(fields));
        }
    }
    (stem, text + "trials: 1\n")
}

/// Returns a load with the clients of each system.
fn load_of(work: &Work, clients: &[(String, Vec<u32>)]) -> Value {
    let own = clients[1..].iter().filter(|(_, own)| *own != clients[0].1);
    let own: Map<String, Value> =
        own.map(|(system, clients)| (system.clone(), json!(clients))).collect();
    json!({
        "clients": clients[0].1,
        "clients-for": (!own.is_empty()).then_some(own),
        "rate": (work.rate > 0).then(|| format!("{}/s", work.rate)),
        "in-flight": work.in_flight,
        "stop": {"operations": work.requests},
        "warmup": "0s",
        "timeout": duration_text(TIMEOUT),
        "targets": "all",
        "keep-alive": if work.kind == WorkType::ReadOneshot { "off" } else { "on" },
    })
}

/// Returns a mapping without its entries of null.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let kept = entries.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.collect())
        }
        other => other,
    }
}

/// Returns a suffix per workload and load name: the products, numbered if they repeat. One workload has none.
fn suffixes(systems: &[DatabaseSystem], works: &[EqualWork]) -> Vec<String> {
    if works.len() == 1 {
        return vec![String::new()];
    }
    let mut suffixes: Vec<String> = Vec::new();
    for EqualWork { clients, .. } in works {
        let kind = |(name, _): &(String, _)| {
            systems.iter().find(|(own, ..)| own == name).map(|(_, kind, _)| *kind)
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

fn workload(work: &Work, load: &str) -> Value {
    let reads = work.kind != WorkType::Write;
    json!({
        "mix": if reads { json!({"get": 1}) } else { json!({"put": 1}) },
        "keys": {
            "count": if work.same_key { 1 } else { work.requests },
            "size": work.key_size,
            "order": if work.same_key { "same" } else { "unique" },
        },
        "values": {"size": work.value_size},
        "reads": reads.then_some(if work.stale_read { "stale" } else { "linearizable" }),
        "fill": reads,
        "loads": [load],
    })
}

/// Removes line numbers from diagnostics: they refer to the generated study, which the user has never seen.
fn without_places(diagnostics: Diagnostics) -> Failure {
    let mut diagnostics = diagnostics;
    diagnostics.0.iter_mut().for_each(|one| one.place = None);
    diagnostics.into()
}
