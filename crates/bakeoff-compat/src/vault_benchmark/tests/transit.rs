//! Tests `transit_*`: encryption as a service.
//!
//! Not here: the set-up (`services`).

use serde_json::{Map, Value};

use super::services::{Block, Body, Mount, Ready, Request, Service};
use super::{Fields, Stage, Trouble, random_base64};
use crate::vault_benchmark::fields::{Field, any, flag, text, whole};
use crate::vault_benchmark::trouble::Kind;

const KEYS: &[Field] = &[
    text("name").or("test"),
    flag("convergent_encryption"),
    flag("derived"),
    flag("exportable"),
    flag("allow_plaintext_backup"),
    text("type").or("rsa-2048"),
    whole("key_size"),
    text("auto_rotate_period"),
    text("managed_key_name"),
    text("managed_key_id"),
    text("parameter_set"),
    text("hybrid_key_type_ec"),
    text("hybrid_key_type_pqc"),
];

const SIGN: &[Field] = &[
    text("name").or("test"),
    whole("key_version"),
    text("hash_algorithm").or("sha2-256"),
    text("input"),
    text("reference"),
    any("batch_input"),
    text("context"),
    flag("prehashed"),
    text("signature_algorithm").or("pss"),
    text("marshaling_algorithm").or("asn1"),
    text("salt_length"),
];

const VERIFY: &[Field] = &[
    text("name").or("test"),
    text("hash_algorithm").or("sha2-256"),
    text("input"),
    text("signature"),
    text("hmac"),
    text("reference"),
    any("batch_input"),
    text("context"),
    flag("prehashed"),
    text("signature_algorithm").or("pss"),
    text("marshaling_algorithm").or("asn1"),
    text("salt_length"),
];

const ENCRYPT: &[Field] = &[
    text("name").or("test"),
    text("plaintext"),
    text("associated_data"),
    text("context"),
    whole("key_version"),
    text("nonce"),
    text("reference"),
    any("batch_input"),
    text("type"),
    flag("convergent_encryption"),
    whole("partial_failure_response_code"),
];

const DECRYPT: &[Field] = &[
    text("name").or("test"),
    text("ciphertext"),
    text("associated_data"),
    text("context"),
    text("nonce"),
    text("reference"),
    any("batch_input"),
    whole("partial_failure_response_code"),
];

/// Declares a type: its name, its request, and its requests before the load. Every type reads all blocks, as in
/// vault-benchmark, so that one file serves several tests.
const fn transit(
    kind: &'static str,
    path: &'static str,
    block: &'static str,
    before_load: fn(&mut Ready, &mut Stage<'_>, &str) -> Result<(), Trouble>,
) -> Service {
    Service {
        kind,
        mount: Mount::LastingEngine("transit"),
        blocks: &[
            Block { name: "keys", path: "keys/{keys.name}", fields: &[KEYS] },
            Block { name: "sign", path: "", fields: &[SIGN] },
            Block { name: "verify", path: "", fields: &[VERIFY] },
            Block { name: "encrypt", path: "", fields: &[ENCRYPT] },
            Block { name: "decrypt", path: "", fields: &[DECRYPT] },
        ],
        request: Request::Post(path, Body::Block(block)),
        complete: read_lengths,
        before_load,
        ..Service::PLAIN
    }
}

pub(super) const TYPES: &[Service] = &[
    transit("transit_decrypt", "decrypt/{decrypt.name}", "decrypt", make_ciphertext),
    transit("transit_encrypt", "encrypt/{encrypt.name}", "encrypt", make_plaintext),
    transit("transit_sign", "sign/{sign.name}", "sign", |_, _, _| Ok(())),
    transit("transit_verify", "verify/{verify.name}", "verify", make_signature),
];

/// Largest payload in bytes; Base64 adds a third.
const PAYLOAD_MAX: i64 = 16 << 20;

fn read_lengths(ready: &mut Ready, fields: &Fields) {
    for (name, default) in [("payload_len", 128), ("context_len", 32)] {
        let mut length = fields.whole_from(name, 0).unwrap_or(default);
        if length > PAYLOAD_MAX {
            let what = format!("`{name}` is {length} bytes, more than a server takes");
            fields.diagnostic(name, what, "16 MiB are the most");
            length = default;
        }
        ready.block("").insert(name.into(), length.into());
    }
}

/// Generates a plaintext, and a context if the key is derived.
fn plaintext(ready: &mut Ready) -> Map<String, Value> {
    let mut random = |name: &str| {
        let length = ready.block("").get(name).and_then(Value::as_u64).unwrap_or(0);
        Value::from(random_base64(length as usize))
    };
    let (payload, context) = (random("payload_len"), random("context_len"));
    let mut made = Map::from_iter([("plaintext".to_owned(), payload)]);
    if ready.block("keys").get("derived") == Some(&Value::Bool(true)) {
        made.insert("context".into(), context);
    }
    made
}

fn make_plaintext(ready: &mut Ready, _: &mut Stage<'_>, _: &str) -> Result<(), Trouble> {
    let made = plaintext(ready);
    ready.block("encrypt").extend(made);
    Ok(())
}

fn make_ciphertext(ready: &mut Ready, stage: &mut Stage<'_>, mount: &str) -> Result<(), Trouble> {
    let made = plaintext(ready);
    let path = ready.filled("encrypt/{decrypt.name}");
    let encrypted = stage.write(&format!("{mount}/{path}"), made.clone())?;
    let body = ready.block("decrypt");
    body.extend(made.into_iter().filter(|(name, _)| name == "context"));
    let ciphertext = encrypted.data("ciphertext").ok_or_else(|| missing("ciphertext"))?;
    body.insert("ciphertext".into(), ciphertext.into());
    Ok(())
}

fn make_signature(ready: &mut Ready, stage: &mut Stage<'_>, mount: &str) -> Result<(), Trouble> {
    let path = ready.filled("sign/{verify.name}");
    let body = ready.block("verify");
    let signed = stage.write(&format!("{mount}/{path}"), body.clone())?;
    let signature = signed.data("signature").ok_or_else(|| missing("signature"))?;
    body.insert("signature".into(), signature.into());
    // A wrong signature is answered with 200 too.
    ready.must_hold = (!body.contains_key("batch_input")).then_some("\"valid\":true");
    Ok(())
}

fn missing(what: &str) -> Trouble {
    Trouble::new(Kind::Refused, format!("the server's answer holds no {what}"))
}
