//! The supported systems, one folder each, and their registry.
//!
//! A folder declares what its system is, guarantees and needs ([`declaration::Declaration`]), and says how it is
//! configured, asked for its leader and spoken to. It starts nothing and measures nothing: a host runs what [`System::describe`] yields,
//! the engine drives the sessions. The command line, the tables of the docs and the tests derive
//! from [`registry`].

mod access;
mod asked;
pub(crate) mod carried;
pub(crate) mod cleanup;
#[cfg(test)]
mod consistency;
pub(crate) mod declaration;
mod description;
mod distant;
#[cfg(test)]
mod documented;
pub(crate) mod error;
pub(crate) mod exchange;
#[cfg(test)]
mod guide;
mod http_requests;
mod http_session;
#[cfg(test)]
mod kinds_file;
mod load;
mod mesh;
pub(crate) mod own_servers;
#[cfg(test)]
pub(crate) mod replay;
pub(crate) mod rows;
#[cfg(test)]
pub(crate) mod seated;
pub(crate) mod seating;
mod status;
#[cfg(test)]
mod table;
// Not systems: the skeletons of `cargo xtask new-system`, which so cannot fall behind what they use.
#[cfg(test)]
#[path = "../../../../xtask/templates/http/mod.rs"]
mod template_http;
#[cfg(test)]
#[path = "../../../../xtask/templates/own/mod.rs"]
mod template_own;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod topology;
mod variables;

// The registry: a line a system, in the order of tables. `build.rs` makes the list of them, which is all
// that there is to do. An empty line between two keeps `cargo fmt` from sorting them.

pub(crate) mod etcd;

pub(crate) mod zookeeper;

pub(crate) mod consul;

pub(crate) mod vault;

pub(crate) mod openbao;

pub(crate) mod canary;

pub(crate) mod postgresql;

pub(crate) mod gcs_emulator;

pub(crate) mod dynamodb_emulator;

pub(crate) mod haproxy;

pub(crate) mod http;

pub(crate) mod tarantool;

pub(crate) mod redis;

pub(crate) mod nats;

pub(crate) mod ingress_gateway;

pub(crate) mod envoy;

pub(crate) mod istio;

pub(crate) mod application;

pub(crate) mod process;

pub(crate) mod nginx;

pub(crate) mod access_gateway;

pub(crate) mod memcached;

use std::fmt;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::study::{self, Kind, Workload};
use bakeoff_engine::EngineError;
use bakeoff_engine::works::keyed::Keyed;
use bakeoff_host::HostError;
use bakeoff_host::ports::Allocator;
use bakeoff_install::Recipe;

pub(crate) use self::access::{Access, ClientToken, Login, Memory};
pub(crate) use self::asked::{
    ASKED, Asked, COMPOSITE, Neighbour, majority_disks, never_planned, option, plain, plain_value,
    setting, synced_by,
};
use self::declaration::Declaration;
pub(crate) use self::description::Description;
pub(crate) use self::error::SystemError;
use self::http_session::http_status_text;
pub(crate) use self::load::KvLoad;
pub(crate) use self::status::{ClusterStatus, ConfigSnapshot, NotReady};

/// All systems, in the order of tables.
pub(crate) fn registry() -> &'static [&'static dyn System] {
    // `&[etcd::SYSTEM, …]`, of the lines above.
    include!(concat!(env!("OUT_DIR"), "/registry.rs"))
}

/// The system of a kind.
pub(crate) fn by_kind(kind: &str) -> Option<&'static dyn System> {
    registry().iter().copied().find(|system| system.kind().name == kind)
}

/// Returns whether servers of a kind go beside those of another, on their machine.
pub(crate) fn goes_beside(kind: &str) -> bool {
    by_kind(kind).is_some_and(|system| system.declares().seated_with.is_some())
}

/// Returns whether the program of a kind runs where servers go beside those of another: its own, or those that it starts.
pub(crate) fn runs_beside(kind: &str) -> bool {
    goes_beside(kind) || by_kind(kind).is_some_and(|system| system.declares().starts_besides)
}

/// Returns the recipe of the program that a study asks for; `None` if bakeoff does not fetch it.
pub(crate) fn recipe_for(asked: &study::System) -> Option<&'static Recipe> {
    by_kind(&asked.kind)?.declares().origin.recipe_for(asked)
}

/// Returns the recipe of a product, or of a kind's default product, by its name: `etcd`, `valkey`.
pub(crate) fn recipe_of(product: &str) -> Option<&'static Recipe> {
    let origins = registry().iter().map(|system| system.declares().origin);
    origins.flat_map(|origin| origin.recipes().to_vec()).find(|recipe| recipe.system == product)
}

/// Returns a system and its parts, each with its role.
pub(crate) fn by_role(system: &study::System) -> impl Iterator<Item = (&str, &study::System)> {
    let parts = system.parts.iter().map(|(role, part)| (role.as_str(), part));
    std::iter::once((COMPOSITE, system)).chain(parts)
}

/// Returns the kinds that every study is checked against.
pub(crate) fn kinds() -> Vec<Kind> {
    registry().iter().map(|system| system.kind()).collect()
}

/// The duties of every kind of system. Capabilities of only some are functions in their declaration.
pub(crate) trait System: fmt::Debug + Sync {
    /// Says what it is, what it guarantees, and how its program can be had.
    fn declares(&self) -> Declaration;

    /// The nodes to run, each with a port named `client`, and the settings that depart from the
    /// system's own defaults.
    fn describe(&self, asked: &Asked<'_>, ports: &mut Allocator) -> Result<Description, HostError>;

    /// Looks whether the cluster has a leader that can serve; an error tells what was seen instead,
    /// and whether waiting may help. Asked again and again until it can, so what opens a system (to
    /// initialise it, to unseal it) is done here too.
    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady>;

    /// Makes what a workload needs before its first operation, which may go to any of the nodes.
    /// `first` is the node that leads, where one does.
    fn prepare(
        &self,
        first: &Access,
        nodes: &[Access],
        workload: &Workload,
        keyed: &Keyed,
    ) -> Result<(), SystemError> {
        let _ = (nodes, keyed);
        match self.declares().kind.takes_requests() {
            true => http_requests::prepare(first, workload, None),
            false => Ok(()),
        }
    }

    /// Removes every key that begins with `bakeoff/`, and what [`Self::prepare`] made.
    fn clear(&self, node: &Access) -> Result<(), SystemError> {
        let _ = node;
        Ok(())
    }

    /// Returns the command by which its own client removes every key that begins with `bakeoff/`, for people; `None`
    /// where there is no single one.
    fn removal(&self, node: &Access) -> Option<String> {
        let _ = node;
        None
    }

    /// Finds out whether clients may read keys of `bakeoff/` on a node of a cluster that runs already.
    fn may_use(&self, node: &Access) -> Result<(), NotReady> {
        let _ = node;
        Ok(())
    }

    /// Drives a load over sessions of this system.
    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
        let kind = self.declares().kind;
        if kind.takes_requests() {
            return http_requests::drive(load);
        }
        unreachable!("a study was read in which `{}` is more than a part", kind.name)
    }
}
