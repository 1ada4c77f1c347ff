//! Finds the shared libraries that a Debian package needs.
//!
//! Only dependencies that are libraries are followed. Accounts, scripts, interpreters and documentation matter only on
//! a machine where the package is installed. The C library is the machine's, because it must fit the machine's loader.
//!
//! Not here: fetching and unpacking them (`debian`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::Job;
use super::super::error::SourceError;
use super::Apt;

/// Longest chain of dependencies. Real ones are much shorter.
const ROUNDS_MAX: usize = 32;

/// Description of a package by `apt-cache show`; fields used here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Package {
    section: String,
    /// One list of alternatives per dependency.
    depends: Vec<Vec<String>>,
}

/// Returns the library packages that `roots` depend on, sorted, without the roots.
pub(super) fn needed(
    job: &mut Job<'_, '_>,
    apt: &Apt<'_>,
    roots: &[String],
) -> Result<Vec<String>, SourceError> {
    let mut known = BTreeMap::new();
    let mut unknown: BTreeSet<String> = roots.iter().cloned().collect();
    for _ in 0..ROUNDS_MAX {
        let mut show = apt.command("apt-cache")?;
        // The roots are repeated, because `apt-cache` fails if no name has a package.
        show.args(["show", "--no-all-versions"]).args(roots).args(&unknown);
        let output =
            job.call("apt-cache show", Duration::from_secs(60)).read(&mut show, job.watcher)?;
        known.extend(packages_in(&output));
        // A name that is still unknown is a virtual package or does not exist.
        for name in unknown {
            known.entry(name).or_default();
        }
        match walk(roots, &known) {
            WalkResult::All(libraries) => return Ok(libraries.into_iter().collect()),
            WalkResult::Unknown(names) => unknown = names,
        }
    }
    Err(SourceError::failed(format!(
        "the dependencies of {} are deeper than {ROUNDS_MAX} levels",
        roots.join(", ")
    )))
}

enum WalkResult {
    All(BTreeSet<String>),
    /// Packages to query before the walk can continue.
    Unknown(BTreeSet<String>),
}

/// Follows the dependencies of `roots` through `known` packages.
fn walk(roots: &[String], known: &BTreeMap<String, Package>) -> WalkResult {
    let mut libraries = BTreeSet::new();
    let mut unknown = BTreeSet::new();
    let mut waiting: Vec<&String> = roots.iter().collect();
    while let Some(name) = waiting.pop() {
        for alternatives in known.get(name).map_or(&[][..], |package| &package.depends) {
            let missing: Vec<&String> =
                alternatives.iter().filter(|name| !known.contains_key(*name)).collect();
            if !missing.is_empty() {
                unknown.extend(missing.into_iter().cloned());
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
    if unknown.is_empty() { WalkResult::All(libraries) } else { WalkResult::Unknown(unknown) }
}

/// Returns true if a package has shared libraries other than the C library.
fn is_library(name: &str, section: &str) -> bool {
    let of_the_machine = name == "libc6" || name == "libc6.1" || name == "libc-bin";
    // Neither test is enough: Debian 12's libkeyutils1 is not in the section, and zlib1g does not begin with `lib`.
    let section = section.rsplit('/').next().unwrap_or_default();
    !of_the_machine && (name.starts_with("lib") || section == "libs")
}

/// Parses the output of `apt-cache show`.
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
            // `walk` takes an empty section for a missing package.
            if package.section.is_empty() {
                "unknown".clone_into(&mut package.section);
            }
            packages.insert(name, package);
        }
    }
    packages
}

/// Returns the names in a dependency such as `libssl3 (>= 3.0) | libssl1.1:any`.
fn alternatives(clause: &str) -> Vec<String> {
    let bare = |one: &str| {
        let name = one.split_whitespace().next()?.split(':').next()?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    clause.split('|').filter_map(bare).collect()
}

/// Returns the shared libraries in an unpacked tree's folders for the loader, relative to the tree.
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

/// Returns the folders of architectures: `usr/lib/x86_64-linux-gnu`.
fn of_architectures(tree: &Path, base: &str) -> Vec<PathBuf> {
    let names = fs::read_dir(tree.join(base)).into_iter().flatten().flatten();
    let names = names.filter(|entry| entry.file_name().to_string_lossy().contains("-linux-gnu"));
    names.map(|entry| Path::new(base).join(entry.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
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
    fn follows_only_libraries() {
        let mut known = packages_in(OUTPUT);
        let roots = ["server".to_owned()];
        let WalkResult::Unknown(unknown) = walk(&roots, &known) else { panic!("all known") };
        let names = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(names(&unknown), "foo-common libdeep0 libnot-there virtual");
        for name in ["libnot-there", "virtual"] {
            known.insert(name.into(), Package::default());
        }
        known.extend(packages_in("Package: foo-common\nSection: libs\n\nPackage: libdeep0\n"));
        let WalkResult::All(libraries) = walk(&roots, &known) else { panic!("not all known") };
        assert_eq!(names(&libraries), "foo-common libbar1 libdeep0 libfoo5 libpre zlib1g");
    }

    #[test]
    fn ignores_invalid_output_of_apt() {
        assert!(packages_in("").is_empty());
        assert!(packages_in("N: no packages found\n\n: \nDepends: x").is_empty());
        assert_eq!(alternatives(" | | a:any (>= 1)|"), ["a"]);
        let odd = packages_in("Package: a\nDepends: , |,b\n");
        assert_eq!(odd["a"].depends, [vec![], vec![], vec!["b".to_owned()]]);
    }
}
