//! Puts a latency before an emulator, as an option of it.
//!
//! Not here: what adds it (`crate::delay`).

use super::Asked;
use crate::delay;
use crate::host::ports::Allocator;
use crate::host::{HostError, NodeSpec};

/// The option that says how much.
pub(super) const OPTION: &str = "latency";

/// The relay in front of a node that listens on `port`; `None` where the study asks for no
/// latency. It is a node of its own, whose `client` port clients are to connect to.
pub(super) fn relay(
    asked: &Asked<'_>,
    of: &str,
    port: u16,
    ports: &mut Allocator,
) -> Result<Option<NodeSpec>, HostError> {
    let Some(latency) = asked.option(OPTION) else { return Ok(None) };
    let listen = ports.take()?;
    let name = format!("{of}-{OPTION}");
    let args = [
        delay::COMMAND.to_owned(),
        format!("127.0.0.1:{listen}"),
        format!("127.0.0.1:{port}"),
        latency.to_owned(),
    ];
    Ok(Some(NodeSpec {
        program: delay::program(),
        args: args.map(Into::into).to_vec(),
        ports: vec![("client".into(), listen)],
        dir: asked.dir.join(&name),
        name,
        ..NodeSpec::default()
    }))
}
