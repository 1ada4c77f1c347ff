//! Runs `kubectl` as a program, so the user's configuration and credentials apply.
//!
//! Not here: the objects and the order of requests.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use bakeoff_core::places::Kubernetes;
use serde_json::{Value, json};

use super::names::Names;
use crate::error::FleetError;
use crate::warnings;

/// Rights that every run needs: a verb, and a resource as `kubectl auth can-i` takes it.
const RIGHTS: [[&str; 2]; 6] = [
    ["create", "jobs.batch"],
    ["create", "statefulsets.apps"],
    ["create", "services"],
    ["list", "pods"],
    ["create", "pods/exec"],
    ["list", "events"],
];

/// Right to apply servers' limits to their pods. Optional.
const RESIZE_RIGHT: [&str; 2] = ["patch", "pods/resize"];

/// Rights for a namespace of the run.
const OWN_NAMESPACE: [[&str; 2]; 2] = [["create", "namespaces"], ["delete", "namespaces"]];
/// Rights in a given namespace, where objects are deleted one by one.
const GIVEN_NAMESPACE: [[&str; 2]; 3] =
    [["delete", "jobs.batch"], ["delete", "statefulsets.apps"], ["delete", "services"]];
/// Rights for a pod to remove the namespace if bakeoff is killed. Optional.
const KEEPER_RIGHTS: [[&str; 2]; 3] = [
    ["create", "serviceaccounts"],
    ["create", "roles.rbac.authorization.k8s.io"],
    ["create", "rolebindings.rbac.authorization.k8s.io"],
];

/// Hint for missing rights.
pub(super) const RIGHTS_HINT: &str =
    "ask the cluster's administrator for them, or set another `context` in the places file";

/// Missing rights.
pub(super) struct MissingRights {
    /// Rights that a run needs.
    pub(super) needed: Vec<String>,
    /// Rights to have a pod remove the namespace if bakeoff is killed; `None` if complete.
    pub(super) keeper: Option<String>,
    /// True if pods cannot be resized.
    pub(super) resize: bool,
}

/// `kubectl` with the arguments that select cluster and namespace.
pub(super) struct Kubectl {
    program: String,
    arguments: Vec<String>,
    names: Names,
}

/// Returns true for a line of kubectl's own log: `E1127 19:20:01.123456 42 memcache.go:265] …`.
fn is_log(line: &str) -> bool {
    let mut bytes = line.bytes();
    let is_level = bytes.next().is_some_and(|level| b"EWIF".contains(&level));
    is_level && bytes.take(4).filter(u8::is_ascii_digit).count() == 4
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

    /// Returns the names of the run's objects.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the program and the arguments that select cluster and namespace.
    pub(super) fn words(&self) -> (String, Vec<String>) {
        (self.program.clone(), self.arguments.clone())
    }

    fn run(&self, arguments: &[&str], input: &str) -> Result<(bool, String, String), FleetError> {
        let spawned = Command::new(&self.program)
            .args(&self.arguments)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = spawned.map_err(|error| self.not_started(&error))?;
        // Ignore a failed write: a kubectl that does not read its input reports why when it exits.
        let _ = child.stdin.take().map(|mut pipe| pipe.write_all(input.as_bytes()));
        let ended = child.wait_with_output().map_err(|error| self.not_started(&error))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
        Ok((ended.status.success(), text(ended.stdout), text(ended.stderr)))
    }

    fn not_started(&self, error: &io::Error) -> FleetError {
        FleetError::input(
            format!("cannot run `{}`: {error}", self.program),
            "`bakeoff install kubectl` fetches it and prints its path: name that as `kubectl: PATH` in the places file",
        )
    }

    /// Creates an error with kubectl's message, and a hint that tests the same cluster.
    fn refusal(&self, what: &str, complaint: &str) -> FleetError {
        let context = match self.arguments.as_slice() {
            [flag, name, ..] if flag == "--context" => Some(name),
            _ => None,
        };
        let lines = complaint.lines().filter(|line| !is_log(line));
        let quoted: String = lines.map(|line| format!("\n    | {line}")).collect();
        match context
            .filter(|_| complaint.contains("context") && complaint.contains("does not exist"))
        {
            Some(name) => FleetError::input(
                format!("kubectl has no context `{name}`"),
                "set `context` to one that `kubectl config get-contexts` lists",
            ),
            None => {
                let context = context.map(|name| format!("--context {name} ")).unwrap_or_default();
                FleetError::unreachable(format!(
                    "{what}{quoted}\nhint: run `kubectl {context}version`, and set `context` to the cluster's context"
                ))
            }
        }
    }

    fn json(&self, doing: &str, arguments: &[&str], input: &str) -> Result<Value, FleetError> {
        let (went_well, out, complaint) = self.run(arguments, input)?;
        if !went_well {
            return Err(self.refusal(&format!("kubectl cannot {doing}"), &complaint));
        }
        serde_json::from_str(&out).map_err(|error| {
            FleetError::unreachable(format!(
                "kubectl printed invalid JSON when asked to {doing}: {error}"
            ))
        })
    }

    /// Checks that the user has all rights a run needs, before anything is created. Returns the missing optional
    /// rights.
    ///
    /// # Errors
    /// When needed rights are missing; the error lists them.
    pub(super) fn demand_rights(&self) -> Result<MissingRights, FleetError> {
        let lacking = self.missing_rights()?;
        if lacking.needed.is_empty() {
            return Ok(lacking);
        }
        let missing = lacking.needed.join(", ");
        Err(FleetError::input(
            format!("you lack the rights on the Kubernetes cluster to {missing}"),
            RIGHTS_HINT,
        ))
    }

    /// Returns the rights that the user lacks, of those that a run needs or can use.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub(super) fn missing_rights(&self) -> Result<MissingRights, FleetError> {
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
            return Err(self.refusal("the Kubernetes cluster does not answer", &complaint));
        }
        let missing = all.into_iter().zip(answers).filter(|(_, is_allowed)| !is_allowed);
        let missing: Vec<&[&str; 2]> = missing.map(|(right, _)| right).collect();
        let of = |rights: &[[&str; 2]]| -> Vec<String> {
            let lacks = rights.iter().filter(|right| missing.contains(right));
            lacks.map(|[verb, what]| format!("{verb} {what}")).collect()
        };
        let keeper = of(keeper);
        Ok(MissingRights {
            needed: of(&needed),
            keeper: (!keeper.is_empty()).then(|| keeper.join(", ")),
            resize: missing.contains(&&RESIZE_RIGHT),
        })
    }

    /// Creates an access review for one right. The cluster does not store it.
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

    /// Creates an object and returns it as stored.
    pub(super) fn create(&self, object: &Value) -> Result<Value, FleetError> {
        let doing = format!("create the {} of the run", object["kind"].as_str().unwrap_or("?"));
        self.json(&doing, &["create", "-f", "-", "-o", "json"], &object.to_string())
    }

    /// Returns one object by name; `None` if it does not exist.
    pub(super) fn one(&self, kind: &str, name: &str) -> Result<Option<Value>, FleetError> {
        let get = ["get", kind, name, "--ignore-not-found", "-o", "json"];
        let (went_well, out, complaint) = self.run(&get, "")?;
        match went_well {
            false => Err(FleetError::unreachable(format!(
                "kubectl cannot get {kind} `{name}`: {complaint}"
            ))),
            true => Ok(serde_json::from_str(&out).ok()),
        }
    }

    /// Returns the versions of `kubectl` and of the cluster.
    pub(super) fn versions(&self) -> Result<Value, FleetError> {
        self.json("ask the cluster for its version", &["version", "-o", "json"], "")
    }

    /// Returns all objects of a kind.
    pub(super) fn get(&self, kind: &str) -> Result<Value, FleetError> {
        self.json(&format!("list {kind}"), &["get", kind, "-o", "json"], "")
    }

    /// Returns the run's objects of a kind.
    pub(super) fn get_own(&self, kind: &str) -> Result<Value, FleetError> {
        let of_run = self.names.selector();
        let get = ["get", kind, "-o", "json", "--selector", &of_run];
        self.json(&format!("list {kind}"), &get, "")
    }

    /// Changes the resources of a pod's container while it runs.
    pub(super) fn resize(&self, pod: &str, patch: &Value) -> Result<(), FleetError> {
        let patch = patch.to_string();
        let (went_well, _, complaint) =
            self.run(&["patch", "pod", pod, "--subresource", "resize", "-p", &patch], "")?;
        match went_well {
            true => Ok(()),
            false => Err(FleetError::unreachable(format!("kubectl cannot resize it: {complaint}"))),
        }
    }

    /// Returns the reason that Kubernetes gives for a pending resize.
    pub(super) fn resize_pending(&self, pod: &str) -> Option<String> {
        let seen = self.json("look at a pod", &["get", "pod", pod, "-o", "json"], "").ok()?;
        let conditions = seen["status"]["conditions"].as_array()?;
        let is_resize =
            |one: &&Value| one["type"].as_str().is_some_and(|kind| kind.contains("Resize"));
        let one = conditions.iter().find(is_resize)?;
        let word = |name: &str| one[name].as_str().unwrap_or_default();
        Some(format!("{} {} {}", word("type"), word("reason"), word("message")))
    }

    /// Returns the hint for a missing namespace of the places file; `None` if it exists or cannot be read.
    pub(super) fn namespace_remedy(&self) -> Option<String> {
        let name = &self.names.namespace;
        let given = !self.names.has_own_namespace();
        let is_missing = given && matches!(self.one("namespace", name), Ok(None));
        let create = self.by_hand(&["create", "namespace", name]);
        is_missing.then(|| {
            format!("create it with `{create}`, or remove `namespace` from the places file; a run then creates its own")
        })
    }

    /// Returns a command as the user would type it.
    fn by_hand(&self, words: &[&str]) -> String {
        let own = self.arguments.iter().map(String::as_str);
        let all: Vec<&str> =
            [&*self.program].into_iter().chain(own).chain(words.iter().copied()).collect();
        all.join(" ")
    }

    /// Deletes the run's namespace, or only the run's objects if the namespace is the user's. Warns if that fails.
    pub(super) fn remove_all(&self) {
        let (namespace, of_run) = (&self.names.namespace, self.names.selector());
        let common = ["--timeout=30s", "--ignore-not-found"];
        let what = match self.names.has_own_namespace() {
            true => vec!["delete", "namespace", namespace],
            false => {
                let selector = ["--selector", of_run.as_str(), "--cascade=foreground"];
                [&["delete", "job,statefulset,service"][..], &selector].concat()
            }
        };
        let delete = || self.run(&[&what[..], &common].concat(), "");
        let mut ended = delete();
        if !matches!(ended, Ok((true, ..))) && self.force_pods() {
            ended = delete();
        }
        let why = match ended {
            Ok((true, ..)) => return,
            Ok((false, _, complaint)) => complaint,
            Err(failure) => failure.to_string(),
        };
        warnings::warn(&format!(
            "objects of the run may be left in the namespace `{namespace}`\n    | {why}\nhint: {}",
            self.by_hand(&what)
        ));
    }

    /// Force-deletes pods of the run that are still terminating: on a dead node, nothing confirms their end. Returns
    /// true if there were any.
    fn force_pods(&self) -> bool {
        let seen = self.get_own("pods").unwrap_or_default();
        let pods = seen["items"].as_array().map_or(&[][..], Vec::as_slice);
        let late = pods.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
        let late: Vec<(&str, &str)> = late
            .filter_map(|pod| {
                Some((pod["metadata"]["name"].as_str()?, pod["spec"]["nodeName"].as_str()?))
            })
            .collect();
        let names: Vec<&str> = late.iter().map(|(name, _)| *name).collect();
        let force = ["--grace-period=0", "--force", "--ignore-not-found"];
        let delete = [&["delete", "pod"][..], &names, &force].concat();
        if late.is_empty() || !matches!(self.run(&delete, ""), Ok((true, ..))) {
            return false;
        }
        let late: Vec<String> =
            late.iter().map(|(name, node)| format!("`{name}` on the node `{node}`")).collect();
        warnings::warn(&format!(
            "pods that did not end within 30 s were deleted by force: {}\nhint: check that the node is up; if it is, \
             its servers stop by themselves",
            late.join(", ")
        ));
        true
    }
}

/// Parses the access reviews that `kubectl` printed, in order: true if a right is granted.
fn allowed(printed: &str) -> Vec<bool> {
    let reviews = serde_json::Deserializer::from_str(printed).into_iter::<Value>();
    reviews.map_while(|review| review.ok()?["status"]["allowed"].as_bool()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn rights_are_parsed_up_to_the_first_other_output() {
        let check = |printed: &str, expected: &[bool]| assert_eq!(allowed(printed), expected);
        let [yes, no] = [true, false].map(|one| json!({"status": {"allowed": one}}).to_string());
        check(&format!("{yes}\n{no}{yes}"), &[true, false, true]);
        check(&format!("{no}\nerror: no route to host"), &[false]);
        check(&format!("{yes}\n{{\"status\": {{}}}}{yes}"), &[true]);
        check("", &[]);
    }

    /// Creates a `kubectl` from a shell script, which writes its arguments to `log` next to itself.
    fn scripted(dir: &Path, names: Names, script: &str) -> Kubectl {
        let file = dir.join("kubectl");
        std::fs::write(&file, format!("echo \"$*\" >>\"$0.log\"\n{script}")).unwrap();
        let arguments = vec![file.display().to_string()];
        Kubectl { program: "/bin/sh".to_owned(), arguments, names }
    }

    #[test]
    fn only_terminating_pods_are_deleted_by_force() {
        let dir = tempfile::tempdir().unwrap();
        let script = r#"case "$1 $2" in
"delete namespace") [ -e "$0.forced" ] || exit 1 ;;
"delete pod") : >"$0.forced" ;;
"get pods") echo '{"items": [{"metadata": {"name": "servers-1"}, "spec": {"nodeName": "n1"}},
  {"metadata": {"name": "servers-0", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "n2"}}]}' ;;
esac"#;
        scripted(dir.path(), Names::new("study", None), script).remove_all();
        let log = std::fs::read_to_string(dir.path().join("kubectl.log")).unwrap();
        let verbs: Vec<&str> = log.lines().map(|line| line.rsplit_once(" --").unwrap().0).collect();
        let [first, get, force, again] = verbs[..] else { panic!("{log}") };
        assert!(first.starts_with("delete namespace bakeoff-study-") && again == first, "{log}");
        assert!(get.starts_with("get pods"), "{log}");
        assert_eq!(force, "delete pod servers-0 --grace-period=0 --force");
    }

    #[test]
    fn missing_namespace_error_has_the_command_to_create_it() {
        let dir = tempfile::tempdir().unwrap();
        let remedy = |given: Option<&str>, script: &str| {
            scripted(dir.path(), Names::new("study", given), script).namespace_remedy()
        };
        let message = remedy(Some("bench"), "").unwrap();
        assert!(message.contains("kubectl create namespace bench`, or remove"), "{message}");
        assert_eq!(remedy(Some("bench"), "echo '{}'"), None, "it is there");
        assert_eq!(remedy(Some("bench"), "exit 1"), None, "it may not be looked at");
        assert_eq!(remedy(None, ""), None, "the run makes it");
    }
}
