//! Tests quick forms that a study cannot have.

use super::check;

/// Replaces the title by one with a quick form.
const TITLE: &str = "title: t";

fn form(form: &str) -> String {
    format!("title: t\nquick: {form}")
}

/// Expects this error of a quick form in the second line.
#[track_caller]
fn refused(text: &str, expected: &str) {
    check(&[(TITLE, &form(text))], expected);
}

#[test]
fn quick_form_must_name_what_the_study_has() {
    refused(
        "{workloads: [wirte]}",
        r"
error: unknown workload `wirte` in `quick` of the study
 --> my.yaml:2:21
  |
2 | quick: {workloads: [wirte]}
  |                     ^^^^^
hint: did you mean `write`?
",
    );
    refused(
        "{systems: [one, tree]}",
        r"
error: unknown system `tree` in `quick` of the study
 --> my.yaml:2:24
  |
2 | quick: {systems: [one, tree]}
  |                        ^^^^
hint: did you mean `three`?
",
    );
    refused(
        "{loads: {sweep: {}}}",
        r"
error: unknown load `sweep` in `quick` of the study
 --> my.yaml:2:17
  |
2 | quick: {loads: {sweep: {}}}
  |                 ^^^^^
hint: its loads: `steady`
",
    );
    refused(
        "{loads: {steady: {rate: 5/s}}}",
        r"
error: unknown field `rate` in load `steady` of `quick`
 --> my.yaml:2:26
  |
2 | quick: {loads: {steady: {rate: 5/s}}}
  |                          ^^^^
hint: known fields: `warmup` and `stop`
",
    );
}

#[test]
fn quick_form_of_one_trial_is_refused() {
    refused(
        "{trials: 1}",
        r"
error: the quick form has 1 trial, and fewer than 3 decide nothing
 --> my.yaml:2:17
  |
2 | quick: {trials: 1}
  |                 ^
hint: write `trials: 3` or more
",
    );
}

/// Another workload with a load of its own, and a system that does not run the first.
const OTHER: [(&str, &str); 2] = [
    (
        "    keys: {count: 100}",
        "    keys: {count: 100}\n    loads: [steady]\n    systems: [one]\n  other: {mix: {put: 1}, \
         keys: {count: 100}, loads: [busy]}",
    ),
    ("  steady:", "  busy: {clients: 4, stop: {operations: 100}}\n  steady:"),
];

#[test]
fn quick_form_must_answer_the_question() {
    let with = |text: &str| form(text);
    let check_with = |text: &str, expected: &str| {
        check(&[(TITLE, &with(text)), OTHER[0], OTHER[1]], expected);
    };
    check_with(
        "{workloads: [other]}",
        r"
error: the quick form leaves out `write/steady`, the study's question
 --> my.yaml:2:20
  |
2 | quick: {workloads: [other]}
  |                    ^^^^^^^
hint: add `write`, or give the study another `question`
",
    );
    check_with(
        "{workloads: [write, other], loads: {busy: {}}}",
        r"
error: the quick form leaves out `write/steady`, the study's question
 --> my.yaml:2:36
  |
2 | quick: {workloads: [write, other], loads: {busy: {}}}
  |                                    ^^^^^
hint: add `steady: {}`, or give the study another `question`
",
    );
    check_with(
        "{systems: [one, three]}",
        r"
error: system `three` runs no workload of the quick form
 --> my.yaml:2:24
  |
2 | quick: {systems: [one, three]}
  |                        ^^^^^
hint: those that do: `one`
",
    );
    check_with(
        "{loads: {steady: {}, busy: {}}}",
        r"
error: no workload of the quick form uses load `busy`
 --> my.yaml:2:29
  |
2 | quick: {loads: {steady: {}, busy: {}}}
  |                             ^^^^
hint: its loads: `steady`
",
    );
    check_with(
        "{workloads: [write, other], loads: {steady: {}}}",
        r"
error: the quick form has no load for workload `other`
 --> my.yaml:2:1
  |
2 | quick: {workloads: [write, other], loads: {steady: {}}}
  | ^^^^^
hint: add one to its `loads`, or leave the workload out
",
    );
}

#[test]
fn loads_of_a_quick_form_keep_the_rules_of_loads() {
    refused(
        "{loads: {steady: {stop: {operations: 1}}}}",
        r"
error: in the quick form, load `steady` has 2 clients, and 1 operation
 --> my.yaml:2:17
  |
2 | quick: {loads: {steady: {stop: {operations: 1}}}}
  |                 ^^^^^^
hint: write `operations: 2` or more, or fewer clients
",
    );
    refused(
        "{loads: {steady: {stop: {after: 1s, operations: 9}}}}",
        r"
error: `stop` of load `steady` of `quick` has both `after` and `operations`
 --> my.yaml:2:44
  |
2 | quick: {loads: {steady: {stop: {after: 1s, operations: 9}}}}
  |                                            ^^^^^^^^^^
hint: write `stop: {after: 30s}` or `stop: {operations: 100000}`
",
    );
    let find = "    clients: 2\n    rate: 1000/s\n    find: {objective: [p99 < 50ms]}";
    check(
        &[(TITLE, &form("{loads: {steady: {stop: {after: 500ms}}}}")), ("    clients: 2", find)],
        r"
error: in the quick form, `p99 < 50ms` needs 1,000 operations, and a try of load `steady` has 500: 1,000/s for 500ms
 --> my.yaml:2:17
  |
2 | quick: {loads: {steady: {stop: {after: 500ms}}}}
  |                 ^^^^^^
hint: try each rate for 1s or longer, begin at 2,000/s or more, or ask for a lower percentile
",
    );
}
