//! Tests parts of systems, and the parameters of operations.

use super::*;

/// Parses a study of one Vault, with this in its mapping.
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
fn part_must_play_a_role_of_the_kind() {
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
fn part_cannot_be_compared_by_itself() {
    let study = "title: t\nsystems: {lb: {kind: haproxy}}\nworkloads: {w: {mix: {put: 1}, keys: {count: 9}}}\n\
                 loads: {l: {clients: 1, stop: {after: 1s}}}\n";
    let diagnostics = parse("my", "my.yaml", study, &kinds()).expect_err("a part").to_string();
    assert!(
        diagnostics.contains("of kind `haproxy`, which is only a part of others"),
        "{diagnostics}"
    );
}

#[test]
fn system_on_an_emulator_must_say_so_in_its_name() {
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
fn rules_of_a_kind_are_checked_during_parsing() {
    refused("options: {storage: consul}", PUTS, &["it has no storage to stand on", "add `parts:"]);
    assert!(vault("options: {storage: consul}, parts: {storage: {kind: consul}}", PUTS).is_ok());
}

#[test]
fn running_system_cannot_declare_parts() {
    refused(
        "endpoints: [\"a:1\"], parts: {balancer: {kind: haproxy}}",
        PUTS,
        &["has both `endpoints` and `parts`"],
    );
}

#[test]
fn operation_parameters_must_be_known_to_the_kind() {
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
fn keys_may_be_omitted_if_nothing_is_stored() {
    refused("nodes: 3", "mix: {put: 1, sign: 1}", &["workload `work` has no `keys`"]);
    assert!(vault("nodes: 3", "mix: {sign: 1}").is_ok());
}
