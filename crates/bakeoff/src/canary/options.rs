//! Parses the canary's command line.
//!
//! Written by hand without clap: only bakeoff calls it, and its errors go to a log.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use bakeoff_core::units::{self, ByteCount};

use super::Faults;
use super::faults::TooManyFaults;
use super::truth::{Order, Shape, ShapeError, Truth};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Options {
    /// Address of this machine to listen on. Port 0 lets the kernel choose a port.
    pub(crate) listen: SocketAddr,
    /// The node that holds the store; `None` if this one does.
    pub(crate) first: Option<SocketAddr>,
    /// Folder of the log. A further node writes none.
    pub(crate) data: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) faults: Faults,
    /// Distribution of the delays of `/truth`; `None` answers 404.
    pub(crate) truth: Option<Truth>,
    /// Bytes in the answer to any other path; `None` answers 404.
    pub(crate) answer: Option<usize>,
    /// Bytes of changes that it keeps for watchers.
    pub(crate) history: usize,
}

/// Maximum of `--hold` and `--history` in bytes.
const HOLD_MAX: u64 = 1 << 30;

/// Default of `--history` in bytes: minutes of a usual load.
const HISTORY: usize = 16 << 20;

/// Maximum of `--answer` in bytes.
const ANSWER_MAX: usize = 1 << 20;

/// Default of `--truth-spin`: costs little CPU, and covers the wake-up time of most machines.
const SPIN: Duration = Duration::from_micros(100);

/// Time at which a write reaches the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Before it is acknowledged. Writes that arrive together share one sync.
    SyncEachWrite,
    /// When the kernel writes it. A write survives a crash of the process, but maybe not of the machine.
    PageCache,
}

/// Options parsed so far.
struct PartialOptions {
    listen: Option<SocketAddr>,
    first: Option<SocketAddr>,
    durability: Durability,
    faults: Faults,
    answer: Option<usize>,
    history: usize,
    shape: Option<Shape>,
    order: Option<Order>,
    spin: Option<Duration>,
}

impl Options {
    pub(super) fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Self, OptionsError> {
        let mut data = None;
        let mut given = PartialOptions {
            listen: None,
            first: None,
            durability: Durability::SyncEachWrite,
            faults: Faults { delay_share: 1.0, ..Faults::default() },
            answer: None,
            history: HISTORY,
            shape: None,
            order: None,
            spin: None,
        };
        while let Some(arg) = args.next() {
            let arg = arg.into_string().map_err(OptionsError::Unknown)?;
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name, OsString::from(value)),
                None => {
                    let value = args.next().ok_or_else(|| OptionsError::NoValue(arg.clone()))?;
                    (&*arg, value)
                }
            };
            if name == "--data" {
                data = Some(PathBuf::from(value));
                continue;
            }
            let value = value
                .into_string()
                .map_err(|value| OptionsError::NotUtf8 { name: name.to_owned(), value })?;
            match given.take(name, &value) {
                None => return Err(OptionsError::Unknown(name.into())),
                Some(Ok(())) => {}
                Some(Err(problem)) => {
                    return Err(OptionsError::Value { name: name.to_owned(), value, problem });
                }
            }
        }
        given.options(data)
    }

    pub(super) fn check(&self) -> Result<(), OptionsError> {
        // A server with faults must not be open to a whole network.
        if self.listen.ip().is_unspecified() {
            return Err(OptionsError::AllAddresses(self.listen.ip()));
        }
        self.faults.check().map_err(OptionsError::Faults)
    }
}

impl PartialOptions {
    /// Stores an option's value. `None` if the option is unknown.
    fn take(&mut self, name: &str, text: &str) -> Option<Result<(), ValueProblem>> {
        let faults = &mut self.faults;
        Some(match name {
            "--listen" => set(&mut self.listen, address(text).map(Some)),
            "--first" => set(&mut self.first, address(text).map(Some)),
            "--sync" => match text {
                "each" => set(&mut self.durability, Ok(Durability::SyncEachWrite)),
                // Both behave alike: `claimed` only changes the guarantee that the study reports.
                "none" | "claimed" => set(&mut self.durability, Ok(Durability::PageCache)),
                _ => Err(ValueProblem::Neither("each", "none")),
            },
            "--seed" => set(&mut faults.seed, text.parse().map_err(|_| ValueProblem::NoNumber)),
            "--lose" => set(&mut faults.lose, share(text)),
            "--lose-on-restart" => set(&mut faults.lose_on_restart, share(text)),
            "--write-every" => set(&mut faults.write_every, duration(text)),
            "--corrupt" => set(&mut faults.corrupt, share(text)),
            "--truncate" => set(&mut faults.truncate, share(text)),
            "--stale" => set(&mut faults.stale, share(text)),
            "--old" => set(&mut faults.old, duration(text)),
            "--deny" => set(&mut faults.deny, share(text)),
            "--dirty" => set(&mut faults.dirty, share(text)),
            "--reorder" => set(&mut faults.reorder, share(text)),
            "--split-after" => set(&mut faults.split_after, duration(text)),
            "--refuse" => set(&mut faults.refuse, share(text)),
            "--error" => set(&mut faults.error, share(text)),
            "--error-after" => set(&mut faults.error_after, duration(text)),
            "--complain" => set(&mut faults.complain, share(text)),
            "--garbage" => set(&mut faults.garbage, share(text)),
            "--delay" => set(&mut faults.delay, duration(text)),
            "--delay-share" => set(&mut faults.delay_share, share(text)),
            "--stall" => set(&mut faults.stall, duration(text)),
            "--stall-after" => set(&mut faults.stall_after, duration(text)),
            "--compact" => set(&mut faults.compact, duration(text)),
            "--slow-start" => set(&mut faults.slow_start, duration(text)),
            "--warm-up" => set(&mut faults.warm_up, duration(text)),
            "--burn" => set(&mut faults.burn, duration(text)),
            "--burn-every" => set(&mut faults.burn_every, duration(text)),
            "--hold" => set(&mut faults.hold, size(text)),
            "--die-after" => set(&mut faults.die_after, duration(text).map(Some)),
            "--lose-event" => set(&mut faults.lose_event, share(text)),
            "--repeat-event" => set(&mut faults.repeat_event, share(text)),
            "--swap-events" => set(&mut faults.swap_events, share(text)),
            "--foreign-event" => set(&mut faults.foreign_event, share(text)),
            "--late-event" => set(&mut faults.late_event, duration(text)),
            "--skip-on-resume" => set(&mut faults.skip_on_resume, share(text)),
            "--early-bookmark" => set(&mut faults.early_bookmark, share(text)),
            "--stale-after-compaction" => set(&mut faults.stale_after_compaction, share(text)),
            "--grant-twice" => set(&mut faults.grant_twice, share(text)),
            "--same-token" => set(&mut faults.same_token, share(text)),
            "--half-transaction" => set(&mut faults.half_transaction, share(text)),
            "--dirty-transaction" => set(&mut faults.dirty_transaction, share(text)),
            "--drop-watchers" => set(&mut faults.drop_watchers, duration(text)),
            "--history" => set(&mut self.history, size(text).map(|bytes| bytes as usize)),
            "--answer" => match text.parse() {
                Ok(size) if size <= ANSWER_MAX => set(&mut self.answer, Ok(Some(size))),
                _ => Err(ValueProblem::AnswerSize),
            },
            "--truth" => {
                set(&mut self.shape, Shape::parse(text).map(Some).map_err(ValueProblem::Shape))
            }
            "--truth-order" => match text {
                "random" => set(&mut self.order, Ok(Some(Order::Random))),
                "cycle" => set(&mut self.order, Ok(Some(Order::Cycle))),
                _ => Err(ValueProblem::Neither("random", "cycle")),
            },
            "--truth-spin" => set(&mut self.spin, duration(text).map(Some)),
            _ => return None,
        })
    }

    /// Combines and checks all options.
    fn options(self, data: Option<PathBuf>) -> Result<Options, OptionsError> {
        let Self { listen, first, durability, faults, answer, history, shape, order, spin } = self;
        let listen = listen.ok_or(OptionsError::Missing("--listen"))?;
        let data = data.ok_or(OptionsError::Missing("--data"))?;
        if shape.is_none() && (order.is_some() || spin.is_some()) {
            return Err(OptionsError::NoTruth);
        }
        let truth = shape.map(|shape| Truth {
            shape,
            order: order.unwrap_or(Order::Random),
            spin: spin.unwrap_or(SPIN),
        });
        let options = Options { listen, first, data, durability, faults, truth, answer, history };
        options.check()?;
        Ok(options)
    }
}

/// Error of a command line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OptionsError {
    #[error("unknown option `{}`", .0.display())]
    Unknown(OsString),
    #[error("`{0}` needs a value")]
    NoValue(String),
    #[error("`{name}`: {value:?} is not UTF-8")]
    NotUtf8 { name: String, value: OsString },
    #[error("`{name}`: `{value}` {problem}")]
    Value {
        name: String,
        value: String,
        #[source]
        problem: ValueProblem,
    },
    #[error("`{0}` is missing")]
    Missing(&'static str),
    #[error("`--truth-order` and `--truth-spin` need `--truth`")]
    NoTruth,
    /// `--listen` with an unspecified address, which other machines could reach.
    #[error("`--listen`: `{0}` is every address of this machine; name one, such as 127.0.0.1")]
    AllAddresses(IpAddr),
    #[error(transparent)]
    Faults(TooManyFaults),
}

/// Error of an option's value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueProblem {
    #[error("is not an address with a port")]
    NoAddress,
    #[error("is not a number")]
    NoNumber,
    #[error("is not a share: write `1%`, or a number from 0 to 1")]
    NoShare,
    #[error("is not a duration: write `5ms` or `1.5s`")]
    NoDuration,
    #[error("is neither `{0}` nor `{1}`")]
    Neither(&'static str, &'static str),
    #[error("is not a number of bytes up to {ANSWER_MAX}")]
    AnswerSize,
    #[error("is not a size up to {}", ByteCount(HOLD_MAX))]
    HeldSize,
    #[error(transparent)]
    Shape(ShapeError),
}

fn set<T>(to: &mut T, value: Result<T, ValueProblem>) -> Result<(), ValueProblem> {
    *to = value?;
    Ok(())
}

fn address(text: &str) -> Result<SocketAddr, ValueProblem> {
    text.parse().map_err(|_| ValueProblem::NoAddress)
}

/// Parses `1%` or `0.01`.
fn share(text: &str) -> Result<f64, ValueProblem> {
    units::parse_share(text).map_err(|_| ValueProblem::NoShare)
}

/// Parses `64MiB`, at most [`HOLD_MAX`].
fn size(text: &str) -> Result<u64, ValueProblem> {
    match text.parse::<ByteCount>() {
        Ok(ByteCount(bytes)) if bytes <= HOLD_MAX => Ok(bytes),
        _ => Err(ValueProblem::HeldSize),
    }
}

/// Parses `5ms`, `1.5s` or `1m30s`.
fn duration(text: &str) -> Result<Duration, ValueProblem> {
    units::parse_duration(text).map_err(|_| ValueProblem::NoDuration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        let words = text.split_whitespace().map(OsString::from);
        Options::parse(words).map_err(|error| error.to_string())
    }

    #[test]
    fn canary_is_honest_and_syncs_by_default() {
        let options = parse("--listen 127.0.0.1:1 --data d").unwrap();
        assert_eq!(options.durability, Durability::SyncEachWrite);
        assert_eq!(options.faults, Faults { delay_share: 1.0, ..Faults::default() });
    }

    #[test]
    fn parses_options_with_their_units() {
        let text = "--listen [::1]:2 --data=d --sync none --lose 1% --stale=0.5 --delay 5ms \
                    --delay-share 10% --stall 1s --stall-after 2s --die-after 1.5s --seed 9";
        let options = parse(text).unwrap();
        let faults = options.faults;
        assert_eq!((faults.lose, faults.stale, faults.delay_share), (0.01, 0.5, 0.1));
        assert_eq!(faults.delay, Duration::from_millis(5));
        assert_eq!((faults.stall.as_secs(), faults.stall_after.as_secs()), (1, 2));
        assert_eq!(faults.die_after, Some(Duration::from_millis(1500)));
        let minutes = parse("--listen [::1]:2 --data=d --delay 1m30s").unwrap().faults.delay;
        assert_eq!(minutes.as_secs(), 90, "as a study may write it");
        assert_eq!((faults.seed, options.durability), (9, Durability::PageCache));
        assert_eq!(options.history, HISTORY);
        let history = parse("--listen [::1]:2 --data=d --history 4KiB").unwrap().history;
        assert_eq!(history, 4096);
    }

    #[test]
    fn truth_is_random_with_a_short_spin_by_default() {
        let truth = |more: &str| parse(&format!("--listen [::1]:2 --data=d {more}")).unwrap().truth;
        assert_eq!(truth(""), None);
        let shape = || Shape::Uniform { from: 0.002, to: 0.04 };
        let plain = Truth { shape: shape(), order: Order::Random, spin: SPIN };
        assert_eq!(truth("--truth uniform:2ms,40ms"), Some(plain));
        let given = truth("--truth-order cycle --truth-spin 1ms --truth uniform:2ms,40ms").unwrap();
        assert_eq!((given.order, given.spin), (Order::Cycle, Duration::from_millis(1)));
    }

    #[test]
    fn rejects_bad_options_by_name() {
        let good = "--listen 127.0.0.1:1 --data d";
        let fails = |more: &str, message: &str| {
            let error = parse(&format!("{good} {more}")).unwrap_err();
            assert!(error.contains(message), "{more}: {error}");
        };
        fails("--lose 101%", "`--lose`: `101%` is not a share");
        fails("--lose NaN", "is not a share");
        fails("--delay 5", "`--delay`: `5` is not a duration");
        fails("--delay -5ms", "is not a duration");
        fails("--speed 5", "unknown option `--speed`");
        fails("--sync", "needs a value");
        fails("--sync maybe", "is neither");
        fails("--listen 0.0.0.0:80", "`0.0.0.0` is every address of this machine");
        fails("--listen [::]:80", "`::` is every address");
        assert!(parse("--listen 192.0.2.1:80 --data d").is_ok(), "a machine of a run");
        fails("--error 60% --refuse 60%", "add up to 120.0 %");
        fails("--lose-event 60% --swap-events 60%", "events add up to 120.0 %");
        fails("--truth normal:5ms", "`--truth`: `normal:5ms` is not a distribution");
        fails("--truth constant:5ms --truth-order up", "is neither `random` nor `cycle`");
        fails("--truth-order cycle", "need `--truth`");
        fails("--hold 2GiB", "`--hold`: `2GiB` is not a size up to 1 GiB");
        fails("--answer -1", "`--answer`: `-1` is not a number of bytes");
        fails("--answer 1048577", "is not a number of bytes up to 1048576");
        assert!(parse("--data d").unwrap_err().contains("`--listen` is missing"));
    }
}
