//! `bakeoff agent`: what a coordinator starts on other machines, and speaks to over a pipe.
//!
//! Signals are not caught: one ends it as the closing of its pipe does, and the warden sees to what it started.
//!
//! Not here: the protocol and the host behind it (`bakeoff_agent`), how loads are driven (`generators::serve`).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bakeoff_agent::{Hello, PROTOCOL};
use bakeoff_clock::wall;
use bakeoff_engine::open_files;
use bakeoff_install::place;

use crate::environment;
use crate::failure::Failure;
use crate::generators::serve::Generator;

/// Serves until standard input closes.
///
/// # Errors
/// When what comes is no request, or the user's cache cannot be found.
pub(crate) fn serve() -> Result<(), Failure> {
    let cache = place::cache(|name| std::env::var_os(name).map(PathBuf::from));
    let cache = cache.or_else(|| Some(std::env::temp_dir().join("bakeoff")));
    let uname = rustix::system::uname();
    let hello = Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sha256: environment::own_sha256().unwrap_or_default(),
        program: std::env::current_exe().unwrap_or_else(|_| "bakeoff".into()),
        host: uname.nodename().to_string_lossy().into_owned(),
        cache: cache.unwrap_or_default(),
        root: rustix::process::geteuid().is_root(),
        cpus: open_files::cpus(),
        wall: wall::seconds(),
    };
    let served =
        bakeoff_agent::serve(&hello, Arc::new(Generator::default()), io::stdin(), io::stdout());
    served.map_err(|error| Failure::machine(format!("the coordinator cannot be served: {error}")))
}
