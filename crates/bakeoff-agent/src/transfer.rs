//! Reports transfers to machines: what is sent, how large it is, and how far it has come.
//!
//! A slow connection takes a minute for bakeoff and its programs. Users must see that something happens, and what it costs.
//!
//! Not here: printing (the binary's `messages`), connections (`carrier`, `client`).

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;

/// Smallest transfer to report, in bytes.
const LEAST: u64 = 1 << 20;
/// Interval between reports of one transfer.
const EVERY: Duration = Duration::from_secs(5);

/// State of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferState {
    /// It begins.
    Begun,
    /// A part is sent.
    UnderWay {
        /// Bytes sent, before compression.
        done: u64,
        /// Time since the beginning.
        took: Duration,
    },
    /// All is sent.
    Ended {
        /// Bytes that went over the connection.
        carried: u64,
        /// Time since the beginning.
        took: Duration,
    },
}

/// A transfer to a machine.
#[derive(Debug, Clone, Copy)]
pub struct Transfer<'a> {
    /// Name of the machine.
    pub machine: &'a str,
    /// Name of what is sent: `bakeoff`, `etcd`.
    pub what: &'a str,
    /// Bytes to send, before compression.
    pub total: u64,
    /// State.
    pub state: TransferState,
}

static PRINTER: OnceLock<fn(&Transfer<'_>)> = OnceLock::new();

/// Sets the function that shows transfers. Only the first call counts; earlier transfers are not shown.
pub fn report_by(printer: fn(&Transfer<'_>)) {
    PRINTER.get_or_init(|| printer);
}

/// Counts the bytes of a transfer and reports it.
pub struct Meter<'a> {
    machine: &'a str,
    what: &'a str,
    total: u64,
    done: u64,
    carried: u64,
    began: Instant,
    reported: Instant,
}

impl<'a> Meter<'a> {
    /// Begins a transfer of `total` bytes before compression.
    pub fn begin(machine: &'a str, what: &'a str, total: u64) -> Self {
        let now = clock::now();
        let meter = Self { machine, what, total, done: 0, carried: 0, began: now, reported: now };
        meter.report(TransferState::Begun);
        meter
    }

    /// Counts sent bytes: their number before compression, and over the connection.
    pub fn sent(&mut self, done: u64, carried: u64) {
        self.done += done;
        self.carried += carried;
        if self.reported.elapsed() >= EVERY {
            self.reported = clock::now();
            let took = self.began.elapsed();
            self.report(TransferState::UnderWay { done: self.done, took });
        }
    }

    /// Ends the transfer.
    pub fn end(self) {
        let took = self.began.elapsed();
        self.report(TransferState::Ended { carried: self.carried, took });
    }

    fn report(&self, state: TransferState) {
        let Self { machine, what, total, .. } = *self;
        if let Some(printer) = PRINTER.get().filter(|_| total >= LEAST) {
            printer(&Transfer { machine, what, total, state });
        }
    }
}
