//! The canary's command line.
//!
//! By hand and not by clap: only bakeoff calls it, and its errors go to a log.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bakeoff_core::units;

use super::Faults;
use super::truth::{Order, Shape, Truth};

/// The options of a canary.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Options {
    /// A loopback address; port 0 lets the kernel choose.
    pub(crate) listen: SocketAddr,
    /// The node that has the store, when it is another.
    pub(crate) first: Option<SocketAddr>,
    /// The folder of its log; a further node has none.
    pub(crate) data: PathBuf,
    /// The moment at which a write is on disk.
    pub(crate) durability: Durability,
    /// Its faults.
    pub(crate) faults: Faults,
    /// The distribution of `/truth`, if there is one.
    pub(crate) truth: Option<Truth>,
    /// The size of its answer to any other request, in bytes, if it gives one.
    pub(crate) answer: Option<usize>,
}

/// The longest such answer.
const ANSWER_MAX: usize = 1 << 20;

/// Short enough to cost little, long enough for most machines to wake up in.
const SPIN: Duration = Duration::from_micros(100);

/// The moment at which a write is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Before it is acknowledged; writes that arrive together share one sync.
    SyncEachWrite,
    /// Whenever the kernel writes it: a crash of the process loses nothing, one of the machine may.
    PageCache,
}

impl Options {
    pub(super) fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let (mut listen, mut data, mut durability) = (None, None, Durability::SyncEachWrite);
        let (mut first, mut answer) = (None, None);
        let mut faults = Faults { delay_share: 1.0, ..Faults::default() };
        let (mut shape, mut order, mut spin) = (None, None, None);
        let mut args = args;
        while let Some(arg) = args.next() {
            let arg = arg.into_string().map_err(|arg| format!("unknown option {arg:?}"))?;
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name, OsString::from(value)),
                None => (&*arg, args.next().ok_or_else(|| format!("`{arg}` lacks a value"))?),
            };
            if name == "--data" {
                data = Some(PathBuf::from(value));
                continue;
            }
            let text = value.to_str().ok_or_else(|| format!("`{name}`: {value:?} is not UTF-8"))?;
            let read = match name {
                "--listen" => text
                    .parse()
                    .map(|address| listen = Some(address))
                    .map_err(|_| "is not an address with a port".to_owned()),
                "--first" => text
                    .parse()
                    .map(|address| first = Some(address))
                    .map_err(|_| "is not an address with a port".to_owned()),
                "--sync" => match text {
                    "each" => set(&mut durability, Ok(Durability::SyncEachWrite)),
                    "none" => set(&mut durability, Ok(Durability::PageCache)),
                    _ => Err("is neither `each` nor `none`".into()),
                },
                "--seed" => set(&mut faults.seed, text.parse().map_err(|_| "is no number".into())),
                "--lose" => set(&mut faults.lose, share(text)),
                "--lose-on-restart" => set(&mut faults.lose_on_restart, share(text)),
                "--write-every" => set(&mut faults.write_every, duration(text)),
                "--corrupt" => set(&mut faults.corrupt, share(text)),
                "--truncate" => set(&mut faults.truncate, share(text)),
                "--stale" => set(&mut faults.stale, share(text)),
                "--old" => set(&mut faults.old, duration(text)),
                "--refuse" => set(&mut faults.refuse, share(text)),
                "--error" => set(&mut faults.error, share(text)),
                "--error-after" => set(&mut faults.error_after, duration(text)),
                "--complain" => set(&mut faults.complain, share(text)),
                "--garbage" => set(&mut faults.garbage, share(text)),
                "--delay" => set(&mut faults.delay, duration(text)),
                "--delay-share" => set(&mut faults.delay_share, share(text)),
                "--stall" => set(&mut faults.stall, duration(text)),
                "--stall-after" => set(&mut faults.stall_after, duration(text)),
                "--slow-start" => set(&mut faults.slow_start, duration(text)),
                "--warm-up" => set(&mut faults.warm_up, duration(text)),
                "--die-after" => set(&mut faults.die_after, duration(text).map(Some)),
                "--answer" => match text.parse() {
                    Ok(size) if size <= ANSWER_MAX => set(&mut answer, Ok(Some(size))),
                    _ => Err(format!("is no number of bytes up to {ANSWER_MAX}")),
                },
                "--truth" => set(&mut shape, Shape::parse(text).map(Some)),
                "--truth-order" => match text {
                    "random" => set(&mut order, Ok(Some(Order::Random))),
                    "cycle" => set(&mut order, Ok(Some(Order::Cycle))),
                    _ => Err("is neither `random` nor `cycle`".into()),
                },
                "--truth-spin" => set(&mut spin, duration(text).map(Some)),
                _ => return Err(format!("unknown option `{name}`")),
            };
            read.map_err(|problem| format!("`{name}`: `{text}` {problem}"))?;
        }
        let listen: SocketAddr = listen.ok_or("`--listen` is missing")?;
        let data = data.ok_or("`--data` is missing")?;
        let truth = shape.map(|shape| Truth {
            shape,
            order: order.unwrap_or(Order::Random),
            spin: spin.unwrap_or(SPIN),
        });
        if truth.is_none() && (order.is_some() || spin.is_some()) {
            return Err("`--truth-order` and `--truth-spin` need `--truth`".into());
        }
        let options = Self { listen, first, data, durability, faults, truth, answer };
        options.check()?;
        Ok(options)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if !self.listen.ip().is_loopback() {
            return Err(format!("`--listen`: `{}` is not a loopback address", self.listen.ip()));
        }
        self.faults.check()
    }
}

fn set<T>(to: &mut T, value: Result<T, String>) -> Result<(), String> {
    *to = value?;
    Ok(())
}

/// `1%` or `0.01`, as studies write it.
fn share(text: &str) -> Result<f64, String> {
    units::parse_share(text).map_err(|_| "is no share: `1%`, or a number from 0 to 1".into())
}

/// `5ms`, `1.5s`, `1m30s`, as studies write it.
fn duration(text: &str) -> Result<Duration, String> {
    units::parse_duration(text).map_err(|_| "is no duration: `5ms`, `1.5s`".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(text.split_whitespace().map(OsString::from))
    }

    #[test]
    fn a_canary_is_honest_and_syncs_unless_told_otherwise() {
        let options = parse("--listen 127.0.0.1:1 --data d").unwrap();
        assert_eq!(options.durability, Durability::SyncEachWrite);
        assert_eq!(options.faults, Faults { delay_share: 1.0, ..Faults::default() });
    }

    #[test]
    fn flags_are_read_with_their_units() {
        let text = "--listen [::1]:2 --data=d --sync none --lose 1% --stale=0.5 --delay 5ms \
                    --delay-share 10% --stall 1s --stall-after 2s --die-after 1.5s --seed 9";
        let options = parse(text).unwrap();
        let faults = options.faults;
        assert_eq!((faults.lose, faults.stale, faults.delay_share), (0.01, 0.5, 0.1));
        assert_eq!(faults.delay, Duration::from_millis(5));
        assert_eq!((faults.stall.as_secs(), faults.stall_after.as_secs()), (1, 2));
        assert_eq!(faults.die_after, Some(Duration::from_millis(1500)));
        let minutes = parse("--listen [::1]:2 --data=d --delay 1m30s").unwrap().faults.delay;
        assert_eq!(minutes.as_secs(), 90, "what a study may say");
        assert_eq!((faults.seed, options.durability), (9, Durability::PageCache));
    }

    #[test]
    fn a_truth_is_random_and_told_with_a_short_spin_unless_told_otherwise() {
        let truth = |more: &str| parse(&format!("--listen [::1]:2 --data=d {more}")).unwrap().truth;
        assert_eq!(truth(""), None);
        let shape = || Shape::Uniform { from: 0.002, to: 0.04 };
        let plain = Truth { shape: shape(), order: Order::Random, spin: SPIN };
        assert_eq!(truth("--truth uniform:2ms,40ms"), Some(plain));
        let told = truth("--truth-order cycle --truth-spin 1ms --truth uniform:2ms,40ms").unwrap();
        assert_eq!((told.order, told.spin), (Order::Cycle, Duration::from_millis(1)));
    }

    #[test]
    fn bad_flags_are_refused_by_name() {
        let good = "--listen 127.0.0.1:1 --data d";
        let fails = |more: &str, message: &str| {
            let error = parse(&format!("{good} {more}")).unwrap_err();
            assert!(error.contains(message), "{more}: {error}");
        };
        fails("--lose 101%", "`--lose`: `101%` is no share");
        fails("--lose NaN", "is no share");
        fails("--delay 5", "`--delay`: `5` is no duration");
        fails("--delay -5ms", "is no duration");
        fails("--speed 5", "unknown option `--speed`");
        fails("--sync", "lacks a value");
        fails("--sync maybe", "is neither");
        fails("--listen 192.0.2.1:80", "`192.0.2.1` is not a loopback address");
        fails("--listen 0.0.0.0:80", "is not a loopback address");
        fails("--error 60% --refuse 60%", "add up to 120.0 %");
        fails("--truth normal:5ms", "`--truth`: `normal:5ms` is no distribution");
        fails("--truth constant:5ms --truth-order up", "is neither `random` nor `cycle`");
        fails("--truth-order cycle", "need `--truth`");
        fails("--answer -1", "`--answer`: `-1` is no number of bytes");
        fails("--answer 1048577", "is no number of bytes up to 1048576");
        assert!(parse("--data d").unwrap_err().contains("`--listen` is missing"));
    }
}
