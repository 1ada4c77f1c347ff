//! A key-value load, which a system drives over its sessions.
//!
//! Not here: loads of HTTP requests (`http_requests`), the loop (`bakeoff_engine`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::schedule::LoadShare;
use bakeoff_engine::peer::Peer;
use bakeoff_engine::together::Together;
use bakeoff_engine::works::keyed::{self, Keyed, KvSession, KvWork, Reading, Source};
use bakeoff_engine::{Connections, Drive, EngineError, Live};

use super::Access;

/// A key-value load for a system to drive.
pub struct KvLoad<'a> {
    /// The nodes that clients connect to, in turn.
    pub nodes: &'a [Access],
    /// The keys, and the values that they may hold.
    pub keyed: &'a Arc<Keyed>,
    /// Where each worker's operations come from.
    pub source: &'a mut dyn FnMut(LoadShare) -> Source,
    /// The freshness that reads are judged by.
    pub reading: Reading,
    /// Clients, schedule and end of the load.
    pub drive: &'a Drive,
    /// The loads that it begins together with, if any.
    pub together: Option<&'a Together>,
    /// Ends the load once it is true.
    pub interrupted: &'a AtomicBool,
    /// Called with the figures of each second.
    pub progress: &'a mut dyn FnMut(&Live),
}

impl KvLoad<'_> {
    /// Drives it over sessions that `connect` makes for a node.
    pub(crate) fn over<S, C>(self, connect: C) -> Result<(Measurement, u64), EngineError>
    where
        S: KvSession + 'static,
        C: Fn(&Access) -> S + Clone + Send + 'static,
    {
        let Self { nodes, keyed, source, reading, drive, together, interrupted, progress } = self;
        let one_each = drive.connections == Connections::OneEach;
        let works = &mut |share| {
            let connect = connect.clone();
            let nodes = nodes.to_vec();
            let session = move |_client: u32, node: usize| -> Box<dyn KvSession> {
                let mut session = connect(&nodes[node]);
                if one_each {
                    session.only_one();
                }
                Box::new(session)
            };
            KvWork::new(keyed.clone(), source(share), reading, share, Box::new(session))
        };
        let peers: Vec<Peer> = nodes.iter().map(Access::peer).collect();
        keyed::drive(&peers, drive, together, works, interrupted, progress)
    }
}
