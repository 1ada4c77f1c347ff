//! Writes a load to disk as a run, with `--out`. Its record and reports have the form of a study's.
//!
//! Not here: the load as a study (`study`), running its trials (`loader`), the files of a run
//! (`bakeoff_trial::run::folder`).

use std::path::{Path, PathBuf};

use bakeoff_clock::wall::utc_now;
use bakeoff_core::plan::Trial;
use bakeoff_core::record::{
    FORMAT, RecordLine, RoundCount, RunEnd, RunHeader, SystemRecord, TrialRecord,
};
use bakeoff_core::study::Study;
use bakeoff_engine::Drive;
use bakeoff_trial::run::folder::{self, RunFolder};
use bakeoff_trial::this_machine;

use super::study::NAME;
use crate::commands::report::Rendering;
use crate::failure::Failure;
use bakeoff_fleet::machines::fleet::Fleet;

/// A run on disk, in progress.
pub(super) struct RunRecorder {
    folder: RunFolder,
    /// Absolute path, because the sampler looks up its disk.
    pub(super) path: PathBuf,
    header: RunHeader,
    /// Number of recorded trials.
    ended: usize,
}

impl RunRecorder {
    /// Creates the run's folder in `out`, and prepares its header with the load and the machines.
    pub(super) fn begin(
        out: &Path,
        (study, order): (&Study, &[Trial]),
        system: &SystemRecord,
        drive: &Drive,
        open_files: u64,
        fleet: &Fleet,
    ) -> Result<Self, Failure> {
        let folder = RunFolder::create(out, NAME)?;
        let path = std::path::absolute(&folder.path)
            .map_err(|error| Failure::file("use", &folder.path, &error))?;
        let mut environment =
            bakeoff_fleet::environment::describe(&path, drive.threads, open_files, false)?;
        environment.shared_machine = this_machine::is_machine_shared();
        if let Some(machines) = fleet.placed() {
            environment.machines = machines.describe(drive.threads)?;
        }
        let header = RunHeader {
            format: FORMAT,
            bakeoff: env!("CARGO_PKG_VERSION").to_owned(),
            bakeoff_sha256: this_machine::own_sha256(),
            started: utc_now(),
            seed: drive.seed,
            order: order.to_vec(),
            environment,
            systems: vec![system.clone()],
            rounds: RoundCount::Fixed,
            gate: None,
            study: study.clone(),
            source: None,
        };
        Ok(Self { folder, path, header, ended: 0 })
    }

    /// Records a trial, unless it measured nothing. The first one writes the header.
    pub(super) fn push(&mut self, trial: &TrialRecord) -> Result<(), Failure> {
        if trial.stages.is_empty() {
            return Ok(());
        }
        if self.ended == 0 {
            self.folder.push(&RecordLine::Run(self.header.clone()))?;
        }
        self.ended += 1;
        self.folder.push(&RecordLine::Trial(trial.clone()))
    }

    /// Ends the run and writes its reports. Returns the paths of the page and of the run's folder. `None` if no trial
    /// was recorded; then the empty folder is removed.
    pub(super) fn end(mut self, interrupted: bool) -> Result<Option<(PathBuf, PathBuf)>, Failure> {
        if self.ended == 0 {
            return Ok(None);
        }
        let complete = self.ended == self.header.order.len() && !interrupted;
        self.folder.push(&RecordLine::End(RunEnd {
            ended: utc_now(),
            complete,
            answered_after: None,
        }))?;
        let rendering = Rendering::new(folder::read(&self.folder.path)?);
        let page = rendering.write_all(&self.folder.path)?;
        Ok(Some((page, self.folder.path.clone())))
    }
}
