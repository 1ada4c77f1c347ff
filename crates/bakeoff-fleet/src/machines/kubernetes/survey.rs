//! Inspects a cluster before anything is created in it: version, rights, nodes, storage.
//!
//! Not here: showing the results (the binary's `commands::doctor`), the pods' own limits (`machines::describe`).

use bakeoff_core::places::Kubernetes;
use serde_json::Value;

use super::kubectl::{Kubectl, MissingRights, RIGHTS_HINT};
use super::names::Names;
use crate::error::FleetError;

/// State of a cluster.
#[derive(Default)]
pub struct ClusterTold {
    /// Properties found, as label and value.
    pub rows: Vec<(&'static str, String)>,
    /// Requirements not met, each with a hint.
    pub missing: Vec<(String, String)>,
}

/// Inspects the cluster of a places file.
///
/// # Errors
/// When the cluster does not answer.
pub fn survey(wanted: &Kubernetes) -> Result<ClusterTold, FleetError> {
    let names = Names::new("doctor", wanted.namespace.as_deref());
    let kubectl = Kubectl::new(wanted, names);
    let mut found = ClusterTold::default();
    let versions = kubectl.versions()?;
    let version = |of: &str| versions[of]["gitVersion"].as_str().unwrap_or("unknown").to_owned();
    let context = wanted.context.as_deref().unwrap_or("(current)");
    let (client, server) = (version("clientVersion"), version("serverVersion"));
    found
        .rows
        .push(("cluster", format!("Kubernetes {server}, by kubectl {client}, context {context}")));
    rights(&kubectl.missing_rights()?, &mut found);
    if let Some(remedy) = kubectl.namespace_remedy() {
        found.missing.push((format!("the namespace `{}`", kubectl.names().namespace), remedy));
    }
    match kubectl.get("nodes") {
        Ok(nodes) => nodes_of(wanted, &nodes, &mut found),
        Err(_) => found.rows.push(("nodes", "unknown: you lack the right to list them".to_owned())),
    }
    if let Some(class) = &wanted.storage_class {
        match kubectl.one("storageclass", class) {
            Ok(Some(one)) => {
                let by = one["provisioner"].as_str().unwrap_or("?").to_owned();
                found.rows.push(("storage", format!("class {class}, by {by}")));
            }
            Ok(None) => found.missing.push((
                format!("the storage class `{class}`"),
                "set another `storage-class`, or remove it to keep data on the nodes' disks"
                    .to_owned(),
            )),
            Err(_) => found.rows.push((
                "storage",
                format!("class {class}, unknown: you lack the right to read it"),
            )),
        }
    }
    Ok(found)
}

fn rights(lacking: &MissingRights, found: &mut ClusterTold) {
    if lacking.needed.is_empty() {
        found.rows.push(("rights", "everything that a run needs".to_owned()));
    } else {
        let what = format!("the rights to {}", lacking.needed.join(", "));
        found.missing.push((what, RIGHTS_HINT.to_owned()));
    }
    let without = [
        (lacking.keeper.clone(), "the empty namespace stays if bakeoff is killed"),
        (
            lacking.resize.then(|| "patch pods/resize".to_owned()),
            "limits of servers are not applied",
        ),
    ];
    for (right, what) in without {
        if let Some(right) = right {
            found.rows.push(("without", format!("{right}: {what}")));
        }
    }
}

/// Counts the nodes that can run the pods.
fn nodes_of(wanted: &Kubernetes, nodes: &Value, found: &mut ClusterTold) {
    let all = nodes["items"].as_array().map_or(&[][..], Vec::as_slice);
    let takes = all.iter().filter(|node| takes_pods(node, wanted)).count();
    found.rows.push(("nodes", format!("{}; {takes} can run the run's pods", all.len())));
    let apart = (wanted.servers + wanted.generators) as usize;
    let needed = if wanted.share_nodes { 1 } else { apart };
    if takes < needed {
        let mend = match wanted.node_selector.is_empty() {
            true => "add nodes, request fewer pods, or set `share-nodes: true`",
            false => {
                "label nodes to match `node-selector`, request fewer pods, or set `share-nodes: true`"
            }
        };
        found.missing.push((format!("{needed} nodes for the run's pods"), mend.to_owned()));
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
    fn unusable_nodes_are_not_counted() {
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
        let mut found = ClusterTold::default();
        nodes_of(&wanted, &nodes, &mut found);
        assert_eq!(found.rows, [("nodes", "5; 1 can run the run's pods".to_owned())]);
        assert_eq!(found.missing[0].0, "2 nodes for the run's pods");
    }
}
