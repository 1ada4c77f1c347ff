//! The machines of a run: this one alone, or those of a places file.
//!
//! A run and its trials use only this type. It decides everything that differs between the two.
//!
//! Not here: requests to machines behind a pipe (`super`), the generators (`generators`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bakeoff_agent::AgentError;
use bakeoff_core::places::Places;
use bakeoff_core::record::{BaselineAppends, Environment, GeneratorPart, MachineTrial};
use bakeoff_core::study::{self, Study};
use bakeoff_engine::open_files;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{Host, HostError, NodeSpec, Process, volatile_disk_support};
use bakeoff_install::InstalledProgram;
use bakeoff_systems::location_plan::LocationPlan;

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
    /// Returns the machines of a places file, for operations that have no local counterpart.
    pub fn placed(&self) -> Option<&Arc<Machines>> {
        match self {
            Self::Local => None,
            Self::Placed(machines) => Some(machines),
        }
    }

    /// Returns the places of the run; `None` for this machine alone.
    pub fn places(&self) -> Option<&Places> {
        self.placed().map(|machines| &machines.places)
    }

    /// Returns the locations for nodes.
    pub fn locating(&self) -> LocationPlan {
        self.placed().map_or_else(LocationPlan::here, |machines| machines.locating())
    }

    /// Returns an allocator of ports for nodes, from `base` if the user chose it.
    pub fn ports(&self, base: Option<u16>) -> Allocator {
        match self {
            Self::Local => Allocator::new(base),
            Self::Placed(machines) => {
                Allocator::new(None).with_elsewhere(Arc::clone(machines) as _)
            }
        }
    }

    /// Returns an allocator that finds the same ports from `base` without reserving them.
    pub fn rehearsal(&self, base: u16) -> Allocator {
        let ports = Allocator::rehearsal(base);
        match self {
            Self::Local => ports,
            Self::Placed(machines) => {
                ports.with_elsewhere(Arc::new(Rehearsal::new(machines, base)))
            }
        }
    }

    /// Returns the smallest number of CPUs of any generator.
    pub fn generator_cpus(&self) -> u32 {
        let elsewhere = self.placed().and_then(|machines| machines.generator_cpus());
        elsewhere.unwrap_or_else(open_files::cpus)
    }

    /// Returns the names of the generator machines, in the order of the places file; empty without places.
    pub fn generator_names(&self) -> Vec<String> {
        self.placed().map(|machines| machines.generator_names()).unwrap_or_default()
    }

    /// Returns the cause of a machine's loss, if one is lost.
    pub fn lost(&self) -> Option<&AgentError> {
        self.placed()?.lost()
    }

    /// Returns the cause of a machine's loss, if one is lost, with what Kubernetes reports about its pod.
    pub fn reported_loss(&self) -> Option<String> {
        self.placed()?.reported_loss()
    }

    /// Begins a trial. Deletes the data of the previous one, unless `keeps` is true.
    ///
    /// # Errors
    /// When a machine is lost.
    pub fn begin_trial(&self, name: &str, keeps: bool) -> Result<(), AgentError> {
        self.placed().map_or(Ok(()), |machines| machines.begin_trial(name, keeps))
    }

    /// Returns the program in the image of a system's pods, if it comes from an image.
    ///
    /// # Errors
    /// When the image lacks it, or the machines have different ones.
    pub fn program_of_image(
        &self,
        study_system: &study::System,
    ) -> Result<Option<InstalledProgram>, FleetError> {
        self.placed().map_or(Ok(None), |machines| machines.program_of_image(study_system))
    }

    /// Removes the data that failed servers left on other machines.
    ///
    /// # Errors
    /// When removing fails, or a machine is lost.
    pub fn discard(&self, whose: NodesOf<'_>) -> Result<(), AgentError> {
        self.placed().map_or(Ok(()), |machines| machines.discard(whose))
    }

    /// Applies servers' limits to their pods, before the servers are launched.
    ///
    /// # Errors
    /// When a machine is lost.
    pub fn confine<'a>(&self, nodes: impl Iterator<Item = &'a NodeSpec>) -> Result<(), AgentError> {
        self.placed().map_or(Ok(()), |machines| machines.confine(nodes))
    }

    /// Launches a server on the machine of its location; `host` launches on this machine. `nodes`: the folder of all nodes
    /// on this machine, and the owner of their data.
    ///
    /// # Errors
    /// When the launch fails.
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

    /// Returns the reason why a machine with servers cannot mount a file system whose disk breaks; `None` if all can.
    ///
    /// # Errors
    /// When a machine is lost.
    pub fn lacks_own_disks(&self) -> Result<Option<String>, AgentError> {
        match self {
            Self::Local => Ok(volatile_disk_support().err()),
            Self::Placed(machines) => machines.lack_own_disks(),
        }
    }

    /// Adds the machines of the places to the description of a run's environment.
    ///
    /// # Errors
    /// When a machine is lost.
    pub fn describe(&self, environment: &mut Environment) -> Result<(), FleetError> {
        let Self::Placed(machines) = self else { return Ok(()) };
        let described = machines.describe(environment.generator_threads)?;
        let both = described.iter().any(|machine| machine.servers && machine.generator);
        environment.shared_with_servers = both || machines.places.can_be_cut();
        environment.machines = described;
        environment.network = machines.measure_network()?;
        Ok(())
    }

    /// Measures each machine's baseline for the record. This machine's data is below `dir`.
    ///
    /// # Errors
    /// When a machine is lost, or the user interrupts.
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

    /// Measures the disks of servers' data again. Returns nothing if a machine is lost; its trial reports the loss.
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

    /// Records each generator's part of every stage with its machine. Does nothing without places, where this machine
    /// drives the whole load.
    pub fn note_parts(&self, each: &mut [MachineTrial], stages: Vec<Vec<GeneratorPart>>) {
        if let Self::Placed(machines) = self {
            record::note_parts(each, machines, stages);
        }
    }
}
