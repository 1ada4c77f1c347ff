//! Kinds of systems for the tests of reading, which need no real ones.

use super::{Kind, KindOption, Operation, OptionForm, ReadConsistency};

const fn option(name: &'static str, form: OptionForm) -> KindOption {
    KindOption { name, form, meaning: "" }
}

/// etcd, ZooKeeper, Consul and the canary, much as the binary knows them.
pub(crate) fn kinds() -> Vec<Kind> {
    use OptionForm::{Duration, Number, Share, Size, Word};
    let sync = Word(&["each", "none"]);
    let leak = |options: Vec<KindOption>| -> &'static [KindOption] { options.leak() };
    let kind = |name, reads, options, value_size_max, in_flight_max| Kind {
        name,
        operations: Operation::ALL,
        reads,
        options: leak(options),
        nodes_max: if name == "canary" { 1 } else { 9 },
        value_size_max,
        in_flight_max,
    };
    let no_default = &[ReadConsistency::Linearizable, ReadConsistency::Stale];
    let mut zookeeper = kind(
        "zookeeper",
        ReadConsistency::ALL,
        vec![option("heap", Size), option("tick-time", Duration), option("sync", sync.clone())],
        1_000_000,
        1000,
    );
    zookeeper.operations = &[Operation::Put, Operation::Get, Operation::Delete];
    vec![
        kind(
            "etcd",
            no_default,
            vec![
                option("snapshot-count", Number),
                option("heartbeat-interval", Duration),
                option("election-timeout", Duration),
                option("quota", Size),
            ],
            1_500_000,
            100,
        ),
        zookeeper,
        kind("consul", ReadConsistency::ALL, vec![option("raft-multiplier", Number)], 512 << 10, 1),
        kind(
            "canary",
            ReadConsistency::ALL,
            vec![
                option("sync", sync),
                option("lose", Share),
                option("corrupt", Share),
                option("stale", Share),
                option("refuse", Share),
                option("error", Share),
                option("delay", Duration),
                option("stall", Duration),
                option("slow-start", Duration),
            ],
            1 << 20,
            1,
        ),
    ]
}
