//! Describes the machines of a run: which take servers, which generate load, and how to reach each.
//!
//! The same places file serves any study.
//!
//! Not here: reaching a machine (`bakeoff-agent`), assigning nodes to machines (the binary's `cluster::topology`).

mod kubernetes;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

pub use kubernetes::{Kubernetes, Toleration};

use crate::study::{
    ByteRange, Diagnostic, DiagnosticSink, Diagnostics, PlacedEntry, PlacedNode, PlacedValue,
    suggest, tree,
};

/// Network of the namespaces, reserved for benchmarks by RFC 2544.
const NAMESPACES: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// Loopback addresses that relayed nodes announce, and those that they listen on.
const ANNOUNCED: Ipv4Addr = Ipv4Addr::new(127, 198, 18, 0);
const LISTENING: Ipv4Addr = Ipv4Addr::new(127, 198, 19, 0);
/// Maximum number of such addresses for servers. Further servers share them.
const SEPARATE_MAX: u32 = 32;
/// Maximum number of machines of a run.
const MACHINES_MAX: usize = 1000;

/// Lists the machines of a run, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Machines, each once. For a run, at least one takes servers and one generates load. Empty if pods must be
    /// created.
    pub machines: Vec<Machine>,
    /// Pods to create in place of machines.
    pub kubernetes: Option<Kubernetes>,
    /// Additional arguments for `ssh`.
    pub ssh: Vec<String>,
    /// Executables to send to machines. Machines without one get this bakeoff's own.
    pub agents: Vec<AgentFile>,
    /// Connections from the coordinator to servers.
    pub tunnel: Tunnel,
}

/// Names an executable for machines with one processor type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFile {
    /// Processor type by the name of `uname -m`; `None` for all.
    pub processor: Option<&'static str>,
    /// Path of the executable.
    pub path: String,
}

/// Selects how the coordinator connects to servers on other machines. A load never goes through a tunnel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tunnel {
    /// Tunnel through the agent of each machine that is not directly reachable.
    #[default]
    Auto,
    /// Tunnel through the agent of every machine.
    Always,
    /// Direct connections only; otherwise the run fails.
    Never,
}

/// Describes one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Name in messages, records and reports.
    pub name: String,
    /// Way to reach it.
    pub reach: Reach,
    /// Address by which the other machines of the run reach it.
    pub address: IpAddr,
    /// Folder for servers' data; `None` means `/var/tmp`.
    pub data: Option<String>,
    /// Servers that it takes.
    pub servers: ServerSelection,
    /// True if it generates load.
    pub generator: bool,
    /// Kind that it is reserved for, because it has that kind's image.
    pub kind: Option<String>,
    /// Kubernetes node that it runs on, if it is a pod.
    pub node: Option<String>,
    /// CPUs that servers and the generator may use, ascending; empty for all.
    pub cpus: Vec<u32>,
    /// File and line that list it: `places.yaml:3`; `None` if no file does.
    pub listed_at: Option<String>,
}

impl Machine {
    /// Returns the address that servers listen on, if a relay at the machine's address passes connections on to it.
    pub fn relayed_to(&self) -> Option<IpAddr> {
        match self.reach {
            Reach::Relay { listens } => Some(listens.into()),
            _ => None,
        }
    }

    /// Returns true if servers have its address and disk. Servers next to another machine's have that machine's
    /// address.
    pub fn is_home(&self) -> bool {
        matches!(self.servers, ServerSelection::Any | ServerSelection::Roles(_))
    }
}

/// Selects the way to reach a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// The local machine.
    Here,
    /// A network namespace on the local machine.
    Namespace,
    /// The local machine, by a relay at the address.
    Relay {
        /// Address that its servers listen on.
        listens: Ipv4Addr,
    },
    /// `ssh` with this destination.
    Ssh(String),
    /// `kubectl exec` in a container of a pod.
    Pod {
        /// Name of the pod.
        pod: String,
        /// Name of the container.
        container: String,
    },
}

/// Selects the servers that a machine takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerSelection {
    /// No servers.
    Nothing,
    /// Servers of any role without a reserved machine.
    Any,
    /// Servers of these roles: `storage`, `system`.
    Roles(Vec<String>),
    /// Servers next to those of the named machine, at its address: another container of its pod.
    Adjacent(String),
}

/// Selects the use of a places file, which decides the required entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A run: machines that take servers, and machines that generate load.
    Run,
    /// A load on running servers: machines that generate load.
    Load,
    /// A check of the machines, for any use.
    Doctor,
}

const FIELDS: [&str; 5] = ["machines", "kubernetes", "ssh", "agent", "tunnel"];
const MACHINE_FIELDS: [&str; 7] =
    ["here", "ssh", "address", "data", "servers", "generator", "cpus"];
/// Accepted names of processors, and the names of `uname -m`.
const PROCESSORS: [(&str, &str); 4] =
    [("amd64", "x86_64"), ("arm64", "aarch64"), ("x86_64", "x86_64"), ("aarch64", "aarch64")];
/// Maximum CPU number in the kernel's CPU sets.
const CPU_MAX: u32 = 1023;
const EXAMPLE: &str = "machines: {db1: {ssh: db1, address: 10.0.0.1, servers: true}, gen1: {ssh: gen1, address: \
                       10.0.0.9, generator: true}}";

impl Places {
    /// Returns places on this machine whose paths can be cut: a network namespace for each of `nodes` servers, and one
    /// for the generator. `data`: folder for servers' data.
    pub fn namespaces(nodes: u32, data: &str) -> Self {
        Self::separate(nodes, data, |number| (Reach::Namespace, numbered(NAMESPACES, number)))
    }

    /// Returns the same places without namespaces: a loopback address for each, behind a relay.
    pub fn relays(nodes: u32, data: &str) -> Self {
        Self::separate(nodes, data, |number| {
            let listens = numbered(LISTENING, number);
            (Reach::Relay { listens }, numbered(ANNOUNCED, number))
        })
    }

    /// Returns places on this machine. `reach`: how to reach the one with a number, and its address.
    fn separate(nodes: u32, data: &str, reach: impl Fn(u32) -> (Reach, Ipv4Addr)) -> Self {
        let nodes = nodes.min(SEPARATE_MAX);
        let place = |number: u32| {
            let (reach, address) = reach(number);
            Machine {
                name: format!("net-{number}"),
                reach,
                address: address.into(),
                data: Some(data.to_owned()),
                servers: ServerSelection::Any,
                generator: false,
                kind: None,
                node: None,
                cpus: Vec::new(),
                listed_at: None,
            }
        };
        let clients = Machine {
            name: "clients".to_owned(),
            servers: ServerSelection::Nothing,
            generator: true,
            ..place(nodes + 1)
        };
        Self {
            machines: (1..=nodes).map(place).chain([clients]).collect(),
            kubernetes: None,
            ssh: Vec::new(),
            agents: Vec::new(),
            tunnel: Tunnel::Always,
        }
    }

    /// Returns true if the places are all on this machine, with paths that can be cut.
    pub fn can_be_cut(&self) -> bool {
        let is_own =
            |machine: &Machine| matches!(machine.reach, Reach::Namespace | Reach::Relay { .. });
        self.machines.iter().any(is_own)
    }

    /// Parses a places file; `file` is its name in messages.
    ///
    /// # Errors
    /// Reports all faults, each with its place.
    pub fn parse(file: &str, text: &str) -> Result<Self, Diagnostics> {
        Self::parse_for(Purpose::Run, file, text)
    }

    /// Parses a places file for a purpose that may need no servers.
    ///
    /// # Errors
    /// Reports all faults, each with its place.
    pub fn parse_for(purpose: Purpose, file: &str, text: &str) -> Result<Self, Diagnostics> {
        if text.trim().is_empty() {
            return Err(Diagnostic {
                what: format!("the places file `{file}` is empty"),
                place: None,
                hint: Some(format!("name machines: `{EXAMPLE}`")),
            }
            .into());
        }
        let mut sink = DiagnosticSink::new(file, text);
        let read = tree::read(text, &mut sink).and_then(|root| places(&root, purpose, &mut sink));
        match (read, sink.is_empty()) {
            (Some(places), true) => Ok(places),
            _ => Err(sink.into_diagnostics()),
        }
    }

    /// Returns the indices of machines for servers of a role and a kind, in order: those reserved for the kind,
    /// otherwise for the role, otherwise those that take any.
    pub fn servers_of(&self, role: &str, kind: &str) -> Vec<usize> {
        let has_own = self.machines.iter().any(|machine| machine.kind.as_deref() == Some(kind));
        let own = has_own.then_some(kind);
        let of = |takes: &dyn Fn(&ServerSelection) -> bool| -> Vec<usize> {
            let all = self.machines.iter().enumerate();
            let all = all.filter(|(_, machine)| machine.kind.as_deref() == own);
            all.filter(|(_, machine)| takes(&machine.servers)).map(|(place, _)| place).collect()
        };
        let kept = of(
            &|takes| matches!(takes, ServerSelection::Roles(roles) if roles.iter().any(|r| r == role)),
        );
        if kept.is_empty() { of(&|takes| *takes == ServerSelection::Any) } else { kept }
    }

    /// Returns the indices of machines that generate load, in order.
    pub fn generators(&self) -> Vec<usize> {
        let all = self.machines.iter().enumerate();
        all.filter(|(_, machine)| machine.generator).map(|(place, _)| place).collect()
    }
}

/// Returns the address with a number in a network.
fn numbered(network: Ipv4Addr, number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(network.to_bits() + number)
}

/// Parses the whole file.
fn places(root: &PlacedNode, purpose: Purpose, sink: &mut DiagnosticSink<'_>) -> Option<Places> {
    let PlacedValue::Map(entries) = &root.value else {
        let what = format!("a places file is a mapping, not {}", root.seen("a mapping"));
        sink.hint(&root.at, what, format!("name machines: `{EXAMPLE}`"));
        return None;
    };
    unknown_fields(entries, &FIELDS, "", sink);
    let field = |name: &str| entries.iter().find(|entry| entry.key == name);
    let ssh = field("ssh").map_or(Some(Vec::new()), |entry| {
        texts(entry, "a list of options, such as `[-F, FILE]`", sink)
    });
    let agents = field("agent").map_or(Some(Vec::new()), |entry| agents(entry, sink));
    let tunnel = field("tunnel").map_or(Some(Tunnel::default()), |entry| tunnel(entry, sink));
    if let Some(entry) = field("kubernetes") {
        if field("machines").is_some() {
            sink.add(&entry.key_at, "places are either `machines` or `kubernetes`");
            return None;
        }
        let kubernetes = Some(kubernetes::read(entry, sink)?);
        return Some(Places {
            machines: Vec::new(),
            kubernetes,
            ssh: ssh?,
            agents: agents?,
            tunnel: tunnel?,
        });
    }
    let Some(machines) = field("machines") else {
        sink.hint(&(0..1), "it names no `machines`", format!("name some: `{EXAMPLE}`"));
        return None;
    };
    let at = machines.key_at.clone();
    let machines = read_machines(machines, sink)?;
    let places = Places { machines, kubernetes: None, ssh: ssh?, agents: agents?, tunnel: tunnel? };
    let takes_none =
        places.machines.iter().all(|machine| machine.servers == ServerSelection::Nothing);
    if purpose == Purpose::Run && takes_none {
        sink.hint(&at, "no machine takes servers", "set `servers: true` for those that do");
    }
    if purpose != Purpose::Doctor && places.generators().is_empty() {
        sink.hint(&at, "no machine generates load", "set `generator: true` for those that do");
    }
    Some(places)
}

/// Parses `PATH`, or `{amd64: PATH, arm64: PATH}`.
fn agents(entry: &PlacedEntry, sink: &mut DiagnosticSink<'_>) -> Option<Vec<AgentFile>> {
    let PlacedValue::Map(fields) = &entry.node.value else {
        return Some(vec![AgentFile { processor: None, path: text(entry, "a path", sink)? }]);
    };
    let names: Vec<&str> = PROCESSORS.iter().map(|(name, _)| *name).collect();
    unknown_fields(fields, &names, "`agent`", sink);
    let one = |field: &PlacedEntry| {
        let path = text(field, "a path", sink)?;
        let known = PROCESSORS.iter().find(|(name, _)| *name == field.key)?;
        Some(AgentFile { processor: Some(known.1), path })
    };
    fields.iter().map(one).collect()
}

fn tunnel(entry: &PlacedEntry, sink: &mut DiagnosticSink<'_>) -> Option<Tunnel> {
    match entry.node.scalar() {
        Some("auto") => Some(Tunnel::Auto),
        Some("always") => Some(Tunnel::Always),
        Some("never") => Some(Tunnel::Never),
        _ => {
            let seen = entry.node.seen("a mapping");
            sink.refuse(&entry.node.at, "tunnel", "`auto`, `always` or `never`", &seen);
            None
        }
    }
}

/// Parses the machines and compares them with each other.
fn read_machines(entry: &PlacedEntry, sink: &mut DiagnosticSink<'_>) -> Option<Vec<Machine>> {
    let PlacedValue::Map(entries) = &entry.node.value else {
        sink.refuse(
            &entry.node.at,
            "machines",
            "a mapping of names",
            &entry.node.seen("a mapping"),
        );
        return None;
    };
    if entries.is_empty() || entries.len() > MACHINES_MAX {
        let what = format!("a run has 1 to {MACHINES_MAX} machines, not {}", entries.len());
        sink.add(&entry.key_at, what);
        return None;
    }
    let mut machines: Vec<(Machine, ByteRange)> = Vec::new();
    let mut whole = true;
    for entry in entries {
        let Some(machine) = machine(entry, sink) else {
            whole = false;
            continue;
        };
        let same = |known: &&(Machine, ByteRange)| known.0.address == machine.address;
        if let Some((known, _)) = machines.iter().find(same) {
            let (address, first) = (machine.address, &known.name);
            let what =
                format!("`{}` has the address {address}, which is `{first}`'s", machine.name);
            sink.hint(&entry.key_at, what, "name each machine once, with its own address");
        } else if let Some((known, _)) =
            machines.iter().find(|known| known.0.reach == machine.reach)
        {
            let what = format!("`{}` is the same machine as `{}`", machine.name, known.name);
            sink.hint(
                &entry.key_at,
                what,
                "name each machine once; one may take servers and generate load",
            );
        }
        machines.push((machine, entry.key_at.clone()));
    }
    for (machine, at) in machines.iter().filter(|(machine, _)| machine.address.is_loopback()) {
        if machines.len() > 1 {
            let what =
                format!("`{}` cannot be reached at {} by others", machine.name, machine.address);
            sink.hint(at, what, "give the address by which the other machines reach it");
        }
    }
    whole.then(|| machines.into_iter().map(|(machine, _)| machine).collect())
}

fn machine(entry: &PlacedEntry, sink: &mut DiagnosticSink<'_>) -> Option<Machine> {
    let name = &entry.key;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if name.len() > 63 || !name.chars().all(plain) || name.starts_with('-') {
        let hint = "letters, digits, `-`, `_` and `.`, at most 63 of them";
        sink.hint(&entry.key_at, format!("`{name}` cannot name a machine"), hint);
        return None;
    }
    let PlacedValue::Map(fields) = &entry.node.value else {
        sink.refuse(&entry.node.at, name, "a mapping", &entry.node.seen("a mapping"));
        return None;
    };
    unknown_fields(fields, &MACHINE_FIELDS, &format!("machine `{name}`"), sink);
    let field = |name: &str| fields.iter().find(|field| field.key == name);
    let flag = |name: &str, sink: &mut DiagnosticSink<'_>| match field(name) {
        None => Some(false),
        Some(entry) => {
            let flag = entry.node.flag();
            if flag.is_none() {
                sink.refuse(
                    &entry.node.at,
                    name,
                    "`true` or `false`",
                    &entry.node.seen("a mapping"),
                );
            }
            flag
        }
    };
    let here = flag("here", sink)?;
    let ssh = field("ssh").map(|entry| (text(entry, "a destination of `ssh`", sink), entry));
    let reach = match (here, ssh) {
        (true, None) => Reach::Here,
        (false, Some((destination, entry))) => {
            let destination = destination?;
            if destination.starts_with('-') {
                let wanted = "a destination, not an option: options of `ssh` are a list `ssh: [-F, FILE]` next to `machines`";
                sink.refuse(&entry.node.at, "ssh", wanted, &format!("`{destination}`"));
                return None;
            }
            Reach::Ssh(destination)
        }
        (true, Some((_, entry))) => {
            sink.add(&entry.key_at, format!("`{name}` is either `here` or reached by `ssh`"));
            return None;
        }
        (false, None) => {
            let what = format!("it is not said how `{name}` is reached");
            sink.hint(&entry.key_at, what, "`ssh: DESTINATION`, or `here: true` for this machine");
            return None;
        }
    };
    let address = match field("address") {
        Some(entry) => address(entry, sink)?,
        None if reach == Reach::Here => IpAddr::from([127, 0, 0, 1]),
        None => {
            let what = format!("`{name}` has no `address`");
            let hint =
                "the one by which the other machines of the run reach it: `address: 10.0.0.1`";
            sink.hint(&entry.key_at, what, hint);
            return None;
        }
    };
    let data = match field("data") {
        None => None,
        Some(entry) => {
            let path = text(entry, "a path", sink)?;
            if !path.starts_with('/') {
                sink.refuse(
                    &entry.node.at,
                    "data",
                    "an absolute path, such as `/var/tmp`",
                    &entry.node.seen("a mapping"),
                );
                return None;
            }
            Some(path)
        }
    };
    let servers = match field("servers") {
        None => ServerSelection::Nothing,
        Some(entry) => match entry.node.flag() {
            Some(true) => ServerSelection::Any,
            Some(false) => ServerSelection::Nothing,
            None => {
                let wanted = "`true`, `false` or a list of roles, such as `[storage]`";
                ServerSelection::Roles(texts(entry, wanted, sink)?)
            }
        },
    };
    let generator = flag("generator", sink)?;
    let cpus = field("cpus").map_or(Some(Vec::new()), |entry| cpus(entry, sink))?;
    Some(Machine {
        name: name.clone(),
        reach,
        address,
        data,
        servers,
        generator,
        cpus,
        kind: None,
        node: None,
        listed_at: Some(sink.line_of(&entry.key_at)),
    })
}

/// Parses a set of CPUs: `[0, 2-5]`, `0-3`.
fn cpus(entry: &PlacedEntry, sink: &mut DiagnosticSink<'_>) -> Option<Vec<u32>> {
    let range = |text: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.trim().parse().ok().filter(|cpu| *cpu <= CPU_MAX);
        let (first, last) = (number(first)?, number(last)?);
        (first <= last).then_some(first..=last)
    };
    let texts: Option<Vec<&str>> = match &entry.node.value {
        PlacedValue::List(items) => items.iter().map(PlacedNode::scalar).collect(),
        _ => entry.node.scalar().map(|text| text.split(',').collect()),
    };
    let ranges = texts.and_then(|texts| texts.into_iter().map(range).collect::<Option<Vec<_>>>());
    let all: BTreeSet<u32> = ranges.into_iter().flatten().flatten().collect();
    if all.is_empty() {
        let wanted = "the numbers of CPUs, such as `[0, 1]` or `2-5`";
        sink.refuse(&entry.node.at, "cpus", wanted, &entry.node.seen("a mapping"));
        return None;
    }
    Some(all.into_iter().collect())
}

fn address(entry: &PlacedEntry, sink: &mut DiagnosticSink<'_>) -> Option<IpAddr> {
    let found = entry.node.scalar().and_then(|text| text.parse::<IpAddr>().ok());
    match found.filter(|address| !address.is_unspecified() && !address.is_multicast()) {
        Some(address) => Some(address),
        None => {
            let seen = entry.node.seen("a mapping");
            sink.refuse(
                &entry.node.at,
                "address",
                "an IP address of one machine, such as `10.0.0.1`; a name is not looked up",
                &seen,
            );
            None
        }
    }
}

fn text(entry: &PlacedEntry, wanted: &str, sink: &mut DiagnosticSink<'_>) -> Option<String> {
    let text = entry.node.scalar().filter(|text| !text.is_empty());
    if text.is_none() {
        sink.refuse(&entry.node.at, &entry.key, wanted, &entry.node.seen("a mapping"));
    }
    text.map(str::to_owned)
}

fn texts(entry: &PlacedEntry, wanted: &str, sink: &mut DiagnosticSink<'_>) -> Option<Vec<String>> {
    let read = match &entry.node.value {
        PlacedValue::List(items) => {
            items.iter().map(|item| item.scalar().map(str::to_owned)).collect()
        }
        _ => None,
    };
    if read.is_none() {
        sink.refuse(&entry.node.at, &entry.key, wanted, &entry.node.seen("a mapping"));
    }
    read
}

fn unknown_fields(
    entries: &[PlacedEntry],
    known: &[&str],
    inside: &str,
    sink: &mut DiagnosticSink<'_>,
) {
    for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
        let inside = if inside.is_empty() { String::new() } else { format!(" in {inside}") };
        let hint = suggest(&entry.key, known.iter().copied(), "fields are");
        sink.hint(&entry.key_at, format!("unknown field `{}`{inside}", entry.key), hint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
machines:
  db1: {ssh: me@db1, address: 10.0.0.1, data: /mnt/a, servers: true}
  db2: {ssh: db2, address: 10.0.0.2, servers: [storage]}
  gen: {ssh: gen, address: 10.0.0.9, generator: true}
ssh: [-F, hosts]
";

    #[test]
    fn machines_are_parsed_with_their_servers() {
        let places = Places::parse("p.yaml", FILE).unwrap();
        let db1 = &places.machines[0];
        assert_eq!(db1.reach, Reach::Ssh("me@db1".into()));
        assert_eq!((db1.address, db1.data.as_deref()), ([10, 0, 0, 1].into(), Some("/mnt/a")));
        assert_eq!(places.generators(), [2]);
        assert_eq!(places.servers_of("storage", "x"), [1], "kept for it");
        assert_eq!(places.servers_of("system", "x"), [0], "takes any");
        assert_eq!(places.ssh, ["-F", "hosts"]);
        assert_eq!(places.tunnel, Tunnel::Auto);
        let never = Places::parse("p.yaml", &format!("{FILE}tunnel: never")).unwrap();
        assert_eq!(never.tunnel, Tunnel::Never);
    }

    #[test]
    fn cpus_are_parsed_as_numbers_and_ranges() {
        let read = |cpus: &str| {
            let text = format!(
                "machines: {{a: {{here: true, servers: true, generator: true, cpus: {cpus}}}}}"
            );
            let places = Places::parse("p.yaml", &text);
            places.map(|places| places.machines[0].cpus.clone()).map_err(|why| why.to_string())
        };
        assert_eq!(read("[3, 0, 3]").unwrap(), [0, 3]);
        assert_eq!(read("2-4").unwrap(), [2, 3, 4]);
        assert_eq!(read("[0, 4-5]").unwrap(), [0, 4, 5]);
        assert_eq!(read("'0,4-5'").unwrap(), [0, 4, 5]);
        for wrong in ["all", "[]", "4-2", "[-1]", "5000", "{a: 1}"] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains("`cpus` must be the numbers of CPUs"), "{wrong}: {error}");
        }
    }

    #[test]
    fn agents_are_parsed_for_all_machines_or_by_processor() {
        let read = |agent: &str| {
            let places = Places::parse("p.yaml", &format!("{FILE}agent: {agent}\n"));
            places.map(|places| places.agents).map_err(|why| why.to_string())
        };
        let of = |processor, path: &str| AgentFile { processor, path: path.to_owned() };
        assert_eq!(read("/x").unwrap(), [of(None, "/x")]);
        let both = [of(Some("x86_64"), "/x"), of(Some("aarch64"), "/y")];
        assert_eq!(read("{amd64: /x, arm64: /y}").unwrap(), both);
        assert_eq!(read("{x86_64: /x, aarch64: /y}").unwrap(), both);
        for (wrong, wanted) in [
            ("{arm: /x}", "unknown field `arm` in `agent`"),
            ("{arm64: }", "`arm64` must be a path"),
            ("[/x]", "`agent` must be a path"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(wanted), "{wrong}: {error}");
        }
    }

    #[test]
    fn namespaces_have_an_address_for_each_node_and_one_for_clients() {
        let places = Places::namespaces(3, "/var/tmp");
        let addresses: Vec<String> =
            places.machines.iter().map(|one| one.address.to_string()).collect();
        assert_eq!(addresses, ["198.18.0.1", "198.18.0.2", "198.18.0.3", "198.18.0.4"]);
        assert_eq!(places.servers_of("system", "etcd"), [0, 1, 2]);
        assert_eq!(places.generators(), [3]);
        assert!(places.can_be_cut());
        assert!(!Places::parse("p.yaml", FILE).unwrap().can_be_cut());
    }

    #[test]
    fn local_machine_alone_needs_no_address() {
        let text = "machines: {me: {here: true, servers: true, generator: true}}";
        let places = Places::parse("p.yaml", text).unwrap();
        assert_eq!(places.machines[0].address, IpAddr::from([127, 0, 0, 1]));
    }

    #[test]
    fn faults_are_reported_with_their_places() {
        let error = |text: &str| Places::parse("p.yaml", text).unwrap_err().to_string();
        let check = |text: &str, wanted: &str| {
            let error = error(text);
            assert!(error.contains(wanted), "{text}\n{error}");
        };
        check("", "the places file `p.yaml` is empty");
        check("[]", "a places file is a mapping, not a list");
        check("machines: {}", "a run has 1 to 1000 machines, not 0");
        check("ssh: [a]", "it names no `machines`");
        check(&format!("{FILE}tunnel: 3"), "`tunnel` must be `auto`, `always` or `never`");
        let with =
            |machine: &str| format!("{FILE}\n").replace("  gen:", &format!("  {machine}\n  gen:"));
        check(&with("db2: {here: true}"), "db2");
        check(&with("x: {ssh: db2, address: 10.0.0.3}"), "`x` is the same machine as `db2`");
        check(
            &with("x: {ssh: x, address: 10.0.0.1}"),
            "`x` has the address 10.0.0.1, which is `db1`'s",
        );
        check(
            &with("x: {ssh: x, address: 127.0.0.1}"),
            "`x` cannot be reached at 127.0.0.1 by others",
        );
        check(&with("x: {ssh: x}"), "`x` has no `address`");
        check(&with("x: {address: 10.0.0.3}"), "it is not said how `x` is reached");
        check(
            &with("x: {ssh: x, here: true, address: 1.1.1.1}"),
            "either `here` or reached by `ssh`",
        );
        check(
            &with("x: {ssh: x, address: 0.0.0.0}"),
            "`address` must be an IP address of one machine",
        );
        check(&with("x: {ssh: x, address: 1.1.1.1, data: x}"), "`data` must be an absolute path");
        check(
            &with("x: {ssh: -F y, address: 1.1.1.1}"),
            "`ssh` must be a destination, not an option",
        );
        check(
            &with("x: {ssh: x, address: 1.1.1.1, servers: yes}"),
            "`servers` must be `true`, `false` or a list of roles",
        );
        check(&with("x: {ssh: x, adress: 1.1.1.1}"), "unknown field `adress` in machine `x`");
        check(&with("x y: {ssh: x, address: 1.1.1.1}"), "`x y` cannot name a machine");
        check(
            &with("x: {ssh: x, address: 1.1.1.1, generator: 2}"),
            "`generator` must be `true` or `false`",
        );
        check("machines: {a: {here: true, generator: true}}", "no machine takes servers");
        check("machines: {a: {here: true, servers: true}}", "no machine generates load");
        let of = |purpose, text: &str| Places::parse_for(purpose, "p.yaml", text).is_ok();
        let generator = "machines: {a: {here: true, generator: true}}";
        let server = "machines: {a: {here: true, servers: true}}";
        assert!(of(Purpose::Load, generator) && of(Purpose::Doctor, generator));
        assert!(!of(Purpose::Load, server) && of(Purpose::Doctor, server));
        let lines = error(&with("x: {ssh: x, address: nope}"));
        assert!(lines.contains("--> p.yaml:4:24"), "{lines}");
    }
}
