//! Tests `pki_issue` and `pki_sign`: certificates from an intermediate authority under a root.
//!
//! `pki_sign` sends a certificate request. If the file has none, vault-benchmark makes an RSA key for one. bakeoff
//! lets the server's own engine make it, on the root's mount.
//!
//! Not here: reading options (`fields`).

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::time::Duration;

use super::{Fields, Stage, Template, TestType, Trouble, body_of};
use crate::vault_benchmark::fields::{Field, flag, switch, text, texts, whole};
use crate::vault_benchmark::trouble::Kind;

const ROOT: [Field; 29] = [
    text("type").or("internal"),
    text("issuer_name"),
    text("key_name"),
    text("key_ref"),
    text("common_name").or("example.com"),
    text("alt_names"),
    text("ip_sans"),
    text("uri_sans"),
    text("other_sans"),
    text("ttl"),
    text("format"),
    text("private_key_format"),
    text("key_type"),
    whole("key_bits"),
    whole("max_path_length"),
    flag("exclude_cn_from_sans"),
    text("permitted_dns_domains"),
    text("ou"),
    text("organization"),
    text("country"),
    text("locality"),
    text("province"),
    text("street_address"),
    text("postal_code"),
    text("serial_number"),
    text("not_before_duration"),
    text("not_after"),
    text("managed_key_name"),
    text("managed_key_id"),
];

const CSR: [Field; 25] = [
    text("type").or("internal"),
    text("common_name").or("example.com Intermediate Authority"),
    text("alt_names"),
    text("ip_sans"),
    text("uri_sans"),
    text("other_sans"),
    text("format"),
    text("private_key_format"),
    text("key_type"),
    whole("key_bits"),
    text("key_name"),
    text("key_ref"),
    whole("signature_bits"),
    flag("exclude_cn_from_sans"),
    text("ou"),
    text("organization"),
    text("country"),
    text("locality"),
    text("province"),
    text("street_address"),
    text("postal_code"),
    text("serial_number"),
    flag("add_basic_constraints"),
    text("managed_key_name"),
    text("managed_key_id"),
];

const SIGNED: [Field; 24] = [
    text("csr"),
    text("common_name"),
    text("alt_names"),
    text("ip_sans"),
    text("uri_sans"),
    text("other_sans"),
    text("ttl"),
    text("format").or("pem_bundle"),
    whole("max_path_length"),
    flag("use_csr_values"),
    text("permitted_dns_domains"),
    text("ou"),
    text("organization"),
    text("country"),
    text("locality"),
    text("province"),
    text("street_address"),
    text("postal_code"),
    text("serial_number"),
    text("not_before_duration"),
    text("not_after"),
    whole("signature_bits"),
    text("skid"),
    flag("use_pss"),
];

const ROLE: [Field; 48] = [
    text("name"),
    text("ttl").or("5m"),
    text("max_ttl"),
    switch("allow_localhost"),
    texts("allowed_domains"),
    flag("allowed_domain_template"),
    flag("allow_bare_domains"),
    flag("allow_subdomains").or_flag(true),
    flag("allow_glob_domains"),
    switch("allow_wildcard_certificates"),
    flag("allow_any_name").or_flag(true),
    switch("enforce_hostnames"),
    switch("allow_ip_sans"),
    text("allowed_uri_sans"),
    flag("allowed_uri_sans_template"),
    text("allowed_other_sans"),
    text("allowed_serial_numbers"),
    switch("server_flag"),
    switch("client_flag"),
    flag("code_signing_flag"),
    flag("email_protection_flag"),
    text("key_type"),
    whole("key_bits"),
    whole("signature_bits"),
    flag("use_pss"),
    texts("key_usage"),
    texts("ext_key_usage"),
    text("ext_key_usage_oids"),
    switch("use_csr_common_name"),
    switch("use_csr_sans"),
    text("ou"),
    text("organization"),
    text("country"),
    text("locality"),
    text("province"),
    text("street_address"),
    text("postal_code"),
    flag("generate_lease"),
    flag("no_store"),
    switch("require_cn"),
    texts("policy_identifiers"),
    flag("basic_constraints_valid_for_non_ca"),
    text("not_before_duration"),
    text("not_after"),
    texts("cn_validations"),
    text("allowed_user_ids"),
    flag("allowed_domains_template"),
    text("issuer_ref"),
];

const ISSUE: [Field; 12] = [
    text("name"),
    text("common_name"),
    text("alt_names"),
    text("ip_sans"),
    text("uri_sans"),
    text("other_sans"),
    text("ttl"),
    text("format"),
    text("private_key_format"),
    flag("exclude_cn_from_sans"),
    text("not_after"),
    text("user_ids"),
];

const SIGN: [Field; 14] = [
    text("name"),
    text("csr"),
    text("common_name"),
    text("alt_names"),
    text("ip_sans"),
    text("uri_sans"),
    text("other_sans"),
    text("ttl"),
    text("format"),
    flag("exclude_cn_from_sans"),
    text("not_after"),
    flag("remove_root_from_chain"),
    text("user_ids"),
    flag("remove_roots_from_chain"),
];

/// Subject of the certificate request generated for `pki_sign`.
const SUBJECT: [(&str, &str); 5] = [
    ("common_name", "test.vault.benchmark"),
    ("country", "US"),
    ("organization", "bakeoff"),
    ("locality", "San Francisco"),
    ("ou", "VaultBenchmarking"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Issue,
    Sign,
}

struct Pki {
    action: Action,
    delay: Duration,
    root: Map<String, Value>,
    csr: Map<String, Value>,
    signed: Map<String, Value>,
    role: Map<String, Value>,
    body: Map<String, Value>,
}

pub(super) fn issue(fields: &Fields) -> Box<dyn TestType> {
    let mut body = fields.block("issue").read(&ISSUE);
    body.entry("common_name").or_insert("test.vault.benchmark".into());
    Pki::read(fields, Action::Issue, body)
}

pub(super) fn sign(fields: &Fields) -> Box<dyn TestType> {
    let block = fields.block("sign");
    let mut body = block.read(&SIGN);
    // vault-benchmark documents this name; servers accept the other one.
    if let Some(value) = body.remove("remove_root_from_chain") {
        body.insert("remove_roots_from_chain".into(), value);
    }
    if let Some(given) = body.get("csr").and_then(Value::as_str) {
        let csr = given_request(given, &block).unwrap_or_default();
        body.insert("csr".into(), csr.into());
    }
    Pki::read(fields, Action::Sign, body)
}

/// Returns the certificate request in the file, or in the file that it names.
fn given_request(given: &str, fields: &Fields) -> Option<String> {
    let path = Path::new(given);
    if path.is_file() {
        return match std::fs::read_to_string(path) {
            Ok(csr) => Some(csr),
            Err(error) => {
                let what = format!("`csr` cannot be read from `{given}`: {error}");
                fields.diagnostic("csr", what, "it is a request as PEM, or a file that holds one");
                None
            }
        };
    }
    let inside = given.trim().strip_prefix("-----BEGIN").and_then(|rest| {
        let (_, rest) = rest.split_once("REQUEST-----")?;
        let (inside, _) = rest.split_once("-----END")?;
        STANDARD.decode(inside.split_whitespace().collect::<String>()).ok()
    });
    // Check that it is a SEQUENCE in DER, as every request is.
    if inside.is_none_or(|der| der.first() != Some(&0x30)) {
        let what = "`csr` is neither a certificate request nor an existing file";
        fields.diagnostic("csr", what, "write it as PEM, `-----BEGIN CERTIFICATE REQUEST-----`");
        return None;
    }
    Some(given.to_owned())
}

impl Pki {
    fn read(fields: &Fields, action: Action, body: Map<String, Value>) -> Box<dyn TestType> {
        let delay = fields.duration("setup_delay").unwrap_or(Duration::from_secs(1));
        let mut role = fields.block("role").read(&ROLE);
        // vault-benchmark's code has this name; servers and their documentation have the other one.
        if let Some(value) = role.remove("allowed_domain_template") {
            role.insert("allowed_domains_template".into(), value);
        }
        let name = match action {
            Action::Issue => "benchmark-issue",
            Action::Sign => "benchmark-sign",
        };
        role.entry("name").or_insert(name.into());
        Box::new(Self {
            action,
            delay,
            root: fields.block("root_ca").read(&ROOT),
            csr: fields.block("intermediate_csr").read(&CSR),
            signed: fields.block("intermediate_ca").read(&SIGNED),
            role,
            body,
        })
    }

    /// Mounts an engine, and waits as long as the file says for the server to make it ready.
    fn mount(&self, stage: &mut Stage<'_>, path: &str) -> Result<(), Trouble> {
        stage.mount(path, "pki", json!({ "config": { "max_lease_ttl": "87600h" } }))?;
        stage.wait(self.delay)
    }

    fn make_root(&self, stage: &mut Stage<'_>, root: &str) -> Result<(), Trouble> {
        self.mount(stage, root)?;
        let kind = kind_of(&self.root);
        stage
            .write(&[root, "root", "generate", kind].join("/"), self.root.clone())
            .map_err(|trouble| trouble.while_doing("cannot make the root authority"))?;
        let address = stage.client.address();
        let urls = json!({
            "issuing_certificates": format!("{address}/v1/{root}/ca"),
            "crl_distribution_points": [format!("{address}/v1/{root}/crl")],
        });
        stage
            .client
            .write(&format!("{root}/config/urls"), &urls)
            .map_err(|trouble| trouble.while_doing("cannot set the root authority's URLs"))?;
        Ok(())
    }

    fn make_intermediate(
        &self,
        stage: &mut Stage<'_>,
        root: &str,
        intermediate: &str,
    ) -> Result<(), Trouble> {
        self.mount(stage, intermediate)?;
        let doing = |what: &'static str| {
            move |trouble: Trouble| trouble.while_doing(&format!("cannot {what}"))
        };
        let kind = kind_of(&self.csr);
        let csr = stage
            .write(&format!("{intermediate}/intermediate/generate/{kind}"), self.csr.clone())
            .map_err(doing("make the intermediate authority's request"))?;
        let mut signed = self.signed.clone();
        let csr = csr.data("csr").ok_or_else(|| missing("csr"))?;
        signed.insert("csr".into(), csr.into());
        let signed = stage
            .write(&[root, "root", "sign-intermediate"].join("/"), signed)
            .map_err(doing("sign the intermediate authority"))?;
        let certificate = signed.data("certificate").ok_or_else(|| missing("certificate"))?;
        let issuer = signed.data("issuing_ca").ok_or_else(|| missing("issuing_ca"))?;
        let chain = json!({ "certificate": format!("{certificate}\n{issuer}") });
        stage
            .client
            .write(&format!("{intermediate}/intermediate/set-signed"), &chain)
            .map_err(doing("set the intermediate authority's certificate"))?;
        stage
            .write(&format!("{intermediate}/roles/{}", name_of(&self.role)), self.role.clone())
            .map_err(doing("write the role"))?;
        Ok(())
    }
}

fn kind_of(body: &Map<String, Value>) -> &str {
    body.get("type").and_then(Value::as_str).unwrap_or("internal")
}

fn name_of(body: &Map<String, Value>) -> &str {
    body.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn missing(what: &str) -> Trouble {
    Trouble::new(Kind::Refused, format!("the server's answer holds no `{what}`"))
}

/// Makes the root's mount generate a request and its key, which stays on the server.
fn make_request(stage: &mut Stage<'_>, root: &str) -> Result<String, Trouble> {
    let subject = SUBJECT.map(|(name, value)| (name.to_owned(), value.into()));
    let mut body = Map::from_iter(subject);
    body.insert("key_type".into(), "rsa".into());
    body.insert("key_bits".into(), 2048.into());
    let made = stage
        .write(&format!("{root}/intermediate/generate/internal"), body)
        .map_err(|trouble| trouble.while_doing("cannot make a certificate request"))?;
    made.data("csr").map(str::to_owned).ok_or_else(|| missing("csr"))
}

impl TestType for Pki {
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble> {
        let (root, intermediate) = (format!("{}-root", stage.name), format!("{}-int", stage.name));
        self.make_root(stage, &root)?;
        self.make_intermediate(stage, &root, &intermediate)?;
        let mut body = self.body.clone();
        let action = match self.action {
            Action::Issue => "issue",
            Action::Sign => {
                if !body.contains_key("csr") {
                    body.insert("csr".into(), make_request(stage, &root)?.into());
                }
                "sign"
            }
        };
        let path = format!("/v1/{intermediate}/{action}/{}", name_of(&self.role));
        Ok(Template::fixed("POST", path, body_of(body)).with(stage.client.headers()))
    }
}
