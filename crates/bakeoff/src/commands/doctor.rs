//! `bakeoff doctor --on`: each machine of a places file, and what it lacks for studies.
//!
//! Machines are looked at side by side, and one that cannot be reached keeps none of the others from being told of.
//!
//! Not here: what this machine lacks (`catalogue`), what a machine says of itself (`bakeoff_fleet::machines::describe`).

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
use bakeoff_fleet::machines::{self, WALL_MAX, order, tunnel};

/// Free space below which a machine that takes servers is said to lack some.
const FREE_MIN: u64 = 1 << 30;
/// The width of the first column.
const NAME: usize = 9;

/// Says what the machines of a places file have, and what they lack for studies.
pub(crate) fn machines(
    asked: &[String],
    on: &Path,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let mut places = machines::read_places(on, Purpose::Doctor)?;
    let studies = catalogue::asked_studies(asked)?;
    let (_, sent) = machines::sent(&places)?;
    let mut cluster = None;
    let mut pods = None;
    if let Some(kubernetes) = places.kubernetes.clone() {
        let told = kubernetes::survey(&kubernetes)?;
        if told.missing.is_empty() {
            let all: Vec<&Study> = studies.iter().map(|(_, study)| study).collect();
            let made = Pods::make(&kubernetes, ("doctor", &all), interrupted)?;
            places.machines = made.machines();
            pods = Some(made);
        }
        cluster = Some(Look::from(told));
    }
    let looks: Vec<Look> = std::thread::scope(|scope| {
        let looks: Vec<_> = (0..places.machines.len())
            .map(|place| {
                let needs = Needs::new(&studies, &places, place);
                let (places, sent, pods) = (&places, &sent, pods.as_ref());
                scope.spawn(move || look(places, (&places.machines[place], pods), sent, &needs))
            })
            .collect();
        looks
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    drop(pods);
    let looks: Vec<Look> = cluster.into_iter().chain(looks).collect();
    let lacking = looks.iter().filter(|look| !look.missing.is_empty()).count();
    let homeless: Vec<_> = match places.kubernetes {
        None => studies.iter().filter_map(|(_, study)| homeless(study, &places)).collect(),
        Some(_) => Vec::new(),
    };
    let (here, complete) = catalogue::looked_at(&studies)?;
    let mut text = looks.into_iter().map(Look::text).collect::<Vec<_>>().join("\n");
    let _ = write!(text, "\nPrograms on this machine, which sends them:\n{here}");
    for (what, hint) in &homeless {
        let _ = write!(text, "\n{what}\n  hint: {hint}");
    }
    text.push_str(&match (lacking, complete) {
        _ if !homeless.is_empty() => String::new(),
        (0, true) => "\nNothing is missing.".to_owned(),
        (0, false) => "\n`bakeoff run` fetches by itself what bakeoff can fetch.".to_owned(),
        _ if places.kubernetes.is_some() && places.machines.is_empty() => {
            "\nNo pods were made to look at: the cluster cannot be used as it is.".to_owned()
        }
        (lacking, _) => {
            let of = plural(places.machines.len() as u64, "machine");
            format!("\nOf {of} {lacking} cannot be used as it is.")
        }
    });
    messages::output(&text);
    let lacks_nothing = lacking == 0 && complete && homeless.is_empty();
    Ok(if lacks_nothing { ExitCode::SUCCESS } else { ExitCode::from(MISSING) })
}

/// A machine as it was found.
#[derive(Default)]
struct Look {
    machine: String,
    rows: Vec<(&'static str, String)>,
    /// Each thing that is missing, and the words that mend it.
    missing: Vec<(String, String)>,
}

impl From<ClusterTold> for Look {
    fn from(told: ClusterTold) -> Self {
        Self { machine: "Kubernetes".to_owned(), rows: told.rows, missing: told.missing }
    }
}

impl Look {
    fn row(&mut self, name: &'static str, value: impl Into<String>) {
        self.rows.push((name, value.into()));
    }

    fn lacks(&mut self, what: impl Into<String>, mend: impl Into<String>) {
        self.missing.push((what.into(), mend.into()));
    }

    fn text(self) -> String {
        let mut text = format!("{}\n", self.machine);
        for (name, value) in &self.rows {
            let _ = writeln!(text, "  {name:NAME$} {value}");
        }
        for (what, mend) in &self.missing {
            let mut lines = what.lines();
            let first = lines.next().unwrap_or_default();
            let _ = writeln!(text, "  {:NAME$} {first}", "missing");
            for line in lines.filter(|line| !line.starts_with("hint: ")) {
                let _ = writeln!(text, "  {:NAME$} {line}", "");
            }
            let _ = writeln!(text, "  {:NAME$} {mend}", "mend");
        }
        text
    }
}

/// Things that studies need of a machine and bakeoff cannot send.
#[derive(Default)]
struct Needs {
    /// Each runtime with the oldest major version that will do, and the systems that need it.
    runtimes: BTreeMap<Runtime, (u32, Vec<String>)>,
    /// Systems whose servers have limits of CPU or memory.
    limited: Vec<String>,
    /// Whether this machine has to connect to servers itself.
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

/// Looks at a machine, as far as it lets us.
fn look(
    places: &Places,
    (machine, pods): (&Machine, Option<&Pods>),
    sent: &[Sent],
    needs: &Needs,
) -> Look {
    let mut look = Look { machine: machine.name.clone(), ..Look::default() };
    look.row("address", format!("{}, {}", machine.address, roles(machine)));
    let looked = machines::begin(places, machine, sent, pods)
        .and_then(|agent| ask_all(&agent, machine, needs, sent, &mut look));
    if let Err(error) = looked {
        let text = error.to_string();
        let hint = text.lines().find_map(|line| line.strip_prefix("hint: "));
        look.lacks(text.as_str(), hint.unwrap_or("see that the machine is up, and try again"));
    }
    look
}

fn roles(machine: &Machine) -> String {
    let servers = match &machine.servers {
        Takes::Nothing => None,
        Takes::Any => Some("takes servers".to_owned()),
        Takes::Roles(roles) => Some(format!("takes servers of {}", roles.join(", "))),
        Takes::Beside(home) => Some(format!("takes servers that go beside those of {home}")),
    };
    let generator = machine.generator.then(|| "generates load".to_owned());
    let all: Vec<String> = servers.into_iter().chain(generator).collect();
    if all.is_empty() { "takes no part".to_owned() } else { all.join(", ") }
}

fn ask_all(
    agent: &Agent,
    machine: &Machine,
    needs: &Needs,
    sent: &[Sent],
    look: &mut Look,
) -> Result<(), AgentError> {
    let hello = agent.hello();
    look.row("bakeoff", version(hello, sent));
    let offset = agent.offset()?;
    let trip = offset.error * 2;
    let data = machine.data.as_ref().map(PathBuf::from);
    let told = order::describe(agent, data)?;
    let ahead = offset.wall_ahead;
    look.row("host", format!("{}, {} {}", hello.host, told.kernel, told.arch));
    look.row("trip", format!("{} there and back, the shortest of 40", latency_text(trip)));
    look.row("clock", clock_text(ahead));
    if ahead.abs() > WALL_MAX.as_secs_f64() {
        look.lacks(
            format!("its clock is {:.0} s from this machine's", ahead.abs()),
            "have both keep the time (`chronyd`, `systemd-timesyncd`)",
        );
    }
    let memory = ByteCount(told.memory_bytes);
    look.row("has", format!("{}, {memory} of memory", plural(hello.cpus as u64, "CPU")));
    look.row("user", if hello.root { "root" } else { "not root" });
    disk(&told, machine, look);
    match &machine.node {
        None => limits(&told, needs, look),
        Some(node) => {
            let own = order::container_limits(agent)?;
            look.row("node", node.clone());
            look.row("limits", format!("its pod has {own}; servers get theirs as a pod's own"));
        }
    }
    if machine.servers != Takes::Nothing {
        let request = Request::Port { address: machine.address, base: None };
        match agent.ask::<u16>(&request) {
            Ok(port) => look.row("ports", format!("free at {}: {port}, …", machine.address)),
            Err(error) if error.is_loss() => return Err(error),
            Err(error) => {
                let text = error.to_string();
                let hint = text.lines().find_map(|line| line.strip_prefix("hint: "));
                look.lacks(text.as_str(), hint.unwrap_or("free ports from 17000 on"));
            }
        }
    }
    if machine.servers != Takes::Nothing && machine.reach != Reach::Here {
        match tunnel::reaches(agent, machine) {
            Ok(Ok(())) => look.row("connects", "this machine to it, directly"),
            Ok(Err(error)) if needs.direct => look.lacks(
                format!("a way from this machine to {}: {error}", machine.address),
                "`tunnel: auto` in the places file connects through its agent",
            ),
            Ok(Err(error)) => {
                let at = machine.address;
                let text = format!("this machine to it through its agent ({at}: {error})");
                look.row("connects", text);
            }
            // An address of another machine is told of by its ports.
            Err(AgentError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    for (&runtime, (least, of)) in &needs.runtimes {
        match order::find_runtime(agent, runtime, *least)? {
            Ok(found) => {
                let RuntimeFound { program, version } = found;
                look.row(runtime.program(), format!("{version}, {}", program.display()));
            }
            Err(seen) => look.lacks(
                format!(
                    "{} {least} or newer, which {} cannot do without: {seen}",
                    runtime.name(),
                    of.join(" and ")
                ),
                match &machine.node {
                    None => format!("install it on `{}`: bakeoff sends no runtimes", machine.name),
                    Some(_) => format!(
                        "name an image that has it as `image`, or as `images: {{{}: …}}`",
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
        false => "another than the one sent",
    };
    let hash = hello.sha256.get(..12).unwrap_or(&hello.sha256);
    format!("{} (SHA-256 {hash}…, {same})", hello.version)
}

fn clock_text(ahead: f64) -> String {
    let side = if ahead < 0.0 { "behind" } else { "ahead of" };
    match ahead.abs() {
        apart if apart < 0.1 => "with this machine's, to 0.1 s".to_owned(),
        apart => format!("{apart:.2} s {side} this machine's"),
    }
}

fn disk(told: &MachineTold, machine: &Machine, look: &mut Look) {
    let data = told.data.display();
    match &told.disk {
        DiskTold::Works { file_system, free_bytes, sync_median_us } => {
            let free = ByteCount(*free_bytes);
            let sync = latency_text(Duration::from_secs_f64(sync_median_us / 1e6));
            look.row("disk", format!("{data}: {file_system}, {free} free, a sync takes {sync}"));
            if *free_bytes < FREE_MIN && machine.servers != Takes::Nothing {
                look.lacks(
                    format!("space in `{data}`: {free} are free"),
                    "free some, or name another folder as `data` in the places file",
                );
            }
        }
        DiskTold::Fails(why) => look.lacks(
            format!("a folder for data that takes files: {why}"),
            format!("make `{data}`, or name another as `data` in the places file"),
        ),
    }
}

fn limits(told: &MachineTold, needs: &Needs, look: &mut Look) {
    let one = |limit: &bakeoff_host::LimitSupport| match &limit.refused {
        None => format!("{} can be applied", limit.limit),
        Some(why) => format!("{} cannot: {why}", limit.limit),
    };
    look.row("limits", told.limits.iter().map(one).collect::<Vec<_>>().join("; "));
    let refused = told.limits.iter().any(|limit| limit.refused.is_some());
    if refused && !needs.limited.is_empty() {
        look.lacks(
            format!("limits, which {} are to have", needs.limited.join(" and ")),
            "let bakeoff be root there, or delegate a cgroup to its user",
        );
    }
}
