//! Tests paths under `sys/`: `health`, `seal_status`, `ha_status`, `leader` and `metrics`, ACL policies, mounts and
//! namespaces.
//!
//! `health` and `leader` exist only in bakeoff; vault-benchmark has the others.

use serde_json::{Map, Value, json};

use super::{Action, Fields, Stage, Template, TestType, Trouble, body_of};
use crate::vault_benchmark::cleanup::CreatedObject;
use crate::vault_benchmark::request::Piece;

/// Repeats a `GET` of one path.
struct Status {
    path: &'static str,
    /// True to leave out the namespace: the endpoint exists only in the root.
    in_root: bool,
}

pub(super) fn status(path: &'static str) -> Box<dyn TestType> {
    Box::new(Status { path, in_root: false })
}

pub(super) fn status_in_root(path: &'static str) -> Box<dyn TestType> {
    Box::new(Status { path, in_root: true })
}

impl TestType for Status {
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble> {
        let mut headers = stage.client.headers();
        if self.in_root {
            headers.retain(|(name, _)| name != "X-Vault-Namespace");
        }
        let path = format!("/v1/sys/{}", self.path);
        Ok(Template::fixed("GET", path, String::new()).with(headers))
    }
}

/// Reads, lists and writes ACL policies.
struct Policies {
    action: Action,
    policies: u64,
    path_length: usize,
    paths: u64,
    capabilities: Vec<String>,
}

/// Largest policy in bytes: servers accept requests of 32 MiB.
const POLICY_MAX: u64 = 32 << 20;

pub(super) fn policies(fields: &Fields, action: Action) -> Box<dyn TestType> {
    let count = |name, or: u64| fields.whole_from(name, 1).map_or(or, |count| count as u64);
    let (policies, paths) = (count("policies", 10), count("paths", 1));
    let path_length = count("path_length", 25);
    let size = paths.saturating_mul(path_length);
    if size > POLICY_MAX {
        let what = format!("{paths} paths of {path_length} characters are no policy");
        fields.diagnostic("paths", what, "servers take requests of at most 32 MiB");
    }
    let standard = || ["create", "read", "update", "delete", "list", "sudo"].map(str::to_owned);
    Box::new(Policies {
        action,
        policies,
        path_length: path_length.min(POLICY_MAX) as usize,
        paths: if size > POLICY_MAX { 1 } else { paths },
        capabilities: fields.texts("capabilities").unwrap_or_else(|| standard().to_vec()),
    })
}

impl Policies {
    /// Returns a policy for the configured number of paths. They differ if they have room for a number.
    fn policy(&self) -> Map<String, Value> {
        let capabilities = self.capabilities.join("\", \"");
        let mut policy = String::new();
        for number in 0..self.paths {
            let path = format!("{number}{}", "a".repeat(self.path_length));
            let path = &path[..self.path_length];
            policy.push_str(&format!(
                "path \"{path}\" {{\n  capabilities = [\"{capabilities}\"]\n}}\n"
            ));
        }
        Map::from_iter([("policy".to_owned(), policy.into())])
    }
}

impl TestType for Policies {
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble> {
        let folder = format!("sys/policies/acl/{}", stage.name);
        let policy = self.policy();
        (stage.progress)(format!("writing {} policies to {folder}", self.policies));
        for number in 1..=self.policies {
            let path = format!("{folder}/policy-{number}");
            stage.ledger.note(CreatedObject::At(path.clone()));
            stage
                .client
                .write(&path, &Value::Object(policy.clone()))
                .map_err(|trouble| trouble.while_doing("cannot write the test's policies"))?;
        }
        let (folder, body) = (format!("/v1/{folder}"), body_of(policy));
        let template = self.action.template(&folder, "policy", self.policies, body);
        Ok(template.with(stage.client.headers()))
    }
}

/// Mounts secrets engines or authentication methods in the load.
struct Mount {
    table: &'static str,
    plugin: String,
}

pub(super) fn mount(fields: &Fields) -> Box<dyn TestType> {
    let kind = fields.text("mount_type").unwrap_or_else(|| "secret".into());
    let table = match &*kind {
        "auth" => "auth",
        "secret" => "mounts",
        _ => {
            let what = "`mount_type` is neither `secret` nor `auth`";
            fields.diagnostic(
                "mount_type",
                what,
                "an engine is `secret`, a way to log in is `auth`",
            );
            "mounts"
        }
    };
    let plugin = fields.text("plugin").unwrap_or_else(|| "kv-v2".into());
    Box::new(Mount { table, plugin })
}

impl TestType for Mount {
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble> {
        let Self { table, plugin } = self;
        let folder = stage.name.clone();
        let prefix = format!("{folder}/");
        stage.ledger.note(CreatedObject::Mounts { table, plugin: plugin.clone(), prefix });
        let path = vec![Piece::Text(format!("/v1/sys/{table}/{folder}/{plugin}-")), Piece::Unique];
        let body = json!({ "type": plugin }).to_string();
        Ok(Template { path, ..Template::fixed("POST", String::new(), body) }
            .with(stage.client.headers()))
    }
}

/// Creates namespaces in the load.
struct Namespace {
    prefix: String,
}

pub(super) fn namespace(fields: &Fields) -> Box<dyn TestType> {
    let prefix = fields.text("namespace_prefix").unwrap_or_else(|| "benchmark".into());
    Box::new(Namespace { prefix })
}

impl TestType for Namespace {
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble> {
        let source = format!("benchmark-{}", stage.name);
        let prefix = format!("{}-", self.prefix);
        stage
            .ledger
            .note(CreatedObject::Namespaces { prefix: prefix.clone(), source: source.clone() });
        let path = vec![Piece::Text(format!("/v1/sys/namespaces/{prefix}")), Piece::Unique];
        let body = json!({ "source": source }).to_string();
        Ok(Template { path, ..Template::fixed("POST", String::new(), body) }
            .with(stage.client.headers()))
    }
}
