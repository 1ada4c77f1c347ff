//! `bakeoff start`: starts one system of a study as a trial would, for other tools to load.
//!
//! All its parts run, are ready and have their limits. The needs of a workload's operations, such as sessions, are set
//! up, but no keys are written and nothing is loaded. It prints the clients' addresses once all is ready, and never
//! prints secrets.
//!
//! It stops everything on a signal, after `--for`, or once no server is left. If some servers end, the others run on:
//! that is how a failover is rehearsed by hand. A line on standard input restarts them.
//!
//! Not here: starting (`bakeoff_trial::cluster`), loading (`run`, `load`).

mod stdin;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::study::{self, Study, Targets, Workload, suggest};
use bakeoff_core::units::duration_text;
use bakeoff_engine::tls::CaPem;
use bakeoff_engine::works::keyed::{KeyedState, StalenessTracking};
use bakeoff_files as files;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{LimitsApplied, Process};
use bakeoff_host::{NodeDisk, RemovedIfKilled};
use bakeoff_systems::location_plan::LocationPlan;
use bakeoff_systems::{Access, ClientToken};
use bakeoff_trial::cluster::contenders::{self, PreparedSystem};
use bakeoff_trial::cluster::{self, ClusterStart, ReadyCluster};
use bakeoff_trial::event::{Event, Reporter};
use serde_json::{Value, json};

use self::stdin::RestartRequests;
use crate::cli::StartArgs;
use crate::commands::study_file::load_study;
use crate::failure::Failure;
use crate::messages;
use bakeoff_fleet::machines::NodesOf;
use bakeoff_fleet::machines::fleet::Fleet;

/// Interval between checks for a reason to stop.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// Interval between probes after a restart.
const PROBE_EVERY: Duration = Duration::from_millis(500);
/// Seed of injected faults.
const SEED: u64 = 1;

/// Starts a system, prints its addresses, and waits.
pub(crate) fn run(
    args: &StartArgs,
    reporter: &mut dyn Reporter,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let mut study = load_study(&args.study)?;
    let chosen = chosen(&study, args.system.as_deref())?;
    study.systems = vec![chosen];
    let dir = tempfile::Builder::new()
        .prefix("bakeoff-start-")
        .tempdir()
        .map_err(|error| Failure::file("make a folder in", &std::env::temp_dir(), &error))?;
    let _removed = RemovedIfKilled::new(dir.path())?;
    match serve(&study, dir.path(), args, reporter, interrupted) {
        Err(failure) if !failure.is_interruption() => {
            // Keep the folder: the message names logs in it.
            let _ = dir.keep();
            Err(failure)
        }
        ended => ended,
    }
}

/// Returns the system to start: the named one, or the study's only one.
fn chosen(study: &Study, name: Option<&str>) -> Result<study::System, Failure> {
    let names = || study.systems.iter().map(|system| system.name.as_str());
    let found = match (name, study.systems.as_slice()) {
        (Some(name), systems) => systems.iter().find(|system| system.name == name),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    let found = found.ok_or_else(|| match name {
        Some(name) => Failure::input(
            format!("study `{}` has no system `{name}`", study.name),
            suggest(name, names(), "its systems:"),
        ),
        None => Failure::input(
            format!("study `{}` has several systems", study.name),
            format!("name one of {}", names().collect::<Vec<_>>().join(", ")),
        ),
    })?;
    if !found.is_started() {
        let at: Vec<String> =
            found.endpoints().iter().map(|one| format!("{}:{}", one.host, one.port)).collect();
        return Err(Failure::input(
            format!("system `{}` already runs at {}", found.name, at.join(", ")),
            "load it at that address; only systems without `endpoints` can be started",
        ));
    }
    Ok(found.clone())
}

/// Returns the workload to prepare for: the named one, or the system's first. `None` if it has no workload.
fn workload<'a>(
    study: &'a Study,
    system: &study::System,
    name: Option<&str>,
) -> Result<Option<&'a Workload>, Failure> {
    let mut done = study.workloads.iter().filter(|workload| workload.is_done_by(system));
    let Some(name) = name else { return Ok(done.next()) };
    let names = done.clone().map(|workload| workload.name.as_str());
    let unknown = || {
        Failure::input(
            format!("system `{}` does not run a workload `{name}`", system.name),
            suggest(name, names, "its workloads:"),
        )
    };
    done.find(|workload| workload.name == name).map(Some).ok_or_else(unknown)
}

fn serve(
    study: &Study,
    dir: &Path,
    args: &StartArgs,
    reporter: &mut dyn Reporter,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let workload = workload(study, &study.systems[0], args.workload.as_deref())?;
    let contenders = contenders::gather(study, dir, &Fleet::Local, (reporter, interrupted))?;
    let contender = contenders.first().expect("the study was cut down to one system");
    let mut ports = Allocator::new(args.ports.base_port);
    reporter.report(&Event::SystemStarting { system: &contender.study_system.name });
    let nodes = &dir.join("nodes");
    let (components, locating) = (&contender.components, &LocationPlan::here());
    let on = (&Fleet::Local, NodesOf::Trial);
    let of =
        ClusterStart { components, nodes, dir, seed: SEED, locating, on, disk: NodeDisk::Machine };
    let cluster = cluster::start_on_free_ports(of, &mut ports, interrupted, reporter, |_| {})?;
    for warning in &cluster.exposed() {
        reporter.report(&Event::Exposed { warning });
    }
    for limits in cluster.limits() {
        if let LimitsApplied::NotApplied { why } | LimitsApplied::Differs { why } = limits {
            reporter.report(&Event::LimitsMissing { why: &why });
        }
    }
    if let Some(workload) = workload {
        let keyed = KeyedState::new(workload, SEED, StalenessTracking::NotMeasured);
        let prepared = contender.system.prepare(cluster.first(), &cluster.nodes, workload, &keyed);
        prepared.map_err(|why| {
            let (system, workload) = (&contender.study_system.name, &workload.name);
            Failure::machine(format!("cannot prepare `{system}` for `{workload}`: {why}"))
        })?;
    }
    let mut started = describe(contender, &cluster, dir)?;
    started["workload"] = json!(workload.map(|workload| &workload.name));
    messages::output(&if args.json { started.to_string() } else { text(&started, args.time) });
    let ended = wait(&cluster, args.time, interrupted, reporter);
    cluster.stop();
    ended.map(|()| ExitCode::SUCCESS)
}

/// Waits for a signal, the end of `time`, or until no server is left. Reports servers that end, and restarts them on
/// request.
fn wait(
    cluster: &ReadyCluster,
    time: Option<Duration>,
    interrupted: &AtomicBool,
    reporter: &mut dyn Reporter,
) -> Result<(), Failure> {
    let began = clock::now();
    let mut requests = RestartRequests::default();
    let mut watch = Watch { cluster, reported: BTreeSet::new(), probe_at: None };
    while !interrupted.load(Ordering::Relaxed) {
        let ended = cluster.died();
        if let (Some(first), true) = (ended.first(), cluster.processes().count() == ended.len()) {
            return Err(Failure::unreachable(format!("{first}; bakeoff stopped everything else")));
        }
        watch.report_ended(requests.can_come(), reporter);
        if let Some(line) = requests.next() {
            watch.restart(line.trim(), reporter);
        }
        watch.probe(reporter);
        let left = time.map(|time| time.saturating_sub(began.elapsed()));
        if left == Some(Duration::ZERO) {
            break;
        }
        std::thread::sleep(left.unwrap_or(CHECK_EVERY).min(CHECK_EVERY));
    }
    Ok(())
}

/// Watches the servers of a started system.
struct Watch<'a> {
    cluster: &'a ReadyCluster,
    /// Names of ended servers that were reported.
    reported: BTreeSet<String>,
    /// Time of the next probe after a restart; `None` once all serve.
    probe_at: Option<Instant>,
}

impl Watch<'_> {
    /// Reports each ended server once.
    fn report_ended(&mut self, can_restart: bool, reporter: &mut dyn Reporter) {
        for process in self.cluster.processes() {
            let Some(ending) = process.ending() else { continue };
            if !self.reported.insert(process.name().to_owned()) {
                continue;
            }
            let hint = if can_restart { "; press Enter to restart it" } else { "" };
            let what = format!("`{}` {ending}; the other servers run on{hint}", process.name());
            reporter.report(&Event::ServersChanged { what: &what });
        }
    }

    /// Restarts the server with this name, or all that ended for an empty line.
    fn restart(&mut self, name: &str, reporter: &mut dyn Reporter) {
        let asked = |process: &&Process| name.is_empty() || process.name() == name;
        let ended = self.cluster.processes().filter(|process| !process.is_alive());
        let ended: Vec<&Process> = ended.filter(asked).collect();
        if ended.is_empty() {
            let what = match name {
                "" => "no server has ended".to_owned(),
                name => format!("no server `{name}` has ended"),
            };
            return reporter.report(&Event::ServersChanged { what: &what });
        }
        for process in ended {
            let what = match process.restart() {
                Ok(()) => {
                    self.reported.remove(process.name());
                    self.probe_at = Some(clock::now());
                    let pid = process.pid().map_or_else(String::new, |pid| format!(", pid {pid}"));
                    format!("`{}` was restarted{pid}", process.name())
                }
                Err(why) => format!("cannot restart `{}`: {why}", process.name()),
            };
            reporter.report(&Event::ServersChanged { what: &what });
        }
    }

    /// Probes the system after a restart, which also opens what starts closed, and reports that all serve.
    fn probe(&mut self, reporter: &mut dyn Reporter) {
        if !self.reported.is_empty() || self.probe_at.is_none_or(|at| at > clock::now()) {
            return;
        }
        self.probe_at = Some(clock::now() + PROBE_EVERY);
        if self.cluster.all_serve() {
            self.probe_at = None;
            reporter.report(&Event::ServersChanged { what: "all servers serve again" });
        }
    }
}

/// Returns the addresses as JSON. Writes the CA certificate and the client token to files, and names only the files.
fn describe(
    contender: &PreparedSystem<'_>,
    cluster: &ReadyCluster,
    dir: &Path,
) -> Result<Value, Failure> {
    let clients = cluster.targets(Targets::All).map_err(|why| Failure::machine(why.to_string()))?;
    let file = |name: &str, text: Option<&str>| {
        let Some(text) = text else { return Ok(None) };
        let path = dir.join(name);
        files::replace(&path, text.as_bytes(), files::PRIVATE)
            .map_err(|error| Failure::file("write", &path, &error))?;
        Ok::<_, Failure>(Some(path))
    };
    let ca = clients.iter().find_map(|node| node.memory.get::<CaPem>());
    let ca_file = file("ca.pem", ca.as_deref().map(|ca| &*ca.0))?;
    let token = clients.iter().find_map(|node| node.memory.get::<ClientToken>());
    let token_file = file("token", token.as_deref().map(|token| &*token.0))?;
    let speaks_http = contender.system.speaks_http();
    let url = |node: &Access| {
        let scheme = if node.target.tls.is_some() { "https" } else { "http" };
        speaks_http.then(|| format!("{scheme}://{}", node.authority))
    };
    let clients: Vec<Value> = clients
        .iter()
        .map(|node| {
            json!({
                "node": node.name,
                "address": node.authority,
                "url": url(node),
                "tls": node.target.tls.is_some(),
            })
        })
        .collect();
    let nodes: Vec<Value> = cluster
        .processes()
        .map(|process| {
            let ports = process.purposes().map(|(purpose, port)| (purpose.to_owned(), json!(port)));
            json!({
                "node": process.name(),
                "pid": process.pid(),
                "ports": Value::Object(ports.collect()),
            })
        })
        .collect();
    Ok(json!({
        "system": contender.study_system.name,
        "kind": contender.study_system.kind,
        "version": contender.record.version,
        "ready_after_seconds": cluster.after.as_secs_f64(),
        "leader": cluster.leader(),
        "clients": clients,
        "ca_file": ca_file,
        "token_file": token_file,
        "nodes": nodes,
        "folder": dir,
    }))
}

/// Returns the text form of [`describe`].
fn text(started: &Value, time: Option<Duration>) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let after = started["ready_after_seconds"].as_f64().unwrap_or_default();
    let mut lines = vec![format!("{} is ready after {after:.1} s", word(&started["system"]))];
    lines.push("clients connect to:".to_owned());
    for client in each(&started["clients"]) {
        let at = client["url"].as_str().or(client["address"].as_str()).unwrap_or_default();
        let tls = client["tls"] == true && client["url"].is_null();
        let tls = if tls { ", over TLS" } else { "" };
        lines.push(format!("  {at}  ({}{tls})", word(&client["node"])));
    }
    if let Some(workload) = started["workload"].as_str() {
        lines.push(format!("prepared for: {workload}"));
    }
    if let Some(leader) = started["leader"].as_str() {
        lines.push(format!("leader: {leader}"));
    }
    if let Some(file) = started["ca_file"].as_str() {
        lines.push(format!("CA certificate: {file}"));
    }
    if let Some(file) = started["token_file"].as_str() {
        lines.push(format!("client token: {file}"));
    }
    lines.push("servers:".to_owned());
    for node in each(&started["nodes"]) {
        let ports = node["ports"].as_object().into_iter().flatten();
        let ports: Vec<String> = ports.map(|(purpose, port)| format!("{purpose} {port}")).collect();
        lines.push(format!(
            "  {}  (pid {}; {})",
            word(&node["node"]),
            node["pid"],
            ports.join(", ")
        ));
    }
    lines.push(format!("data and logs: {}", word(&started["folder"])));
    lines.push(match time {
        None => "Ctrl-C stops it and deletes its data".to_owned(),
        Some(time) => {
            format!("it stops after {}, or by Ctrl-C, and deletes its data", duration_text(time))
        }
    });
    lines.join("\n")
}
