//! Changes the routes of a gateway while a load runs, one change at a time.
//!
//! A change begins with the order to the control plane. It is seen when the control plane has accepted it, and ends
//! when a request at the gateway takes the new route.
//!
//! Not here: the routes (`bakeoff_systems::route_change`), the requests that a change cost
//! (`bakeoff_core::attribution`).

use std::path::Path;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::record::FaultHit;
use bakeoff_systems::Access;
use bakeoff_systems::exchange::Patience;
use bakeoff_systems::route_change::RouteChange;

use super::{Injector, NotInjected};

/// Longest time until the gateway has a change.
const ARRIVES_WITHIN: Duration = Duration::from_secs(10);
/// Interval between requests that show whether it has.
const ASK_EVERY: Duration = Duration::from_millis(10);

impl Injector<'_> {
    /// Makes one change, and waits until the gateway has it.
    pub(super) fn change_routes(
        &self,
        since: impl Fn(Instant) -> f64,
        hits: &mut Vec<FaultHit>,
    ) -> Result<(), NotInjected> {
        let member = self.member()?;
        let gateway = member.first();
        let change = member.system.change_routes(gateway).map_err(|error| error.to_string())?;
        let began = clock::now();
        let go_on = || !self.is_over();
        let patience = Patience { within: ARRIVES_WITHIN, go_on: &go_on };
        let accepted = change
            .hand_over(patience, |node, path, contents| self.replace_file(node, path, contents));
        let nodes = vec![gateway.name.clone()];
        let mut hit = FaultHit { nodes, from: since(began), ..FaultHit::default() };
        hit.seen = accepted.is_ok().then(|| since(clock::now()));
        let arrived = accepted
            .map_err(|error| error.to_string().into())
            .and_then(|()| self.await_change(&change, gateway, began + ARRIVES_WITHIN));
        hit.to = arrived.is_ok().then(|| since(clock::now()));
        hit.proof = arrived.iter().cloned().collect();
        hits.push(hit);
        arrived.map(drop)
    }

    /// Replaces a file of a node or part.
    fn replace_file(&self, node: &str, path: &Path, contents: &[u8]) -> Result<(), String> {
        let process = self.cluster.processes().find(|process| process.name() == node);
        process.ok_or("it does not run")?.replace_file(path, contents)
    }

    /// Sends requests on the new route until one takes it. Returns the evidence.
    fn await_change(
        &self,
        change: &RouteChange,
        gateway: &Access,
        until: Instant,
    ) -> Result<String, NotInjected> {
        let (name, path) = (&gateway.name, change.path());
        let go_on = || !self.is_over();
        let mut seen = "its requests take the old route".to_owned();
        loop {
            let left = until.saturating_duration_since(clock::now());
            match change.has_arrived(gateway, Patience { within: left, go_on: &go_on }) {
                Ok(true) => return Ok(format!("`GET {path}` of `{name}` took the new route")),
                Ok(false) => {}
                Err(error) => seen = error.to_string(),
            }
            if self.is_over() {
                let why = format!("the load ended before `{name}` had the route `{path}`");
                return Err(NotInjected::too_late(why));
            }
            if clock::now() >= until {
                let within = ARRIVES_WITHIN.as_secs();
                let why = format!("`{name}` has no route `{path}` after {within} s: {seen}");
                return Err(why.into());
            }
            std::thread::sleep(ASK_EVERY);
        }
    }
}
