//! What kinds say of each other holds together, and what ships can be read with them.

use std::collections::BTreeSet;

use bakeoff_core::study::{parse, shipped};

use super::{by_kind, kinds, registry};

#[test]
fn every_kind_that_a_role_names_is_there_and_can_play_it() {
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
                // A command can do without what it may have.
                let behind = part.roles.is_empty() || part.is_process;
                assert!(behind, "`{name}`, a part of `{}`, would need parts", kind.name);
                played.insert(*name);
            }
        }
    }
    for kind in kinds().iter().filter(|kind| kind.is_part()) {
        assert!(played.contains(kind.name), "`{}` is only a part, and of nothing", kind.name);
    }
}

#[test]
fn what_stands_in_front_can_ask_who_serves() {
    for system in registry() {
        let kind = system.kind();
        let fronted = kind.roles.iter().any(|role| role.kinds.contains(&"haproxy"));
        assert_eq!(fronted, system.declares().health.is_some(), "`{}`", kind.name);
    }
}

#[test]
fn every_shipped_study_can_be_read_with_what_is_registered() {
    assert!(shipped::shipped().len() >= 4);
    for (name, text) in shipped::shipped() {
        let study = parse(name, &format!("{name}.yaml"), text, &kinds());
        let study = study.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        for system in &study.systems {
            let members = std::iter::once(system).chain(system.parts.values());
            for member in members {
                assert!(by_kind(&member.kind).is_some(), "{name}: `{}`", member.kind);
            }
        }
    }
}
