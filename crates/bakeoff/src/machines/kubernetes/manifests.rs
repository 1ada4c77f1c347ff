//! The objects of a run, as Kubernetes takes them.
//!
//! Not here: creating them (`kubectl`).

use bakeoff_core::places::Kubernetes;
use serde_json::{Map, Value, json};

/// The label that says whether a pod is of `servers` or of `generators`.
pub(super) const TAKES: &str = "bakeoff.dev/takes";
/// The label with the run's namespace.
const RUN: &str = "bakeoff.dev/run";
/// The account of generators' pods, its role and what binds them.
const KEEPER: &str = "keeper";
/// The folder for data, and home.
pub(super) const DATA: &str = "/data";
/// A user who is nobody.
const NOBODY: u32 = 65534;
/// The longest that a run may last, in seconds.
const DEADLINE: u32 = 7 * 24 * 3600;

/// The first process of each pod. It ends a minute after its last agent, or a minute and a half after its beginning when none came.
const FIRST: &str = r#"trap 'exit 0' TERM
left=90
while [ "$left" -gt 0 ]; do
  sleep 1 & wait $!
  left=$((left - 1))
  for file in /proc/[0-9]*/comm; do
    name=
    { read -r name <"$file"; } 2>/dev/null
    case "$name" in bakeoff*) left=60 ;; esac
  done
done"#;

pub(super) fn namespace(name: &str) -> Value {
    let labels = json!({RUN: name, "pod-security.kubernetes.io/enforce": "restricted"});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

/// Returns the reference to an object by which others are its own.
pub(super) fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"],
    })
}

/// Returns the account of generators' pods, which may remove the run's namespace and nothing else.
pub(super) fn keeper(namespace: &str) -> [Value; 3] {
    let metadata = json!({"name": KEEPER});
    let group = "rbac.authorization.k8s.io";
    [
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata,
            "automountServiceAccountToken": false,
        }),
        json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "Role",
            "metadata": metadata,
            "rules": [{
                "apiGroups": [""],
                "resources": ["namespaces"],
                "resourceNames": [namespace],
                "verbs": ["delete"],
            }],
        }),
        json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": KEEPER},
            "subjects": [{"kind": "ServiceAccount", "name": KEEPER, "namespace": namespace}],
        }),
    ]
}

pub(super) fn service(owner: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "servers", "ownerReferences": [owner]},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": {TAKES: "servers"},
        },
    })
}

/// Returns the Job. `keeps`: its pods have the account that may remove the namespace.
pub(super) fn generators(wanted: &Kubernetes, run: &str, keeps: bool) -> Value {
    let mut pod = pod(wanted, run, "generators", false);
    pod["spec"]["restartPolicy"] = json!("Never");
    if keeps {
        pod["spec"]["serviceAccountName"] = json!(KEEPER);
        pod["spec"]["automountServiceAccountToken"] = json!(true);
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "generators"},
        "spec": {
            "completionMode": "Indexed",
            "completions": wanted.generators,
            "parallelism": wanted.generators,
            "backoffLimit": 0,
            "activeDeadlineSeconds": DEADLINE,
            "ttlSecondsAfterFinished": 0,
            "template": pod,
        },
    })
}

pub(super) fn servers(wanted: &Kubernetes, run: &str, owner: &Value) -> Value {
    let mut spec = json!({
        "serviceName": "servers",
        "replicas": wanted.servers,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {TAKES: "servers"}},
        "template": pod(wanted, run, "servers", wanted.storage_class.is_some()),
    });
    if let Some(class) = &wanted.storage_class {
        spec["volumeClaimTemplates"] = json!([{
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": class,
                "resources": {"requests": {"storage": wanted.storage}},
            },
        }]);
        let both = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
        spec["persistentVolumeClaimRetentionPolicy"] = both;
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "servers", "ownerReferences": [owner]},
        "spec": spec,
    })
}

/// Returns a pod's template. `claimed`: its volume comes from a claim.
fn pod(wanted: &Kubernetes, run: &str, takes: &str, claimed: bool) -> Value {
    let mut amounts = Map::new();
    for (name, amount) in [("cpu", &wanted.cpu), ("memory", &wanted.memory)] {
        amounts.extend(amount.iter().map(|amount| (name.to_owned(), json!(amount))));
    }
    let selector: Map<String, Value> =
        wanted.node_selector.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let volumes = if claimed { json!([]) } else { json!([{"name": "data", "emptyDir": {}}]) };
    json!({
        "metadata": {"labels": {TAKES: takes, RUN: run}},
        "spec": {
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": selector,
            "affinity": {"podAntiAffinity": apart(wanted, takes)},
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": NOBODY,
                "runAsGroup": NOBODY,
                "fsGroup": NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "agent",
                "image": wanted.image,
                "imagePullPolicy": wanted.pull,
                "command": ["/bin/sh", "-c", FIRST],
                "env": [{"name": "HOME", "value": DATA}],
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"]},
                },
                "resources": {"requests": amounts.clone(), "limits": amounts},
                "volumeMounts": [{"name": "data", "mountPath": DATA}],
            }],
            "volumes": volumes,
        },
    })
}

/// Keeps servers from each other's nodes, and from those of generators.
fn apart(wanted: &Kubernetes, takes: &str) -> Value {
    let from: &[&str] = if takes == "servers" { &["servers", "generators"] } else { &["servers"] };
    let term = json!({
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchExpressions": [{"key": TAKES, "operator": "In", "values": from}]},
    });
    match wanted.share_nodes {
        false => json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]}),
        true => json!({
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "podAffinityTerm": term},
            ],
        }),
    }
}
