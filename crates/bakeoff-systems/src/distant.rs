//! Shared parts of the emulators of distant services: their guarantees, and a latency before
//! them, as an option.
//!
//! Not here: the relay that adds it, which bakeoff starts itself as (`own_servers::DELAY`).

use bakeoff_core::record::{Acknowledged, Guarantees, Setting};
use bakeoff_core::study::{KindOption, OptionForm};
use bakeoff_host::ports::Allocator;
use bakeoff_host::{HostError, NodeSpec, own_program};

use super::own_servers::DELAY;
use super::{ASKED, Asked};

/// The option that says how much.
pub(super) const OPTION: &str = "latency";

/// The options of an emulator.
pub(super) const OPTIONS: &[KindOption] = &[KindOption {
    name: OPTION,
    form: OptionForm::Duration,
    meaning: "how much longer each request takes, as if the service were so far away",
}];

/// Returns the guarantees of an emulator that keeps files.
pub(super) fn guarantees(reads: &str) -> Guarantees {
    Guarantees {
        replication: "none: one emulator has the data, where the service replicates it".into(),
        acknowledged: "once the kernel has it, where the service has it on several disks".into(),
        reads: reads.into(),
        acknowledged_in: Some(Acknowledged::PageCache),
        ..Guarantees::default()
    }
}

/// The latency as a setting, where the study asks for one.
pub(super) fn setting(asked: &Asked<'_>) -> Option<Setting> {
    asked.option(OPTION).map(|latency| super::setting(OPTION, latency, ASKED))
}

/// The relay in front of a node that listens on `port`; `None` where the study asks for no
/// latency. It is a node of its own, whose `client` port clients are to connect to.
pub(super) fn relay(
    asked: &Asked<'_>,
    of: &str,
    port: u16,
    ports: &mut Allocator,
) -> Result<Option<NodeSpec>, HostError> {
    let Some(latency) = asked.option(OPTION) else { return Ok(None) };
    let seat = asked.seat(0);
    let listen = ports.take_for(seat)?;
    let name = format!("{of}-{OPTION}");
    let args = [
        DELAY.to_owned(),
        seat.at(listen).to_string(),
        seat.at(port).to_string(),
        latency.to_owned(),
    ];
    Ok(Some(NodeSpec {
        program: own_program(),
        args: args.map(Into::into).to_vec(),
        seat,
        ports: vec![("client".into(), listen)],
        dir: asked.dir.join(&name),
        name,
        ..NodeSpec::default()
    }))
}
