//! `totp_create`, `totp_generate` and `totp_read`: one-time passwords and the keys they are made of.

use serde_json::{Map, Value, json};

use super::{Fields, Stage, Template, TestType, Trouble, body_of};
use crate::vault_benchmark::fields::{Field, switch, text, whole};
use crate::vault_benchmark::request::Piece;

/// A key; `key_name` is only in paths.
const KEY: [Field; 7] = [
    text("key_name").or("benchmark-key"),
    text("issuer").or("Vault Benchmark"),
    text("account_name").or("test@user.com"),
    text("algorithm").or("SHA1"),
    whole("digits").or_whole(6),
    whole("period").or_whole(30),
    switch("generate"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Create,
    Generate,
    Read,
}

struct Totp {
    action: Action,
    name: String,
    key: Map<String, Value>,
}

pub(super) fn create(fields: &Fields) -> Box<dyn TestType> {
    Totp::read(fields, Action::Create)
}

pub(super) fn generate(fields: &Fields) -> Box<dyn TestType> {
    Totp::read(fields, Action::Generate)
}

pub(super) fn read(fields: &Fields) -> Box<dyn TestType> {
    Totp::read(fields, Action::Read)
}

impl Totp {
    fn read(fields: &Fields, action: Action) -> Box<dyn TestType> {
        let mut key = fields.read(&KEY);
        let name = key.remove("key_name");
        let name = name.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        if key.get("generate") == Some(&Value::Bool(false)) {
            let what = "`generate = false` takes a key of one's own, for which there is no option";
            fields.diagnostic("generate", what, "leave it out: the server makes the key");
        }
        key.insert("generate".into(), true.into());
        Box::new(Self { action, name, key })
    }
}

impl TestType for Totp {
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble> {
        let Self { action, name, key } = self;
        let mount = stage.name.clone();
        stage.mount(&mount, "totp", json!({}))?;
        if *action != Action::Create {
            stage
                .write(&format!("{mount}/keys/{name}"), key.clone())
                .map_err(|trouble| trouble.while_doing("cannot make the key"))?;
        }
        let get =
            |folder| Template::fixed("GET", format!("/v1/{mount}/{folder}/{name}"), String::new());
        Ok(match action {
            Action::Generate => get("code"),
            Action::Read => get("keys"),
            Action::Create => Template {
                path: vec![Piece::Text(format!("/v1/{mount}/keys/{name}-")), Piece::Unique],
                ..Template::fixed("POST", String::new(), body_of(key.clone()))
            },
        }
        .with(stage.client.headers()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault_benchmark::config::Config;
    use crate::vault_benchmark::fields::Environment;

    fn config(lines: &str) -> Config {
        let text = format!("test \"k\" \"t\" {{\nweight = 100\nconfig {{\n{lines}\n}}\n}}\n");
        Config::parse("t.hcl", &text, Environment::default()).unwrap()
    }

    #[test]
    fn a_key_is_made_by_the_server_or_not_at_all() {
        let all = "key_name = \"k\"\nissuer = \"i\"\naccount_name = \"a\"\nalgorithm = \"SHA256\"\n\
                   digits = 8\nperiod = 60\ngenerate = true";
        for lines in ["", all] {
            let config = config(lines);
            create(&config.tests[0].config);
            config.finish().unwrap();
        }
        let config = config("generate = false");
        generate(&config.tests[0].config);
        assert!(config.finish().unwrap_err().to_string().contains("takes a key of one's own"));
    }
}
