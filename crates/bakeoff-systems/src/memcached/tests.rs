//! Checks that unsupported studies are refused, and that a real server evicts.

use bakeoff_core::check::Verdict;
use bakeoff_core::study::parse;
use bakeoff_core::workload::KeySpace;

use super::*;
use crate::running_system::start;
use crate::testing::{program, study_system};
use crate::{cleanup, kinds, replay};

fn refusal(system: &str, workload: &str) -> String {
    let text = format!(
        "title: t\nsystems:\n  cache: {system}\nworkloads:\n  w: {workload}\nloads:\n  l: {{clients: 1, stop: \
         {{operations: 9}}}}\n"
    );
    parse("t", "my.yaml", &text, &kinds()).unwrap_err().to_string()
}

#[test]
fn study_that_asks_for_a_list_is_refused_with_its_place() {
    let workload = "{mix: {put: 1, list: 1}, keys: {count: 9}, reads: default}";
    assert_eq!(
        refusal("{kind: memcached}", workload).trim(),
        "error: system `cache` cannot `list`
 --> my.yaml:5:21
  |
5 |   w: {mix: {put: 1, list: 1}, keys: {count: 9}, reads: default}
  |                     ^^^^
hint: kind `memcached` can `put`, `get`, `delete`, `read-modify-write` and `compare-and-set`"
    );
}

#[test]
fn study_whose_keys_are_too_long_is_refused_with_their_place() {
    let workload = "{mix: {put: 1}, keys: {count: 9, size: 251}}";
    let refused = refusal("{kind: memcached}", workload);
    assert!(refused.contains("keys of 251 bytes are too long for system `cache`"), "{refused}");
    assert!(refused.contains("my.yaml:5:45") && refused.contains("at most 250 bytes"), "{refused}");
}

#[test]
fn invalid_options_are_refused() {
    let workload = "{mix: {put: 1}, keys: {count: 9}}";
    for (system, expected) in [
        ("{kind: memcached, options: {memory: 1KiB}}", "`memory` is less than 1 MiB"),
        ("{kind: memcached, options: {threads: 0}}", "it needs at least one thread"),
        (
            "{kind: memcached, endpoints: [127.0.0.1:11211], options: {threads: 2}}",
            "bakeoff cannot configure a server that it did not start",
        ),
    ] {
        let refused = refusal(system, workload);
        assert!(refused.contains(expected), "{refused}");
    }
}

/// Fills 8 MiB with values of 500 kB, over the sessions of a load.
#[test]
fn evictions_are_counted_and_named() {
    let Some(program) = program(SYSTEM, &[]) else { return };
    let running =
        start(SYSTEM, &study_system("memcached", 1, &[("memory", "8MiB")]), Some(program));
    let node = running.ready.nodes[0].clone();
    evicted(std::slice::from_ref(&node)).unwrap();
    assert_eq!(connection_limit(&node).map(|limit| limit.connections), Some(1024));
    let value = vec![b'x'; 500_000];
    let keys: Vec<String> = (0..40).map(|number| format!("bakeoff/{number}")).collect();
    let puts: Vec<_> =
        keys.iter().map(|key| replay::request(Operation::Put, key.as_bytes(), &value)).collect();
    let (answers, _) = replay::ask_server(MemcachedSession::default(), &puts, &node);
    assert!(answers.iter().all(|answer| answer.ends_with(" done")), "{answers:?}");
    let why = evicted(std::slice::from_ref(&node)).unwrap_err().to_string();
    assert!(why.starts_with("`memcached-1` evicted ") && why.contains("keys to stay"), "{why}");
    running.stopped();
}

#[test]
fn only_keys_of_the_workload_are_removed() {
    let Some(program) = program(SYSTEM, &[]) else { return };
    let running = start(SYSTEM, &study_system("memcached", 1, &[]), Some(program));
    let node = running.ready.nodes[0].clone();
    let text = "title: t\nsystems: {cache: {kind: memcached}}\nworkloads:\n  w: {mix: {put: 1}, keys: {count: 300}}\n\
                loads: {l: {clients: 1, stop: {operations: 9}}}\n";
    let study = parse("t", "t.yaml", text, &kinds()).unwrap();
    let workload = &study.workloads[0];
    let mut names = vec![b"mine".to_vec()];
    let space = KeySpace::new(&workload.keys);
    names.extend((0..workload.keys.count).map(|number| {
        let mut name = Vec::new();
        space.write_key(number, &mut name);
        name
    }));
    let puts: Vec<_> =
        names.iter().map(|name| replay::request(Operation::Put, name, b"value")).collect();
    replay::ask_server(MemcachedSession::default(), &puts, &node);
    let items = || statistic(&node, "", "curr_items").unwrap();
    assert_eq!(items(), 301);
    cleanup::clear(SYSTEM, &node, [workload]).unwrap();
    assert_eq!(items(), 1, "the key that is not bakeoff's");
    let unchecked = cleanup::unchecked(SYSTEM).expect("memcached cannot list");
    assert_eq!(unchecked.when, "keys of earlier runs");
    assert!(matches!(unchecked.verdict, Verdict::NotChecked(_)), "{unchecked:?}");
    running.stopped();
}
