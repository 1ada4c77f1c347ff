//! Runs a cluster of HashiCorp Vault servers on any of its storages, and opens sessions to it.
//!
//! Vault stores no data itself, so its storage determines the guarantees of a write. Without a storage part it uses
//! Raft, as HashiCorp recommends.
//!
//! OpenBao is a fork with the same protocol. The modules here serve both, and take the differences from a [`Product`].
//!
//! Not here: storages that are parts (`consul`, `postgresql`, …), the wire format (`bakeoff_wire::http1`), timing
//! (`engine`).

mod api;
pub(super) mod config;
mod leases;
pub(crate) mod load_secrets;
pub(crate) mod maintenance;
mod open;
mod prepare;
pub(crate) mod recipe;
pub(super) mod storage;

use std::sync::LazyLock;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{Freshness, Guarantees};
use bakeoff_core::study::{
    self, CredentialForm, Kind, KindOption, Operation, OptionForm, ReadConsistency, Role, Tier,
    Workload,
};
use bakeoff_engine::EngineError;
use bakeoff_engine::works::keyed::KeyedState;
use bakeoff_host::HostError;
use bakeoff_host::ports::Allocator;
use bakeoff_install::Recipe;

use self::storage::{Storage, StorageGuarantees};
use super::carried_access::CarriedMemory;
use super::declaration::{Clients, Declaration, GuaranteeRules, Health, Hooks, Origin};
use super::{
    Access, ClusterStatus, DescribeContext, Description, KvLoad, NotReady, System, SystemError,
    option,
};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &VAULT;

const VAULT: SecretStore = SecretStore {
    product: Product::Vault,
    declaration: || Declaration {
        guarantees: GuaranteeRules {
            guarantees: |system| guarantees(system, Freshness::Leader),
            freshness: |_, _| Freshness::Leader,
        },
        hooks: Hooks {
            prepare_parts: Some(|context, behind| {
                config::prepare_parts(Product::Vault, context, behind)
            }),
            carried: Some(CarriedMemory { give: load_secrets::give, take: load_secrets::take }),
            maintain: Some(maintenance::maintain),
            ..Hooks::default()
        },
        ..declaration(
            Kind {
                options: &OPTIONS,
                roles: &ROLES,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Product {
    Vault,
    OpenBao,
}

/// Returns the option for the storage, with these words.
pub(super) const fn storage_option(words: &'static [&'static str]) -> KindOption {
    KindOption {
        name: "storage",
        form: OptionForm::Word(words),
        meaning: "storage of its data; follows from the part `storage`, else raft",
    }
}

/// Option of OpenBao for reads on standbys.
pub(super) const STANDBY_READS: &str = "standby-reads";

pub(super) const TLS: KindOption = KindOption {
    name: "tls",
    form: OptionForm::Word(&["on", "off"]),
    meaning: "whether nodes use TLS, with certificates generated at the start; off when absent",
};

static OPTIONS: LazyLock<Vec<KindOption>> = LazyLock::new(|| {
    let own = [storage_option(&storage::NAMES), TLS];
    own.into_iter().chain(Storage::all_options()).collect()
});

static ROLES: LazyLock<Vec<Role>> = LazyLock::new(|| {
    let storage = Role {
        name: "storage",
        kinds: &storage::COMPONENTS,
        tier: Tier::Backend,
        meaning: "storage of its data",
    };
    vec![storage, DATABASE, BALANCER]
});

/// Part with the database in which `issue-credentials` creates users.
pub(super) const DATABASE: Role = Role {
    name: "database",
    kinds: &["postgresql"],
    tier: Tier::Backend,
    meaning: "the database in which `issue-credentials` creates users",
};

pub(super) const BALANCER: Role = Role {
    name: "balancer",
    kinds: &["haproxy"],
    tier: Tier::Frontend,
    meaning: "the load balancer that clients connect to",
};

/// Protocols that clients offer in TLS.
const ALPN: &[&[u8]] = &[b"http/1.1"];

/// Returns the declaration fields that both products share.
pub(super) fn declaration(kind: Kind, recipe: &'static Recipe) -> Declaration {
    // As documented for load balancers: the active node answers 200. With `standbyok`, every unsealed node does.
    let any = "/v1/sys/health?standbyok=true&perfstandbyok=true";
    Declaration {
        clients: Clients {
            http: true,
            authentication: Some("a token with each request"),
            alpn: ALPN,
            ..Clients::default()
        },
        health: Some(Health { leader: "/v1/sys/health", any }),
        announces: true,
        ..Declaration::new(kind, Origin::Recipe(recipe))
    }
}

/// Returns the kind fields that both products share.
pub(super) const fn kind(name: &'static str) -> Kind {
    Kind {
        operations: Operation::SECRETS,
        parameters: prepare::PARAMETERS,
        maintenance: maintenance::OFFERS,
        reads: &[ReadConsistency::Default],
        nodes_max: 9,
        value_size_max: 512 << 10, // Consul's limit of one entry; Raft's is no lower
        in_flight_max: 1,          // HTTP/1.1
        credentials: CredentialForm::Token,
        ..Kind::new(name)
    }
}

impl System for SecretStore {
    fn declares(&self) -> Declaration {
        (self.declaration)()
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError> {
        config::describe(self.product, context, ports)
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        open::probe(nodes)
    }

    fn prepare(
        &self,
        first: &Access,
        nodes: &[Access],
        workload: &Workload,
        keyed: &KeyedState,
    ) -> Result<(), SystemError> {
        prepare::prepare(first, nodes, workload, keyed)
    }

    fn removal(&self, node: &Access) -> Option<String> {
        let scheme = if node.target.tls.is_some() { "https" } else { "http" };
        let address = format!("{scheme}://{}", node.authority);
        let command = match self.product {
            Product::Vault => "vault",
            Product::OpenBao => "bao",
        };
        Some(format!("{command} secrets disable -address={address} {}", load_secrets::KV))
    }

    fn clear(&self, node: &Access) -> Result<(), SystemError> {
        prepare::clear(node)
    }

    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
        api::drive(load)
    }
}

/// Returns the guarantees of the storage, and the freshness of reads.
pub(super) fn guarantees(system: &study::System, freshness: Freshness) -> Guarantees {
    let reads = match freshness {
        Freshness::NodeAsked => {
            "from the contacted server: standbys answer with the data replicated so far"
        }
        _ => "from the active server, to which the others forward requests",
    };
    let storage = Storage::configured(system);
    let StorageGuarantees { replication, acknowledged, acknowledged_in } = match storage.guarantees
    {
        Some(guarantees) => guarantees(system),
        None => component_guarantees(storage.name, system.parts.get("storage")),
    };
    let reads = reads.into();
    Guarantees { replication, acknowledged, acknowledged_in, reads, ..Guarantees::default() }
}

/// Returns the guarantees of a storage component; without a component it is an external service.
fn component_guarantees(storage: &str, component: Option<&study::System>) -> StorageGuarantees {
    let under = component.and_then(|component| {
        let system = super::by_kind(&component.kind)?;
        Some(system.guarantees(component))
    });
    match under {
        Some(under) => StorageGuarantees {
            replication: format!("as in its storage, {storage}: {}", under.replication),
            acknowledged: under.acknowledged,
            acknowledged_in: under.acknowledged_in,
        },
        None => StorageGuarantees {
            replication: format!("as in its storage, {storage}"),
            acknowledged: format!("when {storage} has it"),
            acknowledged_in: None,
        },
    }
}

/// Returns true if an option is `on`.
pub(super) fn is_on(system: &study::System, name: &str) -> bool {
    option(system, name) == Some("on")
}
