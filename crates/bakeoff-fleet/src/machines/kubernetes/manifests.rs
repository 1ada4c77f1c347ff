//! Builds the manifests of a run's objects.
//!
//! Not here: creating the objects (`kubectl`).

use bakeoff_core::places::{Kubernetes, Toleration};
use serde_json::{Map, Value, json};

use super::limits::{self, Amounts};
use super::names::{Names, RUN};

/// Label that assigns a pod to `servers` or `generators`.
pub(super) const TAKES: &str = "bakeoff.dev/takes";
/// Label with the kind that a servers' pod is reserved for; empty if it takes any.
pub(super) const KIND: &str = "bakeoff.dev/kind";
/// Names of a pod's container, and of the second one for servers that run next to others.
pub(super) const AGENT: &str = "agent";
pub(super) const ADJACENT: &str = "adjacent";
/// Name of the account for generators' pods, of its role and of the binding.
const KEEPER: &str = "keeper";
/// Folder for data, and the home directory.
pub(super) const DATA: &str = "/data";
/// Path of a copied bakeoff in a pod, and its path in the image it comes from.
pub(super) const PROGRAM: &str = "/bakeoff-program/bakeoff";
const PROGRAM_FOLDER: &str = "/bakeoff-program";
const IN_IMAGE: &str = "/bakeoff";
/// User ID of `nobody`.
const NOBODY: u32 = 65534;
/// Longest duration of a run, in seconds.
const DEADLINE: u32 = 7 * 24 * 3600;

/// First process of each pod. It ends 60 s after its last agent, or 90 s after its start if no agent came.
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

pub(super) fn namespace(names: &Names) -> Value {
    let name = &names.namespace;
    let labels = json!({RUN: names.run, "pod-security.kubernetes.io/enforce": "restricted"});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

/// Returns a reference that makes an object the owner of others.
pub(super) fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"],
    })
}

/// Returns the account of generators' pods, which may only delete the run's namespace.
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

pub(super) fn service(names: &Names, owner: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": names.owned("servers", owner),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": {RUN: names.run, TAKES: "servers"},
        },
    })
}

/// Returns the Job of the generators. `keeps`: its pods use the account that may delete the namespace.
pub(super) fn generators(wanted: &Kubernetes, names: &Names, keeps: bool) -> Value {
    let mut pod = pod(wanted, names, "generators", false);
    pod["spec"]["restartPolicy"] = json!("Never");
    if keeps {
        pod["spec"]["serviceAccountName"] = json!(KEEPER);
        pod["spec"]["automountServiceAccountToken"] = json!(true);
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": names.metadata("generators"),
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

/// Returns the StatefulSet of servers. `resized`: the pods' limits may change later. `own`: the kind that the set is
/// reserved for, and its image.
pub(super) fn servers(
    wanted: &Kubernetes,
    (names, resized): (&Names, bool),
    owner: &Value,
    own: Option<(&str, &str)>,
) -> Value {
    let mut template = pod(wanted, names, "servers", wanted.storage_class.is_some());
    if resized {
        template["spec"]["containers"][0]["resources"] =
            limits::resources(&Amounts::wanted(wanted), None);
    }
    let (mut name, mut selector) =
        ("servers".to_owned(), json!({RUN: names.run, TAKES: "servers", KIND: ""}));
    if let Some((kind, image)) = own {
        name = format!("servers-{kind}");
        selector[KIND] = json!(kind);
        template["spec"]["containers"][0]["image"] = json!(image);
    }
    template["metadata"]["labels"][KIND] = selector[KIND].clone();
    template["spec"]["affinity"]["podAntiAffinity"] =
        apart(wanted, &[json!({RUN: names.run, TAKES: "generators"}), selector.clone()]);
    let mut spec = json!({
        "serviceName": format!("{}servers", names.prefix),
        "replicas": wanted.servers,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": selector},
        "template": template,
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
        "metadata": names.owned(&name, owner),
        "spec": spec,
    })
}

/// Adds a second container to each pod of a set, with its own disk and limits.
pub(super) fn add_next_to(set: &mut Value) {
    let pod = &mut set["spec"]["template"]["spec"];
    let mut container = pod["containers"][0].clone();
    container["name"] = json!(ADJACENT);
    container["resources"] = limits::resources(&Amounts::default(), None);
    container["volumeMounts"][0]["name"] = json!(ADJACENT);
    let volume = json!({"name": ADJACENT, "emptyDir": {}});
    for (list, one) in [("containers", container), ("volumes", volume)] {
        let all = pod[list].as_array().into_iter().flatten().cloned();
        pod[list] = all.chain([one]).collect();
    }
}

/// Returns a pod's template. `claimed`: its volume comes from a claim.
fn pod(wanted: &Kubernetes, names: &Names, takes: &str, claimed: bool) -> Value {
    let mut amounts = Map::new();
    for (name, amount) in [("cpu", &wanted.cpu), ("memory", &wanted.memory)] {
        amounts.extend(amount.iter().map(|amount| (name.to_owned(), json!(amount))));
    }
    let selector: Map<String, Value> =
        wanted.node_selector.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let volumes = if claimed { json!([]) } else { json!([{"name": "data", "emptyDir": {}}]) };
    let mut pod = json!({
        "metadata": {"labels": {TAKES: takes, RUN: names.run}},
        "spec": {
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": selector,
            "affinity": {"podAntiAffinity": apart(wanted, &[json!({RUN: names.run, TAKES: "servers"})])},
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": NOBODY,
                "runAsGroup": NOBODY,
                "fsGroup": NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": AGENT,
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
    });
    if let Some(image) = &wanted.agent_image {
        take_program(&mut pod["spec"], image);
    }
    meet_demands(&mut pod, wanted);
    pod
}

/// Adds what the cluster's nodes and registries require: annotations, priority, secrets, tolerations.
fn meet_demands(pod: &mut Value, wanted: &Kubernetes) {
    if !wanted.annotations.is_empty() {
        pod["metadata"]["annotations"] = wanted.annotations.iter().cloned().collect();
    }
    if let Some(class) = &wanted.priority_class {
        pod["spec"]["priorityClassName"] = json!(class);
    }
    let secrets = wanted.image_pull_secrets.iter().map(|name| json!({"name": name}));
    let secrets: Vec<Value> = secrets.collect();
    if !secrets.is_empty() {
        pod["spec"]["imagePullSecrets"] = json!(secrets);
    }
    let tolerated = wanted.tolerations.iter().map(|Toleration { key, value, effect }| {
        let operator = if value.is_some() { "Equal" } else { "Exists" };
        let mut one = json!({"key": key, "operator": operator});
        for (name, text) in [("value", value), ("effect", effect)] {
            if let Some(text) = text {
                one[name] = json!(text);
            }
        }
        one
    });
    let tolerated: Vec<Value> = tolerated.collect();
    if !tolerated.is_empty() {
        pod["spec"]["tolerations"] = json!(tolerated);
    }
}

/// Makes a pod copy bakeoff from an image, so the pod's main image needs no shell.
fn take_program(spec: &mut Value, image: &str) {
    let mut first = spec["containers"][0].clone();
    let mount = |read_only: bool| json!({"name": "program", "mountPath": PROGRAM_FOLDER, "readOnly": read_only});
    first["name"] = json!("bakeoff");
    first["image"] = json!(image);
    first["command"] = json!([IN_IMAGE, "agent", "--install", PROGRAM]);
    first["volumeMounts"] = json!([mount(false)]);
    spec["initContainers"] = json!([first]);
    let container = &mut spec["containers"][0];
    container["command"] = json!([PROGRAM, "agent", "--first"]);
    container["volumeMounts"] = json!([container["volumeMounts"][0], mount(true)]);
    let mut volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
    volumes.push(json!({"name": "program", "emptyDir": {}}));
    spec["volumes"] = json!(volumes);
}

/// Keeps pods off nodes with pods that match one of these sets of labels.
fn apart(wanted: &Kubernetes, from: &[Value]) -> Value {
    let term = |labels: &Value| json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}});
    let terms: Vec<Value> = from.iter().map(term).collect();
    match wanted.share_nodes {
        false => json!({"requiredDuringSchedulingIgnoredDuringExecution": terms}),
        true => {
            let weighed = |term| json!({"weight": 100, "podAffinityTerm": term});
            let terms: Vec<Value> = terms.into_iter().map(weighed).collect();
            json!({"preferredDuringSchedulingIgnoredDuringExecution": terms})
        }
    }
}

#[cfg(test)]
mod tests {
    use bakeoff_core::places::Places;

    use super::*;

    #[test]
    fn second_container_has_its_own_disk_and_limits() {
        let text = "kubernetes: {cpu: 2, memory: 4Gi, agent-image: a}";
        let wanted = Places::parse("p", text).unwrap().kubernetes.unwrap();
        let names = Names::new("study", None);
        let mut set = servers(&wanted, (&names, true), &json!({}), None);
        let alone = set.clone();
        add_next_to(&mut set);
        let pod = &set["spec"]["template"]["spec"];
        let [first, second] = &pod["containers"].as_array().unwrap()[..] else { panic!("two") };
        assert_eq!(*first, alone["spec"]["template"]["spec"]["containers"][0]);
        assert_eq!(first["resources"]["limits"]["cpu"], "2");
        assert_eq!(second["name"], "adjacent");
        assert_eq!(second["resources"]["limits"], json!({"cpu": "1000", "memory": "1Pi"}));
        assert_eq!(second["command"], first["command"]);
        let mounted = |container: &Value, place: usize| {
            let mount = &container["volumeMounts"][place];
            (mount["name"].clone(), mount["mountPath"].clone())
        };
        assert_eq!(mounted(first, 0), (json!("data"), json!(DATA)));
        assert_eq!(mounted(second, 0), (json!("adjacent"), json!(DATA)));
        assert_eq!(mounted(first, 1), mounted(second, 1), "bakeoff of its image");
        let volumes = pod["volumes"].as_array().unwrap();
        assert!(volumes.contains(&json!({"name": "adjacent", "emptyDir": {}})), "{volumes:?}");
    }
}
