//! Runs a cluster of HashiCorp Vault servers on any of its storages, and opens sessions to it.
//!
//! Vault keeps nothing itself: what an acknowledged write is worth, its storage says. Without
//! storage of a part's it keeps data by Raft, as its makers advise.
//!
//! OpenBao, which was forked from it, speaks the same protocol; what the two share is in the
//! modules here, which ask a [`Product`] for what differs.
//!
//! Not here: the storages that are parts (`consul`, `postgresql`, …), the wire format
//! (`bakeoff_wire::http1`), timing (`engine`).

mod api;
pub(super) mod config;
mod open;
mod prepare;
mod prepared;
pub(crate) mod recipe;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{Acknowledged, Freshness, Guarantees};
use bakeoff_core::study::{
    self, Kind, KindOption, Operation, OptionForm, ReadConsistency, Role, Tier, Workload,
};
use bakeoff_engine::EngineError;
use bakeoff_engine::works::keyed::Keyed;
use bakeoff_host::HostError;
use bakeoff_host::ports::Allocator;
use bakeoff_install::Recipe;

use super::declaration::{Clients, Declaration, GuaranteeRules, Health, Hooks, Origin};
use super::{Access, Asked, ClusterStatus, Description, KvLoad, NotReady, System, option};

/// What the registry holds.
pub(crate) const SYSTEM: &dyn System = &VAULT;

/// HashiCorp Vault.
const VAULT: SecretStore = SecretStore {
    product: Product::Vault,
    declaration: || Declaration {
        guarantees: GuaranteeRules {
            guarantees: |asked| guarantees(asked, Freshness::Leader),
            freshness: |_, _| Freshness::Leader,
        },
        hooks: Hooks {
            prepare_parts: Some(|asked, behind| {
                config::prepare_parts(Product::Vault, asked, behind)
            }),
            ..Hooks::default()
        },
        ..declaration(
            Kind {
                options: OPTIONS,
                roles: ROLES,
                sound: |system| config::sound(Product::Vault, system),
                ..kind("vault")
            },
            &recipe::RECIPE,
        )
    },
};

/// One of the two products, as a system.
#[derive(Debug)]
pub(crate) struct SecretStore {
    pub(super) product: Product,
    pub(super) declaration: fn() -> Declaration,
}

/// Which of the two products it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Product {
    Vault,
    OpenBao,
}

/// The storages that Vault itself has.
const STORAGES: &[&str] = &["raft", "consul", "postgresql", "gcs", "dynamodb", "file", "inmem"];

/// The settings of both products.
pub(super) const fn storage(words: &'static [&'static str]) -> KindOption {
    KindOption {
        name: "storage",
        form: OptionForm::Word(words),
        meaning: "what it keeps data in; follows from the part `storage`, else it is raft",
    }
}

/// The option of OpenBao that says whether standbys answer reads.
pub(super) const STANDBY_READS: &str = "standby-reads";

pub(super) const TLS: KindOption = KindOption {
    name: "tls",
    form: OptionForm::Word(&["on", "off"]),
    meaning: "whether nodes speak TLS, with certificates made at start; off by default",
};

pub(super) const RAFT_MULTIPLIER: KindOption = KindOption {
    name: "raft-multiplier",
    form: OptionForm::Number,
    meaning: "scales Raft's timeouts; 1 is advised for production, 5 the default",
};

/// The option that says how many connections are kept to a PostgreSQL that is the storage.
const MAX_IDLE_CONNECTIONS: &str = "max-idle-connections";

const OPTIONS: &[KindOption] = &[
    storage(STORAGES),
    TLS,
    RAFT_MULTIPLIER,
    KindOption {
        name: MAX_IDLE_CONNECTIONS,
        form: OptionForm::Number,
        meaning: "how many idle connections each node keeps to a PostgreSQL that is its storage; 2 by \
                  default, and any more are opened anew for each request",
    },
    KindOption {
        name: "bucket",
        form: OptionForm::Text,
        meaning: "the bucket of the real Google Cloud Storage, with `storage: gcs` and no part",
    },
    KindOption {
        name: "credentials",
        form: OptionForm::Text,
        meaning: "the file with the credentials for that bucket",
    },
    KindOption {
        name: "table",
        form: OptionForm::Text,
        meaning: "the table of the real DynamoDB, with `storage: dynamodb` and no part; its \
                  credentials are taken from the environment, AWS_ACCESS_KEY_ID and its kin",
    },
    KindOption { name: "region", form: OptionForm::Text, meaning: "the region of that table" },
];

const ROLES: &[Role] = &[
    Role {
        name: "storage",
        kinds: &["consul", "postgresql", "gcs-emulator", "dynamodb-emulator"],
        tier: Tier::Backend,
        meaning: "what it keeps data in",
    },
    DATABASE,
    BALANCER,
];

/// What `issue-credentials` makes users of.
pub(super) const DATABASE: Role = Role {
    name: "database",
    kinds: &["postgresql"],
    tier: Tier::Backend,
    meaning: "the database that `issue-credentials` makes users of",
};

// guide: role
pub(super) const BALANCER: Role = Role {
    name: "balancer",
    kinds: &["haproxy"],
    tier: Tier::Frontend,
    meaning: "the load balancer that clients connect to",
};
// guide: end

/// What clients offer when they speak TLS.
const ALPN: &[&[u8]] = &[b"http/1.1"];

/// What both declare.
pub(super) fn declaration(kind: Kind, recipe: &'static Recipe) -> Declaration {
    // As the makers of both document it for load balancers: 200 from the node that is active;
    // from any that is unsealed with `standbyok`.
    let any = "/v1/sys/health?standbyok=true&perfstandbyok=true";
    Declaration {
        clients: Clients {
            http: true,
            authentication: Some("a token with each request"),
            alpn: ALPN,
        },
        health: Some(Health { leader: "/v1/sys/health", any }),
        ..Declaration::new(kind, Origin::Recipe(recipe))
    }
}

/// What both can do.
pub(super) const fn kind(name: &'static str) -> Kind {
    Kind {
        operations: Operation::SECRETS,
        parameters: prepare::PARAMETERS,
        reads: &[ReadConsistency::Default],
        nodes_max: 9,
        value_size_max: 512 << 10, // what Consul stores in one entry, and Raft's limit is no less
        in_flight_max: 1,          // HTTP/1.1
        ..Kind::new(name)
    }
}

impl System for SecretStore {
    fn declares(&self) -> Declaration {
        (self.declaration)()
    }

    fn describe(&self, asked: &Asked<'_>, ports: &mut Allocator) -> Result<Description, HostError> {
        config::describe(self.product, asked, ports)
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        open::probe(nodes)
    }

    fn prepare(
        &self,
        first: &Access,
        nodes: &[Access],
        workload: &Workload,
        keyed: &Keyed,
    ) -> Result<(), String> {
        prepare::prepare(first, nodes, workload, keyed)
    }

    fn clear(&self, node: &Access) -> Result<(), String> {
        prepare::clear(node)
    }

    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
        api::drive(load)
    }
}

/// What the storage makes of a write, and where reads are answered.
pub(super) fn guarantees(asked: &study::System, freshness: Freshness) -> Guarantees {
    let reads = match freshness {
        Freshness::NodeAsked => {
            "from the server asked: standbys answer from what they have got so far"
        }
        _ => "from the active server, to which the others pass requests on",
    };
    let part = asked.parts.get("storage");
    let (replication, acknowledged, acknowledged_in) = match config::storage_of(asked) {
        "raft" => (
            "Raft: every server holds all data; a majority must live".to_owned(),
            super::synced_by(asked).to_owned(),
            Some(super::majority_disks(asked)),
        ),
        "file" => (
            "none: one server, a file for each entry".to_owned(),
            "after the file was written, which is not synced".to_owned(),
            Some(Acknowledged::PageCache),
        ),
        "inmem" => (
            "none: one server's memory".to_owned(),
            "at once: nothing is kept".to_owned(),
            Some(Acknowledged::Memory),
        ),
        storage => {
            let stands_on = part.and_then(|part| {
                let system = super::by_kind(&part.kind)?;
                Some(system.guarantees(part))
            });
            match stands_on {
                Some(under) => (
                    format!("that of its storage, {storage}: {}", under.replication),
                    under.acknowledged,
                    under.acknowledged_in,
                ),
                None => (
                    format!("that of its storage, {storage}"),
                    format!("when {storage} has it"),
                    None,
                ),
            }
        }
    };
    let reads = reads.into();
    Guarantees { replication, acknowledged, acknowledged_in, reads, ..Guarantees::default() }
}

/// An option that is on or off.
pub(super) fn is_on(asked: &study::System, name: &str) -> bool {
    option(asked, name) == Some("on")
}
