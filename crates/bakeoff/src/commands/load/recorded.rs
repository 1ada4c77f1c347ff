//! A load as a run: with `--out` its trials are recorded, judged and shown as those of a study are.
//!
//! A load at one rate is a run of one trial, a search too; each of `--steps` is a trial under a load of its
//! own. What was asked stands in the record as a study of one system of kind `http`, without anything that
//! may be secret: no header's value, no body, no password or token of a URL.
//!
//! Not here: driving (`mod`), what the terminal shows (`text`), a record on disk (`run_folder`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bakeoff_clock::wall::utc_now;
use bakeoff_core::observed::PhaseName;
use bakeoff_core::plan::Trial;
use bakeoff_core::record::{
    FORMAT, GeneratorPart, RecordLine, RunEnd, RunHeader, StageRecord, SystemRecord, TrialOutcome,
    TrialRecord,
};
use bakeoff_core::schedule::Spacing;
use bakeoff_core::search::{Found, Tried};
use bakeoff_core::study::{
    Arrivals, Clusters, ERRORS_MAX, Endpoint, Find, HttpRequest, KeyOrder, Keys, Load, Operation,
    Payload, ReadConsistency, Routing, Servers, Study, System, Targets, Tls, Workload,
};
use bakeoff_core::units::rate_text;
use bakeoff_engine::moments::MomentSender;
use bakeoff_engine::works::http::Url;

use super::ask::Asked;
use super::result::{Began, Part};
use super::settings::{Course, RequestShown, Settings};
use super::settings_text::requests_text;
use super::shared::SAMPLE_EVERY;
use crate::commands::report::Rendering;
use crate::commands::run_folder::{self, RunFolder};
use crate::environment;
use crate::failure::Failure;
use crate::machines::Machines;
use crate::machines::record::note_parts;
use crate::systems;
use crate::trial;
use crate::trial::sampling::{Judged, Sampling};
use crate::trial::verdicts::together_check;

/// The name of the run and its study.
const NAME: &str = "load";
/// The study's names for what was loaded, and with what.
const SYSTEM: &str = "service";
const WORKLOAD: &str = "requests";

/// A run that a load leaves.
pub(super) struct Recorded<'a> {
    folder: RunFolder,
    /// Absolute, since the sampler looks at the disk that it is on.
    path: PathBuf,
    header: RunHeader,
    /// The number of trials that have ended.
    ended: usize,
    under_way: Option<UnderWay<'a>>,
    /// The machines that share the load, where it is shared.
    machines: Option<&'a Machines>,
}

/// A trial that goes on.
struct UnderWay<'a> {
    sampling: Sampling<'a>,
    started: String,
}

impl<'a> Recorded<'a> {
    /// Makes a run's folder in `out`, and describes what was asked and the machine.
    pub(super) fn begin(
        out: &Path,
        asked: &Asked,
        open_files: u64,
        machines: Option<&'a Machines>,
    ) -> Result<Self, Failure> {
        let folder = RunFolder::create(out, NAME)?;
        let path = std::path::absolute(&folder.path)
            .map_err(|error| Failure::file("use", &folder.path, &error))?;
        let study = study(asked);
        let settings = &asked.settings;
        let mut environment =
            environment::describe(&path, settings.drive.threads, open_files, false)?;
        environment.shared_machine = environment::is_machine_shared();
        if let Some(machines) = machines {
            environment.machines = machines.describe(settings.drive.threads)?;
        }
        let system = &study.systems[0];
        let kind = systems::by_kind(&system.kind).expect("it is in the registry");
        let endpoint = |one: &Endpoint| format!("{}:{}", one.host, one.port);
        let endpoints: Vec<String> = match &settings.unix_socket {
            Some(path) => vec![format!("unix:{path}")],
            None => system.endpoints().iter().map(endpoint).collect(),
        };
        let record = SystemRecord {
            name: system.name.clone(),
            kind: system.kind.clone(),
            already_running: true,
            source: Some(endpoints.join(", ")),
            tls_version: (system.endpoints().iter().any(|one| one.tls))
                .then(|| system.tls_text("TLS".to_owned())),
            nodes: system.nodes,
            guarantees: kind.guarantees(system),
            ..SystemRecord::default()
        };
        let order = (0..).zip(&study.loads).map(|(number, load)| Trial {
            number,
            round: 0,
            system: SYSTEM.to_owned(),
            workload: WORKLOAD.to_owned(),
            load: load.name.clone(),
            seed: settings.drive.seed.wrapping_add(u64::from(number)),
        });
        let header = RunHeader {
            format: FORMAT,
            bakeoff: env!("CARGO_PKG_VERSION").to_owned(),
            bakeoff_sha256: crate::environment::own_sha256(),
            started: utc_now(),
            seed: settings.drive.seed,
            order: order.collect(),
            environment,
            systems: vec![record],
            gate: None,
            study,
        };
        Ok(Self { folder, path, header, ended: 0, under_way: None, machines })
    }

    /// The next trial begins.
    ///
    /// # Errors
    /// When a machine is lost.
    pub(super) fn trial_begins(&mut self) -> Result<(), Failure> {
        let mut sampling = Sampling::begin(&self.path, SAMPLE_EVERY);
        if let Some(machines) = self.machines {
            sampling.watch_machines(machines)?;
        }
        sampling.phase(PhaseName::Load);
        self.under_way = Some(UnderWay { sampling, started: utc_now() });
        Ok(())
    }

    /// Returns the samples of the trial under way.
    pub(super) fn sampling(&self) -> Option<&Sampling<'a>> {
        Some(&self.under_way.as_ref()?.sampling)
    }

    /// Returns whom the engine tells when a part of the trial is measured, and when that part begins.
    pub(super) fn part_begins(&self) -> Option<(MomentSender, f64)> {
        let sampling = &self.under_way.as_ref()?.sampling;
        Some((sampling.moments(), sampling.seconds()))
    }

    /// Returns when a part of the trial began.
    pub(super) fn began(&self, moments: &MomentSender, connecting: f64) -> Began {
        let trial = self.under_way.as_ref();
        Began {
            connecting,
            measured: trial.and_then(|trial| trial.sampling.measured_from(moments)),
        }
    }

    /// Writes down the trial that has ended: its parts, each with the rate that it tried where one was
    /// looked for, and what was found. Returns why it is not valid.
    pub(super) fn trial_ends<'p>(
        &mut self,
        parts: impl Iterator<Item = (&'p Part, Option<Tried>)>,
        found: Option<Found>,
        interrupted: bool,
    ) -> Result<Vec<String>, Failure> {
        let Some(under_way) = self.under_way.take() else { return Ok(Vec::new()) };
        let header = &self.header;
        let load = &header.study.loads[self.ended];
        let mut shares: Vec<Vec<GeneratorPart>> = Vec::new();
        let stages = parts.map(|(part, tried)| {
            shares.push(part.generators.iter().map(|one| one.part.clone()).collect());
            stage(part, tried, load)
        });
        let mut record = TrialRecord {
            targets: header.systems[0].source.iter().cloned().collect(),
            stages: stages.collect(),
            outcome: if interrupted { TrialOutcome::Interrupted } else { TrialOutcome::Completed },
            found,
            ..trial::begun(&header.order[self.ended], under_way.started)
        };
        let mut sampled = under_way.sampling.end();
        if let (Some(error), false) = (sampled.unseen.take(), interrupted) {
            let is_loss = error.is_loss();
            let headline = Failure::from(error).headline();
            record.outcome = match is_loss {
                true => TrialOutcome::MachineLost(headline),
                false => TrialOutcome::Failed(headline),
            };
        }
        let (study, shared_machine) = (&header.study, header.environment.shared_machine);
        let judged = Judged { study, asked: &study.systems[0], load, shared_machine };
        let mut record = sampled.judge_load(judged, record);
        record.checks.push(sampled.clock_check());
        record.observed = Some(sampled.merged());
        record.machines = sampled.machines;
        record.checks.extend(together_check(&shares, &record));
        note_parts(&mut record.machines, self.machines, shares);
        let reasons = record.invalid_because();
        if self.ended == 0 {
            self.folder.push(&RecordLine::Run(self.header.clone()))?;
        }
        self.folder.push(&RecordLine::Trial(record))?;
        self.ended += 1;
        Ok(reasons)
    }

    /// Ends the run and writes its reports; returns where the page and the run are. `None` where nothing
    /// was measured, which leaves no folder.
    pub(super) fn end(mut self, interrupted: bool) -> Result<Option<(PathBuf, PathBuf)>, Failure> {
        if self.ended == 0 {
            return Ok(None);
        }
        let complete = self.ended == self.header.order.len() && !interrupted;
        self.folder.push(&RecordLine::End(RunEnd { ended: utc_now(), complete }))?;
        let rendering = Rendering::new(run_folder::read(&self.folder.path)?.0);
        let page = rendering.write_all(&self.folder.path)?;
        Ok(Some((page, self.folder.path.clone())))
    }
}

/// A part of a load as a stage of a trial.
fn stage(part: &Part, tried: Option<Tried>, load: &Load) -> StageRecord {
    let mut measurement = part.measurement.clone();
    // One request is the operation that the workload has; several keep their own names.
    if measurement.operations.len() == 1 {
        let named = |(_, figures)| (Operation::Request.name().to_owned(), figures);
        measurement.operations = measurement.operations.into_iter().map(named).collect();
        for second in &mut measurement.seconds {
            let of = std::mem::take(&mut second.operations).into_values();
            second.operations = of.map(|one| (Operation::Request.name().to_owned(), one)).collect();
        }
    }
    StageRecord {
        clients: load.clients[0],
        began: part.began.connecting,
        measured_from: part.began.measured,
        measurement,
        tried,
    }
}

/// Describes the load as a study.
fn study(asked: &Asked) -> Study {
    let settings = &asked.settings;
    let title = requests_text(settings);
    let several = settings.requests.len() > 1;
    let all: Vec<&str> = settings.requests.iter().map(|request| &*request.name).collect();
    let loads = loads(asked);
    let names = loads.iter().map(|load| load.name.clone()).collect();
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for request in &asked.plan.requests {
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
            loads: names,
            systems: Vec::new(),
        }],
        loads,
        trials: 1,
        audit_keys: 0,
        kill: None,
        sample_every: SAMPLE_EVERY,
        clusters: Clusters::Fresh,
        publication: None,
        published: Vec::new(),
        scale: 1.0,
    }
}

/// A request without anything that may be secret.
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

/// Describes what all requests share.
fn of_all(settings: &Settings) -> HttpRequest {
    let rows = settings.rows.clone().map(Box::new);
    HttpRequest { http2: settings.http2, rows, ..HttpRequest::default() }
}

/// Describes the load as the loads of a study: one, or one for each step.
fn loads(asked: &Asked) -> Vec<Load> {
    let settings = &asked.settings;
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
        Course::Ramp(_) => unreachable!("a ramp is refused with `--out`"),
    }
}
