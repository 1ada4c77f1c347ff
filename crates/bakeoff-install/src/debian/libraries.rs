//! Which shared libraries a Debian package needs, and where they are in an unpacked tree.
//!
//! A package's dependencies are followed through libraries alone: the accounts, scripts, interpreters
//! and documentation that a package wants besides belong to a machine that it is installed on. Its C
//! library is the machine's, since that and the loader that starts the program are one.
//!
//! Not here: fetching and unpacking them (`debian`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::Job;
use super::super::error::SourceError;
use super::Apt;

/// Chains of dependencies are short; a longer one than this is none.
const ROUNDS_MAX: usize = 32;

/// The fields of apt's description of a package that are used here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Package {
    section: String,
    /// One list of alternatives each.
    depends: Vec<Vec<String>>,
}

/// The packages of libraries that `roots` depend on, sorted; the roots are not among them.
pub(super) fn needed(
    job: &mut Job<'_, '_>,
    apt: &Apt<'_>,
    roots: &[String],
) -> Result<Vec<String>, SourceError> {
    let mut known = BTreeMap::new();
    let mut unknown: BTreeSet<String> = roots.iter().cloned().collect();
    for _ in 0..ROUNDS_MAX {
        let mut show = apt.command("apt-cache")?;
        // The roots are asked for again, so that names which no package has are not the only ones.
        show.args(["show", "--no-all-versions"]).args(roots).args(&unknown);
        let output =
            job.call("apt-cache show", Duration::from_secs(60)).read(&mut show, job.watcher)?;
        known.extend(packages_in(&output));
        // A name that is still unknown is a virtual package or none at all.
        for name in unknown {
            known.entry(name).or_default();
        }
        match walk(roots, &known) {
            Walked::All(libraries) => return Ok(libraries.into_iter().collect()),
            Walked::Unknown(names) => unknown = names,
        }
    }
    Err(SourceError::failed(format!("the dependencies of {} have no end", roots.join(", "))))
}

enum Walked {
    All(BTreeSet<String>),
    /// These have to be asked about first.
    Unknown(BTreeSet<String>),
}

/// Follows the dependencies of `roots` as far as they are known.
fn walk(roots: &[String], known: &BTreeMap<String, Package>) -> Walked {
    let mut libraries = BTreeSet::new();
    let mut unknown = BTreeSet::new();
    let mut waiting: Vec<&String> = roots.iter().collect();
    while let Some(name) = waiting.pop() {
        for alternatives in known.get(name).map_or(&[][..], |package| &package.depends) {
            let asked: Vec<&String> =
                alternatives.iter().filter(|name| !known.contains_key(*name)).collect();
            if !asked.is_empty() {
                unknown.extend(asked.into_iter().cloned());
                continue;
            }
            let there = |name: &&String| known.get(*name).is_some_and(|p| !p.section.is_empty());
            let Some(first) = alternatives.iter().find(there) else { continue };
            let is_new = !roots.contains(first) && is_library(first, &known[first].section);
            if is_new && libraries.insert(first.clone()) {
                waiting.push(first);
            }
        }
    }
    if unknown.is_empty() { Walked::All(libraries) } else { Walked::Unknown(unknown) }
}

/// Returns whether a package holds shared libraries, other than the C library.
fn is_library(name: &str, section: &str) -> bool {
    let of_the_machine = name == "libc6" || name == "libc6.1" || name == "libc-bin";
    // Not every one is in the section: Debian 12's libkeyutils1 is not, nor does zlib1g begin so.
    let section = section.rsplit('/').next().unwrap_or_default();
    !of_the_machine && (name.starts_with("lib") || section == "libs")
}

/// The packages in what `apt-cache show` prints.
fn packages_in(output: &str) -> BTreeMap<String, Package> {
    let mut packages = BTreeMap::new();
    for stanza in output.split("\n\n") {
        let (mut name, mut package) = (None, Package::default());
        for line in stanza.lines() {
            match line.split_once(": ") {
                Some(("Package", value)) => name = Some(value.trim().to_owned()),
                Some(("Section", value)) => value.trim().clone_into(&mut package.section),
                Some(("Depends" | "Pre-Depends", value)) => {
                    package.depends.extend(value.split(',').map(alternatives));
                }
                _ => {}
            }
        }
        if let Some(name) = name {
            // A package without a section is a package all the same.
            if package.section.is_empty() {
                "unknown".clone_into(&mut package.section);
            }
            packages.insert(name, package);
        }
    }
    packages
}

/// The names in `libssl3 (>= 3.0) | libssl1.1:any`.
fn alternatives(clause: &str) -> Vec<String> {
    let bare = |one: &str| {
        let name = one.split_whitespace().next()?.split(':').next()?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    clause.split('|').filter_map(bare).collect()
}

/// The shared libraries in the folders of an unpacked tree where a loader looks, relative to it.
pub(super) fn unpacked(tree: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let mut found = Vec::new();
    for base in ["lib", "usr/lib"] {
        for folder in [vec![PathBuf::from(base)], of_architectures(tree, base)].concat() {
            for entry in fs::read_dir(tree.join(&folder)).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
                if is_file && name.to_string_lossy().contains(".so") {
                    found.push(folder.join(name));
                }
            }
        }
    }
    found.sort();
    Ok(found)
}

/// `usr/lib/x86_64-linux-gnu`.
fn of_architectures(tree: &Path, base: &str) -> Vec<PathBuf> {
    let names = fs::read_dir(tree.join(base)).into_iter().flatten().flatten();
    let names = names.filter(|entry| entry.file_name().to_string_lossy().contains("-linux-gnu"));
    names.map(|entry| Path::new(base).join(entry.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
Package: server
Version: 15.18-0+deb12u1
Pre-Depends: libpre (>= 1)
Depends: libfoo5 (>= 15~rc1), zlib1g (>= 1:1.1.4), tool, libnot-there | libbar1:any (= 2), virtual
Section: database

Package: libfoo5
Section: libs
Depends: libc6 (>= 2.34), libbar1, libdeep0, foo-common

Package: libc6
Section: libs

Package: libpre
Section: misc

Package: libbar1
Section: universe/libs
Depends: libfoo5

Package: zlib1g
Section: libs

Package: tool
Section: admin
Depends: libtool-only

";

    #[test]
    fn libraries_are_followed_and_nothing_else() {
        let mut known = packages_in(SAID);
        let roots = ["server".to_owned()];
        let Walked::Unknown(unknown) = walk(&roots, &known) else { panic!("all known") };
        let names = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(names(&unknown), "foo-common libdeep0 libnot-there virtual");
        for name in ["libnot-there", "virtual"] {
            known.insert(name.into(), Package::default());
        }
        known.extend(packages_in("Package: foo-common\nSection: libs\n\nPackage: libdeep0\n"));
        let Walked::All(libraries) = walk(&roots, &known) else { panic!("not all known") };
        assert_eq!(names(&libraries), "foo-common libbar1 libdeep0 libfoo5 libpre zlib1g");
    }

    #[test]
    fn rubbish_from_apt_is_refused() {
        assert!(packages_in("").is_empty());
        assert!(packages_in("N: no packages found\n\n: \nDepends: x").is_empty());
        assert_eq!(alternatives(" | | a:any (>= 1)|"), ["a"]);
        let odd = packages_in("Package: a\nDepends: , |,b\n");
        assert_eq!(odd["a"].depends, [vec![], vec![], vec!["b".to_owned()]]);
    }
}
