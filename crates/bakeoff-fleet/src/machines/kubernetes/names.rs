//! Names the Kubernetes objects of a run, and labels them with it.

use serde_json::{Value, json};

/// Label with the run that an object belongs to.
pub(super) const RUN: &str = "bakeoff.dev/run";

/// Names of a run's objects.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// Name of the run: the label value of all its objects.
    pub(super) run: String,
    pub(super) namespace: String,
    /// First part of every object's name; empty if the namespace is the run's own.
    pub(super) prefix: String,
}

impl Names {
    /// Names a run's objects in a given namespace, or in one of its own.
    pub(super) fn new(study: &str, given: Option<&str>) -> Self {
        let plain = study.chars().filter(char::is_ascii_alphanumeric).take(20);
        let plain: String = plain.map(|c| c.to_ascii_lowercase()).collect();
        let moment = bakeoff_clock::wall::seconds() as u64;
        let process = std::process::id();
        match given {
            None => {
                let run = format!("bakeoff-{plain}-{process}-{moment:x}");
                Self { namespace: run.clone(), run, prefix: String::new() }
            }
            // Names of sets must stay short: Kubernetes appends to them.
            Some(namespace) => {
                let run = format!("bakeoff-{process}-{moment:x}");
                let prefix = format!("{run}-");
                Self { namespace: namespace.to_owned(), run, prefix }
            }
        }
    }

    /// Returns true if the namespace is the run's own.
    pub(super) fn has_own_namespace(&self) -> bool {
        self.prefix.is_empty()
    }

    /// Returns the label selector of the run's objects.
    pub(super) fn selector(&self) -> String {
        format!("{RUN}={}", self.run)
    }

    pub(super) fn metadata(&self, name: &str) -> Value {
        json!({"name": format!("{}{name}", self.prefix), "labels": {RUN: self.run}})
    }

    pub(super) fn owned(&self, name: &str, owner: &Value) -> Value {
        let mut metadata = self.metadata(name);
        metadata["ownerReferences"] = json!([owner]);
        metadata
    }
}
