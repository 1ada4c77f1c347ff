//! Tests fields that are unknown, missing or of the wrong form.

use std::collections::BTreeSet;
use std::path::Path;

use super::check;
use crate::study::reference::tables;

#[test]
fn unknown_field_is_rejected() {
    check(
        &[("    clients: 2", "    clinets: 2")],
        r"
error: unknown field `clinets` in load `steady`
  --> my.yaml:11:5
   |
11 |     clinets: 2
   |     ^^^^^^^
hint: did you mean `clients`?
",
    );
    check(
        &[("title: t", "title: t\nauthor: me")],
        r"
error: unknown field `author` in the study
 --> my.yaml:2:1
  |
2 | author: me
  | ^^^^^^
hint: known fields: `title`, `description`, `systems`, `workloads`, `loads`, `question`, `quick`, `faults`, `repeat`, `trials`, `audit-keys`, `audit`, `sample-every`, `clusters`, `publication` and `published`
",
    );
    check(
        &[("{count: 100}", "{count: 100, Size: 64}")],
        r"
error: unknown field `Size` in `keys` of workload `write`
 --> my.yaml:8:24
  |
8 |     keys: {count: 100, Size: 64}
  |                        ^^^^
hint: did you mean `size`?
",
    );
    check(
        &[("    clients: 2", "    clients: 2\n    in_flight: 2")],
        r"
error: unknown field `in_flight` in load `steady`
  --> my.yaml:12:5
   |
12 |     in_flight: 2
   |     ^^^^^^^^^
hint: did you mean `in-flight`?
",
    );
}

#[test]
fn missing_field_is_rejected() {
    check(
        &[("title: t\n", "")],
        r"
error: the study has no `title`
 --> my.yaml:1:1
  |
1 | systems:
  | ^
hint: add `title: etcd and ZooKeeper under write load`
",
    );
    check(
        &[("{kind: canary}", "{}")],
        r"
error: system `one` has no `kind`
 --> my.yaml:3:3
  |
3 |   one: {}
  |   ^^^
hint: add `kind: etcd`
",
    );
    check(
        &[("    clients: 2\n", "")],
        r"
error: load `steady` has no `clients`
  --> my.yaml:10:3
   |
10 |   steady:
   |   ^^^^^^
hint: add `clients: 16`
",
    );
    check(
        &[("    stop: {after: 1s}\n", "")],
        r"
error: load `steady` has no `stop`
  --> my.yaml:10:3
   |
10 |   steady:
   |   ^^^^^^
hint: add `stop: {after: 30s}`
",
    );
    check(
        &[("    keys: {count: 100}\n", "")],
        r"
error: workload `write` has no `keys`
 --> my.yaml:6:3
  |
6 |   write:
  |   ^^^^^
hint: add `keys: {count: 10000}`
",
    );
    check(
        &[("loads:\n  steady:\n    clients: 2\n    stop: {after: 1s}\n", "")],
        r"
error: the study has no `loads`
 --> my.yaml:1:1
  |
1 | title: t
  | ^
hint: add `loads: {steady: {clients: 16, stop: {after: 30s}}}`
",
    );
}

#[test]
fn section_without_entries_is_rejected() {
    check(
        &[("  one: {kind: canary}\n  three: {kind: etcd, nodes: 3}\n", "  {}\n")],
        r"
error: the study has no systems
 --> my.yaml:2:1
  |
2 | systems:
  | ^^^^^^^
",
    );
    check(
        &[("  one: {kind: canary}\n  three: {kind: etcd, nodes: 3}\n", "")],
        r"
error: `systems` must be a mapping, not nothing
 --> my.yaml:2:8
  |
2 | systems:
  |        ^
hint: write `systems: {etcd: {kind: etcd, nodes: 3}}`
",
    );
}

#[test]
fn value_of_the_wrong_form_is_rejected() {
    check(
        &[("clients: 2", "clients: few")],
        r"
error: `clients` must be a whole number, not `few`
  --> my.yaml:11:14
   |
11 |     clients: few
   |              ^^^
",
    );
    check(
        &[("clients: 2", "clients: \"2\"")],
        r#"
error: `clients` must be a whole number, not the text `"2"`
  --> my.yaml:11:14
   |
11 |     clients: "2"
   |              ^^^
hint: leave the quotes out
"#,
    );
    check(
        &[("clients: 2", "clients: 1_000")],
        r"
error: `clients` must be a whole number, not `1_000`
  --> my.yaml:11:14
   |
11 |     clients: 1_000
   |              ^^^^^
hint: did you mean `1000`?
",
    );
    check(
        &[("clients: 2", "clients: {a: 2}")],
        r"
error: `clients` must be a whole number, not a mapping
  --> my.yaml:11:14
   |
11 |     clients: {a: 2}
   |              ^^^^^^
",
    );
    check(
        &[("clients: 2", "clients: []")],
        r"
error: `clients` is an empty list
  --> my.yaml:11:14
   |
11 |     clients: []
   |              ^^
hint: write `clients: 16`
",
    );
    check(
        &[("clients: 2", "clients:")],
        r"
error: `clients` must be a whole number, not nothing
  --> my.yaml:11:12
   |
11 |     clients:
   |            ^
",
    );
    check(
        &[("clients: 2", "clients: 2.5")],
        r"
error: `clients` must be a whole number, not `2.5`
  --> my.yaml:11:14
   |
11 |     clients: 2.5
   |              ^^^
",
    );
    check(
        &[("title: t", "title: [t]")],
        r"
error: `title` must be a text, not a list
 --> my.yaml:1:8
  |
1 | title: [t]
  |        ^^^
hint: as in `title: etcd and ZooKeeper under write load`
",
    );
    check(
        &[("title: t", "title: \"\"")],
        r#"
error: `title` is empty
 --> my.yaml:1:8
  |
1 | title: ""
  |        ^^
hint: as in `title: etcd and ZooKeeper under write load`
"#,
    );
    check(
        &[("    keys", "    fill: yes\n    keys")],
        r"
error: `fill` must be `true` or `false`, not `yes`
 --> my.yaml:8:11
  |
8 |     fill: yes
  |           ^^^
hint: as in `fill: true`
",
    );
    check(
        &[("mix: {put: 1}", "mix: put")],
        r"
error: `mix` must be a mapping, not `put`
 --> my.yaml:7:10
  |
7 |     mix: put
  |          ^^^
hint: write `mix: {get: 90, put: 10}`
",
    );
    check(
        &[("{count: 100}", "100")],
        r"
error: `keys` of workload `write` must be a mapping, not `100`
 --> my.yaml:8:11
  |
8 |     keys: 100
  |           ^^^
hint: its fields: `count`, `size`, `order` and `per-directory`
",
    );
    check(
        &[("title: t", "title: t\ntrials: 0")],
        r"
error: `trials` must be from 1 to 1000, not `0`
 --> my.yaml:2:9
  |
2 | trials: 0
  |         ^
hint: as in `trials: 7`
",
    );
    check(
        &[("title: t", "title: t\ntrials: -3")],
        r"
error: `trials` must be from 1 to 1000, not `-3`
 --> my.yaml:2:9
  |
2 | trials: -3
  |         ^^
hint: as in `trials: 7`
",
    );
}

#[test]
fn list_without_brackets_is_rejected() {
    check(
        &[("clients: 2", "clients: 1,10,100")],
        r"
error: `clients` must be a whole number, not `1,10,100`
  --> my.yaml:11:14
   |
11 |     clients: 1,10,100
   |              ^^^^^^^^
hint: did you mean `[1, 10, 100]`?
",
    );
}

#[test]
fn field_with_too_little_indentation_is_rejected() {
    check(
        &[("    stop:", "  stop:")],
        r"
error: load `steady` has no `stop`
  --> my.yaml:10:3
   |
10 |   steady:
   |   ^^^^^^
hint: add `stop: {after: 30s}`

error: `stop` is where the name of a load belongs
  --> my.yaml:12:3
   |
12 |   stop: {after: 1s}
   |   ^^^^
hint: indent it below the load whose field it is
",
    );
}

#[test]
fn too_long_section_is_rejected() {
    let systems = (0..65).fold(String::new(), |text, n| text + &format!("  s{n}: {{}}\n"));
    check(
        &[("  one: {kind: canary}\n", &systems)],
        r"
error: the study has more than 64 systems
 --> my.yaml:2:1
  |
2 | systems:
  | ^^^^^^^
",
    );
}

#[test]
fn name_that_is_not_a_file_name_is_rejected() {
    check(
        &[("  one:", "  One:")],
        r"
error: `One` cannot be the name of a system
 --> my.yaml:3:3
  |
3 |   One: {kind: canary}
  |   ^^^
hint: names are lower-case letters, digits and hyphens, at most 40, as they become part of file names
",
    );
    check(
        &[("  write:", "  ../write:")],
        r"
error: `../write` cannot be the name of a workload
 --> my.yaml:6:3
  |
6 |   ../write:
  |   ^^^^^^^^
hint: names are lower-case letters, digits and hyphens, at most 40, as they become part of file names
",
    );
    check(
        &[("  steady:", "  -steady:")],
        r"
error: `-steady` cannot be the name of a load
  --> my.yaml:10:3
   |
10 |   -steady:
   |   ^^^^^^^
hint: names are lower-case letters, digits and hyphens, at most 40, as they become part of file names
",
    );
}

#[test]
fn quantity_without_a_unit_is_rejected() {
    check(
        &[("after: 1s", "after: 30")],
        r"
error: `after`: `30` is not a duration
  --> my.yaml:12:19
   |
12 |     stop: {after: 30}
   |                   ^^
hint: it has no unit; did you mean `30s`?
",
    );
    check(
        &[("after: 1s", "after: 1 fortnight")],
        r"
error: `after`: `1 fortnight` is not a duration
  --> my.yaml:12:19
   |
12 |     stop: {after: 1 fortnight}
   |                   ^^^^^^^^^^^
hint: write a number and a unit: `500ms`, `30s`, `5m`, `1h`, `1m30s`
",
    );
    check(
        &[("clients: 2", "clients: 2\n    warmup: 5 sec")],
        r"
error: `warmup`: `5 sec` is not a duration
  --> my.yaml:12:13
   |
12 |     warmup: 5 sec
   |             ^^^^^
hint: did you mean `5s`?
",
    );
    check(
        &[("    keys", "    values: {size: 1K}\n    keys")],
        r"
error: `size`: `1K` is not a size
 --> my.yaml:8:20
  |
8 |     values: {size: 1K}
  |                    ^^
hint: did you mean `1KiB` (powers of 1024) or `1KB`?
",
    );
    check(
        &[("clients: 2", "clients: 2\n    rate: 10/day")],
        r"
error: `rate`: `10/day` is not a rate
  --> my.yaml:12:11
   |
12 |     rate: 10/day
   |           ^^^^^^
hint: write operations per second, minute or hour: `1000/s`, `60/m`, `10/h`
",
    );
}

#[test]
fn all_faults_are_found_in_one_pass() {
    check(
        &[
            ("title: t\n", ""),
            ("kind: canary", "kind: canry"),
            ("put: 1", "putt: 1"),
            ("clients: 2", "clinets: 2"),
        ],
        r"
error: the study has no `title`
 --> my.yaml:1:1
  |
1 | systems:
  | ^
hint: add `title: etcd and ZooKeeper under write load`

error: unknown kind `canry` of system `one`
 --> my.yaml:2:15
  |
2 |   one: {kind: canry}
  |               ^^^^^
hint: did you mean `canary`?

error: unknown operation `putt` in workload `write`
 --> my.yaml:6:11
  |
6 |     mix: {putt: 1}
  |           ^^^^
hint: did you mean `put`?

error: unknown field `clinets` in load `steady`
  --> my.yaml:10:5
   |
10 |     clinets: 2
   |     ^^^^^^^
hint: did you mean `clients`?
",
    );
}

#[test]
fn too_short_sampling_interval_is_rejected() {
    check(
        &[("title: t", "title: t\nsample-every: 50ms")],
        r"
error: `sample-every` must be at least 100ms
 --> my.yaml:2:15
  |
2 | sample-every: 50ms
  |               ^^^^
hint: each look at the processes costs time of its own
",
    );
}

#[test]
fn bit_flip_that_would_damage_a_kept_cluster_is_rejected() {
    check(
        &[("title: t", "title: t\nclusters: kept\naudit: {bit-flip: one}")],
        r"
error: `bit-flip` needs fresh clusters: it damages the data of a node
 --> my.yaml:3:9
  |
3 | audit: {bit-flip: one}
  |         ^^^^^^^^
hint: write `clusters: fresh`
",
    );
}

#[test]
fn power_cuts_that_cannot_be_made_are_rejected() {
    check(
        &[("title: t", "title: t\naudit: {cuts: 5}")],
        r"
error: `cuts` needs `power-cut`
 --> my.yaml:2:9
  |
2 | audit: {cuts: 5}
  |         ^^^^
hint: add `power-cut: all`
",
    );
    check(
        &[("title: t", "title: t\nclusters: kept\naudit: {power-cut: all}")],
        r"
error: `power-cut` needs fresh clusters: it ends with a cluster of its own
 --> my.yaml:3:9
  |
3 | audit: {power-cut: all}
  |         ^^^^^^^^^
hint: write `clusters: fresh`
",
    );
}

/// Reads check their names when they run. This also finds names in branches that no test takes.
#[test]
fn parser_names_only_declared_fields() {
    let fields = tables().into_iter().flat_map(|table| table.fields);
    let known: BTreeSet<&str> = fields.map(|field| field.name).collect();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/study")];
    let mut found = 0;
    while let Some(folder) = folders.pop() {
        for path in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.extend((!path.ends_with("tests")).then_some(path));
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let text: String = text.split_whitespace().collect();
            for call in ["(sink,\"", ".node(\"", ".gives(\"", ".key_at(\"", ".value_at(\""] {
                for name in text.split(call).skip(1).filter_map(|rest| rest.split('"').next()) {
                    assert!(known.contains(name), "no field `{name}`: {}", path.display());
                    found += 1;
                }
            }
        }
    }
    assert!(found > 200, "{found}");
}
