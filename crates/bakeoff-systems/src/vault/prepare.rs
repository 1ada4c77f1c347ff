//! Prepares a secret store for a workload, and cleans up after it.
//!
//! bakeoff uses its own mounts, whose names start with `bakeoff-` and whose description marks them. It never removes a
//! mount without that description. It creates only what the mix needs. Then it tries each operation that stores
//! nothing once at every node, because a node that has not heard of a mount yet would fail the first request of a
//! load.
//!
//! Not here: the operations themselves (`api`).

use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::study::{self, KindOption, Operation, OptionForm, Workload};
use bakeoff_core::workload::Stamp;
use bakeoff_engine::works::keyed::{Answer, KeyedState, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::api::SecretApi;
use super::leases;
use super::load_secrets::{
    APPROLE, DATABASE, DOMAIN, KV, LEASES, LoadSecrets, MADE_BY, PKI, PKI_CLIENT, PKI_ROOT, POLICY,
    PREFIX, ROLE, TRANSIT, USERPASS, user_name,
};
use super::open::{TOKEN_HEADER, token};
use crate::http_session::{Question, question, try_mapping};
use crate::postgresql::Credentials;
use crate::{Access, SystemError};

/// Name of a self-signed authority in the API.
const TOP: &str = "root";

const fn word(
    name: &'static str,
    words: &'static [&'static str],
    meaning: &'static str,
) -> KindOption {
    KindOption { name, form: OptionForm::Word(words), meaning }
}

/// Parameters of operations.
pub(super) const PARAMETERS: &[KindOption] = &[
    study::LEASE_TTL,
    word("kv", &["v1", "v2"], "version of the key-value engine; v2 when absent"),
    word(
        "certificate-key",
        &["rsa-2048", "rsa-3072", "rsa-4096", "ec-p256", "ec-p384", "ec-p521", "ed25519"],
        "key type of certificates and of their authority; rsa-2048 when absent",
    ),
    word(
        "issuer",
        &["intermediate", "root"],
        "authority that signs certificates; an intermediate when absent",
    ),
    word("stored", &["yes", "no"], "whether certificates are stored; yes when absent"),
    word("lease", &["yes", "no"], "whether certificates have a lease; no when absent"),
    word(
        "encryption-key",
        &["aes256-gcm96", "aes128-gcm96", "chacha20-poly1305", "rsa-2048", "rsa-4096"],
        "key type of `encrypt` and `decrypt`; aes256-gcm96 when absent",
    ),
    word(
        "signing-key",
        &["ed25519", "ecdsa-p256", "ecdsa-p384", "rsa-2048", "rsa-4096"],
        "key type of `sign`; ed25519 when absent",
    ),
    KindOption {
        name: study::LEASES,
        form: OptionForm::Number,
        meaning: "number of leases that exist before the load, one for each login; 0 when absent",
    },
];

/// Most users, roles, policies or texts created before a load. Each takes one or more requests.
const MADE_MAX: u64 = 10_000;
/// Longest time of one request: generating a 4096-bit key takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time for nodes to learn of new mounts.
const HEARD_WITHIN: Duration = Duration::from_secs(20);
/// Answer of an OpenBao standby until the primary has prepared a new mount, which takes milliseconds.
const UNANNOUNCED: &str = "Waiting for the primary";
/// Longest time for that answer. A standby that still gives it has missed the notice, and would give it for good.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(5);
/// Most times that mounts are created, until all nodes know them.
const MOUNTINGS_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_millis(50);

/// Creates the objects that the mix needs, with requests to `first`, and waits until all nodes know them.
///
/// A standby of OpenBao 2.7 that begins to read while a mount is created may miss that the mount is ready. It gets a new
/// mount then.
pub(crate) fn prepare(
    first: &Access,
    nodes: &[Access],
    workload: &Workload,
    keyed: &KeyedState,
) -> Result<(), SystemError> {
    let mut mountings = 1;
    loop {
        create(first, workload, keyed)?;
        match wait_for_all(nodes, workload) {
            Ok(()) => break,
            Err(SystemError::State(seen))
                if seen.contains(UNANNOUNCED) && mountings < MOUNTINGS_MAX =>
            {
                mountings += 1;
            }
            Err(error) => return Err(error),
        }
    }
    if workload.leases() > 0 {
        let make = Make { node: first, token: token(first)? };
        make.mount("auth", LEASES, json!({"type": "approle"}))?;
        let login = make.approle_at(LEASES, 0, json!({"token_ttl": "24h"}))?;
        leases::create(first, &login, workload.leases())?;
    }
    Ok(())
}

/// Creates the objects of the mix.
fn create(first: &Access, workload: &Workload, keyed: &KeyedState) -> Result<(), SystemError> {
    let mut prepared = LoadSecrets {
        token: token(first)?,
        versioned: with(workload, "kv", "v2") == "v2",
        password: format!("{:032x}", rand::random::<u128>()),
        approles: Vec::new(),
        ciphertexts: Vec::new(),
        request: String::new(),
        lease_seconds: keyed.lease_seconds,
    };
    let make = Make { node: first, token: prepared.token.clone() };
    let has =
        |wanted: &[Operation]| workload.mix.keys().any(|operation| wanted.contains(operation));
    let many = workload.keys.count;
    let made_one_by_one = [
        Operation::LoginUserpass,
        Operation::LoginApprole,
        Operation::Decrypt,
        Operation::ReadPolicy,
    ];
    if has(&made_one_by_one) && many > MADE_MAX {
        return Err(format!(
            "the workload has {many} keys, and each needs a user, a role, a policy or a text \
             created before the load; the limit is {MADE_MAX}"
        )
        .into());
    }
    // Remove leftovers of a killed run first.
    make.clear()?;
    if has(Operation::KEY_VALUE) || has(&[Operation::ReadMount]) {
        let version = if prepared.versioned { "2" } else { "1" };
        make.mount("mounts", KV, json!({"type": "kv", "options": {"version": version}}))?;
    }
    if has(&[Operation::LoginUserpass]) {
        make.mount("auth", USERPASS, json!({"type": "userpass"}))?;
        for user in 0..many {
            let body = json!({"password": prepared.password, "token_policies": "default"});
            make.post(&format!("auth/{USERPASS}/users/{}", user_name(user)), &body)?;
        }
    }
    if has(&[Operation::LoginApprole]) {
        make.mount("auth", APPROLE, json!({"type": "approle"}))?;
        for role in 0..many {
            prepared.approles.push(make.approle(role)?);
        }
    }
    if has(&[Operation::Encrypt, Operation::Decrypt, Operation::Sign]) {
        make.mount("mounts", TRANSIT, json!({"type": "transit"}))?;
        for (name, kind) in [
            ("encryption", with(workload, "encryption-key", "aes256-gcm96")),
            ("signing", with(workload, "signing-key", "ed25519")),
        ] {
            make.post(&format!("{TRANSIT}/keys/{name}"), &json!({ "type": kind }))?;
        }
    }
    if has(&[Operation::Decrypt]) {
        for text in 0..many {
            prepared.ciphertexts.push(make.ciphertext(text, keyed)?);
        }
    }
    if has(&[Operation::IssueCertificate, Operation::SignCertificate]) {
        prepared.request = make.authority(workload)?;
    }
    if has(&[Operation::IssueCredentials]) {
        make.database()?;
    }
    if has(&[Operation::ReadPolicy]) {
        for policy in 0..many {
            let rules = format!("path \"secret/data/{policy}/*\" {{ capabilities = [\"read\"] }}");
            make.post(&format!("sys/policies/acl/{POLICY}-{policy}"), &json!({ "policy": rules }))?;
        }
    }
    first.memory.keep(prepared);
    Ok(())
}

/// Removes everything that [`prepare`] creates.
pub(crate) fn clear(node: &Access) -> Result<(), SystemError> {
    Make { node, token: token(node)? }.clear()
}

/// Returns true for the names of policies created before a load. Policies have no description.
fn is_our_policy(name: &str) -> bool {
    let number = name.strip_prefix(POLICY).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| number.parse::<u64>().is_ok_and(|number| number < MADE_MAX))
}

fn with<'a>(workload: &'a Workload, name: &str, default: &'a str) -> &'a str {
    workload.with.get(name).map_or(default, String::as_str)
}

/// Creates objects with requests to one node.
struct Make<'a> {
    node: &'a Access,
    token: String,
}

impl Make<'_> {
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, SystemError> {
        let target = format!("/v1/{path}");
        let asked = Question {
            method,
            target: &target,
            headers: &[(TOKEN_HEADER, &self.token)],
            body,
            patience: PATIENCE.into(),
            ..Question::default()
        };
        question(self.node, &asked)?.success()
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, SystemError> {
        self.ask("POST", path, Some(body))
    }

    /// Mounts a secrets engine (`mounts`) or an auth method (`auth`).
    fn mount(&self, kind: &str, path: &str, mut body: Value) -> Result<(), SystemError> {
        body["description"] = MADE_BY.into();
        self.post(&format!("sys/{kind}/{path}"), &body).map(|_| ()).map_err(|error| {
            let text = error.to_string();
            match text.contains("already in use") {
                true => format!(
                    "{text}\nhint: `{path}` is not marked as made by bakeoff: move it, or disable it"
                )
                .into(),
                false => error,
            }
        })
    }

    /// Returns a text in an answer.
    fn text(&self, reply: &Value, at: &str) -> Result<String, SystemError> {
        let text = reply.pointer(at).and_then(Value::as_str).map(str::to_owned);
        text.ok_or_else(|| format!("`{}` sent an answer without `{at}`", self.node.name).into())
    }

    fn clear(&self) -> Result<(), SystemError> {
        for kind in ["mounts", "auth"] {
            let known = self.ask("GET", &format!("sys/{kind}"), None)?;
            let paths = known.get("data").unwrap_or(&known).as_object();
            for (path, mount) in paths.into_iter().flatten() {
                if path.starts_with(PREFIX) && mount["description"] == MADE_BY {
                    self.ask("DELETE", &format!("sys/{kind}/{path}"), None)?;
                }
            }
        }
        let policies = self.ask("GET", "sys/policies/acl?list=true", None)?;
        let names = policies.pointer("/data/keys").and_then(Value::as_array);
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        for name in names.filter(|name| is_our_policy(name)) {
            self.ask("DELETE", &format!("sys/policies/acl/{name}"), None)?;
        }
        Ok(())
    }

    /// Creates a role for the operation of logins. Returns the body of its login.
    fn approle(&self, number: u64) -> Result<String, SystemError> {
        self.approle_at(APPROLE, number, json!({"token_policies": "default"}))
    }

    /// Creates a role at a mount. Returns the body of its login.
    fn approle_at(&self, mount: &str, number: u64, body: Value) -> Result<String, SystemError> {
        let role = format!("auth/{mount}/role/role-{number}");
        self.post(&role, &body)?;
        let id = self.ask("GET", &format!("{role}/role-id"), None)?;
        let secret = self.post(&format!("{role}/secret-id"), &json!({}))?;
        let body = json!({
            "role_id": self.text(&id, "/data/role_id")?,
            "secret_id": self.text(&secret, "/data/secret_id")?,
        });
        Ok(body.to_string())
    }

    /// Encrypts a text that can be verified. Returns the body of its decryption.
    fn ciphertext(&self, number: u64, keyed: &KeyedState) -> Result<String, SystemError> {
        let mut text = Vec::new();
        keyed.values.write_value(number, Stamp { writer: 0, sequence: 1 }, &mut text);
        let body = json!({ "plaintext": STANDARD.encode(&text) });
        let reply = self.post(&format!("{TRANSIT}/encrypt/encryption"), &body)?;
        Ok(json!({ "ciphertext": self.text(&reply, "/data/ciphertext")? }).to_string())
    }

    /// Creates an authority with a role. Returns the start of a certificate request's body.
    fn authority(&self, workload: &Workload) -> Result<String, SystemError> {
        let key = with(workload, "certificate-key", "rsa-2048");
        let (kind, bits) = key.split_once('-').unwrap_or((key, "0"));
        let bits: u32 = bits.trim_start_matches('p').parse().unwrap_or(0);
        let key_of = |name: &str| json!({"common_name": name, "key_type": kind, "key_bits": bits, "ttl": TEN_YEARS});
        let engine = json!({"type": "pki", "config": {"max_lease_ttl": TEN_YEARS}});
        self.mount("mounts", PKI, engine.clone())?;
        if with(workload, "issuer", "intermediate") == "root" {
            self.post(&format!("{PKI}/{TOP}/generate/internal"), &key_of("bakeoff root"))?;
        } else {
            self.mount("mounts", PKI_ROOT, engine.clone())?;
            self.post(&format!("{PKI_ROOT}/{TOP}/generate/internal"), &key_of("bakeoff root"))?;
            let asked = self.post(
                &format!("{PKI}/intermediate/generate/internal"),
                &key_of("bakeoff intermediate"),
            )?;
            let mut body = key_of("bakeoff intermediate");
            body["csr"] = json!(self.text(&asked, "/data/csr")?);
            body["format"] = json!("pem_bundle");
            let signed = self.post(&format!("{PKI_ROOT}/{TOP}/sign-intermediate"), &body)?;
            let certificate = self.text(&signed, "/data/certificate")?;
            self.post(
                &format!("{PKI}/intermediate/set-signed"),
                &json!({ "certificate": certificate }),
            )?;
        }
        let role = json!({
            "allowed_domains": DOMAIN,
            "allow_subdomains": true,
            "key_type": kind,
            "key_bits": bits,
            "max_ttl": "72h",
            "no_store": with(workload, "stored", "yes") == "no",
            "generate_lease": with(workload, "lease", "no") == "yes",
        });
        self.post(&format!("{PKI}/roles/{ROLE}"), &role)?;
        if !workload.mix.contains_key(&Operation::SignCertificate) {
            return Ok(String::new());
        }
        // The server generates a key with this request; only the request is used.
        let name = format!("client.{DOMAIN}");
        self.mount("mounts", PKI_CLIENT, engine)?;
        let asked =
            self.post(&format!("{PKI_CLIENT}/intermediate/generate/internal"), &key_of(&name))?;
        Ok(json!({ "csr": self.text(&asked, "/data/csr")? })
            .to_string()
            .trim_end_matches('}')
            .to_owned())
    }

    /// Connects the database that the system has as a part.
    fn database(&self) -> Result<(), SystemError> {
        let database = self.node.memory.get::<Database>();
        let node = &database.as_ref().ok_or(NO_DATABASE)?.0;
        let known = node.memory.get::<Credentials>().ok_or(NO_DATABASE)?;
        let (at, database) = (&node.authority, &known.database);
        self.mount("mounts", DATABASE, json!({"type": "database"}))?;
        let body = json!({
            "plugin_name": "postgresql-database-plugin",
            "allowed_roles": ROLE,
            "connection_url": format!("postgresql://{{{{username}}}}:{{{{password}}}}@{at}/{database}?sslmode=disable"),
            "username": known.user,
            "password": known.password,
        });
        self.post(&format!("{DATABASE}/config/database"), &body)?;
        let create = "CREATE ROLE \"{{name}}\" WITH LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}';";
        let role = json!({
            "db_name": "database",
            "creation_statements": [create],
            "default_ttl": "1h",
            "max_ttl": "24h",
        });
        self.post(&format!("{DATABASE}/roles/{ROLE}"), &role).map(|_| ())
    }
}

const NO_DATABASE: &str =
    "`issue-credentials` needs a database; add `parts: {database: {kind: postgresql}}`";

/// Access to the database of `issue-credentials`.
pub(super) struct Database(pub(super) Access);

const TEN_YEARS: &str = "87600h";

/// Waits until every node answers the mix's operations that store nothing.
fn wait_for_all(nodes: &[Access], workload: &Workload) -> Result<(), SystemError> {
    let began = clock::now();
    for node in nodes {
        for &operation in workload.mix.keys().filter(|operation| !operation.writes()) {
            while let Err(seen) = answers(node, operation) {
                let is_unannounced = seen.to_string().contains(UNANNOUNCED);
                let limit = if is_unannounced { ANNOUNCED_WITHIN } else { HEARD_WITHIN };
                if clock::now() > began + limit {
                    return Err(format!(
                        "`{}` still fails `{operation}` after {limit:?}: {seen}",
                        node.name
                    )
                    .into());
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
    Ok(())
}

/// Checks that a node can run an operation. The error holds its answer.
fn answers(node: &Access, operation: Operation) -> Result<(), SystemError> {
    let key: &[u8] = if operation == Operation::List { b"bakeoff/none/" } else { b"bakeoff/none" };
    let value: &[u8] =
        if matches!(operation, Operation::Encrypt | Operation::Sign) { b"none" } else { b"" };
    let request = Request { value, ..Request::new(operation, key) };
    let mut seen = Ok(());
    try_mapping(node, &SecretApi::new(node), &request, &mut |answer| {
        if let Answer::Failed(_, what) = answer {
            seen = Err(SystemError::State(what));
        }
    })?;
    seen
}
