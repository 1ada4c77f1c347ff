//! One machine's samples of a trial, judged by the same rules on this machine and on others.
//!
//! Not here: sampling (`watch`), the rules (`bakeoff_core::check`).

use std::borrow::Cow;

use bakeoff_core::check::{self, Verdict};
use bakeoff_core::record::{MachineTrial, Usage};
use bakeoff_core::trial_samples::{Column, Series, TrialSamples};
use bakeoff_host::{machine, usage};

/// The samples of a machine with servers or generators.
pub struct MachineSamples<'a> {
    /// Name in the places file; `None` for this machine in a run without places.
    name: Option<&'a str>,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Names of its servers; `None` if all processes but the generator are servers.
    pub servers: Option<&'a [String]>,
    /// Samples.
    pub observed: Cow<'a, TrialSamples>,
    /// Processes of the run on machines with the same kernel, whose time this one's CPU time includes.
    others: Vec<Series>,
}

impl<'a> MachineSamples<'a> {
    /// Describes this machine, for a run without places.
    pub fn local(observed: Cow<'a, TrialSamples>) -> Self {
        let cpus = machine::cpus_online().unwrap_or(0);
        Self { name: None, cpus, servers: None, observed, others: Vec::new() }
    }

    /// Describes the machines of a run. `kernels`: for each, the index of the first one with the same running kernel.
    pub fn all(machines: &'a [MachineTrial], kernels: &[usize]) -> Vec<Self> {
        let one = |(place, machine): (usize, &'a MachineTrial)| Self {
            name: Some(&machine.name),
            cpus: machine.cpus,
            servers: Some(&machine.servers),
            observed: Cow::Borrowed(&machine.observed),
            others: adjacent(place, kernels, &|other| &machines[other].observed),
        };
        machines.iter().enumerate().map(one).collect()
    }

    /// Describes machines during a trial, each by its name, CPUs and samples so far.
    pub fn so_far(machines: Vec<(&'a str, u32, TrialSamples)>, kernels: &[usize]) -> Vec<Self> {
        let others: Vec<Vec<Series>> = (0..machines.len())
            .map(|place| adjacent(place, kernels, &|other| &machines[other].2))
            .collect();
        let one = |((name, cpus, observed), others)| Self {
            name: Some(name),
            cpus,
            servers: None,
            observed: Cow::Owned(observed),
            others,
        };
        machines.into_iter().zip(others).map(one).collect()
    }

    /// Returns true if a server of this name ran on it.
    pub fn has_server(&self, name: &str) -> bool {
        self.servers.is_none_or(|servers| servers.iter().any(|one| one == name))
    }

    /// Returns the usage of its servers, and of the generator on this machine.
    pub fn usage(&self, windows: &[(f64, f64)], load: (f64, f64)) -> Vec<Usage> {
        let mut usage = usage::summarize(&self.observed, windows, load);
        usage.retain(|one| self.has_server(&one.name));
        usage
    }

    /// Checks CPU steal by the hypervisor over a period, in seconds since the trial began.
    pub fn steal(&self, (from, to): (f64, f64)) -> Verdict {
        self.named(check::machine::steal(&self.observed.machine, self.cpus, from, to))
    }

    /// Returns its samples, with all processes of the run that its CPU time includes.
    pub fn attributed(&self) -> Cow<'_, TrialSamples> {
        if self.others.is_empty() {
            return Cow::Borrowed(&self.observed);
        }
        let mut all = self.observed.clone().into_owned();
        all.nodes.extend(self.others.iter().cloned());
        Cow::Owned(all)
    }

    /// Adds the machine's name to a failed or not-checked verdict.
    pub fn named(&self, verdict: Verdict) -> Verdict {
        match self.name {
            Some(name) => on_machine(name, verdict),
            None => verdict,
        }
    }
}

/// Adds a machine's name to a failed or not-checked verdict.
pub fn on_machine(name: &str, verdict: Verdict) -> Verdict {
    let on = |why: String| format!("on `{name}`: {why}");
    match verdict {
        Verdict::Failed(why) => Verdict::Failed(on(why)),
        Verdict::NotChecked(why) => Verdict::NotChecked(on(why)),
        Verdict::Passed => Verdict::Passed,
    }
}

/// Returns the processes of the run on other machines with the same kernel.
fn adjacent<'o>(
    place: usize,
    kernels: &[usize],
    observed: &dyn Fn(usize) -> &'o TrialSamples,
) -> Vec<Series> {
    let kernel = kernels.get(place);
    let others = (0..kernels.len()).filter(|&other| other != place && kernels.get(other) == kernel);
    let mut all = Vec::new();
    for other in others.map(observed) {
        all.extend(other.nodes.iter().cloned());
        all.extend(helpers(&other.machine));
    }
    all
}

/// Returns the CPU time of bakeoff's helper processes in the form of a process's series.
fn helpers(machine: &Series) -> Option<Series> {
    let time = machine.columns.get(&Column::Helpers)?;
    let columns = [(Column::CpuUser, time.clone()), (Column::CpuSystem, vec![0.0; time.len()])];
    Some(Series { name: "helpers".to_owned(), at: machine.at.clone(), columns: columns.into() })
}
