//! Why a pod does not come up, in words.
//!
//! Not here: waiting for it.

use std::time::Duration;

use serde_json::Value;

/// A pod, or the run's pods, and why it is not ready.
pub(super) struct Trouble {
    pod: Option<String>,
    why: String,
    hint: &'static str,
}

const IMAGE: &str = "see that `image` of the places file can be had on the nodes, and what `image-pull` and \
                     `image-pull-secrets` say";
const AGENT_IMAGE: &str = "see that `agent-image` of the places file can be had on the nodes, and has bakeoff as `/bakeoff` \
                           for their processor; without it bakeoff is sent";
const NODES: &str = "servers take a node each, apart from generators: add nodes, ask for less, or say \
                     `share-nodes: true`";
/// Words of an unplaced pod's message, and the words that mend it.
const UNPLACED: [(&str, &str); 5] = [
    (
        "PersistentVolumeClaim",
        "see that `storage-class` is there and has volumes of the size `storage`",
    ),
    (
        "VolumeBinding",
        "see whether `storage-class` makes volumes: `kubectl describe pvc` and its provisioner's log tell",
    ),
    ("node affinity/selector", "label nodes as `node-selector` says, or ask for other labels"),
    ("Insufficient", "ask for less `cpu` and `memory`, or add nodes"),
    ("taint", "name taints that pods tolerate as `tolerations`, or select other nodes"),
];
const PRIORITY: &str =
    "name a class that the cluster has as `priority-class`: `kubectl get priorityclasses`";
const LIMITS: &str = "look for a quota or an admission rule in the event";

fn name_of(pod: &Value) -> Option<String> {
    pod["metadata"]["name"].as_str().map(str::to_owned)
}

/// Returns the words that mend what an unplaced pod's message tells of.
fn unplaced_hint(message: &str) -> Option<&'static str> {
    UNPLACED.iter().find(|(words, _)| message.contains(words)).map(|one| one.1)
}

/// Returns the first pod that will not be ready. `waited`: it has been given time to find a node.
pub(super) fn of_pods(pods: &[Value], waited: bool) -> Option<Trouble> {
    let is_in = |pod: &Value, phase: &str| pod["status"]["phase"] == phase;
    let first_in = |phase: &str| pods.iter().find(|pod| is_in(pod, phase));
    let gave_up = first_in("Pending").zip(first_in("Succeeded"));
    // One whose agent gave up is no cause where another has not begun.
    let mut causes = pods.iter().filter(|pod| gave_up.is_none() || !is_in(pod, "Succeeded"));
    causes
        .find_map(|pod| of_pod(pod, waited))
        .or_else(|| gave_up.map(|(pending, ended)| gave_up_waiting(pending, ended)))
}

/// Tells of a pod that does not begin, where another has ended because its agent waited for it in vain.
fn gave_up_waiting(pending: &Value, ended: &Value) -> Trouble {
    let conditions = pending["status"]["conditions"].as_array();
    let message = conditions
        .and_then(|all| all.iter().find(|one| one["status"] == "False"))
        .and_then(|one| one["message"].as_str());
    let why = message.map_or(String::new(), |message| format!(": {message}"));
    let waited = name_of(ended).unwrap_or_default();
    Trouble {
        pod: name_of(pending),
        hint: unplaced_hint(&why).unwrap_or("see what the event says"),
        why: format!("it has not begun, and `{waited}` ended waiting for it{why}"),
    }
}

fn of_pod(pod: &Value, waited: bool) -> Option<Trouble> {
    let name = name_of(pod);
    let trouble = |why: String, hint| Some(Trouble { pod: name.clone(), why, hint });
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |kind: &str| &pod["status"][kind][0];
    let reason_of = |waiting: &Value| word(&waiting["reason"]);
    // Pods with bakeoff from an image begin with that one.
    let first = of("initContainerStatuses");
    let ended = [&first["state"]["terminated"], &first["lastState"]["terminated"]];
    let failed = |ended: &&Value| ended["exitCode"].as_i64().is_some_and(|code| code != 0);
    if let Some(ended) = ended.into_iter().find(failed) {
        let (reason, message) = (word(&ended["reason"]), word(&ended["message"]));
        let why = format!(
            "it got no bakeoff from `agent-image`: {reason}, exit code {}",
            ended["exitCode"]
        );
        return trouble(format!("{why} {message}").trim_end().to_owned(), AGENT_IMAGE);
    }
    let first = &first["state"]["waiting"];
    let is_first = !["", "PodInitializing"].contains(&&*reason_of(first));
    let waiting = if is_first { first } else { &of("containerStatuses")["state"]["waiting"] };
    let reason = reason_of(waiting);
    let said = || format!("{reason}: {}", word(&waiting["message"]));
    let blames = |image| if is_first { AGENT_IMAGE } else { image };
    if reason.contains("Image") {
        return trouble(said(), blames(IMAGE));
    }
    if reason.ends_with("Error") || reason.ends_with("BackOff") {
        return trouble(said(), blames("see that `image` has `/bin/sh`"));
    }
    let phase = word(&pod["status"]["phase"]);
    if phase == "Failed" || phase == "Succeeded" {
        let reason = word(&pod["status"]["reason"]);
        return trouble(format!("it has ended ({phase} {reason})"), LIMITS);
    }
    let conditions = pod["status"]["conditions"].as_array()?;
    let unplaced = |one: &&Value| one["reason"] == "Unschedulable" && waited;
    let one = conditions.iter().find(unplaced)?;
    let why = word(&one["message"]);
    let hint = unplaced_hint(&why).unwrap_or(NODES);
    trouble(format!("no node takes it: {why}"), hint)
}

/// Returns that pods are not even made.
pub(super) fn missing() -> Trouble {
    Trouble { pod: None, why: "pods were not made".to_owned(), hint: LIMITS }
}

/// Returns that pods took too long.
pub(super) fn late(within: Duration) -> Trouble {
    let why = format!("pods were not ready within {within:?}");
    Trouble { pod: None, why, hint: "see what the event says" }
}

/// Returns what became of a pod that was lost, where that can be seen. `pod`: the one that has its name now.
pub(super) fn of_lost(
    pod: Option<&Value>,
    (uid, container): (&str, &str),
    events: &Value,
) -> Option<String> {
    let word = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    let ours = |event: &&Value| event["involvedObject"]["uid"] == uid;
    // An eviction is a warning; that a container is being stopped comes after it.
    let warning = last(events, |event| ours(event) && event["type"] == "Warning");
    let event = warning.or_else(|| last(events, ours)).map(|event| {
        format!("\n    | last event: {}: {}", word(&event["reason"]), word(&event["message"]))
    });
    let event = event.unwrap_or_default();
    let Some(pod) = pod.filter(|pod| pod["metadata"]["uid"] == uid) else {
        let by = if warning.is_some() { "" } else { ": somebody deleted it" };
        return Some(format!("its pod is there no more{by}{event}"));
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
        _ => Some(format!("its pod was ended: {reason}: {message}{event}")),
    }
}

/// Returns the last of some events.
fn last(events: &Value, ours: impl Fn(&&Value) -> bool) -> Option<&Value> {
    let moment = |event: &&Value| {
        let one = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        one("lastTimestamp").max(one("eventTime"))
    };
    let all = events["items"].as_array().map_or(&[][..], Vec::as_slice);
    all.iter().filter(ours).max_by_key(moment)
}

impl Trouble {
    /// Tells it with the last event of the pod. `prefix`: before the names of all objects of the run.
    pub(super) fn told(&self, events: &Value, prefix: &str) -> String {
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
        let hint = if last.contains("PriorityClass") { PRIORITY } else { self.hint };
        format!("the pods of the run do not come up: {about}{}{last}\nhint: {hint}", self.why)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_end_of_a_pod_is_told_by_what_ended_it() {
        let event = |uid: &str, kind: &str, reason: &str, at: &str| json!({"involvedObject": {"uid": uid}, "type": kind, "reason": reason, "message": "m", "lastTimestamp": at});
        let killing = event("1", "Normal", "Killing", "2026-01-01T00:00:02Z");
        let evicted = event("1", "Warning", "Evicted", "2026-01-01T00:00:01Z");
        let other = event("2", "Warning", "Failed", "2026-01-01T00:00:03Z");
        let pod = |uid: &str, status: Value| json!({"metadata": {"uid": uid}, "status": status});
        let check = |pod: Option<&Value>, events: &[&Value], wanted: Option<&str>| {
            assert_eq!(of_lost(pod, ("1", "agent"), &json!({"items": events})).as_deref(), wanted);
        };
        let deleted = "its pod is there no more: somebody deleted it\n    | last event: Killing: m";
        check(None, &[&killing, &other], Some(deleted));
        let next = pod("2", json!({}));
        let evicted_told = "its pod is there no more\n    | last event: Evicted: m";
        check(Some(&next), &[&evicted, &killing], Some(evicted_told));
        check(Some(&pod("1", json!({}))), &[], None);
        let killed = json!({"terminated": {"reason": "OOMKilled", "exitCode": 137}});
        let killed = pod(
            "1",
            json!({"containerStatuses": [{"name": "beside"}, {"name": "agent", "state": killed}]}),
        );
        check(Some(&killed), &[], Some("its container ended: OOMKilled, exit code 137"));
        let full = json!({"reason": "Evicted", "message": "low on memory", "phase": "Failed"});
        check(Some(&pod("1", full)), &[], Some("its pod was ended: Evicted: low on memory"));
    }

    #[test]
    fn a_pod_that_no_node_takes_is_told_with_what_mends_it() {
        let check = |message: &str, hint: &str| {
            let condition = json!({"reason": "Unschedulable", "message": message});
            let pod =
                json!({"metadata": {"name": "servers-0"}, "status": {"conditions": [condition]}});
            assert!(of_pods(std::slice::from_ref(&pod), false).is_none(), "it may be found yet");
            let told = of_pods(&[pod], true).unwrap().told(&Value::Null, "");
            assert!(told.contains(message) && told.contains(hint), "{told}");
        };
        check("3 node(s) didn't match Pod's node affinity/selector", "`node-selector`");
        check("3 Insufficient cpu", "ask for less `cpu`");
        check("pod has unbound immediate PersistentVolumeClaims", "`storage-class`");
        check("1 node(s) didn't match pod anti-affinity rules", "`share-nodes: true`");
        check("1 node(s) had untolerated taint {dedicated: bench}", "`tolerations`");
    }

    #[test]
    fn a_class_that_is_not_there_is_blamed_by_its_field() {
        let message = "no PriorityClass with name low was found";
        let event =
            json!({"type": "Warning", "involvedObject": {"name": "servers"}, "message": message});
        let told = missing().told(&json!({ "items": [event] }), "servers");
        assert!(told.contains("has as `priority-class`"), "{told}");
    }

    #[test]
    fn an_image_is_blamed_by_the_field_that_names_it() {
        let check = |status: Value, parts: &[&str]| {
            let pod = json!({"metadata": {"name": "servers-0"}, "status": status});
            let told = of_pods(&[pod], false).unwrap().told(&Value::Null, "");
            assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        };
        let waits =
            |reason: &str| json!([{"state": {"waiting": {"reason": reason, "message": "m"}}}]);
        let both = json!({"initContainerStatuses": waits("ErrImagePull"), "containerStatuses": waits("PodInitializing")});
        check(both, &["`servers-0`: ErrImagePull: m", "hint: see that `agent-image`"]);
        check(json!({"containerStatuses": waits("ErrImagePull")}), &["hint: see that `image`"]);
        check(json!({"containerStatuses": waits("RunContainerError")}), &["has `/bin/sh`"]);
        // What a pod without restarts, and one that is begun again, say of an image that has no `/bakeoff`.
        let ended = json!({"terminated": {"reason": "StartError", "exitCode": 128, "message": "no such file"}});
        let lacks = [
            "no bakeoff from `agent-image`: StartError, exit code 128 no such file",
            "as `/bakeoff`",
        ];
        check(json!({"phase": "Failed", "initContainerStatuses": [{"state": ended}]}), &lacks);
        let again =
            json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended});
        check(json!({"initContainerStatuses": [again]}), &lacks);
    }

    #[test]
    fn a_pod_that_waits_for_a_volume_is_told_and_not_the_one_that_gave_up() {
        let message = "running PreBind plugin \"VolumeBinding\": it is being made";
        let waits = json!({"metadata": {"name": "servers-0"}, "status": {"phase": "Pending", "conditions":
            [{"status": "False", "reason": "SchedulerError", "message": message}]}});
        let ended = json!({"metadata": {"name": "generators-0"}, "status": {"phase": "Succeeded"}});
        let told = |pods: &[Value]| of_pods(pods, true).map(|one| one.told(&Value::Null, ""));
        assert!(told(std::slice::from_ref(&waits)).is_none(), "it may come yet");
        let both = told(&[ended.clone(), waits]).unwrap();
        let expected =
            "pod `servers-0`: it has not begun, and `generators-0` ended waiting for it: running";
        assert!(both.contains(expected) && both.contains("`kubectl describe pvc`"), "{both}");
        assert!(told(&[ended]).unwrap().contains("it has ended (Succeeded )"));
    }
}
