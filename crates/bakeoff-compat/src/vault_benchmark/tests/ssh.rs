//! `ssh_issue` and `ssh_sign`: certificates for SSH keys.
//!
//! Not here: the set-up (`services`).

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Fields;
use super::services::{Block, Body, Mount, Ready, Request, Service};
use crate::vault_benchmark::fields::{Field, any, flag, map, switch, text, texts, whole};

const CA: &[Field] = &[
    text("private_key"),
    text("public_key"),
    switch("generate_signing_key"),
    text("key_type").or("rsa"),
    whole("key_bits"),
];

const ROLE: &[Field] = &[
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

const ISSUED: &[Field] = &[
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

const SIGNING: &[Field] = &[
    text("public_key"),
    text("ttl"),
    text("valid_principals"),
    text("cert_type").or("user"),
    text("key_id"),
    any("critical_options"),
    any("extensions"),
];

/// Declares one of the two types, which share their first blocks.
macro_rules! ssh {
    ($kind:literal, $action:literal, $block:literal, $fields:expr, $complete:expr) => {
        Service {
            kind: $kind,
            mount: Mount::Engine("ssh"),
            blocks: &[
                Block { name: $block, path: "", fields: &[$fields] },
                Block { name: "ca", path: "config/ca", fields: &[CA] },
                Block { name: "role", path: "roles/{role.name}", fields: &[ROLE] },
            ],
            request: Request::Post(concat!($action, "/{role.name}"), Body::Block($block)),
            complete: $complete,
            ..Service::PLAIN
        }
    };
}

pub(super) const TYPES: &[Service] = &[
    ssh!("ssh_issue", "issue", "issued_cert", ISSUED, join_lists),
    ssh!("ssh_sign", "sign", "key_signing", SIGNING, |ready, fields| {
        join_lists(ready, fields);
        let body = ready.block("key_signing");
        let key = match body.get("public_key").and_then(Value::as_str) {
            None => generated_key(),
            Some(given) => given_key(given, &fields.block("key_signing")).unwrap_or_default(),
        };
        body.insert("public_key".into(), key.into());
    }),
];

/// Joins the role's lists with commas, because servers refuse lists.
fn join_lists(ready: &mut Ready, _: &Fields) {
    for value in ready.block("role").values_mut() {
        if let Value::Array(list) = value {
            let list: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
            *value = list.join(",").into();
        }
    }
}

/// Returns the public key in the file, or in the file that it names.
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
    // RFC 4253 section 6.6: the key data start with the name of the type.
    let is_key = data.is_some_and(|data| {
        data.get(4..4 + kind.len()) == Some(kind.as_bytes()) && !kind.is_empty()
    });
    if !is_key {
        let what = "`public_key` is neither a public key nor an existing file";
        fields.diagnostic("public_key", what, "write it as `ssh-ed25519 AAAA…`, or name its file");
        return None;
    }
    Some(given.to_owned())
}

/// Returns a 4096-bit RSA public key (RFC 4253 section 6.6). It never signs, so only its form matters. The modulus is
/// a random odd number, which saves the search for primes.
fn generated_key() -> String {
    let mut modulus: Vec<u8> = (0..512).map(|_| rand::random()).collect();
    modulus[0] |= 0x80;
    modulus[511] |= 1;
    modulus.insert(0, 0); // keeps the number positive
    let mut blob = Vec::new();
    for part in [&b"ssh-rsa"[..], &[1, 0, 1], &modulus] {
        blob.extend_from_slice(&(part.len() as u32).to_be_bytes());
        blob.extend_from_slice(part);
    }
    format!("ssh-rsa {}", STANDARD.encode(blob))
}

#[cfg(test)]
mod tests {
    use super::*;

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
