//! Declares every field of a study: one table for each mapping.
//!
//! The parser rejects fields that are not in the tables, and takes bounds and defaults from them. The JSON Schema is
//! generated from them, too, so the two cannot differ.
//!
//! Not here: the fields of a fault (`fault`), the forms of fields (`field`), the combined meaning of fields (`parse`).

mod keyed;
mod load;
mod quick;
mod service;
mod watchers;

use watchers::WATCHERS;

pub(super) use keyed::{KEYS, ORDER, ORDERS, SIZES, VALUE_SIZE, VALUE_SIZE_MAX, VALUES};
pub(super) use load::{LOAD, TARGETS};
pub(super) use quick::{QUICK, QUICK_LOAD};
pub(super) use service::{EXPECT, PROCESS, REQUEST};

use super::fault::FAULT;
use super::field::{Form, Table, always, default, maybe};
use super::{BitFlipOf, Clusters, Kill, Metric, Operation, PowerCutOf, ReadConsistency};

/// Maximum operations of a load, keys of a workload, and similar counts.
const COUNT_MAX: u64 = 1_000_000_000_000;
const COUNT: Form = Form::Whole { min: 1, max: COUNT_MAX };
/// Maximum number of trials of each combination.
pub(super) const TRIALS_EACH_MAX: u64 = 1000;
/// Maximum number of injections of each fault in a trial.
pub(super) const REPEAT_MAX: u64 = 100;
/// Number of clients of a stage.
pub(super) const CLIENTS: Form = Form::Whole { min: 1, max: 100_000 };
/// Weight of an operation in a mix.
pub(super) const WEIGHT: Form = Form::Whole { min: 0, max: 1_000_000 };
/// Value of a published figure.
pub(super) const FIGURE: Form = Form::Number { min: 0.0, from_min: true, max: 1e18 };

pub(super) static STUDY: Table = Table {
    name: "study",
    meaning: "A bakeoff study: the compared systems, the work of their clients, and the load.",
    one_of: &[],
    fields: &[
        always(
            "title",
            Form::Text,
            "etcd and ZooKeeper under write load",
            "What the study compares, in one line.",
        ),
        maybe(
            "description",
            Form::Text,
            "What a reader should know.",
            "What a reader should know about the study, in a paragraph.",
        ),
        always(
            "systems",
            Form::Named(&Form::Table(&SYSTEM)),
            "{etcd: {kind: etcd, nodes: 3}}",
            "The compared systems, by names of your choice.",
        ),
        always(
            "workloads",
            Form::Named(&Form::Table(&WORKLOAD)),
            "{write: {mix: {put: 1}, keys: {count: 10000}}}",
            "What the clients do, by names of your choice.",
        ),
        always(
            "loads",
            Form::Named(&Form::Table(&LOAD)),
            "{steady: {clients: 16, stop: {after: 30s}}}",
            "How hard the clients work, by names of your choice.",
        ),
        maybe(
            "question",
            Form::Text,
            "write/steady",
            "The workload that carries the study's question, or `WORKLOAD/LOAD`. Reports begin with its answer. By \
             default, the first workload under its first load.",
        ),
        maybe(
            "quick",
            Form::Table(&QUICK),
            "{loads: {steady: {stop: {after: 8s}}}, trials: 3}",
            "Quick form of the study, for `bakeoff run --quick`: the workloads that carry the question, under short \
             loads.",
        ),
        maybe(
            "faults",
            Form::Named(&Form::Table(&FAULT)),
            "{leader-paused: {pause: leader, at: 20s, for: 10s}}",
            "Faults, by names of your choice. In each trial, the load runs once undisturbed and once for each \
             injection of a fault.",
        ),
        default(
            "repeat",
            Form::Whole { min: 1, max: REPEAT_MAX },
            "1",
            "Number of injections of each fault in a trial.",
        ),
        default(
            "trials",
            Form::Whole { min: 1, max: TRIALS_EACH_MAX },
            "7",
            "Number of trials of each combination of system, workload and load. If trials scatter by 3 %, 7 of \
             them show differences of 10 % among three systems. Two systems need 5.",
        ),
        default(
            "audit-keys",
            COUNT,
            "10000",
            "Maximum number of acknowledged keys that an audit reads back. If there are more, one half are the most \
             recent keys, and the other half are an even sample.",
        ),
        maybe(
            "audit",
            Form::Table(&AUDIT),
            "{kill: under-load}",
            "How bakeoff audits acknowledged writes.",
        ),
        default(
            "sample-every",
            Form::Duration { zero: false, max: "1h" },
            "1s",
            "Interval between samples of what nodes use, such as CPU, memory and disk; at least 100ms.",
        ),
        default(
            "clusters",
            Form::Word(Clusters::NAMES),
            "fresh",
            "Servers of each trial: `fresh` ones without data, or those `kept` from the system's first \
             trial, without the data that earlier trials wrote.",
        ),
        maybe(
            "publication",
            Form::Table(&PUBLICATION),
            "{title: dbtester 2017Q1, hardware: 16 vCPUs}",
            "Source of the published figures.",
        ),
        maybe(
            "published",
            Form::List(&Form::Table(&PUBLISHED)),
            "[{system: etcd, workload: write, metric: throughput-mean, value: 2921}]",
            "Figures from the literature, shown next to the measured ones.",
        ),
    ],
};

pub(super) static SYSTEM: Table = Table {
    name: "system",
    meaning: "A compared system: bakeoff starts it, or it already runs at `endpoints`.",
    one_of: &[],
    fields: &[
        always("kind", Form::Text, "etcd", "Kind of system; `bakeoff systems` lists the kinds."),
        maybe(
            "version",
            Form::AsWritten,
            "\"3.6\"",
            "Version to run. A prefix such as `3.6` selects the newest known match.",
        ),
        maybe(
            "program",
            Form::Text,
            "/opt/etcd/bin/etcd",
            "Path of your own program, in place of the installed one.",
        ),
        default("nodes", Form::Whole { min: 1, max: 99 }, "1", "Number of nodes."),
        maybe(
            "options",
            Form::Open(&Form::AsWritten),
            "{heap: 1GiB}",
            "Settings of this kind of system; `bakeoff systems` lists them.",
        ),
        maybe(
            "limits",
            Form::Table(&LIMITS),
            "{cpu: 0.5, memory: 1GiB}",
            "Resource limits of each node.",
        ),
        maybe(
            "endpoints",
            Form::List(&Form::Text),
            "[\"https://10.0.0.5:2379\"]",
            "Addresses of a system that already runs. bakeoff then starts and stops no servers.",
        ),
        maybe(
            "metrics",
            Form::List(&Form::Text),
            "[\"http://10.0.0.5:2379/metrics\"]",
            "Addresses of CPU and memory metrics in Prometheus' text format, for a system with `endpoints`: of the \
             servers themselves, or of node exporters next to them. bakeoff reads each once a second.",
        ),
        maybe(
            "tls",
            Form::Table(&TLS),
            "{ca: ca.pem}",
            "How clients verify `https://` endpoints, or a `process` with TLS.",
        ),
        maybe(
            "credentials",
            Form::Table(&CREDENTIALS),
            "{user: root, password: $ETCD_PASSWORD}",
            "Credentials of clients at a system with `endpoints`.",
        ),
        maybe(
            "process",
            Form::Table(&PROCESS),
            "{command: [./gateway, --listen, \"{address}:{port}\"]}",
            "Command of a system of kind `process`.",
        ),
        maybe(
            "parts",
            Form::Open(&Form::Table(&PART)),
            "{storage: {kind: consul, nodes: 3}}",
            "Components besides the system's own nodes, by role; `bakeoff systems` lists the roles of each kind.",
        ),
    ],
};

pub(super) static PART: Table = Table {
    name: "part",
    meaning: "A component of a composite system: started with the system, and measured as part of it.",
    one_of: &[],
    fields: &[
        always("kind", Form::Text, "consul", "Kind of component; the role limits the choice."),
        maybe("version", Form::AsWritten, "\"1.20\"", "Version to run, as for a system."),
        maybe("program", Form::Text, "/opt/consul/bin/consul", "Path of your own program."),
        default("nodes", Form::Whole { min: 1, max: 99 }, "1", "Number of nodes."),
        maybe("options", Form::Open(&Form::AsWritten), "{latency: 20ms}", "Settings of its kind."),
        maybe("limits", Form::Table(&LIMITS), "{cpu: 0.5}", "Resource limits of each node."),
        maybe(
            "process",
            Form::Table(&PROCESS),
            "{command: [./backend, \"{port}\"]}",
            "Command of a component of kind `process`.",
        ),
    ],
};

pub(super) static LIMITS: Table = Table {
    name: "limits",
    meaning: "Resource limits of each node.",
    one_of: &[],
    fields: &[
        maybe(
            "cpu",
            Form::Number { min: 0.0, from_min: false, max: 1024.0 },
            "0.5",
            "CPU limit in cores: 0.5 is half a core.",
        ),
        maybe(
            "memory",
            Form::Size { min: 1 << 20, max: 1 << 50 },
            "1GiB",
            "Memory limit, in bytes or with a unit.",
        ),
        maybe(
            "cpus",
            Form::OneOrMany(&Form::Whole { min: 0, max: 4095 }),
            "0",
            "Numbers of the CPUs that the node may run on. The load generator uses other CPUs if it can.",
        ),
    ],
};

pub(super) static TLS: Table = Table {
    name: "tls",
    meaning: "Certificates that clients trust and present.",
    one_of: &[],
    fields: &[
        maybe("ca", Form::Text, "ca.pem", "PEM file of the authorities to trust."),
        maybe("cert", Form::Text, "client.pem", "PEM file of the client's certificate chain."),
        maybe("key", Form::Text, "client.key", "PEM file of the client's private key."),
        default("insecure", Form::Flag, "false", "Accept any certificate. The report mentions it."),
    ],
};

pub(super) static CREDENTIALS: Table = Table {
    name: "credentials",
    meaning: "Credentials of clients at a system that already runs. \
              Secrets are in variables or files, never in the study.",
    one_of: &[&["user", "password"], &["user", "password-file"], &["token"], &["token-file"]],
    fields: &[
        maybe("user", Form::Text, "root", "User name."),
        maybe(
            "password",
            Form::AsWritten,
            "$ETCD_PASSWORD",
            "Variable of bakeoff's environment that holds the password.",
        ),
        maybe("password-file", Form::Text, "/run/secrets/etcd", "File that holds the password."),
        maybe(
            "token",
            Form::AsWritten,
            "$CONSUL_HTTP_TOKEN",
            "Variable of bakeoff's environment that holds the token.",
        ),
        maybe("token-file", Form::Text, "/run/secrets/consul", "File that holds the token."),
    ],
};

pub(super) static WORKLOAD: Table = Table {
    name: "workload",
    meaning: "What the clients do.",
    one_of: &[],
    fields: &[
        always(
            "mix",
            Form::Keyed(Operation::NAMES, &Form::Either(&[WEIGHT, Form::Percent])),
            "{get: 90, put: 10}",
            "Operations and their weights, which need not add up to 100; `10%` is 10.",
        ),
        maybe(
            "request",
            Form::Table(&REQUEST),
            "{path: /, expect: {status: 200, body-size: 43}}",
            "The HTTP request of the operation `request`, and the expected response.",
        ),
        maybe(
            "keys",
            Form::Table(&KEYS),
            "{count: 10000}",
            "Keys that the clients use; required for operations of a key-value store. For other operations, \
             `count` is the number of users, roles or texts, 1 by default.",
        ),
        maybe("values", Form::Table(&VALUES), "{size: 1KiB}", "Values that the clients write."),
        maybe(
            "with",
            Form::Open(&Form::AsWritten),
            "{key-type: rsa-2048}",
            "Parameters of operations beyond keys and values; `bakeoff systems` lists those of each kind.",
        ),
        default(
            "reads",
            Form::Word(ReadConsistency::NAMES),
            "linearizable",
            "Required consistency of a `get` or `list`. `freshest` is linearizable where a system offers that, and \
             otherwise its freshest read.",
        ),
        maybe(
            "fill",
            Form::Flag,
            "true",
            "Whether bakeoff writes all keys before the load begins, without measuring. By default, it does if the \
             mix has `get`, `list` or `delete`.",
        ),
        maybe(
            "watchers",
            Form::Table(&WATCHERS),
            "{count: 100, of: prefix}",
            "Watchers of the keys, created before the warm-up and kept until the load has ended.",
        ),
        maybe(
            "loads",
            Form::List(&Form::Text),
            "[steady]",
            "Names of the loads for this workload; all by default.",
        ),
        maybe(
            "systems",
            Form::List(&Form::Text),
            "[etcd]",
            "Names of the systems for this workload; all by default.",
        ),
    ],
};

pub(super) static AUDIT: Table = Table {
    name: "audit",
    meaning: "How bakeoff audits acknowledged writes.",
    one_of: &[],
    fields: &[
        maybe(
            "kill",
            Form::Word(Kill::NAMES),
            "under-load",
            "When bakeoff kills all nodes: `under-load` during further, unmeasured writes, or `at-rest` after \
             it has read the keys back. By default, it kills key-value stores under load and all other \
             systems at rest.",
        ),
        default(
            "linearizability",
            Form::Flag,
            "false",
            "Whether bakeoff records each operation on a single key, and judges whether some order explains \
             every answer.",
        ),
        default(
            "history",
            Form::Flag,
            "false",
            "Whether bakeoff keeps each recorded history in the run's folder; by default, only one with a \
             violation. Needs `linearizability: true`.",
        ),
        maybe(
            "power-cut",
            Form::Word(PowerCutOf::NAMES),
            "all",
            "Nodes whose power bakeoff cuts, in a fresh cluster after the other audits: `all` at once, or \
             `one` while others are paused. Their file systems drop what was not synced. By default, none.",
        ),
        default("cuts", Form::Whole { min: 1, max: 1000 }, "3", "Number of power cuts in a trial."),
        maybe(
            "bit-flip",
            Form::Word(BitFlipOf::NAMES),
            "one",
            "Nodes in whose data bakeoff flips a bit, while all are stopped after the other audits. By \
             default, none.",
        ),
    ],
};

pub(super) static PUBLICATION: Table = Table {
    name: "publication",
    meaning: "Source of published figures.",
    one_of: &[],
    fields: &[
        always("title", Form::Text, "dbtester 2017Q1", "Title and date."),
        always(
            "hardware",
            Form::Text,
            "3 servers of 16 vCPUs and 30 GB",
            "Hardware of the published tests.",
        ),
        maybe(
            "versions",
            Form::Text,
            "etcd 3.1, ZooKeeper 3.4.9",
            "Versions of the compared systems.",
        ),
    ],
};

pub(super) static PUBLISHED: Table = Table {
    name: "published",
    meaning: "Figures from the literature: one `metric` and its `value`, or several as `figures`.",
    one_of: &[&["metric", "value"], &["figures"]],
    fields: &[
        always("system", Form::Text, "etcd", "Name of one of the study's systems."),
        always("workload", Form::Text, "write", "Name of one of the study's workloads."),
        maybe(
            "load",
            Form::Text,
            "steady",
            "Name of one of the study's loads; optional if the workload has only one.",
        ),
        maybe(
            "operation",
            Form::Word(Operation::NAMES),
            "get",
            "Operation of the mix; all operations together by default.",
        ),
        maybe(
            "fault",
            Form::Text,
            "leader-killed",
            "Name of one of the study's faults; for `outage-min-s` and `outage-max-s`.",
        ),
        maybe("metric", Form::Word(Metric::NAMES), "throughput-mean", "Metric of the figure."),
        maybe("value", FIGURE, "2921", "Value in the unit at the end of the metric's name."),
        maybe(
            "figures",
            Form::Keyed(Metric::NAMES, &FIGURE),
            "{throughput-mean: 2921}",
            "Several metrics and their values.",
        ),
        maybe("note", Form::Text, "median of three", "Further information from the publication."),
    ],
};
