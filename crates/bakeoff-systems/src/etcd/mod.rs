//! Runs an etcd cluster and opens sessions to it.
//!
//! etcd syncs its log before it acknowledges a write. bakeoff leaves that on: a faster number without it would answer
//! a different question. All of etcd's defaults stay unless the study sets them.
//!
//! Not here: the wire format (`bakeoff_wire::grpc`), timing (`engine`).

mod leases;
mod lock;
mod maintenance;
mod messages;
pub(crate) mod recipe;
mod session;
#[cfg(test)]
mod tests;
mod user;
mod watch_session;
mod watcher;

use std::sync::Arc;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{AckLocation, Freshness, Guarantees};
use bakeoff_core::secrets;
use bakeoff_core::study::{
    self, CredentialForm, GROUP, GUARD, Kill, Kind, KindOption, LEASE_TTL, LEASES, Operation,
    OptionForm, RENEWALS, ReadConsistency, Workload,
};
use bakeoff_core::watch::{Delivery, WatchGuarantee, Watches};
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::EngineError;
use bakeoff_engine::works::keyed::KeyedState;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{HostError, NodeSpec};
use bakeoff_wire::ProtocolError;
use bakeoff_wire::grpc::{Client, Status};

use self::lock::LockRules;
use self::session::EtcdSession;
use self::watch_session::EtcdWatchSession;
pub use self::watch_session::etcd_watch_session;
use super::declaration::{Clients, Declaration, GuaranteeRules, Hooks, ON, Origin};
use super::exchange::{PATIENCE, Patience, Receiver, exchange};
use super::{
    ASKED, Access, ClientToken, ClusterStatus, DescribeContext, Description, KvLoad, Login,
    NotReady, System, SystemError, majority_disks, plain_value, setting, synced_by,
};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &Etcd;

#[derive(Debug)]
pub(crate) struct Etcd;

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: "snapshot-count",
        form: OptionForm::Number,
        meaning: "committed entries between snapshots",
    },
    KindOption {
        name: "heartbeat-interval",
        form: OptionForm::Duration,
        meaning: "time between the leader's heartbeats",
    },
    KindOption {
        name: "election-timeout",
        form: OptionForm::Duration,
        meaning: "silence of the leader before an election",
    },
    KindOption { name: "quota", form: OptionForm::Size, meaning: "largest size of the database" },
    KindOption {
        name: SYNC,
        form: OptionForm::Word(&["each", "none"]),
        meaning: "whether log and database are synced before a write is acknowledged; each when absent",
    },
];

const SYNC: &str = "sync";

const OPERATIONS: &[Operation] = &Operation::extended::<13>(
    Operation::CONDITIONAL,
    &[
        Operation::Scan,
        Operation::GrantLease,
        Operation::KeepLease,
        Operation::Watch,
        Operation::Lock,
        Operation::Look,
        Operation::Move,
    ],
);

const PARAMETERS: &[KindOption] = &[
    KindOption {
        name: "scan",
        form: OptionForm::Number,
        meaning: "number of keys that a `scan` reads; 100 by default",
    },
    LEASE_TTL,
    GROUP,
    GUARD,
    RENEWALS,
    KindOption {
        name: LEASES,
        form: OptionForm::Number,
        meaning: "number of leases that are granted before the load; 0 by default",
    },
];

/// Watches as etcd's API guarantees describe them.
const WATCHES: Watches = Watches {
    form: "stream of events",
    delivery: Delivery::Each,
    guarantees: WatchGuarantee::ALL,
    per_connection_max: u32::MAX,
    previous: true,
    prefix: true,
    oldest: true,
};

/// Returns etcd's flag for an option of bakeoff.
fn flag(option: &str) -> &str {
    if option == "quota" { "quota-backend-bytes" } else { option }
}

impl System for Etcd {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, freshness },
            clients: Clients { alpn: &[b"h2"], ..Clients::default() },
            hooks: Hooks {
                maintain: Some(maintenance::maintain),
                watch: Some(|node| Box::new(EtcdWatchSession::new(node))),
                ..Hooks::default()
            },
            // etcd accepts every flag also as an environment variable.
            unsafe_settings: &[("unsafe-no-fsync", ON), ("ETCD_UNSAFE_NO_FSYNC", ON)],
            announces: true,
            ..Declaration::new(
                Kind {
                    operations: OPERATIONS,
                    parameters: PARAMETERS,
                    maintenance: maintenance::OFFERS,
                    watches: Some(WATCHES),
                    reads: ReadConsistency::REQUESTED,
                    options: OPTIONS,
                    nodes_max: 9,
                    value_size_max: 1_500_000, // etcd refuses requests over 1.5 MiB (--max-request-bytes)
                    in_flight_max: 100, // streams of one connection, far below etcd's own limit
                    kill: Kill::UnderLoad,
                    credentials: CredentialForm::Password,
                    ..Kind::new("etcd")
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
        let program = context.program.expect("etcd is not part of bakeoff").command();
        let mut nodes = Vec::new();
        for (name, location) in context.located() {
            nodes.push((name, location, ports.take_for(location)?, ports.take_for(location)?));
        }
        let peers: Vec<String> = nodes
            .iter()
            .map(|(name, location, _, peer)| format!("{name}=http://{}", location.at(*peer)))
            .collect();
        let peers = peers.join(",");
        let mut settings = Vec::new();
        let mut extra = Vec::new();
        for KindOption { name, form, .. } in OPTIONS {
            let Some(text) = context.option(name) else { continue };
            if *name == SYNC {
                settings.push(setting("unsafe-no-fsync", text == "none", ASKED));
                extra.extend((text == "none").then(|| "--unsafe-no-fsync".to_owned()));
                continue;
            }
            let (flag, value) = (flag(name), plain_value(form, text));
            settings.push(setting(flag, &value, ASKED));
            extra.push(format!("--{flag}={value}"));
        }
        let nodes = nodes.into_iter().map(|(name, location, client, peer)| {
            let dir = context.dir.join(&name);
            let url = |port: u16| format!("http://{}", location.at(port));
            let listens = |port: u16| format!("http://{}", location.listens_at(port));
            let mut args = vec![
                format!("--name={name}"),
                format!("--data-dir={}", dir.join("data").display()),
                format!("--listen-client-urls={}", listens(client)),
                format!("--advertise-client-urls={}", url(client)),
                format!("--listen-peer-urls={}", listens(peer)),
                format!("--initial-advertise-peer-urls={}", url(peer)),
                format!("--initial-cluster={peers}"),
                "--initial-cluster-state=new".to_owned(),
                "--initial-cluster-token=bakeoff".to_owned(),
            ];
            args.extend(extra.iter().cloned());
            NodeSpec {
                program: (&program[0]).into(),
                args: args.into_iter().map(Into::into).collect(),
                dir,
                location,
                ports: vec![("client".into(), client), ("peer".into(), peer)],
                limits: context.system.limits.clone(),
                name,
                ..NodeSpec::default()
            }
        });
        Ok(Description { nodes: nodes.collect(), settings, ..Description::default() })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        let statuses = nodes
            .iter()
            .map(|node| {
                let answer = call(node, messages::STATUS, &[]).map_err(|why| refused(node, why))?;
                let status = messages::read_status(&answer);
                status.map_err(|error| SystemError::answered(node, error).into())
            })
            .collect::<Result<Vec<_>, NotReady>>()?;
        let leader = statuses.iter().position(|status| status.member == status.leader);
        let agreed = statuses.iter().all(|status| status.leader == statuses[0].leader);
        match leader {
            Some(leader) if agreed => Ok(ClusterStatus {
                leader: Some(leader),
                version: Some(statuses[leader].version.clone()),
            }),
            _ if statuses.iter().all(|status| status.leader != 0) && agreed => {
                // The leader is not one of the known nodes.
                Ok(ClusterStatus { leader: None, version: Some(statuses[0].version.clone()) })
            }
            _ => Err("the nodes do not agree on a leader".into()),
        }
    }

    fn prepare(
        &self,
        first: &Access,
        _: &[Access],
        workload: &Workload,
        _: &KeyedState,
    ) -> Result<(), SystemError> {
        match workload.leases() {
            0 => Ok(()),
            count => leases::grant(first, count),
        }
    }

    fn removal(&self, node: &Access) -> Option<String> {
        let (scheme, trusts) = match node.target.tls {
            Some(_) => ("https", " --cacert=FILE"),
            None => ("http", ""),
        };
        let login = node.memory.get::<Login>();
        let user = login.map_or_else(String::new, |login| format!(" --user={}", login.user));
        let authority = &node.authority;
        Some(format!(
            "etcdctl --endpoints={scheme}://{authority}{trusts}{user} del --prefix {KEY_PREFIX}"
        ))
    }

    fn clear(&self, node: &Access) -> Result<(), SystemError> {
        let mut message = Vec::new();
        messages::write_delete_all(&mut message);
        call(node, messages::DELETE_RANGE, &message)?;
        leases::revoke(node)
    }

    fn may_use(&self, node: &Access) -> Result<(), NotReady> {
        let mut message = Vec::new();
        messages::write_get(KEY_PREFIX.as_bytes(), false, &mut message);
        call(node, messages::RANGE, &message).map(drop).map_err(|why| refused(node, why))
    }

    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
        let (in_flight, lease_seconds) = (load.drive.in_flight, load.keyed.lease_seconds);
        let rules = LockRules::new(load.keyed);
        load.over(move |node| EtcdSession::new(node, in_flight, lease_seconds, rules))
    }
}

/// Returns the guarantees under these options.
fn guarantees(system: &study::System) -> Guarantees {
    let (acknowledged, acknowledged_in) = match (super::option(system, SYNC), system.nodes) {
        (Some("none"), 1) => {
            ("once the kernel has it (`--unsafe-no-fsync`)", AckLocation::PageCache)
        }
        (Some("none"), _) => (
            "once the kernels of a majority have it (`--unsafe-no-fsync`)",
            AckLocation::MajorityPageCaches,
        ),
        _ => (synced_by(system), majority_disks(system)),
    };
    Guarantees {
        replication: "Raft: every node holds all data; a majority must live".into(),
        acknowledged: acknowledged.into(),
        reads:
            "linearizable by default; `stale` (serializable) reads answer from the contacted node"
                .into(),
        acknowledged_in: Some(acknowledged_in),
        ..Guarantees::default()
    }
}

/// Returns the freshness of reads.
fn freshness(_: &study::System, reads: ReadConsistency) -> Freshness {
    match reads {
        ReadConsistency::Stale => Freshness::NodeAsked,
        ReadConsistency::Linearizable | ReadConsistency::Default | ReadConsistency::Freshest => {
            Freshness::Linearizable
        }
    }
}

/// Classifies a node's error. Waiting does not fix wrong credentials. The wording is that of `rpctypes` in etcd's
/// `api/v3`.
fn refused(node: &Access, why: SystemError) -> NotReady {
    let seen = why.to_string();
    let hint = if seen.contains("user name is empty") || seen.contains("permission denied") {
        match node.memory.get::<Login>() {
            None => {
                "it needs a user: add `credentials: {user: NAME, password: $ETCD_PASSWORD}`, of one that may read \
                 and write keys below `bakeoff/`"
            }
            Some(_) => {
                "allow the user in the study's `credentials` to read and write keys below `bakeoff/`"
            }
        }
    } else if seen.contains("invalid user ID or password") {
        "check `credentials` in the study, and the contents of its variable or file"
    } else if seen.contains("authentication is not enabled") {
        "authentication is off: leave `credentials` out of the study"
    } else if seen.contains(UNAVAILABLE) {
        return NotReady::NotYet(seen);
    } else {
        return why.into();
    };
    NotReady::Never { seen, hint: hint.to_owned() }
}

/// gRPC code of errors that may be retried (`UNAVAILABLE`), such as `etcdserver: no leader`.
const UNAVAILABLE: &str = "gRPC UNAVAILABLE";

/// Answer to a call with a token that a node no longer knows.
const TOKEN_GONE: &str = "invalid auth token";

/// Makes one call outside of a load, as the study's user if it names one.
fn call(node: &Access, method: &str, message: &[u8]) -> Result<Vec<u8>, SystemError> {
    let Some(login) = node.memory.get::<Login>() else {
        return call_as(node, None, method, message, PATIENCE.into());
    };
    let known: Option<Arc<ClientToken>> = node.memory.get();
    let is_new = known.is_none();
    let token = known.map_or_else(|| sign_in(node, &login), Ok)?;
    match call_as(node, Some(&token), method, message, PATIENCE.into()) {
        // Nodes forget tokens that were unused for some minutes.
        Err(SystemError::Answered { answer, .. }) if !is_new && answer.contains(TOKEN_GONE) => {
            call_as(node, Some(&*sign_in(node, &login)?), method, message, PATIENCE.into())
        }
        answer => answer,
    }
}

/// Obtains a token for a user from a node. It is valid at all nodes.
fn sign_in(node: &Access, login: &Login) -> Result<Arc<ClientToken>, SystemError> {
    let mut message = Vec::new();
    messages::write_authenticate(&login.user, &login.password, &mut message);
    let answer = call_as(node, None, messages::AUTHENTICATE, &message, PATIENCE.into())?;
    let token =
        messages::read_token(&answer).map_err(|error| SystemError::answered(node, error))?;
    secrets::note(&token);
    node.memory.keep(ClientToken(token.clone()));
    Ok(Arc::new(ClientToken(token)))
}

fn call_as(
    node: &Access,
    token: Option<&ClientToken>,
    method: &str,
    message: &[u8],
    patience: Patience<'_>,
) -> Result<Vec<u8>, SystemError> {
    struct Call {
        client: Client,
        answer: Result<Vec<u8>, String>,
    }
    impl Receiver for Call {
        fn on_bytes(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<bool, ProtocolError> {
            let mut ended = false;
            self.client.receive(input, out, &mut |_, answer: Result<&[u8], Status<'_>>| {
                self.answer = answer.map(<[u8]>::to_vec).map_err(|status| status.to_string());
                ended = true;
            })?;
            Ok(ended)
        }
    }
    let metadata = token.map(messages::metadata);
    let mut client = Client::new(&node.authority, node.target.tls.is_some(), metadata.as_slice());
    let mut out = Vec::new();
    client.open(&mut out);
    let method = client.method(method);
    client.call(method, message, &mut out).map_err(|busy| busy.to_string())?;
    let mut call = Call { client, answer: Err("no answer".into()) };
    exchange(node, patience, out, &mut call)?;
    call.answer.map_err(|error| SystemError::answered(node, error))
}
