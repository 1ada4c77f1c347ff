//! Looks at a cluster before anything is made in it: version, rights, nodes, storage.
//!
//! Not here: how that is shown (the binary's `commands::doctor`), what pods have (`machines::describe`).

use bakeoff_core::places::Kubernetes;
use serde_json::Value;

use super::kubectl::{Kubectl, Lacking, RIGHTS_HINT};
use super::names::Names;
use crate::error::FleetError;

/// A cluster as it was found.
#[derive(Default)]
pub struct ClusterTold {
    /// Each thing that is there.
    pub rows: Vec<(&'static str, String)>,
    /// Each thing that is missing, and the words that mend it.
    pub missing: Vec<(String, String)>,
}

/// Looks at the cluster of a places file.
///
/// # Errors
/// When it does not answer.
pub fn survey(wanted: &Kubernetes) -> Result<ClusterTold, FleetError> {
    let names = Names::new("doctor", wanted.namespace.as_deref());
    let kubectl = Kubectl::new(wanted, names);
    let mut told = ClusterTold::default();
    let versions = kubectl.versions()?;
    let version = |of: &str| versions[of]["gitVersion"].as_str().unwrap_or("unknown").to_owned();
    let context = wanted.context.as_deref().unwrap_or("the current one");
    let (client, server) = (version("clientVersion"), version("serverVersion"));
    told.rows
        .push(("cluster", format!("Kubernetes {server}, by kubectl {client}, context {context}")));
    rights(&kubectl.missing_rights()?, &mut told);
    if let Some(remedy) = kubectl.namespace_remedy() {
        told.missing.push((format!("the namespace `{}`", kubectl.names().namespace), remedy));
    }
    match kubectl.get("nodes") {
        Ok(nodes) => nodes_of(wanted, &nodes, &mut told),
        Err(_) => told.rows.push(("nodes", "not known: you may not list them".to_owned())),
    }
    if let Some(class) = &wanted.storage_class {
        match kubectl.one("storageclass", class) {
            Ok(Some(one)) => {
                let by = one["provisioner"].as_str().unwrap_or("?").to_owned();
                told.rows.push(("storage", format!("class {class}, by {by}")));
            }
            Ok(None) => told.missing.push((
                format!("the storage class `{class}`"),
                "name another as `storage-class`, or none: data is then on the disk of the node"
                    .to_owned(),
            )),
            Err(_) => {
                told.rows.push(("storage", format!("class {class}, not known: you may not look")))
            }
        }
    }
    Ok(told)
}

fn rights(lacking: &Lacking, told: &mut ClusterTold) {
    if lacking.needed.is_empty() {
        told.rows.push(("rights", "all that a run needs".to_owned()));
    } else {
        let what = format!("the rights to {}", lacking.needed.join(", "));
        told.missing.push((what, RIGHTS_HINT.to_owned()));
    }
    let without = [
        (lacking.keeper.clone(), "the empty namespace stays when bakeoff is killed"),
        (
            lacking.resize.then(|| "patch pods/resize".to_owned()),
            "limits of servers are not applied",
        ),
    ];
    for (right, what) in without {
        if let Some(right) = right {
            told.rows.push(("without", format!("{right}: {what}")));
        }
    }
}

/// Counts the nodes that pods can go to.
fn nodes_of(wanted: &Kubernetes, nodes: &Value, told: &mut ClusterTold) {
    let all = nodes["items"].as_array().map_or(&[][..], Vec::as_slice);
    let takes = all.iter().filter(|node| takes_pods(node, wanted)).count();
    told.rows.push(("nodes", format!("{}, of which {takes} take pods of a run", all.len())));
    let apart = (wanted.servers + wanted.generators) as usize;
    let needed = if wanted.share_nodes { 1 } else { apart };
    if takes < needed {
        let mend = match wanted.node_selector.is_empty() {
            true => "add nodes, ask for fewer pods, or say `share-nodes: true`",
            false => {
                "label nodes as `node-selector` says, ask for fewer pods, or say `share-nodes: true`"
            }
        };
        told.missing.push((format!("nodes: {needed} are needed"), mend.to_owned()));
    }
}

fn takes_pods(node: &Value, wanted: &Kubernetes) -> bool {
    let conditions = node["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
    let labels = &node["metadata"]["labels"];
    let selected = wanted.node_selector.iter().all(|(name, value)| labels[name] == value.as_str());
    let taints = node["spec"]["taints"].as_array().map_or(&[][..], Vec::as_slice);
    let tolerates = |taint: &Value| {
        wanted.tolerations.iter().any(|one| {
            let is = |name: &str, text: &Option<String>| {
                text.as_deref().is_none_or(|text| taint[name] == text)
            };
            taint["key"] == one.key.as_str() && is("value", &one.value) && is("effect", &one.effect)
        })
    };
    let refuses = |taint: &&Value| taint["effect"] != "PreferNoSchedule" && !tolerates(taint);
    let refuses = taints.iter().any(|taint| refuses(&taint));
    is_ready && selected && !refuses && node["spec"]["unschedulable"] != true
}

#[cfg(test)]
mod tests {
    use bakeoff_core::places::Places;
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_that_take_no_pods_are_not_counted() {
        let node = |labels: Value, spec: Value, ready: &str| {
            let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
            json!({"metadata": {"labels": labels}, "spec": spec, "status": status})
        };
        let fast = json!({"disk": "nvme"});
        let tainted = json!({"taints": [{"effect": "NoSchedule"}]});
        let nodes = json!({"items": [
            node(fast.clone(), json!({}), "True"),
            node(fast.clone(), json!({}), "False"),
            node(fast.clone(), json!({"unschedulable": true}), "True"),
            node(fast, tainted, "True"),
            node(json!({}), json!({}), "True"),
        ]});
        let text = "kubernetes: {servers: 1, generators: 1, node-selector: {disk: nvme}}";
        let wanted = Places::parse("p", text).unwrap().kubernetes.unwrap();
        let mut told = ClusterTold::default();
        nodes_of(&wanted, &nodes, &mut told);
        assert_eq!(told.rows, [("nodes", "5, of which 1 take pods of a run".to_owned())]);
        assert_eq!(told.missing[0].0, "nodes: 2 are needed");
    }
}
