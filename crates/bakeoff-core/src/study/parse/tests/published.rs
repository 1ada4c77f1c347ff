//! Tests published figures and their references.

use super::check;

#[test]
fn published_figures_must_refer_to_the_study() {
    check(
        &[(
            "title: t",
            "title: t\npublished:\n  - {system: on, workload: write, metric: errors, value: 1}",
        )],
        r"
error: unknown system `on` in a published figure
 --> my.yaml:3:14
  |
3 |   - {system: on, workload: write, metric: errors, value: 1}
  |              ^^
hint: did you mean `one`?
",
    );
    check(
        &[(
            "title: t",
            "title: t\npublished:\n  - {system: one, workload: read, metric: errors, value: 1}",
        )],
        r"
error: unknown workload `read` in a published figure
 --> my.yaml:3:29
  |
3 |   - {system: one, workload: read, metric: errors, value: 1}
  |                             ^^^^
hint: known workloads: `write`
",
    );
    check(
        &[(
            "title: t",
            "title: t\npublished:\n  - {system: one, workload: write, load: sweep, metric: errors, value: 1}",
        )],
        r"
error: unknown load `sweep` in a published figure
 --> my.yaml:3:42
  |
3 |   - {system: one, workload: write, load: sweep, metric: errors, value: 1}
  |                                          ^^^^^
hint: known loads: `steady`
",
    );
    check(
        &[(
            "title: t",
            "title: t\npublished:\n  - {system: one, workload: write, metric: latency-p50, value: 1}",
        )],
        r"
error: `metric` cannot be `latency-p50`
 --> my.yaml:3:44
  |
3 |   - {system: one, workload: write, metric: latency-p50, value: 1}
  |                                            ^^^^^^^^^^^
hint: did you mean `latency-p50-ms`?
",
    );
    check(
        &[(
            "title: t",
            "title: t\npublished:\n  - {system: one, workload: write, metric: outage-max-s, value: 1}",
        )],
        r"
error: `outage-max-s` of a published figure with no `fault`
 --> my.yaml:3:44
  |
3 |   - {system: one, workload: write, metric: outage-max-s, value: 1}
  |                                            ^^^^^^^^^^^^
hint: add the fault that caused the outage, `fault: leader-killed`
",
    );
    check(
        &[(
            "title: t",
            "title: t\npublished:\n  - {system: one, workload: write, fault: killed, metric: errors, value: 1}",
        )],
        r"
error: `errors` of a published figure with a `fault`
 --> my.yaml:3:59
  |
3 |   - {system: one, workload: write, fault: killed, metric: errors, value: 1}
  |                                                           ^^^^^^
hint: with `fault`, write `outage-min-s` and `outage-max-s`
",
    );
    check(
        &[(
            "title: t",
            "title: t\npublished:\n  - {system: one, workload: write, fault: killed, metric: outage-max-s, value: 1}",
        )],
        r"
error: unknown fault `killed` in a published figure
 --> my.yaml:3:43
  |
3 |   - {system: one, workload: write, fault: killed, metric: outage-max-s, value: 1}
  |                                           ^^^^^^
hint: there are none: leave it out
",
    );
    check(
        &[(
            "title: t",
            "title: t\npublished:\n  - {system: one, workload: write, figures: {latency-p98-ms: 1, errors: none}}",
        )],
        r"
error: unknown metric `latency-p98-ms`
 --> my.yaml:3:46
  |
3 |   - {system: one, workload: write, figures: {latency-p98-ms: 1, errors: none}}
  |                                              ^^^^^^^^^^^^^^
hint: did you mean `latency-p90-ms`?

error: `errors` must be a number, not `none`
 --> my.yaml:3:73
  |
3 |   - {system: one, workload: write, figures: {latency-p98-ms: 1, errors: none}}
  |                                                                         ^^^^
",
    );
    check(
        &[("title: t", "title: t\npublished:\n  - {system: one, workload: write, metric: errors}")],
        r"
error: a published figure needs one metric and its value, or figures
 --> my.yaml:3:5
  |
3 |   - {system: one, workload: write, metric: errors}
  |     ^
hint: write either `metric: throughput-mean` and `value: 2921`, or `figures: {throughput-mean: 2921}`
",
    );
    check(
        &[("title: t", "title: t\npublished:\n  - {system: one, workload: write, figures: {}}")],
        r"
error: `figures` is empty
 --> my.yaml:3:45
  |
3 |   - {system: one, workload: write, figures: {}}
  |                                             ^^
",
    );
    check(
        &[(
            "title: t",
            "title: t\npublished:\n  - {system: one, workload: write, metric: errors, value: -1}",
        )],
        r"
error: `value` must be at least 0, not `-1`
 --> my.yaml:3:59
  |
3 |   - {system: one, workload: write, metric: errors, value: -1}
  |                                                           ^^
hint: as in `value: 2921`
",
    );
    check(
        &[(
            "title: t",
            "title: t\npublished:\n  - {system: one, workload: write, figures: {errors: 1}}\n  - {system: one, workload: write, metric: errors, value: 1}",
        )],
        r"
error: `errors` of `one` in `write` under `steady` is published twice
 --> my.yaml:4:44
  |
4 |   - {system: one, workload: write, metric: errors, value: 1}
  |                                            ^^^^^^
",
    );
    check(
        &[("title: t", "title: t\npublished:\n  - just text")],
        r"
error: a published figure must be a mapping, not `just text`
 --> my.yaml:3:5
  |
3 |   - just text
  |     ^^^^^^^^^
hint: its fields: `system`, `workload`, `load`, `operation`, `fault`, `metric`, `value`, `figures` and `note`
",
    );
}

#[test]
fn published_figure_must_name_its_load() {
    check(
        &[
            (
                "title: t",
                "title: t\npublished:\n  - {system: one, workload: write, metric: errors, value: 1}",
            ),
            ("loads:\n  steady", "loads:\n  brief: {clients: 1, stop: {after: 1s}}\n  steady"),
        ],
        r"
error: a published figure does not name its load
 --> my.yaml:3:5
  |
3 |   - {system: one, workload: write, metric: errors, value: 1}
  |     ^
hint: workload `write` has the loads `brief` and `steady`; add `load`
",
    );
    check(
        &[
            (
                "title: t",
                "title: t\npublished:\n  - {system: one, workload: write, load: brief, metric: errors, value: 1}",
            ),
            ("    keys", "    loads: [steady]\n    keys"),
            ("loads:\n  steady", "loads:\n  brief: {clients: 1, stop: {after: 1s}}\n  steady"),
        ],
        r"
error: workload `write` does not use load `brief`
 --> my.yaml:3:42
  |
3 |   - {system: one, workload: write, load: brief, metric: errors, value: 1}
  |                                          ^^^^^
hint: its loads: `steady`

error: no workload uses load `brief`
  --> my.yaml:13:3
   |
13 |   brief: {clients: 1, stop: {after: 1s}}
   |   ^^^^^
hint: name it in the `loads` of a workload, or remove it
",
    );
}

#[test]
fn publication_must_name_its_hardware() {
    check(
        &[("title: t", "title: t\npublication: {title: p}")],
        r"
error: `publication` of the study has no `hardware`
 --> my.yaml:2:1
  |
2 | publication: {title: p}
  | ^^^^^^^^^^^
hint: add `hardware: 3 servers of 16 vCPUs and 30 GB`
",
    );
}

#[test]
fn published_figure_may_cover_one_operation() {
    check(
        &[(
            "title: t",
            "title: t\npublished:\n  - {system: one, workload: write, operation: get, metric: errors, value: 0}",
        )],
        r"
error: workload `write` has no `get` in its mix
 --> my.yaml:3:47
  |
3 |   - {system: one, workload: write, operation: get, metric: errors, value: 0}
  |                                               ^^^
hint: it has `put`
",
    );
}
