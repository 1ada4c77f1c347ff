//! Tests questions that a study cannot have.

use super::check;

#[test]
fn question_must_name_a_workload_and_a_load_of_the_study() {
    check(
        &[("title: t", "title: t\nquestion: wirte")],
        r"
error: unknown workload `wirte` in `question`
 --> my.yaml:2:11
  |
2 | question: wirte
  |           ^^^^^
hint: did you mean `write`?
",
    );
    check(
        &[("title: t", "title: t\nquestion: write/sweep")],
        r"
error: workload `write` has no load `sweep`
 --> my.yaml:2:17
  |
2 | question: write/sweep
  |                 ^^^^^
hint: its loads: `steady`
",
    );
    check(
        &[("title: t", "title: t\nquestion: [write]")],
        r"
error: `question` must be a text, not a list
 --> my.yaml:2:11
  |
2 | question: [write]
  |           ^^^^^^^
hint: as in `question: write/steady`
",
    );
}

#[test]
fn question_must_name_a_load_that_its_workload_uses() {
    check(
        &[
            ("title: t", "title: t\nquestion: write/other"),
            (
                "{count: 100}",
                "{count: 100}\n    loads: [steady]\n  more: {mix: {put: 1}, keys: {count: 9}}",
            ),
            ("  steady:", "  other: {clients: 1, stop: {after: 1s}}\n  steady:"),
        ],
        r"
error: workload `write` has no load `other`
 --> my.yaml:2:17
  |
2 | question: write/other
  |                 ^^^^^
hint: its loads: `steady`
",
    );
}
