//! Defines the shared parts of emulators of remote services: their guarantees, and an optional latency.
//!
//! Not here: the relay that adds the latency, which bakeoff itself runs (`own_servers::DELAY`).

use bakeoff_core::record::{AckLocation, Guarantees, Setting};
use bakeoff_core::study::{KindOption, OptionForm};
use bakeoff_host::ports::Allocator;
use bakeoff_host::{HostError, NodeSpec, own_program};

use super::own_servers::DELAY;
use super::{ASKED, DescribeContext};

/// Option with the latency.
pub(super) const OPTION: &str = "latency";

pub(super) const OPTIONS: &[KindOption] = &[KindOption {
    name: OPTION,
    form: OptionForm::Duration,
    meaning: "latency added to each request, as of a remote service",
}];

/// Returns the guarantees of an emulator that stores files.
pub(super) fn guarantees(reads: &str) -> Guarantees {
    Guarantees {
        replication: "none: one emulator has the data, where the service replicates it".into(),
        acknowledged: "once the kernel has it, where the service has it on several disks".into(),
        reads: reads.into(),
        acknowledged_in: Some(AckLocation::PageCache),
        ..Guarantees::default()
    }
}

/// Returns the latency as a setting, if the study sets it.
pub(super) fn setting(context: &DescribeContext<'_>) -> Option<Setting> {
    context.option(OPTION).map(|latency| super::setting(OPTION, latency, ASKED))
}

/// Returns the relay in front of a node that listens on `port`; `None` without a latency. The relay is a separate
/// node, and clients connect to its `client` port.
pub(super) fn relay(
    context: &DescribeContext<'_>,
    of: &str,
    port: u16,
    ports: &mut Allocator,
) -> Result<Option<NodeSpec>, HostError> {
    let Some(latency) = context.option(OPTION) else { return Ok(None) };
    let location = context.location(0);
    let listen = ports.take_for(location)?;
    let name = format!("{of}-{OPTION}");
    let args = [
        DELAY.to_owned(),
        location.at(listen).to_string(),
        location.at(port).to_string(),
        latency.to_owned(),
    ];
    Ok(Some(NodeSpec {
        program: own_program(),
        args: args.map(Into::into).to_vec(),
        location,
        ports: vec![("client".into(), listen)],
        dir: context.dir.join(&name),
        name,
        ..NodeSpec::default()
    }))
}
