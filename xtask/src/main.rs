//! bakeoff's developer chores: `cargo xtask ci | tidy | bless | new-system | calibrate | picture | peers | cluster | dist`.
//!
//! Not here: what continuous integration runs (`.ci/run`, which `ci` calls).

// The tool of a developer prints as it goes and times from outside what it starts; the homes that
// `clippy.toml` names are bakeoff's own.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)]

mod calibrate;
mod cluster;
mod dist;
mod new_system;
mod oci;
mod peers;
mod picture;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
cargo xtask CHORE

  ci                everything that must hold before a change is taken (the same as `.ci/run`)
  tidy              what no compiler checks: headers, registry, layers, commit subjects
  bless [--all]     write generated files anew, schema, tables and snippets; `--all`: snapshots too, which
                    takes minutes: look at the diff before you commit it
  new-system NAME --protocol http|own
                    writes the skeleton of a system, spoken to over HTTP/1.1 or a protocol of its own
  calibrate [--rounds N] [--repetitions N] [--program BAKEOFF] [--record FILE]
                    real trials of the canary: how often a server is declared different from itself,
                    and how often one that is a tenth slower is found; `--record`: of a run made before
  picture RUN       take the README's pictures of this run's report anew, light and dark
  peers kv [--operations N] [--rounds N] [--dry]
                    etcd's own benchmark tool against bakeoff, side by side; writes
                    `docs/performance.md` unless `--dry`; fails when a bound is missed
  peers http [--seconds N] [--rounds N] [--only CASE]... [--dry] [--realtime] [--programs DIR]
             [--without TOOL]...
                    wrk, h2load, fortio, oha, hey, vegeta and k6 against bakeoff; writes it too,
                    unless `--dry` or `--only`; `--realtime` (root): nothing else takes their CPUs;
                    `--programs`: a folder with `bakeoff` and `http_baseline`, built already
  peers http --soak [MINUTES] [--dry]
                    `bakeoff load` at full speed for ten minutes: memory must be flat
  peers vault --original PATH [--server PATH] [--program BAKEOFF] [--rounds N] [--seconds N]
              [--only cpu|traffic] [--shared]
                    vault-benchmark or benchmark-openbao against `bakeoff vault-benchmark`: CPU time
                    per request, and what each test type asks the server for; `--server`: a Vault
                    or OpenBao, else the Vault that bakeoff finds; `--shared`: nothing
                    is pinned to a CPU; writes nothing
  cluster up [--nodes N]
                    a real Kubernetes of N nodes (2) on this machine, for tests, without a container
                    engine; needs root; the first time its programs are built, which takes ten minutes
  cluster programs  have its programs in the cache, and start none
  cluster down      end it, with all that belongs to it
  cluster status [--json]
                    where it is and how to use it; fails where none is up
  cluster check     whether one can be started here, and what is missing
  cluster kubectl ARGUMENT...
                    kubectl, in its network
  cluster image TAR|debian
                    import an OCI image into each node; `debian`: one with Debian's C library, shell,
                    tools and Java, made now
  cluster image NAME PATH=FILE...
                    make an image of files of this machine, with the libraries that they need, and
                    import it
  dist [--target musl|gnu] [--profile release|dev] [--check] [--measure [--native FILE] [--pairs N]]
       [--program FILE]
                    one file that runs on any x86-64 Linux and an OCI image of it, in `target/dist`:
                    linked with musl where that can be had, else statically with glibc; `--check`:
                    runs both where there is nothing else; `--measure`: CPU time per request by that of
                    the native release build, at most 1.03; `--program FILE`: built already";

/// Why a chore failed, in words.
type Failure = String;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["ci"] => run(Command::new(root().join(".ci/run"))),
        ["tidy"] => tidy_up(),
        ["bless"] => bless(false),
        ["bless", "--all"] => bless(true),
        ["new-system", options @ ..] => new_system::write(options),
        ["calibrate", options @ ..] => calibrate::calibrate(options),
        ["picture", run] => picture::take(run),
        ["peers", "kv", options @ ..] => peers::kv::compare(options),
        ["peers", "http", options @ ..] => peers::http::compare(options),
        ["cluster", words @ ..] => cluster::command(words),
        ["peers", "vault", options @ ..] => peers::vault::compare(options),
        ["dist", options @ ..] => dist::dist(options),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The checkout.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a folder of the checkout").to_owned()
}

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    // `cargo xtask` says what xtask is. ring's build script looks at that, so that it and all that needs it
    // would be compiled anew by us, and again by whoever calls cargo after us.
    for (name, _) in std::env::vars_os() {
        let of_xtask = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if of_xtask.iter().any(|start| name.to_string_lossy().starts_with(start)) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Runs a command with our own output; an exit code other than 0 is a failure.
fn run(mut command: Command) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("cannot run `{program}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{program}` ended with {status}")) }
}

fn tidy_up() -> Result<(), Failure> {
    let complaints = tidy::complaints(&root());
    if complaints.is_empty() {
        println!("tidy");
        return Ok(());
    }
    Err(format!("{} things are not tidy\n  {}", complaints.len(), complaints.join("\n  ")))
}

/// A test that guards files which it writes when `BLESS` is set.
struct Guard {
    /// The source file in which it does.
    source: &'static str,
    /// Arguments of `cargo test`, and the test's name or a part of it.
    test: &'static [&'static str],
}

/// Those that need neither a server nor a program of ours: seconds, once they are compiled. The kinds are first, as
/// core's tests read them.
const QUICK: &[Guard] = &[
    Guard {
        source: "crates/bakeoff-systems/src/kinds_file.rs",
        test: &["-p", "bakeoff-systems", "--lib", "--", "kinds_file::"],
    },
    Guard {
        source: "crates/bakeoff-systems/src/table.rs",
        test: &["-p", "bakeoff-systems", "--lib", "--", "table::"],
    },
    Guard {
        source: "crates/bakeoff-systems/src/guide.rs",
        test: &["-p", "bakeoff-systems", "--lib", "--", "guide::"],
    },
    Guard {
        source: "crates/bakeoff/src/cli/reference.rs",
        test: &["-p", "bakeoff", "--bins", "--", "cli::reference::"],
    },
    Guard {
        source: "crates/bakeoff-core/src/study/schema.rs",
        test: &[
            "-p",
            "bakeoff-core",
            "--lib",
            "--",
            "study::schema::tests::the_schema_in_the_tree",
        ],
    },
    Guard {
        source: "crates/bakeoff-report/src/derive/method/tests.rs",
        test: &["-p", "bakeoff-report", "--lib", "--", "derive::method::"],
    },
    Guard {
        source: "crates/bakeoff-core/tests/statistics/evidence.rs",
        test: &["-p", "bakeoff-core", "--test", "statistics"],
    },
];

/// Snapshots of output, and the matrix of faults: they take long to compile or run, or start bakeoff.
const SNAPSHOTS: &[Guard] = &[
    Guard {
        source: "crates/bakeoff-report/tests/reports/main.rs",
        test: &["-p", "bakeoff-report", "--test", "reports", "--", "a_report_is_what"],
    },
    Guard {
        source: "crates/bakeoff-compat/src/vault_benchmark/tests/recorded.rs",
        test: &["-p", "bakeoff-compat", "--lib", "--", "vault_benchmark::tests::recorded::"],
    },
    Guard {
        source: "crates/bakeoff/tests/faults/main.rs",
        test: &["-p", "bakeoff", "--test", "faults", "--", "evidence_page"],
    },
    Guard {
        source: "crates/bakeoff/tests/commands/outputs.rs",
        test: &["-p", "bakeoff", "--test", "commands", "--", "outputs::"],
    },
    Guard {
        source: "crates/bakeoff/tests/commands/diagnostics.rs",
        test: &["-p", "bakeoff", "--test", "commands", "--", "diagnostics::"],
    },
];

/// Has tests write the files that they guard: those that are generated, or snapshots too.
fn bless(with_snapshots: bool) -> Result<(), Failure> {
    let snapshots = if with_snapshots { SNAPSHOTS } else { &[] };
    for guard in QUICK.iter().chain(snapshots) {
        let mut tests = cargo();
        tests.args(["test", "--quiet"]).args(guard.test).env("BLESS", "1");
        run(tests)
            .map_err(|why| format!("what `{}` guards is not blessed: {why}", guard.source))?;
    }
    println!("blessed; `git diff` shows what changed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the Rust files below a folder that look for `BLESS`.
    fn blessing(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                blessing(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let looks = std::fs::read_to_string(&path).unwrap().contains("var_os(\"BLESS\")");
                if looks {
                    let path = path.strip_prefix(root()).unwrap();
                    found.push(path.display().to_string());
                }
            }
        }
    }

    #[test]
    fn every_test_that_blesses_is_run_by_bless() {
        let mut found = Vec::new();
        blessing(&root().join("crates"), &mut found);
        let mut known: Vec<_> = QUICK.iter().chain(SNAPSHOTS).map(|guard| guard.source).collect();
        found.sort();
        known.sort_unstable();
        assert_eq!(found, known);
    }
}
