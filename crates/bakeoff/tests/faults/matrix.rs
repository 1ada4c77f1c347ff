//! Defines the matrix: each fault, its injection, and the check and message that must catch it.
//!
//! Rows of one scene share a study with an honest canary, which must not be accused. `docs/method/validity.md` shows
//! this table; a test compares the two.
//!
//! Not here: running it (`main`), faults outside of canaries (`surroundings`).

use super::surroundings::Disturbance;

/// A study without its systems.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    /// Options of all canaries, including the honest one. They mostly wait, which leaves CPU time to others.
    pub(crate) options: &'static str,
    pub(crate) workload: &'static str,
    pub(crate) loads: &'static str,
    /// Nodes of every canary.
    pub(crate) nodes: u32,
}

/// Injection of a fault.
pub(crate) enum FaultInjection {
    /// By these options of the scene's canary.
    Canary { scene: &'static Scene, options: &'static str },
    /// By the surroundings of an honest canary, with a description.
    Around { by: &'static str, how: Disturbance },
}

/// Finding that a fault must cause and an honest canary must not.
pub(crate) enum ExpectedFinding {
    /// The trial is invalid by this check, with this message.
    Check(&'static str, &'static str),
    /// The trial is invalid by at least one of these checks, with this message.
    AnyCheck(&'static [&'static str], &'static str),
    /// The trial is invalid by the audit at this time, with this message.
    Audit(&'static str, &'static str),
    /// The check is not checked, with this message, and never passes.
    NotChecked(&'static str, &'static str),
    /// The report's findings contain this text.
    Finding(&'static str),
    /// Kind and message of one of the trial's first errors.
    Error(&'static str, &'static str),
    /// Minimum of a figure of the trial.
    Figure(&'static str, f64),
    /// The system is not ranked.
    NotRanked,
}

/// One fault.
pub(crate) struct Row {
    pub(crate) fault: &'static str,
    /// Name of the system in the study.
    pub(crate) name: &'static str,
    /// Load to check.
    pub(crate) load: &'static str,
    pub(crate) made: FaultInjection,
    pub(crate) expectations: &'static [ExpectedFinding],
}

/// Each key once, so that no later write hides a lost one.
static WRITES: Scene = Scene {
    name: "writes",
    options: "sync: none",
    workload: "{mix: {put: 1}, keys: {count: 2000, order: unique}}",
    loads: "{load: {clients: 4, stop: {operations: 1000}}}",
    nodes: 1,
};
/// Without a fill, which any failure would end.
static UPDATES: Scene = Scene {
    name: "updates",
    options: "sync: none",
    workload: "{mix: {put: 50, get: 50}, keys: {count: 50}, fill: false}",
    loads: "{load: {clients: 4, stop: {operations: 2000}}}",
    nodes: 1,
};
pub(crate) static READS: Scene = Scene {
    name: "reads",
    options: "sync: none, delay: 2ms",
    workload: "{mix: {get: 1}, keys: {count: 100}}",
    loads: "{closed: {clients: 6, warmup: 0s, stop: {after: 3s}}}",
    nodes: 1,
};
/// Long enough that a warm-up of 3.5 s is at most a third, the maximum that counts as one.
pub(crate) static COURSE: Scene = Scene {
    name: "course",
    options: "sync: none, delay: 2ms",
    workload: "{mix: {get: 1}, keys: {count: 100}}",
    loads: "{closed: {clients: 6, warmup: 0s, stop: {after: 12s}}}",
    nodes: 1,
};
static OFFERED: Scene = Scene {
    name: "offered",
    options: "sync: none",
    workload: "{mix: {get: 1}, keys: {count: 100}}",
    loads: "{open: {clients: 24, rate: 200/s, warmup: 0s, stop: {after: 4s}}}",
    nodes: 1,
};
static NODES: Scene = Scene {
    name: "nodes",
    options: "sync: none",
    workload: "{mix: {get: 1}, keys: {count: 100}}",
    loads: "{load: {clients: 6, warmup: 0s, stop: {after: 2s}}}",
    nodes: 3,
};

/// Reads at nodes without writes, which may be stale.
static STANDBYS: Scene = Scene {
    name: "standbys",
    options: "sync: none",
    workload: "{mix: {put: 50, get: 50}, keys: {count: 5}, reads: stale}",
    loads: "{load: {clients: 6, rate: 200/s, stop: {after: 3s}, warmup: 1s, \
            targets: {writes: leader, reads: followers}}}",
    nodes: 3,
};
/// The same reads where they must be fresh.
static FRESH: Scene = Scene {
    name: "fresh",
    options: "sync: none",
    workload: "{mix: {put: 50, get: 50}, keys: {count: 5}}",
    loads: STANDBYS.loads,
    nodes: 3,
};

/// Watchers whose connections end now and then, so that they resume while keys are written.
static WATCHED: Scene = Scene {
    name: "watched",
    options: "sync: none, drop-watchers: 500ms",
    workload: "{mix: {put: 80, delete: 20}, keys: {count: 4}, fill: false, \
               watchers: {count: 12, of: prefix, connections: 4, progress: 50ms}}",
    loads: "{load: {clients: 6, rate: 300/s, warmup: 200ms, stop: {after: 3s}}}",
    nodes: 1,
};

/// Locks that several clients want at a time.
static LOCKED: Scene = Scene {
    name: "locked",
    options: "sync: none",
    workload: "{mix: {lock: 1}, keys: {count: 2}, fill: false}",
    loads: "{load: {clients: 6, stop: {operations: 1000}}}",
    nodes: 1,
};

/// Transactions of few groups of keys.
static GROUPED: Scene = Scene {
    name: "grouped",
    options: "sync: none",
    workload: "{mix: {move: 1, look: 2}, keys: {count: 3}}",
    loads: "{load: {clients: 6, stop: {operations: 2000}}}",
    nodes: 1,
};

const fn canary(
    fault: &'static str,
    name: &'static str,
    scene: &'static Scene,
    load: &'static str,
    options: &'static str,
    expectations: &'static [ExpectedFinding],
) -> Row {
    Row { fault, name, load, made: FaultInjection::Canary { scene, options }, expectations }
}

/// A fault outside of a run, with its own test.
pub(crate) struct SeparateTest {
    pub(crate) fault: &'static str,
    pub(crate) by: &'static str,
    pub(crate) follows: &'static str,
    /// File of the test below `crates/`, and its name.
    pub(crate) test: (&'static str, &'static str),
}

/// Faults outside of trials.
pub(crate) static ELSEWHERE: &[SeparateTest] = &[
    SeparateTest {
        fault: "stale read, lost update, read of a refused write or transaction, reordered writes, split brain, deleted value that is read again",
        by: "canaries with `stale`, `lose`, `dirty`, `dirty-transaction`, `reorder` or `split-after`, under `audit: {linearizability: true}`",
        follows: "check `linearizability`: the fewest operations that show it; honest canaries pass",
        test: (
            "bakeoff/tests/commands/linearizability.rs",
            "each_violation_is_caught_next_to_honest_canaries",
        ),
    },
    SeparateTest {
        fault: "`kill -9` in the midst of a cache write",
        by: "`bakeoff install redis`, killed at three moments after it began to work",
        follows: "nothing that looks whole; the next one fetches it anew and leaves nothing besides",
        test: (
            "bakeoff/tests/servers/cache.rs",
            "program_is_whole_after_kill_9_in_the_midst_of_fetching",
        ),
    },
    SeparateTest {
        fault: "two bakeoffs on one cache",
        by: "two `bakeoff install redis` at once",
        follows: "both get the same program, fetched once",
        test: ("bakeoff/tests/servers/cache.rs", "two_bakeoffs_at_once_share_a_cache"),
    },
    SeparateTest {
        fault: "two versions of bakeoff on one cache",
        by: "two recipes that build the same version of other ingredients",
        follows: "each finds its own program, and neither replaces the other's",
        test: (
            "bakeoff-install/src/tests.rs",
            "go_library_is_rebuilt_when_its_main_package_changes",
        ),
    },
    SeparateTest {
        fault: "a program of the cache is changed",
        by: "a file, a library and a link put into its folder",
        follows: "it is fetched anew; in the midst of a run the trial fails",
        test: ("bakeoff-install/src/tests.rs", "added_files_and_links_count_as_damage"),
    },
    SeparateTest {
        fault: "another process takes a port first",
        by: "a server that finds its address in use once",
        follows: "it is started again on another port, unless the user chose it",
        test: (
            "bakeoff/tests/commands/own_services.rs",
            "taken_port_restarts_the_command_on_another",
        ),
    },
    SeparateTest {
        fault: "links in a run's folder",
        by: "a link in place of `report.html`, and of `trials`",
        follows: "the report is written next to it; the run is not resumed",
        test: ("bakeoff/tests/commands/hostile_runs.rs", "report_does_not_write_through_a_link"),
    },
    SeparateTest {
        fault: "a record was altered",
        by: "a count, a verdict, a seed, a line taken away, a report edited, a history that lost lines or is missing",
        follows: "`bakeoff verify` ends with 6 and names what does not hold",
        test: ("bakeoff/tests/commands/hostile_runs.rs", "altered_record_does_not_verify"),
    },
    SeparateTest {
        fault: "answers without an end",
        by: "eight connections that are sent bodies of 900 MB",
        follows: "bodies are counted and dropped; one that is compared ends its connection at its limit",
        test: ("bakeoff-engine/src/tests.rs", "endless_answers_do_not_fill_the_memory"),
    },
];

pub(crate) static ROWS: &[Row] = &[
    canary(
        "acknowledged writes are lost",
        "loses",
        &WRITES,
        "load",
        "lose: 2%",
        &[ExpectedFinding::Audit("after the load", "are lost and 0 wrong")],
    ),
    canary(
        "acknowledged writes are lost on a restart",
        "forgets",
        &WRITES,
        "load",
        "lose-on-restart: 5%",
        &[ExpectedFinding::Audit("after kill -9 and restart of all nodes", "are lost and 0 wrong")],
    ),
    canary(
        "bytes are corrupted",
        "corrupts",
        &UPDATES,
        "load",
        "corrupt: 5%",
        &[ExpectedFinding::Check("answers", "wrong answers; key `bakeoff/")],
    ),
    canary(
        "bodies are truncated",
        "truncates",
        &UPDATES,
        "load",
        "truncate: 60%",
        &[
            ExpectedFinding::Check("errors", " % of operations failed"),
            ExpectedFinding::Error("reset", "of the body missing"),
        ],
    ),
    canary(
        "reads are stale",
        "stale",
        &UPDATES,
        "load",
        "stale: 20%",
        &[
            ExpectedFinding::Check("answers", "0 wrong and "),
            ExpectedFinding::Check("answers", "stale answers; key `"),
        ],
    ),
    canary(
        "standbys lag behind, and may",
        "lags",
        &STANDBYS,
        "load",
        "old: 300ms",
        &[
            ExpectedFinding::Figure("stale_share", 0.8),
            ExpectedFinding::Figure("stale_age_max_ms", 200.0),
        ],
    ),
    canary(
        "standbys lag behind, and must not",
        "lagging",
        &FRESH,
        "load",
        "old: 300ms",
        &[
            ExpectedFinding::Check("answers", "0 wrong and "),
            ExpectedFinding::Check("answers", "stale answers; key `"),
        ],
    ),
    canary(
        "errors are answered quickly",
        "errs",
        &UPDATES,
        "load",
        "error: 60%",
        &[
            ExpectedFinding::Check("errors", " % of operations failed"),
            ExpectedFinding::Error("status", "500"),
            ExpectedFinding::NotRanked,
        ],
    ),
    canary(
        "nothing but errors is answered",
        "only-errs",
        &UPDATES,
        "load",
        "error: 100%",
        &[
            ExpectedFinding::Check("successes", "no operation succeeded"),
            ExpectedFinding::NotRanked,
        ],
    ),
    canary(
        "what is answered is no HTTP",
        "garbles",
        &UPDATES,
        "load",
        "garbage: 30%",
        &[
            ExpectedFinding::Check("errors", " % of operations failed"),
            ExpectedFinding::Error("protocol", ""),
        ],
    ),
    canary(
        "everything stops for a second, closed load",
        "stalls",
        &READS,
        "closed",
        "stall: 1s, stall-after: 1500ms",
        &[
            ExpectedFinding::Finding(
                "stalls stalled in 1 of 1 trial under reads/closed: nothing succeeded for",
            ),
            ExpectedFinding::Figure("response_max_ms", 800.0),
        ],
    ),
    canary(
        "everything stops for a second, open load",
        "stalls",
        &OFFERED,
        "open",
        "stall: 1s, stall-after: 1500ms",
        &[
            ExpectedFinding::Finding(
                "stalls stalled in 1 of 1 trial under offered/open: nothing succeeded for",
            ),
            ExpectedFinding::Figure("response_max_ms", 800.0),
            ExpectedFinding::Figure("response_p90_ms", 100.0),
        ],
    ),
    canary(
        "a slow start",
        "starts-slowly",
        &READS,
        "closed",
        "slow-start: 1500ms",
        &[ExpectedFinding::Figure("ready_after_seconds", 1.3)],
    ),
    canary(
        "the warm-up is too short: slow at first",
        "warms-up",
        &COURSE,
        "closed",
        "warm-up: 3500ms",
        &[ExpectedFinding::Check("stationary", "was too short")],
    ),
    canary(
        "a server dies",
        "dies",
        &READS,
        "closed",
        "die-after: 1500ms",
        &[ExpectedFinding::Check("servers", "during the load")],
    ),
    canary(
        "one slow node of three",
        "limps",
        &NODES,
        "load",
        "delay: 20ms, slow-node: 2",
        &[
            ExpectedFinding::Finding("limps-2 of limps answered "),
            ExpectedFinding::Finding(" times slower than the other nodes"),
        ],
    ),
    canary(
        "watchers miss events",
        "drops-events",
        &WATCHED,
        "load",
        "lose-event: 2%",
        &[ExpectedFinding::Check("watches", ": not reliable (")],
    ),
    canary(
        "watchers receive events twice",
        "repeats",
        &WATCHED,
        "load",
        "repeat-event: 2%",
        &[ExpectedFinding::Check("watches", ": not unique (")],
    ),
    canary(
        "events come in another order than the writes",
        "swaps",
        &WATCHED,
        "load",
        "swap-events: 2%",
        &[ExpectedFinding::Check("watches", ": not ordered (")],
    ),
    canary(
        "watchers receive events that no write explains",
        "invents",
        &WATCHED,
        "load",
        "foreign-event: 2%",
        &[ExpectedFinding::Check("watches", " that no write of the load explains; watcher ")],
    ),
    canary(
        "a resumed watcher misses its next event",
        "skips",
        &WATCHED,
        "load",
        "skip-on-resume: 100%",
        &[ExpectedFinding::Check("watches", ": not resumable (")],
    ),
    canary(
        "progress is reported before the events have come",
        "runs-ahead",
        &WATCHED,
        "load",
        "early-bookmark: 20%, drop-watchers: 1h",
        &[ExpectedFinding::Check("watches", "not bookmarkable (")],
    ),
    canary(
        "a watcher continues after lost history without a word",
        "hides-gaps",
        &WATCHED,
        "load",
        "stale-after-compaction: 100%, history: 1KiB",
        &[ExpectedFinding::Check("watches", "not resumable (")],
    ),
    canary(
        "a lock is granted to two clients",
        "grants-twice",
        &LOCKED,
        "load",
        "grant-twice: 5%",
        &[ExpectedFinding::Check("answers", "two holders: client ")],
    ),
    canary(
        "two grants of a lock have the same token",
        "repeats-tokens",
        &LOCKED,
        "load",
        "same-token: 5%",
        &[ExpectedFinding::Check("answers", "a grant had token ")],
    ),
    canary(
        "a transaction is applied in part",
        "halves-transactions",
        &GROUPED,
        "load",
        "half-transaction: 5%",
        &[ExpectedFinding::Check("answers", "a transaction is seen in part: key 0 of the group ")],
    ),
    Row {
        fault: "a load needs more unique keys than there are",
        name: "canary",
        load: "load",
        made: FaultInjection::Around {
            by: "a study with 500 keys to create in a second",
            how: Disturbance::Keys,
        },
        expectations: &[ExpectedFinding::Check(
            "keys",
            "the unique keys ran out before the load's end",
        )],
    },
    Row {
        fault: "the generator is starved of CPU",
        name: "canary",
        load: "load",
        made: FaultInjection::Around {
            by: "`taskset -c 0 nice -n 10` next to two busy loops on that CPU, at an open rate",
            how: Disturbance::Starved,
        },
        expectations: &[ExpectedFinding::AnyCheck(&["generator", "schedule"], "")],
    },
    Row {
        fault: "another process uses a CPU",
        name: "canary",
        load: "load",
        made: FaultInjection::Around {
            by: "a busy loop that bakeoff did not start",
            how: Disturbance::Neighbour,
        },
        expectations: &[
            ExpectedFinding::Check("neighbours", "of this machine's CPU time"),
            ExpectedFinding::Check("neighbours", "`sh` ("),
        ],
    },
    Row {
        fault: "limits are asked for and cannot be applied",
        name: "canary",
        load: "load",
        made: FaultInjection::Around {
            by: "`limits` in the study, and cgroups unmounted",
            how: Disturbance::Limits,
        },
        expectations: &[
            ExpectedFinding::NotChecked("limits", ""),
            ExpectedFinding::Finding("limits"),
        ],
    },
    Row {
        fault: "the clock is stepped",
        name: "canary",
        load: "load",
        made: FaultInjection::Around { by: "`BAKEOFF_CLOCK_STEP=1s,-1h`", how: Disturbance::Clock },
        expectations: &[ExpectedFinding::Check("clock", "was set back by ")],
    },
    Row {
        fault: "the disk is full",
        name: "canary",
        load: "load",
        made: FaultInjection::Around {
            by: "a file system that becomes one of 12 MiB under a load that writes more",
            how: Disturbance::Disk,
        },
        expectations: &[ExpectedFinding::Check("disk", "")],
    },
    Row {
        fault: "a server exceeds its memory limit in mid-load",
        name: "canary",
        load: "load",
        made: FaultInjection::Around {
            by: "`limits: {memory: 64MiB}` and writes that a server keeps in memory",
            how: Disturbance::Memory,
        },
        expectations: &[
            ExpectedFinding::Check(
                "servers",
                "`canary-1` was killed by the kernel at its memory limit of 64 MiB (oom_kill 1)",
            ),
            ExpectedFinding::NotChecked("audit after the load", "could not be read back"),
        ],
    },
    Row {
        fault: "a server leaves a daemon running",
        name: "canary",
        load: "load",
        made: FaultInjection::Around {
            by: "a command that starts `setsid sleep` first",
            how: Disturbance::Daemon,
        },
        expectations: &[ExpectedFinding::Check("servers", "`canary-1` left running sleep (")],
    },
    Row {
        fault: "a server runs out of file descriptors",
        name: "canary",
        load: "load",
        made: FaultInjection::Around {
            by: "`ulimit -n 24` before a server that 40 clients connect to",
            how: Disturbance::Descriptors,
        },
        expectations: &[ExpectedFinding::Check("successes", " of 40 clients had only failures")],
    },
    Row {
        fault: "a peer floods",
        name: "canary",
        load: "load",
        made: FaultInjection::Around {
            by: "an HTTP/2 server that sends PING after PING and reads nothing",
            how: Disturbance::Flood,
        },
        expectations: &[
            ExpectedFinding::Check("successes", "no operation succeeded"),
            ExpectedFinding::Error("protocol", "PING and SETTINGS"),
        ],
    },
];
