//! All generators of a load: assigns shares, starts all at the same moment, adds up their measurements.
//!
//! If one generator is lost, the trial fails. The others' figures would describe a different load.
//!
//! Not here: one generator's work (`generator`), the halves of a read/write split (`split_load`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use bakeoff_core::linearizability::judged_history::{JudgedHistory, KeptHistory};
use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::GeneratorPart;
use bakeoff_core::schedule::LoadShare;
use bakeoff_engine::LoadProgress;
use bakeoff_engine::watch::WatchDisturbance;
use bakeoff_engine::works::keyed::KeyedState;

use super::error::GeneratorError;
use super::generator::{
    Control, Fill, Generator, GeneratorResult, LazyResult, ReadBackRequest, StageRequest,
    StageResult, Start,
};
use super::history_file::HistoryFile;
use super::local::LocalGenerator;
use super::remote::RemoteGenerator;
use super::split_load::slower;
use crate::machines::fleet::Fleet;
use crate::machines::order::{KeysOrder, LedgerSize, ReadBack};

/// Interval between checks whether to stop a load.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// The generators of a trial, at least one.
pub struct Generators<'a> {
    each: Vec<Box<dyn Generator + 'a>>,
    /// The machines of the run. Losing any of them stops the load.
    fleet: &'a Fleet,
}

/// Callbacks to the coordinator while generators work.
pub struct StageCallbacks<'a> {
    /// Returns true if all generators must stop. Called every 20 ms.
    pub stop: &'a dyn Fn() -> bool,
    /// Receives the combined figures of each second.
    pub progress: &'a mut dyn FnMut(&LoadProgress),
    /// Receives the common start time once it is set.
    pub begun: &'a mut dyn FnMut(Instant),
}

/// A stage as all generators drove it.
pub struct StageTotal {
    /// Sum of all generators' measurements.
    pub measurement: Measurement,
    /// Number of the first operation that was not begun.
    pub next_ticket: u64,
    /// Each generator's part, in the order of the places file.
    pub parts: Vec<GeneratorPart>,
}

impl<'a> Generators<'a> {
    /// Begins a trial with these keys. Without places, this process drives the whole load; otherwise the generators of
    /// the places file share it.
    ///
    /// # Errors
    /// When a machine is lost.
    pub fn begin(
        fleet: &'a Fleet,
        keyed: &Arc<KeyedState>,
        keys: KeysOrder,
    ) -> Result<Self, GeneratorError> {
        let Fleet::Placed(machines) = fleet else {
            let local = LocalGenerator::new(Arc::clone(keyed), keys.workload);
            return Ok(Self { each: vec![Box::new(local)], fleet });
        };
        let all = machines.generators();
        let of = all.len() as u32;
        let begun = all.into_iter().zip(0..).map(|(machine, index)| {
            let one = RemoteGenerator::new(machine, LoadShare { index, of });
            one.begin(&keys)?;
            Ok(Box::new(one) as Box<dyn Generator>)
        });
        Ok(Self { each: begun.collect::<Result<_, GeneratorError>>()?, fleet })
    }

    /// Returns the number of generators.
    pub fn count(&self) -> u32 {
        self.each.len() as u32
    }

    /// Writes all keys, each by its owner.
    ///
    /// # Errors
    /// When a machine is lost, no client can connect, or the user interrupts.
    pub fn fill(
        &self,
        fill: &Fill<'_>,
        meanwhile: StageCallbacks<'_>,
    ) -> Result<Measurement, GeneratorError> {
        let results = together(self.count(), self.fleet, meanwhile, &|place, _, control| {
            self.each[place].fill(fill, control)
        })?;
        let mut all = Sum::default();
        results.into_iter().try_for_each(|one| all.add(one()?))?;
        Ok(all.whole())
    }

    /// Drives a stage.
    ///
    /// # Errors
    /// When a machine is lost, a client cannot connect, or the user interrupts before the stage begins.
    pub fn stage(
        &self,
        stage: &StageRequest<'_>,
        meanwhile: StageCallbacks<'_>,
    ) -> Result<StageTotal, GeneratorError> {
        refuse_few(stage.stage.clients, self.each.len())?;
        let results = together(self.count(), self.fleet, meanwhile, &|place, start, control| {
            self.each[place].stage(stage, start, control)
        })?;
        let (mut all, mut parts, mut next_ticket) = (Sum::default(), Vec::new(), 0);
        for one in results {
            let StageResult { measurement, next_ticket: next, part } = one()?;
            parts.push(part);
            next_ticket = next_ticket.max(next);
            all.add(measurement)?;
        }
        Ok(StageTotal { measurement: all.whole(), next_ticket, parts })
    }

    /// Returns the number of keys with acknowledged writes.
    ///
    /// # Errors
    /// When a machine is lost.
    pub fn acknowledged(&self) -> Result<LedgerSize, GeneratorError> {
        let mut all = LedgerSize { keys: 0, stride: 1 };
        for one in &self.each {
            let ledger = one.acknowledged()?;
            all.keys += ledger.keys;
            all.stride = all.stride.max(ledger.stride);
        }
        Ok(all)
    }

    /// Judges the history of all keys, each by the generator that used it, and ends recording.
    ///
    /// # Errors
    /// When a machine is lost.
    pub fn judge_history(&self) -> Result<JudgedHistory, GeneratorError> {
        let mut all = JudgedHistory::default();
        for one in &self.each {
            all += one.judge_history()?;
        }
        Ok(all.concluded())
    }

    /// Disturbs the watchers of the running load, and returns the evidence.
    ///
    /// # Errors
    /// When the load has no watchers, or their machine is lost.
    pub fn disturb_watchers(&self, how: WatchDisturbance) -> Result<String, GeneratorError> {
        let first = self.each.first().ok_or(GeneratorError::NoWatchers)?;
        first.disturb_watchers(how)
    }

    /// Writes the judged histories of all generators into a file, one operation a line. Creates the file's folder.
    ///
    /// # Errors
    /// When the file cannot be written, or a machine is lost.
    pub fn keep_history(&self, path: &Path) -> Result<KeptHistory, GeneratorError> {
        let mut file = HistoryFile::create(path).map_err(GeneratorError::History)?;
        for one in &self.each {
            one.export_history(Some(&mut file))?;
        }
        file.finish(path).map_err(GeneratorError::History)
    }

    /// Frees the memory of the judged histories.
    ///
    /// # Errors
    /// When a machine is lost.
    pub fn forget_history(&self) -> Result<(), GeneratorError> {
        self.each.iter().try_for_each(|one| one.export_history(None))
    }

    /// Reads back acknowledged keys, each by the generator that wrote it; at most `keys_max` keys in all.
    ///
    /// # Errors
    /// When a machine is lost, or nothing can be read.
    pub fn read_back(
        &self,
        ask: &ReadBackRequest<'_>,
        stop: &AtomicBool,
    ) -> Result<ReadBack, GeneratorError> {
        let of = self.count();
        let meanwhile = StageCallbacks {
            stop: &|| stop.load(Ordering::Relaxed),
            progress: &mut |_| {},
            begun: &mut |_| {},
        };
        let results = together(of, self.fleet, meanwhile, &|place, _, control| {
            let keys_max = LoadShare { index: place as u32, of }.count(ask.keys_max);
            let read =
                self.each[place].read_back(&ReadBackRequest { keys_max, ..*ask }, control.stop)?;
            Ok(Box::new(move || Ok(read)) as LazyResult<ReadBack>)
        })?;
        let mut all = ReadBack::default();
        for one in results {
            let one = one()?;
            all.asked += one.asked;
            all.claimed += one.claimed;
            all.interrupted |= one.interrupted;
            all.errors.extend(one.errors);
            all.findings.read += one.findings.read;
            all.findings.repeated += one.findings.repeated;
            all.findings.lost += one.findings.lost;
            all.findings.wrong += one.findings.wrong;
            all.findings.older += one.findings.older;
            all.findings.examples.extend(one.findings.examples);
        }
        Ok(all)
    }
}

fn refuse_few(clients: u32, generators: usize) -> Result<(), GeneratorError> {
    match (clients as usize) < generators {
        true => Err(GeneratorError::FewClients { clients, generators }),
        false => Ok(()),
    }
}

/// A message from a generator's thread.
enum Line {
    Live(usize, LoadProgress),
    Ended,
}

/// Runs the same work on every generator, each in its own thread. If one fails or a machine is lost, all stop.
fn together<T: Send>(
    generators: u32,
    fleet: &Fleet,
    meanwhile: StageCallbacks<'_>,
    each: &(impl Fn(usize, &Arc<Start>, Control<'_>) -> GeneratorResult<T> + Sync),
) -> Result<Vec<LazyResult<T>>, GeneratorError> {
    let of = generators as usize;
    let stop = &AtomicBool::new(false);
    let (to_begin, begins) = channel();
    let start = &Arc::new(Start::new(of, to_begin));
    let (tell, lines) = channel();
    let StageCallbacks { stop: is_to_stop, progress, begun } = meanwhile;
    std::thread::scope(|scope| {
        let driving: Vec<_> = (0..of)
            .map(|place| {
                let tell = tell.clone();
                scope.spawn(move || {
                    let live = &mut |live: &LoadProgress| {
                        tell.send(Line::Live(place, live.clone())).ok();
                    };
                    let done = each(place, start, Control { stop, live });
                    if done.is_err() {
                        stop.store(true, Ordering::Relaxed);
                        start.fail();
                    }
                    tell.send(Line::Ended).ok();
                    done
                })
            })
            .collect();
        drop(tell);
        let mut lives = OpenSeconds::new(of);
        loop {
            let line = lines.recv_timeout(CHECK_EVERY);
            begins.try_iter().for_each(&mut *begun);
            match line {
                Ok(Line::Live(place, live)) => {
                    lives.add(place, live).iter().for_each(&mut *progress);
                }
                Ok(Line::Ended) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // Without one machine, even a server's, this would be a different load.
            if is_to_stop() || fleet.lost().is_some() {
                stop.store(true, Ordering::Relaxed);
                start.fail();
            }
        }
        let done = driving
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        first_cause(done.collect(), fleet)
    })
}

/// Returns all results, or the original cause of a failure rather than the interrupts that it caused.
fn first_cause<T>(
    done: Vec<GeneratorResult<T>>,
    fleet: &Fleet,
) -> Result<Vec<LazyResult<T>>, GeneratorError> {
    if let Some(lost) = fleet.lost() {
        return Err(lost.clone().into());
    }
    let (mut all, mut why) = (Vec::new(), None);
    for one in done {
        match (one, &why) {
            (Ok(one), _) => all.push(one),
            (Err(error), None | Some(GeneratorError::Interrupted)) => why = Some(error),
            (Err(_), Some(_)) => {}
        }
    }
    why.map_or(Ok(all), Err)
}

/// Adds up the generators' measurements.
#[derive(Default)]
struct Sum(Option<Measurement>);

impl Sum {
    fn add(&mut self, share: Measurement) -> Result<(), GeneratorError> {
        match &mut self.0 {
            Some(all) => all.add_share(&share).map_err(GeneratorError::Histogram),
            None => {
                self.0 = Some(share);
                Ok(())
            }
        }
    }

    fn whole(self) -> Measurement {
        self.0.unwrap_or_default()
    }
}

/// Seconds that not all generators have reported yet.
struct OpenSeconds {
    of: usize,
    open: BTreeMap<u32, Vec<(usize, LoadProgress)>>,
}

impl OpenSeconds {
    fn new(of: usize) -> Self {
        Self { of, open: BTreeMap::new() }
    }

    /// Adds one generator's second. Returns the combined second once all have reported it. Percentiles cannot be added
    /// up, so the highest is used.
    fn add(&mut self, place: usize, live: LoadProgress) -> Option<LoadProgress> {
        let second = live.second;
        let seconds = self.open.entry(second).or_default();
        seconds.push((place, live));
        if seconds.len() < self.of {
            return None;
        }
        let seconds = self.open.remove(&second)?;
        let mut seconds = seconds.into_iter().map(|(_, live)| live);
        let mut all = seconds.next()?;
        for one in seconds {
            all.verified += one.verified;
            all.errors += one.errors;
            all.busy = all.busy.max(one.busy);
            all.p50 = slower(all.p50, one.p50);
            all.p99 = slower(all.p99, one.p99);
            all.max = slower(all.max, one.max);
        }
        Some(all)
    }
}
