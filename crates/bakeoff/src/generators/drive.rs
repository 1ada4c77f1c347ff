//! The coordinator's side: gives each generator its share, has all begin at one moment, adds up what they measured.
//!
//! All or none: a generator that is lost, or begins late, makes the trial not valid. What the others measured without
//! it would be another load.
//!
//! Not here: what a generator does (`serve`), the orders (`order`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bakeoff_agent::{AgentError, Exchange, Incoming, LoadLine, Offset, read_json};
use bakeoff_clock as clock;
use bakeoff_core::histogram::HistogramError;
use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::GeneratorPart;
use bakeoff_core::schedule::LoadShare;
use bakeoff_engine::Live;
use serde::de::DeserializeOwned;

use super::order::{
    AcknowledgedTold, HttpTold, KeysOrder, Order, ReadBackTold, StageOrder, StageTold, To, answers,
    open, tell_to_stop,
};
use super::requests::{AnswersTold, HttpOrder};
use crate::machines::{Machine, Machines};
use crate::systems::carried::CarriedAccess;
use crate::systems::{Access, System, SystemError};

/// How often all generators are listened to.
const LISTEN_EVERY: Duration = Duration::from_millis(5);
/// How far ahead the beginning is set, besides what messages take.
const AHEAD: Duration = Duration::from_millis(30);
/// How long after being told to stop a generator may go on: an operation's timeout, and adding up.
const STOPS_WITHIN: Duration = Duration::from_secs(60);

/// The generators of a run.
#[derive(Clone, Copy)]
pub(crate) struct Generators<'a> {
    machines: &'a Machines,
    pub(crate) threads: u32,
}

/// A stage as all generators drove it.
pub(crate) struct StageDriven {
    pub(crate) measurement: Measurement,
    pub(crate) next_ticket: u64,
    /// When it was to begin, by this machine's clock.
    pub(crate) start: Instant,
    /// Each generator's part, in the order of the places file.
    pub(crate) parts: Vec<GeneratorPart>,
}

/// A load of requests as all generators drove it.
pub(crate) struct HttpDriven {
    pub(crate) measurement: Measurement,
    pub(crate) answers: AnswersTold,
    /// Each generator's part, in the order of the places file.
    pub(crate) parts: Vec<GeneratorPart>,
}

/// A load as each generator told of it, in the order of the places file.
struct Driven {
    heard: Heard,
    /// Clients of the whole load.
    clients: u32,
    open: Vec<Exchange>,
}

impl Driven {
    /// Reads the answers one after another, each with how its clock stands to ours: no two are in memory as
    /// distributions, so that a coordinator's memory does not grow by some megabytes with each generator.
    fn each<T: DeserializeOwned>(
        self,
    ) -> impl Iterator<Item = Result<(Seen, T), GeneratorError>> + use<T> {
        let Self { heard: Heard { offsets, answers, .. }, clients, open } = self;
        let of = answers.len() as u32;
        let all = open.into_iter().zip(offsets).zip(answers);
        (0..).zip(all).map(move |(index, ((exchange, offset), answer))| {
            let clients = LoadShare { index, of }.count(clients.into()) as u32;
            Ok((Seen { clients, offset }, exchange.read_answer(&answer)?))
        })
    }
}

/// The answers of a load's generators, unread.
struct Heard {
    /// When the load was to begin, by this machine's clock.
    start: Instant,
    offsets: Vec<Offset>,
    /// As they came: what a generator measured takes a tenth of the memory so.
    answers: Vec<Vec<u8>>,
}

/// The coordinator's knowledge of a generator that drove its share.
struct Seen {
    clients: u32,
    offset: Offset,
}

impl Seen {
    fn part(&self, told: &StageTold) -> GeneratorPart {
        GeneratorPart {
            clients: self.clients,
            verified: told.measurement.verified(),
            errors: told.measurement.error_count(),
            late_us: told.began.saturating_sub(told.asked) as f64 / 1e3,
            clock_error_us: self.offset.error.as_secs_f64() * 1e6,
            cpu: told.measurement.generator_cpu,
            busiest: told.measurement.generator_busiest,
            cpus: told.kept.cpus.clone(),
            not_apart: told.kept.not_apart.clone(),
        }
    }
}

/// Adds up what all measured.
#[derive(Default)]
struct Sum(Option<Measurement>);

impl Sum {
    fn add(&mut self, told: Measurement) -> Result<(), GeneratorError> {
        match &mut self.0 {
            Some(all) => all.add_share(&told).map_err(GeneratorError::Histogram),
            None => {
                self.0 = Some(told);
                Ok(())
            }
        }
    }

    fn whole(self) -> Measurement {
        self.0.unwrap_or_default()
    }
}

/// Why a share was not driven.
#[derive(Debug)]
pub(crate) enum GeneratorError {
    /// A machine is lost, or refused.
    Agent(AgentError),
    /// The user wants the end.
    Interrupted,
    /// Fewer clients than generators.
    FewClients { clients: u32, generators: usize },
    /// A distribution that came is none.
    Histogram(HistogramError),
    /// Access to nodes cannot be taken along.
    Access(SystemError),
}

impl fmt::Display for GeneratorError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(error) => error.fmt(to),
            Self::Interrupted => write!(to, "interrupted"),
            Self::FewClients { clients, generators } => write!(
                to,
                "{clients} clients cannot be shared by {generators} generators: each needs one"
            ),
            Self::Histogram(error) => write!(to, "a generator's figures cannot be read: {error}"),
            Self::Access(error) => error.fmt(to),
        }
    }
}

impl std::error::Error for GeneratorError {}

impl From<AgentError> for GeneratorError {
    fn from(error: AgentError) -> Self {
        match error.is_interruption() {
            true => Self::Interrupted,
            false => Self::Agent(error),
        }
    }
}

impl<'a> Generators<'a> {
    /// The generators of a run's machines; `threads` is the number of threads of each.
    pub(crate) fn new(machines: &'a Machines, threads: u32) -> Self {
        Self { machines, threads }
    }

    fn each(&self) -> Vec<&'a Machine> {
        self.machines.generators()
    }

    /// Returns the number of generators.
    pub(crate) fn count(&self) -> u32 {
        self.each().len() as u32
    }

    /// Returns where clients connect to, as generators are told.
    ///
    /// # Errors
    /// When access cannot be taken along.
    pub(crate) fn to(
        &self,
        system: &dyn System,
        nodes: &[Access],
        resumed: bool,
    ) -> Result<To, GeneratorError> {
        let carried = nodes.iter().map(|node| CarriedAccess::new(system, node, resumed));
        Ok(To {
            system: system.declares().kind.name.to_owned(),
            nodes: carried.collect::<Result<_, _>>().map_err(GeneratorError::Access)?,
            threads: self.threads,
        })
    }

    /// Begins a trial: each generator gets its share of the keys.
    ///
    /// # Errors
    /// When a machine is lost.
    pub(crate) fn begin(&self, order: &KeysOrder) -> Result<(), GeneratorError> {
        let of = self.count();
        let orders = (0..of).map(|index| {
            Order::Keys(Box::new(KeysOrder { share: LoadShare { index, of }, ..order.clone() }))
        });
        self.ask::<()>(orders, &AtomicBool::new(false)).map(drop)
    }

    /// Has all keys written, each by its owner.
    ///
    /// # Errors
    /// When a machine is lost, or the user wants the end.
    pub(crate) fn fill(
        &self,
        to: &To,
        clients: u32,
        timeout: Duration,
        stop: &AtomicBool,
    ) -> Result<Measurement, GeneratorError> {
        let timeout_ms = timeout.as_millis() as u64;
        let order = || Order::Fill { to: to.clone(), clients, timeout_ms };
        let mut all = Sum::default();
        self.ask_each((0..self.count()).map(|_| order()), stop, &mut |told| all.add(told))?;
        Ok(all.whole())
    }

    /// Returns how many keys have acknowledged writes, and one in how many keys is remembered.
    ///
    /// # Errors
    /// When a machine is lost.
    pub(crate) fn acknowledged(&self) -> Result<AcknowledgedTold, GeneratorError> {
        let orders = (0..self.count()).map(|_| Order::Acknowledged);
        let told: Vec<AcknowledgedTold> = self.ask(orders, &AtomicBool::new(false))?;
        let stride = told.iter().map(|one| one.stride).max().unwrap_or(1);
        Ok(AcknowledgedTold { keys: told.iter().map(|one| one.keys).sum(), stride })
    }

    /// Has what was acknowledged read back, by those who wrote it; `keys_max` keys at most, all together.
    ///
    /// # Errors
    /// When a machine is lost, or nothing can be read.
    pub(crate) fn read_back(
        &self,
        to: &To,
        keys_max: u64,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<ReadBackTold, GeneratorError> {
        let of = self.count();
        let part = |index: u32| LoadShare { index, of }.count(keys_max);
        let orders =
            (0..of).map(|index| Order::ReadBack { to: to.clone(), keys_max: part(index), seed });
        let mut told: Vec<ReadBackTold> = self.ask(orders, stop)?;
        let mut all = told.remove(0);
        for one in told {
            all.asked += one.asked;
            all.claimed += one.claimed;
            all.interrupted |= one.interrupted;
            all.errors.extend(one.errors);
            all.findings.read += one.findings.read;
            all.findings.lost += one.findings.lost;
            all.findings.wrong += one.findings.wrong;
            all.findings.older += one.findings.older;
            all.findings.examples.extend(one.findings.examples);
        }
        Ok(all)
    }

    /// Drives a stage: all begin at one moment. `begun` is called then.
    ///
    /// # Errors
    /// When a machine is lost, a client cannot connect, or the user wants the end before it begins.
    pub(crate) fn stage(
        &self,
        order: &StageOrder,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&Live),
        begun: &mut dyn FnMut(Instant),
    ) -> Result<StageDriven, GeneratorError> {
        let orders = (0..self.count()).map(|_| Order::Stage(Box::new(order.clone())));
        let driven = self.drive(order.clients, orders, interrupted, progress, begun)?;
        let start = driven.heard.start;
        let (mut all, mut parts, mut next_ticket) = (Sum::default(), Vec::new(), 0);
        for told in driven.each::<StageTold>() {
            let (seen, told) = told?;
            parts.push(seen.part(&told));
            next_ticket = next_ticket.max(told.next_ticket);
            all.add(told.measurement)?;
        }
        Ok(StageDriven { measurement: all.whole(), next_ticket, start, parts })
    }

    /// Drives a load of requests: all begin at one moment. `begun` is called then.
    ///
    /// # Errors
    /// When a machine is lost, a client cannot connect, or the user wants the end before it begins.
    pub(crate) fn http(
        &self,
        order: &HttpOrder,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&Live),
        begun: &mut dyn FnMut(Instant),
    ) -> Result<HttpDriven, GeneratorError> {
        let of = self.count();
        let order_of = |index| Order::Http(Box::new(order.of_share(LoadShare { index, of })));
        let orders = (0..of).map(order_of);
        let driven = self.drive(order.clients, orders, interrupted, progress, begun)?;
        let (mut all, mut parts, mut answers) =
            (Sum::default(), Vec::new(), AnswersTold::default());
        for told in driven.each::<HttpTold>() {
            let (seen, told) = told?;
            parts.push(seen.part(&told.stage));
            answers.add(&told.answers);
            all.add(told.stage.measurement)?;
        }
        Ok(HttpDriven { measurement: all.whole(), answers, parts })
    }

    /// Returns the names of the machines, in the order of the places file.
    pub(crate) fn names(&self) -> Vec<String> {
        self.each().iter().map(|machine| machine.agent.machine().to_owned()).collect()
    }

    /// Gives orders for one load, which all begin at one moment, and waits for its end.
    fn drive(
        &self,
        clients: u32,
        orders: impl Iterator<Item = Order>,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&Live),
        begun: &mut dyn FnMut(Instant),
    ) -> Result<Driven, GeneratorError> {
        let machines = self.each();
        if (clients as usize) < machines.len() {
            return Err(GeneratorError::FewClients { clients, generators: machines.len() });
        }
        let open = open(machines.iter().map(|machine| &*machine.agent), orders)?;
        let heard = self.begin_and_listen(&machines, &open, interrupted, progress, begun);
        if heard.is_err() {
            tell_to_stop(&open);
        }
        Ok(Driven { heard: heard?, clients, open })
    }

    fn begin_and_listen(
        &self,
        machines: &[&Machine],
        open: &[Exchange],
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&Live),
        begun: &mut dyn FnMut(Instant),
    ) -> Result<Heard, GeneratorError> {
        for exchange in open {
            connected(exchange, interrupted)?;
        }
        let offsets: Vec<Offset> =
            machines.iter().map(|one| one.agent.offset()).collect::<Result<_, _>>()?;
        let slowest = offsets.iter().map(|offset| offset.error).max().unwrap_or_default();
        let start = clock::now() + AHEAD + slowest * 8;
        for (exchange, offset) in open.iter().zip(&offsets) {
            exchange.tell(&LoadLine::Begin(offset.theirs(start)))?;
        }
        begun(start);
        let mut told: Vec<Option<Vec<u8>>> = open.iter().map(|_| None).collect();
        let mut lives = Lives::new(open.len());
        let mut stopped_at: Option<Instant> = None;
        while told.iter().any(Option::is_none) {
            self.all_are_there()?;
            if interrupted.load(Ordering::Relaxed) && stopped_at.is_none() {
                stopped_at = Some(clock::now());
                for exchange in open {
                    exchange.tell(&LoadLine::Stop)?;
                }
            }
            if stopped_at.is_some_and(|at| at.elapsed() > STOPS_WITHIN) {
                return Err(GeneratorError::Interrupted);
            }
            let waiting = open.iter().zip(&mut told).enumerate();
            for (place, (exchange, told)) in waiting.filter(|(_, (_, told))| told.is_none()) {
                match exchange.next_within(LISTEN_EVERY)? {
                    None => {}
                    Some(Incoming::Note(note)) => {
                        if let Ok(LoadLine::Live(live)) = read_json(&note)
                            && let Ok(live) = serde_json::from_value::<Live>(live)
                            && let Some(all) = lives.add(place, live)
                        {
                            progress(&all);
                        }
                    }
                    Some(Incoming::Answer(body)) => *told = Some(body),
                    Some(Incoming::Refusal(refusal)) => {
                        return Err(exchange.refused(refusal).into());
                    }
                    Some(Incoming::Data(_) | Incoming::End) => {}
                }
            }
        }
        Ok(Heard { start, offsets, answers: told.into_iter().flatten().collect() })
    }

    /// Asks each for something of its own, all at once, and returns the answers in their order.
    fn ask<T: DeserializeOwned>(
        &self,
        orders: impl Iterator<Item = Order>,
        stop: &AtomicBool,
    ) -> Result<Vec<T>, GeneratorError> {
        let mut all = Vec::new();
        self.ask_each(orders, stop, &mut |told| {
            all.push(told);
            Ok(())
        })?;
        Ok(all)
    }

    /// The same with one answer in memory at a time.
    fn ask_each<T: DeserializeOwned>(
        &self,
        orders: impl Iterator<Item = Order>,
        stop: &AtomicBool,
        take: &mut dyn FnMut(T) -> Result<(), GeneratorError>,
    ) -> Result<(), GeneratorError> {
        let open = open(self.each().iter().map(|machine| &*machine.agent), orders)?;
        let look = || self.all_are_there();
        let taken = answers(&open, stop, &look, &mut |told: Result<T, AgentError>| take(told?));
        if taken.is_err() {
            tell_to_stop(&open);
        }
        taken
    }

    /// Returns the loss of any machine, a server's too: what is driven without it is another load.
    fn all_are_there(&self) -> Result<(), GeneratorError> {
        self.machines.lost().map_or(Ok(()), |lost| Err(lost.clone().into()))
    }
}

/// Waits until a generator's clients are connected.
fn connected(exchange: &Exchange, interrupted: &AtomicBool) -> Result<(), GeneratorError> {
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return Err(GeneratorError::Interrupted);
        }
        match exchange.next_within(LISTEN_EVERY * 4)? {
            Some(Incoming::Note(note)) => {
                if let Ok(LoadLine::Connected) = read_json(&note) {
                    return Ok(());
                }
            }
            Some(Incoming::Refusal(refusal)) => return Err(exchange.refused(refusal).into()),
            _ => {}
        }
    }
}

/// The seconds of which not all generators have told.
struct Lives {
    of: usize,
    open: BTreeMap<u32, Vec<(usize, Live)>>,
}

impl Lives {
    fn new(of: usize) -> Self {
        Self { of, open: BTreeMap::new() }
    }

    /// Adds what one told of a second; returns the whole once all have. Percentiles of several distributions have no
    /// sum: the highest is told.
    fn add(&mut self, place: usize, live: Live) -> Option<Live> {
        let second = live.second;
        let told = self.open.entry(second).or_default();
        told.push((place, live));
        if told.len() < self.of {
            return None;
        }
        let told = self.open.remove(&second)?;
        let mut told = told.into_iter().map(|(_, live)| live);
        let mut all = told.next()?;
        for one in told {
            all.verified += one.verified;
            all.errors += one.errors;
            all.busy = all.busy.max(one.busy);
            let later = |ours, theirs| crate::trial::split_load::slower(ours, theirs);
            all.p50 = later(all.p50, one.p50);
            all.p99 = later(all.p99, one.p99);
            all.max = later(all.max, one.max);
        }
        Some(all)
    }
}
