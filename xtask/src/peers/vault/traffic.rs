//! Compares the requests of each test type between the original and bakeoff, using the server's audit log.
//!
//! Both tools run a short load of the same file. Requests are compared by operation, path, namespace and body, with
//! random parts masked. Their counts are not compared. Requests that the server does not audit (`sys/seal-status`) are
//! missing. The services that some types need are not running: their engines are configured and used without them.
//!
//! Not here: the server (`server`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Stdio;

use serde_json::{Map, Value, json};

use super::server::Server;
use super::{Stand, Tool};
use crate::Failure;

/// Test types with their `config`.
const TYPES: &[(&str, &str)] = &[
    ("acl_policy_list", "policies = 3"),
    ("acl_policy_read", "policies = 3\npaths = 2"),
    ("acl_policy_write", "policies = 3"),
    (
        "approle_auth",
        "role {\nrole_name = \"r\"\ntoken_ttl = \"2m\"\n}\nsecret_id {\nttl = \"10m\"\n}",
    ),
    ("consul_secret", CONSUL),
    ("ha_status", ""),
    (
        "jwt_auth",
        "role {\nname = \"r\"\nbound_subject = \"me\"\n}\nauth {\nbound_issuer = \"us\"\n}",
    ),
    ("kvv1_list", "numkvs = 3"),
    ("kvv1_read", "numkvs = 3"),
    ("kvv1_write", "numkvs = 3\nkvsize = 20"),
    ("kvv2_list", "numkvs = 3"),
    ("kvv2_read", "numkvs = 3"),
    ("kvv2_write", "numkvs = 3\nkvsize = 20"),
    ("metrics", ""),
    ("mount", "plugin = \"kv-v2\""),
    ("mysql_secret", MYSQL),
    ("namespace", ""),
    ("nomad_secret", NOMAD),
    ("pki_issue", "setup_delay = \"1s\""),
    ("pki_sign", "setup_delay = \"1s\""),
    ("postgresql_secret", POSTGRESQL),
    ("rabbitmq_secret", RABBITMQ),
    ("redis_dynamic_secret", REDIS),
    ("redis_static_secret", REDIS_STATIC),
    ("seal_status", ""),
    ("ssh_issue", ""),
    ("ssh_sign", ""),
    ("transit_decrypt", ""),
    ("transit_encrypt", "keys {\ntype = \"aes256-gcm96\"\n}"),
    ("transit_sign", ""),
    ("transit_verify", ""),
    ("userpass_auth", "username = \"somebody\"\npassword = \"word\"\ntoken_type = \"batch\""),
];

const CONSUL: &str = "version = \"1.4.0\"\nconsul {\naddress = \"127.0.0.1:1\"\ntoken = \"t\"\n}\nrole \
                      {\nconsul_policies = [\"p\"]\nttl = \"1h\"\n}";
const MYSQL: &str = "db_connection {\nconnection_url = \"{{username}}:{{password}}@tcp(127.0.0.1:1)/\"\n\
                     verify_connection = false\nusername = \"u\"\npassword = \"w\"\n}\nrole {\n\
                     creation_statements = \"CREATE\"\nmax_ttl = \"2h\"\n}";
const NOMAD: &str = "nomad {\naddress = \"http://127.0.0.1:1\"\ntoken = \"t\"\n}\nrole {\npolicies = \
                     [\"p\"]\n}";
const POSTGRESQL: &str = "db_connection {\nconnection_url = \
                          \"postgresql://{{username}}:{{password}}@127.0.0.1:1/postgres\"\n\
                          verify_connection = false\nusername = \"u\"\npassword = \"w\"\n}\nrole {\n\
                          creation_statements = \"CREATE\"\ndefault_ttl = \"1h\"\n}";
const RABBITMQ: &str = "connection {\nconnection_uri = \"http://127.0.0.1:1\"\nusername = \"u\"\n\
                        password = \"w\"\nverify_connection = false\n}\nrole {\ntags = \"t\"\n\
                        vhosts = \"{}\"\n}";
const REDIS: &str = "db_connection {\nhost = \"127.0.0.1\"\nport = 1\nusername = \"u\"\npassword = \"w\"\n\
                     verify_connection = false\n}\nrole {\ncreation_statements = \"[\\\"+@admin\\\"]\"\n}";
const REDIS_STATIC: &str = "db_connection {\nhost = \"127.0.0.1\"\nport = 1\nusername = \"u\"\npassword = \
                            \"w\"\nverify_connection = false\n}\nrole {\nusername = \"u\"\n\
                            rotation_period = \"5m\"\n}";

/// Intended differences: the type, a part of the request, and the reason. `docs/vault-benchmark.md` lists them.
const ON_PURPOSE: &[(&str, &str, &str)] = &[
    ("kvv2_read", "only ours: read UUID/config", "polls until it is ready instead of waiting 2 s"),
    ("kvv2_write", "only ours: read UUID/config", "polls until it is ready instead of waiting 2 s"),
    ("mount", "only ours: delete sys/mounts/UUID/kv-v2-UUID", "the clean-up removes everything"),
    (
        "namespace",
        "only ours: read sys/namespaces/benchmark-UUID",
        "the clean-up waits for each deletion",
    ),
    (
        "pki_sign",
        "only ours: update UUID-root/intermediate/generate/internal",
        "the server creates the signed request instead of the client",
    ),
    ("redis_static_secret", "only ours: create UUID/static-roles/", REDIS_IS_STATIC),
    ("redis_static_secret", "only ours: read UUID/static-creds/", REDIS_IS_STATIC),
    ("redis_static_secret", "only theirs: create UUID/roles/", REDIS_IS_STATIC),
    ("redis_static_secret", "only theirs: read UUID/creds/", REDIS_IS_STATIC),
];

const REDIS_IS_STATIC: &str = "the type's name stands for a static role";

/// Body fields with random values in one tool or both.
const RANDOM: [&str; 12] = [
    "certificate",
    "ciphertext",
    "context",
    "csr",
    "input",
    "jwt",
    "jwt_validation_pubkeys",
    "plaintext",
    "public_key",
    "role_id",
    "secret_id",
    "signature",
];

/// Compares all types. Returns those that differ.
pub(super) fn compare(stand: &Stand) -> Result<Vec<Failure>, Failure> {
    println!("Requests to the server, by type:\n");
    let mut missed = Vec::new();
    let (mut same, mut on_purpose) = (0, 0);
    for (kind, config) in TYPES {
        let [theirs, ours] = [Tool::Theirs, Tool::Ours].map(|tool| seen(stand, tool, kind, config));
        let (theirs, ours) = match (theirs, ours) {
            (Ok(TrafficKinds::Kinds(theirs)), Ok(TrafficKinds::Kinds(ours))) => (theirs, ours),
            (Ok(TrafficKinds::Nothing), _) | (_, Ok(TrafficKinds::Nothing)) => {
                println!("- {kind}: only one tool has it");
                continue;
            }
            (Err(why), _) | (_, Err(why)) => {
                println!("- {kind}: {why}");
                missed.push(format!("`{kind}` could not be compared"));
                continue;
            }
        };
        let differences = differences(kind, &theirs, &ours);
        let unwanted = differences.iter().filter(|(_, why)| why.is_none()).count();
        match (differences.is_empty(), unwanted) {
            (true, _) if theirs.is_empty() => println!("- {kind}: the server does not audit it"),
            (true, _) => {
                same += 1;
                println!("- {kind}: same ({} kinds of requests)", theirs.len());
            }
            (_, 0) => {
                on_purpose += 1;
                println!("- {kind}: differs on purpose");
            }
            _ => {
                println!("- {kind}: DIFFERS");
                missed.push(format!("the requests of `{kind}` differ"));
            }
        }
        for (what, why) in differences {
            let why = why.map_or(String::new(), |why| format!("  [{why}]"));
            println!("    {what}{why}");
        }
    }
    println!(
        "\n{same} types the same, {on_purpose} different on purpose, {} otherwise",
        missed.len()
    );
    Ok(missed)
}

enum TrafficKinds {
    /// The tool does not know the type.
    Nothing,
    Kinds(BTreeSet<String>),
}

/// Runs one tool. Returns its requests from the audit log.
fn seen(stand: &Stand, tool: Tool, kind: &str, config: &str) -> Result<TrafficKinds, Failure> {
    let cannot = |what: &str, error: std::io::Error| format!("cannot {what}: {error}");
    let file = stand.scratch.path().join("test.hcl");
    let text = format!(
        "duration = \"1s\"\nworkers = 1\nrps = 10\ncleanup = true\ntest \"{kind}\" \"t\" {{\nweight = \
         100\nconfig {{\n{config}\n}}\n}}\n"
    );
    fs::write(&file, text).map_err(|error| cannot("write a test", error))?;
    // A separate server, because OpenBao 2.5.1 does not survive the original's clean-up of namespaces.
    let server = Server::start_audited(&stand.server)?;
    let audit = || fs::read_to_string(server.audit_log());
    let before = audit().map_err(|error| cannot("read the audit log", error))?.len();
    let mut command = stand.command(tool, &server, &file);
    // If a service is missing, all requests fail, and either tool may report that in its own way.
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| cannot("run a tool", error))?;
    let printed = String::from_utf8_lossy(&output.stderr);
    if ["invalid test type", "unknown test type", "is not supported"]
        .iter()
        .any(|no| printed.contains(no))
    {
        return Ok(TrafficKinds::Nothing);
    }
    let log = audit().map_err(|error| cannot("read the audit log", error))?;
    let log = log.get(before..).ok_or("the audit log shrank")?;
    if log.is_empty() && !output.status.success() {
        return Err(format!("{tool:?} failed with `{kind}`: {}", printed.trim()));
    }
    // Some bodies hold the server's address, whose port varies.
    let log = log.replace(&server.url(), "http://SERVER");
    Ok(TrafficKinds::Kinds(kinds(&log)?))
}

/// Returns the distinct requests of an audit log.
fn kinds(log: &str) -> Result<BTreeSet<String>, Failure> {
    let mut kinds = BTreeSet::new();
    for line in log.lines() {
        let entry: Value = serde_json::from_str(line)
            .map_err(|error| format!("a line of the audit log is not JSON: {error}"))?;
        let request = &entry["request"];
        let path = request["path"].as_str().unwrap_or_default();
        // Both tools check the server in different ways.
        if entry["type"] != "request" || path.starts_with("sys/internal/") {
            continue;
        }
        let operation = request["operation"].as_str().unwrap_or_default();
        let namespace = request["namespace"]["path"].as_str().unwrap_or_default();
        let body = normal("", &request["data"]).unwrap_or_else(|| json!({}));
        kinds.insert(format!("{operation} {namespace}{} {body}", named(path)));
    }
    Ok(kinds)
}

/// Removes empty and random parts from a value. Returns `None` if nothing is left.
fn normal(name: &str, value: &Value) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            let fields: Map<String, Value> = fields
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), normal(name, value)?)))
                .collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        Value::Array(values) if values.is_empty() => None,
        Value::Array(_) if RANDOM.contains(&name) => Some(json!("RANDOM")),
        Value::Array(values) => {
            Some(values.iter().map(|value| normal("", value).unwrap_or(Value::Null)).collect())
        }
        Value::Null | Value::Bool(false) => None,
        Value::String(text) if text.is_empty() => None,
        Value::String(_) if RANDOM.contains(&name) => Some(json!("RANDOM")),
        Value::String(text) => Some(json!(named(text))),
        other => Some(other.clone()),
    }
}

/// Replaces random parts of a text by names: `UUID`, and `N` after `secret-` and `policy-`.
fn named(text: &str) -> String {
    const UUID: [usize; 5] = [8, 4, 4, 4, 12];
    let is_uuid = |part: &str| {
        let mut groups = part.split('-');
        let fits = UUID.iter().all(|&length| {
            groups.next().is_some_and(|group| {
                group.len() == length && group.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
        });
        fits && groups.next().is_none()
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if rest.get(..36).is_some_and(is_uuid) {
            out.push_str("UUID");
            rest = &rest[36..];
            continue;
        }
        out.push(first);
        rest = &rest[first.len_utf8()..];
        if out.ends_with("secret-") || out.ends_with("policy-") {
            let after = rest.trim_start_matches(|one: char| one.is_ascii_digit());
            if after.len() < rest.len() {
                out.push('N');
                rest = after;
            }
        }
    }
    out
}

/// Returns the requests that only one tool sends, with the reason if the difference is intended.
fn differences(
    kind: &str,
    theirs: &BTreeSet<String>,
    ours: &BTreeSet<String>,
) -> BTreeMap<String, Option<&'static str>> {
    let only = |whose: &str, these: &BTreeSet<String>, others: &BTreeSet<String>| {
        let only = these.difference(others).map(|what| format!("only {whose}: {what}"));
        only.collect::<Vec<String>>()
    };
    let mut all = only("theirs", theirs, ours);
    all.extend(only("ours", ours, theirs));
    all.into_iter()
        .map(|what| {
            let why = ON_PURPOSE.iter().find(|(of, part, _)| *of == kind && what.contains(part));
            (what, why.map(|(_, _, why)| *why))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123abcd-0123-abcd-0123-0123456789ab";

    fn line(path: &str, data: &Value) -> String {
        let request = json!({ "operation": "update", "path": path, "data": data });
        format!("{}\n", json!({ "type": "request", "request": request }))
    }

    #[test]
    fn masks_random_parts_and_nothing_else() {
        assert_eq!(named(&format!("{ID}/data/secret-12")), "UUID/data/secret-N");
        assert_eq!(named("auth/x-0123abcd/ä"), "auth/x-0123abcd/ä");
        let one = line(&format!("{ID}/a"), &json!({ "csr": "x", "b": 1, "no": null, "f": false }));
        let two = line("0123abcd-0123-abcd-0123-0123456789ac/a", &json!({ "csr": "y", "b": 1 }));
        assert_eq!(kinds(&one), kinds(&two));
        let other = line(&format!("{ID}/a"), &json!({ "csr": "x", "b": 2 }));
        assert_ne!(kinds(&one), kinds(&other));
        let answer =
            one.replace("\"request\",", "\"response\",").replace(":\"request\"", ":\"response\"");
        assert_eq!(kinds(&answer), Ok(BTreeSet::new()));
        assert!(kinds("no\n").is_err());
    }

    #[test]
    fn reports_requests_of_one_tool_alone() {
        let set = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        assert!(differences("mount", &set(&["a"]), &set(&["a"])).is_empty());
        let found = differences("mount", &set(&["a", "b"]), &set(&["a", "c"]));
        let found: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(found, ["only ours: c", "only theirs: b"]);
    }
}
