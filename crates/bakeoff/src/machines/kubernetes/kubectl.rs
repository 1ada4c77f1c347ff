//! `kubectl`, run as a program: the user's own configuration and credentials hold.
//!
//! Not here: what is asked of it.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use bakeoff_core::places::Kubernetes;
use serde_json::{Value, json};

use super::names::Names;
use crate::failure::Failure;
use crate::messages;

/// All that is needed: a verb, and a resource as `kubectl auth can-i` takes it.
const RIGHTS: [[&str; 2]; 6] = [
    ["create", "jobs.batch"],
    ["create", "statefulsets.apps"],
    ["create", "services"],
    ["list", "pods"],
    ["create", "pods/exec"],
    ["list", "events"],
];

/// Needed so that servers' limits are those of their pods; a run does without.
const RESIZE_RIGHT: [&str; 2] = ["patch", "pods/resize"];

/// Needed for a namespace of the run's own.
const OWN_NAMESPACE: [[&str; 2]; 2] = [["create", "namespaces"], ["delete", "namespaces"]];
/// Needed for all that is removed one by one where it is not.
const GIVEN_NAMESPACE: [[&str; 2]; 3] =
    [["delete", "jobs.batch"], ["delete", "statefulsets.apps"], ["delete", "services"]];
/// Needed so that a pod may remove the namespace when bakeoff is killed; a run does without.
const KEEPER_RIGHTS: [[&str; 2]; 3] = [
    ["create", "serviceaccounts"],
    ["create", "roles.rbac.authorization.k8s.io"],
    ["create", "rolebindings.rbac.authorization.k8s.io"],
];

/// The words that mend missing rights.
pub(super) const RIGHTS_HINT: &str =
    "ask who runs the cluster for them, or name another `context` in the places file";

/// Rights that are missing.
pub(super) struct Lacking {
    /// Those that a run cannot do without.
    pub(super) needed: Vec<String>,
    /// Those that have the namespace removed when bakeoff is killed.
    pub(super) keeper: Option<String>,
    /// Whether pods cannot be resized.
    pub(super) resize: bool,
}

/// `kubectl` with the words that select cluster and namespace.
pub(super) struct Kubectl {
    program: String,
    arguments: Vec<String>,
    names: Names,
}

impl Kubectl {
    pub(super) fn new(wanted: &Kubernetes, names: Names) -> Self {
        let context = wanted.context.iter().flat_map(|name| ["--context".to_owned(), name.clone()]);
        let namespaced = ["--namespace".to_owned(), names.namespace.clone()];
        Self {
            program: wanted.kubectl.clone(),
            arguments: context.chain(namespaced).collect(),
            names,
        }
    }

    /// The names of the run's objects.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the program and its first arguments.
    pub(super) fn words(&self) -> (String, Vec<String>) {
        (self.program.clone(), self.arguments.clone())
    }

    fn run(&self, arguments: &[&str], input: &str) -> Result<(bool, String, String), Failure> {
        let spawned = Command::new(&self.program)
            .args(&self.arguments)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = spawned.map_err(|error| self.not_started(&error))?;
        // One that does not read its input says by its end how it went.
        let _ = child.stdin.take().map(|mut pipe| pipe.write_all(input.as_bytes()));
        let ended = child.wait_with_output().map_err(|error| self.not_started(&error))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
        Ok((ended.status.success(), text(ended.stdout), text(ended.stderr)))
    }

    fn not_started(&self, error: &io::Error) -> Failure {
        Failure::input(
            format!("cannot run `{}`: {error}", self.program),
            "install kubectl, or name it as `kubectl: PATH` in the places file",
        )
    }

    fn json(&self, doing: &str, arguments: &[&str], input: &str) -> Result<Value, Failure> {
        let (went_well, out, complaint) = self.run(arguments, input)?;
        if !went_well {
            return Err(Failure::unreachable(format!("kubectl cannot {doing}\n    | {complaint}")));
        }
        serde_json::from_str(&out).map_err(|error| {
            Failure::unreachable(format!("kubectl said to {doing} what is no JSON: {error}"))
        })
    }

    /// Looks whether the user may do all that is needed, before anything is made. Returns the rights that are
    /// missing of those that a run can do without.
    ///
    /// # Errors
    /// With all rights that are missing.
    pub(super) fn demand_rights(&self) -> Result<Lacking, Failure> {
        let lacking = self.missing_rights()?;
        if lacking.needed.is_empty() {
            return Ok(lacking);
        }
        let missing = lacking.needed.join(", ");
        Err(Failure::input(
            format!("you have not the rights on the Kubernetes cluster to {missing}"),
            RIGHTS_HINT,
        ))
    }

    /// Asks for each right that a run needs or can use.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub(super) fn missing_rights(&self) -> Result<Lacking, Failure> {
        let (needed, keeper) = match self.names.has_own_namespace() {
            true => (&OWN_NAMESPACE[..], &KEEPER_RIGHTS[..]),
            false => (&GIVEN_NAMESPACE[..], &[][..]),
        };
        let needed = [needed, &RIGHTS].concat();
        let all: Vec<&[&str; 2]> = needed.iter().chain(keeper).chain([&RESIZE_RIGHT]).collect();
        let reviews: Vec<Value> = all.iter().map(|right| self.review(right)).collect();
        let reviews = json!({"apiVersion": "v1", "kind": "List", "items": reviews});
        let create = ["create", "--validate=false", "-f", "-", "-o", "json"];
        let (_, out, complaint) = self.run(&create, &reviews.to_string())?;
        let answers = allowed(&out);
        if answers.len() != all.len() {
            let why = format!("the Kubernetes cluster does not answer\n    | {complaint}");
            return Err(Failure::unreachable(why));
        }
        let missing = all.into_iter().zip(answers).filter(|(_, is_allowed)| !is_allowed);
        let missing: Vec<&[&str; 2]> = missing.map(|(right, _)| right).collect();
        let of = |rights: &[[&str; 2]]| -> Vec<String> {
            let lacks = rights.iter().filter(|right| missing.contains(right));
            lacks.map(|[verb, what]| format!("{verb} {what}")).collect()
        };
        let keeper = of(keeper);
        Ok(Lacking {
            needed: of(&needed),
            keeper: (!keeper.is_empty()).then(|| keeper.join(", ")),
            resize: missing.contains(&&RESIZE_RIGHT),
        })
    }

    /// An object that asks whether the user has a right. The cluster keeps nothing of it.
    fn review(&self, [verb, what]: &[&str; 2]) -> Value {
        let (resource, group) = what.split_once('.').unwrap_or((what, ""));
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let mut asked = json!({
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
        });
        if resource != "namespaces" {
            asked["namespace"] = self.names.namespace.as_str().into();
        }
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        })
    }

    /// Creates an object; returns it as the cluster made it.
    pub(super) fn create(&self, object: &Value) -> Result<Value, Failure> {
        let doing = format!("create the {} of the run", object["kind"].as_str().unwrap_or("?"));
        self.json(&doing, &["create", "-f", "-", "-o", "json"], &object.to_string())
    }

    /// Returns one object by its name; `None` where there is none.
    pub(super) fn one(&self, kind: &str, name: &str) -> Result<Option<Value>, Failure> {
        let get = ["get", kind, name, "--ignore-not-found", "-o", "json"];
        let (went_well, out, complaint) = self.run(&get, "")?;
        match went_well {
            false => Err(Failure::unreachable(format!(
                "kubectl cannot get {kind} `{name}`: {complaint}"
            ))),
            true => Ok(serde_json::from_str(&out).ok()),
        }
    }

    /// Returns the versions of `kubectl` and of the cluster.
    pub(super) fn versions(&self) -> Result<Value, Failure> {
        self.json("ask the cluster for its version", &["version", "-o", "json"], "")
    }

    /// Returns all objects of a kind.
    pub(super) fn get(&self, kind: &str) -> Result<Value, Failure> {
        self.json(&format!("list {kind}"), &["get", kind, "-o", "json"], "")
    }

    /// Returns all objects of a kind that are the run's.
    pub(super) fn get_own(&self, kind: &str) -> Result<Value, Failure> {
        let of_run = self.names.selector();
        let get = ["get", kind, "-o", "json", "--selector", &of_run];
        self.json(&format!("list {kind}"), &get, "")
    }

    /// Gives the container of a pod other resources while it runs.
    pub(super) fn resize(&self, pod: &str, patch: &Value) -> Result<(), Failure> {
        let patch = patch.to_string();
        let (went_well, _, complaint) =
            self.run(&["patch", "pod", pod, "--subresource", "resize", "-p", &patch], "")?;
        match went_well {
            true => Ok(()),
            false => Err(Failure::unreachable(format!("kubectl cannot resize it: {complaint}"))),
        }
    }

    /// Returns why a pod has not been resized yet, as Kubernetes says.
    pub(super) fn resize_pending(&self, pod: &str) -> Option<String> {
        let seen = self.json("look at a pod", &["get", "pod", pod, "-o", "json"], "").ok()?;
        let conditions = seen["status"]["conditions"].as_array()?;
        let is_resize =
            |one: &&Value| one["type"].as_str().is_some_and(|kind| kind.contains("Resize"));
        let one = conditions.iter().find(is_resize)?;
        let word = |name: &str| one[name].as_str().unwrap_or_default();
        Some(format!("{} {} {}", word("type"), word("reason"), word("message")))
    }

    /// Removes the namespace with all that is in it, or all of the run in a namespace that was there before; says so
    /// where that fails.
    pub(super) fn remove_all(&self) {
        let (namespace, of_run) = (&self.names.namespace, self.names.selector());
        let common = ["--timeout=60s", "--ignore-not-found"];
        let what = match self.names.has_own_namespace() {
            true => vec!["delete", "namespace", namespace],
            false => {
                let selector = ["--selector", of_run.as_str(), "--cascade=foreground"];
                [&["delete", "job,statefulset,service"][..], &selector].concat()
            }
        };
        let why = match self.run(&[&what[..], &common].concat(), "") {
            Ok((true, ..)) => return,
            Ok((false, _, complaint)) => complaint,
            Err(failure) => failure.to_string(),
        };
        let command = what.join(" ");
        messages::warn(&format!(
            "something of the run may be left in the namespace `{namespace}`\n    | {why}\nhint: kubectl --namespace \
             {namespace} {command}"
        ));
    }
}

/// Reads what `kubectl` printed of reviews, in their order: whether each right is there.
fn allowed(printed: &str) -> Vec<bool> {
    let reviews = serde_json::Deserializer::from_str(printed).into_iter::<Value>();
    reviews.map_while(|review| review.ok()?["status"]["allowed"].as_bool()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_read_up_to_what_is_no_review() {
        let check = |printed: &str, expected: &[bool]| assert_eq!(allowed(printed), expected);
        let [yes, no] = [true, false].map(|one| json!({"status": {"allowed": one}}).to_string());
        check(&format!("{yes}\n{no}{yes}"), &[true, false, true]);
        check(&format!("{no}\nerror: no route to host"), &[false]);
        check(&format!("{yes}\n{{\"status\": {{}}}}{yes}"), &[true]);
        check("", &[]);
    }
}
