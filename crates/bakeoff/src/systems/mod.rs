//! What is known about each system, one folder each, and the registry that makes them exist.
//!
//! A folder says how its system is had, configured, asked for its leader, spoken to, and what it
//! promises. It starts nothing and measures nothing: a host runs what [`System::describe`] yields,
//! the engine drives the sessions. The command line, the tables of the docs and the tests derive
//! from [`registry`].

pub(crate) mod canary;
pub(crate) mod consul;
pub(crate) mod etcd;
mod http;
#[cfg(test)]
mod table;
pub(crate) mod talk;
pub(crate) mod zookeeper;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{Acknowledged, Freshness, Promises, Setting};
use bakeoff_core::schedule::Share;
use bakeoff_core::study::{self, Kind, OptionForm, ReadConsistency};
use bakeoff_core::units::{self, ByteCount};
use bakeoff_core::workload::KeySpace;

use crate::engine::transport::Target;
use crate::engine::{self, Drive, EngineError, Live};
use crate::host::ports::Allocator;
use crate::host::{HostError, NodeSpec};
use crate::install::{Installed, Recipe};
use crate::kv::{Keyed, KvSession, KvWork, Reading, Source};

/// All systems, in the order of tables.
pub(crate) fn registry() -> &'static [&'static dyn System] {
    &[&etcd::Etcd, &zookeeper::ZooKeeper, &consul::Consul, &canary::Canary]
}

/// The system of a kind.
pub(crate) fn by_kind(kind: &str) -> Option<&'static dyn System> {
    registry().iter().copied().find(|system| system.kind().name == kind)
}

/// What every study is checked against.
pub(crate) fn kinds() -> Vec<Kind> {
    registry().iter().map(|system| system.kind()).collect()
}

/// A kind of system.
pub(crate) trait System: Sync {
    /// Its name and what it can do.
    fn kind(&self) -> Kind;

    /// How its program can be had; `None` when it is part of bakeoff.
    fn recipe(&self) -> Option<&'static Recipe>;

    /// What it promises under these options.
    fn promises(&self, asked: &study::System) -> Promises;

    /// The protocols to offer when its nodes are spoken to over TLS (RFC 7301); none by default.
    fn alpn(&self) -> &'static [&'static [u8]] {
        &[]
    }

    /// What reads that are asked for like this return.
    fn freshness(&self, reads: ReadConsistency) -> Freshness;

    /// Whether reads of this kind may return something older than was acknowledged.
    fn may_be_old(&self, reads: ReadConsistency) -> bool {
        self.freshness(reads) == Freshness::NodeAsked
    }

    /// The nodes to run, each with a port named `client`, and the settings that depart from the
    /// system's own defaults.
    fn describe(&self, asked: &Asked<'_>, ports: &mut Allocator) -> Result<Description, HostError>;

    /// Looks whether the cluster has a leader that can serve; an error tells what was seen instead.
    fn look(&self, nodes: &[Access]) -> Result<View, String>;

    /// Makes what keys of this space need before the first can be written.
    fn prepare(&self, node: &Access, space: &KeySpace) -> Result<(), String> {
        let _ = (node, space);
        Ok(())
    }

    /// Removes every key that begins with `bakeoff/`, from a system that was not started by us.
    fn clear(&self, node: &Access) -> Result<(), String>;

    /// Drives a load over sessions of this system.
    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError>;
}

/// What a system is asked to describe.
pub(crate) struct Asked<'a> {
    /// The study's words.
    pub(crate) system: &'a study::System,
    /// Its program; `None` for a system that is part of bakeoff.
    pub(crate) program: Option<&'a Installed>,
    /// Where each node gets a directory of its own.
    pub(crate) dir: &'a Path,
    /// What the order of faults follows from, where a system has any.
    pub(crate) seed: u64,
}

impl Asked<'_> {
    /// `etcd-1`, …: the names of the nodes.
    pub(crate) fn node_names(&self) -> impl Iterator<Item = String> {
        (1..=self.system.nodes).map(|number| format!("{}-{number}", self.system.name))
    }

    /// The value of an option, if the study sets it.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        option(self.system, name)
    }
}

/// Where an acknowledged write is in a cluster that waits for a majority's disks: one node is a
/// majority of one.
fn majority_disks(asked: &study::System) -> Acknowledged {
    if asked.nodes == 1 { Acknowledged::Disk } else { Acknowledged::MajorityDisks }
}

/// The same in words.
fn synced_by(asked: &study::System) -> &'static str {
    if asked.nodes == 1 {
        "after it is synced to disk"
    } else {
        "after a majority has synced it to disk"
    }
}

/// What reads return, for every way in which they can be asked for.
pub(crate) fn freshness(system: &dyn System) -> BTreeMap<ReadConsistency, Freshness> {
    system.kind().reads.iter().map(|&reads| (reads, system.freshness(reads))).collect()
}

/// The value of an option, if the study sets it.
pub(crate) fn option<'a>(system: &'a study::System, name: &str) -> Option<&'a str> {
    system.options.get(name).map(String::as_str)
}

/// An option's value as programs take it: milliseconds, bytes, or the study's own text. The study
/// was checked when it was read; what is no such value is passed on as it stands.
pub(crate) fn plain_value(form: &OptionForm, text: &str) -> String {
    match form {
        OptionForm::Duration => units::parse_duration(text)
            .map_or_else(|_| text.to_owned(), |duration| duration.as_millis().to_string()),
        OptionForm::Size => {
            text.parse::<ByteCount>().map_or_else(|_| text.to_owned(), |size| size.0.to_string())
        }
        _ => text.to_owned(),
    }
}

/// A response that is no success, in words: `500: No cluster leader`.
fn http_status_text(status: u16, body: &[u8]) -> String {
    let said = String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned();
    if said.is_empty() { status.to_string() } else { format!("{status}: {said}") }
}

/// What a system is to run as.
pub(crate) struct Description {
    pub(crate) nodes: Vec<NodeSpec>,
    pub(crate) settings: Vec<Setting>,
}

/// A setting with its reason.
pub(crate) fn setting(name: &str, value: impl ToString, reason: &str) -> Setting {
    Setting { name: name.to_owned(), value: value.to_string(), reason: reason.to_owned() }
}

/// The reason of a setting that the study asks for.
pub(crate) const ASKED: &str = "the study asks for it";

/// How clients reach one node.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// `etcd-1`.
    pub(crate) name: String,
    /// `127.0.0.1:2379`, as it is named in requests.
    pub(crate) authority: String,
    pub(crate) target: Target,
}

/// What was seen of a cluster that can serve.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Which of the nodes leads; `None` for a system without a leader.
    pub(crate) leader: Option<usize>,
    /// The version that the leader reports.
    pub(crate) version: Option<String>,
}

/// A key-value load for a system to drive.
pub(crate) struct KvLoad<'a> {
    /// The nodes that clients connect to, in turn.
    pub(crate) nodes: &'a [Access],
    pub(crate) keyed: &'a Arc<Keyed>,
    /// Where each worker's operations come from.
    pub(crate) source: &'a mut dyn FnMut(Share) -> Source,
    pub(crate) reading: Reading,
    pub(crate) drive: &'a Drive,
    pub(crate) interrupted: &'a AtomicBool,
    pub(crate) progress: &'a mut dyn FnMut(&Live),
}

impl KvLoad<'_> {
    /// Drives it over sessions that `connect` makes for a node. From here on the kind of session
    /// is known to the compiler.
    pub(crate) fn over<S, C>(self, connect: C) -> Result<(Measurement, u64), EngineError>
    where
        S: KvSession,
        C: Fn(&Access) -> S + Clone + Send,
    {
        let Self { nodes, keyed, source, reading, drive, interrupted, progress } = self;
        let works = |share| {
            let connect = connect.clone();
            let nodes = nodes.to_vec();
            let session = move |_client: u32, node: usize| connect(&nodes[node]);
            KvWork::new(keyed.clone(), source(share), reading, session)
        };
        let targets: Vec<Target> = nodes.iter().map(|node| node.target.clone()).collect();
        engine::drive(&targets, drive, works, interrupted, progress)
    }
}
