//! Declares every field of a study: one table for each mapping.
//!
//! The parser rejects fields that are not in the tables, and takes bounds and defaults from them. The JSON Schema is
//! generated from them, too, so the two cannot differ.
//!
//! Not here: the combined meaning of fields (`parse`), the form of the schema (`schema`).

mod keyed;
mod load;
mod service;

pub(super) use keyed::{KEYS, ORDER, ORDERS, SIZES, VALUE_SIZE, VALUE_SIZE_MAX, VALUES};
#[cfg(test)]
use load::{FIND, STOP};
pub(super) use load::{LOAD, TARGETS};
pub(super) use service::{EXPECT, PROCESS, REQUEST};

use super::{Clusters, Kill, Metric, Operation, ReadConsistency};

/// Declares the fields of one kind of mapping.
pub(super) struct Table {
    /// Name in the schema.
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    /// Sets of fields; a study gives exactly one field of each set.
    pub(super) one_of: &'static [&'static [&'static str]],
    pub(super) fields: &'static [Field],
}

/// Declares one field.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    pub(super) form: Form,
    pub(super) given: Given,
    /// Example value as in a study.
    pub(super) example: &'static str,
}

/// Declares whether a field is required.
pub(super) enum Given {
    /// Required.
    Always,
    /// Optional, with this default.
    Default(&'static str),
    /// Optional; `meaning` explains the effect of omission.
    Maybe,
}

/// Declares the form of a field's value.
pub(super) enum Form {
    /// Text that is not empty.
    Text,
    /// Text, number or flag, taken as written.
    AsWritten,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Whole number within inclusive bounds.
    Whole { min: u64, max: u64 },
    /// Decimal number within bounds; `min` itself is allowed only if `from_min`.
    Number { min: f64, from_min: bool, max: f64 },
    /// Size in bytes within inclusive bounds.
    Size { min: u64, max: u64 },
    /// Duration of at most `max`; zero only if `zero`.
    Duration { zero: bool, max: &'static str },
    /// Operations per unit of time, more than zero.
    Rate,
    /// HTTP statuses: `200`, `2xx`, `200-299,404`.
    Status,
    /// Share: `10%` or `0.1`.
    Share,
    /// Whole percentage: `10%`.
    Percent,
    /// One value or a list of them.
    OneOrMany(&'static Form),
    /// List of values.
    List(&'static Form),
    /// Mapping with known fields.
    Table(&'static Table),
    /// Section: a mapping from user-chosen names, not empty.
    Named(&'static Form),
    /// Mapping from names that something else defines, such as the kind of system.
    Open(&'static Form),
    /// Mapping from some of these words.
    Keyed(&'static [&'static str], &'static Form),
    /// One of several forms.
    Either(&'static [Form]),
}

/// User-chosen name: lower-case letters, digits and hyphens, because it becomes part of file names.
pub(super) const NAME_PATTERN: &str = "^[a-z0-9][a-z0-9-]{0,39}$";
/// Maximum number of systems, workloads or loads in a study.
pub(super) const NAMES_MAX: usize = 64;
/// Maximum number of stages in a sweep.
pub(super) const STAGES_MAX: usize = 100;

/// Declares a required field.
const fn always(
    name: &'static str,
    form: Form,
    example: &'static str,
    meaning: &'static str,
) -> Field {
    Field { name, meaning, form, given: Given::Always, example }
}

/// Declares an optional field.
const fn maybe(
    name: &'static str,
    form: Form,
    example: &'static str,
    meaning: &'static str,
) -> Field {
    Field { name, meaning, form, given: Given::Maybe, example }
}

/// Declares an optional field with a default.
const fn default(
    name: &'static str,
    form: Form,
    default: &'static str,
    meaning: &'static str,
) -> Field {
    Field { name, meaning, form, given: Given::Default(default), example: default }
}

/// Maximum operations of a load, keys of a workload, and similar counts.
const COUNT_MAX: u64 = 1_000_000_000_000;
const COUNT: Form = Form::Whole { min: 1, max: COUNT_MAX };
/// Number of clients of a stage.
pub(super) const CLIENTS: Form = Form::Whole { min: 1, max: 100_000 };
/// Weight of an operation in a mix.
pub(super) const WEIGHT: Form = Form::Whole { min: 0, max: 1_000_000 };
/// Value of a published figure.
pub(super) const FIGURE: Form = Form::Number { min: 0.0, from_min: true, max: 1e18 };

pub(super) static STUDY: Table = Table {
    name: "study",
    meaning: "A bakeoff study: which systems are compared, what their clients do, and how hard.",
    one_of: &[],
    fields: &[
        always(
            "title",
            Form::Text,
            "etcd and ZooKeeper under write load",
            "What it compares, in a line.",
        ),
        maybe(
            "description",
            Form::Text,
            "What a reader should know.",
            "What a reader should know of it, in a paragraph.",
        ),
        always(
            "systems",
            Form::Named(&Form::Table(&SYSTEM)),
            "{etcd: {kind: etcd, nodes: 3}}",
            "The contenders, by names of your choice.",
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
            "How hard they do it, by names of your choice.",
        ),
        default(
            "trials",
            Form::Whole { min: 1, max: 1000 },
            "7",
            "How often each combination of system, workload and load is run: with 7, differences of \
             10 % among three systems are seen where trials scatter by 3 %; two systems need 5.",
        ),
        default(
            "audit-keys",
            COUNT,
            "10000",
            "How many acknowledged keys an audit reads back: all of them up to here, else the most recent ones \
             for one half and an even sample for the other.",
        ),
        maybe(
            "audit",
            Form::Table(&AUDIT),
            "{kill: under-load}",
            "How acknowledged writes are audited.",
        ),
        default(
            "sample-every",
            Form::Duration { zero: false, max: "1h" },
            "1s",
            "Time between two looks at what nodes use: CPU, memory, disk and the like; at least 100ms.",
        ),
        default(
            "clusters",
            Form::Word(Clusters::NAMES),
            "fresh",
            "What each trial begins on: `fresh` servers without data, or those `kept` from the \
             system's first trial, cleared of what earlier trials wrote.",
        ),
        maybe(
            "publication",
            Form::Table(&PUBLICATION),
            "{title: dbtester 2017Q1, hardware: 16 vCPUs}",
            "Where the published figures come from.",
        ),
        maybe(
            "published",
            Form::List(&Form::Table(&PUBLISHED)),
            "[{system: etcd, workload: write, metric: throughput-mean, value: 2921}]",
            "Figures from the literature, shown beside ours.",
        ),
    ],
};

pub(super) static SYSTEM: Table = Table {
    name: "system",
    meaning: "A contender: started by bakeoff, or already running at `endpoints`.",
    one_of: &[],
    fields: &[
        always("kind", Form::Text, "etcd", "What it is; `bakeoff systems` lists the kinds."),
        maybe(
            "version",
            Form::AsWritten,
            "\"3.6\"",
            "The version to run; a prefix such as `3.6` takes the newest known match.",
        ),
        maybe(
            "program",
            Form::Text,
            "/opt/etcd/bin/etcd",
            "Path of a program of your own, in place of an installed one.",
        ),
        default("nodes", Form::Whole { min: 1, max: 99 }, "1", "How many nodes are started."),
        maybe(
            "options",
            Form::Open(&Form::AsWritten),
            "{heap: 1GiB}",
            "Settings that this kind of system knows; `bakeoff systems` lists them.",
        ),
        maybe(
            "limits",
            Form::Table(&LIMITS),
            "{cpu: 0.5, memory: 1GiB}",
            "What each node may use.",
        ),
        maybe(
            "endpoints",
            Form::List(&Form::Text),
            "[\"https://10.0.0.5:2379\"]",
            "Where it already runs; nothing is started or stopped then.",
        ),
        maybe(
            "metrics",
            Form::List(&Form::Text),
            "[\"http://10.0.0.5:2379/metrics\"]",
            "Where its nodes tell CPU and memory in Prometheus' text format, for a system with `endpoints`: of the \
             servers themselves, or of node exporters beside them. Each is asked once a second.",
        ),
        maybe(
            "tls",
            Form::Table(&TLS),
            "{ca: ca.pem}",
            "How `https://` endpoints, or a `process` that speaks TLS, are verified.",
        ),
        maybe(
            "credentials",
            Form::Table(&CREDENTIALS),
            "{user: root, password: $ETCD_PASSWORD}",
            "Who clients are to a system with `endpoints`.",
        ),
        maybe(
            "process",
            Form::Table(&PROCESS),
            "{command: [./gateway, --listen, \"{address}:{port}\"]}",
            "The command that a system of kind `process` is.",
        ),
        maybe(
            "parts",
            Form::Open(&Form::Table(&PART)),
            "{storage: {kind: consul, nodes: 3}}",
            "What else it is made of, by role; `bakeoff systems` lists the roles of each kind.",
        ),
    ],
};

pub(super) static PART: Table = Table {
    name: "part",
    meaning: "What a system is made of besides its own nodes: started with it, and part of what is measured.",
    one_of: &[],
    fields: &[
        always("kind", Form::Text, "consul", "What it is; the role says which kinds there can be."),
        maybe("version", Form::AsWritten, "\"1.20\"", "The version to run, as of a system."),
        maybe("program", Form::Text, "/opt/consul/bin/consul", "Path of a program of your own."),
        default("nodes", Form::Whole { min: 1, max: 99 }, "1", "How many nodes are started."),
        maybe(
            "options",
            Form::Open(&Form::AsWritten),
            "{latency: 20ms}",
            "Settings that its kind knows.",
        ),
        maybe("limits", Form::Table(&LIMITS), "{cpu: 0.5}", "What each node may use."),
        maybe(
            "process",
            Form::Table(&PROCESS),
            "{command: [./backend, \"{port}\"]}",
            "The command that a part of kind `process` is.",
        ),
    ],
};

pub(super) static LIMITS: Table = Table {
    name: "limits",
    meaning: "What each node may use.",
    one_of: &[],
    fields: &[
        maybe(
            "cpu",
            Form::Number { min: 0.0, from_min: false, max: 1024.0 },
            "0.5",
            "In cores: 0.5 is half of one.",
        ),
        maybe(
            "memory",
            Form::Size { min: 1 << 20, max: 1 << 50 },
            "1GiB",
            "In bytes, or with a unit.",
        ),
        maybe(
            "cpus",
            Form::OneOrMany(&Form::Whole { min: 0, max: 4095 }),
            "0",
            "The CPUs that it may run on, by their numbers; the load generator keeps off them as far \
             as it can.",
        ),
    ],
};

pub(super) static TLS: Table = Table {
    name: "tls",
    meaning: "Which certificates are trusted and shown.",
    one_of: &[],
    fields: &[
        maybe("ca", Form::Text, "ca.pem", "PEM file of the authorities to trust."),
        maybe("cert", Form::Text, "client.pem", "PEM file of the client's certificate chain."),
        maybe("key", Form::Text, "client.key", "PEM file of the client's private key."),
        default("insecure", Form::Flag, "false", "Accept any certificate; the report says so."),
    ],
};

pub(super) static CREDENTIALS: Table = Table {
    name: "credentials",
    meaning: "Who clients are to a system that runs already. Secrets are in variables or files, never in the study.",
    one_of: &[&["user", "password"], &["user", "password-file"], &["token"], &["token-file"]],
    fields: &[
        maybe("user", Form::Text, "root", "A user's name."),
        maybe(
            "password",
            Form::AsWritten,
            "$ETCD_PASSWORD",
            "The user's password: a variable of bakeoff's environment.",
        ),
        maybe(
            "password-file",
            Form::Text,
            "/run/secrets/etcd",
            "The file that holds the password.",
        ),
        maybe(
            "token",
            Form::AsWritten,
            "$CONSUL_HTTP_TOKEN",
            "A token: a variable of bakeoff's environment.",
        ),
        maybe("token-file", Form::Text, "/run/secrets/consul", "The file that holds the token."),
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
            "What a `request` asks for over HTTP, and what must come back.",
        ),
        maybe(
            "keys",
            Form::Table(&KEYS),
            "{count: 10000}",
            "Which keys they touch; must be given for operations of a key-value store. Of others it says how many users, roles or texts there are, one if left out.",
        ),
        maybe("values", Form::Table(&VALUES), "{size: 1KiB}", "What they write."),
        maybe(
            "with",
            Form::Open(&Form::AsWritten),
            "{key-type: rsa-2048}",
            "What operations are done with beyond keys and values; `bakeoff systems` lists what each kind knows.",
        ),
        default(
            "reads",
            Form::Word(ReadConsistency::NAMES),
            "linearizable",
            "How fresh a `get` or `list` must be.",
        ),
        maybe(
            "fill",
            Form::Flag,
            "true",
            "Whether all keys are written before the load begins, unmeasured; by default when the mix has `get`, `list` or `delete`.",
        ),
        maybe(
            "loads",
            Form::List(&Form::Text),
            "[steady]",
            "Names of the loads it is put under; all by default.",
        ),
        maybe(
            "systems",
            Form::List(&Form::Text),
            "[etcd]",
            "Names of the systems that are put to this work; all by default.",
        ),
    ],
};

pub(super) static AUDIT: Table = Table {
    name: "audit",
    meaning: "How acknowledged writes are audited.",
    one_of: &[],
    fields: &[maybe(
        "kill",
        Form::Word(Kill::NAMES),
        "under-load",
        "When all nodes are killed: `under-load`, in the midst of further writes that nobody measures, \
         or `at-rest`, after the load was read back. Left out, key-value stores are killed under load \
         and everything else at rest.",
    )],
};

pub(super) static PUBLICATION: Table = Table {
    name: "publication",
    meaning: "Where published figures come from.",
    one_of: &[],
    fields: &[
        always("title", Form::Text, "dbtester 2017Q1", "What it is called, and when it appeared."),
        always("hardware", Form::Text, "3 servers of 16 vCPUs and 30 GB", "What it ran on."),
        maybe("versions", Form::Text, "etcd 3.1, ZooKeeper 3.4.9", "Which versions it compared."),
    ],
};

pub(super) static PUBLISHED: Table = Table {
    name: "published",
    meaning: "Figures from the literature: one `metric` and its `value`, or several as `figures`.",
    one_of: &[&["metric", "value"], &["figures"]],
    fields: &[
        always("system", Form::Text, "etcd", "Name of one of the study's systems."),
        always("workload", Form::Text, "write", "Name of one of its workloads."),
        maybe(
            "load",
            Form::Text,
            "steady",
            "Name of one of its loads; may be left out when the workload has only one.",
        ),
        maybe(
            "operation",
            Form::Word(Operation::NAMES),
            "get",
            "Of which operation of the mix it is; of all together if left out.",
        ),
        maybe("metric", Form::Word(Metric::NAMES), "throughput-mean", "What was measured."),
        maybe("value", FIGURE, "2921", "Its value, in the unit that the metric's name ends with."),
        maybe(
            "figures",
            Form::Keyed(Metric::NAMES, &FIGURE),
            "{throughput-mean: 2921}",
            "Several metrics and their values.",
        ),
        maybe("note", Form::Text, "median of three", "What else the publication says of it."),
    ],
};

#[cfg(test)]
pub(super) static TABLES: &[&Table] = &[
    &STUDY,
    &SYSTEM,
    &PART,
    &PROCESS,
    &LIMITS,
    &TLS,
    &WORKLOAD,
    &REQUEST,
    &EXPECT,
    &service::ROWS,
    &KEYS,
    &ORDER,
    &keyed::HOTSPOT,
    &VALUES,
    &SIZES,
    &LOAD,
    &TARGETS,
    &FIND,
    &STOP,
    &PUBLICATION,
    &PUBLISHED,
];
