//! `bakeoff doctor --on`: checks each machine of a places file for what studies need.
//!
//! It checks all machines in parallel. An unreachable machine does not hide the results of the others.
//!
//! Not here: checking this machine (`catalogue`), describing a machine (`bakeoff_fleet::machines::describe`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_agent::{Agent, AgentError, AgentExecutable, Hello, Request};
use bakeoff_core::places::{Machine, Places, Purpose, Reach, ServerSelection, Tunnel};
use bakeoff_core::study::Study;
use bakeoff_core::units::{ByteCount, latency_text, plural};
use bakeoff_install::{Runtime, RuntimeFound};
use bakeoff_systems as systems;
use bakeoff_trial::run::misfits::{Misfit, misfits};
use bakeoff_trial::run::refusals::{DISKS_HINT, SPACE_MIN};
use serde_json::{Value, json};

use super::catalogue::{self, MISSING, RunLocation};
use crate::failure::Failure;
use crate::messages;
use bakeoff_fleet::machines::describe::{DiskTold, MachineTold};
use bakeoff_fleet::machines::kubernetes::{self, ClusterTold, Pods};
use bakeoff_fleet::machines::{self, RunSurroundings, WALL_MAX, order, tunnel};

/// Width of the first column.
const NAME: usize = 9;

/// Prints what the machines of a places file have, and what they lack for studies, or writes it as JSON.
pub(crate) fn machines(
    asked: &[String],
    on: &Path,
    json: bool,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let mut places = machines::read_places(on, Purpose::Doctor)?;
    if !places.ssh.is_empty() {
        let words = places.ssh.join(" ");
        messages::warn(&format!(
            "`{}` adds options to `ssh`, which may execute commands: {words}",
            on.display()
        ));
    }
    let asked = catalogue::asked_studies(asked)?;
    let refused = asked.iter().flat_map(|(name, study)| {
        misfits(study, &places).into_iter().map(move |misfit| (name.clone(), misfit))
    });
    let refused: Vec<(String, Misfit)> = refused.collect();
    let is_refused = |name: &String| refused.iter().any(|(refused, _)| refused == name);
    let studies: Vec<(String, Study)> =
        asked.into_iter().filter(|(name, _)| !is_refused(name)).collect();
    let (_, sent) = machines::sent(&places)?;
    let mut cluster = None;
    let mut pods = None;
    if let Some(kubernetes) = places.kubernetes.clone().filter(|_| !studies.is_empty()) {
        let survey = kubernetes::survey(&kubernetes)?;
        if survey.missing.is_empty() {
            let all: Vec<&Study> = studies.iter().map(|(_, study)| study).collect();
            let made = Pods::make(&kubernetes, ("doctor", &all), interrupted)?;
            places.machines = made.machines();
            pods = Some(made);
        }
        cluster = Some(Inspection::from(survey));
    }
    let inspections: Vec<Inspection> = std::thread::scope(|scope| {
        let inspections: Vec<_> = (0..places.machines.len())
            .map(|place| {
                let needs = Needs::new(&studies, &places, place);
                let (places, sent, pods) = (&places, &sent, pods.as_ref());
                scope.spawn(move || inspect(places, (&places.machines[place], pods), sent, &needs))
            })
            .collect();
        inspections
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    drop(pods);
    let inspections: Vec<Inspection> = cluster.into_iter().chain(inspections).collect();
    let lacking = inspections.iter().filter(|inspection| !inspection.missing.is_empty()).count();
    let lacks = catalogue::lacks(&studies, RunLocation::Places)?;
    let complete = catalogue::is_complete(&lacks);
    let lacks_nothing = lacking == 0 && complete && refused.is_empty();
    let code = if lacks_nothing { ExitCode::SUCCESS } else { ExitCode::from(MISSING) };
    if json {
        let refused = refused.iter().map(
            |(study, Misfit { what, hint })| json!({"study": study, "reason": what, "fix": hint}),
        );
        messages::output(&messages::json(&json!({
            "format": 1,
            "complete": lacks_nothing,
            "machines": inspections.iter().map(Inspection::json).collect::<Vec<_>>(),
            "studies": catalogue::json_of(&lacks),
            "refused": refused.collect::<Vec<_>>(),
        })));
        return Ok(code);
    }
    let mut text = inspections.into_iter().map(Inspection::text).collect::<Vec<_>>().join("\n");
    if !lacks.is_empty() {
        let here = catalogue::text_of(&lacks);
        let _ = write!(text, "\nPrograms on this machine, which sends them to the others:\n{here}");
    }
    for (study, Misfit { what, hint }) in &refused {
        let _ = write!(text, "\n{study} cannot run there: {what}\n  fix: {hint}\n");
    }
    text.push_str(&match (lacking, complete) {
        (0, true) if !refused.is_empty() => String::new(),
        (0, true) => "\nNothing is missing.".to_owned(),
        (0, false) => "\n`bakeoff run` fetches these programs itself where it can.".to_owned(),
        _ if places.kubernetes.is_some() && places.machines.is_empty() => {
            "\nNo pods were made: fix what the cluster lacks first.".to_owned()
        }
        (lacking, _) => {
            let of = plural(places.machines.len() as u64, "machine");
            format!("\n{lacking} of {of} cannot be used until this is fixed.")
        }
    });
    messages::output(&text);
    Ok(code)
}

/// Result of checking a machine.
#[derive(Default)]
struct Inspection {
    machine: String,
    rows: Vec<(&'static str, String)>,
    /// Each missing thing with its fix.
    missing: Vec<(String, String)>,
}

impl From<ClusterTold> for Inspection {
    fn from(survey: ClusterTold) -> Self {
        Self { machine: "Kubernetes".to_owned(), rows: survey.rows, missing: survey.missing }
    }
}

impl Inspection {
    fn row(&mut self, name: &'static str, value: impl Into<String>) {
        self.rows.push((name, value.into()));
    }

    fn lacks(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.missing.push((what.into(), fix.into()));
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        let missing = |(what, fix): &(String, String)| json!({"what": what, "fix": fix});
        json!({
            "machine": self.machine,
            "has": rows.collect::<serde_json::Map<_, _>>(),
            "missing": self.missing.iter().map(missing).collect::<Vec<_>>(),
        })
    }

    fn text(self) -> String {
        let mut text = format!("{}\n", self.machine);
        for (name, value) in &self.rows {
            let _ = writeln!(text, "  {name:NAME$} {value}");
        }
        for (what, fix) in &self.missing {
            let mut lines = what.lines();
            let first = lines.next().unwrap_or_default();
            let _ = writeln!(text, "  {:NAME$} {first}", "missing");
            for line in lines.filter(|line| !line.starts_with("hint: ")) {
                let _ = writeln!(text, "  {:NAME$} {line}", "");
            }
            let _ = writeln!(text, "  {:NAME$} {fix}", "fix");
        }
        text
    }
}

/// Needs of studies that bakeoff cannot send to a machine.
#[derive(Default)]
struct Needs {
    /// Oldest major version that each runtime needs, and the kinds that need it.
    runtimes: BTreeMap<Runtime, (u32, Vec<String>)>,
    /// Systems with CPU or memory limits.
    limited: Vec<String>,
    /// Reason why this machine must connect to servers directly, as a fix; `None` if it may use their agents.
    direct: Option<&'static str>,
    /// First system whose disks break.
    breaks_disks: Option<String>,
}

/// Fixes for a machine that this one cannot connect to.
const OWN_LOAD: &str = "generate no load on this machine: a load never uses a tunnel";
const OWN_TUNNEL: &str = "`tunnel: auto` in the places file connects through its agent";

impl Needs {
    fn new(studies: &[(String, Study)], places: &Places, place: usize) -> Self {
        let drives = places.machines.iter().any(|one| one.reach == Reach::Here && one.generator);
        let direct = match places.tunnel {
            _ if drives => Some(OWN_LOAD),
            Tunnel::Never => Some(OWN_TUNNEL),
            Tunnel::Auto | Tunnel::Always => None,
        };
        let broken = studies.iter().find_map(|(_, study)| study.with_disk_faults());
        // A run asks every machine that takes servers.
        let broken = broken.filter(|_| places.machines[place].is_home());
        let breaks_disks = broken.map(|system| system.name.clone());
        let mut needs = Self { direct, breaks_disks, ..Self::default() };
        let systems = studies.iter().flat_map(|(_, study)| &study.systems);
        for system in systems.filter(|system| system.is_started()) {
            for (role, part) in systems::by_role(system) {
                if !places.servers_of(role, &part.kind).contains(&place) {
                    continue;
                }
                let limits = part.limits.as_ref();
                if limits.is_some_and(|limits| limits.cpu.is_some() || limits.memory.is_some()) {
                    needs.limited.push(part.name.clone());
                }
                let recipe = systems::recipe_for(part);
                let Some((runtime, least)) = recipe.and_then(|recipe| recipe.shape.runtime())
                else {
                    continue;
                };
                let (oldest, of) = needs.runtimes.entry(runtime).or_default();
                *oldest = least.max(*oldest);
                if !of.contains(&part.kind) {
                    of.push(part.kind.clone());
                }
            }
        }
        needs
    }
}

/// Checks a machine, as far as it can be reached.
fn inspect(
    places: &Places,
    (machine, pods): (&Machine, Option<&Pods>),
    sent: &[AgentExecutable],
    needs: &Needs,
) -> Inspection {
    let mut inspection = Inspection { machine: machine.name.clone(), ..Inspection::default() };
    inspection.row("address", format!("{}, {}", machine.address, roles(machine)));
    if let Some(at) = &machine.listed_at {
        inspection.row("listed", at.clone());
    }
    let inspected = machines::begin(
        places,
        machine,
        sent,
        RunSurroundings { pods, ..RunSurroundings::default() },
    )
    .and_then(|agent| inspect_agent(&agent, machine, needs, sent, &mut inspection));
    if let Err(error) = inspected {
        let text = error.to_string();
        let hint = text.lines().find_map(|line| line.strip_prefix("hint: "));
        inspection
            .lacks(text.as_str(), hint.unwrap_or("check that the machine is up, and try again"));
    }
    inspection
}

fn roles(machine: &Machine) -> String {
    let servers = match &machine.servers {
        ServerSelection::Nothing => None,
        ServerSelection::Any => Some("takes servers".to_owned()),
        ServerSelection::Roles(roles) => Some(format!("takes servers of {}", roles.join(", "))),
        ServerSelection::Adjacent(home) => Some(format!("takes servers next to those of {home}")),
    };
    let generator = machine.generator.then(|| "generates load".to_owned());
    let all: Vec<String> = servers.into_iter().chain(generator).collect();
    if all.is_empty() { "unused".to_owned() } else { all.join(", ") }
}

fn inspect_agent(
    agent: &Agent,
    machine: &Machine,
    needs: &Needs,
    sent: &[AgentExecutable],
    inspection: &mut Inspection,
) -> Result<(), AgentError> {
    let hello = agent.hello();
    inspection.row("bakeoff", version(hello, sent));
    let offset = agent.offset()?;
    let trip = offset.error * 2;
    let data = machine.data.as_ref().map(PathBuf::from);
    let description = order::describe(agent, data)?;
    let ahead = offset.wall_ahead;
    inspection.row("host", format!("{}, {} {}", hello.host, description.kernel, description.arch));
    inspection.row("trip", format!("{} round trip, the shortest of 40", latency_text(trip)));
    inspection.row("clock", clock_text(ahead));
    if ahead.abs() > WALL_MAX.as_secs_f64() {
        inspection.lacks(
            format!("its clock differs from this machine's by {:.0} s", ahead.abs()),
            "synchronise both clocks (`chronyd`, `systemd-timesyncd`)",
        );
    }
    let memory = ByteCount(description.memory_bytes);
    inspection.row("has", format!("{}, {memory} of memory", plural(hello.cpus as u64, "CPU")));
    inspection.row("user", if hello.root { "root" } else { "not root" });
    disk(&description, machine, inspection);
    match &machine.node {
        None => limits(&description, needs, inspection),
        Some(node) => {
            let own = order::container_limits(agent)?;
            inspection.row("node", node.clone());
            inspection.row(
                "limits",
                format!("its pod has {own}; servers get their limits from their own pods"),
            );
        }
    }
    if machine.servers != ServerSelection::Nothing {
        let request = Request::Port { address: machine.address, base: None };
        match agent.ask::<u16>(&request) {
            Ok(port) => inspection.row(
                "ports",
                format!(
                    "free at {}: {port}, …; servers listen from 17000 up, or from `--base-port N` up",
                    machine.address
                ),
            ),
            Err(error) if error.is_loss() => return Err(error),
            Err(error) => {
                let text = error.to_string();
                let hint = text.lines().find_map(|line| line.strip_prefix("hint: "));
                inspection.lacks(text.as_str(), hint.unwrap_or("free ports from 17000 up"));
            }
        }
    }
    if machine.servers != ServerSelection::Nothing && machine.reach != Reach::Here {
        match tunnel::reaches(agent, machine) {
            Ok(Ok(())) => inspection.row("connects", "this machine to it, directly"),
            Ok(Err(error)) => {
                let at = machine.address;
                match needs.direct {
                    Some(fix) => inspection.lacks(
                        format!("a direct connection from this machine to {at}: {error}"),
                        fix,
                    ),
                    None => inspection.row(
                        "connects",
                        format!("this machine to it through its agent ({at}: {error})"),
                    ),
                }
            }
            // The row for ports reports an address of another machine.
            Err(AgentError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(system) = &needs.breaks_disks {
        match agent.ask::<Option<String>>(&Request::LacksOwnDisks)? {
            None => inspection.row("disks", "can break"),
            Some(why) => inspection.lacks(
                format!("a file system whose disk breaks, needed by {system}: {why}"),
                DISKS_HINT,
            ),
        }
    }
    for (&runtime, (least, of)) in &needs.runtimes {
        match order::find_runtime(agent, runtime, *least)? {
            Ok(found) => {
                let RuntimeFound { program, version } = found;
                inspection.row(runtime.program(), format!("{version}, {}", program.display()));
            }
            Err(seen) => inspection.lacks(
                format!(
                    "{} {least} or newer, needed by {}: {seen}",
                    runtime.name(),
                    of.join(" and ")
                ),
                match &machine.node {
                    None => format!("install it on `{}`: bakeoff sends no runtimes", machine.name),
                    Some(_) => format!(
                        "set `image` to one that has it, or `images: {{{}: …}}`",
                        of.join(": …, ")
                    ),
                },
            ),
        }
    }
    Ok(())
}

fn version(hello: &Hello, sent: &[AgentExecutable]) -> String {
    let same = match sent.iter().any(|one| one.sha256 == hello.sha256) {
        true => "the one sent",
        false => "not the one sent",
    };
    let hash = hello.sha256.get(..12).unwrap_or(&hello.sha256);
    format!("{} (SHA-256 {hash}…, {same})", hello.version)
}

fn clock_text(ahead: f64) -> String {
    let side = if ahead < 0.0 { "behind" } else { "ahead of" };
    match ahead.abs() {
        apart if apart < 0.1 => "within 0.1 s of this machine's".to_owned(),
        apart => format!("{apart:.2} s {side} this machine's"),
    }
}

fn disk(description: &MachineTold, machine: &Machine, inspection: &mut Inspection) {
    let data = description.data.display();
    match &description.disk {
        DiskTold::Works { file_system, free_bytes, sync_median_us } => {
            let free = ByteCount(*free_bytes);
            let sync = latency_text(Duration::from_secs_f64(sync_median_us / 1e6));
            inspection
                .row("disk", format!("{data}: {file_system}, {free} free, a sync takes {sync}"));
            if *free_bytes < SPACE_MIN && machine.servers != ServerSelection::Nothing {
                inspection.lacks(
                    format!("space in `{data}`: only {free} free"),
                    "free some, or set `data` in the places file to another folder",
                );
            }
        }
        DiskTold::Fails(why) => inspection.lacks(
            format!("a writable folder for data: {why}"),
            format!("create `{data}`, or set `data` in the places file to another folder"),
        ),
    }
}

fn limits(description: &MachineTold, needs: &Needs, inspection: &mut Inspection) {
    let one = |limit: &bakeoff_host::LimitSupport| match &limit.refused {
        None => format!("{} can be applied", limit.limit),
        Some(why) => format!("{} cannot: {why}", limit.limit),
    };
    inspection.row("limits", description.limits.iter().map(one).collect::<Vec<_>>().join("; "));
    let refused = description.limits.iter().any(|limit| limit.refused.is_some());
    if refused && !needs.limited.is_empty() {
        inspection.lacks(
            format!("limits, needed by {}", needs.limited.join(" and ")),
            "run bakeoff as root there, or delegate a cgroup to its user (docs/machines.md: limits without root)",
        );
    }
}
