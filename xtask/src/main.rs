//! Runs bakeoff's developer tasks: `cargo xtask CHORE`. Without a chore it lists them.
//!
//! Not here: the steps of continuous integration (`.ci/run`, which `ci` calls).

// A developer tool may print and read the clock. The restrictions in `clippy.toml` are for bakeoff's own crates.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)]

mod book;
mod calibrate;
mod cluster;
mod dist;
mod evidence;
mod new_system;
mod oci;
mod peers;
mod picture;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
cargo xtask CHORE

  ci                run all checks that a change must pass (same as `.ci/run`)
  tidy              check what no compiler checks: headers, registry, layers, commit subjects,
                    pages of modules, links and length of the documents
  book              make a site of the documents in `target/book`, and check its links; installs
                    mdbook if it is not on PATH
  modules           rewrite `docs/modules/` from the modules' first sentences
  bless [--all]     rewrite generated files: schema, tables, snippets and modules; `--all`:
                    snapshots too, which takes minutes; review the diff before you commit it
  new-system NAME --protocol http|own
                    write the skeleton of a system that uses HTTP/1.1 or its own protocol
  calibrate [--rounds N] [--repetitions N] [--program BAKEOFF] [--record FILE]
                    real trials of the canary: how often a server is declared different from itself,
                    and how often one that is 10 % slower is detected; `--record`: use an earlier run
  record RUN NAME   keep the record of a run in `docs/evidence/records/NAME`, compressed; then bless
  site              make a site of these records and of `results` in `target/site`
  picture RUN       retake the README's pictures with this run's report, light and dark
  peers kv [--operations N] [--rounds N] [--dry]
                    compare etcd's own benchmark tool with bakeoff; writes `docs/performance.md`
                    unless `--dry`; fails if a bound is missed
  peers http [--seconds N] [--rounds N] [--only CASE]... [--dry] [--realtime] [--programs DIR]
             [--without TOOL]...
                    compare wrk, h2load, fortio, oha, hey, vegeta and k6 with bakeoff; writes
                    `docs/performance.md` unless `--dry` or `--only`; `--realtime` (root): no other
                    process takes their CPUs; `--programs`: folder with built `bakeoff` and
                    `http_baseline`
  peers http --soak [MINUTES] [--dry]
                    `bakeoff load` at full speed for ten minutes: its memory must stay flat
  peers vault --original PATH [--server PATH] [--program BAKEOFF] [--rounds N] [--seconds N]
              [--only cpu|traffic] [--shared]
                    compare vault-benchmark or benchmark-openbao with `bakeoff vault-benchmark`: CPU
                    time per request, and the requests of each test type; `--server`: a Vault or
                    OpenBao [default: the Vault that bakeoff finds]; `--shared`: pin nothing to a
                    CPU; writes no file
  cluster up [--nodes N]
                    start a real Kubernetes of N nodes (default 2) on this machine, for tests, without
                    a container engine; needs root; the first start builds its programs in ten minutes
  cluster programs  fetch and build its programs into the cache without starting it
  cluster down      stop it and remove everything that belongs to it
  cluster status [--json]
                    show where it is and how to use it; fails if none is up
  cluster check     check whether one can start here, and list what is missing
  cluster kubectl ARGUMENT...
                    run kubectl in its network
  cluster image TAR|debian
                    import an OCI image into each node; `debian`: build one with Debian's C library,
                    shell, tools and Java
  cluster image NAME PATH=FILE...
                    build an image of files on this machine, with the libraries they need, and
                    import it
  dist [--target TRIPLE]… [--profile release|dev] [--check] [--measure [--native FILE] [--pairs N]]
                    build packages in `target/dist`: for each target (default: x86-64 and aarch64, musl and glibc
                    2.28) a wheel, a program and an archive; Debian packages, an OCI image, a bill of
                    materials and hashes. `--check`: run them where nothing else is; `--measure`: CPU
                    time per request by that of the native release build, at most 1.03";

/// Reason why a task failed, in words.
type Failure = String;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["ci"] => run(Command::new(root().join(".ci/run"))),
        ["tidy"] => tidy_up(),
        ["book"] => book::build(),
        ["modules"] => write_modules(),
        ["bless"] => bless(false),
        ["bless", "--all"] => bless(true),
        ["new-system", options @ ..] => new_system::write(options),
        ["calibrate", options @ ..] => calibrate::calibrate(options),
        ["record", from, name] => evidence::keep(from, name),
        ["site"] => evidence::site(),
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

/// Returns the root of the checkout.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a folder of the checkout").to_owned()
}

fn cargo() -> Command {
    let cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let mut cargo = without_own_variables(cargo);
    cargo.current_dir(root());
    cargo
}

/// Removes the variables with which cargo describes xtask. ring's build script reads them, so ring and all that needs
/// it would be compiled again.
fn without_own_variables(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let of_xtask = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if of_xtask.iter().any(|start| name.to_string_lossy().starts_with(start)) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command with its output shown. Fails unless the exit code is 0.
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
    Err(format!("{} problems found:\n  {}", complaints.len(), complaints.join("\n  ")))
}

fn write_modules() -> Result<(), Failure> {
    tidy::write_module_pages(&root())
        .map_err(|error| format!("cannot write the pages of modules: {error}"))
}

/// A test that compares files with generated ones, and writes them when `BLESS` is set.
struct Guard {
    /// Source file of the test.
    source: &'static str,
    /// Arguments of `cargo test`, with a filter for the test's name.
    test: &'static [&'static str],
}

/// Tests that need neither a server nor bakeoff's program. They take seconds once compiled. The kinds come first,
/// because core's tests read them.
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
        source: "crates/bakeoff-core/src/study/reference.rs",
        test: &["-p", "bakeoff-core", "--lib", "--", "study::reference::"],
    },
    Guard {
        source: "crates/bakeoff-core/src/study/schema.rs",
        test: &[
            "-p",
            "bakeoff-core",
            "--lib",
            "--",
            "study::schema::tests::schema_file_matches_the_parser_tables",
        ],
    },
    Guard {
        source: "crates/bakeoff-report/src/tests.rs",
        test: &["-p", "bakeoff-report", "--lib", "--", "tests::schemas"],
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

/// Tests of output snapshots and the fault matrix. They take long to compile or run, or start bakeoff.
const SNAPSHOTS: &[Guard] = &[
    Guard {
        source: "crates/bakeoff-report/tests/reports/main.rs",
        test: &["-p", "bakeoff-report", "--test", "reports"],
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
        source: "crates/bakeoff/tests/commands/evidence.rs",
        test: &["-p", "bakeoff", "--test", "commands", "--", "evidence::"],
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

/// Makes tests write their files: the generated ones, and on request the snapshots.
fn bless(with_snapshots: bool) -> Result<(), Failure> {
    let snapshots = if with_snapshots { SNAPSHOTS } else { &[] };
    for guard in QUICK.iter().chain(snapshots) {
        let mut tests = cargo();
        tests.args(["test", "--quiet"]).args(guard.test).env("BLESS", "1");
        run(tests).map_err(|why| format!("cannot bless the files of `{}`: {why}", guard.source))?;
    }
    write_modules()?;
    println!("blessed; review the changes with `git diff`");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects the Rust files below a folder that read `BLESS`.
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
    fn bless_runs_every_test_that_blesses() {
        let mut found = Vec::new();
        blessing(&root().join("crates"), &mut found);
        let mut known: Vec<_> = QUICK.iter().chain(SNAPSHOTS).map(|guard| guard.source).collect();
        found.sort();
        known.sort_unstable();
        assert_eq!(found, known);
    }
}
