//! `ssh_issue` and `ssh_sign`: certificates for SSH keys.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{Fields, Stage, Template, TestType, Trouble, body_of};
use crate::vault_benchmark::fields::{Field, any, flag, map, switch, text, texts, whole};

const CA: [Field; 5] = [
    text("private_key"),
    text("public_key"),
    switch("generate_signing_key"),
    text("key_type").or("rsa"),
    whole("key_bits"),
];

const ROLE: [Field; 31] = [
    text("name").or("benchmark-role"),
    text("key_type").or("ca"),
    flag("allow_user_certificates").or_flag(true),
    flag("allowed_domains_template"),
    text("key"),
    text("admin_user"),
    whole("key_bits"),
    text("install_script"),
    texts("key_option_specs"),
    text("default_user"),
    flag("default_user_template"),
    texts("cidr_list"),
    texts("exclude_cidr_list"),
    whole("port"),
    texts("allowed_users"),
    flag("allowed_users_template"),
    texts("allowed_domains"),
    text("ttl"),
    text("max_ttl"),
    texts("allowed_critical_options"),
    texts("allowed_extensions"),
    map("default_critical_options"),
    map("default_extensions"),
    flag("allow_host_certificates"),
    flag("allow_bare_domains"),
    flag("allow_subdomains"),
    flag("allow_user_key_ids"),
    text("key_id_format"),
    any("allowed_user_key_lengths"),
    text("algorithm_signer"),
    text("not_before_duration"),
];

const ISSUED: [Field; 9] = [
    text("name").or("benchmark-key"),
    text("key_type").or("rsa"),
    whole("key_bits"),
    text("ttl"),
    text("valid_principals"),
    text("cert_type").or("user"),
    text("key_id"),
    any("critical_options"),
    any("extensions"),
];

const SIGNING: [Field; 7] = [
    text("public_key"),
    text("ttl"),
    text("valid_principals"),
    text("cert_type").or("user"),
    text("key_id"),
    any("critical_options"),
    any("extensions"),
];

struct Ssh {
    action: &'static str,
    ca: Map<String, Value>,
    role: Map<String, Value>,
    body: Map<String, Value>,
}

pub(super) fn issue(fields: &Fields) -> Box<dyn TestType> {
    let body = fields.block("issued_cert").read(&ISSUED);
    Ssh::read(fields, "issue", body)
}

pub(super) fn sign(fields: &Fields) -> Box<dyn TestType> {
    let signing = fields.block("key_signing");
    let mut body = signing.read(&SIGNING);
    let key = match body.get("public_key").and_then(Value::as_str) {
        None => generated_key(),
        Some(given) => given_key(given, &signing).unwrap_or_default(),
    };
    body.insert("public_key".into(), key.into());
    Ssh::read(fields, "sign", body)
}

impl Ssh {
    fn read(fields: &Fields, action: &'static str, body: Map<String, Value>) -> Box<dyn TestType> {
        let ca = fields.block("ca").read(&CA);
        Box::new(Self { action, ca, role: role(fields), body })
    }
}

/// The role. Servers want its lists as texts with commas, and refuse others.
fn role(fields: &Fields) -> Map<String, Value> {
    let mut role = fields.block("role").read(&ROLE);
    for value in role.values_mut() {
        if let Value::Array(list) = value {
            let list: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
            *value = list.join(",").into();
        }
    }
    role
}

/// A public key from the file: itself, or the name of a file that holds it.
fn given_key(given: &str, fields: &Fields) -> Option<String> {
    let path = Path::new(given);
    if path.is_file() {
        return match std::fs::read_to_string(path) {
            Ok(key) => Some(key),
            Err(error) => {
                let what = format!("`public_key` cannot be read from `{given}`: {error}");
                fields.diagnostic(
                    "public_key",
                    what,
                    "it is a public key, or a file that holds one",
                );
                None
            }
        };
    }
    let mut words = given.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let data = words.next().and_then(|word| STANDARD.decode(word).ok());
    // RFC 4253 section 6.6: the key's own first word is its type.
    let is_key = data.is_some_and(|data| {
        data.get(4..4 + kind.len()) == Some(kind.as_bytes()) && !kind.is_empty()
    });
    if !is_key {
        let what = "`public_key` is neither a public key nor a file that is there";
        fields.diagnostic("public_key", what, "write it as `ssh-ed25519 AAAA…`, or name its file");
        return None;
    }
    Some(given.to_owned())
}

/// An RSA public key of 4096 bits (RFC 4253 section 6.6). Nobody signs with it: what matters is its
/// form. So its modulus is a random odd number, and no time is spent on primes.
fn generated_key() -> String {
    let mut modulus: Vec<u8> = (0..512).map(|_| rand::random()).collect();
    modulus[0] |= 0x80;
    modulus[511] |= 1;
    modulus.insert(0, 0); // it is positive
    let mut blob = Vec::new();
    for part in [&b"ssh-rsa"[..], &[1, 0, 1], &modulus] {
        blob.extend_from_slice(&(part.len() as u32).to_be_bytes());
        blob.extend_from_slice(part);
    }
    format!("ssh-rsa {}", STANDARD.encode(blob))
}

impl TestType for Ssh {
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble> {
        let mount = stage.name.clone();
        stage.mount(&mount, "ssh", json!({}))?;
        stage
            .write(&format!("{mount}/config/ca"), self.ca.clone())
            .map_err(|trouble| trouble.while_doing("cannot make the authority"))?;
        let name = self.role.get("name").and_then(Value::as_str).unwrap_or("benchmark-role");
        stage
            .write(&format!("{mount}/roles/{name}"), self.role.clone())
            .map_err(|trouble| trouble.while_doing("cannot write the role"))?;
        let path = format!("/v1/{mount}/{}/{name}", self.action);
        Ok(Template::fixed("POST", path, body_of(self.body.clone())).with(stage.client.headers()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault_benchmark::config::Config;
    use crate::vault_benchmark::fields::Environment;

    #[test]
    fn lists_of_a_role_are_sent_as_texts() {
        let lines = "role {\nallowed_users = [\"a\", \"b\"]\n}";
        let text = format!("test \"k\" \"t\" {{\nweight = 100\nconfig {{\n{lines}\n}}\n}}\n");
        let config = Config::parse("t.hcl", &text, Environment::default()).unwrap();
        let role = role(&config.tests[0].config);
        assert_eq!((&role["allowed_users"], &role["key_type"]), (&json!("a,b"), &json!("ca")));
    }

    #[test]
    fn a_generated_key_is_an_rsa_key_of_4096_bits() {
        let key = generated_key();
        let blob = STANDARD.decode(key.strip_prefix("ssh-rsa ").unwrap()).unwrap();
        assert_eq!(blob.len(), 4 + 7 + 4 + 3 + 4 + 513);
        assert_eq!(&blob[4..11], b"ssh-rsa");
        assert_eq!((blob[22], blob[23] & 0x80, blob[534] & 1), (0, 0x80, 1));
        assert_ne!(key, generated_key());
    }
}
