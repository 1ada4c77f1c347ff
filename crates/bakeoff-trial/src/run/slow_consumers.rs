//! Names loads whose clients a server may cut off, because it holds too many bytes of answers for them.
//!
//! Not here: the limit (each system's folder), the connection that was lost (its session).

use bakeoff_core::study::{Operation, Study};
use bakeoff_core::units::ByteCount;
use bakeoff_systems as systems;

/// Returns a warning for each system, workload and load whose reads in flight exceed the server's limit of one client.
pub(super) fn warnings(study: &Study) -> Vec<String> {
    let mut found = Vec::new();
    for system in &study.systems {
        let Some(most) = systems::by_kind(&system.kind).and_then(|kind| kind.in_flight_max())
        else {
            continue;
        };
        for workload in study.workloads.iter().filter(|workload| workload.is_done_by(system)) {
            let reads = workload.mix.contains_key(&Operation::Get);
            let Some(sizes) = workload.value_sizes().filter(|_| reads) else { continue };
            let loads = study.loads.iter().filter(|load| workload.loads.contains(&load.name));
            let exceeds = |in_flight: u32| sizes.most().saturating_mul(in_flight.into()) > most;
            found.extend(loads.filter(|load| exceeds(load.in_flight)).map(|load| {
                format!(
                    "`{}` may cut off clients under {}/{}: {} reads of {} in flight are more than {}; lower \
                     `in-flight` or `values.size`",
                    system.name,
                    workload.name,
                    load.name,
                    load.in_flight,
                    ByteCount(sizes.most()),
                    ByteCount(most)
                )
            }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use bakeoff_core::study;

    use super::*;

    #[test]
    fn only_reads_beyond_the_limit_of_a_client_are_reported() {
        let text = "title: t\nsystems: {nats: {kind: nats}, redis: {kind: redis}}\n\
                    workloads:\n  read: {mix: {get: 1}, reads: default, keys: {count: 9}, values: {size: 1MB}}\n\
                    \x20 write: {mix: {put: 1}, keys: {count: 9}, values: {size: 1MB}}\n\
                    loads:\n  many: {clients: 1, in-flight: 100, stop: {after: 1s}}\n\
                    \x20 few: {clients: 100, in-flight: 33, stop: {after: 1s}}\n";
        let study = study::parse("t", "t.yaml", text, &systems::kinds()).unwrap();
        let why = "`nats` may cut off clients under read/many: 100 reads of 977 KiB in flight are more than \
                   32 MiB; lower `in-flight` or `values.size`";
        assert_eq!(warnings(&study), [why]);
    }
}
