//! Runs Tarantool, one node or two to three masters, and opens sessions to it.
//!
//! Each node of a cluster acknowledges writes and then replicates them to the others. There is no leader, and all
//! nodes accept writes. By default Tarantool resolves no conflicts: after two concurrent writes of a key at two nodes,
//! each node may keep a different one.
//!
//! It is a key-value store, and the rights database of an access gateway: `check_access` decides whether a session may
//! access a resource, and counts its answers (`rights`).
//!
//! `wal_mode` keeps Tarantool's default, `write`, unless the study sets it. It passes each write to the kernel before
//! the acknowledgement, without a sync.
//!
//! Not here: the wire format (`bakeoff_wire::iproto`), the code that nodes execute (`node.lua`), timing (`engine`).

mod function_calls;
pub(crate) mod recipe;
mod rights;
mod session;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{AckLocation, Freshness, Guarantees, Setting};
use bakeoff_core::study::{
    self, Kind, KindOption, Operation, OptionForm, ReadConsistency, Workload,
};
use bakeoff_engine::EngineError;
use bakeoff_engine::works::keyed::KeyedState;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, NodeFile, NodeSpec};
use serde_json::{Value, json};

use self::function_calls::{NodeStatus, call};
use self::session::TarantoolSession;
use super::carried_access::CarriedMemory;
use super::declaration::{Clients, Declaration, GuaranteeRules, Hooks, Origin};
use super::exchange::PATIENCE;
use super::{
    ASKED, Access, ClusterStatus, DescribeContext, Description, KvLoad, Memory, NotReady, System,
    SystemError, plain_value, setting,
};
#[cfg_attr(not(test), allow(unused_imports, reason = "what stands before it asks"))]
pub(crate) use rights::{Counts, granted};
pub(crate) use rights::{fill_sessions, session_name, stranger_name};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &Tarantool;

#[derive(Debug)]
pub(crate) struct Tarantool;

/// User for the objects that bakeoff created in a cluster that it started. Has no `Debug`, so that nothing prints it.
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

const MEMTX_MEMORY: &str = "memtx-memory";
const WAL_MODE: &str = "wal-mode";
/// Option that lets anybody call `check_access` without a login.
const GUEST_ACCESS: &str = "guest-access";

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: MEMTX_MEMORY,
        form: OptionForm::Size,
        meaning: "memory reserved for the data; 256MiB when absent",
    },
    KindOption {
        name: WAL_MODE,
        form: OptionForm::Word(&["none", "write", "fsync"]),
        meaning: "whether a write is logged before its acknowledgement, and the log synced; write when absent",
    },
    KindOption {
        name: GUEST_ACCESS,
        form: OptionForm::Word(&["off", "on"]),
        meaning: "whether clients may call `check_access` without a login, as NGINX's module \
                  nginx_upstream_module does; off when absent",
    },
];

/// Number of the space of the keys: the first one that is not Tarantool's own.
const KV_SPACE: u32 = 512;
/// Number of the index for looking up keys.
const PRIMARY: u32 = 0;

/// Script that every node executes.
const NODE: &str = include_str!("node.lua");

/// Longest time for nodes to replicate acknowledged writes to each other.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// Returns user and password, for sessions on other machines.
fn give(memory: &Memory) -> Option<Value> {
    let credentials = memory.get::<Credentials>()?;
    Some(json!([credentials.user, credentials.password]))
}

/// Stores user and password.
fn take(given: Value, memory: &Memory) -> Option<()> {
    let (user, password) = serde_json::from_value(given).ok()?;
    memory.keep(Credentials { user, password });
    Some(())
}

impl System for Tarantool {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, freshness },
            clients: Clients {
                authentication: Some("user and password (chap-sha1), once per connection"),
                ..Clients::default()
            },
            hooks: Hooks {
                settle: Some(settle),
                carried: Some(CarriedMemory { give, take }),
                ..Hooks::default()
            },
            ..Declaration::new(
                Kind {
                    operations: &[
                        Operation::Put,
                        Operation::Get,
                        Operation::Delete,
                        Operation::List,
                        Operation::ReadModifyWrite,
                        Operation::Insert,
                        Operation::Ping,
                        Operation::CheckAccess,
                        Operation::Denied,
                    ],
                    reads: &[ReadConsistency::Default],
                    options: OPTIONS,
                    sound,
                    nodes_max: 3,
                    value_size_max: 1_000_000, // memtx_max_tuple_size is 1 MiB and holds the key too
                    in_flight_max: 1000,
                    ..Kind::new("tarantool")
                },
                Origin::Recipe(&recipe::RECIPE),
            )
        }
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError> {
        let installed = context.installed()?;
        let credentials = Credentials {
            user: "bakeoff".into(),
            password: format!("{:032x}", rand::random::<u128>()),
        };
        let nodes = context
            .located()
            .map(|(name, location)| Ok((name, location, ports.take_for(location)?)));
        let nodes = nodes.collect::<Result<Vec<_>, HostError>>()?;
        let all: Vec<SocketAddr> =
            nodes.iter().map(|(_, location, port)| location.at(*port)).collect();
        let command = installed.command();
        let (program, leading) = command.split_first().expect("a command has a program");
        let specs = (1..).zip(nodes).map(|(number, (name, location, port))| {
            let config = config(context, number, &all, &credentials);
            let file = |path: &str, contents: &str, mode| NodeFile {
                path: path.into(),
                contents: contents.into(),
                mode,
            };
            NodeSpec {
                program: program.into(),
                args: leading.iter().cloned().chain(["node.lua".into()]).collect(),
                env: installed.env(),
                files: vec![
                    file("node.lua", NODE, FileMode::Readable),
                    file("config.lua", &config, FileMode::Private),
                ],
                dir: context.dir.join(&name),
                location,
                ports: vec![("client".into(), port)],
                limits: context.system.limits.clone(),
                name,
                ..NodeSpec::default()
            }
        });
        let nodes: Vec<NodeSpec> = specs.collect();
        let memory = Memory::default();
        memory.keep(credentials);
        let file = |node: &NodeSpec| (node.name.clone(), node.dir.join(rights::FILE));
        memory.keep(rights::Files(nodes.iter().map(file).collect()));
        Ok(Description { nodes, settings: settings(context), memory, ..Description::default() })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        let mut version = None;
        for node in nodes {
            let NodeStatus { version: reply, status, both, trouble, .. } =
                function_calls::probe(node)?;
            let name = &node.name;
            if status != "running" {
                return Err(format!("`{name}` is {status}").into());
            }
            if both + 1 < nodes.len() as u64 {
                let others = nodes.len() - 1;
                let seen = format!("`{name}` replicates with {both} of {others} other nodes");
                return Err(match trouble.is_empty() {
                    true => seen.into(),
                    false => format!("{seen}: {trouble}").into(),
                });
            }
            version = version.or(reply.split('-').next().map(str::to_owned));
        }
        let leader = (nodes.len() == 1).then_some(0);
        Ok(ClusterStatus { leader, version })
    }

    fn prepare(
        &self,
        _: &Access,
        nodes: &[Access],
        workload: &Workload,
        _: &KeyedState,
    ) -> Result<(), SystemError> {
        match workload.mix.contains_key(&Operation::CheckAccess) {
            true => fill_sessions(nodes, workload.keys.count),
            false => Ok(()),
        }
    }

    fn clear(&self, node: &Access) -> Result<(), SystemError> {
        call(node, PATIENCE, "bakeoff.clear", &[], |_| Some(()))
    }

    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
        load.over(TarantoolSession::new)
    }
}

/// Returns the guarantees under these options.
fn guarantees(system: &study::System) -> Guarantees {
    let alone = system.nodes <= 1;
    let (acknowledged, acknowledged_in) = match super::option(system, WAL_MODE) {
        Some("none") => {
            ("once it is in memory (`wal_mode` none): nothing is kept", AckLocation::Memory)
        }
        Some("fsync") if alone => ("after it is synced to disk", AckLocation::Disk),
        Some("fsync") => ("after the contacted node has synced it to disk", AckLocation::Disk),
        _ if alone => (
            "once the kernel has it (`wal_mode` write): a crash of the program loses nothing, \
             a power cut may",
            AckLocation::PageCache,
        ),
        _ => (
            "once the kernel of the contacted node has it (`wal_mode` write), before any other node",
            AckLocation::PageCache,
        ),
    };
    let (replication, reads) = match alone {
        true => (
            "none: one node has the data, in memory",
            "from memory: the newest write, though it may not be logged yet",
        ),
        false => (
            "asynchronous, master-master: each node accepts writes and replicates them to all \
             others; nothing resolves conflicts",
            "from the memory of the contacted node, which may lag behind",
        ),
    };
    Guarantees {
        replication: replication.into(),
        acknowledged: acknowledged.into(),
        reads: reads.into(),
        acknowledged_in: Some(acknowledged_in),
        ..Guarantees::default()
    }
}

/// Returns the freshness of reads.
fn freshness(system: &study::System, _: ReadConsistency) -> Freshness {
    match system.nodes {
        0 | 1 => Freshness::Linearizable,
        _ => Freshness::NodeAsked,
    }
}

/// Waits until all nodes have every write that any of them acknowledged.
fn settle(nodes: &[Access]) -> Result<(), SystemError> {
    if nodes.len() < 2 {
        return Ok(());
    }
    let deadline = clock::now() + SETTLED_WITHIN;
    loop {
        // A node that is busy with writes of others may not answer for a while.
        let came = nodes.iter().map(|node| Ok(function_calls::probe(node)?.came));
        let seen = match came.collect::<Result<Vec<_>, SystemError>>() {
            Ok(came) if came.iter().all(|one| *one == came[0]) => {
                return function_calls::alike(nodes);
            }
            Ok(_) => {
                let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
                format!("{} do not have each other's writes", names.join(" and "))
            }
            Err(why) => why.to_string(),
        };
        if clock::now() > deadline {
            return Err(format!("after {SETTLED_WITHIN:?} {seen}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn sound(system: &study::System) -> Result<(), (String, String)> {
    let wrong = |what: &str, hint: &str| Err((what.to_owned(), hint.to_owned()));
    if !system.is_started() {
        return wrong(
            "bakeoff can only load a Tarantool that it started: it needs its own spaces and functions",
            "leave `endpoints` out",
        );
    }
    if system.nodes > 1 && super::option(system, WAL_MODE) == Some("none") {
        return wrong(
            "nodes replicate their logs, and `wal-mode: none` keeps no log",
            "write `nodes: 1`, or choose another `wal-mode`",
        );
    }
    Ok(())
}

/// Returns true if clients may call `check_access` without a login.
pub(crate) fn allows_guests(system: &study::System) -> bool {
    super::option(system, GUEST_ACCESS) == Some("on")
}

/// Returns a node's `config.lua`. Everything else in `box` is Tarantool's default.
fn config(
    context: &DescribeContext<'_>,
    number: u16,
    nodes: &[SocketAddr],
    credentials: &Credentials,
) -> String {
    let Credentials { user, password } = credentials;
    let mut text = String::from("return {\n");
    let mut line = |words: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "    {words}");
    };
    line(format_args!("user = '{user}', password = '{password}',"));
    line(format_args!("nodes = {}, first = {}, kv = {KV_SPACE},", nodes.len(), number == 1));
    if allows_guests(context.system) {
        line(format_args!("guest = true,"));
    }
    line(format_args!("box = {{"));
    line(format_args!("    listen = '{}',", nodes[usize::from(number) - 1]));
    line(format_args!("    feedback_enabled = false,"));
    if let Some(size) = context.option(MEMTX_MEMORY) {
        line(format_args!("    memtx_memory = {},", plain_value(&OptionForm::Size, size)));
    }
    if let Some(mode) = context.option(WAL_MODE) {
        line(format_args!("    wal_mode = '{mode}',"));
    }
    if nodes.len() > 1 {
        // Of the empty nodes, the one with the smallest identity creates the cluster.
        line(format_args!("    instance_uuid = '00000000-0000-4000-8000-{number:012}',"));
        line(format_args!("    replication = {{"));
        for node in nodes {
            line(format_args!("        '{user}:{password}@{node}',"));
        }
        line(format_args!("    }},"));
    }
    line(format_args!("}},"));
    text.push_str("}\n");
    text
}

fn settings(context: &DescribeContext<'_>) -> Vec<Setting> {
    let mut settings = vec![setting(
        "feedback_enabled",
        false,
        "it would send usage data to an address outside this machine",
    )];
    for (name, option) in [("memtx_memory", MEMTX_MEMORY), ("wal_mode", WAL_MODE)] {
        if let Some(value) = context.option(option) {
            settings.push(setting(name, value, ASKED));
        }
    }
    if allows_guests(context.system) {
        settings.push(setting("user `guest`", "may execute check_access", ASKED));
    }
    if context.system.nodes > 1 {
        settings.push(setting(
            "replication",
            "all nodes, of each node",
            "each node is a master of the others: `nodes` above 1 means that",
        ));
        settings.push(setting(
            "instance_uuid",
            "ascending with the node's number",
            "the first node then creates the cluster; otherwise a random one does",
        ));
    }
    settings
}
