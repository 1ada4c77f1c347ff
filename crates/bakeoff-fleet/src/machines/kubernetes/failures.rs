//! Finds the reason why a pod fails to start or was lost.
//!
//! Not here: waiting for pods.

use std::time::Duration;

use serde_json::Value;

/// A pod, or the run's pods together, and the reason why they are not ready.
pub(super) struct PodFailure {
    pod: Option<String>,
    why: String,
    hint: &'static str,
}

const IMAGE: &str = "check that the nodes can pull `image` of the places file, and check `image-pull` and \
                     `image-pull-secrets`";
const AGENT_IMAGE: &str = "check that the nodes can pull `agent-image` of the places file, and that it has bakeoff as `/bakeoff` \
                           for their processor; without `agent-image`, bakeoff sends itself";
const NODES: &str = "each server needs a node without generators: add nodes, request less, or set \
                     `share-nodes: true`";
/// Parts of the message about an unscheduled pod, each with its hint.
const UNPLACED: [(&str, &str); 5] = [
    (
        "PersistentVolumeClaim",
        "check that `storage-class` exists and provides volumes of the size `storage`",
    ),
    (
        "VolumeBinding",
        "check with `kubectl describe pvc` and the provisioner's log that `storage-class` creates volumes",
    ),
    ("node affinity/selector", "label nodes to match `node-selector`, or set other labels there"),
    ("Insufficient", "request less `cpu` and `memory`, or add nodes"),
    ("taint", "list the taints in `tolerations`, or select other nodes"),
];
const LIMITS: &str = "check the event for a quota or an admission rule";
/// Parts of the event about a pod that was not created, each with its hint.
const NOT_CREATED: [(&str, &str); 3] = [
    ("PriorityClass", "set `priority-class` to one that `kubectl get priorityclasses` lists"),
    (
        "must specify",
        "the namespace's quota counts what each pod requests: set `cpu: 1` and `memory: 2Gi` in the places file, with \
         amounts of your own",
    ),
    (
        "exceeded quota",
        "request less of the namespace's quota: `cpu: 1`, `memory: 1Gi`, or fewer `servers` and `generators` in the \
         places file",
    ),
];

fn name_of(pod: &Value) -> Option<String> {
    pod["metadata"]["name"].as_str().map(str::to_owned)
}

/// Returns the hint for an unscheduled pod's message.
fn unplaced_hint(message: &str) -> Option<&'static str> {
    UNPLACED.iter().find(|(words, _)| message.contains(words)).map(|one| one.1)
}

/// Returns the first pod that will not become ready. `waited`: it has had time to get a node.
pub(super) fn of_pods(pods: &[Value], waited: bool) -> Option<PodFailure> {
    let is_in = |pod: &Value, phase: &str| pod["status"]["phase"] == phase;
    let first_in = |phase: &str| pods.iter().find(|pod| is_in(pod, phase));
    let gave_up = first_in("Pending").zip(first_in("Succeeded"));
    // If a pod is pending, one whose agent gave up is not the cause.
    let mut causes = pods.iter().filter(|pod| gave_up.is_none() || !is_in(pod, "Succeeded"));
    causes
        .find_map(|pod| of_pod(pod, waited))
        .or_else(|| gave_up.map(|(pending, ended)| gave_up_waiting(pending, ended)))
}

/// Describes a pending pod whose delay made another pod's agent give up.
fn gave_up_waiting(pending: &Value, ended: &Value) -> PodFailure {
    let conditions = pending["status"]["conditions"].as_array();
    let message = conditions
        .and_then(|all| all.iter().find(|one| one["status"] == "False"))
        .and_then(|one| one["message"].as_str());
    let why = message.map_or(String::new(), |message| format!(": {message}"));
    let waited = name_of(ended).unwrap_or_default();
    PodFailure {
        pod: name_of(pending),
        hint: unplaced_hint(&why).unwrap_or("see the event"),
        why: format!("it has not started, and `{waited}` gave up waiting for it{why}"),
    }
}

fn of_pod(pod: &Value, waited: bool) -> Option<PodFailure> {
    let name = name_of(pod);
    let failure = |why: String, hint| Some(PodFailure { pod: name.clone(), why, hint });
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |kind: &str| &pod["status"][kind][0];
    let reason_of = |waiting: &Value| word(&waiting["reason"]);
    // Pods that get bakeoff from an image start with that container.
    let first = of("initContainerStatuses");
    let ended = [&first["state"]["terminated"], &first["lastState"]["terminated"]];
    let failed = |ended: &&Value| ended["exitCode"].as_i64().is_some_and(|code| code != 0);
    if let Some(ended) = ended.into_iter().find(failed) {
        let (reason, message) = (word(&ended["reason"]), word(&ended["message"]));
        let why = format!(
            "copying bakeoff from `agent-image` failed: {reason}, exit code {}",
            ended["exitCode"]
        );
        return failure(format!("{why} {message}").trim_end().to_owned(), AGENT_IMAGE);
    }
    let first = &first["state"]["waiting"];
    let is_first = !["", "PodInitializing"].contains(&&*reason_of(first));
    let waiting = if is_first { first } else { &of("containerStatuses")["state"]["waiting"] };
    let reason = reason_of(waiting);
    let said = || format!("{reason}: {}", word(&waiting["message"]));
    let blames = |image| if is_first { AGENT_IMAGE } else { image };
    if reason.contains("Image") {
        return failure(said(), blames(IMAGE));
    }
    if reason.ends_with("Error") || reason.ends_with("BackOff") {
        return failure(said(), blames("check that `image` has `/bin/sh`"));
    }
    let phase = word(&pod["status"]["phase"]);
    if phase == "Failed" || phase == "Succeeded" {
        let reason = word(&pod["status"]["reason"]);
        return failure(format!("it has ended ({phase} {reason})"), LIMITS);
    }
    let conditions = pod["status"]["conditions"].as_array()?;
    let unplaced = |one: &&Value| one["reason"] == "Unschedulable" && waited;
    let one = conditions.iter().find(unplaced)?;
    let why = word(&one["message"]);
    let hint = unplaced_hint(&why).unwrap_or(NODES);
    failure(format!("no node can run it: {why}"), hint)
}

/// Describes pods that were not created.
pub(super) fn missing() -> PodFailure {
    PodFailure { pod: None, why: "some pods were not created".to_owned(), hint: LIMITS }
}

/// Describes pods that did not become ready in time.
pub(super) fn late(within: Duration) -> PodFailure {
    let why = format!("pods were not ready within {within:?}");
    PodFailure { pod: None, why, hint: "see the event" }
}

/// Returns what happened to a lost pod, if known. `pod`: the pod that has its name now.
pub(super) fn of_lost(
    pod: Option<&Value>,
    (uid, container): (&str, &str),
    events: &Value,
) -> Option<String> {
    let word = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    let ours = |event: &&Value| event["involvedObject"]["uid"] == uid;
    // An eviction is a warning; the event about stopping the container follows it.
    let warning = last(events, |event| ours(event) && event["type"] == "Warning");
    let event = warning.or_else(|| last(events, ours)).map(|event| {
        format!("\n    | last event: {}: {}", word(&event["reason"]), word(&event["message"]))
    });
    let event = event.unwrap_or_default();
    let Some(pod) = pod.filter(|pod| pod["metadata"]["uid"] == uid) else {
        let by = if warning.is_some() { "" } else { ": it was deleted" };
        return Some(format!("its pod no longer exists{by}{event}"));
    };
    let status = &pod["status"];
    let statuses = status["containerStatuses"].as_array().map_or(&[][..], Vec::as_slice);
    let own = statuses.iter().find(|one| one["name"] == container).unwrap_or(&Value::Null);
    let ended = [&own["state"]["terminated"], &own["lastState"]["terminated"]];
    let (reason, message) = (word(&status["reason"]), word(&status["message"]));
    let ended = ended.into_iter().find(|state| !state.is_null());
    match (reason.as_str(), ended) {
        ("", None) if pod["metadata"]["deletionTimestamp"].is_null() => None,
        ("", None) => Some(format!("its pod is being deleted{event}")),
        ("", Some(state)) => {
            let (reason, code) = (word(&state["reason"]), &state["exitCode"]);
            Some(format!("its container ended: {reason}, exit code {code}{event}"))
        }
        _ => Some(format!("its pod was stopped: {reason}: {message}{event}")),
    }
}

/// Returns the latest of the matching events.
fn last(events: &Value, ours: impl Fn(&&Value) -> bool) -> Option<&Value> {
    let moment = |event: &&Value| {
        let one = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        one("lastTimestamp").max(one("eventTime"))
    };
    let all = events["items"].as_array().map_or(&[][..], Vec::as_slice);
    all.iter().filter(ours).max_by_key(moment)
}

impl PodFailure {
    /// Returns the message, with the last event of the pod. `prefix`: first part of the names of the run's objects.
    pub(super) fn message(&self, events: &Value, prefix: &str) -> String {
        let about = self.pod.as_ref().map_or(String::new(), |pod| format!("pod `{pod}`: "));
        let is_ours = |event: &&Value| match &self.pod {
            Some(pod) => event["involvedObject"]["name"] == pod.as_str(),
            None => {
                let about = event["involvedObject"]["name"].as_str().unwrap_or_default();
                event["type"] == "Warning" && about.starts_with(prefix)
            }
        };
        let last = last(events, is_ours).map_or(String::new(), |event| {
            let word = |name: &str| event[name].as_str().unwrap_or_default().trim().to_owned();
            format!("\n    | last event: {}: {}", word("reason"), word("message"))
        });
        let known = NOT_CREATED.iter().find(|(words, _)| last.contains(words));
        let hint = known.map_or(self.hint, |(_, hint)| hint);
        format!("the run's pods did not start: {about}{}{last}\nhint: {hint}", self.why)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lost_pod_is_explained_by_its_last_event() {
        let event = |uid: &str, kind: &str, reason: &str, at: &str| json!({"involvedObject": {"uid": uid}, "type": kind, "reason": reason, "message": "m", "lastTimestamp": at});
        let killing = event("1", "Normal", "Killing", "2026-01-01T00:00:02Z");
        let evicted = event("1", "Warning", "Evicted", "2026-01-01T00:00:01Z");
        let other = event("2", "Warning", "Failed", "2026-01-01T00:00:03Z");
        let pod = |uid: &str, status: Value| json!({"metadata": {"uid": uid}, "status": status});
        let check = |pod: Option<&Value>, events: &[&Value], wanted: Option<&str>| {
            assert_eq!(of_lost(pod, ("1", "agent"), &json!({"items": events})).as_deref(), wanted);
        };
        let deleted = "its pod no longer exists: it was deleted\n    | last event: Killing: m";
        check(None, &[&killing, &other], Some(deleted));
        let next = pod("2", json!({}));
        let evicted_text = "its pod no longer exists\n    | last event: Evicted: m";
        check(Some(&next), &[&evicted, &killing], Some(evicted_text));
        check(Some(&pod("1", json!({}))), &[], None);
        let killed = json!({"terminated": {"reason": "OOMKilled", "exitCode": 137}});
        let killed = pod(
            "1",
            json!({"containerStatuses": [{"name": "adjacent"}, {"name": "agent", "state": killed}]}),
        );
        check(Some(&killed), &[], Some("its container ended: OOMKilled, exit code 137"));
        let full = json!({"reason": "Evicted", "message": "low on memory", "phase": "Failed"});
        check(Some(&pod("1", full)), &[], Some("its pod was stopped: Evicted: low on memory"));
    }

    #[test]
    fn unscheduled_pod_is_reported_with_a_hint() {
        let check = |message: &str, hint: &str| {
            let condition = json!({"reason": "Unschedulable", "message": message});
            let pod =
                json!({"metadata": {"name": "servers-0"}, "status": {"conditions": [condition]}});
            assert!(of_pods(std::slice::from_ref(&pod), false).is_none(), "it may be found yet");
            let text = of_pods(&[pod], true).unwrap().message(&Value::Null, "");
            assert!(text.contains(message) && text.contains(hint), "{text}");
        };
        check("3 node(s) didn't match Pod's node affinity/selector", "`node-selector`");
        check("3 Insufficient cpu", "request less `cpu`");
        check("pod has unbound immediate PersistentVolumeClaims", "`storage-class`");
        check("1 node(s) didn't match pod anti-affinity rules", "`share-nodes: true`");
        check("1 node(s) had untolerated taint {dedicated: bench}", "`tolerations`");
    }

    #[test]
    fn missing_priority_class_is_reported_by_its_field() {
        let message = "no PriorityClass with name low was found";
        let event =
            json!({"type": "Warning", "involvedObject": {"name": "servers"}, "message": message});
        let text = missing().message(&json!({ "items": [event] }), "servers");
        assert!(text.contains("set `priority-class`"), "{text}");
    }

    #[test]
    fn quota_is_reported_with_the_fields_that_meet_it() {
        let check = |message: &str, parts: &[&str]| {
            let event = json!({"type": "Warning", "involvedObject": {"name": "servers"}, "reason": "FailedCreate", "message": message});
            let text = missing().message(&json!({ "items": [event] }), "servers");
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        };
        let lacks = "pods \"servers-0\" is forbidden: failed quota: q: must specify requests.cpu for: agent";
        check(lacks, &["failed quota: q", "set `cpu: 1` and `memory: 2Gi`"]);
        let much = "pods \"servers-2\" is forbidden: exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=4";
        check(much, &["exceeded quota: q", "request less", "`cpu: 1`"]);
        check("admission webhook denied the request", &["check the event for a quota"]);
    }

    #[test]
    fn image_failure_is_reported_by_its_field() {
        let check = |status: Value, parts: &[&str]| {
            let pod = json!({"metadata": {"name": "servers-0"}, "status": status});
            let text = of_pods(&[pod], false).unwrap().message(&Value::Null, "");
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        };
        let waits =
            |reason: &str| json!([{"state": {"waiting": {"reason": reason, "message": "m"}}}]);
        let both = json!({"initContainerStatuses": waits("ErrImagePull"), "containerStatuses": waits("PodInitializing")});
        check(
            both,
            &["`servers-0`: ErrImagePull: m", "hint: check that the nodes can pull `agent-image`"],
        );
        check(
            json!({"containerStatuses": waits("ErrImagePull")}),
            &["hint: check that the nodes can pull `image`"],
        );
        check(json!({"containerStatuses": waits("RunContainerError")}), &["has `/bin/sh`"]);
        // Statuses of a pod without restarts, and of a restarted one, whose image has no `/bakeoff`.
        let ended = json!({"terminated": {"reason": "StartError", "exitCode": 128, "message": "no such file"}});
        let lacks = [
            "bakeoff from `agent-image` failed: StartError, exit code 128 no such file",
            "as `/bakeoff`",
        ];
        check(json!({"phase": "Failed", "initContainerStatuses": [{"state": ended}]}), &lacks);
        let again =
            json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended});
        check(json!({"initContainerStatuses": [again]}), &lacks);
    }

    #[test]
    fn pending_pod_is_reported_and_not_the_one_that_gave_up() {
        let message = "running PreBind plugin \"VolumeBinding\": it is being made";
        let waits = json!({"metadata": {"name": "servers-0"}, "status": {"phase": "Pending", "conditions":
            [{"status": "False", "reason": "SchedulerError", "message": message}]}});
        let ended = json!({"metadata": {"name": "generators-0"}, "status": {"phase": "Succeeded"}});
        let text = |pods: &[Value]| of_pods(pods, true).map(|one| one.message(&Value::Null, ""));
        assert!(text(std::slice::from_ref(&waits)).is_none(), "it may come yet");
        let both = text(&[ended.clone(), waits]).unwrap();
        let expected = "pod `servers-0`: it has not started, and `generators-0` gave up waiting for it: running";
        assert!(both.contains(expected) && both.contains("`kubectl describe pvc`"), "{both}");
        assert!(text(&[ended]).unwrap().contains("it has ended (Succeeded )"));
    }
}
