//! Keeps the records behind the documents' figures, and builds the public site from them.
//!
//! Not here: the text that follows from a record (`crates/bakeoff/tests/commands/evidence.rs`).

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Failure, cargo, root, run};

/// Folder of the records behind the documents' figures.
const RECORDS: &str = "docs/evidence/records";
/// Folder of other people's runs.
const RESULTS: &str = "results";

/// Compresses the record of the run in the folder `from` to the records, as `name`.
///
/// # Errors
/// If `bakeoff verify` refuses the run, or the file cannot be written.
pub(crate) fn keep(from: &str, name: &str) -> Result<(), Failure> {
    let from = Path::new(from);
    let from = from.canonicalize().map_err(|error| format!("{}: {error}", from.display()))?;
    let mut verify = bakeoff();
    verify.arg("verify").arg(&from);
    run(verify)?;
    let text =
        fs::read(from.join("record.jsonl")).map_err(|error| format!("the record: {error}"))?;
    let folder = root().join(RECORDS).join(name);
    let file = folder.join("record.jsonl.gz");
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    let written = packer
        .write_all(&text)
        .and_then(|()| packer.finish())
        .and_then(|bytes| fs::create_dir_all(&folder).and_then(|()| fs::write(&file, bytes)));
    written.map_err(|error| format!("{}: {error}", file.display()))?;
    println!("{}", file.display());
    Ok(())
}

/// Builds the site of all records in `target/site`.
///
/// # Errors
/// If `bakeoff site` fails, or an earlier site cannot be removed.
pub(crate) fn site() -> Result<(), Failure> {
    let out = root().join("target/site");
    if out.exists() {
        fs::remove_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    }
    let mut site = bakeoff();
    site.arg("site").arg(RECORDS);
    let results = fs::read_dir(root().join(RESULTS)).into_iter().flatten().flatten();
    if results.map(|entry| entry.path()).any(|path| path.is_dir()) {
        site.arg(RESULTS);
    }
    site.arg("--out").arg(&out);
    run(site)
}

/// Returns a command that builds and runs bakeoff in the checkout.
fn bakeoff() -> Command {
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "-p", "bakeoff", "--"]);
    command
}
