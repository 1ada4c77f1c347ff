//! Kinds of systems for the tests of reading, which need no real ones.

use super::{Kind, KindOption, Operation, OptionForm, ReadConsistency, Role, Stands};

const fn option(name: &'static str, form: OptionForm) -> KindOption {
    KindOption { name, form, meaning: "" }
}

const fn behind(name: &'static str, kinds: &'static [&'static str]) -> Role {
    Role { name, kinds, stands: Stands::Behind, meaning: "" }
}

/// etcd, ZooKeeper, Consul and the canary, much as the binary knows them.
pub(crate) fn kinds() -> Vec<Kind> {
    use OptionForm::{Duration, Number, Share, Size, Text, Word};
    let sync = Word(&["each", "none"]);
    let leak = |options: Vec<KindOption>| -> &'static [KindOption] { options.leak() };
    let kind = |name, reads, options, value_size_max, in_flight_max| Kind {
        operations: Operation::KEY_VALUE,
        parameters: leak(vec![option("kv", Word(&["v1", "v2"]))]),
        reads,
        options: leak(options),
        nodes_max: if name == "canary" { 1 } else { 9 },
        value_size_max,
        in_flight_max,
        connection_each: name != "zookeeper",
        ..Kind::new(name)
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
    let storage = Word(&["raft", "consul", "postgresql", "gcs", "file"]);
    let mut vault = kind(
        "vault",
        ReadConsistency::ALL,
        vec![
            option("storage", storage),
            option("standby-reads", Word(&["on", "off"])),
            option("max-idle-connections", Number),
        ],
        1 << 20,
        100,
    );
    vault.operations = Operation::SECRETS;
    vault.parameters = leak(vec![
        option("kv", Word(&["v1", "v2"])),
        option("certificate-key", Word(&["rsa-2048"])),
        option("issuer", Word(&["intermediate"])),
        option("lease", Word(&["yes", "no"])),
        option("key-type", Word(&["rsa-2048", "ec-p256", "ed25519"])),
        option("stored", Word(&["yes", "no"])),
    ]);
    vault.roles = &[
        Role {
            name: "storage",
            kinds: &["consul", "postgresql", "gcs-emulator"],
            stands: Stands::Behind,
            meaning: "",
        },
        Role { name: "balancer", kinds: &["haproxy"], stands: Stands::InFront, meaning: "" },
    ];
    vault.sound = |system| match system.options.get("storage").map(String::as_str) {
        Some("consul") if !system.parts.contains_key("storage") => Err((
            "it has no storage to stand on".to_owned(),
            "add `parts: {storage: {kind: consul, nodes: 3}}`".to_owned(),
        )),
        _ => Ok(()),
    };
    vec![
        kind(
            "etcd",
            ReadConsistency::ALL,
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
            no_default,
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
        Kind { name: "openbao", ..vault.clone() },
        vault,
        Kind {
            nodes_max: 3,
            options: leak(vec![option("synchronous", Word(&["on", "off"]))]),
            ..Kind::new("postgresql")
        },
        Kind {
            options: leak(vec![option("latency", Duration)]),
            emulates: Some("Google Cloud Storage"),
            ..Kind::new("gcs-emulator")
        },
        Kind {
            options: leak(vec![option("to", Word(&["all", "leader"]))]),
            ..Kind::new("haproxy")
        },
        Kind {
            operations: &[Operation::Request, Operation::Denied],
            options: leak(vec![
                option("connector", Word(&["pooled", "own"])),
                option("connector.path", Text),
                option("connector.module", Text),
            ]),
            roles: const { &[behind("backend", &["process"])] },
            ..Kind::new("gate")
        },
        Kind { operations: &[Operation::Request], ..Kind::new("nginx") },
        Kind {
            operations: &[Operation::CheckAccess],
            reads: &[ReadConsistency::Default],
            nodes_max: 3,
            ..Kind::new("tarantool")
        },
        Kind {
            operations: &[Operation::Request, Operation::Denied],
            options: leak(vec![
                option("connector", Word(&["pooled", "per-request", "greets-again", "none"])),
                option("workers", Number),
            ]),
            roles: &[
                Role { name: "rights", kinds: &["tarantool"], stands: Stands::Behind, meaning: "" },
                Role { name: "protected", kinds: &["nginx"], stands: Stands::Behind, meaning: "" },
            ],
            ..Kind::new("access-gateway")
        },
        Kind {
            operations: &[Operation::Request],
            roles: const {
                &[
                    behind("application", &["application"]),
                    behind("control-plane", &["consul", "istio"]),
                    behind("sidecar", &["envoy"]),
                ]
            },
            ..Kind::new("ingress-gateway")
        },
        Kind { operations: &[Operation::Request], ..Kind::new("application") },
        Kind::new("istio"),
        Kind::new("envoy"),
        Kind {
            operations: &[Operation::Request, Operation::Denied],
            is_process: true,
            nodes_max: 3,
            ..Kind::new("process")
        },
    ]
}
