//! `kvv1_*` and `kvv2_*`: key-value secrets, read, written and listed.
//!
//! As in vault-benchmark, set-up writes `numkvs` secrets with a small value. `kvsize` is the length of the values that
//! the load writes.

use serde_json::json;

use super::{Action, Fields, Stage, Template, TestType, Trouble};
use crate::vault_benchmark::trouble::Kind;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

struct Kv {
    version: Version,
    action: Action,
    secrets: u64,
    size: usize,
    /// True to list each secret's details (version 2).
    detailed: bool,
}

pub(super) fn kv(fields: &Fields, version: Version, action: Action) -> Box<dyn TestType> {
    let count = |name, min| fields.whole_from(name, min).map(|count| count as u64);
    let secrets = count("numkvs", 1).unwrap_or(1000);
    let size = count("kvsize", 0).unwrap_or(1);
    if size > SIZE_MAX {
        let what = format!("`kvsize` is {size} bytes, and servers take no more than 32 MiB");
        fields.diagnostic("kvsize", what, "a secret is some kilobytes at most");
    }
    let detailed = version == Version::Two && fields.flag("detailed").unwrap_or(false);
    Box::new(Kv { version, action, secrets, size: size.min(SIZE_MAX) as usize, detailed })
}

impl Kv {
    /// Returns the path of the secrets below the mount, or of their list.
    fn folder(&self, mount: &str) -> String {
        match (self.version, self.action) {
            (Version::One, _) => mount.to_owned(),
            (Version::Two, Action::List) if self.detailed => format!("{mount}/detailed-metadata"),
            (Version::Two, Action::List) => format!("{mount}/metadata"),
            (Version::Two, Action::Read | Action::Write) => format!("{mount}/data"),
        }
    }
}

/// Largest request, in bytes: servers' default limit.
const SIZE_MAX: u64 = 32 << 20;

impl TestType for Kv {
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble> {
        let mount = stage.name.clone();
        let data = match self.version {
            Version::One => {
                stage.mount(&mount, "kv", json!({}))?;
                mount.clone()
            }
            Version::Two => {
                stage.mount(&mount, "kv", json!({ "options": { "version": "2" } }))?;
                wait_for_upgrade(stage, &mount)?;
                format!("{mount}/data")
            }
        };
        (stage.progress)(format!("writing {} secrets to {data}", self.secrets));
        let secret = json!({ "data": { "foo": 1 } });
        for number in 1..=self.secrets {
            stage
                .client
                .write(&format!("{data}/secret-{number}"), &secret)
                .map_err(|trouble| trouble.while_doing("cannot write the test's secrets"))?;
        }
        let folder = format!("/v1/{}", self.folder(&mount));
        let body = format!("{{\"data\": {{\"foo\": \"{}\"}}}}", "a".repeat(self.size));
        let template = self.action.template(&folder, "secret", self.secrets, body);
        Ok(template.with(stage.client.headers()))
    }
}

/// Waits until a new mount of version 2 is ready. At first it answers that it is being upgraded, which the client
/// retries.
fn wait_for_upgrade(stage: &mut Stage<'_>, mount: &str) -> Result<(), Trouble> {
    match stage.client.read(&format!("{mount}/config")) {
        Ok(_) => Ok(()),
        Err(trouble) if trouble.kind == Kind::NotFound => Ok(()),
        Err(trouble) => Err(trouble),
    }
}
