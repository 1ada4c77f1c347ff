//! Tests of systems' parts besides their own nodes, and of the tools of operations.

use super::*;

/// A study of one Vault, with this in its mapping.
fn vault(fields: &str, workload: &str) -> Result<Study, String> {
    let text = format!(
        "title: t\nsystems:\n  safe: {{kind: vault, {fields}}}\nworkloads:\n  work: {{{workload}}}\n\
         loads:\n  steady: {{clients: 2, stop: {{after: 1s}}}}\n"
    );
    parse("my", "my.yaml", &text, &kinds()).map_err(|diagnostics| diagnostics.to_string())
}

const PUTS: &str = "mix: {put: 1}, keys: {count: 10}";

fn refused(fields: &str, workload: &str, wording: &[&str]) {
    let diagnostics = vault(fields, workload).expect_err("the study is wrong");
    for text in wording {
        assert!(diagnostics.contains(text), "no `{text}` in:\n{diagnostics}");
    }
}

#[test]
fn a_part_must_play_a_role_that_the_kind_has() {
    refused(
        "parts: {storge: {kind: consul}}",
        PUTS,
        &["kind `vault` has no part `storge`", "did you mean `storage`?", "my.yaml:3:31"],
    );
    refused(
        "parts: {storage: {kind: haproxy}}",
        PUTS,
        &[
            "a system of kind `haproxy` cannot be part `storage` of system `safe`",
            "it can be `consul`, `postgresql`, `gcs-emulator` and `dynamodb-emulator`",
        ],
    );
    refused(
        "parts: {storage: {kind: consul, parts: {}}}",
        PUTS,
        &["unknown field `parts` in part `storage`"],
    );
    refused(
        "parts: {storage: {kind: postgresql, nodes: 9}}",
        PUTS,
        &["asks for 9 nodes", "at most 5 nodes"],
    );
}

#[test]
fn a_part_is_no_contender() {
    let study = "title: t\nsystems: {lb: {kind: haproxy}}\nworkloads: {w: {mix: {put: 1}, keys: {count: 9}}}\n\
                 loads: {l: {clients: 1, stop: {after: 1s}}}\n";
    let diagnostics = parse("my", "my.yaml", study, &kinds()).expect_err("a part").to_string();
    assert!(
        diagnostics.contains("of kind `haproxy`, which is only a part of others"),
        "{diagnostics}"
    );
}

#[test]
fn a_system_on_an_emulator_says_so_in_its_name() {
    refused(
        "parts: {storage: {kind: gcs-emulator}}",
        PUTS,
        &["only emulates Google Cloud Storage", "call the system `safe-emulated`"],
    );
    let text = "title: t\nsystems: {gcs-emulated: {kind: vault, parts: {storage: {kind: gcs-emulator}}}}\n\
                workloads: {w: {mix: {put: 1}, keys: {count: 9}}}\n\
                loads: {l: {clients: 1, stop: {after: 1s}}}\n";
    assert!(parse("my", "my.yaml", text, &kinds()).is_ok());
}

#[test]
fn kinds_own_rules_are_checked_when_a_study_is_read() {
    refused("options: {storage: consul}", PUTS, &["it has no storage to stand on", "add `parts:"]);
    assert!(vault("options: {storage: consul}, parts: {storage: {kind: consul}}", PUTS).is_ok());
}

#[test]
fn a_system_that_runs_has_its_parts_already() {
    refused(
        "endpoints: [\"a:1\"], parts: {balancer: {kind: haproxy}}",
        PUTS,
        &["has both `endpoints` and `parts`"],
    );
}

#[test]
fn operations_are_done_with_what_the_kind_knows() {
    let issue = |with: &str| format!("mix: {{issue-certificate: 1}}, with: {{{with}}}");
    let study = vault("nodes: 3", &issue("key-type: rsa-2048")).expect("a study");
    let workload = &study.workloads[0];
    assert_eq!((workload.with["key-type"].as_str(), workload.keys.count), ("rsa-2048", 1));
    assert!(!workload.fill && !workload.writes() && !workload.reads_any());
    refused(
        "nodes: 3",
        &issue("key-typ: rsa-2048"),
        &["system `safe` knows no `key-typ` to work with", "did you mean `key-type`?"],
    );
    refused("nodes: 3", &issue("key-type: dsa"), &["`key-type`", "rsa-2048"]);
}

#[test]
fn keys_may_be_left_out_where_nothing_is_stored_under_them() {
    refused("nodes: 3", "mix: {put: 1, sign: 1}", &["workload `work` has no `keys`"]);
    assert!(vault("nodes: 3", "mix: {sign: 1}").is_ok());
}
