//! Records the objects made on the server, and removes them.
//!
//! Each object is noted before it is made, so a failed or interrupted set-up leaves nothing behind. Removing an object
//! that does not exist is a success.
//!
//! Not here: when clean-up runs (`run`), how requests are repeated (`client`).

use std::time::Duration;

use bakeoff_clock as clock;
use serde_json::Value;

use super::client::Client;
use super::trouble::{Kind, Trouble};

/// Longest wait for the deletion of one namespace.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// An object on the server that bakeoff made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CreatedObject {
    /// Removed by a `DELETE` of this path, which follows `/v1/`.
    At(String),
    /// All mounts of a plugin whose paths have this prefix, in `sys/mounts` or `sys/auth`.
    Mounts { table: &'static str, plugin: String, prefix: String },
    /// All namespaces with this prefix whose metadata names this source.
    Namespaces { prefix: String, source: String },
}

/// All objects that bakeoff made, oldest first.
#[derive(Debug, Default)]
pub(super) struct Ledger(Vec<CreatedObject>);

impl Ledger {
    /// Notes an object that is about to be made.
    pub(super) fn note(&mut self, made: CreatedObject) {
        if !self.0.contains(&made) {
            self.0.push(made);
        }
    }

    /// Removes the note of an object that already existed.
    pub(super) fn forget(&mut self, made: &CreatedObject) {
        self.0.retain(|noted| noted != made);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of objects.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Lists the objects for a message, a few by name.
    pub(super) fn shown(&self) -> String {
        const SHOWN: usize = 8;
        let mut names: Vec<String> =
            self.0.iter().take(SHOWN).map(|made| format!("`{made}`")).collect();
        if self.0.len() > SHOWN {
            names.push(format!("and {} more", self.0.len() - SHOWN));
        }
        names.join(", ")
    }

    /// Removes all objects, newest first, and keeps those that could not be removed. Continues after a failure, and
    /// stops when the user interrupts.
    pub(super) fn take_away(&mut self, client: &mut Client) -> Vec<Trouble> {
        let mut troubles = Vec::new();
        let mut left = Vec::new();
        while let Some(made) = self.0.pop() {
            if client.is_interrupted() {
                left.push(made);
                continue;
            }
            match made.take_away(client) {
                Ok(()) => {}
                Err(trouble) => {
                    left.push(made);
                    // If the server does not answer, skip the other objects instead of waiting for each.
                    if matches!(trouble.kind, Kind::Silent | Kind::Unreachable) {
                        left.extend(self.0.drain(..).rev());
                    }
                    if trouble.kind != Kind::Interrupted {
                        troubles.push(trouble);
                    }
                }
            }
        }
        left.reverse();
        self.0 = left;
        troubles
    }
}

impl CreatedObject {
    fn take_away(&self, client: &mut Client) -> Result<(), Trouble> {
        match self {
            Self::At(path) => delete(client, path),
            Self::Mounts { table, plugin, prefix } => {
                let reply = client.read(&format!("sys/{table}"))?;
                let mounts = reply.body.get("data").and_then(Value::as_object);
                for (path, info) in mounts.into_iter().flatten() {
                    let kind = info.get("type").and_then(Value::as_str);
                    if kind.is_some_and(|kind| is_type(kind, plugin)) && path.starts_with(prefix) {
                        delete(client, &format!("sys/{table}/{}", path.trim_end_matches('/')))?;
                    }
                }
                Ok(())
            }
            Self::Namespaces { prefix, source } => {
                let reply = match client.list("sys/namespaces") {
                    Err(trouble) if trouble.kind == Kind::NotFound => return Ok(()),
                    reply => reply?,
                };
                let data = reply.body.get("data");
                let names = data.and_then(|data| data.get("keys")?.as_array());
                for name in names.into_iter().flatten().filter_map(Value::as_str) {
                    // Some servers keep no metadata. The name alone then decides.
                    let message =
                        data.and_then(|data| data.get("key_info")?.get(name)?.get("source"));
                    let is_ours =
                        message.and_then(Value::as_str).is_none_or(|message| message == source);
                    if name.starts_with(prefix) && is_ours {
                        delete_namespace(client, name.trim_end_matches('/'))?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// Returns true if a mount belongs to this plugin. The server lists `kv-v1` and `kv-v2` as `kv`.
fn is_type(kind: &str, plugin: &str) -> bool {
    kind == plugin || (kind == "kv" && matches!(plugin, "kv-v1" | "kv-v2"))
}

/// Deletes a namespace and waits until it is gone. A server answers first and deletes afterwards. OpenBao 2.5.1 was
/// observed to hang for good when many namespaces are deleted at once.
fn delete_namespace(client: &mut Client, name: &str) -> Result<(), Trouble> {
    let path = format!("sys/namespaces/{name}");
    delete(client, &path)?;
    let give_up_at = clock::now() + GONE_WITHIN;
    loop {
        match client.read(&path) {
            Err(trouble) if trouble.kind == Kind::NotFound => return Ok(()),
            Err(trouble) => return Err(trouble),
            Ok(_) if clock::now() > give_up_at => {
                let what = format!("`{path}` is still being deleted");
                return Err(Trouble::new(Kind::Silent, what));
            }
            Ok(_) => client.wait(Duration::from_millis(5))?,
        }
    }
}

fn delete(client: &mut Client, path: &str) -> Result<(), Trouble> {
    match client.delete(path) {
        Ok(_) => Ok(()),
        Err(trouble) if trouble.kind == Kind::NotFound => Ok(()),
        // Vault answers 400 for a mount that does not exist.
        Err(trouble) if trouble.what.contains("no matching mount") => Ok(()),
        Err(trouble) => Err(trouble),
    }
}

impl std::fmt::Display for CreatedObject {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(path) => to.write_str(path),
            Self::Mounts { table, prefix, .. } => write!(to, "sys/{table}/{prefix}…"),
            Self::Namespaces { prefix, .. } => write!(to, "sys/namespaces/{prefix}…"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ledger_keeps_each_note_once_and_shows_a_few() {
        let mut ledger = Ledger::default();
        for number in 0..10 {
            ledger.note(CreatedObject::At(format!("sys/mounts/{number}")));
            ledger.note(CreatedObject::At(format!("sys/mounts/{number}")));
        }
        assert!(ledger.shown().ends_with("`sys/mounts/7`, and 2 more"), "{}", ledger.shown());
        ledger.forget(&CreatedObject::At("sys/mounts/3".into()));
        assert!(!ledger.shown().contains('3'));
    }
}
