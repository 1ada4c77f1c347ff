//! Writes the instructions for the files, step by step.

use bakeoff_systems::declaration::Plane;

use super::resources::PreparedSystem;

/// The text that stands beside them.
pub(super) fn text(contenders: &[PreparedSystem<'_>], study: &str) -> String {
    let has = |plane| contenders.iter().any(|one| one.plane == Some(plane));
    let mut steps = vec!["kubectl apply -f namespaces.yaml".to_owned()];
    let version = |plane| contenders.iter().find(|one| one.plane == Some(plane))?.version();
    if has(Plane::Consul) {
        let version = version(Plane::Consul).and_then(consul_chart).unwrap_or_default();
        steps.push(format!(
            "helm install consul hashicorp/consul{version} --namespace consul --create-namespace \\\n  \
             --values consul-values.yaml --wait"
        ));
    }
    if has(Plane::Istio) {
        let version = version(Plane::Istio).map(|version| format!(" --version {version}"));
        let version = version.unwrap_or_default();
        let chart = |chart: &str| {
            format!(
                "helm install {chart} istio/{chart}{version} --namespace istio-system \\\n  \
                 --create-namespace --wait"
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
         `helm repo add` has made known as `hashicorp` and `istio`; their versions go with those of the study, and \
         with each other: both products use the resources of Kubernetes' Gateway API, which Consul's chart brings \
         along. Consul's server claims a volume, so the cluster needs a default StorageClass.\n\n\
         ```\n{}\n```\n\n\
         ## How to reach them\n\n\
         Each system has a node port, which `{study}` names. Where nodes cannot be reached from where the load \
         is made, change the services to `type: LoadBalancer` and write their addresses, with port 8080, into `{study}`: \
         `kubectl get services --all-namespaces`. `kubectl port-forward` is no way to reach what is to be \
         measured.\n\n\
         | system | namespace | node port | limits of its gateway | Deployment of its gateway |\n\
         | --- | --- | --- | --- | --- |\n{}\n\n\
         Each answers with 200:\n\n\
         ```\ncurl -i http://NODE:PORT/\n```\n\n\
         ## The run\n\n\
         ```\nbakeoff run {study}\n```\n\n\
         The proxies are those of the products, each with an Envoy of its own version and Istio's with filters of its \
         own: that all are the same Envoy, as the study says, is so where bakeoff starts them. \
         bakeoff starts nothing there: whether limits hold, and how long a gateway was throttled, only the \
         cluster knows (`container_cpu_cfs_throttled_seconds_total`).\n",
        steps.join("\n"),
        rows.join("\n"),
    )
}

/// Returns which of HashiCorp's charts installs a version of Consul; `None` where that is not known.
fn consul_chart(version: &str) -> Option<String> {
    let (major, rest) = version.split_once('.')?;
    let minor = rest.split('.').next()?;
    let chart = match (major, minor) {
        ("1", "19") => "1.5",
        ("1", "20") => "1.6",
        ("1", "21") => "1.7",
        ("1", "22") => "1.9",
        ("2", _) => return Some(format!(" --version '~2.{minor}.0'")),
        _ => return None,
    };
    Some(format!(" --version '~{chart}.0'"))
}

fn row(one: &PreparedSystem<'_>) -> String {
    let (name, namespace, port) = (one.name, one.namespace(), one.node_port());
    let limits = match one.plane {
        None => "it has none".to_owned(),
        Some(_) => one.gateway_limits(),
    };
    let deployment = one.gateway_deployment().unwrap_or_else(|| "it has none".to_owned());
    format!("| {name} | {namespace} | {port} | {limits} | {deployment} |")
}
