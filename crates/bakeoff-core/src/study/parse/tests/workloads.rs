//! Tests invalid workloads.

use super::check;

#[test]
fn empty_mix_is_rejected() {
    check(
        &[("{put: 1}", "{}")],
        r"
error: the mix of workload `write` is empty
 --> my.yaml:7:10
  |
7 |     mix: {}
  |          ^^
hint: give at least one operation a weight: `mix: {get: 90, put: 10}`
",
    );
    check(
        &[("{put: 1}", "{put: 0, get: 0}")],
        r"
error: the mix of workload `write` is empty
 --> my.yaml:7:10
  |
7 |     mix: {put: 0, get: 0}
  |          ^^^^^^^^^^^^^^^^
hint: give at least one operation a weight: `mix: {get: 90, put: 10}`
",
    );
}

#[test]
fn unknown_operation_is_rejected() {
    check(
        &[("{put: 1}", "{puts: 1}")],
        r"
error: unknown operation `puts` in workload `write`
 --> my.yaml:7:11
  |
7 |     mix: {puts: 1}
  |           ^^^^
hint: did you mean `put`?
",
    );
    check(
        &[("{put: 1}", "{frob: 1}")],
        r"
error: unknown operation `frob` in workload `write`
 --> my.yaml:7:11
  |
7 |     mix: {frob: 1}
  |           ^^^^
hint: known operations: `put`, `get`, `delete`, `list`, `login-userpass`, `login-approle`, `lookup-token`, `encrypt`, `decrypt`, `sign`, `issue-certificate`, `sign-certificate`, `issue-credentials`, `read-policy`, `read-mount`, `insert`, `ping`, `check-access`, `request`, `denied`, …
",
    );
    check(
        &[("{put: 1}", "{put: -1}")],
        r"
error: `put` must be from 0 to 1000000, not `-1`
 --> my.yaml:7:16
  |
7 |     mix: {put: -1}
  |                ^^
",
    );
    check(
        &[("{put: 1}", "{put: 0.5}")],
        r"
error: `put` must be a whole number, not `0.5`
 --> my.yaml:7:16
  |
7 |     mix: {put: 0.5}
  |                ^^^
",
    );
}

#[test]
fn operation_that_a_system_lacks_is_rejected() {
    check(
        &[("{put: 1}", "{put: 1, list: 1}"), ("kind: etcd", "kind: zookeeper")],
        r"
error: system `three` cannot `list`
 --> my.yaml:7:19
  |
7 |     mix: {put: 1, list: 1}
  |                   ^^^^
hint: kind `zookeeper` can `put`, `get`, `delete` and `lock`
",
    );
}

#[test]
fn missing_operations_are_reported_next_to_other_errors() {
    check(
        &[
            ("{put: 1}", "{list: 1}"),
            ("kind: etcd", "kind: zookeeper"),
            ("{count: 100}", "{count: many}"),
        ],
        r"
error: system `three` cannot `list`
 --> my.yaml:7:11
  |
7 |     mix: {list: 1}
  |           ^^^^
hint: kind `zookeeper` can `put`, `get`, `delete` and `lock`

error: `count` must be a whole number, not `many`
 --> my.yaml:8:19
  |
8 |     keys: {count: many}
  |                   ^^^^
hint: as in `count: 10000`
",
    );
}

#[test]
fn reads_that_a_system_lacks_are_rejected() {
    check(
        &[("{put: 1}", "{get: 1}\n    reads: default")],
        r"
error: system `one` has no `default` reads
 --> my.yaml:8:12
  |
8 |     reads: default
  |            ^^^^^^^
hint: kind `canary` has reads that are `linearizable` and `stale`
",
    );
    check(
        &[("{put: 1}", "{get: 1}\n    reads: newest")],
        r"
error: `reads` cannot be `newest`
 --> my.yaml:8:12
  |
8 |     reads: newest
  |            ^^^^^^
hint: known words: `linearizable`, `default`, `stale` and `freshest`
",
    );
}

#[test]
fn default_freshness_is_named_as_the_default() {
    check(
        &[("{put: 1}", "{get: 1}"), ("kind: etcd", "kind: redis")],
        r"
error: reads are `linearizable` unless a workload says otherwise, and system `three` has no such reads
 --> my.yaml:6:3
  |
6 |   write:
  |   ^^^^^
hint: add `reads: default`, or `reads: freshest`
",
    );
}

#[test]
fn sizes_too_small_for_a_proof_are_rejected() {
    check(
        &[("{count: 100}", "{count: 100, size: 1}")],
        r"
error: keys of 1 byte have 32 names, and there are 100 keys
 --> my.yaml:8:30
  |
8 |     keys: {count: 100, size: 1}
  |                              ^
hint: write `size: 2` or more
",
    );
    check(
        &[("{count: 100}", "{count: 100}\n    values: {size: 4}")],
        r"
error: `size` must be from 5 B to 1 GiB, not `4`
 --> my.yaml:9:20
  |
9 |     values: {size: 4}
  |                    ^
hint: keys and values carry what proves them right
",
    );
    check(
        &[("{count: 100}", "{count: 100, size: 30, per-directory: 10}")],
        r"
error: keys of 30 bytes are too short to have directories
 --> my.yaml:8:30
  |
8 |     keys: {count: 100, size: 30, per-directory: 10}
  |                              ^^
hint: write `size: 34` or more
",
    );
}

#[test]
fn value_too_large_for_a_system_is_rejected() {
    check(
        &[("{count: 100}", "{count: 100}\n    values: {size: 2MiB}")],
        r"
error: values of 2097152 bytes are too large for system `one`
 --> my.yaml:9:20
  |
9 |     values: {size: 2MiB}
  |                    ^^^^
hint: kind `canary` takes at most 1048576 bytes

error: values of 2097152 bytes are too large for system `three`
 --> my.yaml:9:20
  |
9 |     values: {size: 2MiB}
  |                    ^^^^
hint: kind `etcd` takes at most 1500000 bytes
",
    );
}

#[test]
fn list_without_directories_is_rejected() {
    check(
        &[("{put: 1}", "{list: 1}"), ("{count: 100}", "{count: 100, per-directory: 0}")],
        r"
error: workload `write` has `list` in its mix and no directories
 --> my.yaml:8:39
  |
8 |     keys: {count: 100, per-directory: 0}
  |                                       ^
hint: `list` returns the keys of one directory; write `per-directory: 100`
",
    );
}

#[test]
fn unknown_order_is_rejected() {
    check(
        &[("{count: 100}", "{count: 100, order: random}")],
        r"
error: `order` cannot be `random`
 --> my.yaml:8:31
  |
8 |     keys: {count: 100, order: random}
  |                               ^^^^^^
hint: known words: `sequential`, `unique`, `uniform`, `zipfian`, `hotspot`, `latest` and `same`
",
    );
    check(
        &[("{count: 100}", "{count: 100, order: zipf}")],
        r"
error: `order` cannot be `zipf`
 --> my.yaml:8:31
  |
8 |     keys: {count: 100, order: zipf}
  |                               ^^^^
hint: did you mean `zipfian`?
",
    );
    check(
        &[("{count: 100}", "{count: 100, order: {zipfian: 0}}")],
        r"
error: `zipfian` must be more than 0 and at most 10, not `0`
 --> my.yaml:8:41
  |
8 |     keys: {count: 100, order: {zipfian: 0}}
  |                                         ^
hint: as in `zipfian: 1.2`
",
    );
    check(
        &[("{count: 100}", "{count: 100, order: {exponent: 1}}")],
        r"
error: the key order has no law
 --> my.yaml:8:24
  |
8 |     keys: {count: 100, order: {exponent: 1}}
  |                        ^^^^^
hint: write `order: {zipfian: 1.2}`, `{latest: 1.2}` or `{hotspot: {keys: 10%}}`

error: unknown field `exponent` in the key order
 --> my.yaml:8:32
  |
8 |     keys: {count: 100, order: {exponent: 1}}
  |                                ^^^^^^^^
hint: known fields: `zipfian`, `latest` and `hotspot`
",
    );
}

#[test]
fn reading_unwritten_keys_is_rejected() {
    check(
        &[("{put: 1}", "{get: 1}\n    fill: false")],
        r"
error: workload `write` reads keys that are never written
 --> my.yaml:8:11
  |
8 |     fill: false
  |           ^^^^^
hint: leave `fill` out, and all keys are written before the load begins
",
    );
    check(
        &[
            ("{put: 1}", "{get: 1, put: 1}\n    fill: false"),
            ("{count: 100}", "{count: 100, order: unique}"),
        ],
        r"
error: workload `write` gets each key once, and never one that it has put
 --> my.yaml:8:11
  |
8 |     fill: false
  |           ^^^^^
hint: leave `fill` out, and all keys are written before the load begins
",
    );
}

#[test]
fn more_operations_than_unique_keys_is_rejected() {
    check(
        &[("{count: 100}", "{count: 100, order: unique}"), ("after: 1s", "operations: 1000")],
        r"
error: load `steady` has 1000 operations, and workload `write` has 100 unique keys
 --> my.yaml:8:31
  |
8 |     keys: {count: 100, order: unique}
  |                               ^^^^^^
hint: in `unique` order each key is touched once; write `count: 1000`, or another order
",
    );
    check(
        &[
            ("{count: 100}", "{count: 100, order: unique}"),
            ("clients: 2", "clients: 2\n    rate: 200/s\n    warmup: 500ms"),
        ],
        r"
error: load `steady` has 300 operations, and workload `write` has 100 unique keys
 --> my.yaml:8:31
  |
8 |     keys: {count: 100, order: unique}
  |                               ^^^^^^
hint: in `unique` order each key is touched once; write `count: 300`, or another order
",
    );
}

#[test]
fn unknown_load_is_rejected() {
    check(
        &[("    keys", "    loads: [stedy]\n    keys")],
        r"
error: unknown load `stedy` in workload `write`
 --> my.yaml:8:13
  |
8 |     loads: [stedy]
  |             ^^^^^
hint: did you mean `steady`?
",
    );
    check(
        &[("    keys", "    loads: [steady, steady]\n    keys")],
        r"
error: load `steady` is listed twice
 --> my.yaml:8:21
  |
8 |     loads: [steady, steady]
  |                     ^^^^^^
",
    );
    check(
        &[("    keys", "    loads: []\n    keys")],
        r"
error: `loads` is an empty list
 --> my.yaml:8:12
  |
8 |     loads: []
  |            ^^
hint: write `loads: [steady]`
",
    );
}

#[test]
fn order_without_exactly_one_law_is_rejected() {
    check(
        &[("{count: 100}", "{count: 100, order: {zipfian: 1, latest: 1}}")],
        r"
error: the key order has several laws
 --> my.yaml:8:24
  |
8 |     keys: {count: 100, order: {zipfian: 1, latest: 1}}
  |                        ^^^^^
hint: write `order: {zipfian: 1.2}`, `{latest: 1.2}` or `{hotspot: {keys: 10%}}`
",
    );
    check(
        &[("{count: 100}", "{count: 100, order: {hotspot: {keys: 0%}}}")],
        r"
error: a hotspot of no keys takes no operations
 --> my.yaml:8:48
  |
8 |     keys: {count: 100, order: {hotspot: {keys: 0%}}}
  |                                                ^^
hint: write `keys: 20%`
",
    );
}

#[test]
fn invalid_size_distribution_is_rejected() {
    check(
        &[("{count: 100}", "{count: 100}\n    values: {size: {from: 1KiB, to: 100}}")],
        r"
error: the smallest size, 1024 bytes, is above the largest, 100
 --> my.yaml:9:27
  |
9 |     values: {size: {from: 1KiB, to: 100}}
  |                           ^^^^
hint: write the smaller one as `from`
",
    );
    check(
        &[("{count: 100}", "{count: 100}\n    values: {size: {from: 1KiB}}")],
        r"
error: the size of values is neither a range nor a file
 --> my.yaml:9:14
  |
9 |     values: {size: {from: 1KiB}}
  |              ^^^^
hint: write `size: {from: 100, to: 10KiB}` or `size: {file: sizes.txt}`
",
    );
    check(
        &[("{count: 100}", "{count: 100}\n    values: {size: [100, 2]}")],
        r"
error: `size` must be from 5 B to 1 GiB, not `2`
 --> my.yaml:9:26
  |
9 |     values: {size: [100, 2]}
  |                          ^
hint: keys and values carry what proves them right
",
    );
    check(
        &[("{count: 100}", "{count: 100}\n    values: {size: [100, 2MiB]}")],
        r"
error: values of 2097152 bytes are too large for system `one`
 --> my.yaml:9:20
  |
9 |     values: {size: [100, 2MiB]}
  |                    ^^^^^^^^^^^
hint: kind `canary` takes at most 1048576 bytes

error: values of 2097152 bytes are too large for system `three`
 --> my.yaml:9:20
  |
9 |     values: {size: [100, 2MiB]}
  |                    ^^^^^^^^^^^
hint: kind `etcd` takes at most 1500000 bytes
",
    );
}

#[test]
fn short_keys_that_could_not_be_removed_are_rejected() {
    check(
        &[("{count: 100}", "{count: 100, size: 9}"), ("title: t", "title: t\nclusters: kept")],
        r"
error: keys of 9 bytes have no room for `bakeoff/`, and system `one` is kept from trial to trial: they could not be printed from others when they are removed
 --> my.yaml:9:30
  |
9 |     keys: {count: 100, size: 9}
  |                              ^
hint: write `size: 10` or more

error: keys of 9 bytes have no room for `bakeoff/`, and system `three` is kept from trial to trial: they could not be printed from others when they are removed
 --> my.yaml:9:30
  |
9 |     keys: {count: 100, size: 9}
  |                              ^
hint: write `size: 10` or more
",
    );
    check(
        &[
            ("{count: 100}", "{count: 100, size: 9}"),
            ("kind: canary", "kind: etcd, endpoints: [a:1]"),
        ],
        r"
error: keys of 9 bytes have no room for `bakeoff/`, and system `one` runs already: they could not be printed from others when they are removed
 --> my.yaml:8:30
  |
8 |     keys: {count: 100, size: 9}
  |                              ^
hint: write `size: 10` or more
",
    );
}

#[test]
fn latest_order_with_separate_readers_is_rejected() {
    check(
        &[
            ("{put: 1}", "{put: 1, get: 1}"),
            ("{count: 100}", "{count: 100, order: latest}"),
            ("clients: 2", "clients: 2\n    targets: {writes: leader, reads: all}"),
        ],
        r"
error: workload `write` reads what was written last, and load `steady` has clients of their own for writes
  --> my.yaml:12:14
   |
12 |     targets: {writes: leader, reads: all}
   |              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: those who read would not know what was written; write `targets: all`
",
    );
}

#[test]
fn old_events_need_a_history_of_this_load_alone() {
    let keys = "    keys: {count: 100}\n";
    let watched = "    keys: {count: 100}\n    watchers: {count: 9, from: oldest}\n";
    check(
        &[("{kind: canary}", "{kind: consul}"), (keys, watched)],
        r"
error: a watcher of system `one` cannot begin with old events
 --> my.yaml:9:15
  |
9 |     watchers: {count: 9, from: oldest}
  |               ^^^^^^^^^^^^^^^^^^^^^^^^
hint: leave `from` out, or name those that can in the workload's `systems`
",
    );
    check(
        &[("{kind: etcd, nodes: 3}", "{kind: etcd, endpoints: [a:1]}"), (keys, watched)],
        r"
error: system `three` runs already, so its history holds events of other loads
 --> my.yaml:9:15
  |
9 |     watchers: {count: 9, from: oldest}
  |               ^^^^^^^^^^^^^^^^^^^^^^^^
hint: leave `from` out, or let bakeoff start a new cluster for each trial
",
    );
    check(
        &[("title: t\n", "title: t\nclusters: kept\n"), (", nodes: 3", ""), (keys, watched)],
        r"
error: system `one` is kept from trial to trial, so its history holds events of other loads
  --> my.yaml:10:15
   |
10 |     watchers: {count: 9, from: oldest}
   |               ^^^^^^^^^^^^^^^^^^^^^^^^
hint: leave `from` out, or let bakeoff start a new cluster for each trial

error: system `three` is kept from trial to trial, so its history holds events of other loads
  --> my.yaml:10:15
   |
10 |     watchers: {count: 9, from: oldest}
   |               ^^^^^^^^^^^^^^^^^^^^^^^^
hint: leave `from` out, or let bakeoff start a new cluster for each trial
",
    );
}

#[test]
fn transactions_are_refused_where_they_cannot_be_judged() {
    let mix = |operations: &str| format!("    mix: {{{operations}}}\n");
    let put = mix("put: 1");
    let moves = mix("move: 1, look: 3");
    check(
        &[(&put, &mix("move: 1, get: 3"))],
        r"
error: workload `write` has `move` and `get` in its mix
 --> my.yaml:7:10
  |
7 |     mix: {move: 1, get: 3}
  |          ^^^^^^^^^^^^^^^^^
hint: a `look` or `move` is for groups of keys; put the other operations into a workload of their own
",
    );
    let one = format!("{moves}    with: {{group: 1}}\n");
    check(
        &[(&put, &one)],
        r"
error: `group` must be from 2 to 64 keys, not `1`
 --> my.yaml:8:19
  |
8 |     with: {group: 1}
  |                   ^
hint: write `with: {group: 4}`
",
    );
    let large = format!("{moves}    values: {{size: 300KiB}}\n    systems: [one]\n");
    check(
        &[(&put, &large)],
        r"
error: values of 307200 bytes in transactions of 4 are too large for system `one`
 --> my.yaml:8:20
  |
8 |     values: {size: 300KiB}
  |                    ^^^^^^
hint: kind `canary` takes at most 1048576 bytes
",
    );
    check(
        &[
            (&put, &format!("{moves}    systems: [three]\n")),
            ("clients: 2", "clients: 2\n    in-flight: 2"),
        ],
        r"
error: a client has one transaction at a time, and has 2 operations of workload `write` in flight
  --> my.yaml:13:16
   |
13 |     in-flight: 2
   |                ^
hint: leave `in-flight` out; add clients
",
    );
    let watched = "    keys: {count: 100}\n    watchers: {count: 9}\n";
    check(
        &[(&put, &moves), ("    keys: {count: 100}\n", watched)],
        r"
error: workload `write` has watchers and `move` in its mix
 --> my.yaml:9:5
  |
9 |     watchers: {count: 9}
  |     ^^^^^^^^
hint: write `put` in place of `move`
",
    );
}
