//! Declares the kinds of systems for the parser's tests, from a file generated from the binary's registry.
//!
//! Core cannot see the kinds, which are above it. So a file holds their declarations, and a test of the binary
//! compares it with the registry (`cargo xtask bless` writes it). Functions of a kind are not data; if the parser
//! must call one, a small substitute is here. All other differences from the registry are in `change`.
//!
//! Not here: the kinds themselves (`bakeoff_systems`).

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::watch::Watches;

use super::{
    CredentialForm, GROUP, Kind, KindOption, LEASE_TTL, LEASES, MaintenanceOffer, MaintenanceScope,
    Operation, OptionForm, ReadConsistency, Role, Tier,
};

/// Kinds as the registry declares them.
const DECLARED: &str = include_str!("testing/kinds.json");

/// Returns all kinds, changed for tests that need unusual ones, and one made-up kind.
pub(crate) fn kinds() -> Vec<Kind> {
    let declared: Vec<Value> = serde_json::from_str(DECLARED).expect("a list of kinds");
    let mut kinds: Vec<Kind> = declared.iter().map(kind).collect();
    kinds.iter_mut().for_each(change);
    kinds.push(gate());
    kinds
}

/// Changes a kind for tests; each line is something that no real kind offers.
fn change(kind: &mut Kind) {
    const fn words(name: &'static str, words: &'static [&'static str]) -> KindOption {
        KindOption { name, form: OptionForm::Word(words), meaning: "" }
    }
    const LEASES_BEFORE: KindOption =
        KindOption { name: LEASES, form: OptionForm::Number, meaning: "" };
    const KV: &[KindOption] = &[words("kv", &["v1", "v2"]), LEASES_BEFORE, LEASE_TTL, GROUP];
    const SECRETS: &[KindOption] = &[
        words("kv", &["v1", "v2"]),
        words("certificate-key", &["rsa-2048"]),
        words("issuer", &["intermediate"]),
        words("lease", &["yes", "no"]),
        words("key-type", &["rsa-2048", "ec-p256", "ed25519"]),
        words("stored", &["yes", "no"]),
        LEASES_BEFORE,
        LEASE_TTL,
    ];
    match kind.name {
        // A single study with every field uses these.
        "etcd" | "consul" => kind.parameters = KV,
        // Lacks an operation.
        "zookeeper" => {
            kind.parameters = KV;
            kind.operations = &[Operation::Put, Operation::Get, Operation::Delete, Operation::Lock];
        }
        // Lacks some reads, a second node, and maintenance.
        "canary" => {
            kind.maintenance = &[];
            kind.parameters = KV;
            kind.reads = &[ReadConsistency::Linearizable, ReadConsistency::Stale];
            kind.nodes_max = 1;
        }
        "vault" | "openbao" => {
            kind.parameters = SECRETS;
            kind.reads = ReadConsistency::REQUESTED;
            kind.in_flight_max = 100;
            kind.sound = |system| match system.options.get("storage").map(String::as_str) {
                Some("consul") if !system.parts.contains_key("storage") => Err((
                    "it has no storage to stand on".to_owned(),
                    "add `parts: {storage: {kind: consul, nodes: 3}}`".to_owned(),
                )),
                _ => Ok(()),
            };
        }
        _ => {}
    }
}

/// Returns a made-up kind with options below others.
fn gate() -> Kind {
    const fn option(name: &'static str, form: OptionForm) -> KindOption {
        KindOption { name, form, meaning: "" }
    }
    const ROLES: &[Role] =
        &[Role { name: "backend", kinds: &["process"], tier: Tier::Backend, meaning: "" }];
    const OPTIONS: &[KindOption] = &[
        option("connector", OptionForm::Word(&["pooled", "own"])),
        option("connector.path", OptionForm::Text),
        option("connector.module", OptionForm::Text),
    ];
    Kind {
        operations: &[Operation::Request, Operation::Denied],
        options: OPTIONS,
        roles: ROLES,
        ..Kind::new("gate")
    }
}

/// Leaks a text, because these kinds live as long as the tests.
fn kept(text: &Value) -> &'static str {
    text.as_str().expect("a text").to_owned().leak()
}

fn list<T>(values: &Value, one: impl Fn(&Value) -> T) -> &'static [T] {
    values.as_array().expect("a list").iter().map(one).collect::<Vec<T>>().leak()
}

/// Parses one of the words that studies use.
fn word<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("a word that is known")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn kind(value: &Value) -> Kind {
    Kind {
        operations: list(&value["operations"], word),
        parameters: list(&value["parameters"], option),
        maintenance: list(&value["maintenance"], offer),
        roles: list(&value["roles"], role),
        emulates: value["emulates"].as_str().map(|text| &*text.to_owned().leak()),
        reads: list(&value["reads"], word),
        options: list(&value["options"], option),
        nodes_max: u32::try_from(number(&value["nodes_max"])).expect("a number of nodes"),
        value_size_max: number(&value["value_size_max"]),
        kill: word(&value["kill"]),
        credentials: match value["credentials"].as_str().expect("a word") {
            "password" => CredentialForm::Password,
            "token" => CredentialForm::Token,
            "password-or-token" => CredentialForm::PasswordOrToken,
            _ => CredentialForm::None,
        },
        in_flight_max: u32::try_from(number(&value["in_flight_max"])).expect("a number"),
        connection_each: value["connection_each"] == true,
        is_process: value["is_process"] == true,
        watches: (!value["watches"].is_null()).then(|| watches(&value["watches"])),
        ..Kind::new(kept(&value["name"]))
    }
}

fn watches(value: &Value) -> Watches {
    Watches {
        form: "",
        delivery: word(&value["delivery"]),
        guarantees: &[],
        per_connection_max: u32::try_from(number(&value["per_connection_max"])).expect("a number"),
        previous: value["previous"] == true,
        prefix: value["prefix"] == true,
        oldest: value["oldest"] == true,
    }
}

fn option(value: &Value) -> KindOption {
    let form = match &value["form"] {
        Value::Array(_) => OptionForm::Word(list(&value["form"], kept)),
        form => match kept(form) {
            "number" => OptionForm::Number,
            "size" => OptionForm::Size,
            "duration" => OptionForm::Duration,
            "share" => OptionForm::Share,
            _ => OptionForm::Text,
        },
    };
    KindOption { name: kept(&value["name"]), form, meaning: "" }
}

fn offer(value: &Value) -> MaintenanceOffer {
    let scope = match value["scope"] == "node" {
        true => MaintenanceScope::Node,
        false => MaintenanceScope::System,
    };
    MaintenanceOffer::new(word(&value["operation"]), scope)
}

fn role(value: &Value) -> Role {
    Role {
        name: kept(&value["name"]),
        kinds: list(&value["kinds"], kept),
        tier: if value["tier"] == "backend" { Tier::Backend } else { Tier::Frontend },
        meaning: "",
    }
}
