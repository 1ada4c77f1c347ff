//! What a machine saw of a trial, judged alike on this machine and on others.
//!
//! Not here: who samples (`watch`), the rules (`bakeoff_core::check`).

use std::borrow::Cow;

use bakeoff_core::check::{self, Verdict};
use bakeoff_core::observed::{Column, Observed, Series};
use bakeoff_core::record::{MachineTrial, Usage};
use bakeoff_host::{machine, usage};

/// The samples of a machine of servers or generators.
pub struct MachineSeen<'a> {
    /// Its name in the places file; `None` for this machine where the run has none.
    name: Option<&'a str>,
    /// CPUs of the machine.
    pub cpus: u32,
    /// The names of its servers; `None` if all processes but the generator are servers.
    pub servers: Option<&'a [String]>,
    /// The samples.
    pub observed: Cow<'a, Observed>,
    /// The run's processes on machines of the same kernel, which this one's CPU time includes.
    others: Vec<Series>,
}

impl<'a> MachineSeen<'a> {
    /// Describes this machine, of a run without places.
    pub fn local(observed: Cow<'a, Observed>) -> Self {
        let cpus = machine::cpus_online().unwrap_or(0);
        Self { name: None, cpus, servers: None, observed, others: Vec::new() }
    }

    /// Describes the machines of a run. `kernels`: for each the place of the first one with the same running kernel.
    pub fn all(machines: &'a [MachineTrial], kernels: &[usize]) -> Vec<Self> {
        let one = |(place, machine): (usize, &'a MachineTrial)| Self {
            name: Some(&machine.name),
            cpus: machine.cpus,
            servers: Some(&machine.servers),
            observed: Cow::Borrowed(&machine.observed),
            others: beside(place, kernels, &|other| &machines[other].observed),
        };
        machines.iter().enumerate().map(one).collect()
    }

    /// Describes machines of a run under way, each by its name, its CPUs and what it saw so far.
    pub fn so_far(machines: Vec<(&'a str, u32, Observed)>, kernels: &[usize]) -> Vec<Self> {
        let others: Vec<Vec<Series>> = (0..machines.len())
            .map(|place| beside(place, kernels, &|other| &machines[other].2))
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

    /// Returns whether it had a server of this name.
    pub fn has_server(&self, name: &str) -> bool {
        self.servers.is_none_or(|servers| servers.iter().any(|one| one == name))
    }

    /// Returns what its servers used, and what the generator used on this machine.
    pub fn usage(&self, windows: &[(f64, f64)], load: (f64, f64)) -> Vec<Usage> {
        let mut usage = usage::summarize(&self.observed, windows, load);
        usage.retain(|one| self.has_server(&one.name));
        usage
    }

    /// Returns whether the hypervisor gave its CPU time to others over a stretch, in seconds since the trial began.
    pub fn steal(&self, (from, to): (f64, f64)) -> Verdict {
        self.named(check::machine::steal(&self.observed.machine, self.cpus, from, to))
    }

    /// Returns its samples, with all processes of the run that its CPU time includes.
    pub fn attributed(&self) -> Cow<'_, Observed> {
        if self.others.is_empty() {
            return Cow::Borrowed(&self.observed);
        }
        let mut all = self.observed.clone().into_owned();
        all.nodes.extend(self.others.iter().cloned());
        Cow::Owned(all)
    }

    /// Names the machine in a verdict that needs a reason.
    pub fn named(&self, verdict: Verdict) -> Verdict {
        let Some(name) = self.name else { return verdict };
        let on = |why: String| format!("on `{name}`: {why}");
        match verdict {
            Verdict::Failed(why) => Verdict::Failed(on(why)),
            Verdict::NotChecked(why) => Verdict::NotChecked(on(why)),
            Verdict::Passed => Verdict::Passed,
        }
    }
}

/// Returns the processes of the run on other machines of the same kernel.
fn beside<'o>(
    place: usize,
    kernels: &[usize],
    observed: &dyn Fn(usize) -> &'o Observed,
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

/// Returns the CPU time of bakeoff's helpers on a machine as that of a process.
fn helpers(machine: &Series) -> Option<Series> {
    let time = machine.columns.get(&Column::Helpers)?;
    let columns = [(Column::CpuUser, time.clone()), (Column::CpuSystem, vec![0.0; time.len()])];
    Some(Series { name: "helpers".to_owned(), at: machine.at.clone(), columns: columns.into() })
}
