//! Builds the resources of Kubernetes, Consul and Istio for the systems of a study.
//!
//! Each system has its own namespace and application, so that no other system's requests reach it.

use bakeoff_core::study::{Limits, System};
use bakeoff_systems as systems;
use bakeoff_systems::declaration::{InKubernetes, KubernetesRole, Plane};
use serde_json::{Value, json};

/// Port of all services inside the cluster.
const PORT: u16 = 8080;
/// First node port, from Kubernetes' range; one per system.
const NODE_PORT: u16 = 30_800;
/// Maximum CPUs that a container requests, as in the charts of both products. Limits above it allow more use but
/// reserve nothing.
const REQUEST_CPU_MAX: f64 = 0.1;
const REQUEST_MEMORY_MAX: u64 = 128 << 20;
/// Image of an application that answers with the text of its `-text` argument.
const IMAGE: &str = "hashicorp/http-echo:1.0";
/// Default answer size in bytes, as for kind `application`.
const SIZE: usize = 255;

/// Returns the role of a system's kind in a cluster. `None` if it cannot run there.
fn in_kubernetes(system: &System) -> Option<InKubernetes> {
    systems::by_kind(&system.kind)?.declares().in_kubernetes
}

pub(super) struct PreparedSystem<'a> {
    pub(super) name: &'a str,
    /// `None` for the application without a mesh.
    pub(super) plane: Option<Plane>,
    number: u16,
    pub(super) control_plane: Option<&'a System>,
    gateway: Option<&'a Limits>,
    sidecar: Option<&'a Limits>,
    application: Option<&'a Limits>,
    size: usize,
}

impl<'a> PreparedSystem<'a> {
    /// Prepares the system with this number. `None` if its kind cannot run in Kubernetes.
    pub(super) fn new(system: &'a System, number: u16) -> Option<Self> {
        let part = |role: &str| system.parts.get(role);
        let does = |system: &System| in_kubernetes(system).map(|one| one.does);
        let (application, plane) = match does(system)? {
            KubernetesRole::Answers => (system, None),
            KubernetesRole::PassesOn => {
                let KubernetesRole::Controls(plane) = does(part("control-plane")?)? else {
                    return None;
                };
                // Other kinds have no known container.
                let answers = |part: &&System| does(part) == Some(KubernetesRole::Answers);
                (part("application").filter(answers)?, Some(plane))
            }
            KubernetesRole::Controls(_) => return None,
        };
        let size = application.options.get("size").and_then(|size| size.parse().ok());
        Some(Self {
            name: &system.name,
            plane,
            number,
            control_plane: part("control-plane"),
            gateway: plane.and(system.limits.as_ref()),
            sidecar: part("sidecar").and_then(|sidecar| sidecar.limits.as_ref()),
            application: application.limits.as_ref(),
            size: size.unwrap_or(SIZE),
        })
    }

    pub(super) fn node_port(&self) -> u16 {
        NODE_PORT + self.number
    }

    pub(super) fn namespace(&self) -> String {
        format!("bakeoff-{}", self.name)
    }

    pub(super) fn gateway_name(&self) -> String {
        format!("{}-gateway", self.name)
    }

    /// Returns the namespace and name of the gateway's Deployment. Consul's chart puts all of them in its own
    /// namespace.
    pub(super) fn gateway_deployment(&self) -> Option<String> {
        let name = self.gateway_name();
        match self.plane? {
            Plane::Consul => Some(format!("consul/consul-{name}")),
            Plane::Istio => Some(format!("{}/{name}", self.namespace())),
        }
    }

    /// Returns the version of the control plane, if the study sets one.
    pub(super) fn version(&self) -> Option<&'a str> {
        self.control_plane?.version.as_deref()
    }

    fn application_name(&self) -> String {
        format!("{}-application", self.name)
    }

    fn metadata(&self, name: &str) -> Value {
        json!({"name": name, "namespace": self.namespace()})
    }

    pub(super) fn gateway_limits(&self) -> String {
        let message = |limits: &Limits| {
            let cpu = limits.cpu.map(|cpu| format!("CPU {}", cpu_text(cpu)));
            let memory = limits.memory.map(|memory| format!("memory {}", memory_text(memory.0)));
            [cpu, memory].into_iter().flatten().collect::<Vec<_>>().join(", ")
        };
        self.gateway.map_or_else(|| "none".to_owned(), message)
    }
}

fn of_plane<'a>(
    contenders: &'a [PreparedSystem<'a>],
    plane: Plane,
) -> impl Iterator<Item = &'a PreparedSystem<'a>> {
    contenders.iter().filter(move |one| one.plane == Some(plane))
}

/// Formats cores for Kubernetes: `100m`, `2`.
fn cpu_text(cores: f64) -> String {
    let thousandths = (cores * 1000.0).round() as u64;
    match thousandths % 1000 {
        0 => (thousandths / 1000).to_string(),
        _ => format!("{thousandths}m"),
    }
}

/// Formats bytes for Kubernetes: `100Mi`, `1Gi`.
fn memory_text(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")] {
        if bytes > 0 && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    bytes.to_string()
}

/// Returns a container's `resources`; `None` without limits.
fn resources(limits: Option<&Limits>) -> Option<Value> {
    let limits = limits.filter(|limits| limits.cpu.is_some() || limits.memory.is_some())?;
    let mut resources = json!({"limits": {}, "requests": {}});
    if let Some(cpu) = limits.cpu {
        resources["limits"]["cpu"] = cpu_text(cpu).into();
        resources["requests"]["cpu"] = cpu_text(cpu.min(REQUEST_CPU_MAX)).into();
    }
    if let Some(memory) = limits.memory {
        resources["limits"]["memory"] = memory_text(memory.0).into();
        resources["requests"]["memory"] = memory_text(memory.0.min(REQUEST_MEMORY_MAX)).into();
    }
    Some(resources)
}

/// Returns the `resources` of a container without limits. It sets requests, because the charts apply their own limits
/// to an empty value.
fn unlimited() -> Value {
    json!({"requests": {
        "cpu": cpu_text(REQUEST_CPU_MAX), "memory": memory_text(REQUEST_MEMORY_MAX),
    }})
}

/// Returns the kind and the first option of a system or part that manifests cannot express.
pub(super) fn left_out(system: &System) -> Option<(&str, &str)> {
    for part in system.members() {
        let kind = part.kind.as_str();
        let carries = in_kubernetes(part).map_or(&[][..], |one| one.carries);
        for (name, value) in &part.options {
            let is_carried = |&(option, only): &(&str, Option<&str>)| {
                option == name && only.is_none_or(|only| only == value)
            };
            if !carries.iter().any(is_carried) {
                return Some((kind, name));
            }
        }
        if part.limits.as_ref().is_some_and(|limits| !limits.cpus.is_empty()) {
            return Some((kind, "cpus"));
        }
    }
    None
}

/// Returns the annotations that make a mesh add a sidecar, with the sidecar's resources.
fn sidecar_marks(one: &PreparedSystem<'_>) -> Value {
    let mut marks = json!({});
    let mut mark = |name: &str, value: String| marks[name] = value.into();
    let names = match one.plane {
        None => return marks,
        Some(Plane::Consul) => {
            mark("consul.hashicorp.com/connect-inject", "true".into());
            mark("consul.hashicorp.com/connect-service", one.application_name());
            mark("consul.hashicorp.com/connect-service-port", PORT.to_string());
            [
                "consul.hashicorp.com/sidecar-proxy-cpu-limit",
                "consul.hashicorp.com/sidecar-proxy-cpu-request",
                "consul.hashicorp.com/sidecar-proxy-memory-limit",
                "consul.hashicorp.com/sidecar-proxy-memory-request",
            ]
        }
        Some(Plane::Istio) => [
            "sidecar.istio.io/proxyCPULimit",
            "sidecar.istio.io/proxyCPU",
            "sidecar.istio.io/proxyMemoryLimit",
            "sidecar.istio.io/proxyMemory",
        ],
    };
    let values = resources(one.sidecar).unwrap_or_else(|| match one.plane {
        Some(Plane::Istio) => unlimited(),
        _ => Value::Null,
    });
    let paths = ["/limits/cpu", "/requests/cpu", "/limits/memory", "/requests/memory"];
    for (name, path) in names.into_iter().zip(paths) {
        if let Some(value) = values.pointer(path).and_then(Value::as_str) {
            mark(name, value.to_owned());
        }
    }
    marks
}

pub(super) fn namespaces(contenders: &[PreparedSystem<'_>]) -> Vec<Value> {
    let one = |one: &PreparedSystem<'_>| {
        let mut labels = json!({"app.kubernetes.io/part-of": "bakeoff"});
        if one.plane == Some(Plane::Istio) {
            labels["istio-injection"] = "enabled".into();
        }
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": one.namespace(), "labels": labels},
        })
    };
    contenders.iter().map(one).collect()
}

pub(super) fn applications(contenders: &[PreparedSystem<'_>]) -> Vec<Value> {
    contenders.iter().flat_map(application).collect()
}

fn application(one: &PreparedSystem<'_>) -> Vec<Value> {
    let name = one.application_name();
    let labels = json!({"app": name});
    let mut template_labels = labels.clone();
    if one.plane == Some(Plane::Istio) {
        template_labels["sidecar.istio.io/inject"] = "true".into();
    }
    // The application appends a line break to its answer.
    let words = "bakeoff's test application answers this, whatever it is asked for. ";
    let text: String = words.chars().cycle().take(one.size.saturating_sub(1)).collect();
    let mut container = json!({
        "name": "application",
        "image": IMAGE,
        "args": [format!("-listen=:{PORT}"), format!("-text={text}")],
        "ports": [{"containerPort": PORT, "name": "http"}],
    });
    if let Some(resources) = resources(one.application) {
        container["resources"] = resources;
    }
    let mut service = json!({
        "ports": [{"name": "http", "port": PORT, "targetPort": PORT}],
        "selector": labels,
    });
    if one.plane.is_none() {
        service["type"] = "NodePort".into();
        service["ports"][0]["nodePort"] = one.node_port().into();
    }
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": one.metadata(&name)}),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": one.metadata(&name), "spec": service,
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": one.metadata(&name),
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": template_labels, "annotations": sidecar_marks(one)},
                    "spec": {"serviceAccountName": name, "containers": [container]},
                },
            },
        }),
    ]
}

/// Returns the values for Consul's chart, which also installs the gateways.
pub(super) fn consul_values(contenders: &[PreparedSystem<'_>]) -> Value {
    let gateway = |one: &PreparedSystem<'_>| {
        let ports = json!([{"port": PORT, "nodePort": one.node_port()}]);
        json!({
            "name": one.gateway_name(),
            "replicas": 1,
            "service": {"type": "NodePort", "ports": ports},
            "resources": resources(one.gateway).unwrap_or_else(unlimited),
        })
    };
    let gateways: Vec<Value> = of_plane(contenders, Plane::Consul).map(gateway).collect();
    let plane = of_plane(contenders, Plane::Consul).find_map(|one| one.control_plane);
    let mut global = json!({"name": "consul"});
    let mut server = json!({"replicas": plane.map_or(1, |plane| plane.nodes)});
    // Only a full version names an image. For a partial one, the chart uses its newest.
    let whole = |version: &&str| version.split('.').count() == 3;
    if let Some(version) = plane.and_then(|plane| plane.version.as_deref()).filter(whole) {
        global["image"] = format!("hashicorp/consul:{version}").into();
    }
    let multiplier = plane.and_then(|plane| plane.options.get("raft-multiplier"));
    if let Some(multiplier) = multiplier.and_then(|text| text.parse::<u32>().ok()) {
        let config = json!({"performance": {"raft_multiplier": multiplier}});
        server["extraConfig"] = config.to_string().into();
    }
    json!({
        "global": global,
        "server": server,
        "connectInject": {"enabled": true, "default": false},
        "ingressGateways": {"enabled": true, "gateways": gateways},
    })
}

/// Returns the listeners of Consul's gateways.
pub(super) fn consul_gateways(contenders: &[PreparedSystem<'_>]) -> Vec<Value> {
    let resource = |kind: &str, metadata: Value, spec: Value| {
        json!({
            "apiVersion": "consul.hashicorp.com/v1alpha1",
            "kind": kind, "metadata": metadata, "spec": spec,
        })
    };
    let one = |one: &PreparedSystem<'_>| {
        let application = one.application_name();
        let services = json!([{"name": application, "hosts": ["*"]}]);
        let listeners = json!([{"port": PORT, "protocol": "http", "services": services}]);
        [
            resource("ServiceDefaults", one.metadata(&application), json!({"protocol": "http"})),
            resource(
                "IngressGateway",
                one.metadata(&one.gateway_name()),
                json!({"listeners": listeners}),
            ),
            // Access control needs an intention. Without access control it has no effect.
            resource(
                "ServiceIntentions",
                one.metadata(&application),
                json!({
                    "destination": {"name": application},
                    "sources": [{"name": one.gateway_name(), "action": "allow"}],
                }),
            ),
        ]
    };
    of_plane(contenders, Plane::Consul).flat_map(one).collect()
}

/// Returns Istio's gateways and their listeners. Istio's webhook adds the Envoy.
pub(super) fn istio_gateways(contenders: &[PreparedSystem<'_>]) -> Vec<Value> {
    of_plane(contenders, Plane::Istio).flat_map(istio_gateway).collect()
}

fn istio_gateway(one: &PreparedSystem<'_>) -> Vec<Value> {
    let name = one.gateway_name();
    let labels = json!({"app": name, "istio": name});
    let mut template_labels = labels.clone();
    template_labels["sidecar.istio.io/inject"] = "true".into();
    let mut container = json!({"name": "istio-proxy", "image": "auto"});
    if let Some(resources) = resources(one.gateway) {
        container["resources"] = resources;
    }
    let host = format!("{}.{}.svc.cluster.local", one.application_name(), one.namespace());
    let resource = |api: &str, kind: &str, name: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": one.metadata(name), "spec": spec});
    let networking = "networking.istio.io/v1";
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": one.metadata(&name)}),
        resource(
            "apps/v1",
            "Deployment",
            &name,
            json!({
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {
                        "labels": template_labels,
                        "annotations": {"inject.istio.io/templates": "gateway"},
                    },
                    "spec": {"serviceAccountName": name, "containers": [container]},
                },
            }),
        ),
        resource(
            "v1",
            "Service",
            &name,
            json!({
                "type": "NodePort",
                "selector": labels,
                "ports": [{
                    "name": "http", "port": PORT, "targetPort": PORT, "nodePort": one.node_port(),
                }],
            }),
        ),
        resource(
            networking,
            "Gateway",
            &name,
            json!({
                "selector": {"istio": name},
                "servers": [{
                    "port": {"number": PORT, "name": "http", "protocol": "HTTP"}, "hosts": ["*"],
                }],
            }),
        ),
        resource(
            networking,
            "VirtualService",
            &name,
            json!({
                "hosts": ["*"],
                "gateways": [name],
                "http": [{"route": [{"destination": {"host": host, "port": {"number": PORT}}}]}],
            }),
        ),
        resource(
            "security.istio.io/v1",
            "PeerAuthentication",
            "default",
            json!({
                "mtls": {"mode": "STRICT"},
            }),
        ),
    ]
}
