//! Defines a system to be described, with its options and surroundings.
//!
//! Not here: the description (`description`), the options that a study may set (`declaration`).

use std::path::Path;

use bakeoff_core::record::{AckLocation, Setting};
use bakeoff_core::study::{self, Operation, OptionForm};
use bakeoff_core::units::{self, ByteCount};
use bakeoff_host::{HostError, Location};
use bakeoff_install::InstalledProgram;

use super::{Access, System};

/// A system to be described, with the study's options and the machines of its nodes.
pub struct DescribeContext<'a> {
    /// System as the study declares it.
    pub(crate) system: &'a study::System,
    /// Role in the composite system: `storage`, or [`COMPOSITE`].
    pub(crate) role: &'a str,
    /// Composite system to which it belongs; itself if it is not a part.
    pub(crate) composite: &'a study::System,
    /// Installed program; `None` for a system that is part of bakeoff.
    pub(crate) program: Option<&'a InstalledProgram>,
    /// Folder in which each node gets its own folder.
    pub(crate) dir: &'a Path,
    /// Locations of its nodes in order, at least one; reused from the start if there are more nodes.
    pub(crate) locations: &'a [Location],
    /// Role and locations of each member of the composite system, itself included. Known before any member is described.
    pub(crate) members: &'a [(&'a str, Vec<Location>)],
    /// Seed for the order of injected faults.
    pub(crate) seed: u64,
    /// Members described before this one. For a system with parts behind it: those parts. For one in front: the parts
    /// and the system itself (role `system`).
    pub(crate) neighbours: &'a [Neighbour],
}

/// A member of the same composite system, as the other members see it.
#[derive(Debug, Clone)]
pub struct Neighbour {
    /// Role: `storage`, or `system` for the system itself.
    pub(crate) role: String,
    pub(crate) system: &'static dyn System,
    /// Nodes, which may not be running yet.
    pub(crate) nodes: Vec<Access>,
}

/// Role of the composite system itself among its members.
pub const COMPOSITE: &str = "system";

impl DescribeContext<'_> {
    /// Returns the names of the nodes: `etcd-1`, ….
    pub(crate) fn node_names(&self) -> impl Iterator<Item = String> {
        (1..=self.system.nodes).map(|number| format!("{}-{number}", self.system.name))
    }

    /// Returns the location of the node with this index, from 0.
    pub(crate) fn location(&self, index: usize) -> Location {
        self.locations[index % self.locations.len()]
    }

    /// Returns the names of the nodes with their locations.
    pub(crate) fn located(&self) -> impl Iterator<Item = (String, Location)> {
        self.node_names().enumerate().map(|(index, name)| (name, self.location(index)))
    }

    /// Returns the location of the first node of a member, which need not be described yet.
    pub(crate) fn location_of(&self, role: &str) -> Option<Location> {
        let (_, locations) = self.members.iter().find(|(member, _)| *member == role)?;
        locations.first().copied()
    }

    /// Returns the program. Fails for servers that are part of bakeoff.
    pub(crate) fn installed(&self) -> Result<&'_ InstalledProgram, HostError> {
        self.program.ok_or_else(|| HostError::Spec {
            node: self.system.name.clone(),
            problem: "no program is installed for it".into(),
        })
    }

    /// Returns the value of an option, or `None` if the study does not set it.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        option(self.system, name)
    }

    /// Returns a described member by its role.
    pub(crate) fn neighbour(&self, role: &str) -> Option<&Neighbour> {
        self.neighbours.iter().find(|neighbour| neighbour.role == role)
    }
}

/// Returns a system of this kind without options.
pub fn plain(kind: &str) -> study::System {
    study::System {
        name: kind.to_owned(),
        kind: kind.to_owned(),
        version: None,
        program: None,
        nodes: 3, // a common size
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

/// Returns the value of an option, or `None` if the study does not set it.
pub(crate) fn option<'a>(system: &'a study::System, name: &str) -> Option<&'a str> {
    system.options.get(name).map(String::as_str)
}

/// Returns an option's value in the form that programs take: milliseconds, bytes, or the study's own text. Reading the
/// study has validated it; an invalid value is passed on unchanged.
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

/// Builds a setting with its reason.
pub(crate) fn setting(name: &str, value: impl ToString, reason: &str) -> Setting {
    Setting { name: name.to_owned(), value: value.to_string(), reason: reason.to_owned() }
}

/// Reason of a setting that the study requests.
pub(crate) const ASKED: &str = "the study asks for it";

/// Returns the durability of an acknowledged write in a cluster that waits for the disks of a majority. One node is
/// its own majority.
pub(crate) fn majority_disks(system: &study::System) -> AckLocation {
    if system.nodes == 1 { AckLocation::Disk } else { AckLocation::MajorityDisks }
}

/// Describes that durability in words.
pub(crate) fn synced_by(system: &study::System) -> &'static str {
    if system.nodes == 1 {
        "after it is synced to disk"
    } else {
        "after a majority has synced it to disk"
    }
}

/// Panics on an operation that the kind does not have. Reading the study should have refused it.
pub(crate) fn never_planned(operation: Operation) -> ! {
    unreachable!("the study requests `{operation}` of a system that does not have it")
}
