//! The machines of a run with a places file: an agent on each, folders, programs, ports, servers.
//!
//! Not here: the protocol (`bakeoff_agent`), shares of a load (`generators`), samples (`watch`).

pub mod affinity;
pub mod baseline;
pub mod describe;
pub mod fleet;
pub mod kubernetes;
pub mod machine_samples;
pub mod order;
mod programs;
pub mod record;
pub mod requests;
pub mod tunnel;
pub mod watch;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bakeoff_agent::{Agent, AgentError, AgentExecutable, Carrier, LaunchOrder, Request};
use bakeoff_core::places::{self, AgentFile, Places, Purpose, Reach, ServerSelection};
use bakeoff_core::study::{Limits, Study};
use bakeoff_host::network::Network;
use bakeoff_host::ports::PortSource;
use bakeoff_host::{HostError, Location, MachineId, NodeSpec, Process};
use bakeoff_systems::location_plan::LocationPlan;

use crate::error::FleetError;
use kubernetes::Pods;
use tunnel::Tunnels;

/// Largest accepted difference between wall clocks. Beyond it, logs and certificates would contradict each other.
pub const WALL_MAX: Duration = Duration::from_secs(5);

/// A machine with a running agent.
pub struct Machine {
    pub(crate) agent: Arc<Agent>,
    /// Folder of the run on the machine.
    pub(crate) folder: PathBuf,
}

/// The owner of a folder of servers' data.
#[derive(Clone, Copy)]
pub enum NodesOf<'a> {
    /// Servers of one trial.
    Trial,
    /// Servers of this system, whose cluster is kept for all of its trials.
    Kept(&'a str),
}

impl NodesOf<'_> {
    /// Returns the folder of their data, below the run's folder on a machine.
    fn below(self, run: &Path) -> PathBuf {
        match self {
            Self::Trial => run.join("nodes"),
            Self::Kept(system) => run.join("kept").join(system).join("nodes"),
        }
    }
}

/// The machines of a run, connected and prepared. Dropping it ends everything that runs there.
pub struct Machines {
    /// The places file.
    pub places: Places,
    tunnels: Tunnels,
    /// One machine per entry of the places file, in order.
    pub(crate) each: Vec<Machine>,
    /// For each machine, the index of the first one with the same running kernel, which may be itself.
    kernels: Vec<usize>,
    base_port: Option<u16>,
    cache: Option<PathBuf>,
    own: PathBuf,
    /// Among the last fields, so agents end before their pods and namespaces.
    pods: Option<Pods>,
    network: Option<Network>,
}

/// Most bytes of a places file.
const PLACES_MAX: u64 = 16 << 20;

/// Reads a places file. The path `kubernetes` means `kubernetes: {}` if no such file exists.
pub fn read_places(path: &Path, purpose: Purpose) -> Result<Places, FleetError> {
    if path == Path::new("kubernetes") && !path.exists() {
        return for_purpose(Places::parse("kubernetes", "kubernetes: {}")?, purpose);
    }
    let text = bakeoff_files::read_text(path, PLACES_MAX).map_err(|error| {
        FleetError::input(
            format!("cannot read places `{}`: {error}", path.display()),
            "give a file that lists machines; docs/machines.md has an example",
        )
    })?;
    crate::warnings::warn_of_foreign_code(path);
    for_purpose(Places::parse_for(purpose, &path.display().to_string(), &text)?, purpose)
}

/// Rejects a `kubernetes` section for a command that creates no pods.
fn for_purpose(places: Places, purpose: Purpose) -> Result<Places, FleetError> {
    match places.kubernetes.is_some() && purpose == Purpose::Load {
        false => Ok(places),
        true => Err(FleetError::input(
            "only a run creates pods, and these places list no machines",
            "list machines that `ssh` reaches, or run a study: `bakeoff run STUDY --on kubernetes`",
        )),
    }
}

/// Returns this executable's path, and the executables to send, at most one per platform. This executable serves its
/// own platform unless the places file names another.
pub fn sent(places: &Places) -> Result<(PathBuf, Vec<AgentExecutable>), FleetError> {
    let own = std::env::current_exe().map_err(|error| {
        FleetError::machine(format!("cannot find bakeoff's own program: {error}"))
    })?;
    let mut all = places.agents.iter().map(named).collect::<Result<Vec<_>, FleetError>>()?;
    let ours =
        AgentExecutable::read(&own).map_err(|error| FleetError::file("send", &own, &error))?;
    if all.iter().all(|one| one.machine != ours.machine) {
        all.push(ours);
    }
    Ok((own, all))
}

/// Reads an executable that the places file names.
fn named(AgentFile { processor, path }: &AgentFile) -> Result<AgentExecutable, FleetError> {
    let refused = |why: String| {
        FleetError::input(
            format!("`agent` of the places file cannot be `{path}`: {why}"),
            "set it to a bakeoff built for those machines, or leave `agent` out; this bakeoff is then sent",
        )
    };
    let sent =
        AgentExecutable::read(Path::new(path)).map_err(|error| refused(error.to_string()))?;
    match processor {
        Some(processor) if sent.machine != format!("Linux {processor}") => {
            Err(refused(format!("it is for {}, not {processor}", sent.machine)))
        }
        _ => Ok(sent),
    }
}

/// Surroundings that a run made for its machines.
#[derive(Clone, Copy, Default)]
pub struct RunSurroundings<'a> {
    /// Pods of Kubernetes.
    pub pods: Option<&'a Pods>,
    /// Network of this machine whose paths can be cut.
    pub network: Option<&'a Network>,
}

/// Starts the agent of a machine.
///
/// # Errors
/// When the machine cannot be reached or used.
pub fn begin(
    places: &Places,
    machine: &places::Machine,
    sent: &[AgentExecutable],
    within: RunSurroundings<'_>,
) -> Result<Agent, AgentError> {
    let carrier = match &machine.reach {
        Reach::Here | Reach::Relay { .. } => Carrier::Child { enter: Vec::new() },
        Reach::Namespace => {
            let network = within.network.expect("namespaces are made before they are reached");
            let enter = network_address(machine).map(|address| network.inside(address));
            Carrier::Child { enter: enter.unwrap_or_default() }
        }
        Reach::Ssh(destination) => {
            Carrier::Ssh { destination: destination.clone(), arguments: places.ssh.clone() }
        }
        Reach::Pod { pod, container } => {
            within.pods.expect("pods are made before they are reached").carrier(pod, container)
        }
    };
    let Carrier::Kubectl { image_program: Some(_), .. } = &carrier else {
        return Agent::begin(&machine.name, &carrier, sent);
    };
    let short = |hash: &str| format!("SHA-256 {}…", hash.get(..12).unwrap_or(hash));
    let is_sent = |agent: &Agent| sent.iter().any(|one| one.sha256 == agent.hello().sha256);
    let theirs = match Agent::begin(&machine.name, &carrier, sent) {
        Ok(agent) if is_sent(&agent) => return Ok(agent),
        Ok(agent) => format!("{} ({})", agent.hello().version, short(&agent.hello().sha256)),
        Err(AgentError::OtherProtocol { .. }) => "of another version".to_owned(),
        Err(error) => return Err(error),
    };
    Agent::begin(&machine.name, &carrier.scripted(), sent).map_err(|error| match error {
        AgentError::NotBegunInPod { machine, .. } => {
            let ours: Vec<String> = sent.iter().map(|one| short(&one.sha256)).collect();
            AgentError::OtherBuild { machine, theirs, ours: ours.join(" or ") }
        }
        error => error,
    })
}

/// Returns the address of a machine in a network whose paths can be cut.
fn network_address(machine: &places::Machine) -> Option<Ipv4Addr> {
    match machine.address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

/// Makes the network of places on this machine; `None` for other places.
fn network_of(places: &Places) -> Result<Option<Network>, FleetError> {
    if !places.can_be_cut() {
        return Ok(None);
    }
    let (mut addresses, mut relayed) = (Vec::new(), Vec::new());
    for machine in &places.machines {
        match (network_address(machine), &machine.reach) {
            (Some(address), Reach::Relay { listens }) => relayed.push((address, *listens)),
            (Some(address), _) => addresses.push(address),
            (None, _) => {}
        }
    }
    let network = match relayed.is_empty() {
        true => Network::begin(&addresses),
        false => Network::relayed(&relayed),
    };
    network.map(Some).map_err(|why| {
        FleetError::machine(format!(
            "cannot give each node a network of its own, which faults like `isolate` cut: {why}\nhint: leave those faults \
             out: `--faults`"
        ))
    })
}

/// Returns, for each machine, the index of the first one with the same running kernel.
fn kernels(machines: &[Machine]) -> Vec<usize> {
    let kernels: Vec<_> = machines.iter().map(|one| &one.agent.hello().kernel).collect();
    let first = |(place, kernel): (usize, &&Option<String>)| {
        let same = kernels.iter().position(|other| kernel.is_some() && other == kernel);
        same.unwrap_or(place)
    };
    kernels.iter().enumerate().map(first).collect()
}

impl Machines {
    /// Connects to all machines at once, creates the run's folder on each, and checks clocks and addresses. `run`: name
    /// of that folder, and the study to create pods for.
    ///
    /// # Errors
    /// The first unusable machine's error. Nothing has been started by then.
    pub fn reach(
        mut places: Places,
        (run, study): (&str, Option<&Study>),
        base_port: Option<u16>,
        interrupted: &AtomicBool,
    ) -> Result<Self, FleetError> {
        let (own, sent) = sent(&places)?;
        let pods = places
            .kubernetes
            .as_ref()
            .zip(study)
            .map(|(kubernetes, study)| Pods::make(kubernetes, (run, &[study]), interrupted))
            .transpose()?;
        if let Some(pods) = &pods {
            places.machines = pods.machines();
        }
        let network = network_of(&places)?;
        let within = RunSurroundings { pods: pods.as_ref(), network: network.as_ref() };
        let begun: Vec<Result<Machine, FleetError>> = std::thread::scope(|scope| {
            let each: Vec<_> = places
                .machines
                .iter()
                .map(|machine| {
                    let (places, sent) = (&places, &sent);
                    let prepare = move || -> Result<Machine, FleetError> {
                        let agent = begin(places, machine, sent, within)?;
                        refuse_clock(&machine.name, agent.offset()?.wall_ahead)?;
                        let data = machine.data.as_ref().map(PathBuf::from);
                        let mut run = format!("{run}-{}", std::process::id());
                        if places.can_be_cut() {
                            // They share a disk.
                            run = format!("{run}-{}", machine.name);
                        }
                        let cpus = machine.cpus.clone();
                        let folder = agent.ask(&Request::Prepare { run, data, cpus })?;
                        Ok(Machine { agent: Arc::new(agent), folder })
                    };
                    let listed_at = machine.listed_at.as_deref();
                    scope.spawn(move || prepare().map_err(|error| error.listed_at(listed_at)))
                })
                .collect();
            each.into_iter()
                .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        if interrupted.load(Ordering::Relaxed) {
            return Err(FleetError::INTERRUPTED);
        }
        let each = begun.into_iter().collect::<Result<Vec<_>, _>>()?;
        let cache = bakeoff_install::place::of_environment();
        let tunnels = Tunnels::default();
        let kernels = kernels(&each);
        let machines =
            Self { places, tunnels, each, kernels, base_port, cache, own, pods, network };
        machines.compare_addresses()?;
        machines.admit_agents()?;
        if let (Some(pods), Some(first)) = (&machines.pods, machines.generators().first()) {
            pods.keep(&first.agent)?;
        }
        Ok(machines)
    }

    /// Makes the network count the connections of an agent's processes as those of its address.
    fn admit_agents(&self) -> Result<(), FleetError> {
        let Some(network) = &self.network else { return Ok(()) };
        for (machine, place) in self.each.iter().zip(&self.places.machines) {
            if let Some(address) = network_address(place) {
                let admitted = network.admit(address, machine.agent.carrier_pid());
                admitted.map_err(FleetError::machine)?;
            }
        }
        Ok(())
    }

    /// Lets the other machines reach ports at an address, if only relays reach it.
    pub(crate) fn open(&self, address: IpAddr, ports: Vec<u16>) -> Result<(), String> {
        match (&self.network, address) {
            (Some(network), IpAddr::V4(address)) => network.open(address, ports),
            _ => Ok(()),
        }
    }

    /// Checks that each machine has its address of the places file.
    fn compare_addresses(&self) -> Result<(), FleetError> {
        for (machine, place) in self.each.iter().zip(&self.places.machines) {
            let request = Request::IsFree { address: place.address, port: 0 };
            let asked = machine.agent.ask::<()>(&request).map_err(|error| match error.is_loss() {
                true => FleetError::from(error),
                false => FleetError::bad_input(error.to_string()),
            });
            asked.map_err(|error| error.listed_at(place.listed_at.as_deref()))?;
        }
        Ok(())
    }

    /// Returns the smallest free space for servers' data, in bytes, and its machine.
    ///
    /// # Errors
    /// When a machine is lost.
    pub fn least_space(&self) -> Result<Option<(u64, &str)>, AgentError> {
        let takes = self.each.iter().zip(&self.places.machines);
        let takes = takes.filter(|(_, place)| place.is_home());
        let space = |(machine, _): (&'_ Machine, _)| machine.agent.ask::<u64>(&Request::Space);
        let named = |(machine, place)| Ok((space((machine, place))?, machine.agent.machine()));
        let all = takes.map(named).collect::<Result<Vec<_>, AgentError>>()?;
        Ok(all.into_iter().min())
    }

    /// Returns the network whose paths can be cut, if the nodes are in one.
    pub fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// Returns the first reason why a machine with servers cannot mount a file system whose disk breaks.
    pub(crate) fn lack_own_disks(&self) -> Result<Option<String>, AgentError> {
        let homes = self.each.iter().zip(&self.places.machines);
        for (machine, _) in homes.filter(|(_, place)| place.is_home()) {
            let lacks: Option<String> = machine.agent.ask(&Request::LacksOwnDisks)?;
            if let Some(why) = lacks {
                return Ok(Some(format!("`{}`: {why}", machine.agent.machine())));
            }
        }
        Ok(None)
    }

    /// Returns the cause of a machine's loss, if one is lost.
    pub(crate) fn lost(&self) -> Option<&AgentError> {
        self.each.iter().find_map(|machine| machine.agent.lost())
    }

    /// Returns the cause of a machine's loss, if one is lost, with what Kubernetes reports about its pod.
    pub(crate) fn reported_loss(&self) -> Option<String> {
        let mut each = self.each.iter().zip(&self.places.machines);
        let (lost, place) =
            each.find_map(|(machine, place)| Some((machine.agent.lost()?, place)))?;
        let why = self.pods.as_ref().and_then(|pods| pods.why_lost(place));
        let why = why.map_or(String::new(), |why| format!("\n    | {why}"));
        Some(format!("{}{why}", lost.to_string().lines().next().unwrap_or_default()))
    }

    /// Returns the machine of a location.
    fn at(&self, location: Location) -> Option<&Machine> {
        match location.machine {
            MachineId::Here => None,
            MachineId::Place(place) => self.each.get(place),
        }
    }

    /// Returns the index of the machine whose address the servers of a place use.
    fn home_of(&self, place: usize) -> usize {
        let machines = &self.places.machines;
        let takes = machines.get(place).map(|machine| &machine.servers);
        let Some(ServerSelection::Adjacent(home)) = takes else { return place };
        machines.iter().position(|one| one.name == *home).unwrap_or(place)
    }

    /// Returns the place for servers next to those of a place: a container of its own, or the same place.
    fn adjacent(&self, place: usize) -> usize {
        let is_next_to = |other: &usize| *other != place && self.home_of(*other) == place;
        (0..self.places.machines.len()).find(is_next_to).unwrap_or(place)
    }

    /// Returns the generator machines.
    pub fn generators(&self) -> Vec<&Machine> {
        self.places.generators().into_iter().filter_map(|place| self.each.get(place)).collect()
    }

    /// Returns the names of the generator machines, in the order of the places file.
    pub(crate) fn generator_names(&self) -> Vec<String> {
        self.generators().into_iter().map(|one| one.agent.machine().to_owned()).collect()
    }

    /// Returns the smallest number of CPUs of any generator; `None` without generators. All use the same number of
    /// threads.
    pub fn generator_cpus(&self) -> Option<u32> {
        let places = self.places.generators().into_iter();
        places.map(|place| self.cpus_of(place)).min()
    }

    /// Returns the number of CPUs that bakeoff may use on a machine.
    fn cpus_of(&self, place: usize) -> u32 {
        match &self.places.machines[place].cpus[..] {
            [] => self.each[place].agent.hello().cpus,
            some => some.len() as u32,
        }
    }

    /// Returns the locations for a system's nodes.
    pub(crate) fn locating(&self) -> LocationPlan {
        let addresses = self.places.machines.iter().map(|one| (one.address, one.relayed_to()));
        let addresses: Vec<_> = addresses.collect();
        let location = move |place: usize| Location {
            machine: MachineId::Place(place),
            address: addresses[place].0,
            relayed_to: addresses[place].1,
        };
        let places = self.places.clone();
        let locations = move |role: &str, kind: &str| {
            places.servers_of(role, kind).into_iter().map(&location).collect()
        };
        let adjacent: Vec<usize> = (0..self.each.len()).map(|place| self.adjacent(place)).collect();
        let adjacent = move |location: Location| match location.machine {
            MachineId::Place(place) => {
                Location { machine: MachineId::Place(adjacent[place]), ..location }
            }
            MachineId::Here => location,
        };
        LocationPlan::by_role_and_kind(locations).with_adjacent(adjacent)
    }

    /// Begins a trial on all machines. Deletes the data of the previous one, unless `keeps` is true.
    ///
    /// # Errors
    /// When a machine is lost.
    pub(crate) fn begin_trial(&self, name: &str, keeps: bool) -> Result<(), AgentError> {
        let request = Request::Trial { name: name.to_owned(), keeps };
        self.each.iter().try_for_each(|one| one.agent.ask(&request))
    }

    /// Removes the data of servers that failed to start.
    ///
    /// # Errors
    /// When removing fails, or a machine is lost.
    pub(crate) fn discard(&self, nodes: NodesOf<'_>) -> Result<(), AgentError> {
        let discard =
            |one: &Machine| one.agent.ask(&Request::Discard { path: nodes.below(&one.folder) });
        self.each.iter().try_for_each(discard)
    }

    /// Applies servers' limits to their pods, before the servers are launched. Only a server alone in its pod gets
    /// them.
    ///
    /// # Errors
    /// When a machine is lost.
    pub(crate) fn confine<'a>(
        &self,
        specs: impl Iterator<Item = &'a NodeSpec>,
    ) -> Result<(), AgentError> {
        let Some(pods) = &self.pods else { return Ok(()) };
        let mut each: BTreeMap<usize, Vec<&NodeSpec>> = BTreeMap::new();
        for spec in specs {
            if let MachineId::Place(place) = spec.location.machine {
                each.entry(place).or_default().push(spec);
            }
        }
        std::thread::scope(|scope| {
            let threads = each.iter().map(|(&place, specs)| {
                let alone = (specs.len() == 1).then(|| specs[0].limits.clone()).flatten();
                // CPU affinity is set per server.
                let limits = Limits { cpus: Vec::new(), ..alone.unwrap_or_default() };
                let (place, machine) = (&self.places.machines[place], &self.each[place]);
                scope.spawn(move || pods.confine(place, &limits, &machine.agent))
            });
            let mut threads = threads.collect::<Vec<_>>().into_iter();
            threads.try_for_each(|one| {
                one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })
    }

    /// Launches a server on the machine of its location. `nodes`: the folder of all nodes on this machine, and the owner of
    /// their data.
    ///
    /// # Errors
    /// When the launch fails.
    pub(crate) fn launch(
        &self,
        spec: NodeSpec,
        (nodes, of): (&Path, NodesOf<'_>),
    ) -> Result<Process, HostError> {
        let Some(machine) = self.at(spec.location) else {
            return Err(HostError::Spec {
                node: spec.name,
                problem: "its location is on no machine of the run".to_owned(),
            });
        };
        let ports = spec.ports.iter().map(|(_, port)| *port).collect();
        let opened = self.open(spec.location.address, ports);
        opened.map_err(|problem| HostError::Spec { node: spec.name.clone(), problem })?;
        let hello = machine.agent.hello();
        let mut order = LaunchOrder::new(&spec)?;
        let mut moves = vec![
            (nodes.to_owned(), of.below(&machine.folder)),
            (self.own.clone(), hello.program.clone()),
        ];
        for program in order.programs() {
            moves.extend(self.sent_programs(machine, program)?);
        }
        moves.extend(self.cache.iter().map(|cache| (cache.clone(), hello.cache.clone())));
        for (from, to) in moves {
            if let (Some(from), Some(to)) = (from.to_str(), to.to_str())
                && from != to
            {
                order = order.moved(from, to);
            }
        }
        machine.agent.launch(spec, order)
    }
}

/// Rejects a machine whose wall clock differs too much. `ahead`: seconds that it is ahead of ours.
fn refuse_clock(machine: &str, ahead: f64) -> Result<(), FleetError> {
    if ahead.abs() <= WALL_MAX.as_secs_f64() {
        return Ok(());
    }
    let side = if ahead < 0.0 { "behind" } else { "ahead of" };
    Err(FleetError::input(
        format!("the clock of `{machine}` is {:.0} s {side} this machine's", ahead.abs()),
        "synchronize both clocks (`chronyd`, `systemd-timesyncd`)",
    ))
}

/// Finds the ports that servers on other machines would get, without reserving them.
pub(crate) struct Rehearsal {
    machines: Arc<Machines>,
    base: u16,
    /// Ports found so far on each machine.
    found: Mutex<BTreeMap<usize, u16>>,
}

impl Rehearsal {
    pub(crate) fn new(machines: &Arc<Machines>, base: u16) -> Self {
        Self { machines: Arc::clone(machines), base, found: Mutex::default() }
    }
}

impl PortSource for Rehearsal {
    fn take(&self, location: Location) -> Result<u16, HostError> {
        let (MachineId::Place(place), Some(machine)) =
            (location.machine, self.machines.at(location))
        else {
            let text = format!("no machine of the run has the address {}", location.address);
            return Err(HostError::Elsewhere { text });
        };
        // Machines that share an address share its ports.
        let home = self.machines.home_of(place);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let found = found.entry(home).or_default();
        let port = self.base.saturating_add(*found);
        *found += 1;
        let request = Request::IsFree { address: location.address, port };
        let free = machine.agent.ask::<()>(&request);
        free.map_err(|error| HostError::Elsewhere { text: error.to_string() })?;
        Ok(port)
    }
}

impl PortSource for Machines {
    fn take(&self, location: Location) -> Result<u16, HostError> {
        let elsewhere = |text: String| HostError::Elsewhere { text };
        let machine = match location.machine {
            MachineId::Place(place) => MachineId::Place(self.home_of(place)),
            MachineId::Here => MachineId::Here,
        };
        let Some(home) = self.at(Location { machine, ..location }) else {
            return Err(elsewhere(format!(
                "no machine of the run has the address {}",
                location.address
            )));
        };
        // Relayed nodes share this machine, where samples tell nodes apart by ports. So one agent hands them all out.
        let home = if location.relayed_to.is_some() { &self.each[0] } else { home };
        let request = Request::Port { address: location.address, base: self.base_port };
        home.agent.ask(&request).map_err(|error| elsewhere(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_ten_seconds_apart_are_rejected() {
        let refusal = |ahead: f64| refuse_clock("db1", ahead).map_err(|error| error.to_string());
        assert!(refusal(4.0).is_ok() && refusal(-4.0).is_ok());
        let wanted = "the clock of `db1` is 10 s behind this machine's";
        assert!(refusal(-10.2).unwrap_err().contains(wanted));
        assert!(refusal(10.2).unwrap_err().contains("10 s ahead of this"));
    }
}
