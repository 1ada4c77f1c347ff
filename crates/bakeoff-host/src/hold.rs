//! `bakeoff __hold RUN_DIR COUNT[,HOW] PROGRAM ARGS…`: launches nodes, prints their process IDs, and waits.
//!
//! For tests that kill bakeoff and check what is left: they need a bakeoff that runs servers and nothing else. It
//! prints the warden's process ID, then one line per node. `never-root` runs the program as a node that refuses root;
//! `before` runs it as a command before a node.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::{Host, HostError, NodeSpec, OnFailure, SetupCommand, launcher};

pub(super) const COMMAND: &str = "__hold";

pub(super) fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    match hold(&args.collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn hold(args: &[OsString]) -> Result<(), HostError> {
    let [run_dir, count, program, args @ ..] = args else {
        return Err(HostError::Spec { node: "hold".into(), problem: "too few arguments".into() });
    };
    let run_dir = PathBuf::from(run_dir);
    let host = Host::new(&run_dir)?;
    let count = count.to_str().unwrap_or_default();
    let (count, how) = count.split_once(',').unwrap_or((count, ""));
    let count = count.parse().unwrap_or(1);
    let nodes = (1..=count).map(|n| {
        let name = format!("node-{n}");
        host.launch(NodeSpec {
            dir: run_dir.join(&name),
            name,
            program: if how == "before" { "true".into() } else { program.into() },
            args: args.to_vec(),
            before: match how {
                "before" => vec![SetupCommand {
                    program: program.into(),
                    args: args.to_vec(),
                    within: Duration::from_secs(60),
                    failure: OnFailure::GiveUp,
                }],
                _ => Vec::new(),
            },
            never_root: how == "never-root",
            limits: None,
            ..NodeSpec::default()
        })
    });
    let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{}", launcher::warden_pid().unwrap_or(0));
    for node in &nodes {
        let _ = writeln!(out, "{}", node.pid().unwrap_or(0));
    }
    let _ = out.flush();
    loop {
        std::thread::park();
    }
}
