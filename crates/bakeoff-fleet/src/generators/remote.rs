//! A generator on another machine: its agent drives the load, this end sends orders and receives results.
//!
//! Not here: the agent's end (`serve`), the orders (`order`), the pipe (`bakeoff_agent`).

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bakeoff_agent::{Agent, Exchange, IncomingFrame, LoadLine, Offset, read_json};
use bakeoff_clock as clock;
use bakeoff_core::linearizability::judged_history::JudgedHistory;
use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::GeneratorPart;
use bakeoff_core::schedule::LoadShare;
use bakeoff_engine::LoadProgress;
use bakeoff_engine::watch::WatchDisturbance;
use bakeoff_systems::Access;
use bakeoff_systems::carried_access::CarriedAccess;

use super::error::GeneratorError;
use super::generator::{
    Control, Fill, Generator, GeneratorResult, ReadBackRequest, StageRequest, StageResult,
    StageTarget, Start,
};
use crate::machines::Machine;
use crate::machines::order::{
    CarriedTarget, KeysOrder, LedgerSize, Order, ReadBack, StageAnswer, StageOrder,
};
use crate::machines::requests::RequestsOrder;

/// Interval between checks for a stop request.
const LISTEN_EVERY: Duration = Duration::from_millis(20);
/// Time ahead at which the start is set, besides the messages' travel time.
const AHEAD: Duration = Duration::from_millis(30);
/// Time limit for a generator to stop: an operation's timeout, and adding up.
const STOPS_WITHIN: Duration = Duration::from_secs(60);

/// Drives a share of loads through an agent.
pub(crate) struct RemoteGenerator<'a> {
    agent: &'a Agent,
    share: LoadShare,
}

/// An undecoded answer, and the offset of its machine's clock.
struct RawAnswer {
    exchange: Exchange,
    body: Vec<u8>,
    offset: Option<Offset>,
}

impl<'a> RemoteGenerator<'a> {
    pub(crate) fn new(machine: &'a Machine, share: LoadShare) -> Self {
        Self { agent: &machine.agent, share }
    }

    /// Begins a trial: the generator owns its share of these keys from here on.
    ///
    /// # Errors
    /// When its machine is lost.
    pub(crate) fn begin(&self, keys: &KeysOrder) -> Result<(), GeneratorError> {
        let keys = KeysOrder { share: self.share, ..keys.clone() };
        Ok(crate::machines::order::duty(self.agent, &Order::Keys(Box::new(keys)))?)
    }

    /// Returns the target of clients in the form for the agent.
    fn to(&self, of: &StageTarget<'_>, nodes: &[Access]) -> Result<CarriedTarget, GeneratorError> {
        let carried = nodes.iter().map(|node| CarriedAccess::new(of.system, node, of.resumed));
        Ok(CarriedTarget {
            system: of.system.declares().kind.name.to_owned(),
            nodes: carried.collect::<Result<_, _>>().map_err(GeneratorError::Access)?,
            threads: of.threads,
        })
    }

    /// Sends an order and waits for its answer. Starts the agent at the time of `start`, and stops it on request.
    fn give(
        &self,
        order: &Order,
        start: Option<&Start>,
        control: Control<'_>,
    ) -> Result<RawAnswer, GeneratorError> {
        let exchange = self.agent.open(&order.request())?;
        let heard = self.listen(&exchange, start, control);
        if heard.is_err() {
            exchange.tell(&LoadLine::Stop).ok();
        }
        let (body, offset) = heard?;
        Ok(RawAnswer { exchange, body, offset })
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
                Some(IncomingFrame::Note(note)) => match (read_json(&note), start) {
                    (Ok(LoadLine::Connected), Some(start)) => {
                        let known = offset.insert(self.agent.offset()?);
                        let at = start.ready(AHEAD + known.error * 8);
                        let at = at.ok_or(GeneratorError::Interrupted)?;
                        exchange.tell(&LoadLine::Begin(known.theirs(at)))?;
                    }
                    (Ok(LoadLine::Live(live)), _) => {
                        if let Ok(live) = serde_json::from_value::<LoadProgress>(live) {
                            (control.live)(&live);
                        }
                    }
                    _ => {}
                },
                Some(IncomingFrame::Answer(body)) => return Ok((body, offset)),
                Some(IncomingFrame::Refusal(refusal)) => {
                    return Err(exchange.refused(refusal).into());
                }
                Some(IncomingFrame::Data(_) | IncomingFrame::End) | None => {}
            }
        }
    }
}

impl Generator for RemoteGenerator<'_> {
    fn fill(&self, fill: &Fill<'_>, control: Control<'_>) -> GeneratorResult<Measurement> {
        let to = self.to(&fill.to, fill.to.nodes)?;
        let timeout_ms = fill.timeout.as_millis() as u64;
        let order = Order::Fill { to, clients: fill.clients, timeout_ms };
        let heard = self.give(&order, None, control)?;
        Ok(Box::new(move || Ok(heard.exchange.read_answer(&heard.body)?)))
    }

    fn stage(
        &self,
        of: &StageRequest<'_>,
        start: &Arc<Start>,
        control: Control<'_>,
    ) -> GeneratorResult<StageResult> {
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
            let answer: StageAnswer = heard.exchange.read_answer(&heard.body)?;
            Ok(driven(answer, heard.offset, clients))
        }))
    }

    fn acknowledged(&self) -> Result<LedgerSize, GeneratorError> {
        Ok(crate::machines::order::duty(self.agent, &Order::Acknowledged)?)
    }

    fn read_back(
        &self,
        ask: &ReadBackRequest<'_>,
        stop: &AtomicBool,
    ) -> Result<ReadBack, GeneratorError> {
        let to = self.to(&ask.to, ask.to.nodes)?;
        let order = Order::ReadBack { to, keys_max: ask.keys_max, seed: ask.seed };
        let control = Control { stop, live: &mut |_| {} };
        let RawAnswer { exchange, body, .. } = self.give(&order, None, control)?;
        Ok(exchange.read_answer(&body)?)
    }

    fn disturb_watchers(&self, how: WatchDisturbance) -> Result<String, GeneratorError> {
        Ok(crate::machines::order::duty(self.agent, &Order::DisturbWatchers(how))?)
    }

    fn judge_history(&self) -> Result<JudgedHistory, GeneratorError> {
        Ok(crate::machines::order::duty(self.agent, &Order::JudgeHistory)?)
    }

    fn export_history(&self, to: Option<&mut dyn Write>) -> Result<(), GeneratorError> {
        let order = Order::ExportHistory { wanted: to.is_some() };
        let exchange = self.agent.open(&order.request())?;
        let mut to = to;
        loop {
            match (exchange.next()?, &mut to) {
                (IncomingFrame::Data(bytes), Some(to)) => {
                    to.write_all(&bytes).map_err(GeneratorError::History)?;
                }
                (IncomingFrame::Answer(_), _) => return Ok(()),
                (IncomingFrame::Refusal(refusal), _) => {
                    return Err(exchange.refused(refusal).into());
                }
                _ => {}
            }
        }
    }
}

fn driven(answer: StageAnswer, offset: Option<Offset>, clients: u32) -> StageResult {
    let part = GeneratorPart {
        clients,
        verified: answer.measurement.verified(),
        errors: answer.measurement.error_count(),
        late_us: answer.began.saturating_sub(answer.asked) as f64 / 1e3,
        clock_error_us: offset.map_or(0.0, |offset| offset.error.as_secs_f64() * 1e6),
        cpu: answer.measurement.generator_cpu,
        busiest: answer.measurement.generator_busiest,
        cpus: answer.kept.cpus,
        not_apart: answer.kept.not_apart,
    };
    StageResult { measurement: answer.measurement, next_ticket: answer.next_ticket, part }
}
