//! Counts the syncs of a cluster's servers, and finds their unsafe settings.
//!
//! Not here: counting for one server (`bakeoff_host`), the writes meanwhile (`trial::durability`).

use std::collections::BTreeMap;

use bakeoff_core::record::NodeSyncs;
use bakeoff_core::record::durability::{Component, UnsafeSetting};
use bakeoff_host::Process;

use super::ReadyCluster;

/// Counts the syncs of all servers of a cluster until dropped.
pub(crate) struct SyncCount<'a> {
    components: Vec<Vec<&'a Process>>,
}

/// Syncs of each component, and the reason why the count may be too low.
pub(crate) struct SyncsCounted {
    pub(crate) components: Vec<Component>,
    pub(crate) incomplete: Option<String>,
}

impl ReadyCluster {
    /// Begins to count the syncs of all servers, including parts.
    ///
    /// # Errors
    /// Fails with a message if a server's syncs cannot be counted.
    pub(crate) fn count_syncs(&self) -> Result<SyncCount<'_>, String> {
        let mut count = SyncCount { components: Vec::new() };
        for member in self.members() {
            count.components.push(Vec::new());
            for process in &member.processes {
                process.begin_counting_syncs().map_err(|why| {
                    format!("cannot count the syncs of {}: {why}", process.name())
                })?;
                count.components.last_mut().expect("one was pushed").push(process);
            }
        }
        Ok(count)
    }

    /// Returns the unsafe settings of the running servers, each with its nodes.
    pub(crate) fn unsafe_settings(&self) -> Vec<String> {
        let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for member in self.members() {
            let known = member.system.declares().unsafe_settings;
            let known: Vec<UnsafeSetting> =
                known.iter().map(|(name, values)| UnsafeSetting::new(name, values)).collect();
            for process in &member.processes {
                for setting in process.unsafe_settings(&known) {
                    found.entry(setting).or_default().push(process.name());
                }
            }
        }
        let text =
            |(setting, nodes): (String, Vec<&str>)| format!("{setting} on {}", nodes.join(", "));
        found.into_iter().map(text).collect()
    }
}

impl SyncCount<'_> {
    /// Ends counting and returns the counts.
    pub(crate) fn end(mut self) -> SyncsCounted {
        let mut incomplete = None;
        let mut counted = |process: &Process| {
            let seen = process.end_counting_syncs();
            let why = seen.incomplete.map(|why| format!("syncs of {}: {why}", process.name()));
            incomplete = incomplete.take().or(why);
            NodeSyncs { name: process.name().to_owned(), syncs: seen.syncs }
        };
        let components = std::mem::take(&mut self.components);
        let components = components
            .iter()
            .map(|processes| processes.iter().map(|process| counted(process)).collect())
            .collect();
        SyncsCounted { components, incomplete }
    }
}

impl Drop for SyncCount<'_> {
    fn drop(&mut self) {
        self.components.iter().flatten().for_each(|process| drop(process.end_counting_syncs()));
    }
}
