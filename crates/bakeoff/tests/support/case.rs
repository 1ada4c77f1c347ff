//! Provides real systems for tests: installs them with `bakeoff install`, or skips the test with the reason.
//!
//! Not here: skipping (`skip`).

use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use serde::Deserialize;

use super::skip::{SkipReason, SkippedTests};
use super::{CommandOutput, bakeoff, has};

/// A system under test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) kind: &'static str,
    /// Requested version. Empty for any, and for systems that are part of bakeoff.
    pub(crate) version: &'static str,
    pub(crate) nodes: u32,
    /// Number of nodes that clients connect to.
    pub(crate) targets: u32,
    /// Product to install, if it differs from the kind.
    pub(crate) product: &'static str,
    /// Further fields in a study: `options: {heap: 192MiB}`.
    pub(crate) more: &'static str,
    /// `reads` of its workloads, if a study cannot choose; else empty.
    pub(crate) reads: &'static str,
    /// True if all nodes are masters without a leader: of two concurrent writes of a key at two nodes, each may keep
    /// its own.
    pub(crate) masters: bool,
    pub(crate) parts: &'static [Part],
    /// Suffix of the test's name that distinguishes cases of one kind.
    pub(crate) what: &'static str,
    /// Tools to install it: without at least one of them, the machine lacks the system regardless of the network.
    pub(crate) needs: &'static [&'static str],
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) role: &'static str,
    pub(crate) kind: &'static str,
    /// Further fields in a study.
    pub(crate) more: &'static str,
    /// Number of its processes to check.
    pub(crate) processes: usize,
    pub(crate) needs: &'static [&'static str],
}

/// The content of `contract.json` in a system's folder.
pub(crate) struct Contract {
    pub(crate) kind: &'static str,
    pub(crate) cases: Vec<CaseTests>,
    /// Reason for having no cases, with the place of its tests.
    pub(crate) elsewhere: Option<String>,
}

/// A case and its tests besides those of every system.
pub(crate) struct CaseTests {
    pub(crate) case: Case,
    pub(crate) also: Vec<ExtraTest>,
}

/// A test for some systems only.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ExtraTest {
    /// Reads of the leader and of followers have their freshness.
    FreshReads,
    /// Compare-and-sets of few keys, and short values, keep acknowledged writes.
    CompareAndSet,
    /// Watchers observe all writes, or the latest ones.
    Watches,
    /// Leases that are kept last, and others expire.
    Leases,
    /// Locks have one holder at a time, and no update is lost.
    Locks,
    /// Transactions of several keys happen whole or not at all.
    Transactions,
    /// Access checks, refusals, inserts and handshakes.
    SessionsAndInserts,
}

/// Contents of `contract.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContractFile {
    #[serde(default)]
    cases: Vec<WrittenCase>,
    elsewhere: Option<String>,
    /// Several addresses, for `trial::located`, which reads this field itself.
    #[serde(default, rename = "located")]
    _located: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCase {
    /// Comment in the file.
    #[serde(default, rename = "note")]
    _note: String,
    #[serde(default)]
    product: String,
    #[serde(default)]
    version: String,
    nodes: u32,
    /// Default: all nodes.
    targets: Option<u32>,
    #[serde(default)]
    more: String,
    #[serde(default)]
    reads: String,
    #[serde(default)]
    masters: bool,
    #[serde(default)]
    parts: Vec<WrittenPart>,
    #[serde(default)]
    what: String,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    also: Vec<ExtraTest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPart {
    role: String,
    kind: String,
    #[serde(default)]
    more: String,
    #[serde(default = "one")]
    processes: usize,
    #[serde(default)]
    needs: Vec<String>,
}

fn one() -> usize {
    1
}

/// Leaks a text: cases live as long as the tests.
fn kept(text: String) -> &'static str {
    text.leak()
}

fn all_kept(texts: Vec<String>) -> &'static [&'static str] {
    texts.into_iter().map(kept).collect::<Vec<_>>().leak()
}

/// Returns the contracts of all systems. Panics with the name of a missing or invalid one.
pub(crate) fn contracts() -> Vec<Contract> {
    let systems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bakeoff-systems/src");
    super::folders(&systems).iter().map(|folder| contract(folder)).collect()
}

fn contract(folder: &Path) -> Contract {
    let kind = folder.file_name().unwrap().to_str().unwrap().replace('_', "-");
    let path = folder.join("contract.json");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("`{kind}` has no `{}`: {error}", path.display()));
    let written: ContractFile =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("`{}`: {error}", path.display()));
    let kind = kept(kind);
    let part = |part: WrittenPart| Part {
        role: kept(part.role),
        kind: kept(part.kind),
        more: kept(part.more),
        processes: part.processes,
        needs: all_kept(part.needs),
    };
    let asked = |case: WrittenCase| CaseTests {
        case: Case {
            kind,
            product: kept(case.product),
            version: kept(case.version),
            nodes: case.nodes,
            targets: case.targets.unwrap_or(case.nodes),
            more: kept(case.more),
            reads: kept(case.reads),
            masters: case.masters,
            parts: case.parts.into_iter().map(part).collect::<Vec<_>>().leak(),
            what: kept(case.what),
            needs: all_kept(case.needs),
        },
        also: case.also,
    };
    let cases = written.cases.into_iter().map(asked).collect();
    Contract { kind, cases, elsewhere: written.elsewhere }
}

pub(crate) const fn case(kind: &'static str, version: &'static str, nodes: u32) -> Case {
    Case {
        kind,
        product: "",
        version,
        nodes,
        targets: nodes,
        more: "",
        reads: "",
        masters: false,
        parts: &[],
        what: "",
        needs: &[],
    }
}

pub(crate) const fn part(role: &'static str, kind: &'static str) -> Part {
    Part { role, kind, more: "", processes: 1, needs: &[] }
}

impl Case {
    pub(crate) fn name(&self) -> String {
        let Self { kind, version, nodes, what, .. } = self;
        let at = if version.is_empty() { "" } else { "@" };
        let space = if what.is_empty() { "" } else { " " };
        format!(
            "{kind}{at}{version}{space}{what}, {nodes} node{}",
            if *nodes == 1 { "" } else { "s" }
        )
    }

    /// Returns the name in a study, which tells if it runs on an emulator.
    pub(crate) fn called(&self) -> String {
        let emulated = self.parts.iter().any(|part| part.kind.ends_with("-emulator"));
        format!("{}{}", self.kind, if emulated { "-emulated" } else { "" })
    }

    /// Returns the system in a study: `etcd: {kind: etcd, version: "3.6", nodes: 3}`.
    pub(crate) fn in_study(&self) -> String {
        let Self { kind, version, nodes, more, parts, .. } = self;
        let version =
            if version.is_empty() { String::new() } else { format!(", version: \"{version}\"") };
        let parts = parts.iter().map(|part| {
            let Part { role, kind, more, .. } = part;
            let comma = if more.is_empty() { "" } else { ", " };
            format!("{role}: {{kind: {kind}{comma}{more}}}")
        });
        let parts = parts.collect::<Vec<_>>().join(", ");
        let parts = if parts.is_empty() { parts } else { format!(", parts: {{{parts}}}") };
        let comma = if more.is_empty() { "" } else { ", " };
        format!("{}: {{kind: {kind}{version}, nodes: {nodes}{comma}{more}{parts}}}", self.called())
    }

    /// Installs the programs. The error is the reason why one cannot be installed.
    fn install(&self) -> Result<(), String> {
        if self.kind != "canary" {
            let at = if self.version.is_empty() { "" } else { "@" };
            let program = if self.product.is_empty() { self.kind } else { self.product };
            install(&format!("{program}{at}{}", self.version))?;
        }
        self.parts.iter().try_for_each(|part| install(part.kind))
    }

    fn needs(&self) -> impl Iterator<Item = &'static str> {
        self.needs.iter().chain(self.parts.iter().flat_map(|part| part.needs)).copied()
    }
}

pub(crate) fn install(what: &str) -> Result<(), String> {
    let ran = CommandOutput::run(bakeoff().args(["install", what]));
    if ran.code == Some(0) && ran.stdout.contains("is part of bakeoff") {
        return Ok(());
    }
    if ran.code == Some(0) {
        assert!(ran.stdout.contains("SHA-256 "), "{}", ran.stdout);
        return Ok(());
    }
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    let why = ran.stderr.lines().filter(|line| !line.trim().is_empty());
    Err(format!("{what} not found: {}", why.collect::<Vec<_>>().join("; ")))
}

/// Returns the path of a kind's program from `bakeoff systems`.
pub(crate) fn cached(kind: &str) -> PathBuf {
    let systems = CommandOutput::run(bakeoff().arg("systems")).ends_with(0).stdout;
    let blocks = systems.split("\n\n");
    let block = blocks.filter(|block| block.lines().next() == Some(kind)).last().unwrap();
    let runs = block.lines().find_map(|line| line.trim().strip_prefix("runs "));
    PathBuf::from(runs.expect("it was installed").trim())
}

/// Result of a test function: nothing, or the reason for skipping.
pub(crate) trait TestOutcome {
    fn tested(self) -> Result<(), SkipReason>;
}

impl TestOutcome for () {
    fn tested(self) -> Result<(), SkipReason> {
        Ok(())
    }
}

impl TestOutcome for Result<(), SkipReason> {
    fn tested(self) -> Self {
        self
    }
}

/// Returns a test that needs the programs of a system.
pub(crate) fn with<T: TestOutcome>(
    what: &str,
    case: Case,
    skipped: &SkippedTests,
    test: impl Fn(&Case) -> T + Send + 'static,
) -> Trial {
    skipped.unless_lacking(format!("{what} ({})", case.name()), move || {
        case.install().map_err(|why| {
            let lacking: Vec<&str> = case.needs().filter(|program| !has(program)).collect();
            match lacking.as_slice() {
                [] => SkipReason::Program(why),
                lacking => SkipReason::Machine(format!(
                    "{why} (this machine has no {})",
                    lacking.join(", ")
                )),
            }
        })?;
        test(&case).tested()
    })
}
