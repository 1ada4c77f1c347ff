//! Tests that the declarations of kinds agree, and that the shipped studies parse with them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use bakeoff_core::record::Freshness;
use bakeoff_core::study::{ReadConsistency, parse, shipped};

use super::testing::study_system;
use super::{by_kind, kinds, registry, template_http, template_own};

#[test]
fn every_kind_named_by_a_role_is_registered_and_fits() {
    let mut played = BTreeSet::new();
    for kind in kinds() {
        let names: BTreeSet<&str> = kind.roles.iter().map(|role| role.name).collect();
        assert_eq!(names.len(), kind.roles.len(), "`{}` has two roles of one name", kind.name);
        for role in kind.roles {
            assert!(!role.kinds.is_empty() && !role.meaning.is_empty(), "{role:?}");
            for name in role.kinds {
                let part = by_kind(name);
                assert!(part.is_some(), "`{name}`, of `{}`, is not registered", kind.name);
                let part = part.unwrap().kind();
                // A command may run without its optional parts.
                let behind = part.roles.is_empty() || part.is_process;
                assert!(behind, "`{name}`, a part of `{}`, would need parts", kind.name);
                played.insert(*name);
            }
        }
    }
    for kind in kinds().iter().filter(|kind| kind.is_part()) {
        assert!(played.contains(kind.name), "`{}` is only a part, but no role names it", kind.name);
    }
}

#[test]
fn every_kind_with_a_load_balancer_has_health_paths() {
    for system in registry() {
        let kind = system.kind();
        let fronted = kind.roles.iter().any(|role| role.kinds.contains(&"haproxy"));
        assert_eq!(fronted, system.declares().health.is_some(), "`{}`", kind.name);
    }
}

#[test]
fn freshest_reads_are_linearizable_where_a_kind_has_such_reads() {
    for system in registry() {
        let kind = system.kind();
        let freshness = system.guarantees(&study_system(kind.name, 3, &[])).freshness;
        let freshest = freshness.get(&ReadConsistency::Freshest);
        assert_eq!(freshest.is_some(), !kind.reads.is_empty(), "`{}`", kind.name);
        if kind.reads.contains(&ReadConsistency::Linearizable) {
            assert_eq!(freshest, Some(&Freshness::Linearizable), "`{}`", kind.name);
        }
    }
}

#[test]
fn every_shipped_study_parses_with_the_registry() {
    assert!(shipped::shipped().len() >= 4);
    for (name, text) in shipped::shipped() {
        let study = parse(name, &format!("{name}.yaml"), text, &kinds());
        let study = study.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        for system in &study.systems {
            let members = system.members();
            for member in members {
                assert!(by_kind(&member.kind).is_some(), "{name}: `{}`", member.kind);
            }
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let each = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flat_map(each).collect()
}

/// Finds markers that `cargo xtask new-system` leaves for the author of a system.
#[test]
fn no_skeleton_markers_are_left() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mark = concat!("FILL", " IN: ");
    let mut left = Vec::new();
    for folder in ["bakeoff-systems/src", "bakeoff-wire/src", "bakeoff-wire/tests"] {
        for path in files(&crates.join(folder)) {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let shown = path.strip_prefix(&crates).unwrap_or(&path).display().to_string();
            for (number, line) in (1..).zip(text.lines()) {
                if let Some((_, what)) = line.split_once(mark) {
                    left.push(format!("crates/{shown}:{number}: {what}"));
                }
            }
        }
    }
    assert!(left.is_empty(), "unfinished skeleton markers:\n  {}", left.join("\n  "));
}

#[test]
fn skeletons_declare_a_system_that_a_study_can_use() {
    for skeleton in [template_http::SYSTEM, template_own::SYSTEM] {
        let kind = skeleton.kind();
        let text = format!(
            "title: t\nsystems:\n  it: {{kind: {}}}\nworkloads:\n  w: {{mix: {{put: 1, list: 1}}, \
             keys: {{count: 9, per-directory: 3}}, reads: default}}\nloads:\n  l: {{clients: 1, stop: \
             {{operations: 9}}}}\n",
            kind.name
        );
        let read = parse("t", "t.yaml", &text, &[kind]);
        let study = read.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        assert!(skeleton.guarantees(&study.systems[0]).acknowledged_in.is_some());
    }
}
