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

use bakeoff_agent::{Agent, AgentError, Hello, Request, Sent};
use bakeoff_core::places::{Machine, Places, Purpose, Reach, Takes, Tunnel};
use bakeoff_core::study::Study;
use bakeoff_core::units::{ByteCount, latency_text, plural};
use bakeoff_install::{Runtime, RuntimeFound};
use bakeoff_systems as systems;
use bakeoff_trial::run::refusals::homeless;

use super::catalogue::{self, MISSING};
use crate::failure::Failure;
use crate::messages;
use bakeoff_fleet::machines::describe::{DiskTold, MachineTold};
use bakeoff_fleet::machines::kubernetes::{self, ClusterTold, Pods};
use bakeoff_fleet::machines::{self, WALL_MAX, Within, order, tunnel};

/// Free bytes below which a machine for servers lacks space.
const FREE_MIN: u64 = 1 << 30;
/// Width of the first column.
const NAME: usize = 9;

/// Prints what the machines of a places file have, and what they lack for studies.
pub(crate) fn machines(
    asked: &[String],
    on: &Path,
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
    let studies = catalogue::asked_studies(asked)?;
    let (_, sent) = machines::sent(&places)?;
    let mut cluster = None;
    let mut pods = None;
    if let Some(kubernetes) = places.kubernetes.clone() {
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
    let homeless: Vec<_> = match places.kubernetes {
        None => studies.iter().filter_map(|(_, study)| homeless(study, &places)).collect(),
        Some(_) => Vec::new(),
    };
    let (here, complete) = catalogue::check_programs(&studies)?;
    let mut text = inspections.into_iter().map(Inspection::text).collect::<Vec<_>>().join("\n");
    let _ = write!(text, "\nPrograms on this machine, which sends them to the others:\n{here}");
    for (what, hint) in &homeless {
        let _ = write!(text, "\n{what}\n  hint: {hint}");
    }
    text.push_str(&match (lacking, complete) {
        _ if !homeless.is_empty() => String::new(),
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
    let lacks_nothing = lacking == 0 && complete && homeless.is_empty();
    Ok(if lacks_nothing { ExitCode::SUCCESS } else { ExitCode::from(MISSING) })
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
    /// True if this machine must connect to servers directly.
    direct: bool,
}

impl Needs {
    fn new(studies: &[(String, Study)], places: &Places, place: usize) -> Self {
        let mut needs = Self { direct: places.tunnel == Tunnel::Never, ..Self::default() };
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
    sent: &[Sent],
    needs: &Needs,
) -> Inspection {
    let mut inspection = Inspection { machine: machine.name.clone(), ..Inspection::default() };
    inspection.row("address", format!("{}, {}", machine.address, roles(machine)));
    let inspected = machines::begin(places, machine, sent, Within { pods, ..Within::default() })
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
        Takes::Nothing => None,
        Takes::Any => Some("takes servers".to_owned()),
        Takes::Roles(roles) => Some(format!("takes servers of {}", roles.join(", "))),
        Takes::Beside(home) => Some(format!("takes servers beside those of {home}")),
    };
    let generator = machine.generator.then(|| "generates load".to_owned());
    let all: Vec<String> = servers.into_iter().chain(generator).collect();
    if all.is_empty() { "unused".to_owned() } else { all.join(", ") }
}

fn inspect_agent(
    agent: &Agent,
    machine: &Machine,
    needs: &Needs,
    sent: &[Sent],
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
    if machine.servers != Takes::Nothing {
        let request = Request::Port { address: machine.address, base: None };
        match agent.ask::<u16>(&request) {
            Ok(port) => inspection.row("ports", format!("free at {}: {port}, …", machine.address)),
            Err(error) if error.is_loss() => return Err(error),
            Err(error) => {
                let text = error.to_string();
                let hint = text.lines().find_map(|line| line.strip_prefix("hint: "));
                inspection.lacks(text.as_str(), hint.unwrap_or("free ports from 17000 up"));
            }
        }
    }
    if machine.servers != Takes::Nothing && machine.reach != Reach::Here {
        match tunnel::reaches(agent, machine) {
            Ok(Ok(())) => inspection.row("connects", "this machine to it, directly"),
            Ok(Err(error)) if needs.direct => inspection.lacks(
                format!("a direct connection from this machine to {}: {error}", machine.address),
                "`tunnel: auto` in the places file connects through its agent",
            ),
            Ok(Err(error)) => {
                let at = machine.address;
                let text = format!("this machine to it through its agent ({at}: {error})");
                inspection.row("connects", text);
            }
            // The row for ports reports an address of another machine.
            Err(AgentError::Refused { .. }) => {}
            Err(error) => return Err(error),
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

fn version(hello: &Hello, sent: &[Sent]) -> String {
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
            if *free_bytes < FREE_MIN && machine.servers != Takes::Nothing {
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
            "run bakeoff as root there, or delegate a cgroup to its user",
        );
    }
}
