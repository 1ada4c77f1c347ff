//! `transit_*`: encryption as a service.

use serde_json::{Map, Value, json};

use super::{Fields, Stage, Template, TestType, Trouble, body_of, random_base64};
use crate::vault_benchmark::fields::{Field, any, flag, text, whole};
use crate::vault_benchmark::trouble::Kind;

const KEYS: [Field; 13] = [
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

const SIGN: [Field; 11] = [
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

const VERIFY: [Field; 12] = [
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

const ENCRYPT: [Field; 11] = [
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

const DECRYPT: [Field; 8] = [
    text("name").or("test"),
    text("ciphertext"),
    text("associated_data"),
    text("context"),
    text("nonce"),
    text("reference"),
    any("batch_input"),
    whole("partial_failure_response_code"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Sign,
    Verify,
    Encrypt,
    Decrypt,
}

struct Transit {
    action: Action,
    keys: Map<String, Value>,
    /// The body of the measured requests, as far as the file says it.
    body: Map<String, Value>,
    payload: usize,
    context: usize,
}

pub(super) fn sign(fields: &Fields) -> Box<dyn TestType> {
    Transit::read(fields, Action::Sign)
}

pub(super) fn verify(fields: &Fields) -> Box<dyn TestType> {
    Transit::read(fields, Action::Verify)
}

pub(super) fn encrypt(fields: &Fields) -> Box<dyn TestType> {
    Transit::read(fields, Action::Encrypt)
}

pub(super) fn decrypt(fields: &Fields) -> Box<dyn TestType> {
    Transit::read(fields, Action::Decrypt)
}

/// What a request may hold, as long as a third of it is lost to Base64.
const PAYLOAD_MAX: i64 = 16 << 20;

impl Transit {
    fn read(fields: &Fields, action: Action) -> Box<dyn TestType> {
        let length = |name: &'static str, or: usize| match fields.whole_from(name, 0) {
            Some(length) if length > PAYLOAD_MAX => {
                let what = format!("`{name}` is {length} bytes, more than a server takes");
                fields.diagnostic(name, what, "16 MiB are the most");
                or
            }
            length => length.map_or(or, |length| length as usize),
        };
        let (payload, context) = (length("payload_len", 128), length("context_len", 32));
        // The originals read all blocks whatever the action, so that one file serves several tests.
        let keys = fields.block("keys").read(&KEYS);
        let sign = fields.block("sign").read(&SIGN);
        let verify = fields.block("verify").read(&VERIFY);
        let encrypt = fields.block("encrypt").read(&ENCRYPT);
        let decrypt = fields.block("decrypt").read(&DECRYPT);
        let body = match action {
            Action::Sign => sign,
            Action::Verify => verify,
            Action::Encrypt => encrypt,
            Action::Decrypt => decrypt,
        };
        Box::new(Self { action, keys, body, payload, context })
    }
}

fn name_of(body: &Map<String, Value>) -> &str {
    body.get("name").and_then(Value::as_str).unwrap_or("test")
}

impl TestType for Transit {
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble> {
        let mount = stage.name.clone();
        stage.mount(&mount, "transit", json!({ "config": { "max_lease_ttl": "87600h" } }))?;
        stage
            .write(&format!("{mount}/keys/{}", name_of(&self.keys)), self.keys.clone())
            .map_err(|trouble| trouble.while_doing("cannot make the key"))?;
        let payload = random_base64(self.payload);
        let derived = self.keys.get("derived").and_then(Value::as_bool) == Some(true);
        let context = derived.then(|| random_base64(self.context));
        let mut body = self.body.clone();
        let name = name_of(&self.body).to_owned();
        let action = match self.action {
            Action::Sign => "sign",
            Action::Verify => {
                let path = format!("{mount}/sign/{name}");
                let signed = stage
                    .write(&path, body.clone())
                    .map_err(|trouble| trouble.while_doing("cannot sign the payload"))?;
                let signature = signed.data("signature").ok_or_else(|| missing("signature"))?;
                body.insert("signature".into(), signature.into());
                "verify"
            }
            Action::Encrypt => {
                body.insert("plaintext".into(), payload.into());
                body.extend(context.map(|context| ("context".to_owned(), context.into())));
                "encrypt"
            }
            Action::Decrypt => {
                let mut question = Map::from_iter([("plaintext".to_owned(), payload.into())]);
                if let Some(context) = context {
                    question.insert("context".into(), context.clone().into());
                    body.insert("context".into(), context.into());
                }
                let encrypted = stage
                    .write(&format!("{mount}/encrypt/{name}"), question)
                    .map_err(|trouble| trouble.while_doing("cannot encrypt the payload"))?;
                let ciphertext =
                    encrypted.data("ciphertext").ok_or_else(|| missing("ciphertext"))?;
                body.insert("ciphertext".into(), ciphertext.into());
                "decrypt"
            }
        };
        let path = format!("/v1/{mount}/{action}/{name}");
        Ok(Template {
            // A signature that is found wrong is answered with 200, too.
            holds: (self.action == Action::Verify && !body.contains_key("batch_input"))
                .then_some("\"valid\":true"),
            ..Template::fixed("POST", path, body_of(body))
        }
        .with(stage.client.headers()))
    }
}

fn missing(what: &str) -> Trouble {
    Trouble::new(Kind::Refused, format!("the server's answer holds no {what}"))
}
