//! Drives the traced loads: once to write every key, then loads of two lengths.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_core::study::{ReadConsistency, Workload, parse};
use bakeoff_engine::Drive;
use bakeoff_engine::transport::Target;
use bakeoff_engine::works::http::{Plan, Request, Url};
use bakeoff_engine::works::keyed::{KeyedState, Reading, Source, StalenessTracking};
use bakeoff_systems::{Access, KvLoad, Memory, by_kind, kinds};

use super::ALLOCATOR;
use super::servers::Protocol;

/// Operations of the shorter load and of the longer one.
pub(crate) const FEW: u64 = 2000;
pub(crate) const MANY: u64 = 6000;
/// Loads that are driven one after the other. The first one fills what later ones use again.
pub(crate) const LOADS: usize = 3;
/// Each wait serves all clients, so more of them make its share smaller.
const CLIENTS: u32 = 16;
/// So many that writes to one key rarely overlap. The first overlap of a key allocates.
const KEYS: u64 = 4096;
/// Longer than any other part of a message.
pub(crate) const VALUE_SIZE: usize = 400;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Environment variables that make this program a generator.
const PROTOCOL: &str = "BAKEOFF_COST_PROTOCOL";
const ADDRESS: &str = "BAKEOFF_COST_ADDRESS";

/// A load to drive.
pub(crate) struct LoadRequest {
    protocol: Protocol,
    address: SocketAddr,
}

/// Makes a command drive loads of a server.
pub(crate) fn request(command: &mut Command, protocol: Protocol, address: SocketAddr) {
    command.env(PROTOCOL, protocol.kind()).env(ADDRESS, address.to_string());
}

/// Returns the load that this process has to drive; `None` for the tests.
pub(crate) fn requested() -> Option<LoadRequest> {
    let kind = std::env::var(PROTOCOL).ok()?;
    let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.kind() == kind)?;
    Some(LoadRequest { protocol, address: std::env::var(ADDRESS).ok()?.parse().ok()? })
}

/// Drives the loads once the tracer has written to standard input, and prints the further allocations of the longer
/// load.
pub(crate) fn run(load: LoadRequest) {
    io::stdin().read_exact(&mut [0]).expect("the tracer begins the load");
    let mut drive: Box<dyn FnMut(u64)> = match load.protocol {
        Protocol::Http1 => http(load.address),
        protocol => keyed(protocol, load.address),
    };
    let loads: [u64; LOADS] = [FEW, FEW, MANY];
    let allocations = loads.map(|operations| {
        let before = allocated();
        drive(operations);
        allocated() - before
    });
    let [_, few, many] = allocations;
    println!("{}", many as i64 - few as i64);
}

/// Reads the printed allocations.
pub(crate) fn allocations(output: &str) -> Option<i64> {
    output.trim().parse().ok()
}

fn allocated() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

/// Returns a closed load.
fn closed(operations: u64) -> Drive {
    Drive::once(operations, CLIENTS, 1, TIMEOUT)
}

fn http(address: SocketAddr) -> Box<dyn FnMut(u64)> {
    let request = Request::get(Url::parse(&format!("http://{address}/")).expect("it is a URL"));
    let ready = Plan::new(vec![request]).ready(true).expect("the server listens");
    Box::new(move |operations| {
        let outcome = ready.drive(&closed(operations), &AtomicBool::new(false), &mut |_| {});
        assert_eq!(outcome.expect("it ran").measurement.verified(), operations);
    })
}

fn workload(kind: &str) -> Workload {
    let study = format!(
        "title: t\nsystems: {{s: {{kind: {kind}}}}}\nworkloads: {{w: {{mix: {{put: 1, get: 1}}, keys: {{count: {KEYS}}}, \
         values: {{size: {VALUE_SIZE}}}, reads: default}}}}\nloads: {{l: {{clients: 1, stop: {{operations: 1}}}}}}\n"
    );
    let study = parse("t", "t.yaml", &study, &kinds());
    study.unwrap_or_else(|diagnostics| panic!("{diagnostics}")).workloads.remove(0)
}

fn keyed(protocol: Protocol, address: SocketAddr) -> Box<dyn FnMut(u64)> {
    let system = by_kind(protocol.kind()).expect("it is registered");
    let workload = workload(protocol.kind());
    let keyed = Arc::new(KeyedState::new(&workload, 7, StalenessTracking::NotMeasured));
    let node = Access {
        name: "server".into(),
        authority: address.to_string(),
        target: Target { address, tls: None },
        memory: Memory::default(),
    };
    let mut next = 0;
    let mut drive = move |operations: u64, fills: bool| {
        let load = KvLoad {
            nodes: std::slice::from_ref(&node),
            keyed: &keyed,
            source: &mut |_| if fills { Source::Fill } else { Source::mix(&workload, 7, 7) },
            reading: Reading {
                reads: ReadConsistency::Default,
                may_be_stale: false,
                lists_are_complete: false,
            },
            drive: &Drive { first_ticket: if fills { 0 } else { next }, ..closed(operations) },
            barrier: None,
            interrupted: &AtomicBool::new(false),
            progress: &mut |_| {},
        };
        let (measurement, after) = system.drive(load).expect("it ran");
        let errors: Vec<_> = measurement.error_examples().map(|(_, error)| &error.what).collect();
        assert_eq!(measurement.verified(), operations, "{errors:?}");
        if !fills {
            next = after;
        }
    };
    drive(KEYS, true);
    Box::new(move |operations| drive(operations, false))
}
