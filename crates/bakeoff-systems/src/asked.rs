//! A system to be described, as the study asks for it, and its options.
//!
//! Not here: the description (`description`), what a study may ask for (`declaration`).

use std::net::IpAddr;
use std::path::Path;

use bakeoff_core::record::{Acknowledged, Setting};
use bakeoff_core::study::{self, Operation, OptionForm};
use bakeoff_core::units::{self, ByteCount};
use bakeoff_host::{HostError, Seat};
use bakeoff_install::Installed;

use super::{Access, System};

/// A system to be described.
pub struct Asked<'a> {
    /// The study's words.
    pub(crate) system: &'a study::System,
    /// Its role in the composite system: `storage`, or [`COMPOSITE`].
    pub(crate) role: &'a str,
    /// The composite system that it is, or is a part of, as the study has it.
    pub(crate) composite: &'a study::System,
    /// Its program; `None` for a system that is part of bakeoff.
    pub(crate) program: Option<&'a Installed>,
    /// Where each node gets a directory of its own.
    pub(crate) dir: &'a Path,
    /// Where its nodes run, in their order, one at least; where it has more nodes, it begins again.
    pub(crate) seats: &'a [Seat],
    /// The roles of all members of the composite system, its own among them, and where their nodes run: known before
    /// any of them is described.
    pub(crate) members: &'a [(&'a str, Vec<Seat>)],
    /// Where clients of the composite system connect from.
    pub(crate) clients: &'a [IpAddr],
    /// The seed of the order of faults, where a system has any.
    pub(crate) seed: u64,
    /// The members of the same system that were described before it: its parts, for one behind which they stand;
    /// parts and the system itself (role `system`), for one in front of it.
    pub(crate) neighbours: &'a [Neighbour],
}

/// Another member of a composite system, as far as its members need to know it.
#[derive(Debug, Clone)]
pub struct Neighbour {
    /// `storage`; `system` for the system itself.
    pub(crate) role: String,
    pub(crate) system: &'static dyn System,
    /// Its nodes; they may not run yet.
    pub(crate) nodes: Vec<Access>,
}

/// The role of a system among its parts.
pub const COMPOSITE: &str = "system";

impl Asked<'_> {
    /// `etcd-1`, …: the names of the nodes.
    pub(crate) fn node_names(&self) -> impl Iterator<Item = String> {
        (1..=self.system.nodes).map(|number| format!("{}-{number}", self.system.name))
    }

    /// Returns where its nth node runs, counted from 0.
    pub(crate) fn seat(&self, index: usize) -> Seat {
        self.seats[index % self.seats.len()]
    }

    /// The names of its nodes and where they run.
    pub(crate) fn seated(&self) -> impl Iterator<Item = (String, Seat)> {
        self.node_names().enumerate().map(|(index, name)| (name, self.seat(index)))
    }

    /// Returns where the first node of a member of the composite system runs, described or not.
    pub(crate) fn seat_of(&self, role: &str) -> Option<Seat> {
        let (_, seats) = self.members.iter().find(|(member, _)| *member == role)?;
        seats.first().copied()
    }

    /// Returns the addresses that its nodes may be connected to from, each once: those of its own nodes, of all other
    /// members and of clients.
    pub(crate) fn reached_from(&self) -> Vec<IpAddr> {
        let members = self.members.iter().flat_map(|(_, seats)| seats);
        let seats = self.seats.iter().chain(members).map(|seat| seat.address);
        let mut each = Vec::new();
        for address in seats.chain(self.clients.iter().copied()) {
            if !each.contains(&address) {
                each.push(address);
            }
        }
        each
    }

    /// Returns the program; bakeoff's own servers have none.
    pub(crate) fn installed(&self) -> Result<&'_ Installed, HostError> {
        self.program.ok_or_else(|| HostError::Spec {
            node: self.system.name.clone(),
            problem: "it was given no program".into(),
        })
    }

    /// The value of an option, if the study sets it.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        option(self.system, name)
    }

    /// Returns the member beside it that has a role.
    pub(crate) fn neighbour(&self, role: &str) -> Option<&Neighbour> {
        self.neighbours.iter().find(|neighbour| neighbour.role == role)
    }
}

/// Returns a system as a study has it that sets nothing.
pub fn plain(kind: &str) -> study::System {
    study::System {
        name: kind.to_owned(),
        kind: kind.to_owned(),
        version: None,
        program: None,
        nodes: 3, // as most of them are run
        options: Default::default(),
        limits: None,
        servers: study::Servers::Started,
        tls: None,
        credentials: None,
        metrics: Vec::new(),
        parts: Default::default(),
        process: None,
    }
}

/// The value of an option, if the study sets it.
pub(crate) fn option<'a>(system: &'a study::System, name: &str) -> Option<&'a str> {
    system.options.get(name).map(String::as_str)
}

/// An option's value as programs take it: milliseconds, bytes, or the study's own text. The study
/// was checked when it was read; what is no such value is passed on as it stands.
pub(crate) fn plain_value(form: &OptionForm, text: &str) -> String {
    match form {
        OptionForm::Duration => units::parse_duration(text)
            .map_or_else(|_| text.to_owned(), |duration| duration.as_millis().to_string()),
        OptionForm::Size => {
            text.parse::<ByteCount>().map_or_else(|_| text.to_owned(), |size| size.0.to_string())
        }
        _ => text.to_owned(),
    }
}

/// A setting with its reason.
pub(crate) fn setting(name: &str, value: impl ToString, reason: &str) -> Setting {
    Setting { name: name.to_owned(), value: value.to_string(), reason: reason.to_owned() }
}

/// The reason of a setting that the study asks for.
pub(crate) const ASKED: &str = "the study asks for it";

/// Returns where an acknowledged write is in a cluster that waits for a majority's disks: one node is a
/// majority of one.
pub(crate) fn majority_disks(asked: &study::System) -> Acknowledged {
    if asked.nodes == 1 { Acknowledged::Disk } else { Acknowledged::MajorityDisks }
}

/// The same in words.
pub(crate) fn synced_by(asked: &study::System) -> &'static str {
    if asked.nodes == 1 {
        "after it is synced to disk"
    } else {
        "after a majority has synced it to disk"
    }
}

/// A study was read in which a system is asked for what it cannot do: a bug.
pub(crate) fn never_planned(operation: Operation) -> ! {
    unreachable!("a study was read in which a system without `{operation}` is asked for it")
}
