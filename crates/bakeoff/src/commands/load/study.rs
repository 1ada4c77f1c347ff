//! Describes a load as a study of one system of kind `http`, with a trial for each rate.
//!
//! The study holds no secrets: no header values, no bodies, and no password or token from a URL.
//!
//! Not here: the requests themselves (`requests`), a run on disk (`run_recorder`).

use std::collections::BTreeMap;
use std::time::Duration;

use bakeoff_core::plan::Trial;
use bakeoff_core::record::SystemRecord;
use bakeoff_core::schedule::Spacing;
use bakeoff_core::study::{
    Arrivals, Clusters, ERRORS_MAX, Endpoint, Find, HttpRequest, KeyOrder, Keys,
    LinearizabilityCheck, Load, Operation, Payload, ReadConsistency, Routing, Servers, Study,
    System, Targets, Tls, Workload,
};
use bakeoff_core::units::rate_text;
use bakeoff_engine::works::http::Url;
use bakeoff_systems as systems;
use bakeoff_trial::cluster::contenders::PreparedSystem;

use super::load_request::LoadRequest;
use super::settings::{Course, RequestShown, Settings};
use super::settings_text::requests_text;

/// Name of the run and its study.
pub(super) const NAME: &str = "load";
/// Name of the only system of the study.
const SYSTEM: &str = "service";
/// Name of the only workload of the study.
const WORKLOAD: &str = "requests";
/// Interval between two samples of generators and their machines.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Returns the trials of a load: one for each load of its study.
pub(super) fn order(study: &Study, seed: u64) -> Vec<Trial> {
    let trials = (0..).zip(&study.loads).map(|(number, load)| Trial {
        number,
        round: 0,
        system: SYSTEM.to_owned(),
        workload: WORKLOAD.to_owned(),
        load: load.name.clone(),
        seed: seed.wrapping_add(u64::from(number)),
    });
    trials.collect()
}

/// Returns the study's only system, prepared for a trial.
pub(super) fn contender<'a>(study: &'a Study, settings: &Settings) -> PreparedSystem<'a> {
    let study_system = &study.systems[0];
    let system = systems::by_kind(&study_system.kind).expect("it is in the registry");
    let endpoint = |one: &Endpoint| format!("{}:{}", one.host, one.port);
    let endpoints: Vec<String> = match &settings.unix_socket {
        Some(path) => vec![format!("unix:{path}")],
        None => study_system.endpoints().iter().map(endpoint).collect(),
    };
    let record = SystemRecord {
        name: study_system.name.clone(),
        kind: study_system.kind.clone(),
        already_running: true,
        source: Some(endpoints.join(", ")),
        tls_version: (study_system.endpoints().iter().any(|one| one.tls))
            .then(|| study_system.tls_text("TLS".to_owned())),
        nodes: study_system.nodes,
        guarantees: system.guarantees(study_system),
        ..SystemRecord::default()
    };
    PreparedSystem {
        study_system,
        found: study_system.clone(),
        system,
        components: Vec::new(),
        record,
    }
}

/// Returns the load as a study.
pub(super) fn study(load_request: &LoadRequest) -> Study {
    let settings = &load_request.settings;
    let title = requests_text(settings);
    let several = settings.requests.len() > 1;
    let all: Vec<&str> = settings.requests.iter().map(|request| &*request.name).collect();
    let loads = loads(load_request);
    let names = loads.iter().map(|load| load.name.clone()).collect();
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for request in &load_request.plan.requests {
        let Url { tls, host, port, .. } = &request.url;
        let endpoint = Endpoint { tls: *tls, host: host.clone(), port: *port };
        if !endpoints.contains(&endpoint) {
            endpoints.push(endpoint);
        }
    }
    let is_encrypted = endpoints.iter().any(|endpoint| endpoint.tls);
    Study {
        name: NAME.to_owned(),
        title,
        description: several.then(|| format!("Requests: {}.", all.join(", "))),
        systems: vec![System {
            name: SYSTEM.to_owned(),
            kind: "http".to_owned(),
            version: None,
            program: None,
            nodes: endpoints.len() as u32,
            options: BTreeMap::new(),
            limits: None,
            servers: Servers::Running(endpoints),
            metrics: Vec::new(),
            tls: (settings.insecure && is_encrypted)
                .then(|| Tls { insecure: true, ..Tls::default() }),
            credentials: None,
            parts: BTreeMap::new(),
            process: None,
        }],
        workloads: vec![Workload {
            name: WORKLOAD.to_owned(),
            mix: [(Operation::Request, 1)].into(),
            keys: Keys { count: 1, size: 64, order: KeyOrder::Same, per_directory: 0 },
            payload: Payload::Request(match &settings.requests[..] {
                [one] => request(one, settings),
                _ => of_all(settings),
            }),
            with: BTreeMap::new(),
            reads: ReadConsistency::Linearizable,
            fill: false,
            watchers: None,
            loads: names,
            systems: Vec::new(),
        }],
        loads,
        question: None,
        faults: Vec::new(),
        repeat: 1,
        trials: 1,
        audit_keys: 0,
        kill: None,
        linearizability: LinearizabilityCheck::Off,
        power_cuts: None,
        bit_flip: None,
        sample_every: SAMPLE_EVERY,
        clusters: Clusters::Fresh,
        publication: None,
        published: Vec::new(),
        quick: None,
        is_quick: false,
        scale: 1.0,
    }
}

/// Returns a request without its body and the values of its headers, which may be secret.
fn request(shown: &RequestShown, settings: &Settings) -> HttpRequest {
    let path = Url::parse(&shown.url).map_or_else(|_| "/".to_owned(), |url| url.target);
    let hidden = |name: &String| (name.clone(), "***".to_owned());
    HttpRequest {
        method: shown.method.clone(),
        path,
        headers: shown.header_names.iter().map(hidden).collect(),
        ..of_all(settings)
    }
}

/// Returns the settings that all requests share.
fn of_all(settings: &Settings) -> HttpRequest {
    let rows = settings.rows.clone().map(Box::new);
    HttpRequest { http2: settings.http2, rows, ..HttpRequest::default() }
}

/// Returns the loads of the study: one for each step, or a single one.
fn loads(load_request: &LoadRequest) -> Vec<Load> {
    let settings = &load_request.settings;
    let arrivals = |rate: f64| match settings.spacing {
        Spacing::Poisson => Arrivals::Poisson { rate },
        Spacing::Constant => Arrivals::Constant { rate },
    };
    let load = |name: String, arrivals: Arrivals| Load {
        name,
        clients: vec![settings.drive.clients],
        clients_for: BTreeMap::new(),
        arrivals,
        in_flight: settings.drive.in_flight,
        stop: settings.drive.stop,
        warmup: settings.drive.warmup,
        timeout: settings.drive.timeout,
        targets: Routing::Same(Targets::All),
        keep_alive: settings.keep_alive(),
        tls_resumption: true,
        errors_max: ERRORS_MAX,
        find: None,
    };
    match &settings.course {
        Course::Closed => vec![load("closed".to_owned(), Arrivals::Closed)],
        Course::Rate(rate) => vec![load("open".to_owned(), arrivals(*rate))],
        Course::Steps(rates) => rates
            .iter()
            .map(|&rate| load(format!("at-{}", rate_text(rate)), arrivals(rate)))
            .collect(),
        Course::FindMax { first, objective } => {
            let objective = objective.iter().map(ToString::to_string).collect();
            let find = Some(Find { objective });
            vec![Load { find, ..load("search".to_owned(), arrivals(*first)) }]
        }
        Course::Ramp(ramp) => {
            vec![load("ramp".to_owned(), arrivals(f64::midpoint(ramp.from, ramp.to)))]
        }
    }
}
