//! Tests `totp_create`, `totp_generate` and `totp_read`: one-time passwords and their keys.
//!
//! Not here: the set-up (`services`).

use serde_json::Value;

use super::Fields;
use super::services::{Block, Body, Mount, Ready, Request, Service};
use crate::vault_benchmark::fields::{Field, switch, text, whole};

const KEY: &[Field] = &[
    text("key_name").or("benchmark-key").in_path(),
    text("issuer").or("Vault Benchmark"),
    text("account_name").or("test@user.com"),
    text("algorithm").or("SHA1"),
    whole("digits").or_whole(6),
    whole("period").or_whole(30),
    switch("generate"),
];

/// Declares a type: its name, the block that writes the key before the load, and the request.
const fn totp(kind: &'static str, blocks: &'static [Block; 1], request: Request) -> Service {
    let mount = Mount::Engine("totp");
    Service { kind, mount, blocks, request, complete: made_by_the_server, ..Service::PLAIN }
}

const WRITTEN: &[Block; 1] = &[Block { name: "", path: "keys/{.key_name}", fields: &[KEY] }];
const UNWRITTEN: &[Block; 1] = &[Block { name: "", path: "", fields: &[KEY] }];

pub(super) const TYPES: &[Service] = &[
    totp("totp_create", UNWRITTEN, Request::Post("keys/{.key_name}-{unique}", Body::Block(""))),
    totp("totp_generate", WRITTEN, Request::Get("code/{.key_name}")),
    totp("totp_read", WRITTEN, Request::Get("keys/{.key_name}")),
];

fn made_by_the_server(ready: &mut Ready, fields: &Fields) {
    let key = ready.block("");
    if key.get("generate") == Some(&Value::Bool(false)) {
        let what = "`generate = false` needs a key, but no option gives one";
        fields.diagnostic("generate", what, "leave it out: the server makes the key");
    }
    key.insert("generate".into(), true.into());
}
