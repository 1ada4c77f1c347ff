//! What a measurement shows besides its figures is said above the tables: stalls, slow nodes.

use std::time::Duration;

use bakeoff_core::measurement::{Measurement, Silence, TargetFigures};
use bakeoff_core::report::Report;
use bakeoff_core::study::{Operation, Stop};

use super::building::{Trials as _, closed, measured, record, study, workload};

/// What is found of an etcd whose three trials measured this; each operation takes about 2 ms.
fn findings(trials: [Measurement; 3]) -> Vec<String> {
    let load = closed("steady", &[64], Stop::After(Duration::from_secs(4)));
    let reads = workload("reads", &[(Operation::Get, 1)], "steady");
    let mut record = record(study(&["etcd"], reads, load, 3));
    for trial in trials {
        record.run("etcd", vec![(64, trial)]);
    }
    Report::new(&record).findings().to_vec()
}

fn plain() -> Measurement {
    measured("get", 500, Duration::from_secs(4), Duration::from_millis(2))
}

fn silent(times: &[(f64, f64)]) -> Measurement {
    let silences = times.iter().map(|&(from, seconds)| Silence { from, seconds }).collect();
    Measurement { silences, ..plain() }
}

/// Three nodes with these service times in milliseconds, so many answers of each.
fn nodes(milliseconds: [u64; 3], answers: u64) -> Measurement {
    let node = |(place, &latency): (usize, &u64)| {
        let mut of = TargetFigures {
            node: format!("127.0.0.1:{}", 9000 + place),
            verified: answers,
            ..TargetFigures::default()
        };
        of.service.record_many(Duration::from_millis(latency), answers);
        of
    };
    let targets = milliseconds.iter().enumerate().map(node).collect();
    Measurement { targets, ..plain() }
}

#[test]
fn a_stall_is_said_with_its_length_and_time() {
    let found = findings([plain(), silent(&[(0.5, 0.6), (2.0, 1.02)]), plain()]);
    let said = "etcd stalled in 1 of 3 trials under reads/steady: \
                nothing succeeded for 1.02 s, from 2.00 s on (trial 2)";
    assert_eq!(found, [said]);
    let found = findings([plain(), silent(&[(1.0, 0.6)]), silent(&[(1.0, 0.9)])]);
    assert!(found[0].ends_with("900 ms, from 1.00 s on (trial 3, the longest)"), "{found:?}");
}

#[test]
fn where_an_operation_takes_long_a_time_without_success_is_no_stall() {
    let slow = || measured("get", 10, Duration::from_secs(4), Duration::from_millis(200));
    let silences = vec![Silence { from: 1.0, seconds: 1.5 }];
    let found = findings([Measurement { silences, ..slow() }, slow(), slow()]);
    assert_eq!(found, [""; 0]);
}

#[test]
fn one_slow_node_is_said_with_how_slow_it_is() {
    let found = findings([nodes([2, 20, 3], 500), nodes([2, 30, 2], 500), nodes([2, 2, 2], 500)]);
    let said = "etcd-2 of etcd answered 6.67 times slower than the other nodes under reads/steady \
                in 2 of 3 trials: service time p50 20.0 ms against 3.00 ms (trial 1)";
    assert_eq!(found, [said]);
}

#[test]
fn nodes_that_differ_little_or_seldom_or_of_few_answers_are_not_slow() {
    let alike = || nodes([2, 2, 2], 500);
    assert_eq!(findings([nodes([2, 5, 2], 500), nodes([2, 5, 2], 500), alike()]), [""; 0]);
    assert_eq!(findings([nodes([2, 20, 2], 500), alike(), alike()]), [""; 0]);
    let few = || nodes([2, 20, 2], 19);
    assert_eq!(findings([few(), few(), few()]), [""; 0]);
    // Where most are slow, it is not one node.
    let most = || nodes([2, 20, 20], 500);
    assert_eq!(findings([most(), most(), most()]), [""; 0]);
}
