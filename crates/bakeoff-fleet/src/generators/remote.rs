//! The generator on another machine: its agent drives, this end gives orders and listens.
//!
//! Not here: the agent's end (`serve`), the orders (`order`), the pipe (`bakeoff_agent`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bakeoff_agent::{Agent, Exchange, Incoming, LoadLine, Offset, read_json};
use bakeoff_clock as clock;
use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::GeneratorPart;
use bakeoff_core::schedule::LoadShare;
use bakeoff_engine::Live;
use bakeoff_systems::Access;
use bakeoff_systems::carried::CarriedAccess;

use super::error::GeneratorError;
use super::generator::{
    Control, Driven, Fill, Generator, Loaded, ReadBackAsk, StageAsk, Start, Told,
};
use crate::machines::Machine;
use crate::machines::order::{KeysOrder, LedgerSize, Order, ReadBack, StageOrder, StageTold, To};
use crate::machines::requests::RequestsOrder;

/// How often it is listened whether somebody wants the end.
const LISTEN_EVERY: Duration = Duration::from_millis(20);
/// How far ahead the beginning is set, besides what messages take.
const AHEAD: Duration = Duration::from_millis(30);
/// How long after being asked to stop a generator may go on: an operation's timeout, and adding up.
const STOPS_WITHIN: Duration = Duration::from_secs(60);

/// Has an agent drive a share of loads.
pub(crate) struct RemoteGenerator<'a> {
    agent: &'a Agent,
    share: LoadShare,
}

/// An answer as it came, and how its machine's clock stands to ours.
struct Heard {
    exchange: Exchange,
    body: Vec<u8>,
    offset: Option<Offset>,
}

impl<'a> RemoteGenerator<'a> {
    pub(crate) fn new(machine: &'a Machine, share: LoadShare) -> Self {
        Self { agent: &machine.agent, share }
    }

    /// Begins a trial: from here on it has its share of these keys.
    ///
    /// # Errors
    /// When its machine is lost.
    pub(crate) fn begin(&self, keys: &KeysOrder) -> Result<(), GeneratorError> {
        let keys = KeysOrder { share: self.share, ..keys.clone() };
        Ok(crate::machines::order::duty(self.agent, &Order::Keys(Box::new(keys)))?)
    }

    /// Returns where clients connect to, as the agent is asked.
    fn to(&self, of: &Loaded<'_>, nodes: &[Access]) -> Result<To, GeneratorError> {
        let carried = nodes.iter().map(|node| CarriedAccess::new(of.system, node, of.resumed));
        Ok(To {
            system: of.system.declares().kind.name.to_owned(),
            nodes: carried.collect::<Result<_, _>>().map_err(GeneratorError::Access)?,
            threads: of.threads,
        })
    }

    /// Gives an order and waits for its answer. Has the agent begin when `start` says, and stop when it should.
    fn give(
        &self,
        order: &Order,
        start: Option<&Start>,
        control: Control<'_>,
    ) -> Result<Heard, GeneratorError> {
        let exchange = self.agent.open(&order.request())?;
        let heard = self.listen(&exchange, start, control);
        if heard.is_err() {
            exchange.tell(&LoadLine::Stop).ok();
        }
        let (body, offset) = heard?;
        Ok(Heard { exchange, body, offset })
    }

    fn listen(
        &self,
        exchange: &Exchange,
        start: Option<&Start>,
        control: Control<'_>,
    ) -> Result<(Vec<u8>, Option<Offset>), GeneratorError> {
        let mut stopped_at: Option<Instant> = None;
        let mut offset = None;
        loop {
            if control.stop.load(Ordering::Relaxed) && stopped_at.is_none() {
                stopped_at = Some(clock::now());
                exchange.tell(&LoadLine::Stop)?;
            }
            if stopped_at.is_some_and(|at| at.elapsed() > STOPS_WITHIN) {
                return Err(GeneratorError::Interrupted);
            }
            match exchange.next_within(LISTEN_EVERY)? {
                Some(Incoming::Note(note)) => match (read_json(&note), start) {
                    (Ok(LoadLine::Connected), Some(start)) => {
                        let known = offset.insert(self.agent.offset()?);
                        let at = start.ready(AHEAD + known.error * 8);
                        let at = at.ok_or(GeneratorError::Interrupted)?;
                        exchange.tell(&LoadLine::Begin(known.theirs(at)))?;
                    }
                    (Ok(LoadLine::Live(live)), _) => {
                        if let Ok(live) = serde_json::from_value::<Live>(live) {
                            (control.live)(&live);
                        }
                    }
                    _ => {}
                },
                Some(Incoming::Answer(body)) => return Ok((body, offset)),
                Some(Incoming::Refusal(refusal)) => return Err(exchange.refused(refusal).into()),
                Some(Incoming::Data(_) | Incoming::End) | None => {}
            }
        }
    }
}

impl Generator for RemoteGenerator<'_> {
    fn fill(&self, fill: &Fill<'_>, control: Control<'_>) -> Told<Measurement> {
        let to = self.to(&fill.to, fill.to.nodes)?;
        let timeout_ms = fill.timeout.as_millis() as u64;
        let order = Order::Fill { to, clients: fill.clients, timeout_ms };
        let heard = self.give(&order, None, control)?;
        Ok(Box::new(move || Ok(heard.exchange.read_answer(&heard.body)?)))
    }

    fn stage(&self, of: &StageAsk<'_>, start: &Arc<Start>, control: Control<'_>) -> Told<Driven> {
        let order = StageOrder {
            workload: of.workload.clone(),
            load: of.load.clone(),
            clients: of.stage.clients,
            stop: of.stage.stop,
            arrivals: of.arrivals,
            first_ticket: of.first_ticket,
            seed: of.seed,
            reading: of.reading,
            to: self.to(&of.to, of.to.nodes)?,
            reads_to: of.reads_to.map(|nodes| self.to(&of.to, nodes)).transpose()?,
            requests: of.requests.map(RequestsOrder::new).transpose()?,
        };
        let heard = self.give(&Order::Stage(Box::new(order)), Some(start), control)?;
        let clients = self.share.count(of.stage.clients.into()) as u32;
        Ok(Box::new(move || {
            let told: StageTold = heard.exchange.read_answer(&heard.body)?;
            Ok(driven(told, heard.offset, clients))
        }))
    }

    fn acknowledged(&self) -> Result<LedgerSize, GeneratorError> {
        Ok(crate::machines::order::duty(self.agent, &Order::Acknowledged)?)
    }

    fn read_back(
        &self,
        ask: &ReadBackAsk<'_>,
        stop: &AtomicBool,
    ) -> Result<ReadBack, GeneratorError> {
        let to = self.to(&ask.to, ask.to.nodes)?;
        let order = Order::ReadBack { to, keys_max: ask.keys_max, seed: ask.seed };
        let control = Control { stop, live: &mut |_| {} };
        let Heard { exchange, body, .. } = self.give(&order, None, control)?;
        Ok(exchange.read_answer(&body)?)
    }
}

fn driven(told: StageTold, offset: Option<Offset>, clients: u32) -> Driven {
    let part = GeneratorPart {
        clients,
        verified: told.measurement.verified(),
        errors: told.measurement.error_count(),
        late_us: told.began.saturating_sub(told.asked) as f64 / 1e3,
        clock_error_us: offset.map_or(0.0, |offset| offset.error.as_secs_f64() * 1e6),
        cpu: told.measurement.generator_cpu,
        busiest: told.measurement.generator_busiest,
        cpus: told.kept.cpus,
        not_apart: told.kept.not_apart,
    };
    Driven { measurement: told.measurement, next_ticket: told.next_ticket, part }
}
