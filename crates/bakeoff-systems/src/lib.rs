//! Defines the supported systems, one folder each, and their registry.
//!
//! A folder declares its system's properties, guarantees and needs ([`declaration::Declaration`]). It also configures
//! the system, finds its leader, and implements its sessions. It starts and measures nothing: a host runs the nodes
//! that [`System::describe`] returns, and the engine drives the sessions. The command line, the tables in the docs and
//! the tests derive from [`registry`].
//!
//! ```
//! let etcd = bakeoff_systems::by_kind("etcd").expect("etcd is registered");
//! assert!(etcd.kind().nodes_max >= 3);
//! let asked = bakeoff_systems::plain("etcd");
//! assert_eq!(etcd.guarantees(&asked).acknowledged, "after a majority has synced it to disk");
//! ```
//!
//! Not here: clusters and their machines, trials, commands (the crate `bakeoff`).

mod access;
pub mod carried_access;
pub mod cleanup;
#[cfg(test)]
mod consistency;
mod coordination;
pub mod declaration;
mod describe_context;
mod description;
#[cfg(test)]
mod documented_studies;
mod error;
pub mod exchange;
#[cfg(test)]
mod guide;
mod http_requests;
mod http_session;
#[cfg(test)]
mod kinds_file;
mod load;
#[cfg(test)]
mod location_addresses;
pub mod location_plan;
mod mesh;
pub mod own_servers;
mod remote_service;
#[cfg(test)]
pub(crate) mod replay;
pub mod route_change;
pub mod rows;
#[cfg(test)]
mod running_system;
mod status;
#[cfg(test)]
mod table;
// Not systems: the skeletons of `cargo xtask new-system`, compiled here so that they stay up to date.
#[cfg(test)]
#[path = "../../../xtask/templates/http/mod.rs"]
mod template_http;
#[cfg(test)]
#[path = "../../../xtask/templates/own/mod.rs"]
mod template_own;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod topology;
mod variables;

// The registry: one line per system, in the order of tables. `build.rs` generates the list from it. The empty lines
// keep `cargo fmt` from sorting it.

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
use bakeoff_engine::works::keyed::KeyedState;
use bakeoff_host::HostError;
use bakeoff_host::ports::Allocator;
use bakeoff_install::Recipe;

pub use self::access::{Access, ClientToken, Login, Memory};
use self::declaration::Declaration;
pub(crate) use self::describe_context::{
    ASKED, majority_disks, never_planned, option, plain_value, setting, synced_by,
};
pub use self::describe_context::{COMPOSITE, DescribeContext, Neighbour, plain};
pub use self::description::Description;
pub use self::error::SystemError;
pub use self::etcd::etcd_watch_session;
use self::http_session::http_status_text;
pub use self::load::KvLoad;
pub use self::status::{ClusterStatus, ConfigSnapshot, NotReady};
pub use self::variables::UnsetVariable;

/// Returns all systems, in the order of tables.
pub fn registry() -> &'static [&'static dyn System] {
    // `&[etcd::SYSTEM, …]`, generated from the lines above.
    include!(concat!(env!("OUT_DIR"), "/registry.rs"))
}

/// Returns the system of a kind, or `None` for an unknown kind.
pub fn by_kind(kind: &str) -> Option<&'static dyn System> {
    registry().iter().copied().find(|system| system.kind().name == kind)
}

/// Returns the first system or part of a study before which no relay can stand; `None` if one can before each.
pub fn without_relays(study: &study::Study) -> Option<&study::System> {
    let announces = |kind: &str| by_kind(kind).is_some_and(|one| one.declares().announces);
    study.systems.iter().flat_map(study::System::members).find(|one| !announces(&one.kind))
}

/// Returns true if servers of this kind run next to those of another, on their machine.
pub fn goes_next_to(kind: &str) -> bool {
    by_kind(kind).is_some_and(|system| system.declares().located_with.is_some())
}

/// Returns true if the program of this kind, or one that it starts, runs next to the servers of another.
pub fn runs_next_to(kind: &str) -> bool {
    goes_next_to(kind) || by_kind(kind).is_some_and(|system| system.declares().starts_adjacent)
}

/// Returns all recipes: of programs that only commands name, and of the kinds' products.
pub fn recipes() -> impl Iterator<Item = &'static Recipe> {
    let origins = registry().iter().map(|system| system.declares().origin);
    let products = origins.flat_map(|origin| origin.recipes().to_vec());
    process::recipe::PROGRAMS.iter().copied().chain(products)
}

/// Returns the recipe of the program that a study selects; `None` if bakeoff does not fetch it.
pub fn recipe_for(system: &study::System) -> Option<&'static Recipe> {
    if let Some(process) = &system.process {
        let word = process.command.first()?;
        return process::recipe::of_command(word, system.version.as_deref());
    }
    by_kind(&system.kind)?.declares().origin.recipe_for(system)
}

/// Returns the recipe of a product, or of a kind's default product, by its name: `etcd`, `valkey`.
pub fn recipe_of(product: &str) -> Option<&'static Recipe> {
    recipes().find(|recipe| recipe.system == product)
}

/// Returns a system and its parts, with their roles.
pub fn by_role(system: &study::System) -> impl Iterator<Item = (&str, &study::System)> {
    let parts = system.parts.iter().map(|(role, part)| (role.as_str(), part));
    std::iter::once((COMPOSITE, system)).chain(parts)
}

/// Returns all kinds, against which studies are checked.
pub fn kinds() -> Vec<Kind> {
    registry().iter().map(|system| system.kind()).collect()
}

/// Describes, probes, prepares and loads systems of one kind. Capabilities of some kinds are functions in their
/// declaration.
pub trait System: fmt::Debug + Sync {
    /// Returns the properties, guarantees and program of this kind.
    fn declares(&self) -> Declaration;

    /// Describes the nodes to run and the settings that differ from the system's defaults. Each node that clients use
    /// has a port named `client`.
    ///
    /// # Errors
    /// When the study's options are invalid, or no port is free.
    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError>;

    /// Checks that the cluster has a leader that can serve. Called repeatedly until it succeeds, so it also
    /// initialises and unseals a system.
    ///
    /// # Errors
    /// With the observed state, and whether waiting may help.
    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady>;

    /// Creates the objects that a workload needs before its first operation, on any of the nodes. `first` is the
    /// leader, if there is one.
    fn prepare(
        &self,
        first: &Access,
        nodes: &[Access],
        workload: &Workload,
        keyed: &KeyedState,
    ) -> Result<(), SystemError> {
        let _ = (nodes, keyed);
        match self.declares().kind.takes_requests() {
            true => http_requests::prepare(first, workload, None),
            false => Ok(()),
        }
    }

    /// Removes every key that starts with `bakeoff/`, and everything that [`Self::prepare`] created.
    fn clear(&self, node: &Access) -> Result<(), SystemError> {
        let _ = node;
        Ok(())
    }

    /// Returns a command of the system's own client that removes every key that starts with `bakeoff/`. `None` if it
    /// takes more than one command.
    fn removal(&self, node: &Access) -> Option<String> {
        let _ = node;
        None
    }

    /// Returns how many bytes of answers one client may have in flight before a server cuts it off; `None` if there is
    /// no such limit.
    fn in_flight_max(&self) -> Option<u64> {
        None
    }

    /// Checks that clients may access keys of `bakeoff/` on a cluster that bakeoff did not start.
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
        unreachable!("the study loads `{}`, which can only be a part", kind.name)
    }
}
