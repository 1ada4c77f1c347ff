//! Defines a key-value load that a system drives over its sessions.
//!
//! Not here: loads of HTTP requests (`http_requests`), the loop (`bakeoff_engine`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::schedule::LoadShare;
use bakeoff_engine::peer::Peer;
use bakeoff_engine::start_barrier::StartBarrier;
use bakeoff_engine::works::keyed::{self, KeyedState, KvSession, KvWork, Reading, Source};
use bakeoff_engine::{Connections, Drive, EngineError, LoadProgress};

use super::Access;

/// Nodes, keys and schedule of a key-value load.
pub struct KvLoad<'a> {
    /// Nodes that clients connect to, in rotation.
    pub nodes: &'a [Access],
    /// Keys with their possible values.
    pub keyed: &'a Arc<KeyedState>,
    /// Creates the source of each worker's operations.
    pub source: &'a mut dyn FnMut(LoadShare) -> Source,
    /// Freshness that reads are checked against.
    pub reading: Reading,
    /// Clients, schedule and duration.
    pub drive: &'a Drive,
    /// Loads that start at the same time, if any.
    pub barrier: Option<&'a StartBarrier>,
    /// Ends the load once it is true.
    pub interrupted: &'a AtomicBool,
    /// Called with the figures of each second.
    pub progress: &'a mut dyn FnMut(&LoadProgress),
}

impl KvLoad<'_> {
    /// Drives the load over sessions that `connect` opens to a node.
    pub(crate) fn over<S, C>(self, connect: C) -> Result<(Measurement, u64), EngineError>
    where
        S: KvSession + 'static,
        C: Fn(&Access) -> S + Clone + Send + 'static,
    {
        let Self { nodes, keyed, source, reading, drive, barrier, interrupted, progress } = self;
        let one_each = drive.connections == Connections::OneEach;
        let works = &mut |share| {
            let connect = connect.clone();
            let of_session = nodes.to_vec();
            let session = move |_client: u32, node: usize| -> Box<dyn KvSession> {
                let mut session = connect(&of_session[node]);
                if one_each {
                    session.only_one();
                }
                Box::new(session)
            };
            let names = nodes.iter().map(|node| node.name.clone());
            KvWork::new(keyed.clone(), source(share), reading, share, Box::new(session))
                .recording(names)
        };
        let peers: Vec<Peer> = nodes.iter().map(Access::peer).collect();
        keyed::drive(&peers, drive, barrier, works, interrupted, progress)
    }
}
