//! Reads the command line of etcd's benchmark: global flags, a subcommand, its flags and arguments.
//!
//! Each flag is declared once, with its form, default and meaning. The declaration yields parsing and help. The flags
//! and defaults are those of etcd 3.4 to 3.7.
//!
//! Not here: Go's syntax of flags and values (`crate::flags`), what a subcommand does (`super`).

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use super::keys::{self, KeyOrder, Keys};
use crate::flags::{self, FlagArity, Unreadable, UsageError};

/// Largest value and longest key in bytes. By default etcd accepts requests up to 1.5 MiB.
const SIZE_MAX: i64 = 256 << 20;
/// Maximum number of watchers.
const WATCHERS_MAX: u32 = 1_000_000;

/// Form of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// True or false; no value means true.
    Switch,
    /// A whole number within these bounds.
    Whole(i64, i64),
    /// A number that is not negative.
    Number,
    /// A time, such as `5s`.
    Time,
    Text,
    /// Texts, separated by commas; the flag may be repeated.
    List,
}

struct Flag {
    name: &'static str,
    form: Form,
    default: &'static str,
    meaning: &'static str,
}

const fn flag(
    name: &'static str,
    form: Form,
    default: &'static str,
    meaning: &'static str,
) -> Flag {
    Flag { name, form, default, meaning }
}

const COUNT: Form = Form::Whole(1, i64::MAX);
const MANY: Form = Form::Whole(1, u32::MAX as i64);
const SIZE: Form = Form::Whole(0, SIZE_MAX);
const ANY: Form = Form::Whole(0, i64::MAX);

const GLOBAL: &[Flag] = &[
    flag(
        "endpoints",
        Form::List,
        "127.0.0.1:2379",
        "servers, separated by commas, each with or without http(s)://",
    ),
    flag("conns", MANY, "1", "connections to each server; clients share them"),
    flag("clients", MANY, "1", "requests in flight"),
    flag("precise", Form::Switch, "false", "print numbers with all their digits"),
    flag("sample", Form::Switch, "false", "print figures of each second"),
    flag("cert", Form::Text, "", "the client's certificate, as PEM"),
    flag("key", Form::Text, "", "the key of that certificate"),
    flag("cacert", Form::Text, "", "trusted authorities, as PEM"),
    flag("insecure-skip-tls-verify", Form::Switch, "false", "accept any certificate"),
    flag(
        "user",
        Form::Text,
        "",
        "NAME[:PASSWORD]; asks for a missing password. BAKEOFF_USER=NAME:PASSWORD hides it",
    ),
    flag("dial-timeout", Form::Time, "0s", "longest wait for a connection; 0 means 5s"),
    flag("auto-sync-interval", Form::Time, "0s", "accepted, and not followed: the endpoints stay"),
    flag("target-leader", Form::Switch, "false", "send to the leader only (etcd 3.4 to 3.6)"),
    flag(
        "report-perfdash",
        Form::Switch,
        "false",
        "write JSON for perfdash to $ARTIFACTS or ./_artifacts",
    ),
    flag("timeout", Form::Time, "60s", "bakeoff's own: longest wait for an answer"),
    flag("json", Form::Text, "", "bakeoff's own: write all figures to this file"),
];

const TOTAL: Flag = flag("total", COUNT, "10000", "number of operations");
const RATE: Flag = flag("rate", ANY, "0", "operations per second; 0 is as fast as answers come");
const KEY_SIZE: Flag = flag("key-size", SIZE, "8", "bytes of a key");
const VAL_SIZE: Flag = flag("val-size", SIZE, "8", "bytes of a value");
const KEY_SPACE: Flag = flag("key-space-size", COUNT, "1", "number of different keys");
const STREAMS: Flag =
    flag("streams", MANY, "10", "streams of the watchers; each is a connection of its own");
const CONSISTENCY: Flag =
    flag("consistency", Form::Text, "l", "l: linearizable; s: serializable, which may be stale");

/// A subcommand of etcd's benchmark.
struct Command {
    name: &'static str,
    arguments: &'static str,
    meaning: &'static str,
    flags: &'static [Flag],
}

const COMMANDS: &[Command] = &[
    Command {
        name: "put",
        arguments: "",
        meaning: "Write keys",
        flags: &[
            KEY_SIZE,
            VAL_SIZE,
            RATE,
            TOTAL,
            KEY_SPACE,
            flag("sequential-keys", Form::Switch, "false", "write keys in order, not at random"),
            flag("prefix", Form::Text, "", "beginning of each key, before its --key-size bytes"),
            flag("compact-interval", Form::Time, "0s", "time between compactions; 0 is never"),
            flag("compact-index-delta", ANY, "1000", "revisions that a compaction keeps"),
            flag(
                "check-hashkv",
                Form::Switch,
                "false",
                "print the hash of the keys, and compare it across endpoints",
            ),
        ],
    },
    Command {
        name: "range",
        arguments: " KEY [END]",
        meaning: "Read a key, or all keys from KEY up to END",
        flags: &[
            RATE,
            TOTAL,
            CONSISTENCY,
            flag("limit", ANY, "0", "maximum number of keys in an answer; 0 is no limit"),
            flag("count-only", Form::Switch, "false", "ask for the number of keys only"),
            flag("keys-only", Form::Switch, "false", "ask for keys without values"),
            flag("stream", Form::Switch, "false", "use RangeStream, of etcd 3.7 and later"),
            flag("paginate", Form::Switch, "false", "read pages of 10,000 keys, at one revision"),
            flag("prefix", Form::Switch, "false", "read all keys that begin with KEY"),
        ],
    },
    Command {
        name: "txn-put",
        arguments: "",
        meaning: "Write keys in transactions",
        flags: &[
            KEY_SIZE,
            VAL_SIZE,
            flag("txn-ops", Form::Whole(1, 1 << 20), "1", "puts in a transaction"),
            RATE,
            TOTAL,
            KEY_SPACE,
        ],
    },
    Command {
        name: "txn-mixed",
        arguments: " [KEY [END]]",
        meaning: "Write keys and read a range, each in a transaction",
        flags: &[
            KEY_SIZE,
            VAL_SIZE,
            RATE,
            TOTAL,
            flag("end-key", Form::Text, "", "end of the range that is read"),
            flag("limit", ANY, "1000", "maximum number of keys in an answer"),
            KEY_SPACE,
            CONSISTENCY,
            flag("rw-ratio", Form::Number, "1", "reads for each write"),
        ],
    },
    Command {
        name: "stm",
        arguments: "",
        meaning: "Read keys and write some of them, if no other client changed what was read",
        flags: &[
            flag("isolation", Form::Text, "r", ISOLATIONS),
            flag("keys", COUNT, "1", "number of different keys"),
            TOTAL,
            flag("keys-per-txn", Form::Whole(0, 1 << 16), "1", "keys of a transaction"),
            flag(
                "txn-wr-percent",
                Form::Whole(0, 100),
                "50",
                "percentage of its keys that a transaction writes",
            ),
            flag("stm-locker", Form::Text, "stm", "only `stm`: no lock around transactions"),
            VAL_SIZE,
            RATE,
        ],
    },
    Command {
        name: "lease-keepalive",
        arguments: "",
        meaning: "Renew leases: each client has one, and one stream for its renewals",
        flags: &[TOTAL],
    },
    Command {
        name: "watch",
        arguments: "",
        meaning: "Put keys that many watchers watch",
        flags: &[
            STREAMS,
            flag("watch-per-stream", MANY, "100", "watchers of each stream"),
            flag("watched-key-total", MANY, "1", "keys that are watched, and put in turn"),
            flag("put-rate", ANY, "0", "puts per second; 0 is as fast as answers come"),
            flag("put-total", COUNT, "1000", "number of puts"),
            flag("key-size", SIZE, "32", "bytes of a key"),
            KEY_SPACE,
            flag("sequential-keys", Form::Switch, "false", "choose keys in order, not at random"),
        ],
    },
    Command {
        name: "watch-latency",
        arguments: "",
        meaning: "Put one key, one put after the other, that many watchers watch",
        flags: &[
            STREAMS,
            flag("watchers-per-stream", MANY, "10", "watchers of each stream"),
            flag("prevkv", Form::Switch, "false", "ask for the value before the put as well"),
            flag("put-total", COUNT, "1000", "number of puts"),
            flag("put-rate", ANY, "100", "puts per second; 0 is as fast as answers come"),
            flag("key-size", SIZE, "32", "bytes of the key"),
            flag("val-size", SIZE, "32", "bytes of the value"),
        ],
    },
    Command {
        name: "watch-get",
        arguments: "",
        meaning: "Read a key while many watchers receive old events",
        flags: &[
            flag("watchers", MANY, "10000", "number of watchers"),
            flag("streams", MANY, "1", "streams of the watchers; each is a connection"),
            flag("events", Form::Whole(1, 1 << 16), "8", "events of each watcher"),
        ],
    },
];

const ISOLATIONS: &str =
    "c: read committed; r: repeatable reads; s: serializable; ss: serializable snapshot";

/// Subcommands of etcd's benchmark that bakeoff does not have, each with the reason and what to use.
const REFUSED: &[(&str, &str)] = &[(
    "mvcc",
    "it measures etcd's storage library inside its own process, and bakeoff measures servers: use etcd's benchmark",
)];

/// Request of a command line.
#[derive(Debug)]
pub(super) enum Invocation {
    /// The help of bakeoff's etcd-benchmark, or of one subcommand.
    Help(String),
    Load(Box<Options>),
}

/// Options of a load.
#[derive(Clone)]
pub(super) struct Options {
    pub(super) endpoints: Vec<String>,
    pub(super) connections: u32,
    pub(super) clients: u32,
    pub(super) precise: bool,
    pub(super) sample: bool,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) ca: Option<PathBuf>,
    pub(super) insecure: bool,
    /// Name, and password unless the user types it.
    pub(super) user: Option<(String, Option<String>)>,
    /// `None` if the command line sets none.
    pub(super) dial_timeout: Option<Duration>,
    pub(super) auto_sync: bool,
    pub(super) target_leader: bool,
    pub(super) perfdash: bool,
    pub(super) timeout: Duration,
    pub(super) json: Option<PathBuf>,
    pub(super) command: &'static str,
    /// Operations per second; `None` for as fast as answers come.
    pub(super) rate: Option<u64>,
    pub(super) total: u64,
    pub(super) task: Task,
}

/// Shows no password.
impl fmt::Debug for Options {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Options").field("task", &self.task).finish_non_exhaustive()
    }
}

/// The operations of a load.
#[derive(Debug, Clone)]
pub(super) enum Task {
    Put { keys: Keys, value_size: usize, compaction: Option<Compaction>, check_hash: bool },
    Range(RangeOptions),
    TxnPut { keys: Keys, value_size: usize, operations: u64 },
    TxnMixed { keys: Keys, value_size: usize, range: RangeOptions, reads_per_write: f64 },
    Stm { transactions: Transactions, value_size: usize },
    LeaseKeepalive,
    Watch(WatchTask),
}

/// Watchers, and what is driven next to them.
#[derive(Debug, Clone)]
pub(super) struct WatchTask {
    /// Number of watchers.
    pub(super) watchers: u32,
    /// Number of streams, each with its share of the watchers.
    pub(super) streams: u32,
    /// True if events must hold the value before the put.
    pub(super) previous: bool,
    pub(super) load: WatchLoad,
}

#[derive(Debug, Clone)]
pub(super) enum WatchLoad {
    /// Puts of `turns` keys in turn, which are watched in the same order.
    Puts { keys: Keys, turns: u64 },
    /// Puts of one random key, each after the answer to the one before.
    OnePut { key_size: usize, value_size: usize },
    /// Reads, until each watcher has received this many old events.
    Gets { events: u64 },
}

/// Transactions of several calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transactions {
    pub(super) isolation: Isolation,
    /// Number of different keys.
    pub(super) keys: u64,
    pub(super) keys_per_txn: u64,
    pub(super) write_percent: u64,
}

/// Isolation of a transaction, as in etcd's package `concurrency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isolation {
    ReadCommitted,
    RepeatableReads,
    Serializable,
    SerializableSnapshot,
}

impl Isolation {
    /// Returns true if all reads of an attempt are of the first one's revision.
    pub(super) fn reads_one_revision(self) -> bool {
        matches!(self, Self::Serializable | Self::SerializableSnapshot)
    }
}

/// Periodic compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Compaction {
    pub(super) interval: Duration,
    /// Revisions that stay.
    pub(super) keeps: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RangeOptions {
    pub(super) key: String,
    pub(super) end: RangeEnd,
    pub(super) serializable: bool,
    pub(super) limit: u64,
    pub(super) content: RangeContent,
    pub(super) transfer: RangeTransfer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RangeEnd {
    /// The key alone.
    None,
    /// All keys that begin with the key.
    Prefix,
    /// All keys before this one.
    Before(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeContent {
    Pairs,
    Keys,
    Count,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeTransfer {
    Whole,
    Pages,
    Stream,
}

/// Values of the flags of one command line.
struct Values(BTreeMap<&'static str, String>);

impl Values {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Returns a whole number. Its bounds were checked when it was read.
    fn whole(&self, name: &str) -> u64 {
        flags::integer(self.text(name)).and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    }

    fn small(&self, name: &str) -> u32 {
        u32::try_from(self.whole(name)).unwrap_or(u32::MAX)
    }

    fn size(&self, name: &str) -> usize {
        usize::try_from(self.whole(name)).unwrap_or(usize::MAX)
    }

    fn is_on(&self, name: &str) -> bool {
        flags::switch(self.text(name)).unwrap_or(false)
    }

    fn time(&self, name: &str) -> Duration {
        flags::duration(self.text(name)).unwrap_or_default()
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.text(name)).filter(|path| !path.is_empty()).map(PathBuf::from)
    }
}

/// Reads a command line.
///
/// # Errors
/// Describes the error and the help that lists the right form.
pub(super) fn read(words: &[String]) -> Result<Invocation, UsageError> {
    let Some(place) = place_of_command(words) else {
        // Without a subcommand, etcd's benchmark prints its help.
        let read = flags::read_anywhere(words, |name| arity(GLOBAL.iter(), name));
        return match read {
            Ok(_) | Err(Unreadable::Help) => Ok(Invocation::Help(usage())),
            Err(Unreadable::Wrong(error)) => Err(error),
        };
    };
    let name = words[place].as_str();
    let mut rest = words.to_vec();
    rest.remove(place);
    if name == "help" {
        let of = rest.iter().find_map(|word| COMMANDS.iter().find(|one| one.name == word));
        return Ok(Invocation::Help(of.map_or_else(usage, usage_of)));
    }
    if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(format!("`{name}` is not part of bakeoff etcd-benchmark: {why}").into());
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        let names: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
        return Err(format!("unknown command `{name}`: {}", names.join(", ")).into());
    };
    let known = || GLOBAL.iter().chain(command.flags);
    let line = match flags::read_anywhere(&rest, |name| arity(known(), name)) {
        Ok(line) => line,
        Err(Unreadable::Help) => return Ok(Invocation::Help(usage_of(command))),
        Err(Unreadable::Wrong(error)) => {
            return Err(format!("{error}; `etcd-benchmark {name} --help` lists the flags").into());
        }
    };
    let values = values(known(), &line.flags)?;
    options(command, &values, &line.rest).map(Box::new).map(Invocation::Load)
}

/// Returns the place of the subcommand: the first word that is no flag and no flag's value.
fn place_of_command(words: &[String]) -> Option<usize> {
    let mut place = 0;
    while let Some(word) = words.get(place) {
        match word.strip_prefix("--") {
            Some("") => return None,
            Some(name) => {
                let is_switch = name == "help"
                    || GLOBAL.iter().any(|flag| flag.name == name && flag.form == Form::Switch);
                place += if is_switch || name.contains('=') { 1 } else { 2 };
            }
            None if word.starts_with('-') => place += 1,
            None => return Some(place),
        }
    }
    None
}

fn arity<'a>(mut flags: impl Iterator<Item = &'a Flag>, name: &str) -> Option<FlagArity> {
    let flag = flags.find(|flag| flag.name == name)?;
    Some(if flag.form == Form::Switch { FlagArity::Nothing } else { FlagArity::Value })
}

/// Returns the value of each flag, given or default.
fn values<'a>(
    known: impl Iterator<Item = &'a Flag>,
    given: &[(String, String)],
) -> Result<Values, UsageError> {
    let mut values = BTreeMap::new();
    for flag in known {
        let mut of = given.iter().filter(|(name, _)| name == flag.name).map(|(_, value)| value);
        let value = match flag.form {
            Form::List => {
                let all: Vec<&str> = of.map(String::as_str).collect();
                (!all.is_empty()).then(|| all.join(","))
            }
            _ => of.next_back().cloned(),
        };
        if let Some(wrong) = value.as_deref().and_then(|value| why_invalid(flag, value)) {
            return Err(wrong.into());
        }
        values.insert(flag.name, value.unwrap_or_else(|| flag.default.to_owned()));
    }
    Ok(Values(values))
}

/// Describes what is wrong with a flag's value; `None` if it is right.
fn why_invalid(flag: &Flag, value: &str) -> Option<String> {
    let Flag { name, .. } = flag;
    let wrong = |wants: &str| Some(format!("invalid `--{name} {value}`: {wants}"));
    match flag.form {
        Form::Switch if flags::switch(value).is_none() => wrong("true or false"),
        Form::Number if flags::number(value).is_none_or(|number| number < 0.0) => {
            wrong("a number of at least 0")
        }
        Form::Time if flags::duration(value).is_none() => wrong("a time, such as `5s` or `250ms`"),
        Form::Whole(least, most) => {
            let fits = flags::integer(value).is_some_and(|number| (least..=most).contains(&number));
            match most {
                _ if fits => None,
                i64::MAX => wrong(&format!("a whole number of at least {least}")),
                _ => wrong(&format!("a whole number from {least} to {most}")),
            }
        }
        _ => None,
    }
}

fn options(
    command: &Command,
    values: &Values,
    arguments: &[String],
) -> Result<Options, UsageError> {
    let most_arguments = if command.arguments.is_empty() { 0 } else { 2 };
    if let Some(more) = arguments.get(most_arguments) {
        return Err(format!("`{}` takes no argument `{more}`", command.name).into());
    }
    let task = match command.name {
        "put" => Task::Put {
            keys: Keys {
                prefix: values.text("prefix").to_owned(),
                order: key_order(values),
                ..keys(values)?
            },
            value_size: values.size("val-size"),
            compaction: Some(values.time("compact-interval"))
                .filter(|interval| !interval.is_zero())
                .map(|interval| Compaction {
                    interval,
                    keeps: values.whole("compact-index-delta"),
                }),
            check_hash: values.is_on("check-hashkv"),
        },
        "range" => Task::Range(range(values, arguments)?),
        "txn-put" => {
            let (keys, operations) = (keys(values)?, values.whole("txn-ops"));
            if operations > keys.space {
                let space = keys.space;
                return Err(format!(
                    "`--txn-ops {operations}` exceeds `--key-space-size {space}`: a transaction cannot write a key \
                     twice"
                )
                .into());
            }
            Task::TxnPut { keys, value_size: values.size("val-size"), operations }
        }
        "stm" => {
            Task::Stm { transactions: transactions(values)?, value_size: values.size("val-size") }
        }
        "lease-keepalive" => Task::LeaseKeepalive,
        "watch" | "watch-latency" | "watch-get" => Task::Watch(watches(command.name, values)?),
        _ => Task::TxnMixed {
            keys: keys(values)?,
            value_size: values.size("val-size"),
            range: mixed_range(values, arguments)?,
            reads_per_write: flags::number(values.text("rw-ratio")).unwrap_or(1.0),
        },
    };
    let endpoints: Vec<String> = values
        .text("endpoints")
        .split(',')
        .map(|endpoint| endpoint.trim().to_owned())
        .filter(|endpoint| !endpoint.is_empty())
        .collect();
    if endpoints.is_empty() {
        return Err("`--endpoints` names no server".into());
    }
    let (cert, key) = (values.file("cert"), values.file("key"));
    if cert.is_some() != key.is_some() {
        return Err("`--cert` and `--key` belong together".into());
    }
    let timeout = values.time("timeout");
    if timeout.is_zero() {
        return Err(
            "`--timeout 0`: a load needs a longest wait for an answer, such as `60s`".into()
        );
    }
    let user = Some(values.text("user")).filter(|user| !user.is_empty());
    let user = user.map(|user| match user.split_once(':') {
        Some((name, password)) => (name.to_owned(), Some(password.to_owned())),
        None => (user.to_owned(), None),
    });
    // The commands with watchers call them `put-rate` and `put-total`.
    let of_puts = |name: &str| values.whole(name).max(values.whole(&format!("put-{name}")));
    Ok(Options {
        endpoints,
        connections: values.small("conns"),
        clients: values.small("clients"),
        precise: values.is_on("precise"),
        sample: values.is_on("sample"),
        cert,
        key,
        ca: values.file("cacert"),
        insecure: values.is_on("insecure-skip-tls-verify"),
        user,
        dial_timeout: Some(values.time("dial-timeout")).filter(|time| !time.is_zero()),
        auto_sync: !values.time("auto-sync-interval").is_zero(),
        target_leader: values.is_on("target-leader"),
        perfdash: values.is_on("report-perfdash"),
        timeout,
        json: values.file("json"),
        command: command.name,
        rate: Some(of_puts("rate")).filter(|rate| *rate > 0),
        total: of_puts("total"),
        task,
    })
}

fn keys(values: &Values) -> Result<Keys, UsageError> {
    let (size, space) = (values.size("key-size"), values.whole("key-space-size"));
    let needed = keys::bytes_needed(space);
    if size < needed {
        return Err(format!(
            "`--key-size {size}` is too small for `--key-space-size {space}`: the number of a key takes {needed} bytes"
        )
        .into());
    }
    Ok(Keys { prefix: String::new(), size, space, order: KeyOrder::Sequential })
}

fn key_order(values: &Values) -> KeyOrder {
    if values.is_on("sequential-keys") { KeyOrder::Sequential } else { KeyOrder::Random }
}

fn watches(command: &str, values: &Values) -> Result<WatchTask, UsageError> {
    let streams = values.small("streams");
    let each = |flag: &str| {
        let watchers = streams.checked_mul(values.small(flag)).filter(|all| *all <= WATCHERS_MAX);
        watchers.ok_or_else(|| {
            format!(
                "`--streams {streams}` times `--{flag} {}` is more than {WATCHERS_MAX} watchers",
                values.small(flag)
            )
        })
    };
    let (watchers, load) = match command {
        "watch" => {
            let keys = Keys { order: key_order(values), ..keys(values)? };
            let turns = values.whole("watched-key-total");
            (each("watch-per-stream")?, WatchLoad::Puts { keys, turns })
        }
        "watch-latency" => {
            let (key_size, value_size) = (values.size("key-size"), values.size("val-size"));
            if key_size == 0 {
                return Err("`--key-size 0`: etcd refuses an empty key".into());
            }
            (each("watchers-per-stream")?, WatchLoad::OnePut { key_size, value_size })
        }
        _ => {
            let watchers = values.small("watchers");
            if watchers > WATCHERS_MAX {
                return Err(format!("`--watchers {watchers}` is more than {WATCHERS_MAX}").into());
            }
            (watchers, WatchLoad::Gets { events: values.whole("events") })
        }
    };
    let streams = streams.min(watchers);
    Ok(WatchTask { watchers, streams, previous: values.is_on("prevkv"), load })
}

fn transactions(values: &Values) -> Result<Transactions, UsageError> {
    let isolation = match values.text("isolation") {
        "c" => Isolation::ReadCommitted,
        "r" => Isolation::RepeatableReads,
        "s" => Isolation::Serializable,
        "ss" => Isolation::SerializableSnapshot,
        other => return Err(format!("invalid `--isolation {other}`: c, r, s or ss").into()),
    };
    match values.text("stm-locker") {
        "stm" => {}
        locker @ ("lock-client" | "lock-rpc") => {
            return Err(format!(
                "`--stm-locker {locker}` is not part of bakeoff etcd-benchmark: locks around transactions are not built \
                 yet, so use etcd's benchmark"
            )
            .into());
        }
        other => return Err(format!("invalid `--stm-locker {other}`: stm").into()),
    }
    let (keys, keys_per_txn) = (values.whole("keys"), values.whole("keys-per-txn"));
    if keys_per_txn > keys {
        return Err(format!("`--keys-per-txn {keys_per_txn}` exceeds `--keys {keys}`").into());
    }
    let write_percent = values.whole("txn-wr-percent");
    Ok(Transactions { isolation, keys, keys_per_txn, write_percent })
}

fn is_serializable(values: &Values) -> Result<bool, UsageError> {
    match values.text("consistency") {
        "l" => Ok(false),
        "s" => Ok(true),
        other => Err(format!("invalid `--consistency {other}`: l or s").into()),
    }
}

fn range(values: &Values, arguments: &[String]) -> Result<RangeOptions, UsageError> {
    let by_prefix = values.is_on("prefix");
    let key = match arguments.first() {
        Some(key) => key.clone(),
        None if by_prefix => String::new(),
        None => return Err("`range` needs a key, or `--prefix` for all keys".into()),
    };
    let limit = values.whole("limit");
    if values.is_on("paginate") && limit > 0 {
        return Err("`--paginate` and `--limit` exclude each other".into());
    }
    let content = match (values.is_on("keys-only"), values.is_on("count-only")) {
        (true, true) => return Err("`--keys-only` and `--count-only` exclude each other".into()),
        (true, false) => RangeContent::Keys,
        (false, true) => RangeContent::Count,
        (false, false) => RangeContent::Pairs,
    };
    Ok(RangeOptions {
        key,
        end: match arguments.get(1).filter(|end| !end.is_empty()) {
            _ if by_prefix => RangeEnd::Prefix,
            Some(end) => RangeEnd::Before(end.clone()),
            None => RangeEnd::None,
        },
        serializable: is_serializable(values)?,
        limit,
        content,
        transfer: match (values.is_on("stream"), values.is_on("paginate")) {
            (true, _) => RangeTransfer::Stream,
            (false, true) => RangeTransfer::Pages,
            (false, false) => RangeTransfer::Whole,
        },
    })
}

/// Returns the range that `txn-mixed` reads: all keys, unless the command line has a key or an end.
fn mixed_range(values: &Values, arguments: &[String]) -> Result<RangeOptions, UsageError> {
    let key = arguments.first().cloned().unwrap_or_default();
    let end = arguments.get(1).map_or(values.text("end-key"), String::as_str);
    Ok(RangeOptions {
        end: match (end, &*key) {
            ("", "") => RangeEnd::Prefix,
            ("", _) => RangeEnd::None,
            (end, _) => RangeEnd::Before(end.to_owned()),
        },
        key,
        serializable: is_serializable(values)?,
        limit: values.whole("limit"),
        content: RangeContent::Pairs,
        transfer: RangeTransfer::Whole,
    })
}

fn usage() -> String {
    let mut text = "Usage: bakeoff etcd-benchmark COMMAND [flags]\n\nLoads etcd as etcd's own `benchmark` does, and \
                    prints its report.\n\nCommands:\n"
        .to_owned();
    for Command { name, meaning, .. } in COMMANDS {
        writeln!(text, "  {name:<16} {meaning}").expect("writing to memory does not fail");
    }
    text.push_str("\nFlags of all commands:\n");
    write_flags(GLOBAL, &mut text);
    text.push_str("\n`bakeoff etcd-benchmark COMMAND --help` lists the flags of a command.");
    text
}

fn usage_of(command: &Command) -> String {
    let Command { name, arguments, meaning, flags } = command;
    let mut text = format!(
        "Usage: bakeoff etcd-benchmark {name}{arguments} [flags]\n\n{meaning}.\n\nFlags of this command:\n"
    );
    write_flags(flags, &mut text);
    text.push_str("\nFlags of all commands:\n");
    write_flags(GLOBAL, &mut text);
    text.truncate(text.trim_end().len());
    text
}

fn write_flags(flags: &[Flag], to: &mut String) {
    for Flag { name, form, default, meaning } in flags {
        let value = match form {
            Form::Switch => "",
            Form::Whole(..) => " N",
            Form::Number => " X",
            Form::Time => " TIME",
            Form::Text => " TEXT",
            Form::List => " LIST",
        };
        let named = format!("--{name}{value}");
        let default = match (form, *default) {
            (Form::Switch, _) | (_, "") => String::new(),
            (_, default) => format!(" [default: {default}]"),
        };
        writeln!(to, "  {named:<28} {meaning}{default}").expect("writing to memory does not fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &str) -> Result<Invocation, String> {
        let words: Vec<String> = line
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(|word| if word == "''" { String::new() } else { word.to_owned() })
            .collect();
        read(&words).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn load(line: &str) -> Options {
        match read_line(line) {
            Ok(Invocation::Load(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn defaults_are_those_of_etcds_benchmark() {
        let options = load("put");
        assert_eq!(options.endpoints, ["127.0.0.1:2379"]);
        assert_eq!((options.connections, options.clients, options.total), (1, 1, 10_000));
        assert_eq!((options.rate, options.dial_timeout), (None, None));
        let keys = Keys { prefix: String::new(), size: 8, space: 1, order: KeyOrder::Random };
        let Task::Put { keys: read, value_size: 8, compaction: None, check_hash: false } =
            options.task
        else {
            panic!("{:?}", options.task)
        };
        assert_eq!(read, keys);
    }

    #[test]
    fn loads_with_watchers_have_the_defaults_of_etcds_benchmark() {
        let task = |line: &str| match load(line).task {
            Task::Watch(task) => (task.watchers, task.streams, task.load),
            other => panic!("{line}: {other:?}"),
        };
        let (watchers, streams, load_of) = task("watch");
        assert_eq!((watchers, streams), (1000, 10));
        let WatchLoad::Puts { keys, turns: 1 } = load_of else { panic!("{load_of:?}") };
        assert_eq!((keys.size, keys.space, keys.order), (32, 1, KeyOrder::Random));
        assert_eq!((load("watch").rate, load("watch").total), (None, 1000));
        let latency = load("watch-latency --prevkv");
        assert_eq!((latency.rate, latency.total), (Some(100), 1000));
        let Task::Watch(WatchTask { watchers: 100, streams: 10, previous: true, load }) =
            latency.task
        else {
            panic!("{:?}", latency.task)
        };
        assert!(matches!(load, WatchLoad::OnePut { key_size: 32, value_size: 32 }), "{load:?}");
        let (watchers, streams, load) = task("watch-get --streams 3");
        assert_eq!((watchers, streams), (10_000, 3));
        assert!(matches!(load, WatchLoad::Gets { events: 8 }), "{load:?}");
    }

    #[test]
    fn flags_stand_before_and_after_the_command() {
        let options = load(
            "--endpoints=a:1,http://b:2 --conns 3 --precise put --clients=7 --total 5 --sequential-keys \
             --endpoints c:3 --prefix p --target-leader",
        );
        assert_eq!(options.endpoints, ["a:1", "http://b:2", "c:3"]);
        assert_eq!((options.connections, options.clients, options.total), (3, 7, 5));
        assert!(options.precise && options.target_leader);
        let options = load("--total 6 range foo --prefix");
        assert_eq!(options.total, 6);
        let Task::Range(RangeOptions { key, end, .. }) = options.task else { panic!() };
        assert_eq!((&*key, end), ("foo", RangeEnd::Prefix));
    }

    #[test]
    fn mixed_transactions_read_the_range_of_the_command_line() {
        let range = |line: &str| match load(line).task {
            Task::TxnMixed { range, .. } => (range.key, range.end),
            task => panic!("{task:?}"),
        };
        assert_eq!(range("txn-mixed"), (String::new(), RangeEnd::Prefix));
        // As `rw-benchmark.sh` of etcd calls it.
        assert_eq!(range("txn-mixed '' --conns=1"), (String::new(), RangeEnd::Prefix));
        let before_b = RangeEnd::Before("b".to_owned());
        assert_eq!(range("txn-mixed a b"), ("a".to_owned(), before_b.clone()));
        assert_eq!(range("txn-mixed a --end-key b"), ("a".to_owned(), before_b));
        assert_eq!(range("txn-mixed a"), ("a".to_owned(), RangeEnd::None));
    }

    #[test]
    fn invalid_command_lines_are_refused_with_the_reason() {
        for (line, reason) in [
            ("putt", "unknown command `putt`: put, range, txn-put, txn-mixed, stm"),
            ("stm --keys-per-txn 2", "exceeds `--keys 1`"),
            ("stm --isolation x", "c, r, s or ss"),
            ("stm --stm-locker lock-rpc", "locks around transactions are not built yet"),
            ("stm --txn-wr-percent 101", "a whole number from 0 to 100"),
            ("lease-keepalive --rate 5", "unknown flag `--rate`"),
            ("put --clients=0", "a whole number from 1 to"),
            ("put --total x", "a whole number of at least 1"),
            ("put --rate -1", "a whole number of at least 0"),
            ("put --key-space-size 0", "a whole number of at least 1"),
            ("put --key-size 1 --key-space-size 100", "the number of a key takes 2 bytes"),
            ("put --dial-timeout 5", "a time, such as"),
            ("put --dial-timeout -5s", "a time, such as"),
            ("put foo", "takes no argument `foo`"),
            ("put --consistency l", "unknown flag `--consistency`"),
            ("put --cert c", "belong together"),
            ("put --endpoints ,", "names no server"),
            ("put --timeout 0s", "a longest wait"),
            ("put --sample=maybe", "true or false"),
            ("range", "needs a key"),
            ("range a --consistency x", "l or s"),
            ("range a --paginate --limit 5", "exclude each other"),
            ("range a --keys-only --count-only", "exclude each other"),
            ("range a b c", "takes no argument `c`"),
            ("txn-put --txn-ops 2", "cannot write a key"),
            ("txn-mixed --rw-ratio -1", "at least 0"),
            ("mvcc put", "storage library"),
            ("watch --streams 1000 --watch-per-stream 2000", "more than 1000000 watchers"),
            ("watch --key-size 0", "the number of a key takes 1 bytes"),
            ("watch-latency --key-size 0", "refuses an empty key"),
            ("watch-get --watchers 2000000", "more than 1000000"),
            ("watch-get --put-total 5", "unknown flag `--put-total`"),
        ] {
            let error = read_line(line).expect_err(line);
            assert!(error.contains(reason), "{line}: {error}");
        }
    }

    #[test]
    fn help_is_for_all_commands_or_one() {
        let help = |line: &str| match read_line(line) {
            Ok(Invocation::Help(text)) => text,
            other => panic!("{line}: {other:?}"),
        };
        for line in ["", "--help", "-h", "help", "--conns 3"] {
            assert!(help(line).contains("\nCommands:\n"), "{line}");
        }
        for line in ["put -h", "put --help", "help put", "--conns 3 put --help"] {
            assert!(help(line).contains("--compact-interval TIME"), "{line}");
        }
    }
}
