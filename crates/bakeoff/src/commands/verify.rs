//! `bakeoff verify`: checks that a record is consistent and that the reports beside it match it.
//!
//! It executes nothing and writes nothing. Not here: the rules for records (`bakeoff_report::verify`).

use std::io;
use std::path::Path;
use std::process::ExitCode;

use bakeoff_core::record::{RunHeader, chain};
use bakeoff_core::units::plural;
use bakeoff_files as files;
use bakeoff_report::verify::{self, Outcome, Verified};
use bakeoff_trial::run::folder;
use bakeoff_trial::this_machine;
use serde_json::json;

use crate::cli::VerifyArgs;
use crate::commands::compare::PROVEN;
use crate::commands::report::{FILES, Rendering};
use crate::failure::Failure;
use crate::messages;

/// Verifies a run and prints the results. The exit code says whether all hold.
pub(crate) fn run(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let (text, record, complaints) = folder::read_with_text(&args.run)?;
    let links = chain::check(&text);
    let mut found = verify::verify(&links, &record, &complaints);
    let head = links.head;
    found.extend(args.head.as_deref().map(|published| published_head(published, &head)));
    let rendering = Rendering::new(record);
    let folder = if args.run.is_dir() { Some(&*args.run) } else { args.run.parent() };
    found.extend(folder.into_iter().flat_map(|folder| reports(&rendering, folder)));
    if args.json {
        let found: Vec<_> = found.iter().map(Verified::json).collect();
        messages::output(&messages::json(&json!({"format": 1, "head": head, "verified": found})));
    } else {
        messages::output(&table(&found, &head));
    }
    let fails = found.iter().any(|one| one.outcome == Outcome::Fails);
    Ok(if fails { ExitCode::from(PROVEN) } else { ExitCode::SUCCESS })
}

/// Compares the hash of the last line with the published one.
fn published_head(published: &str, head: &str) -> Verified {
    let outcome =
        if published.eq_ignore_ascii_case(head) { Outcome::Holds } else { Outcome::Fails };
    let seen = match outcome {
        Outcome::Holds => "the last line has the published SHA-256".to_owned(),
        _ => format!("the last line has the SHA-256 {head} instead of the published {published}"),
    };
    Verified::new("head", outcome, seen)
}

/// Renders each existing report again and compares it.
fn reports(rendering: &Rendering, folder: &Path) -> Vec<Verified> {
    let each = FILES.into_iter().filter_map(|(name, format)| {
        let ours = rendering.file(format);
        let is_same = match files::read(&folder.join(name), ours.len() as u64) {
            Ok(there) => there == ours,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => false,
            Err(error) => return Some(Verified::new(name, Outcome::CannotTell, error.to_string())),
        };
        Some(report(name, is_same, &rendering.record().header))
    });
    each.collect()
}

fn report(name: &str, is_same: bool, header: &RunHeader) -> Verified {
    if is_same {
        return Verified::new(name, Outcome::Holds, "matches the record");
    }
    let is_of_this_bakeoff =
        header.bakeoff_sha256.is_some() && header.bakeoff_sha256 == this_machine::own_sha256();
    match is_of_this_bakeoff {
        true => Verified::new(name, Outcome::Fails, "differs from what the record yields"),
        false => Verified::new(
            name,
            Outcome::CannotTell,
            "differs, but another build of bakeoff wrote the record; `bakeoff report` renders it again",
        ),
    }
}

fn table(found: &[Verified], head: &str) -> String {
    let width = found.iter().map(|one| one.what.len()).max().unwrap_or(0);
    let lines = found
        .iter()
        .map(|one| format!("{:<11}  {:<width$}  {}\n", one.outcome.word(), one.what, one.seen));
    let count = |outcome: Outcome| found.iter().filter(|one| one.outcome == outcome).count() as u64;
    let (fails, unknown) = (count(Outcome::Fails), count(Outcome::CannotTell));
    let sentence = match (fails, unknown) {
        (0, 0) => "The record is consistent.".to_owned(),
        (0, unknown) => {
            format!("Nothing contradicts the record; could not check {}.", plural(unknown, "thing"))
        }
        (fails, _) => {
            format!("The record is inconsistent: {}.", plural(fails, "fault"))
        }
    };
    format!(
        "{}\n{sentence}\nHead: {head}\n(the SHA-256 of the last line; publish it to make later changes to the record evident)",
        lines.collect::<String>()
    )
}
