//! `bakeoff verify`: checks that a record is consistent and that the reports and histories next to it match it.
//!
//! It executes nothing and writes nothing. Not here: the rules for records (`bakeoff_report::verify`).

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::{Component, Path};
use std::process::ExitCode;

use bakeoff_core::linearizability::judged_history::{JudgedHistory, KeptHistory};
use bakeoff_core::record::{Record, RunHeader, chain};
use bakeoff_core::units::{count_text, plural};
use bakeoff_files as files;
use bakeoff_report::verify::{self, Outcome, VerifiedAspect};
use bakeoff_trial::run::folder;
use bakeoff_trial::this_machine;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::cli::VerifyArgs;
use crate::commands::judge;
use crate::commands::report::{FILES, Rendering};
use crate::failure::{Failure, PROVEN};
use crate::messages;

/// Verifies a run and prints the results. The exit code says whether all hold.
pub(crate) fn run(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let run = folder::read(&args.run)?;
    let links = chain::check(&run.text);
    let mut found = verify::verify(&links, &run.record, &run.complaints);
    let head = links.head;
    found.extend(args.head.as_deref().map(|published| published_head(published, &head)));
    let rendering = Rendering::new(run);
    let folder = if args.run.is_dir() { Some(&*args.run) } else { args.run.parent() };
    found.extend(folder.into_iter().flat_map(|folder| reports(&rendering, folder)));
    found.extend(folder.and_then(|folder| histories(rendering.record(), folder)));
    if args.json {
        let found: Vec<_> = found.iter().map(VerifiedAspect::json).collect();
        messages::output(&messages::json(&json!({"format": 1, "head": head, "verified": found})));
    } else {
        messages::output(&table(&found, &head));
    }
    let fails = found.iter().any(|one| one.outcome == Outcome::Fails);
    Ok(if fails { ExitCode::from(PROVEN) } else { ExitCode::SUCCESS })
}

/// Compares the hash of the last line with the published one.
fn published_head(published: &str, head: &str) -> VerifiedAspect {
    let outcome =
        if published.eq_ignore_ascii_case(head) { Outcome::Holds } else { Outcome::Fails };
    let seen = match outcome {
        Outcome::Holds => "the last line has the published SHA-256".to_owned(),
        _ => format!("the last line has the SHA-256 {head} instead of the published {published}"),
    };
    VerifiedAspect::new("head", outcome, seen)
}

/// Renders each existing report again and compares it.
fn reports(rendering: &Rendering, folder: &Path) -> Vec<VerifiedAspect> {
    let each = FILES.into_iter().filter_map(|(name, format)| {
        let ours = rendering.file(format);
        let is_same = match files::read(&folder.join(name), ours.len() as u64) {
            Ok(there) => there == ours,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => false,
            Err(error) => {
                return Some(VerifiedAspect::new(name, Outcome::CannotTell, error.to_string()));
            }
        };
        Some(report(name, is_same, &rendering.record().header))
    });
    each.collect()
}

/// Compares each kept history with its size and hash, and judges short ones again. `None` if none was kept.
fn histories(record: &Record, folder: &Path) -> Option<VerifiedAspect> {
    let kept = record.trials.iter().filter_map(|trial| {
        let judged = trial.linearizability.as_ref()?;
        Some((judged, judged.kept.as_ref()?))
    });
    let (mut faults, mut unknown, mut same) = (Vec::new(), Vec::new(), 0);
    for (judged, kept) in kept {
        match history(judged, kept, folder) {
            (Outcome::Holds, _) => same += 1,
            (Outcome::Fails, why) => faults.push(format!("`{}` {why}", kept.file)),
            (Outcome::CannotTell, why) => unknown.push(format!("`{}` {why}", kept.file)),
        }
    }
    let holds = format!("{} with the recorded hash and verdict", count_of(same));
    let (outcome, seen) = match (faults.is_empty(), unknown.is_empty(), same) {
        (true, true, 0) => return None,
        (true, true, _) => (Outcome::Holds, holds),
        (false, ..) => (Outcome::Fails, first_few(&faults)),
        (true, false, _) => (Outcome::CannotTell, first_few(&unknown)),
    };
    Some(VerifiedAspect::new("histories", outcome, seen))
}

fn count_of(histories: u64) -> String {
    match histories {
        1 => "1 history".to_owned(),
        count => format!("{} histories", count_text(count)),
    }
}

/// Most faults to name.
const FAULTS_SHOWN: usize = 3;

fn first_few(faults: &[String]) -> String {
    let more = faults.len().saturating_sub(FAULTS_SHOWN);
    let shown = faults[..faults.len() - more].join("; ");
    if more > 0 { format!("{shown}; and {more} more") } else { shown }
}

/// Most operations of a history that is judged again. `bakeoff judge` judges longer ones.
const JUDGED_AGAIN_MAX: u64 = 1_000_000;

fn history(judged: &JudgedHistory, kept: &KeptHistory, folder: &Path) -> (Outcome, String) {
    let fails = |why: &str| (Outcome::Fails, why.to_owned());
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !Path::new(&kept.file).components().all(is_inside) {
        return fails("is outside the run's folder");
    }
    let path = folder.join(&kept.file);
    let expected = &kept.file_sha256;
    let file = match files::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return fails("is missing"),
        Err(error) => return (Outcome::Fails, format!("cannot be read: {error}")),
    };
    match file.metadata() {
        Ok(found) if found.len() == kept.file_bytes => {}
        Ok(found) => {
            let (is, was) = (count_text(found.len()), count_text(kept.file_bytes));
            return (Outcome::Fails, format!("has {is} bytes instead of {was}"));
        }
        Err(error) => return (Outcome::CannotTell, error.to_string()),
    }
    let mut hashed = HashingReader { from: file.take(kept.file_bytes), hash: Sha256::new() };
    let again = match judged.operations <= JUDGED_AGAIN_MAX {
        true => judge::read(BufReader::new(&mut hashed)).map(|mut read| Some(read.judge())),
        false => Ok(None),
    };
    // Lines behind an invalid one belong to the hash, too.
    if let Err(error) = io::copy(&mut hashed, &mut io::sink()) {
        return (Outcome::CannotTell, error.to_string());
    }
    let found: String = hashed.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if !found.eq_ignore_ascii_case(expected) {
        return fails("was altered: it has another SHA-256 than the record");
    }
    let of = |one: &JudgedHistory| (one.operations, one.keys, one.keys_deleted, one.keys_violated);
    match again {
        Err(why) => (Outcome::Fails, format!("cannot be judged again: {why}")),
        Ok(Some(again)) if of(&again) != of(judged) || again.verdict != judged.verdict => {
            fails("now has another verdict than the recorded one")
        }
        Ok(_) => (Outcome::Holds, String::new()),
    }
}

/// Hashes what is read.
struct HashingReader {
    from: io::Take<File>,
    hash: Sha256,
}

impl io::Read for HashingReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(to)?;
        self.hash.update(&to[..read]);
        Ok(read)
    }
}

fn report(name: &str, is_same: bool, header: &RunHeader) -> VerifiedAspect {
    if is_same {
        return VerifiedAspect::new(name, Outcome::Holds, "matches the record");
    }
    let is_of_this_bakeoff =
        header.bakeoff_sha256.is_some() && header.bakeoff_sha256 == this_machine::own_sha256();
    match is_of_this_bakeoff {
        true => VerifiedAspect::new(name, Outcome::Fails, "differs from what the record yields"),
        false => VerifiedAspect::new(
            name,
            Outcome::CannotTell,
            "differs, but another build of bakeoff wrote the record; `bakeoff report` renders it again",
        ),
    }
}

fn table(found: &[VerifiedAspect], head: &str) -> String {
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
