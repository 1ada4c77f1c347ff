//! Runs PostgreSQL for systems that store their data in it: one node, or one with streaming standbys.
//!
//! The first node is the primary, and no standby is ever promoted. Each standby copies the primary before its first
//! start, and then follows it with a replication slot. `synchronous: on` makes a commit wait until a majority of all
//! nodes, the primary included, has it on disk. Raft-based stores guarantee the same. With two nodes, both must have
//! it.
//!
//! `fsync`, `full_page_writes` and `synchronous_commit` keep PostgreSQL's default: on.
//!
//! Not here: the protocol (`bakeoff_wire::postgres`), tables of the systems that use it.

mod maintenance;
mod recipe;
mod sql;
#[cfg(test)]
mod tests;
mod vault_tables;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bakeoff_core::record::{AckLocation, Guarantees};
use bakeoff_core::study::{self, Kind, KindOption, OptionForm};
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, NodeFile, NodeSpec, OnFailure, SetupCommand};
use bakeoff_install::InstalledProgram;
use rand::RngExt as _;
use rand::distr::Alphanumeric;
use rustix::process::Signal;

use super::declaration::{Declaration, GuaranteeRules, Hooks, Origin};
use super::{
    ASKED, Access, ClusterStatus, DescribeContext, Description, Memory, NotReady, System,
    plain_value, setting,
};
pub(crate) use sql::execute;
pub(crate) use vault_tables::VAULT_TABLES;

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &PostgreSql;

#[derive(Debug)]
pub(crate) struct PostgreSql;

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: "synchronous",
        form: OptionForm::Word(&["on", "off"]),
        meaning: "whether a commit waits until a majority of the nodes has it on disk; on when absent",
    },
    KindOption {
        name: SYNC,
        form: OptionForm::Word(&["each", "none"]),
        meaning: "whether its log is synced before a commit is acknowledged (`fsync`); each when absent",
    },
    KindOption {
        name: "connections",
        form: OptionForm::Number,
        meaning: "limit of connections; 500 when absent",
    },
    KindOption {
        name: "shared-buffers",
        form: OptionForm::Size,
        meaning: "memory that its processes share as a cache",
    },
];

const SYNC: &str = "sync";
/// Default limit of connections: three Vault nodes with up to 128 each, and some reserved for superusers.
const CONNECTIONS: &str = "500";
/// Longest time for `initdb`, which usually takes seconds.
const INIT_WITHIN: Duration = Duration::from_secs(120);
/// Longest time for a standby to wait for the primary and copy it.
const COPY_WITHIN: Duration = Duration::from_secs(120);

/// Superuser of a cluster that bakeoff started.
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) database: String,
}

/// Returns the connection URL of a node, password included. Store it only in private files.
pub(crate) fn url(node: &Access) -> Option<String> {
    let Credentials { user, password, database } = &*node.memory.get::<Credentials>()?;
    let at = &node.authority;
    Some(format!("postgres://{user}:{password}@{at}/{database}?sslmode=disable"))
}

/// Returns letters and digits with 190 random bits.
fn random_text() -> String {
    rand::rng().sample_iter(Alphanumeric).take(32).map(char::from).collect()
}

/// Returns the number of standbys that must have a commit: enough for a majority with the primary.
fn waits_for(system: &study::System) -> u32 {
    match super::option(system, "synchronous") {
        Some("off") => 0,
        _ => system.nodes / 2,
    }
}

impl System for PostgreSql {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, ..GuaranteeRules::default() },
            hooks: Hooks { maintain: Some(maintenance::maintain), ..Hooks::default() },
            unsafe_settings: &[
                ("fsync", &["off", "false", "no", "0"]),
                ("synchronous_commit", &["off", "false", "no", "0"]),
                ("F", &[""]),
            ],
            ..Declaration::new(
                Kind {
                    options: OPTIONS,
                    maintenance: maintenance::OFFERS,
                    nodes_max: 5,
                    ..Kind::new("postgresql")
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
        let memory = Memory::default();
        let credentials = Credentials {
            user: "bakeoff".into(),
            password: random_text(),
            database: "postgres".into(),
        };
        let nodes = context
            .located()
            .map(|(name, location)| Ok((name, location, ports.take_for(location)?)));
        let nodes = nodes.collect::<Result<Vec<_>, HostError>>()?;
        let primary = nodes[0].1.at(nodes[0].2);
        let mut specs = Vec::new();
        for (number, (name, location, port)) in nodes.iter().enumerate() {
            let dir = std::path::absolute(context.dir.join(name))
                .map_err(|error| HostError::io("use the node's directory", context.dir, error))?;
            let standby = (number > 0).then_some(Standby { number, primary });
            let config = config(context, &dir, location.at(*port), standby.as_ref(), &credentials);
            let mut files = vec![
                file("postgresql.conf", config, FileMode::Readable),
                file("pg_hba.conf", ACCESS, FileMode::Readable),
            ];
            let secret = match &standby {
                None => file("password", credentials.password.clone(), FileMode::Private),
                Some(_) => file("pgpass", pgpass(primary, &credentials), FileMode::Private),
            };
            files.push(secret);
            let mut env = installed.env();
            env.push(("PGPASSFILE".into(), dir.join("pgpass").display().to_string()));
            specs.push(NodeSpec {
                program: (&installed.command()[0]).into(),
                args: vec!["-c".into(), assignment("config_file", &dir.join("postgresql.conf"))],
                env,
                files,
                location: *location,
                ports: vec![("client".into(), *port)],
                limits: context.system.limits.clone(),
                before: match &standby {
                    None => vec![initdb(installed, &credentials)?],
                    Some(standby) => standby.copy(installed, &credentials)?,
                },
                never_root: true,
                // SIGTERM would wait until the last client has disconnected.
                stop_signal: Some(Signal::INT),
                dir,
                name: name.clone(),
                ..NodeSpec::default()
            });
        }
        memory.keep(credentials);
        Ok(Description {
            nodes: specs,
            settings: settings(context),
            memory,
            ..Description::default()
        })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        let mut version = None;
        for (number, node) in nodes.iter().enumerate() {
            let rows = execute(node, LOOK)?;
            let Some([Some(recovers), Some(reply), Some(followed)]) =
                rows.first().map(Vec::as_slice)
            else {
                return Err(format!("`{}` answered unexpectedly", node.name).into());
            };
            let name = &node.name;
            match (number, recovers.as_str()) {
                (0, "f") if *followed != (nodes.len() - 1).to_string() => {
                    return Err(format!("{followed} standbys follow `{name}`").into());
                }
                (0, "f") => version = Some(reply.split(' ').next().unwrap_or(reply).to_owned()),
                (0, _) => return Err(format!("`{name}` is not a primary").into()),
                (_, "t") => {}
                _ => return Err(format!("`{name}` is not a standby").into()),
            }
        }
        Ok(ClusterStatus { leader: Some(0), version })
    }
}

/// Returns the guarantees under these options.
fn guarantees(system: &study::System) -> Guarantees {
    let replication = match (system.nodes, waits_for(system)) {
        (0 | 1, _) => "none: one node has the data",
        (_, 0) => "asynchronous: standbys follow the primary; no standby is promoted automatically",
        _ => "synchronous: standbys follow the primary; no standby is promoted automatically",
    };
    let unsynced = super::option(system, SYNC) == Some("none");
    let (acknowledged, acknowledged_in) = match (system.nodes, waits_for(system)) {
        (nodes, waits) if unsynced => match nodes > 1 && waits > 0 {
            true => (
                "once the kernels of a majority have it (`fsync=off`)",
                AckLocation::MajorityPageCaches,
            ),
            false => ("once the primary's kernel has it (`fsync=off`)", AckLocation::PageCache),
        },
        (0 | 1, _) => ("after it is synced to disk", AckLocation::Disk),
        (_, 0) => ("after the primary has synced it to disk", AckLocation::Disk),
        _ => ("after a majority has synced it to disk", AckLocation::MajorityDisks),
    };
    Guarantees {
        replication: replication.into(),
        acknowledged: acknowledged.into(),
        reads: "from the primary: all earlier commits".into(),
        acknowledged_in: Some(acknowledged_in),
        ..Guarantees::default()
    }
}

/// Query for a node's role, its version, and its number of standbys. If commits wait for standbys, a standby that has
/// not reported its position yet is listed as `async` and does not count.
const LOOK: &str = "SELECT pg_is_in_recovery(), current_setting('server_version'), \
                    (SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' \
                     AND (sync_state IN ('sync', 'quorum') \
                          OR current_setting('synchronous_standby_names') = ''))";

/// Access rules of each node: any address with the password, over loopback too, where any user of the machine can
/// connect. The address proves nothing: the coordinator and an address translator use addresses of their own.
const ACCESS: &str = "host all all all scram-sha-256\nhost replication all all scram-sha-256\n";

fn file(path: &str, contents: impl Into<Vec<u8>>, mode: FileMode) -> NodeFile {
    NodeFile { path: path.into(), contents: contents.into(), mode }
}

/// Returns `name=/path`, with the exact bytes of the path.
fn assignment(name: &str, path: &Path) -> std::ffi::OsString {
    let mut text = std::ffi::OsString::from(format!("{name}="));
    text.push(path);
    text
}

/// Returns another program of the same installation.
fn adjacent(server: &InstalledProgram, name: &str) -> Result<PathBuf, HostError> {
    server.adjacent(name).ok_or_else(|| HostError::Program {
        node: server.system.clone(),
        program: name.into(),
        problem: format!("it did not come with {}; one node does without", server.source),
    })
}

fn initdb(server: &InstalledProgram, credentials: &Credentials) -> Result<SetupCommand, HostError> {
    let args = [
        "--pgdata=data",
        &format!("--username={}", credentials.user),
        "--pwfile=password",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
    ];
    Ok(SetupCommand {
        program: adjacent(server, "initdb")?,
        args: args.map(Into::into).to_vec(),
        within: INIT_WITHIN,
        failure: OnFailure::GiveUp,
    })
}

/// A node that follows the first one.
struct Standby {
    number: usize,
    /// Address of the primary.
    primary: SocketAddr,
}

impl Standby {
    fn name(&self) -> String {
        format!("standby_{}", self.number)
    }

    /// Waits for the primary, copies it and turns the copy into a standby.
    fn copy(
        &self,
        server: &InstalledProgram,
        credentials: &Credentials,
    ) -> Result<Vec<SetupCommand>, HostError> {
        let args = [
            "--pgdata=data",
            &format!("--host={}", self.primary.ip()),
            &format!("--port={}", self.primary.port()),
            &format!("--username={}", credentials.user),
            "--no-password",
            "--checkpoint=fast",
            "--create-slot",
            &format!("--slot={}", self.name()),
        ];
        let copy = SetupCommand {
            program: adjacent(server, "pg_basebackup")?,
            args: args.map(Into::into).to_vec(),
            within: COPY_WITHIN,
            // The primary has only just been started.
            failure: OnFailure::TryAgain,
        };
        let mark = SetupCommand {
            program: "touch".into(),
            args: vec!["data/standby.signal".into()],
            within: Duration::from_secs(5),
            failure: OnFailure::GiveUp,
        };
        Ok(vec![copy, mark])
    }
}

/// Returns a `.pgpass` line: host, port, database, user, password.
fn pgpass(primary: SocketAddr, credentials: &Credentials) -> String {
    // Colons separate its fields.
    let host = primary.ip().to_string().replace(':', "\\:");
    format!("{host}:{}:*:{}:{}\n", primary.port(), credentials.user, credentials.password)
}

/// Returns a node's whole configuration. Everything else is PostgreSQL's default.
fn config(
    context: &DescribeContext<'_>,
    dir: &Path,
    at: SocketAddr,
    standby: Option<&Standby>,
    credentials: &Credentials,
) -> String {
    let mut text = String::new();
    let mut set = |name: &str, value: &str| {
        let _ = writeln!(text, "{name} = {}", quoted(value));
    };
    let path = |name: &str| dir.join(name).display().to_string();
    set("data_directory", &path("data"));
    set("hba_file", &path("pg_hba.conf"));
    set("ident_file", &path("pg_ident.conf"));
    set("listen_addresses", &at.ip().to_string());
    set("port", &at.port().to_string());
    set("unix_socket_directories", "");
    set("password_encryption", "scram-sha-256");
    if context.option(SYNC) == Some("none") {
        set("fsync", "off");
    }
    set("max_connections", context.option("connections").unwrap_or(CONNECTIONS));
    if let Some(size) = context.option("shared-buffers") {
        set("shared_buffers", &kilobytes(size));
    }
    if let Some(standby) = standby {
        set("cluster_name", &standby.name());
        set("primary_slot_name", &standby.name());
        let from = format!(
            "host={} port={} user={} passfile={} sslmode=disable",
            standby.primary.ip(),
            standby.primary.port(),
            credentials.user,
            quoted(&path("pgpass")),
        );
        set("primary_conninfo", &from);
    } else if waits_for(context.system) > 0 {
        set("synchronous_standby_names", &synchronous(context.system));
    }
    text
}

/// Quotes a text for PostgreSQL's files and connection strings.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn synchronous(system: &study::System) -> String {
    format!("ANY {} (*)", waits_for(system))
}

fn kilobytes(size: &str) -> String {
    let bytes = plain_value(&OptionForm::Size, size).parse::<u64>().unwrap_or_default();
    format!("{}kB", bytes >> 10)
}

fn settings(context: &DescribeContext<'_>) -> Vec<bakeoff_core::record::Setting> {
    let connections = match context.option("connections") {
        Some(context) => setting("max_connections", context, ASKED),
        None => setting(
            "max_connections",
            CONNECTIONS,
            "three Vault nodes may open 128 each, but the default is 100",
        ),
    };
    let over = match context.location(0).address.is_loopback() {
        true => "all clients connect over loopback",
        false => "all clients connect over the network",
    };
    let mut settings = vec![
        connections,
        setting("unix_socket_directories", "''", over),
        setting(
            "encoding, locale",
            "UTF8, C",
            "the database is the same on every machine; by default they come from the environment",
        ),
    ];
    if let Some(size) = context.option("shared-buffers") {
        settings.push(setting("shared_buffers", kilobytes(size), ASKED));
    }
    if context.option(SYNC) == Some("none") {
        settings.push(setting("fsync", "off", ASKED));
    }
    match (context.system.nodes, waits_for(context.system)) {
        (0 | 1, _) => {}
        (_, 0) => settings.push(setting("synchronous_standby_names", "''", ASKED)),
        _ => settings.push(setting(
            "synchronous_standby_names",
            synchronous(context.system),
            "an acknowledged commit must be on the disks of a majority, as in Raft-based stores",
        )),
    }
    settings
}
