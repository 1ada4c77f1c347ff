//! Writes the README with the steps to use the files.

use bakeoff_systems::declaration::Plane;

use super::resources::PreparedSystem;

/// Returns the README's text.
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
        "# Ingress gateways on your own cluster\n\n\
         `bakeoff manifests` wrote these files from a study. To change them, change the study and write them again. \
         Both control planes can run at once, because each system has its own namespace. The charts come from the \
         vendors' repositories: add them with `helm repo add` under the names `hashicorp` and `istio`. Their versions \
         match the study. They also match each other: both products use Kubernetes' Gateway API, whose resources \
         Consul's chart installs. Consul's server claims a volume, so the cluster needs a default StorageClass.\n\n\
         ```\n{}\n```\n\n\
         ## How to reach them\n\n\
         Each system has a node port, listed in `{study}`. If the load generator cannot reach the nodes, change the \
         services to `type: LoadBalancer` and write their addresses (`kubectl get services --all-namespaces`), with \
         port 8080, into `{study}`. Do not measure through `kubectl port-forward`.\n\n\
         | system | namespace | node port | limits of its gateway | Deployment of its gateway |\n\
         | --- | --- | --- | --- | --- |\n{}\n\n\
         Each answers with 200:\n\n\
         ```\ncurl -i http://NODE:PORT/\n```\n\n\
         ## The run\n\n\
         ```\nbakeoff run {study}\n```\n\n\
         Each product brings its own version of Envoy, and Istio's has additional filters. The study's statement that \
         all use the same Envoy only holds if bakeoff starts them. bakeoff starts nothing on this cluster. Ask the \
         cluster whether limits hold and how long a gateway was throttled \
         (`container_cpu_cfs_throttled_seconds_total`).\n",
        steps.join("\n"),
        rows.join("\n"),
    )
}

/// Returns the option for HashiCorp's chart version that installs a version of Consul. `None` if it is unknown.
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
        None => "none".to_owned(),
        Some(_) => one.gateway_limits(),
    };
    let deployment = one.gateway_deployment().unwrap_or_else(|| "none".to_owned());
    format!("| {name} | {namespace} | {port} | {limits} | {deployment} |")
}
