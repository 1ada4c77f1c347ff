//! Compares the kinds in core's test file with the registry.
//!
//! The file holds only the kinds that those tests use. `BLESS=1` rewrites it (`cargo xtask bless`). Not here: the
//! reader of the file (`bakeoff_core::study::testing`).

use std::fs;
use std::path::Path;

use bakeoff_core::study::{
    CredentialForm, Kill, Kind, KindOption, MaintenanceScope, OptionForm, Tier,
};
use serde_json::{Value, json};

use super::kinds;

fn option(option: &KindOption) -> Value {
    let form = match &option.form {
        OptionForm::Word(words) => json!(words),
        OptionForm::Number => json!("number"),
        OptionForm::Size => json!("size"),
        OptionForm::Duration => json!("duration"),
        OptionForm::Share => json!("share"),
        OptionForm::Text => json!("text"),
    };
    json!({"name": option.name, "form": form})
}

fn declared(kind: &Kind) -> Value {
    let roles = kind.roles.iter().map(|role| {
        let tier = match role.tier {
            Tier::Backend => "backend",
            Tier::Frontend => "frontend",
        };
        json!({"name": role.name, "kinds": role.kinds, "tier": tier})
    });
    let maintenance = kind.maintenance.iter().map(|offer| {
        let scope = match offer.scope {
            MaintenanceScope::Node => "node",
            MaintenanceScope::System => "system",
        };
        json!({"operation": offer.operation, "scope": scope})
    });
    json!({
        "name": kind.name,
        "maintenance": maintenance.collect::<Vec<_>>(),
        "operations": kind.operations.iter().map(|one| one.name()).collect::<Vec<_>>(),
        "parameters": kind.parameters.iter().map(option).collect::<Vec<_>>(),
        "roles": roles.collect::<Vec<_>>(),
        "emulates": kind.emulates,
        "reads": kind.reads.iter().map(|one| one.name()).collect::<Vec<_>>(),
        "options": kind.options.iter().map(option).collect::<Vec<_>>(),
        "nodes_max": kind.nodes_max,
        "value_size_max": kind.value_size_max,
        "kill": match kind.kill {
            Kill::UnderLoad => "under-load",
            Kill::AtRest => "at-rest",
        },
        "credentials": match kind.credentials {
            CredentialForm::None => "none",
            CredentialForm::Password => "password",
            CredentialForm::Token => "token",
            CredentialForm::PasswordOrToken => "password-or-token",
        },
        "in_flight_max": kind.in_flight_max,
        "connection_each": kind.connection_each,
        "is_process": kind.is_process,
        "watches": kind.watches.map(|watches| {
            json!({
                "delivery": watches.delivery,
                "per_connection_max": watches.per_connection_max,
                "previous": watches.previous,
                "prefix": watches.prefix,
                "oldest": watches.oldest,
            })
        }),
    })
}

#[test]
fn kinds_of_core_tests_equal_the_registry() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bakeoff-core");
    let path = core.join("src/study/testing/kinds.json");
    let mut held = fs::read_to_string(&path).unwrap_or_default();
    let used: Vec<Value> = serde_json::from_str(&held).expect("a list of kinds");
    let is_used = |kind: &Kind| used.iter().any(|one| one["name"] == kind.name);
    let kinds = kinds().into_iter().filter(is_used);
    let lines: Vec<String> = kinds.map(|kind| declared(&kind).to_string()).collect();
    let expected = format!("[\n{}\n]\n", lines.join(",\n"));
    assert_eq!(lines.len(), used.len(), "{} names an unregistered kind", path.display());
    // Write only on a change: core and all its dependents are compiled again after that.
    if held != expected && std::env::var_os("BLESS").is_some() {
        fs::write(&path, &expected).expect("the file is written");
        held.clone_from(&expected);
    }
    assert!(
        held == expected,
        "{} differs from the registry; run `cargo xtask bless`",
        path.display()
    );
}

#[test]
fn kinds_that_offer_maintenance_can_do_it() {
    for system in super::registry() {
        let declared = system.declares();
        let offers = !declared.kind.maintenance.is_empty();
        let super::declaration::Hooks { maintain, change_routes, .. } = declared.hooks;
        assert_eq!(offers, maintain.is_some() || change_routes.is_some(), "{}", declared.kind.name);
    }
}
