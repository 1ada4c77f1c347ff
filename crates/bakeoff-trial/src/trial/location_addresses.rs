//! Tests that nodes of every kind listen only at the addresses of their locations.
//!
//! Each case whose programs bakeoff finds is started, loaded, killed and restarted.
//!
//! Not here: the cases and their configuration (`bakeoff_systems::testing`).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;

use bakeoff_core::check::Verdict;
use bakeoff_core::plan::plan;
use bakeoff_core::record::{AckLocation, SystemRecord, TrialOutcome, TrialRecord};
use bakeoff_host::Process;
use bakeoff_host::ports::Allocator;
use bakeoff_systems::by_kind;
use bakeoff_systems::testing::{
    Case, cases, components, contracts, program, study, three_locations,
};
use tempfile::TempDir;

use super::TrialContext;
use crate::cluster::contenders::PreparedSystem;
use crate::cluster::{self, ClusterStart};
use crate::event::{Event, Reporter};
use bakeoff_fleet::machines::NodesOf;
use bakeoff_fleet::machines::fleet::Fleet;

/// Collects warnings and failures of a run.
#[derive(Default)]
struct Complaints(RefCell<Vec<String>>);

impl Reporter for Complaints {
    fn report(&mut self, event: &Event<'_>) {
        match event {
            Event::Exposed { warning } => self.0.borrow_mut().push((*warning).to_owned()),
            Event::TrialFailed { text } => self.0.borrow_mut().push((*text).to_owned()),
            _ => {}
        }
    }
}

/// Returns the addresses that a process listens on besides its location's. `has_page` allows one page on loopback.
fn off_its_location(process: &Process, has_page: bool) -> Vec<String> {
    let own = process.location().listens();
    let is_page = |address: &SocketAddr| {
        has_page
            && address.ip() == Ipv4Addr::LOCALHOST
            && process.ports().all(|p| p != address.port())
    };
    let at = process.listens_on().into_iter();
    let off = at.filter(|address| address.ip() != own && !is_page(address));
    off.map(|address| format!("`{}` at {own} listens on {address}", process.name())).collect()
}

/// Runs every case of a kind, except those marked `described_only`.
fn runs_at_three_addresses(kind: &str) {
    cases(kind).iter().filter(|case| case.described_only.is_none()).for_each(runs_case);
}

/// Runs a trial of a system with nodes at three addresses, and checks their listeners. Reports a skipped test if a
/// program is missing.
fn runs_case(case: &Case) {
    let (name, study) = (case.name.as_str(), study(case));
    let study_system = &study.systems[0];
    let Some(components) = components(study_system, |system| program(system, &[])) else { return };
    let system = by_kind(&study_system.kind).unwrap();
    let never = AtomicBool::new(false);
    let dir = TempDir::new().unwrap();
    let mut reporter = Complaints::default();
    let locating = three_locations();

    // The trial continues with the checked cluster, because some take half a minute to start.
    let home = dir.path().join("kept").join(name);
    let (nodes, mut ports) = (&home.join("nodes"), Allocator::new(None));
    let of = ClusterStart {
        components: &components,
        nodes,
        dir: &home,
        seed: 7,
        locating: &locating,
        on: (&Fleet::Local, NodesOf::Trial),
        disk: bakeoff_host::NodeDisk::Machine,
    };
    let ready = cluster::start_on_free_ports(of, &mut ports, &never, &mut reporter, |_| {});
    let ready = ready.unwrap_or_else(|error| panic!("{name}: {error}"));
    let contracts = contracts();
    let with_page = components
        .iter()
        .filter(|one| contracts[&one.study_system.kind].page_on_loopback.is_some())
        .flat_map(|one| {
            (1..=one.study_system.nodes).map(|number| format!("{}-{number}", one.study_system.name))
        });
    let with_page: BTreeSet<String> = with_page.collect();
    let off =
        ready.processes().flat_map(|one| off_its_location(one, with_page.contains(one.name())));
    let off: Vec<String> = off.collect();
    let locations: BTreeSet<IpAddr> = ready.processes().map(|one| one.location().address).collect();
    assert!(off.is_empty(), "{name}: {off:?}");
    let places = components.iter().map(|one| one.study_system.nodes as usize).sum::<usize>();
    assert!(locations.len() >= places.min(2), "{name}: all at {locations:?}");

    let record =
        SystemRecord { guarantees: system.guarantees(study_system), ..SystemRecord::default() };
    let contender =
        PreparedSystem { study_system, found: study_system.clone(), system, components, record };
    let mut context = TrialContext {
        study: &study,
        threads: 1,
        run_dir: dir.path(),
        ports,
        locating,
        interrupted: &never,
        shared_machine: true,
        fleet: &Fleet::Local,
        kept: [(study_system.name.clone(), ready)].into(),
    };
    let trial = plan(&study, 7).remove(0);
    let record = super::run(&mut context, &contender, &trial, &mut reporter);
    context.end();
    assert_eq!(reporter.0.into_inner(), [""; 0], "{name}");
    let in_memory = system.guarantees(study_system).acknowledged_in == Some(AckLocation::Memory);
    check_trial(name, &record, in_memory);
}

/// Checks a trial. `in_memory` allows an audit after a kill without verdict, since the kill may lose acknowledged keys.
fn check_trial(name: &str, record: &TrialRecord, in_memory: bool) {
    assert_eq!(record.outcome, TrialOutcome::Completed, "{name}");
    let measured = record.measurement().expect("it was loaded");
    let errors: Vec<_> = measured.error_examples().collect();
    assert!(errors.is_empty(), "{name}: {errors:?}");
    assert_eq!((measured.verified(), measured.error_count()), (200, 0), "{name}");
    let passed = |verdict: &Verdict| match verdict {
        Verdict::Passed => true,
        Verdict::NotChecked(why) => in_memory && why.contains("which breaks no guarantee"),
        Verdict::Failed(_) => false,
    };
    let failed: Vec<_> = record.audits.iter().filter(|audit| !passed(&audit.verdict)).collect();
    assert!(failed.is_empty(), "{name}: {failed:?}");
}

/// One test per kind with cases, generated by `build.rs`.
mod at_addresses_of_its_own {
    include!(concat!(env!("OUT_DIR"), "/located_tests.rs"));
}
