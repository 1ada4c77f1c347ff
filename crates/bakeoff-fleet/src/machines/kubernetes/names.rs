//! Names the objects of a run on Kubernetes, by the label that all of them have.

use serde_json::{Value, json};

/// The label with the run that an object is of.
pub(super) const RUN: &str = "bakeoff.dev/run";

/// The names of a run's objects.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// Of the run: the label of all its objects.
    pub(super) run: String,
    pub(super) namespace: String,
    /// Before every object's name: empty where the namespace is the run's own.
    pub(super) prefix: String,
}

impl Names {
    /// Names what a run makes in a namespace that is there, or in one of its own.
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
            // Names of sets of pods are short: Kubernetes adds to them.
            Some(namespace) => {
                let run = format!("bakeoff-{process}-{moment:x}");
                let prefix = format!("{run}-");
                Self { namespace: namespace.to_owned(), run, prefix }
            }
        }
    }

    /// Returns whether the namespace is the run's own.
    pub(super) fn has_own_namespace(&self) -> bool {
        self.prefix.is_empty()
    }

    /// Selects all objects of the run.
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
