//! The state of a run, kept from its events: the trial in progress, its last second and nodes, and the sums of all
//! trials.
//!
//! Not here: serving it (`live`, `metrics`).

use std::path::PathBuf;

use bakeoff_core::study::Study;
use bakeoff_core::trial_samples::NodeSample;
use bakeoff_engine::LoadProgress;
use bakeoff_trial::event::{Event, TrialStarted};

/// State of a run.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// Name of the study.
    pub(super) study: String,
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
    /// Trials before it, without seconds and nodes.
    ended: Vec<TrialNow>,
}

/// A trial of the run.
#[derive(Debug, Default)]
pub(super) struct TrialNow {
    /// Number in the run, from 1.
    pub(super) number: u32,
    pub(super) system: String,
    pub(super) workload: String,
    pub(super) load: String,
    /// Verified operations so far.
    pub(super) verified: u64,
    /// Failed operations so far.
    pub(super) failed: u64,
    /// Last second of its load, while that runs.
    pub(super) last: Option<LoadProgress>,
    /// Last samples of its nodes, while the load runs.
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
                self.ended.extend(self.trial.take());
                self.trial = Some(TrialNow {
                    number: trial.number + 1,
                    system: trial.system.clone(),
                    workload: trial.workload.clone(),
                    load: trial.load.clone(),
                    ..TrialNow::default()
                });
            }
            Event::Observed { live, nodes, .. } => {
                if let Some(trial) = &mut self.trial {
                    trial.verified += live.verified;
                    trial.failed += live.errors;
                    trial.last = Some((*live).clone());
                    trial.nodes = nodes.to_vec();
                }
            }
            Event::PhaseStarted { .. } | Event::TrialFinished { .. } => {
                if let Some(trial) = &mut self.trial {
                    trial.last = None;
                    trial.nodes.clear();
                }
            }
            _ => {}
        }
    }

    /// Returns all trials so far.
    pub(super) fn trials(&self) -> impl Iterator<Item = &TrialNow> {
        self.ended.iter().chain(&self.trial)
    }

    fn begin(&mut self, study: &Study, folder: PathBuf) {
        *self = Self {
            study: study.name.clone(),
            title: study.full_title(),
            systems: study.systems.iter().map(|system| system.name.clone()).collect(),
            rounds: study.trials,
            folder,
            ..Self::default()
        };
    }
}
