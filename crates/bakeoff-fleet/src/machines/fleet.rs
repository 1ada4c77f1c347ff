//! The machines of a run: this one alone, or those of a places file.
//!
//! A run and its trials know only this. What differs between the two is decided here.
//!
//! Not here: what is asked of machines behind a pipe (`super`), who drives a load (`generators`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bakeoff_agent::AgentError;
use bakeoff_core::places::Places;
use bakeoff_core::record::{BaselineAppends, Environment, GeneratorPart, MachineTrial};
use bakeoff_core::study::{self, Study};
use bakeoff_engine::open_files;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{Host, HostError, NodeSpec, Process};
use bakeoff_install::Installed;
use bakeoff_systems::seating::Seating;

use super::baseline::{self, BaselineEvent, BaselineOrder};
use super::{Machines, NodesOf, Rehearsal, record};
use crate::error::FleetError;

/// The machines that a run uses.
pub enum Fleet {
    /// This machine, in process.
    Local,
    /// The machines of a places file, each behind a pipe.
    Placed(Arc<Machines>),
}

impl Fleet {
    /// Returns the machines of a places file, for what this machine alone has no counterpart of.
    pub fn placed(&self) -> Option<&Arc<Machines>> {
        match self {
            Self::Local => None,
            Self::Placed(machines) => Some(machines),
        }
    }

    /// Returns the places that the run is to use; `None` for this machine alone.
    pub fn places(&self) -> Option<&Places> {
        self.placed().map(|machines| &machines.places)
    }

    /// Returns the seats that nodes take.
    pub fn seating(&self) -> Seating {
        self.placed().map_or_else(Seating::here, |machines| machines.seating())
    }

    /// Returns what finds ports for nodes: from `base` on where a user chose it.
    pub fn ports(&self, base: Option<u16>) -> Allocator {
        match self {
            Self::Local => Allocator::new(base),
            Self::Placed(machines) => {
                Allocator::new(None).with_elsewhere(Arc::clone(machines) as _)
            }
        }
    }

    /// Returns what finds the same ports from `base` on and leaves them free.
    pub fn rehearsal(&self, base: u16) -> Allocator {
        let ports = Allocator::rehearsal(base);
        match self {
            Self::Local => ports,
            Self::Placed(machines) => {
                ports.with_elsewhere(Arc::new(Rehearsal::new(machines, base)))
            }
        }
    }

    /// Returns the CPUs that each generator has at least.
    pub fn generator_cpus(&self) -> u32 {
        let elsewhere = self.placed().and_then(|machines| machines.generator_cpus());
        elsewhere.unwrap_or_else(open_files::cpus)
    }

    /// Returns the names of the machines that drive the load, in the order of the places file; none for this machine.
    pub fn generator_names(&self) -> Vec<String> {
        self.placed().map(|machines| machines.generator_names()).unwrap_or_default()
    }

    /// Returns why a machine is lost, if one is.
    pub fn lost(&self) -> Option<&AgentError> {
        self.placed()?.lost()
    }

    /// Returns why a machine is lost, if one is, with what Kubernetes knows of a pod.
    pub fn loss_told(&self) -> Option<String> {
        self.placed()?.loss_told()
    }

    /// Begins a trial: what the one before left is thrown away, unless servers are kept.
    ///
    /// # Errors
    /// When a machine is lost.
    pub fn begin_trial(&self, name: &str, keeps: bool) -> Result<(), AgentError> {
        self.placed().map_or(Ok(()), |machines| machines.begin_trial(name, keeps))
    }

    /// Returns the program that the image of a system's pods holds, where there is one.
    ///
    /// # Errors
    /// When the image lacks it, or not all machines have the same.
    pub fn program_of_image(&self, asked: &study::System) -> Result<Option<Installed>, FleetError> {
        self.placed().map_or(Ok(None), |machines| machines.program_of_image(asked))
    }

    /// Removes the data that servers that did not come up have on other machines.
    ///
    /// # Errors
    /// When it stays, or a machine is lost.
    pub fn discard(&self, whose: NodesOf<'_>) -> Result<(), AgentError> {
        self.placed().map_or(Ok(()), |machines| machines.discard(whose))
    }

    /// Makes the limits of servers those of their pods, before any is launched.
    ///
    /// # Errors
    /// When a machine is lost.
    pub fn confine<'a>(&self, nodes: impl Iterator<Item = &'a NodeSpec>) -> Result<(), AgentError> {
        self.placed().map_or(Ok(()), |machines| machines.confine(nodes))
    }

    /// Launches a server on the machine of its seat. `nodes`: the folder of all nodes, as they were described, and
    /// whose they are; `host` launches on this machine.
    ///
    /// # Errors
    /// When it cannot be launched there.
    pub fn launch(
        &self,
        host: &Host,
        spec: NodeSpec,
        nodes: (&Path, NodesOf<'_>),
    ) -> Result<Process, HostError> {
        match self {
            Self::Local => host.launch(spec),
            Self::Placed(machines) => machines.launch(spec, nodes),
        }
    }

    /// Adds to the description of a run's environment the machines of its places.
    ///
    /// # Errors
    /// When a machine is lost.
    pub fn describe(&self, environment: &mut Environment) -> Result<(), FleetError> {
        let Self::Placed(machines) = self else { return Ok(()) };
        let described = machines.describe(environment.generator_threads)?;
        let both = described.iter().any(|machine| machine.servers && machine.generator);
        environment.shared_with_servers = both;
        environment.machines = described;
        environment.network = machines.measure_network()?;
        Ok(())
    }

    /// Measures what each machine can do at best, for the record. This machine's data is below `dir`.
    ///
    /// # Errors
    /// When a machine is lost, or the user wants the end.
    pub fn measure_baseline(
        &self,
        (study, dir): (&Study, &Path),
        environment: &mut Environment,
        report: &mut dyn FnMut(BaselineEvent<'_>),
        interrupted: &AtomicBool,
    ) -> Result<(), FleetError> {
        let order = BaselineOrder::new(study, dir, environment.generator_threads);
        environment.machine_baseline = match self {
            Self::Local => {
                baseline::measure(order, environment.open_files_max, report, interrupted)?
            }
            Self::Placed(machines) => {
                let described = &mut environment.machines;
                machines.measure_baselines(&order, described, report, interrupted)?
            }
        };
        Ok(())
    }

    /// Measures again what the disks commit that hold servers' data; nothing of a machine that is lost, which its
    /// trial reports.
    pub fn measure_disks(
        &self,
        dir: &Path,
        environment: &Environment,
        interrupted: &AtomicBool,
    ) -> Vec<BaselineAppends> {
        let known = environment.machine_baseline.as_ref();
        match self {
            Self::Local => baseline::again(dir, known, interrupted),
            Self::Placed(machines) => {
                machines.measure_disks(known, interrupted).unwrap_or_default()
            }
        }
    }

    /// Notes each generator's parts, stage by stage, with the machine that it is. The parts of this machine are the
    /// whole load.
    pub fn note_parts(&self, each: &mut [MachineTrial], stages: Vec<Vec<GeneratorPart>>) {
        if let Self::Placed(machines) = self {
            record::note_parts(each, machines, stages);
        }
    }
}
