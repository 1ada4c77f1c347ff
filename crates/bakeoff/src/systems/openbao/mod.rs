//! Runs a cluster of OpenBao servers, and opens sessions to it.
//!
//! From 2.5 on its standbys answer reads of key-value secrets themselves, from what the leader has
//! passed on to them so far. That is its default; `standby-reads: off` has them pass reads on, as
//! 2.4 does.
//!
//! Not here: all that it shares with Vault, of which it is a fork (`vault`).

pub(crate) mod recipe;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{Freshness, Promises};
use bakeoff_core::study::{
    self, Kind, KindOption, OptionForm, ReadConsistency, Role, Stands, Workload,
};

use super::vault::{self, Product, api, config, open, prepare};
use super::{Access, Asked, Description, Health, KvLoad, Neighbour, System, Unready, View, option};
use crate::engine::EngineError;
use crate::host::HostError;
use crate::host::ports::Allocator;
use crate::install::Recipe;
use crate::kv::Keyed;

/// OpenBao.
#[derive(Debug)]
pub(crate) struct OpenBao;

const OPTIONS: &[KindOption] = &[
    vault::storage(&["raft", "postgresql", "file", "inmem"]),
    vault::TLS,
    vault::RAFT_MULTIPLIER,
    KindOption {
        name: STANDBY_READS,
        form: OptionForm::Word(&["on", "off"]),
        meaning: "whether standbys answer reads themselves, from 2.5 on; the version's default if left out",
    },
];

/// Whether standbys answer reads.
pub(super) const STANDBY_READS: &str = "standby-reads";

const ROLES: &[Role] = &[
    Role {
        name: "storage",
        kinds: &["postgresql"],
        stands: Stands::Behind,
        meaning: "what it keeps data in",
    },
    vault::DATABASE,
    vault::BALANCER,
];

impl System for OpenBao {
    fn kind(&self) -> Kind {
        Kind {
            options: OPTIONS,
            roles: ROLES,
            sound: |system| config::sound(Product::OpenBao, system),
            ..vault::kind("openbao")
        }
    }

    fn recipe(&self) -> Option<&'static Recipe> {
        Some(&recipe::RECIPE)
    }

    fn promises(&self, asked: &study::System) -> Promises {
        let reads = match self.freshness(asked, ReadConsistency::Default) {
            Freshness::NodeAsked => {
                "from the server asked: standbys answer from what they have got so far"
            }
            _ => "from the active server, to which the others pass requests on",
        };
        let freshness = super::freshness(self, asked);
        Promises { reads: reads.into(), freshness, ..vault::promises(asked) }
    }

    fn freshness(&self, asked: &study::System, _: ReadConsistency) -> Freshness {
        let off = option(asked, STANDBY_READS) == Some("off");
        // Only Raft tells them what to forget of what they have read before (2.5.1).
        let raft = config::storage_of(asked) == "raft";
        match off || !raft || asked.nodes == 1 || config::reads_at_leader_only(asked) {
            true => Freshness::Leader,
            false => Freshness::NodeAsked,
        }
    }

    fn authentication(&self) -> Option<&'static str> {
        Some(vault::AUTHENTICATION)
    }

    fn alpn(&self) -> &'static [&'static [u8]] {
        vault::ALPN
    }

    fn describe(&self, asked: &Asked<'_>, ports: &mut Allocator) -> Result<Description, HostError> {
        config::describe(Product::OpenBao, asked, ports)
    }

    fn prepare_parts(&self, asked: &study::System, behind: &[Neighbour]) -> Result<(), String> {
        config::prepare_parts(Product::OpenBao, asked, behind)
    }

    fn look(&self, nodes: &[Access]) -> Result<View, Unready> {
        open::look(nodes)
    }

    fn health(&self) -> Option<Health> {
        Some(vault::HEALTH)
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
