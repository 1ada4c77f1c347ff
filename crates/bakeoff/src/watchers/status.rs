//! The state of a run, kept from its events: the trial in progress, its last second, and its nodes.
//!
//! Not here: serving it (`live`).

use std::path::PathBuf;

use bakeoff_core::observed::NodeSample;
use bakeoff_core::study::Study;
use bakeoff_engine::Live;
use bakeoff_trial::event::{Event, TrialStarted};

/// State of a run.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// Title of the study.
    pub(super) title: String,
    /// Systems in the study's order, which decides their colours.
    pub(super) systems: Vec<String>,
    /// Rounds of the study.
    pub(super) rounds: u32,
    /// Folder of the run.
    pub(super) folder: PathBuf,
    /// Trial in progress, or the last one.
    pub(super) trial: Option<TrialNow>,
}

/// The trial in progress.
#[derive(Debug, Default)]
pub(super) struct TrialNow {
    /// Number in the run, from 1.
    pub(super) number: u32,
    /// Last second of its load; `None` before the first.
    pub(super) last: Option<Live>,
    /// Last samples of its nodes.
    pub(super) nodes: Vec<NodeSample>,
}

impl Status {
    /// Follows an event.
    pub(super) fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::RunStarted { study, folder, .. } => self.begin(study, folder.to_path_buf()),
            Event::RunResumed(resumed) => self.begin(resumed.study, resumed.folder.to_owned()),
            Event::NothingMissing { folder } => self.folder = folder.to_path_buf(),
            Event::TrialStarted(TrialStarted { trial, .. }) => {
                self.trial = Some(TrialNow { number: trial.number + 1, ..TrialNow::default() });
            }
            Event::Observed { live, nodes, .. } => {
                if let Some(trial) = &mut self.trial {
                    trial.last = Some((*live).clone());
                    trial.nodes = nodes.to_vec();
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, study: &Study, folder: PathBuf) {
        *self = Self {
            title: study.title.clone(),
            systems: study.systems.iter().map(|system| system.name.clone()).collect(),
            rounds: study.trials,
            folder,
            trial: None,
        };
    }
}
