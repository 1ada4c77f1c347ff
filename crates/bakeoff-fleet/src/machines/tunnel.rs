//! Decides how the coordinator connects to servers on other machines: directly, or through their agents.
//!
//! Machines may be on a network (pods, hosts behind a jump host) that `ssh` or `kubectl` reaches but the coordinator's
//! connections do not. bakeoff tests this once, before anything starts. A load never goes through an agent: its
//! generators must be on the servers' network.
//!
//! Not here: carrying a connection (`bakeoff_agent`), connecting (`bakeoff_engine::routes`).

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bakeoff_agent::{Agent, AgentError, Dialer, IncomingFrame, Request};
use bakeoff_core::places::{self, Reach, Tunnel};
use bakeoff_core::stats::and;
use bakeoff_engine::routes::{self, OpenRoute, Route};

use super::Machines;
use crate::error::FleetError;

/// Time limit for a machine's address to answer. A lost segment is resent after a second.
const REACHED_WITHIN: Duration = Duration::from_secs(2);
/// Text to echo. It detects another machine that has the same address on one of our networks.
const WORDS: &[u8] = b"is it the machine that its agent is on?";

/// Route through an agent.
struct ThroughAgent(Dialer);

impl Route for ThroughAgent {
    fn connect(&self, to: SocketAddr, within: Duration) -> io::Result<TcpStream> {
        self.0.connect(to, within)
    }
}

/// The machines that the coordinator reaches through their agents, while this value exists.
#[derive(Default)]
pub(super) struct Tunnels {
    machines: Vec<usize>,
    _open: Vec<OpenRoute>,
}

impl Tunnels {
    /// Returns true if connections to the machine at this index go through its agent.
    pub(super) fn leads_to(&self, place: usize) -> bool {
        self.machines.contains(&place)
    }
}

impl Machines {
    /// Tests which servers' machines can be connected to directly, and opens tunnels to the others. Call before any
    /// server starts.
    ///
    /// # Errors
    /// When a machine is lost, or cannot be reached although it must be.
    pub fn open_tunnels(&mut self) -> Result<(), FleetError> {
        let elsewhere: Vec<usize> = self
            .places
            .machines
            .iter()
            .enumerate()
            .filter(|(_, place)| place.is_home() && place.reach != Reach::Here)
            .map(|(place, _)| place)
            .collect();
        // If this machine drives a share of the load, that share uses its own network.
        let drives = |place: &&places::Machine| place.reach == Reach::Here && place.generator;
        let drives = self.places.machines.iter().find(drives).map(|place| place.name.clone());
        let is_tried = self.places.tunnel != Tunnel::Always || drives.is_some();
        let unreached = if is_tried { self.unreached(&elsewhere)? } else { Vec::new() };
        if !unreached.is_empty() {
            self.refuse_unreached(&unreached, drives.as_deref())?;
        }
        let through: Vec<usize> = match self.places.tunnel {
            Tunnel::Always => elsewhere,
            Tunnel::Auto | Tunnel::Never => unreached.iter().map(|(place, _)| *place).collect(),
        };
        let open = through.iter().map(|&place| {
            let dialer = self.each[place].agent.dialer();
            routes::open(self.places.machines[place].address, Arc::new(ThroughAgent(dialer)))
        });
        let open = open.collect();
        self.tunnels = Tunnels { machines: through, _open: open };
        Ok(())
    }

    /// Returns the machines among these that cannot be connected to, with the reasons.
    fn unreached(&self, places: &[usize]) -> Result<Vec<(usize, io::Error)>, FleetError> {
        let tried: Vec<Result<io::Result<()>, AgentError>> = std::thread::scope(|scope| {
            let each: Vec<_> = places
                .iter()
                .map(|&place| {
                    let (agent, place) = (&self.each[place].agent, &self.places.machines[place]);
                    scope.spawn(move || reaches(agent, place))
                })
                .collect();
            each.into_iter()
                .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        let mut unreached = Vec::new();
        for (&place, tried) in places.iter().zip(tried) {
            if let Err(error) = tried? {
                unreached.push((place, error));
            }
        }
        Ok(unreached)
    }

    /// Fails if the load or `tunnel: never` requires direct connections.
    fn refuse_unreached(
        &self,
        unreached: &[(usize, io::Error)],
        drives: Option<&str>,
    ) -> Result<(), FleetError> {
        let seen = |(place, error): &(usize, io::Error)| {
            let place = &self.places.machines[*place];
            format!("{} of `{}`: {error}", place.address, place.name)
        };
        let seen = unreached.iter().map(seen).collect::<Vec<_>>().join("\n  ");
        if let Some(drives) = drives {
            return Err(FleetError::unreachable(format!(
                "`{drives}`, this machine, generates load but cannot connect to servers\n  {seen}\nhint: a load never \
                 uses a tunnel; generate it on machines that reach the servers"
            )));
        }
        if self.places.tunnel == Tunnel::Never {
            let names: Vec<String> = unreached
                .iter()
                .map(|(place, _)| format!("`{}`", self.places.machines[*place].name))
                .collect();
            return Err(FleetError::unreachable(format!(
                "this machine cannot connect to servers on {}, and the places file has `tunnel: never`\n  {seen}\nhint: \
                 set `tunnel: auto` to connect through their agents, or run bakeoff on their network",
                and(&names)
            )));
        }
        Ok(())
    }
}

/// Tests whether this machine can connect to another one's address, against an echo of its agent.
pub fn reaches(agent: &Agent, place: &places::Machine) -> Result<io::Result<()>, AgentError> {
    let echo = agent.open(&Request::Echo { address: place.address })?;
    let address: SocketAddr = loop {
        match echo.next()? {
            IncomingFrame::Note(note) => break echo.read(&note)?,
            IncomingFrame::Refusal(refusal) => return Err(echo.refused(refusal)),
            _ => {}
        }
    };
    let reached = there_and_back(address);
    echo.end()?;
    echo.answer::<()>()?;
    Ok(reached)
}

fn there_and_back(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, REACHED_WITHIN)?;
    stream.set_read_timeout(Some(REACHED_WITHIN))?;
    stream.set_write_timeout(Some(REACHED_WITHIN))?;
    stream.write_all(WORDS)?;
    let mut back = [0; WORDS.len()];
    stream.read_exact(&mut back)?;
    if back != WORDS {
        return Err(io::Error::other("another machine answers at this address"));
    }
    Ok(())
}
