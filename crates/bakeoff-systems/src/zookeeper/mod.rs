//! Runs a ZooKeeper ensemble and opens sessions to it.
//!
//! ZooKeeper syncs its transaction log before it acknowledges a write (`forceSync`). bakeoff leaves that on unless the
//! study sets `sync: none`. The settings of ZooKeeper's start script (the heap) are applied and reported too.
//!
//! Not here: the wire format (`bakeoff_wire::zookeeper`), timing (`engine`).

mod lock;
pub(crate) mod recipe;
mod session;
mod tree;
mod watch_session;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{AckLocation, Freshness, Guarantees};
use bakeoff_core::study::{
    self, CredentialForm, GROUP, Kill, Kind, KindOption, Operation, OptionForm, ReadConsistency,
    Workload,
};
use bakeoff_core::watch::{Delivery, WatchGuarantee, Watches};
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::EngineError;
use bakeoff_engine::works::keyed::KeyedState;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, Location, NodeFile, NodeSpec};
use bakeoff_install::Program;
use bakeoff_wire::ProtocolError;

use self::session::ZooKeeperSession;
use self::watch_session::ZooKeeperWatchSession;
use super::declaration::{ConnectionLimit, Declaration, GuaranteeRules, Hooks, Origin};
use super::exchange::{PATIENCE, Receiver, exchange};
use super::{
    ASKED, Access, ClusterStatus, DescribeContext, Description, KvLoad, NotReady, System,
    SystemError, majority_disks, plain_value, setting, synced_by,
};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &ZooKeeper;

#[derive(Debug)]
pub(crate) struct ZooKeeper;

const TICK_MS: &str = "2000"; // as in ZooKeeper's sample configuration
const HEAP: &str = "1000m"; // as in ZooKeeper's start script

const OPTIONS: &[KindOption] = &[
    KindOption { name: "heap", form: OptionForm::Size, meaning: "size of the Java heap" },
    KindOption {
        name: "tick-time",
        form: OptionForm::Duration,
        meaning: "ZooKeeper's unit of time",
    },
    KindOption {
        name: "init-limit",
        form: OptionForm::Number,
        meaning: "ticks in which a follower must connect to the leader and have its data; 10 by default",
    },
    KindOption {
        name: "sync-limit",
        form: OptionForm::Number,
        meaning: "ticks by which a follower may lag behind; 5 by default",
    },
    KindOption {
        name: "snap-count",
        form: OptionForm::Number,
        meaning: "transactions between snapshots",
    },
    KindOption {
        name: "jute-maxbuffer",
        form: OptionForm::Size,
        meaning: "the largest request or answer",
    },
    KindOption {
        name: "sync",
        form: OptionForm::Word(&["each", "none"]),
        meaning: "whether the log is synced before a write is acknowledged",
    },
];

const OPERATIONS: &[Operation] = &Operation::extended::<9>(
    Operation::CONDITIONAL,
    &[Operation::Lock, Operation::Look, Operation::Move],
);

/// Persistent watches, and a read after each event. An event has no value, so the reader skips versions.
const WATCHES: Watches = Watches {
    form: "notification and read",
    delivery: Delivery::Latest,
    guarantees: &[WatchGuarantee::Ordered, WatchGuarantee::Reliable],
    per_connection_max: 1, // a server keeps one watch a path and connection
    previous: false,
    prefix: true,
    oldest: false,
};

const INIT_LIMIT: &str = "10"; // as in ZooKeeper's sample configuration
const SYNC_LIMIT: &str = "5"; // as in ZooKeeper's sample configuration

/// Returns a relayed node's own list of hosts. It binds the address of its own entry in the configuration, and others
/// connect to it by the same entry. So entries have names, and each node resolves its own to where it listens.
fn hosts(locations: &[(String, Location)], own: &str) -> String {
    let line = |(name, location): &(String, Location)| {
        let address = if name == own { location.listens() } else { location.address };
        format!("{address} {name}\n")
    };
    locations.iter().map(line).collect()
}

impl System for ZooKeeper {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, freshness },
            hooks: Hooks {
                connection_limit: Some(connection_limit),
                watch: Some(|node| Box::new(ZooKeeperWatchSession::new(node))),
                ..Hooks::default()
            },
            unsafe_settings: &[("zookeeper.forceSync", &["no"])],
            announces: true,
            ..Declaration::new(
                Kind {
                    operations: OPERATIONS,
                    parameters: &[GROUP],
                    watches: Some(WATCHES),
                    reads: ReadConsistency::REQUESTED,
                    options: OPTIONS,
                    nodes_max: 9,
                    value_size_max: 1_000_000, // jute.maxbuffer is 1 MiB and holds the path too
                    in_flight_max: 100,
                    connection_each: false, // each connection would create a session, which a quorum logs
                    kill: Kill::UnderLoad,
                    credentials: CredentialForm::Password,
                    ..Kind::new("zookeeper")
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
        let installed = context.program.expect("ZooKeeper is not part of bakeoff");
        let mut command = installed.command().into_iter();
        let program = command.next().expect("a command has a program");
        let leading: Vec<_> = command.collect();
        let main_class = match &installed.program {
            Program::Java { main_class, .. } => main_class.clone(),
            Program::Binary(_) | Program::Node { .. } => String::new(), // a user's start script
        };

        let mut nodes = Vec::new();
        for (name, location) in context.located() {
            let mut port = || ports.take_for(location);
            nodes.push((name, location, port()?, port()?, port()?));
        }
        let value = |name: &str, form: &OptionForm, default: &str| {
            context.option(name).map_or_else(|| default.to_owned(), |text| plain_value(form, text))
        };
        let tick = value("tick-time", &OptionForm::Duration, TICK_MS);
        let heap = value("heap", &OptionForm::Size, HEAP);
        let init_limit = value("init-limit", &OptionForm::Number, INIT_LIMIT);
        let sync_limit = value("sync-limit", &OptionForm::Number, SYNC_LIMIT);
        let mut settings = vec![
            setting(
                "maxClientCnxns",
                0,
                "all clients have one address, and the default limit is 60 connections per address",
            ),
            setting("admin.enableServer", false, "its web server would listen on all addresses"),
            setting(
                "-Xmx, -Xms",
                &heap,
                if context.option("heap").is_some() {
                    ASKED
                } else {
                    "ZooKeeper's start script sets it"
                },
            ),
        ];
        if context.option("tick-time").is_some() {
            settings.push(setting("tickTime", &tick, ASKED));
        }
        for (option, name) in [("init-limit", "initLimit"), ("sync-limit", "syncLimit")] {
            if let Some(value) = context.option(option) {
                settings.push(setting(name, value, ASKED));
            }
        }
        let mut properties = Vec::new();
        let own = [
            ("snap-count", "zookeeper.snapCount", OptionForm::Number),
            ("jute-maxbuffer", "jute.maxbuffer", OptionForm::Size),
        ];
        for (option, property, form) in own {
            if let Some(text) = context.option(option) {
                let value = plain_value(&form, text);
                settings.push(setting(property, &value, ASKED));
                properties.push(format!("-D{property}={value}"));
            }
        }
        let unsynced = context.option("sync") == Some("none");
        if unsynced {
            settings.push(setting("forceSync", "no", ASKED));
        }

        // A single node runs standalone, without an ensemble.
        let ensemble: String = if nodes.len() == 1 {
            String::new()
        } else {
            (1..)
                .zip(&nodes)
                .map(|(id, (name, location, _, quorum, election))| match location.relayed_to {
                    None => format!("server.{id}={}:{election}\n", location.at(*quorum)),
                    Some(_) => format!("server.{id}={name}:{quorum}:{election}\n"),
                })
                .collect()
        };
        let locations: Vec<(String, Location)> =
            nodes.iter().map(|(name, location, ..)| (name.clone(), *location)).collect();
        let specs = (1..).zip(nodes).map(|(id, (name, location, client, quorum, election))| {
            let dir = context.dir.join(&name);
            let config = format!(
                "tickTime={tick}\ninitLimit={init_limit}\nsyncLimit={sync_limit}\ndataDir={}\nclientPort={client}\n\
                 clientPortAddress={}\nmaxClientCnxns=0\nadmin.enableServer=false\n\
                 4lw.commands.whitelist=srvr\n{ensemble}",
                dir.join("data").display(),
                location.listens()
            );
            let file = |path: &str, contents: String| NodeFile {
                path: path.into(),
                contents: contents.into_bytes(),
                mode: FileMode::Readable,
            };
            let mut args = leading.clone();
            args.extend([format!("-Xmx{heap}"), format!("-Xms{heap}")].map(Into::into));
            args.extend(properties.iter().map(Into::into));
            if unsynced {
                args.push("-Dzookeeper.forceSync=no".into());
            }
            let mut files = vec![file("zoo.cfg", config), file("data/myid", format!("{id}\n"))];
            if location.relayed_to.is_some() {
                files.push(file("hosts", hosts(&locations, &name)));
                args.push(format!("-Djdk.net.hosts.file={}", dir.join("hosts").display()).into());
            }
            args.push((&main_class).into());
            args.push(dir.join("zoo.cfg").into());
            NodeSpec {
                program: program.clone().into(),
                args,
                files,
                dir,
                location,
                ports: vec![
                    ("client".into(), client),
                    ("quorum".into(), quorum),
                    ("election".into(), election),
                ],
                limits: context.system.limits.clone(),
                name,
                ..NodeSpec::default()
            }
        });
        Ok(Description { nodes: specs.collect(), settings, ..Description::default() })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        let mut view = ClusterStatus::default();
        for (index, node) in nodes.iter().enumerate() {
            let replied = four_letters(node, b"srvr")?;
            let field = |name: &str| {
                replied.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
            };
            match field("Mode:").as_deref() {
                Some("leader" | "standalone") => {
                    view.leader = Some(index);
                    view.version = field("Zookeeper version:")
                        .and_then(|version| version.split('-').next().map(str::to_owned));
                }
                Some(_) => {}
                None => {
                    let first = replied.lines().next().unwrap_or("nothing");
                    let seen = SystemError::answered(node, first);
                    return Err(match first.contains("not in the whitelist") {
                        true => NotReady::Never {
                            seen: seen.to_string(),
                            hint: "the probe finds the leader with `srvr`: add it to `4lw.commands.whitelist` in its \
                                   configuration"
                                .to_owned(),
                        },
                        // The ensemble is electing a leader.
                        false if first.contains("not currently serving") => {
                            NotReady::NotYet(seen.to_string())
                        }
                        false => seen.into(),
                    });
                }
            }
        }
        match view.leader {
            Some(_) => Ok(view),
            None => Err("no node reports that it leads".into()),
        }
    }

    fn prepare(
        &self,
        node: &Access,
        _: &[Access],
        workload: &Workload,
        keyed: &KeyedState,
    ) -> Result<(), SystemError> {
        let space = &keyed.space;
        let mut parents = vec![top()];
        if workload.mix.contains_key(&Operation::Lock) {
            parents.push(lock::all());
            parents.extend((0..space.count()).map(lock::parent));
        }
        for directory in 0..space.directories() {
            let mut name = b"/".to_vec();
            space.write_directory(directory, &mut name);
            name.pop();
            parents.push(String::from_utf8_lossy(&name).into_owned());
        }
        tree::create(node, &parents)
    }

    fn removal(&self, node: &Access) -> Option<String> {
        Some(format!("zkCli.sh -server {} deleteall {}", node.authority, top()))
    }

    fn clear(&self, node: &Access) -> Result<(), SystemError> {
        tree::delete(node, &top())
    }

    fn may_use(&self, node: &Access) -> Result<(), NotReady> {
        tree::may_create(node, &top())
    }

    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
        load.over(ZooKeeperSession::new)
    }
}

/// Returns the parent node of all keys: `/bakeoff`.
fn top() -> String {
    format!("/{}", KEY_PREFIX.trim_end_matches('/'))
}

/// Returns the guarantees under these options.
fn guarantees(system: &study::System) -> Guarantees {
    // Without `forceSync` the log is still written before the answer, but not synced.
    let (acknowledged, acknowledged_in) = match (super::option(system, "sync"), system.nodes) {
        (Some("none"), 1) => ("once the kernel has it (`forceSync=no`)", AckLocation::PageCache),
        (Some("none"), _) => (
            "once the kernels of a majority have it (`forceSync=no`)",
            AckLocation::MajorityPageCaches,
        ),
        _ => (synced_by(system), majority_disks(system)),
    };
    Guarantees {
        replication: "Zab: every node holds all data in memory; a majority must live".into(),
        acknowledged: acknowledged.into(),
        reads: "by default from the contacted node, in order but possibly stale; linearizable reads send \
                a `sync` first"
            .into(),
        acknowledged_in: Some(acknowledged_in),
        ..Guarantees::default()
    }
}

/// Returns the freshness of reads.
fn freshness(_: &study::System, reads: ReadConsistency) -> Freshness {
    match reads {
        ReadConsistency::Default | ReadConsistency::Stale => Freshness::NodeAsked,
        ReadConsistency::Linearizable | ReadConsistency::Freshest => Freshness::Linearizable,
    }
}

/// Returns a server's limit of connections per address, if it answers `conf`.
fn connection_limit(node: &Access) -> Option<ConnectionLimit> {
    let replied = four_letters(node, b"conf").ok()?;
    let value = replied.lines().find_map(|line| line.strip_prefix("maxClientCnxns="))?;
    let connections = value.trim().parse().ok().filter(|&most| most > 0)?;
    Some(ConnectionLimit { connections, setting: "maxClientCnxns" })
}

/// Returns a server's answer to a four-letter word.
fn four_letters(node: &Access, word: &[u8]) -> Result<String, SystemError> {
    let mut words = Words(Vec::new());
    exchange(node, PATIENCE, word.to_vec(), &mut words)?;
    Ok(String::from_utf8_lossy(&words.0).into_owned())
}

/// Collects a four-letter word's answer until the server closes the connection.
struct Words(Vec<u8>);

impl Receiver for Words {
    fn on_bytes(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<bool, ProtocolError> {
        self.0.extend_from_slice(input);
        Ok(self.0.len() > 64 << 10)
    }

    fn hung_up(&mut self) -> Result<(), ProtocolError> {
        Ok(())
    }
}
