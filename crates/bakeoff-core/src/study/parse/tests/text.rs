//! Tests texts that are not a study.

use super::{BASE, check};

#[test]
fn text_that_is_not_yaml_is_rejected() {
    check(
        &[("    clients: 2\n", "\tclients: 2\n")],
        r"
error: this is not YAML: tabs disallowed within this context (block indentation)
  --> my.yaml:11:2
   |
11 |  clients: 2
   |  ^
hint: YAML is indented with spaces, not with tabs
",
    );
    check(
        &[("{kind: canary}", "{kind: canary")],
        r"
error: this is not YAML: while parsing a flow mapping, did not find expected ',' or '}'
 --> my.yaml:4:8
  |
4 |   three: {kind: etcd, nodes: 3}
  |        ^
hint: look for a missing colon, quote or bracket, here or above
",
    );
    check(
        &[("clients: 2", "clients: 'two")],
        r"
error: this is not YAML: invalid indentation in multiline quoted scalar
  --> my.yaml:12:5
   |
12 |     stop: {after: 1s}
   |     ^
hint: look for a missing colon, quote or bracket, here or above
",
    );
    check(
        &[("clients: 2", "clients: *two")],
        r"
error: this is not YAML: while parsing node, found unknown anchor
  --> my.yaml:11:14
   |
11 |     clients: *two
   |              ^
hint: `*name` repeats what `&name` marks further up; put other text with a `*` in quotes
",
    );
}

#[test]
fn unquoted_colon_is_rejected() {
    check(
        &[("title: t", "title: etcd: fast")],
        r"
error: this is not YAML: mapping values are not allowed in this context
 --> my.yaml:1:12
  |
1 | title: etcd: fast
  |            ^
hint: quote text that contains a colon, or check the line's indentation
",
    );
}

#[test]
fn study_is_one_mapping() {
    check(
        &[(BASE, "")],
        r"
error: the study is empty
 --> my.yaml:1:1
  |
1 | 
  | ^
hint: `bakeoff studies` names some to start from
",
    );
    check(
        &[(BASE, "# nothing\n")],
        r"
error: the study is empty
 --> my.yaml:1:1
  |
1 | # nothing
  | ^
hint: `bakeoff studies` names some to start from
",
    );
    check(
        &[(BASE, "just text\n")],
        r"
error: the study must be a mapping, not `just text`
 --> my.yaml:1:1
  |
1 | just text
  | ^^^^^^^^^
hint: its fields: `title`, `description`, `systems`, `workloads`, `loads`, `question`, `quick`, `faults`, `repeat`, `trials`, `audit-keys`, `audit`, `sample-every`, `clusters`, `publication` and `published`
",
    );
    check(
        &[(BASE, "- a\n- b\n")],
        r"
error: the study must be a mapping, not a list
 --> my.yaml:1:1
  |
1 | - a
  | ^^^
hint: its fields: `title`, `description`, `systems`, `workloads`, `loads`, `question`, `quick`, `faults`, `repeat`, `trials`, `audit-keys`, `audit`, `sample-every`, `clusters`, `publication` and `published`
",
    );
    check(
        &[(
            BASE,
            "title: t\nsystems:\n  one: {kind: canary}\n  three: {kind: etcd, nodes: 3}\nworkloads:\n  write:\n    mix: {put: 1}\n    keys: {count: 100}\nloads:\n  steady:\n    clients: 2\n    stop: {after: 1s}\n---\ntitle: another\n",
        )],
        r"
error: a second document begins here
  --> my.yaml:13:1
   |
13 | ---
   | ^^^
hint: one file holds one study
",
    );
}

#[test]
fn repeated_field_is_rejected() {
    check(
        &[("    clients: 2\n", "    clients: 2\n    clients: 3\n")],
        r"
error: `clients` is given twice
  --> my.yaml:12:5
   |
12 |     clients: 3
   |     ^^^^^^^
hint: it is already in line 11
",
    );
    check(
        &[("  three: {kind: etcd, nodes: 3}", "  one: {kind: etcd, nodes: 3}")],
        r"
error: `one` is given twice
 --> my.yaml:4:3
  |
4 |   one: {kind: etcd, nodes: 3}
  |   ^^^
hint: it is already in line 3
",
    );
}

#[test]
fn tags_and_complex_keys_are_rejected() {
    check(
        &[("title: t", "title: !secret t")],
        r"
error: a study has no use for the tag `!secret`
 --> my.yaml:1:8
  |
1 | title: !secret t
  |        ^^^^^^^^^
hint: leave it out; text in quotes is text, everything else is read as it looks
",
    );
    check(
        &[("title: t", "[a]: t")],
        r"
error: a list or mapping cannot be a name
 --> my.yaml:1:1
  |
1 | [a]: t
  | ^^^
hint: quote a name with brackets in it
",
    );
}
