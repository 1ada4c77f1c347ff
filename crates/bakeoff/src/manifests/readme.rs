//! What to do with the files, in the order in which it has to be done.

use super::resources::{Contender, Plane};

/// The text that stands beside them.
pub(super) fn text(contenders: &[Contender<'_>], study: &str) -> String {
    let has = |plane| contenders.iter().any(|one| one.plane == Some(plane));
    let mut steps = vec!["kubectl apply -f namespaces.yaml".to_owned()];
    if has(Plane::Consul) {
        steps.push(
            "helm install consul hashicorp/consul --namespace consul --create-namespace \\\n  \
             --values consul-values.yaml --wait"
                .to_owned(),
        );
    }
    if has(Plane::Istio) {
        let chart = |chart: &str| {
            format!(
                "helm install {chart} istio/{chart} --namespace istio-system --create-namespace --wait"
            )
        };
        steps.extend(["base", "istiod"].map(chart));
    }
    steps.push("kubectl apply -f applications.yaml".to_owned());
    if has(Plane::Consul) {
        steps.push("kubectl apply -f consul-gateways.yaml".to_owned());
    }
    if has(Plane::Istio) {
        steps.push("kubectl apply -f istio-gateways.yaml".to_owned());
    }
    let rows: Vec<String> = contenders.iter().map(row).collect();
    format!(
        "# Ingress gateways on a cluster of your own\n\n\
         Written by `bakeoff manifests` from a study; change the study and write them again. Both control planes \
         may run at once: each system has a namespace of its own. The charts are the vendors', whose repositories \
         `helm repo add` has made known as `hashicorp` and `istio`.\n\n\
         ```\n{}\n```\n\n\
         ## How to reach them\n\n\
         Each system has a node port, which `{study}` names. Where nodes cannot be reached from where the load \
         is made, change the services to `type: LoadBalancer` and write their addresses into `{study}`: \
         `kubectl get services --all-namespaces`. `kubectl port-forward` is no way to reach what is to be \
         measured.\n\n\
         | system | namespace | node port | limits of its gateway |\n| --- | --- | --- | --- |\n{}\n\n\
         Each answers with 200:\n\n\
         ```\ncurl -i http://NODE:PORT/\n```\n\n\
         ## The run\n\n\
         ```\nbakeoff run {study}\n```\n\n\
         bakeoff starts nothing there: whether limits hold, and how long a gateway was throttled, only the \
         cluster knows (`container_cpu_cfs_throttled_seconds_total`).\n",
        steps.join("\n"),
        rows.join("\n"),
    )
}

fn row(one: &Contender<'_>) -> String {
    let (name, namespace, port) = (one.name, one.namespace(), one.node_port());
    let limits = match one.plane {
        None => "it has none".to_owned(),
        Some(_) => one.gateway_limits(),
    };
    format!("| {name} | {namespace} | {port} | {limits} |")
}
