//! Tests the faults of a study.

use std::time::Duration;

use super::{BASE, check, parse, read};
use crate::study::fault::{DiskBreak, MaintenanceRun, Pause, Restart, Sequence};
use crate::study::testing::kinds;
use crate::study::{DiskFault, FaultAction, FaultNode, Maintenance};

/// Makes the load of [`BASE`] open and long enough for faults.
const OPEN: (&str, &str) = (
    "    clients: 2\n    stop: {after: 1s}\n",
    "    {clients: 2, rate: 9/s, warmup: 0s, stop: {after: 60s}}\n",
);

/// Expects this error of a study with these faults.
#[track_caller]
fn refused(faults: &str, expected: &str) {
    let faults = format!("\nfaults:\n{faults}\nloads:");
    check(&[OPEN, ("\nloads:", &faults)], expected);
}

#[test]
fn faults_have_an_action_nodes_and_times() {
    let text = BASE.replace(OPEN.0, OPEN.1)
        + "faults:\n  paused: {pause: leader, at: 20s, for: 10s}\n  killed: {kill: each, at: 0s, \
           restart-after: 1s}\n  stopped: {stop: follower-2, at: 1s, restart-after: 1s, systems: [three]}\n  \
           rolling: {restart: each, at: 10s}\nrepeat: 9\n";
    let study = read(&text);
    assert_eq!(study.repeat, 9);
    let second = Duration::from_secs(1);
    let [paused, killed, stopped, rolling] = &study.faults[..] else {
        panic!("{:?}", study.faults)
    };
    assert_eq!(paused.action, FaultAction::Pause(Pause { lasts: 10 * second }));
    assert_eq!((paused.target.node, paused.at), (FaultNode::Leader, 20 * second));
    assert_eq!(killed.target.node, FaultNode::Each);
    assert_eq!(stopped.target.node, FaultNode::Follower(2));
    assert!(stopped.befalls("three") && !stopped.befalls("one"));
    assert_eq!(rolling.action, FaultAction::Restart(Restart { every: 10 * second, to: None }));
    assert_eq!(rolling.heals_at(3), 40 * second);
}

#[test]
fn fault_on_a_missing_node_is_rejected() {
    refused(
        "  paused: {pause: follower-3, at: 1s, for: 1s, systems: [three]}",
        r"
error: system `three` has 3 nodes, and so no `follower-3`
  --> my.yaml:10:19
   |
10 |   paused: {pause: follower-3, at: 1s, for: 1s, systems: [three]}
   |                   ^^^^^^^^^^
hint: write `leader`, `follower-1`, `node-1` or `each`, or name the others in the fault's `systems`
",
    );
    refused(
        "  paused: {pause: {part: storage}, at: 1s, for: 1s, systems: [three]}",
        r"
error: system `three` has no part `storage`
  --> my.yaml:10:19
   |
10 |   paused: {pause: {part: storage}, at: 1s, for: 1s, systems: [three]}
   |                   ^^^^^^^^^^^^^^^
hint: name the others in the fault's `systems`
",
    );
    refused(
        "  paused: {pause: boss, at: 1s, for: 1s}",
        r"
error: `pause`: `boss` is not a node
  --> my.yaml:10:19
   |
10 |   paused: {pause: boss, at: 1s, for: 1s}
   |                   ^^^^
hint: write `leader`, `follower-1`, `node-1` or `each`
",
    );
}

#[test]
fn fault_that_heals_after_the_load_is_rejected() {
    refused(
        "  killed: {kill: leader, at: 50s, restart-after: 10s}",
        r"
error: fault `killed` heals after 1m, and load `steady` ends after 1m
  --> my.yaml:10:30
   |
10 |   killed: {kill: leader, at: 50s, restart-after: 10s}
   |                              ^^^
hint: let the load run longer: the recovery after the fault is measured, too
",
    );
}

#[test]
fn actions_that_contradict_are_rejected() {
    refused(
        "  both: {kill: leader, pause: leader, at: 5s, for: 1s}",
        r"
error: fault `both` has both `pause` and `kill`
  --> my.yaml:10:10
   |
10 |   both: {kill: leader, pause: leader, at: 5s, for: 1s}
   |          ^^^^
hint: a fault is one action; write two faults
",
    );
    refused(
        "  killed: {kill: leader, at: 5s, for: 1s, restart-after: 1s}",
        r"
error: fault `killed` has `kill` and `for`
  --> my.yaml:10:34
   |
10 |   killed: {kill: leader, at: 5s, for: 1s, restart-after: 1s}
   |                                  ^^^
hint: the time of `kill` is `restart-after`
",
    );
    refused(
        "  killed: {kill: leader, at: 5s}",
        r"
error: fault `killed` does not say when it heals
  --> my.yaml:10:3
   |
10 |   killed: {kill: leader, at: 5s}
   |   ^^^^^^
hint: add `restart-after: 10s`
",
    );
}

const DEFRAGMENT: FaultAction = FaultAction::Run(MaintenanceRun {
    operation: Maintenance::Defragment,
    every: Duration::ZERO,
    times: 1,
    keep: 0,
});

#[test]
fn maintenance_is_what_the_system_offers() {
    let text = BASE.replace(OPEN.0, OPEN.1)
        + "faults:\n  all: {run: defragment, node: each, at: 1s, systems: [three]}\n  \
           once: {run: compact, at: 1s, systems: [three]}\n";
    let study = read(&text);
    let [all, once] = &study.faults[..] else { panic!("{:?}", study.faults) };
    assert_eq!(all.action, DEFRAGMENT);
    assert_eq!(all.text(), "defragment on one node after another");
    assert_eq!((once.target.node, once.heals_at(3)), (FaultNode::Leader, once.at));
    refused(
        "  kept: {run: rotate, at: 1s, systems: [three]}",
        r"
error: system `three` does not offer `rotate`
  --> my.yaml:10:15
   |
10 |   kept: {run: rotate, at: 1s, systems: [three]}
   |               ^^^^^^
hint: kind `etcd` offers `compact`, `defragment` and `snapshot`; or name the others in the fault's `systems`
",
    );
    refused(
        "  kept: {run: snapshot, at: 1s, systems: [one]}",
        r"
error: system `one` does not offer `snapshot`
  --> my.yaml:10:15
   |
10 |   kept: {run: snapshot, at: 1s, systems: [one]}
   |               ^^^^^^^^
hint: kind `canary` offers no maintenance; name the others in the fault's `systems`
",
    );
    refused(
        "  kept: {run: defrag, at: 1s}",
        r"
error: unknown maintenance `defrag` in fault `kept`
  --> my.yaml:10:15
   |
10 |   kept: {run: defrag, at: 1s}
   |               ^^^^^^
hint: known words: `change-routes`, `checkpoint`, `compact`, `defragment`, `rewrite-log`, `rotate`, `snapshot` and `vacuum`
",
    );
}

#[test]
fn maintenance_has_no_time_and_only_offered_nodes() {
    refused(
        "  kept: {run: compact, node: each, at: 1s, systems: [three]}",
        r"
error: `compact` of system `three` runs once, not on a node
  --> my.yaml:10:30
   |
10 |   kept: {run: compact, node: each, at: 1s, systems: [three]}
   |                              ^^^^
hint: leave `node` out, or name the others in the fault's `systems`
",
    );
    refused(
        "  kept: {run: snapshot, for: 1s, at: 1s, systems: [three]}",
        r"
error: fault `kept` has `run` and `for`
  --> my.yaml:10:25
   |
10 |   kept: {run: snapshot, for: 1s, at: 1s, systems: [three]}
   |                         ^^^
hint: `for` belongs to `pause`, `isolate`, `partition`, `delay`, `disk` and `silence`
",
    );
    refused(
        "  kept: {pause: leader, node: each, for: 1s, at: 1s}",
        r"
error: fault `kept` has `pause` and `node`
  --> my.yaml:10:25
   |
10 |   kept: {pause: leader, node: each, for: 1s, at: 1s}
   |                         ^^^^
hint: `node` belongs to `run`
",
    );
}

#[test]
fn repeated_maintenance_has_an_interval_and_a_count() {
    let text = BASE.replace(OPEN.0, OPEN.1)
        + "faults:\n  often: {run: compact, at: 1s, every: 1500ms, times: 10, systems: [three]}\n";
    let often = &read(&text).faults[0];
    let every = Duration::from_millis(1500);
    let operation = Maintenance::Compact;
    assert_eq!(
        often.action,
        FaultAction::Run(MaintenanceRun { operation, every, times: 10, keep: 0 })
    );
    assert_eq!(often.heals_at(3), Duration::from_secs(16));
    assert_eq!(often.text(), "compact on leader 10 times, every 1s500ms");
    refused(
        "  often: {run: compact, at: 50s, every: 1s, times: 10, systems: [three]}",
        r"
error: fault `often` heals after 1m, and load `steady` ends after 1m
  --> my.yaml:10:29
   |
10 |   often: {run: compact, at: 50s, every: 1s, times: 10, systems: [three]}
   |                             ^^^
hint: let the load run longer: the recovery after the fault is measured, too
",
    );
    refused(
        "  often: {run: compact, at: 1s, every: 1s, systems: [three]}",
        r"
error: fault `often` has `run` and `every`, and no `times`
  --> my.yaml:10:33
   |
10 |   often: {run: compact, at: 1s, every: 1s, systems: [three]}
   |                                 ^^^^^
hint: add `times: 10`, or leave `every` out to run it once
",
    );
    refused(
        "  often: {run: compact, at: 1s, times: 3, systems: [three]}",
        r"
error: fault `often` has `run` and `times`, and no `every`
  --> my.yaml:10:33
   |
10 |   often: {run: compact, at: 1s, times: 3, systems: [three]}
   |                                 ^^^^^
hint: add `every: 1s`, or leave `times` out to run it once
",
    );
    refused(
        "  often: {restart: each, at: 1s, times: 3, systems: [three]}",
        r"
error: fault `often` has `restart` and `times`
  --> my.yaml:10:34
   |
10 |   often: {restart: each, at: 1s, times: 3, systems: [three]}
   |                                  ^^^^^
hint: `times` belongs to `run`
",
    );
}

/// Two faults for sequences: the first takes 4 s, the second 9 s on three nodes.
const TWO: &str = "  paused: {pause: leader, at: 55s, for: 4s, systems: [three]}\n  \
                   rolling: {restart: each, at: 0s, every: 3s, systems: [three], alone: false}\n  ";

#[test]
fn sequence_names_faults_and_adds_up_their_times() {
    let faults =
        format!("faults:\n  all: {{sequence: [paused, rolling], at: 5s, rest: 41s}}\n{TWO}");
    let study = read(&(BASE.replace(OPEN.0, OPEN.1) + &faults + "\n"));
    let [all, paused, rolling] = &study.faults[..] else { panic!("{:?}", study.faults) };
    let faults = vec!["paused".into(), "rolling".into()];
    let rest = Duration::from_secs(41);
    assert_eq!(all.action, FaultAction::Sequence(Sequence { faults, rest }));
    assert_eq!(all.systems, paused.systems);
    assert_eq!(all.text(), "paused and rolling, one after another");
    assert!(all.alone && paused.alone && !rolling.alone);
    // 5 s, 4 s, 42 s and three times 3 s.
    refused(
        &format!("{TWO}all: {{sequence: [paused, rolling], at: 5s, rest: 42s}}"),
        r"
error: fault `all` heals after 1m, and load `steady` ends after 1m
  --> my.yaml:12:42
   |
12 |   all: {sequence: [paused, rolling], at: 5s, rest: 42s}
   |                                          ^^
hint: let the load run longer: the recovery after the fault is measured, too
",
    );
}

#[test]
fn sequence_that_cannot_happen_is_rejected() {
    let refused = |faults: &str, expected: &str, column: u32| {
        let faults = format!("faults:\n{TWO}{faults}\n");
        let text = BASE.replace(OPEN.0, OPEN.1) + &faults;
        let error = parse("my", "my.yaml", &text, &kinds()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("error: {expected}")), "{error}");
        assert!(error.contains(&format!("my.yaml:15:{column}\n")), "{error}");
        assert_eq!(error.matches("error: ").count(), 1, "{error}");
    };
    let unused = "fault `rolling` never happens: no sequence names it";
    let text = BASE.replace(OPEN.0, OPEN.1) + "faults:\n" + TWO + "\n";
    let error = parse("my", "my.yaml", &text, &kinds()).unwrap_err().to_string();
    assert!(error.contains(unused) && error.contains("my.yaml:14:72"), "{error}");
    refused(
        "all: {sequence: [paused, roling], at: 5s, rest: 1s}",
        "unknown fault `roling` in fault `all`",
        28,
    );
    refused(
        "all: {sequence: [paused, all], at: 5s}",
        "fault `all` holds `all`, which is a sequence",
        28,
    );
    refused(
        "all: {sequence: [rolling], at: 5s}",
        "fault `all` is a sequence of fewer than two",
        19,
    );
    refused("all: {sequence: [rolling, rolling], at: 5s}", "fault `all` has `rolling` twice", 29);
    refused(
        "all: {sequence: [rolling, paused], at: 5s, systems: [three]}",
        "fault `all` has `sequence` and `systems`",
        46,
    );
    refused(
        "all: {sequence: [rolling, one], at: 5s}\n  one: {kill: leader, at: 1s, restart-after: 1s}",
        "`rolling` and `one` happen to different systems",
        29,
    );
}

#[test]
fn load_that_cannot_measure_outages_is_rejected() {
    check(
        &[("\nloads:", "\nfaults: {paused: {pause: leader, at: 100ms, for: 100ms}}\nloads:")],
        r"
error: load `steady` is closed, and the study has faults
  --> my.yaml:11:3
   |
11 |   steady:
   |   ^^^^^^
hint: a closed load sends nothing while its clients wait; add `rate: 1000/s`
",
    );
    check(
        &[("\nloads:", "\nrepeat: 3\nloads:")],
        r"
error: the study has `repeat` and no `faults`
 --> my.yaml:9:1
  |
9 | repeat: 3
  | ^^^^^^
hint: `repeat` is the number of injections of each fault; `trials` repeats loads
",
    );
    for (more, expected) in [
        ("targets: leader", "do not follow a new leader"),
        ("find: {objective: p99 < 1s}", "searches for a rate"),
    ] {
        let text =
            BASE.replace(OPEN.0, OPEN.1).replace("rate: 9/s", &format!("rate: 900/s, {more}"));
        let text = text + "faults: {paused: {pause: leader, at: 1s, for: 1s}}\n";
        let error = parse("my", "my.yaml", &text, &kinds()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn servers_that_run_already_are_not_broken() {
    let text = BASE
        .replace(OPEN.0, OPEN.1)
        .replace("{kind: etcd, nodes: 3}", "{kind: etcd, endpoints: [\"http://127.0.0.1:2379\"]}");
    let text = text + "faults: {paused: {pause: leader, at: 1s, for: 1s}}\n";
    let error = parse("my", "my.yaml", &text, &kinds()).unwrap_err().to_string();
    assert!(error.contains("bakeoff cannot `pause` system `three`, which runs already"), "{error}");
}

#[test]
fn unique_keys_last_for_all_injections() {
    let text = BASE.replace(OPEN.0, OPEN.1).replace("{count: 100}", "{count: 1620, order: unique}");
    let faults = "faults: {paused: {pause: leader, at: 1s, for: 1s}}\nrepeat: 2\n";
    read(&(text.clone() + faults));
    let error = parse("my", "my.yaml", &(text + &faults.replace('2', "3")), &kinds()).unwrap_err();
    assert!(error.to_string().contains("2160 operations"), "{error}");
}

#[test]
fn partition_has_groups_of_nodes() {
    refused(
        "  split: {partition: [[leader], [follower-1, leader]], at: 1s, for: 1s, systems: [three]}",
        r"
error: `partition` has `leader` twice
  --> my.yaml:10:46
   |
10 |   split: {partition: [[leader], [follower-1, leader]], at: 1s, for: 1s, systems: [three]}
   |                                              ^^^^^^
hint: put each node into one group
",
    );
    refused(
        "  split: {partition: [[leader, follower-1]], at: 1s, for: 1s, systems: [three]}",
        r"
error: fault `split` separates nothing
  --> my.yaml:10:22
   |
10 |   split: {partition: [[leader, follower-1]], at: 1s, for: 1s, systems: [three]}
   |                      ^^^^^^^^^^^^^^^^^^^^^^
hint: write at least two groups: `[[leader, follower-1], [follower-2]]`
",
    );
    refused(
        "  split: {partition: [[leader], [node-1, node-2, node-3]], at: 1s, for: 1s, systems: [three]}",
        r"
error: if `node-1` of system `three` leads, `leader` and `node-1` are the same node
  --> my.yaml:10:22
   |
10 |   split: {partition: [[leader], [node-1, node-2, node-3]], at: 1s, for: 1s, systems: [three]}
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: name all nodes of a partition by role, or all by number
",
    );
    refused(
        "  split: {partition: [[node-2], [follower-2]], at: 1s, for: 1s, systems: [three]}",
        r"
error: if `node-3` of system `three` leads, `node-2` and `follower-2` are the same node
  --> my.yaml:10:22
   |
10 |   split: {partition: [[node-2], [follower-2]], at: 1s, for: 1s, systems: [three]}
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^
hint: name all nodes of a partition by role, or all by number
",
    );
    refused(
        "  split: {partition: [leader, follower-1], at: 1s, for: 1s, systems: [three]}",
        r"
error: `partition` must be a list of groups, not `leader`
  --> my.yaml:10:23
   |
10 |   split: {partition: [leader, follower-1], at: 1s, for: 1s, systems: [three]}
   |                       ^^^^^^
hint: write at least two groups: `[[leader, follower-1], [follower-2]]`
",
    );
    refused(
        "  split: {partition: [[leader], [follower-3]], at: 1s, for: 1s, systems: [three]}",
        r"
error: system `three` has 3 nodes, and so no `follower-3`
  --> my.yaml:10:22
   |
10 |   split: {partition: [[leader], [follower-3]], at: 1s, for: 1s, systems: [three]}
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^
hint: write `leader`, `follower-1`, `node-1` or `each`, or name the others in the fault's `systems`
",
    );
}

#[test]
fn fields_of_an_action_are_rejected_elsewhere() {
    refused(
        "  kept: {run: compact, at: 1s, sync-delay: 100ms, systems: [three]}",
        r"
error: fault `kept` has `run` and `sync-delay`
  --> my.yaml:10:32
   |
10 |   kept: {run: compact, at: 1s, sync-delay: 100ms, systems: [three]}
   |                                ^^^^^^^^^^
hint: `sync-delay` belongs to `disk`
",
    );
    refused(
        "  killed: {kill: leader, at: 1s, restart-after: 1s, direction: in}",
        r"
error: fault `killed` has `kill` and `direction`
  --> my.yaml:10:53
   |
10 |   killed: {kill: leader, at: 1s, restart-after: 1s, direction: in}
   |                                                     ^^^^^^^^^
hint: `direction` belongs to `isolate`
",
    );
}

#[test]
fn upgrade_that_cannot_happen_is_rejected() {
    refused(
        "  new: {restart: each, at: 1s, every: 1s, to: v3.6}",
        r"
error: `v3.6` is not a version
  --> my.yaml:10:47
   |
10 |   new: {restart: each, at: 1s, every: 1s, to: v3.6}
   |                                               ^^^^
hint: did you mean `3.6`?
",
    );
    refused(
        "  new: {restart: follower-1, at: 1s, every: 1s, to: 3.6, systems: [three]}",
        r"
error: fault `new` upgrades `follower-1` alone
  --> my.yaml:10:53
   |
10 |   new: {restart: follower-1, at: 1s, every: 1s, to: 3.6, systems: [three]}
   |                                                     ^^^
hint: write `each`: all nodes of a system have one version in the end
",
    );
    refused(
        "  new: {kill: each, at: 1s, restart-after: 1s, to: 3.6}",
        r"
error: fault `new` has `kill` and `to`
  --> my.yaml:10:48
   |
10 |   new: {kill: each, at: 1s, restart-after: 1s, to: 3.6}
   |                                                ^^
hint: `to` belongs to `restart`
",
    );
    refused(
        "  new: {restart: each, at: 1s, every: 1s, to: 3.6}\n  newer: {restart: each, at: 1s, every: 1s, to: 3.7, systems: [three]}",
        r"
error: `newer` upgrades system `three`, and so does `new`
  --> my.yaml:11:3
   |
11 |   newer: {restart: each, at: 1s, every: 1s, to: 3.7, systems: [three]}
   |   ^^^^^
hint: upgrade a system once in a study
",
    );
    refused(
        "  new: {restart: each, at: 1s, every: 1s, to: 3.6}\n  paused: {pause: leader, at: 1s, for: 1s}\n  both: {sequence: [paused, new], at: 1s}",
        r"
error: fault `both` holds `new`, which upgrades to 3.6
  --> my.yaml:12:29
   |
12 |   both: {sequence: [paused, new], at: 1s}
   |                             ^^^
hint: an upgrade happens by itself, after all other faults
",
    );
}

#[test]
fn disk_faults_name_one_state_of_the_disk() {
    let text = BASE.replace(OPEN.0, OPEN.1)
        + "faults:\n  slow: {disk: leader, sync-delay: 100ms, at: 1s, for: 1s}\n  \
           stalled: {disk: each, stall: true, at: 1s, for: 2s}\n  \
           full: {disk: leader, full: true, at: 1s, for: 1s, systems: [three]}\n";
    let study = read(&text);
    let second = Duration::from_secs(1);
    let slow = DiskFault::Slow { sync_delay: second / 10 };
    let actions: Vec<FaultAction> = study.faults.iter().map(|fault| fault.action.clone()).collect();
    let disk = |fault, lasts| FaultAction::Disk(DiskBreak { fault, lasts });
    let expected =
        [disk(slow, second), disk(DiskFault::Stalled, 2 * second), disk(DiskFault::Full, second)];
    assert_eq!(actions, expected);
    assert_eq!(study.disk_faults_of("one").count(), 2);
    assert_eq!(study.disk_faults_of("three").count(), 3);
    refused(
        "  slow: {disk: leader, at: 1s, for: 1s}",
        r"
error: fault `slow` leaves the disk as it is
  --> my.yaml:10:10
   |
10 |   slow: {disk: leader, at: 1s, for: 1s}
   |          ^^^^
hint: add `sync-delay: 100ms`, `stall: true` or `full: true`
",
    );
    refused(
        "  both: {disk: leader, stall: true, full: true, at: 1s, for: 1s}",
        r"
error: fault `both` has both `stall` and `full`
  --> my.yaml:10:37
   |
10 |   both: {disk: leader, stall: true, full: true, at: 1s, for: 1s}
   |                                     ^^^^
hint: a fault is one action; write two faults
",
    );
    refused(
        "  slow: {disk: leader, sync-delay: 1s, at: 1s, for: 1s}",
        r"
error: a `sync-delay` of 1s cannot be proven
  --> my.yaml:10:36
   |
10 |   slow: {disk: leader, sync-delay: 1s, at: 1s, for: 1s}
   |                                    ^^
hint: a sync is timed during the fault: write at least 10ms, and less than `for`
",
    );
    refused(
        "  full: {disk: leader, full: false, at: 1s, for: 1s}",
        r"
error: fault `full` leaves the disk as it is
  --> my.yaml:10:30
   |
10 |   full: {disk: leader, full: false, at: 1s, for: 1s}
   |                              ^^^^^
hint: write `full: true`
",
    );
    refused(
        "  full: {disk: leader, full: true, at: 1s}",
        r"
error: fault `full` does not say when it heals
  --> my.yaml:10:3
   |
10 |   full: {disk: leader, full: true, at: 1s}
   |   ^^^^
hint: add `for: 10s`
",
    );
    refused(
        "  paused: {pause: leader, stall: true, at: 1s, for: 1s}",
        r"
error: fault `paused` has `pause` and `stall`
  --> my.yaml:10:27
   |
10 |   paused: {pause: leader, stall: true, at: 1s, for: 1s}
   |                           ^^^^^
hint: `stall` belongs to `disk`
",
    );
}

#[test]
fn delay_says_by_how_much() {
    let text = BASE.replace(OPEN.0, OPEN.1)
        + "faults:\n  late: {delay: each, by: 50ms, jitter: 5ms, loss: 1%, at: 1s, for: 1s}\n  \
           later: {delay: leader, by: 1s, at: 1s, for: 2s}\n";
    let study = read(&text);
    let [late, later] = &study.faults[..] else { panic!("{:?}", study.faults) };
    assert_eq!(
        late.text(),
        "packets of all nodes 50ms ± 5ms late for 1s, 1.0 % of the packets lost"
    );
    assert_eq!(later.text(), "packets of leader 1s late for 2s");
    assert!(study.needs_network() && late.action.loses_packets() && !later.action.loses_packets());
    refused(
        "  late: {delay: leader, at: 1s, for: 1s}",
        r"
error: fault `late` delays nothing
  --> my.yaml:10:10
   |
10 |   late: {delay: leader, at: 1s, for: 1s}
   |          ^^^^^
hint: add `by: 50ms`
",
    );
    refused(
        "  late: {delay: leader, by: 5ms, jitter: 6ms, at: 1s, for: 1s}",
        r"
error: `jitter` is longer than `by`
  --> my.yaml:10:42
   |
10 |   late: {delay: leader, by: 5ms, jitter: 6ms, at: 1s, for: 1s}
   |                                          ^^^
hint: a packet cannot arrive before it was sent: write at most `by`
",
    );
    refused(
        "  late: {delay: leader, by: 5ms, loss: 60%, at: 1s, for: 1s}",
        r"
error: `loss` is more than half of the packets
  --> my.yaml:10:40
   |
10 |   late: {delay: leader, by: 5ms, loss: 60%, at: 1s, for: 1s}
   |                                        ^^^
hint: write at most 50%, or cut the nodes off with `isolate`
",
    );
    refused(
        "  late: {isolate: leader, by: 5ms, at: 1s, for: 1s}",
        r"
error: fault `late` has `isolate` and `by`
  --> my.yaml:10:27
   |
10 |   late: {isolate: leader, by: 5ms, at: 1s, for: 1s}
   |                           ^^
hint: `by` belongs to `delay`
",
    );
}
