//! Runs a cluster of OpenBao servers, and opens sessions to it.
//!
//! From 2.5 on, standbys answer reads of key-value secrets themselves, with the data that the leader has replicated so
//! far. `standby-reads: off` makes them forward reads, as in 2.4.
//!
//! Not here: everything that it shares with Vault, its origin (`vault`).

pub(crate) mod recipe;

use bakeoff_core::record::Freshness;
use bakeoff_core::study::{self, Kind, KindOption, OptionForm, Role, Tier};

use super::carried_access::CarriedMemory;
use super::declaration::{Declaration, GuaranteeRules, Hooks};
use super::vault::storage::Storage;
use super::vault::{self, Product, STANDBY_READS, SecretStore, config, load_secrets, maintenance};
use super::{System, option};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &OPENBAO;

const OPENBAO: SecretStore = SecretStore {
    product: Product::OpenBao,
    declaration: || Declaration {
        guarantees: GuaranteeRules {
            guarantees: |system| vault::guarantees(system, freshness(system)),
            freshness: |system, _| freshness(system),
        },
        hooks: Hooks {
            prepare_parts: Some(|context, behind| {
                config::prepare_parts(Product::OpenBao, context, behind)
            }),
            carried: Some(CarriedMemory { give: load_secrets::give, take: load_secrets::take }),
            maintain: Some(maintenance::maintain),
            ..Hooks::default()
        },
        ..vault::declaration(
            Kind {
                options: OPTIONS,
                roles: ROLES,
                sound: |system| config::sound(Product::OpenBao, system),
                ..vault::kind("openbao")
            },
            &recipe::RECIPE,
        )
    },
};

const OPTIONS: &[KindOption] = &[
    vault::storage_option(&["raft", "postgresql", "file", "inmem"]),
    vault::TLS,
    vault::storage::raft::MULTIPLIER,
    KindOption {
        name: STANDBY_READS,
        form: OptionForm::Word(&["on", "off"]),
        meaning: "whether standbys answer reads themselves, from 2.5 on; the version's default when absent",
    },
];

const ROLES: &[Role] = &[
    Role {
        name: "storage",
        kinds: &["postgresql"],
        tier: Tier::Backend,
        meaning: "storage of its data",
    },
    vault::DATABASE,
    vault::BALANCER,
];

/// Returns the freshness of reads.
fn freshness(system: &study::System) -> Freshness {
    let off = option(system, STANDBY_READS) == Some("off");
    // Only Raft invalidates the standbys' read cache (2.5.1).
    let raft = Storage::configured(system).name == "raft";
    match off || !raft || system.nodes == 1 || config::reads_at_leader_only(system) {
        true => Freshness::Leader,
        false => Freshness::NodeAsked,
    }
}
