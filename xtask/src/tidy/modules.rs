//! Finds modules of a crate that depend on each other in a cycle.
//!
//! Readers can understand modules one by one only if their dependencies point one way. Tests may use any module, so
//! they are left out.
//!
//! Not here: dependencies between crates, which Cargo keeps free of cycles.

use std::collections::{BTreeMap, BTreeSet};

use super::{is_test, program};

/// Top-level modules of a crate that each module uses.
type Arrows<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

pub(super) fn complaints(files: &[(String, String)]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (path, text) in files {
        let Some((krate, inside)) = path.split_once("/src/") else { continue };
        if inside.ends_with(".rs") && !is_test(path) {
            crates.entry(krate).or_default().push((inside, program(text)));
        }
    }
    let cycle = |(krate, files): (&str, Vec<(&str, &str)>)| {
        let cycle = cycle(&arrows(&files))?;
        Some(format!("modules of `{krate}` form a cycle: {}", cycle.join(" -> ")))
    };
    crates.into_iter().filter_map(cycle).collect()
}

/// Returns the module of a file, or `None` for the root of the crate.
fn module(inside: &str) -> Option<&str> {
    let first =
        inside.split_once('/').map_or_else(|| inside.strip_suffix(".rs"), |(first, _)| Some(first));
    first.filter(|name| !["lib", "main", "bin"].contains(name))
}

fn arrows<'a>(files: &[(&'a str, &'a str)]) -> Arrows<'a> {
    let modules: BTreeSet<&str> = files.iter().filter_map(|(inside, _)| module(inside)).collect();
    let tests: BTreeSet<String> =
        files.iter().flat_map(|(inside, text)| test_files(inside, text)).collect();
    let mut arrows = Arrows::new();
    for (inside, text) in files {
        let is_of_tests = tests.iter().any(|test| inside.starts_with(test.as_str()));
        let Some(from) = module(inside).filter(|_| !is_of_tests) else { continue };
        let named = named(text);
        let others = modules.iter().filter(|name| **name != from && named.contains(**name));
        arrows.entry(from).or_default().extend(others.copied());
    }
    arrows
}

/// Returns path prefixes of the modules that a file declares only for tests.
pub(super) fn test_files(inside: &str, text: &str) -> Vec<String> {
    let folder = inside.strip_suffix("mod.rs").map_or_else(
        || inside.strip_suffix(".rs").map(|module| format!("{module}/")).unwrap_or_default(),
        str::to_owned,
    );
    let folder = if ["lib/", "main/"].contains(&folder.as_str()) { String::new() } else { folder };
    let after = text.split("#[cfg(test)]\n").skip(1);
    let declared = after.filter_map(|rest| {
        let line = rest.lines().next()?.strip_suffix(';')?;
        Some(line.rsplit_once("mod ")?.1)
    });
    declared.flat_map(|name| [format!("{folder}{name}.rs"), format!("{folder}{name}/")]).collect()
}

/// Returns the modules that a file's code names after `crate::`, including in braces.
fn named(text: &str) -> BTreeSet<String> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code = text.lines().filter(is_code).collect::<Vec<_>>().join(" ");
    let first = |path: &str| {
        let end = path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
        path[..end].to_owned()
    };
    let after = code.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
        Some(several) => several.split(';').next().unwrap_or_default().split(',').collect(),
        None => vec![rest],
    });
    after.map(|path| first(path.trim_start())).collect()
}

/// Returns the modules of a cycle in order, or `None` if there is none.
fn cycle<'a>(arrows: &Arrows<'a>) -> Option<Vec<&'a str>> {
    let mut done = BTreeSet::new();
    arrows.keys().find_map(|start| follow(start, arrows, &mut Vec::new(), &mut done))
}

fn follow<'a>(
    at: &'a str,
    arrows: &Arrows<'a>,
    path: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Option<Vec<&'a str>> {
    if let Some(place) = path.iter().position(|known| *known == at) {
        let mut cycle = path[place..].to_vec();
        cycle.push(at);
        return Some(cycle);
    }
    if !done.insert(at) {
        return None;
    }
    path.push(at);
    let found =
        arrows.get(at).and_then(|next| next.iter().find_map(|to| follow(to, arrows, path, done)));
    path.pop();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints_of(files: &[(&str, &str)]) -> Vec<String> {
        let owned =
            |(path, text): &(&str, &str)| (format!("crates/c/src/{path}"), (*text).to_owned());
        complaints(&files.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn cycle_of_modules_is_reported() {
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[("a.rs", "use crate::b::B;\n"), ("b/mod.rs", "use crate::a;\n")], "a -> b -> a"),
            (
                &[
                    ("a.rs", "use crate::{b, Own};\n"),
                    ("b.rs", "fn f() { crate::c::g() }\n"),
                    ("c.rs", "use crate::a;\n"),
                ],
                "a -> b -> c -> a",
            ),
            (&[("a.rs", "use crate::b;\n"), ("b.rs", "// crate::a\n")], ""),
            (
                &[
                    ("a.rs", "use crate::b;\n"),
                    ("b.rs", "\n#[cfg(test)]\nmod tests { use crate::a; }\n"),
                ],
                "",
            ),
            (
                &[
                    ("a.rs", "use crate::b;\n"),
                    ("b/mod.rs", "#[cfg(test)]\npub(crate) mod all;\n"),
                    ("b/all.rs", "use crate::a;\n"),
                ],
                "",
            ),
        ];
        for (files, cycle) in cases {
            let wanted = format!("modules of `crates/c` form a cycle: {cycle}");
            assert_eq!(
                complaints_of(files),
                if cycle.is_empty() { vec![] } else { vec![wanted] },
                "{files:?}"
            );
        }
    }
}
