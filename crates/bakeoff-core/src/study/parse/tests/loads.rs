//! Tests invalid loads.

use super::{BASE, check, read};

#[test]
fn load_that_no_workload_uses_is_rejected() {
    check(
        &[
            ("    keys", "    loads: [steady]\n    keys"),
            ("loads:\n  steady", "loads:\n  idle: {clients: 1, stop: {after: 1s}}\n  steady"),
        ],
        r"
error: no workload uses load `idle`
  --> my.yaml:11:3
   |
11 |   idle: {clients: 1, stop: {after: 1s}}
   |   ^^^^
hint: name it in the `loads` of a workload, or remove it
",
    );
}

/// Returns the warm-up of a load in seconds.
fn warmup(load: &str) -> f64 {
    let text = BASE.replace("    clients: 2\n    stop: {after: 1s}\n", &format!("    {load}\n"));
    let text = text.replace("steady:\n", "steady:").replace("steady:    ", "steady: {");
    read(&(text.trim_end().to_owned() + "}\n")).loads[0].warmup.as_secs_f64()
}

#[test]
fn default_warmup_is_a_fifth_of_each_stage() {
    assert_eq!(warmup("clients: 2, stop: {after: 500ms}"), 1.0);
    assert_eq!(warmup("clients: 2, stop: {after: 15s}"), 3.0);
    assert_eq!(warmup("clients: [1, 2, 3], stop: {after: 30s}"), 2.0);
    assert_eq!(warmup("clients: 2, rate: 5/s, stop: {after: 5m}"), 5.0);
    assert_eq!(warmup("clients: 2, stop: {operations: 100}"), 0.0, "a whole job");
    assert_eq!(warmup("clients: 2, rate: 5/s, stop: {operations: 100}"), 0.0);
    assert_eq!(warmup("clients: 2, warmup: 0s, stop: {after: 15s}"), 0.0, "none was asked for");
    assert_eq!(warmup("clients: 2, warmup: 10s, stop: {after: 15s}"), 10.0);
}

#[test]
fn keys_must_last_for_the_default_warmup_too() {
    check(
        &[
            ("{count: 100}", "{count: 100, order: unique}"),
            ("clients: 2", "clients: 2\n    rate: 100/s"),
        ],
        r"
error: load `steady` has 200 operations, and workload `write` has 100 unique keys
 --> my.yaml:8:31
  |
8 |     keys: {count: 100, order: unique}
  |                               ^^^^^^
hint: the usual warm-up of 1s touches keys, too; write `count: 200`, or `warmup: 0s` in the load
",
    );
}

#[test]
fn more_clients_than_operations_is_rejected() {
    check(
        &[("clients: 2", "clients: 200"), ("after: 1s", "operations: 100")],
        r"
error: load `steady` has 200 clients, and 100 operations
  --> my.yaml:11:14
   |
11 |     clients: 200
   |              ^^^
hint: write `operations: 200` or more, or fewer clients
",
    );
    check(
        &[("clients: 2", "clients: [1, 10, 100]"), ("after: 1s", "operations: 90")],
        r"
error: load `steady` has 100 clients, and 30 operations in this stage
  --> my.yaml:11:22
   |
11 |     clients: [1, 10, 100]
   |                      ^^^
hint: write `operations: 300` or more, or fewer clients; stages share the operations evenly
",
    );
    check(
        &[
            ("clients: 2", "clients: 10\n    clients-for: {three: 1000}"),
            ("after: 1s", "operations: 100"),
        ],
        r"
error: load `steady` has 1000 clients on system `three`, and 100 operations
  --> my.yaml:12:26
   |
12 |     clients-for: {three: 1000}
   |                          ^^^^
hint: write `operations: 1000` or more, or fewer clients
",
    );
}

#[test]
fn more_in_flight_than_operations_is_rejected() {
    check(
        &[
            ("  one: {kind: canary}\n", ""),
            ("clients: 2", "clients: 10\n    in-flight: 20"),
            ("after: 1s", "operations: 100"),
        ],
        r"
error: load `steady` has 10 clients with 20 operations in flight each, and 100 operations
  --> my.yaml:10:14
   |
10 |     clients: 10
   |              ^^
hint: write `operations: 200` or more, or fewer clients
",
    );
}

#[test]
fn more_in_flight_than_a_session_allows_is_rejected() {
    check(
        &[("clients: 2", "clients: 2\n    in-flight: 8")],
        r"
error: system `one` cannot have 8 operations in flight
  --> my.yaml:12:16
   |
12 |     in-flight: 8
   |                ^
hint: a client of kind `canary` has at most 1; add clients
",
    );
}

#[test]
fn zero_is_rejected() {
    check(
        &[("clients: 2", "clients: 0")],
        r"
error: `clients` must be from 1 to 100000, not `0`
  --> my.yaml:11:14
   |
11 |     clients: 0
   |              ^
",
    );
    check(
        &[("clients: 2", "clients: [1, 0]")],
        r"
error: `clients` must be from 1 to 100000, not `0`
  --> my.yaml:11:18
   |
11 |     clients: [1, 0]
   |                  ^
",
    );
    check(
        &[("after: 1s", "after: 0s")],
        r"
error: `after` must be more than zero
  --> my.yaml:12:19
   |
12 |     stop: {after: 0s}
   |                   ^^
hint: as in `after: 30s`
",
    );
    check(
        &[("after: 1s", "operations: 0")],
        r"
error: `operations` must be from 1 to 1000000000000, not `0`
  --> my.yaml:12:24
   |
12 |     stop: {operations: 0}
   |                        ^
hint: as in `operations: 100000`
",
    );
    check(
        &[("clients: 2", "clients: 2\n    rate: 0/s")],
        r"
error: `rate` must be more than 0 and at most 1000000000/s
  --> my.yaml:12:11
   |
12 |     rate: 0/s
   |           ^^^
hint: a load without a rate, and with `clients`, is closed
",
    );
    check(
        &[("clients: 2", "clients: 2\n    timeout: 0s")],
        r"
error: `timeout` must be more than zero
  --> my.yaml:12:14
   |
12 |     timeout: 0s
   |              ^^
hint: as in `timeout: 10s`
",
    );
    check(
        &[("clients: 2", "clients: 2\n    in-flight: 0")],
        r"
error: `in-flight` must be from 1 to 1000000, not `0`
  --> my.yaml:12:16
   |
12 |     in-flight: 0
   |                ^
hint: as in `in-flight: 1`
",
    );
    check(
        &[("{count: 100}", "{count: 0}")],
        r"
error: `count` must be from 1 to 1000000000000, not `0`
 --> my.yaml:8:19
  |
8 |     keys: {count: 0}
  |                   ^
hint: as in `count: 10000`
",
    );
}

#[test]
fn overlong_load_is_reported() {
    check(
        &[("after: 1s", "after: 25h")],
        r"
error: `after` must be at most 24h
  --> my.yaml:12:19
   |
12 |     stop: {after: 25h}
   |                   ^^^
hint: as in `after: 30s`
",
    );
    check(
        &[("clients: 2", "clients: 2\n    warmup: 61m")],
        r"
error: `warmup` must be at most 1h
  --> my.yaml:12:13
   |
12 |     warmup: 61m
   |             ^^^
hint: as in `warmup: 5s`
",
    );
    check(
        &[("clients: 2", "clients: 2\n    timeout: 2h")],
        r"
error: `timeout` must be at most 1h
  --> my.yaml:12:14
   |
12 |     timeout: 2h
   |              ^^
hint: as in `timeout: 10s`
",
    );
}

#[test]
fn rate_too_low_to_end_within_a_day_is_rejected() {
    check(
        &[("clients: 2", "clients: 2\n    rate: 10/s"), ("after: 1s", "operations: 1000000")],
        r"
error: load `steady` needs more than 24h for its operations at its rate
  --> my.yaml:13:11
   |
13 |     stop: {operations: 1000000}
   |           ^^^^^^^^^^^^^^^^^^^^^
hint: raise the rate, or end the load earlier
",
    );
}

#[test]
fn load_ends_by_time_or_by_count() {
    check(
        &[("{after: 1s}", "{after: 1s, operations: 10}")],
        r"
error: `stop` of load `steady` has both `after` and `operations`
  --> my.yaml:12:23
   |
12 |     stop: {after: 1s, operations: 10}
   |                       ^^^^^^^^^^
hint: write `stop: {after: 30s}` or `stop: {operations: 100000}`
",
    );
    check(
        &[("{after: 1s}", "{}")],
        r"
error: `stop` of load `steady` has neither `after` nor `operations`
  --> my.yaml:12:5
   |
12 |     stop: {}
   |     ^^^^
hint: write `stop: {after: 30s}` or `stop: {operations: 100000}`
",
    );
    check(
        &[("{after: 1s}", "1s")],
        r"
error: `stop` of load `steady` must be a mapping, not `1s`
  --> my.yaml:12:11
   |
12 |     stop: 1s
   |           ^^
hint: its fields: `after` and `operations`
",
    );
}

#[test]
fn arrivals_without_a_rate_are_rejected() {
    check(
        &[("clients: 2", "clients: 2\n    arrivals: poisson")],
        r"
error: load `steady` has `arrivals` and no `rate`
  --> my.yaml:12:5
   |
12 |     arrivals: poisson
   |     ^^^^^^^^
hint: add `rate: 1000/s`; without a rate the load is closed, and each client's next operation follows its last
",
    );
    check(
        &[("clients: 2", "clients: 2\n    rate: 10/s\n    arrivals: poison")],
        r"
error: `arrivals` cannot be `poison`
  --> my.yaml:13:15
   |
13 |     arrivals: poison
   |               ^^^^^^
hint: did you mean `poisson`?
",
    );
}

#[test]
fn sweep_with_a_rate_is_rejected() {
    check(
        &[("clients: 2", "clients: [1, 2]\n    rate: 10/s")],
        r"
error: load `steady` has a `rate` and a list of clients
  --> my.yaml:11:14
   |
11 |     clients: [1, 2]
   |              ^^^^^^
hint: an open load has one number of clients; give each rate its own load
",
    );
}

#[test]
fn clients_for_names_systems_and_as_many_stages() {
    check(
        &[("clients: 2", "clients: 2\n    clients-for: {tree: 3}")],
        r"
error: unknown system `tree` in load `steady`
  --> my.yaml:12:19
   |
12 |     clients-for: {tree: 3}
   |                   ^^^^
hint: did you mean `three`?
",
    );
    check(
        &[("clients: 2", "clients: [1, 2]\n    clients-for: {three: 3}")],
        r"
error: `clients-for` of `three` has 1 stage and `clients` has 2 stages
  --> my.yaml:12:26
   |
12 |     clients-for: {three: 3}
   |                          ^
hint: stages are compared one by one, so that each system needs as many
",
    );
    check(
        &[("clients: 2", "clients: 2\n    clients-for: {three: many}")],
        r"
error: `clients-for` must be a whole number, not `many`
  --> my.yaml:12:26
   |
12 |     clients-for: {three: many}
   |                          ^^^^
",
    );
    check(
        &[("clients: 2", "clients: 2\n    clients-for: {three: []}")],
        r"
error: `clients-for` must be a whole number, not a list
  --> my.yaml:12:26
   |
12 |     clients-for: {three: []}
   |                          ^^
",
    );
}

/// Changes that make a study write and read on separate nodes.
const SPLIT: &[(&str, &str)] = &[
    ("{put: 1}", "{put: 1, get: 3}"),
    ("one: {kind: canary}", "one: {kind: etcd, nodes: 3}"),
    ("clients: 2", "clients: 2\n    targets: {writes: leader, reads: followers}"),
];

#[test]
fn separate_writes_and_reads_need_two_clients_and_a_common_end() {
    let spoilt = |change| [SPLIT, &[change]].concat();
    check(
        &spoilt(("clients: 2", "clients: 1")),
        r"
error: load `steady` has one client for the writes and the reads of workload `write`
  --> my.yaml:11:14
   |
11 |     clients: 1
   |              ^
hint: with `targets` of their own each needs one: write `clients: 2` or more
",
    );
    check(
        &spoilt(("{after: 1s}", "{operations: 100}")),
        r"
error: load `steady` ends by a count, and its writes and reads go at paces of their own
  --> my.yaml:13:11
   |
13 |     stop: {operations: 100}
   |           ^^^^^^^^^^^^^^^^^
hint: one of the two would go on alone; write `stop: {after: 30s}`, or give it a `rate`
",
    );
    check(
        &spoilt(("one: {kind: etcd, nodes: 3}", "one: {kind: etcd}")),
        r"
error: system `one` has one node, and so no followers
  --> my.yaml:12:14
   |
12 |     targets: {writes: leader, reads: followers}
   |              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: give it `nodes: 3`, or write `targets: all`
",
    );
    check(
        &spoilt(("writes: leader, ", "")),
        r"
error: `targets` of load `steady` has no `writes`
  --> my.yaml:12:5
   |
12 |     targets: {reads: followers}
   |     ^^^^^^^
hint: add `writes: leader`
",
    );
}

#[test]
fn connection_per_operation_needs_a_system_that_supports_it() {
    let off = ("clients: 2", "clients: 2\n    keep-alive: off");
    check(
        &[off, ("kind: etcd", "kind: zookeeper")],
        r"
error: system `three` cannot have a connection for each operation
  --> my.yaml:12:17
   |
12 |     keep-alive: off
   |                 ^^^
hint: a client of kind `zookeeper` keeps what it agreed on with the server; leave `keep-alive` out
",
    );
    check(
        &[
            off,
            ("keep-alive: off", "keep-alive: off\n    in-flight: 2"),
            ("one: {kind: canary}", "one: {kind: etcd}"),
        ],
        r"
error: load `steady` has `keep-alive: off` and operations in flight together
  --> my.yaml:13:16
   |
13 |     in-flight: 2
   |                ^
hint: each operation has its own connection; leave `in-flight` out
",
    );
    check(
        &[("clients: 2", "clients: 2\n    keep-alive: never")],
        r"
error: `keep-alive` cannot be `never`
  --> my.yaml:12:17
   |
12 |     keep-alive: never
   |                 ^^^^^
hint: known words: `on` and `off`
",
    );
}

#[test]
fn followers_of_a_single_node_are_rejected() {
    check(
        &[("clients: 2", "clients: 2\n    targets: followers")],
        r"
error: system `one` has one node, and so no followers
  --> my.yaml:12:14
   |
12 |     targets: followers
   |              ^^^^^^^^^
hint: write `targets: all`
",
    );
    check(
        &[("clients: 2", "clients: 2\n    targets: follower")],
        r"
error: `targets` cannot be `follower`
  --> my.yaml:12:14
   |
12 |     targets: follower
   |              ^^^^^^^^
hint: did you mean `followers`?
",
    );
}
