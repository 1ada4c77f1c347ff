//! Runs a load of etcd's benchmark: connects, loads, and prints the reports.
//!
//! Not here: options (`options`), calls and their verification (`calls`), the layout of reports (`report`).

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bakeoff_core::check;
use bakeoff_core::measurement::{Errors, Measurement, OperationFigures};
use bakeoff_core::schedule::{RateProfile, Spacing};
use bakeoff_core::secrets;
use bakeoff_core::units::{count_text, latency_text};
use bakeoff_engine::tls::{Pem, TlsOptions};
use bakeoff_engine::works::grpc::{CallSource, CallTargets, drive_calls};
use bakeoff_engine::works::http::{Protocol, Url, locate_within};
use bakeoff_engine::{Drive, LoadError};
use serde_json::{Value, json};

use super::calls::READ;
use super::control::Control;
use super::load::{Leases, Load};
use super::options::{Options, Task};
use super::password;
use super::perfdash;
use super::report::{self, Distribution, Precision, ReportFigures};
use super::seconds::SecondsByOperation;
use super::supervision::supervise;
use super::watches::{self, WatchSessions};
use crate::{Console, NOT_VALID};

/// Longest wait for a connection if the command line sets none. etcd's benchmark waits for ever.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for an answer outside of the load.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Most operations in flight on one connection, as in the engine's HTTP/2.
const IN_FLIGHT_MAX: u32 = 1 << 16;
/// Runs a load and prints its reports.
pub(super) fn run(
    options: &Options,
    sessions: WatchSessions,
    messages: &mut dyn Console,
    interrupted: &AtomicBool,
) -> Result<ExitCode, LoadError> {
    if options.auto_sync {
        messages.complain("--auto-sync-interval is not followed: the load keeps its endpoints");
    }
    let user = user(options, interrupted)?;
    let targets = targets(options)?;
    let targets = signed_in(targets, user, options, interrupted)?;
    let targets = match options.target_leader {
        true => leader(&targets, options, messages, interrupted)?,
        false => targets,
    };
    if let Task::Watch(task) = &options.task {
        return watches::run(options, task, &targets, sessions, messages, interrupted);
    }
    let load = Load::new(&options.task, rand::random());
    let drive = drive(options, &targets, messages)?;
    let slots = Some(options.clients.max(drive.clients));
    let targets = CallTargets { slots, ..targets };
    if let Some(consistency) = consistency(&options.task) {
        messages.output(&format!("bench with {consistency} range\n"));
    }
    let seconds: Arc<Mutex<SecondsByOperation>> = Arc::default();
    if let Load::Renewals(leases) = &load {
        grant(leases, options, &targets, &drive, interrupted)?;
    }
    let sources = &mut |_| -> Box<dyn CallSource> { load.source(options, drive.clients, &seconds) };
    let compaction = match options.task {
        Task::Put { compaction: Some(compaction), .. } => {
            Some((compaction, &targets, call_timeout(options)))
        }
        _ => None,
    };
    let patience = options.timeout + targets.connect_within;
    let ran = supervise(&[interrupted], patience, compaction, |stop, progress| {
        drive_calls(&targets, &drive, sources, stop, progress)
    });
    let (measurement, _) = ran.load?;
    ran.failures.iter().for_each(|failure| messages.complain(failure));
    if ran.gave_up {
        messages.complain(&format!(
            "the load ended early: no operation succeeded for {}",
            latency_text(patience)
        ));
    }
    let seconds = std::mem::take(&mut *seconds.lock().unwrap_or_else(PoisonError::into_inner));
    let code = conclude(options, &load, &targets, (&measurement, &seconds), messages, interrupted)?;
    let was_interrupted = measurement.interrupted && !ran.gave_up;
    Ok(if was_interrupted { ExitCode::from(LoadError::Interrupted.exit_code()) } else { code })
}

/// Returns name and password: of the command line, of the environment, or as the user types it.
fn user(
    options: &Options,
    interrupted: &AtomicBool,
) -> Result<Option<(String, String)>, LoadError> {
    let invalid =
        |what: &str| LoadError::input(format!("BAKEOFF_USER: {what}"), "it holds `NAME:PASSWORD`");
    let (name, password) = match &options.user {
        Some((name, Some(password))) => (name.clone(), password.clone()),
        Some((name, None)) => {
            let known = crate::user_of_environment().map_err(invalid)?;
            match known.filter(|(known, _)| known == name) {
                Some(user) => user,
                None => (name.clone(), asked(name, interrupted)?),
            }
        }
        None => match crate::user_of_environment().map_err(invalid)? {
            Some(user) => user,
            None => return Ok(None),
        },
    };
    secrets::note(&password);
    Ok(Some((name, password)))
}

fn asked(name: &str, interrupted: &AtomicBool) -> Result<String, LoadError> {
    password::ask(interrupted).map_err(|error| match error.kind() {
        std::io::ErrorKind::Interrupted => LoadError::Interrupted,
        _ => LoadError::input(
            format!("no password for `{name}`: {error}"),
            "without a terminal, set BAKEOFF_USER=NAME:PASSWORD",
        ),
    })
}

/// Resolves the endpoints and checks that each accepts a connection.
fn targets(options: &Options) -> Result<CallTargets, LoadError> {
    let tls = TlsOptions {
        ca: options.ca.clone().map(Pem::File),
        cert: options
            .cert
            .clone()
            .zip(options.key.clone())
            .map(|(cert, key)| (Pem::File(cert), Pem::File(key))),
        insecure: options.insecure,
    };
    let by_flags = options.ca.is_some() || options.cert.is_some();
    let connect_within = options.dial_timeout.unwrap_or(DIAL_TIMEOUT);
    let urls = options.endpoints.iter().map(|endpoint| url(endpoint, by_flags));
    let urls = urls.collect::<Result<Vec<_>, _>>()?;
    let config = match urls.iter().any(|url| url.tls) {
        true => Some(tls.config(Protocol::Two)?),
        false => None,
    };
    let mut targets = CallTargets {
        peers: Vec::new(),
        authorities: Vec::new(),
        metadata: Vec::new(),
        connect_within,
        slots: None,
    };
    for url in urls {
        let located = locate_within(&url, config.as_ref(), &[], connect_within)?;
        // A name may have several addresses. Go's client uses the first that accepts.
        targets.peers.extend(located.into_iter().next());
        targets.authorities.push(url.authority);
    }
    Ok(targets)
}

/// Returns an endpoint as a URL. Without a scheme, flags for TLS decide, as in etcd's client.
fn url(endpoint: &str, by_flags: bool) -> Result<Url, LoadError> {
    let with_scheme = match endpoint.contains("://") {
        true => endpoint.to_owned(),
        false if by_flags => format!("https://{endpoint}"),
        false => format!("http://{endpoint}"),
    };
    let hint = "write it as `host:port`, `http://host:port` or `https://host:port`";
    let invalid =
        |what: String| LoadError::input(format!("invalid endpoint `{endpoint}`: {what}"), hint);
    let url = Url::parse(&with_scheme).map_err(|error| invalid(error.to_string()))?;
    match url.target.as_str() {
        "/" if url.user.is_none() => Ok(url),
        _ => Err(invalid("it has more than a host and a port".to_owned())),
    }
}

/// Adds the token of a user to the metadata of all calls.
fn signed_in(
    targets: CallTargets,
    user: Option<(String, String)>,
    options: &Options,
    interrupted: &AtomicBool,
) -> Result<CallTargets, LoadError> {
    let Some((name, password)) = user else { return Ok(targets) };
    let control = Control::new(&targets, 0, call_timeout(options), interrupted);
    let token = control.token(&name, &password)?;
    secrets::note(&token);
    let metadata = vec![(bakeoff_wire::etcd::TOKEN.to_owned(), token)];
    Ok(CallTargets { metadata, ..targets })
}

pub(super) fn call_timeout(options: &Options) -> Duration {
    options.timeout.min(CALL_TIMEOUT)
}

/// Returns the leader as the only target: one of the endpoints, or a member that they name.
fn leader(
    targets: &CallTargets,
    options: &Options,
    messages: &mut dyn Console,
    interrupted: &AtomicBool,
) -> Result<CallTargets, LoadError> {
    let control = |server| Control::new(targets, server, call_timeout(options), interrupted);
    let mut leader = 0;
    for server in 0..targets.peers.len() {
        let status = control(server).status()?;
        leader = if status.leader == 0 { leader } else { status.leader };
        if status.leader != 0 && status.member == status.leader {
            return Ok(CallTargets {
                peers: vec![targets.peers[server].clone()],
                authorities: vec![targets.authorities[server].clone()],
                ..targets.clone()
            });
        }
    }
    let members = control(0).members()?;
    let url = members.iter().find(|member| member.id == leader && leader != 0);
    let Some(url) = url.and_then(|member| member.client_urls.first()) else {
        return Err(LoadError::Unreachable(
            "--target-leader: the cluster has no leader".to_owned(),
        ));
    };
    messages.step(&format!("the leader is at {url}"));
    let options = Options { endpoints: vec![url.clone()], ..options.clone() };
    let found = self::targets(&options)?;
    Ok(CallTargets { metadata: targets.metadata.clone(), ..found })
}

/// Grants a lease for each request in flight.
fn grant(
    leases: &Leases,
    options: &Options,
    targets: &CallTargets,
    drive: &Drive,
    interrupted: &AtomicBool,
) -> Result<(), LoadError> {
    let count = u64::from(options.clients);
    let once = Drive::once(count, drive.clients, drive.threads, call_timeout(options));
    let sources = &mut |_| leases.grants();
    let targets = CallTargets { slots: None, ..targets.clone() };
    let (measurement, _) = drive_calls(&targets, &once, sources, interrupted, &mut |_| {})?;
    if measurement.interrupted {
        return Err(LoadError::Interrupted);
    }
    match measurement.error_examples().next() {
        None => Ok(()),
        Some((_, example)) => Err(LoadError::Unreachable(format!(
            "{} of {count} leases were not granted: {}",
            measurement.error_count(),
            secrets::masked(&example.what)
        ))),
    }
}

/// Returns how a load reads, as etcd's benchmark prints it; `None` if it does not read.
fn consistency(task: &Task) -> Option<&'static str> {
    match task {
        Task::Range(range) | Task::TxnMixed { range, .. } => {
            Some(if range.serializable { "serializable" } else { "linearizable" })
        }
        Task::Put { .. }
        | Task::TxnPut { .. }
        | Task::Stm { .. }
        | Task::LeaseKeepalive
        | Task::Watch(_) => None,
    }
}

/// Configures the load. A closed load has a client for each connection of Go's client, which has one to each endpoint.
/// In an open load a client has one endpoint.
pub(super) fn drive(
    options: &Options,
    targets: &CallTargets,
    messages: &mut dyn Console,
) -> Result<Drive, LoadError> {
    let servers = u32::try_from(targets.peers.len()).unwrap_or(u32::MAX);
    let each = if options.rate.is_some() { servers } else { 1 };
    if options.clients < each {
        messages.complain(&format!(
            "{} requests may be in flight, not {}: with --rate, each of {servers} endpoints needs one",
            servers, options.clients
        ));
    }
    let slots = options.clients.max(each);
    let connections = options.connections.saturating_mul(each).min(slots);
    // The same number of connections for each endpoint.
    let connections = (connections / each).max(1) * each;
    let in_flight = slots.div_ceil(connections);
    if in_flight > IN_FLIGHT_MAX {
        return Err(LoadError::input(
            format!(
                "{in_flight} requests in flight on one connection are more than {IN_FLIGHT_MAX}"
            ),
            "use more --conns, or fewer --clients",
        ));
    }
    let sockets = connections.saturating_mul(servers / each);
    bakeoff_engine::open_files::raise_for(sockets)?;
    let threads = bakeoff_engine::open_files::cpus().max(1);
    let arrivals =
        options.rate.map(|rate| (RateProfile::Constant { rate: rate as f64 }, Spacing::Constant));
    let drive = Drive::once(options.total, connections, threads, options.timeout);
    Ok(Drive { clients: connections, in_flight, arrivals, ..drive })
}

/// Prints the reports, and on standard error what they hide.
fn conclude(
    options: &Options,
    load: &Load,
    targets: &CallTargets,
    (measurement, seconds): (&Measurement, &SecondsByOperation),
    messages: &mut dyn Console,
    interrupted: &AtomicBool,
) -> Result<ExitCode, LoadError> {
    let precision = precision(options);
    let operations = load.operations(options.command);
    let figures: Vec<ReportFigures> = (operations.iter().enumerate())
        .map(|(place, name)| figures(options, measurement, name, seconds.get(&place)))
        .collect();
    let mut is_complete = true;
    for (name, figures) in operations.iter().zip(&figures) {
        is_complete &= write_for_perfdash(name, figures, options, messages);
    }
    print(options, load, &figures, precision, messages);
    if let Task::Put { check_hash: true, .. } = options.task
        && !measurement.interrupted
    {
        is_complete &= hash(options, targets, messages, interrupted)?;
    }
    let remarks = from_due(options, measurement).into_iter().chain(load.remark()).collect();
    let is_sound = finish(options, measurement, remarks, None, messages)?;
    Ok(exit_code(is_complete && is_sound))
}

/// A report with its name for perfdash and its heading.
pub(super) struct NamedReport {
    pub(super) name: String,
    pub(super) heading: &'static str,
    pub(super) figures: ReportFigures,
}

/// Prints a report, and writes it for perfdash. Returns false if that failed.
pub(super) fn print_report(
    report: &NamedReport,
    options: &Options,
    messages: &mut dyn Console,
) -> bool {
    let NamedReport { name, heading, figures } = report;
    let is_written = write_for_perfdash(name, figures, options, messages);
    messages.output(&format!("{heading}{}", report::text(figures, precision(options))));
    is_written
}

fn precision(options: &Options) -> Precision {
    if options.precise { Precision::All } else { Precision::Four }
}

/// Writes a report for perfdash if the command line asks for it. Returns false if that failed.
fn write_for_perfdash(
    name: &str,
    figures: &ReportFigures,
    options: &Options,
    messages: &mut dyn Console,
) -> bool {
    if !options.perfdash {
        return true;
    }
    let written = perfdash::write(name, &figures.times, &bakeoff_clock::wall::utc_now());
    match &written {
        Ok(path) => {
            messages.output(&format!("Successfully created a JSON perf report at {path}\n"));
        }
        Err(error) => {
            messages.complain(&format!("cannot write the report for perfdash: {error}"));
        }
    }
    written.is_ok()
}

/// Prints remarks and warnings on standard error, and writes the JSON. Returns true if the load succeeded.
pub(super) fn finish(
    options: &Options,
    measurement: &Measurement,
    remarks: Vec<String>,
    watchers: Option<Value>,
    messages: &mut dyn Console,
) -> Result<bool, LoadError> {
    remarks.iter().for_each(|line| messages.step(line));
    let warnings = warnings(measurement);
    warnings.iter().for_each(|warning| messages.complain(warning));
    let notes: Vec<String> = remarks.into_iter().chain(warnings).collect();
    if let Some(path) = &options.json {
        write_json(path, options, (measurement, watchers), &notes)?;
    }
    let is_clean = measurement.error_count() == 0 && measurement.verified() > 0;
    Ok(is_clean && !measurement.interrupted)
}

/// Returns the exit code of a load.
pub(super) fn exit_code(is_valid: bool) -> ExitCode {
    if is_valid { ExitCode::SUCCESS } else { ExitCode::from(NOT_VALID) }
}

fn print(
    options: &Options,
    load: &Load,
    figures: &[ReportFigures],
    precision: Precision,
    messages: &dyn Console,
) {
    for (place, figures) in figures.iter().enumerate() {
        let text = report::text(figures, precision);
        match &options.task {
            _ if load.has_two_reports() => {
                let name = if place == READ { "Read" } else { "Write" };
                let errors: u64 = figures.errors.iter().map(|(count, _)| count).sum();
                let count = figures.times.count() + errors;
                messages.output(&format!("Total {name} Ops: {count}\nDetails:{text}\n"));
            }
            Task::Range(_) | Task::Stm { .. } | Task::LeaseKeepalive => messages.output(&text),
            _ => messages.output(&format!("{text}\n")),
        }
    }
}

/// Returns the figures of one operation as etcd's benchmark has them: times of successes, from when they were sent.
pub(super) fn figures(
    options: &Options,
    measurement: &Measurement,
    operation: &str,
    seconds: Option<&std::collections::BTreeMap<i64, report::SecondPoint>>,
) -> ReportFigures {
    let none = OperationFigures::default();
    let of = measurement.operations.get(operation).unwrap_or(&none);
    let points =
        || seconds.into_iter().flatten().map(|(&second, &point)| (second, point)).collect();
    ReportFigures {
        times: Distribution::new(of.service.recorded()),
        total: measurement.window,
        seconds: options.sample.then(points),
        errors: of.errors.iter().flat_map(|(kind, errors)| texts(kind.name(), errors)).collect(),
    }
}

/// Returns the texts of one kind of failure, each with its number.
fn texts(kind: &str, errors: &Errors) -> Vec<(u64, String)> {
    let in_line = |text: &str| text.replace(char::is_control, " ");
    let mut examples = errors.examples.iter().map(|example| &*example.what);
    let first = examples.next();
    if let Some(first) = first.filter(|first| examples.all(|other| other == *first))
        && errors.texts.len() <= 1
    {
        return vec![(errors.count, in_line(first))];
    }
    let mut texts: Vec<(u64, String)> =
        errors.texts.iter().map(|one| (one.count, in_line(&one.text))).collect();
    let others = errors.count - texts.iter().map(|(count, _)| count).sum::<u64>().min(errors.count);
    if others > 0 {
        texts.push((others, kind.to_owned()));
    }
    texts
}

/// Returns the times of an open load from when its operations were due, in one sentence.
pub(super) fn from_due(options: &Options, measurement: &Measurement) -> Option<String> {
    options.rate?;
    let total = measurement.total();
    let responses = total.responses();
    let percentile = |quantile| match responses.percentile(quantile).latency() {
        Some(latency) => latency_text(latency),
        None => "unknown".to_owned(),
    };
    Some(format!(
        "counted from when each operation was due, failures last: median {}, p99 {}; the report counts from when it was \
         sent",
        percentile(0.5),
        percentile(0.99)
    ))
}

/// Returns what the reports hide of the load, in sentences.
fn warnings(measurement: &Measurement) -> Vec<String> {
    let mut warnings = Vec::new();
    let total = measurement.total();
    let failed = total.error_count();
    if failed > 0 {
        let all = total.verified + failed;
        warnings.push(format!(
            "{} of {} operations failed; the times and Requests/sec are those of the others",
            count_text(failed),
            count_text(all)
        ));
    }
    warnings.extend(check::gave_out(measurement));
    warnings.extend(measurement.watch.as_deref().and_then(check::watch_faults));
    warnings.extend(check::events_waited(measurement));
    warnings.extend(crate::findings(measurement));
    warnings
}

/// Prints the hash of the first endpoint's keys, and compares the others'. Returns false if one differs.
fn hash(
    options: &Options,
    targets: &CallTargets,
    messages: &mut dyn Console,
    interrupted: &AtomicBool,
) -> Result<bool, LoadError> {
    let control = |server| Control::new(targets, server, call_timeout(options), interrupted);
    let began = bakeoff_clock::now();
    let (hash, revision) = control(0).hash(0)?;
    let size = control(0).status()?.size;
    let took = report::duration(bakeoff_clock::now().saturating_duration_since(began));
    let endpoint = &options.endpoints[0];
    messages.output(&format!(
        "HashKV Summary:\n\tHashKV: {hash}\n\tEndpoint: {endpoint}\n\tTime taken to get hashkv: {took}\n\tDB size: {}\n",
        report::bytes(size)
    ));
    let mut is_same = true;
    for server in 1..targets.peers.len() {
        let (other, _) = control(server).hash(revision)?;
        if other != hash {
            is_same = false;
            messages.complain(&format!(
                "`{}` has other keys than `{endpoint}`: its HashKV at revision {revision} is {other}, not {hash}",
                targets.authorities[server]
            ));
        }
    }
    Ok(is_same)
}

/// Writes all figures and notes as JSON.
fn write_json(
    path: &Path,
    options: &Options,
    (measurement, watchers): (&Measurement, Option<Value>),
    notes: &[String],
) -> Result<(), LoadError> {
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let of = |figures: &OperationFigures| {
        let (responses, services) = (figures.responses(), figures.services());
        let quantile = |quantile| {
            json!({
                "from_due_seconds": seconds(responses.percentile(quantile).latency()),
                "from_sent_seconds": seconds(services.percentile(quantile).latency()),
            })
        };
        json!({
            "verified": figures.verified,
            "failed": figures.error_count(),
            "p50": quantile(0.5),
            "p90": quantile(0.9),
            "p99": quantile(0.99),
            "p99.9": quantile(0.999),
        })
    };
    let operations: serde_json::Map<_, _> =
        measurement.operations.iter().map(|(name, figures)| (name.clone(), of(figures))).collect();
    let mut all = json!({
        "command": options.command,
        "version": env!("CARGO_PKG_VERSION"),
        "endpoints": options.endpoints,
        "connections": options.connections,
        "clients": options.clients,
        "rate": options.rate,
        "total": options.total,
        "requests_per_second": measurement.throughput(),
        "operations": operations,
        "notes": notes,
        "measurement": measurement,
    });
    if let Some(watchers) = watchers {
        all["watchers"] = watchers;
    }
    let text = format!("{all:#}\n");
    bakeoff_files::replace(path, text.as_bytes(), 0o644)
        .map_err(|error| LoadError::Machine(format!("cannot write `{}`: {error}", path.display())))
}
