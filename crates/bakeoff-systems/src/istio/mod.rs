//! Runs Istio's control plane as a part, without Kubernetes. It reads its configuration from files.
//!
//! The files hold the workloads and their addresses as `ServiceEntry` and `WorkloadEntry`, which Kubernetes would
//! otherwise know. The rest equals a mesh in Kubernetes. No server signs certificates for workloads here. bakeoff's
//! own authority issues them with the names that Istio uses (SPIFFE), and Istio's agent serves them to Envoy like any
//! mounted certificate. The proxies are stock Envoys. The filters of Istio's own build, which collect metrics, are
//! switched off, and with them their cost.
//!
//! Not here: the start of a proxy (`agent`), Envoy itself (`envoy`).

pub(crate) mod agent;
mod config;
pub(crate) mod recipe;

use std::net::IpAddr;
use std::path::PathBuf;

use bakeoff_core::record::{Guarantees, Setting};
use bakeoff_core::study::{self, Kind};
use bakeoff_engine::tls::Authority;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, Location, NodeFile, NodeSpec};
use bakeoff_install::InstalledProgram;
use serde_json::json;

use super::declaration::{
    Declaration, GuaranteeRules, InKubernetes, KubernetesRole, Origin, Plane,
};
use super::http_session::ask;
use super::mesh::{self, Mesh, Proxy, ProxyEndpoint, TakesChanges, Upstream};
use super::{
    Access, COMPOSITE, ClusterStatus, DescribeContext, Description, Memory, NotReady, System,
    setting,
};
use agent::Agent;

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &Istio;

#[derive(Debug)]
pub(crate) struct Istio;

/// Namespace of the whole mesh.
const NAMESPACE: &str = "default";
/// Trust domain of its certificates: Istio's default.
const TRUST_DOMAIN: &str = "cluster.local";
/// Names of the pods and their service accounts.
const GATEWAY: &str = "gateway";
const APPLICATION: &str = "application";

/// File of the gateway's routes.
const ROUTES: &str = "config/VirtualService.yaml";

/// Features that are off, because a stock Envoy lacks the filters or Kubernetes is missing.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("PILOT_ENABLE_METADATA_EXCHANGE", "false"),
    ("PILOT_ENABLE_ALPN_FILTER", "false"),
    ("ENABLE_CA_SERVER", "false"),
    ("PILOT_CERT_PROVIDER", "none"),
    ("ENABLE_LEADER_ELECTION", "false"),
    ("POD_NAME", "istiod"),
    ("POD_NAMESPACE", "istio-system"),
];

impl System for Istio {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, ..GuaranteeRules::default() },
            starts_adjacent: true,
            in_kubernetes: Some(InKubernetes {
                does: KubernetesRole::Controls(Plane::Istio),
                carries: &[],
            }),
            ..Declaration::new(Kind::new("istio"), Origin::Recipe(&recipe::RECIPE))
        }
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError> {
        let installed = context.installed()?;
        let name = context.node_names().next().unwrap_or_default();
        let agent = installed.adjacent("pilot-agent").ok_or_else(|| {
            unsound(&name, "`pilot-agent` is missing next to its program `pilot-discovery`")
        })?;
        let application = mesh::node_of(context, mesh::APPLICATION)?.target.address;
        let (location, gateway) = (context.location(0), mesh::location_of(context, COMPOSITE)?);
        let sidecar = mesh::location_of(context, mesh::SIDECAR)?;
        if application.ip() != sidecar.address {
            let problem = "Istio's sidecar reaches an application at its own address only";
            return Err(unsound(&name, problem));
        }
        let plane = ControlPlane::listening(name, location, ports)?;
        let plan = config::Plan {
            gateway: gateway.at(ports.take_for(gateway)?),
            sidecar: sidecar.at(ports.take_for(sidecar)?),
            application: application.port(),
            mutual_tls: mesh::has_mutual_tls(context.composite),
        };
        let authority =
            Authority::new().map_err(|error| unsound(&plane.name, &error.to_string()))?;
        let router = Pod {
            kind: "router",
            name: GATEWAY,
            ip: gateway_ip(gateway, sidecar),
            location: gateway,
        };
        let workload =
            Pod { kind: "sidecar", name: APPLICATION, ip: sidecar.address, location: sidecar };
        let mut proxy = |pod: Pod, port: u16| -> Result<Proxy, HostError> {
            let agent = plane.agent(pod, agent.clone(), &authority, ports)?;
            Ok(pod.proxy(port, &installed.version, agent))
        };
        let memory = Memory::default();
        memory.keep(Mesh {
            gateway: proxy(router, plan.gateway.port())?,
            sidecar: proxy(workload, plan.sidecar.port())?,
            mutual_tls: plan.mutual_tls,
            takes: {
                let plan = plan.clone();
                TakesChanges::ByFile(ROUTES, Box::new(move |change| plan.routes(Some(change))))
            },
        });
        let node = plane.node(context, installed, &plan);
        Ok(Description {
            nodes: vec![node],
            settings: settings(),
            memory,
            ..Description::default()
        })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        let node = nodes.first().ok_or("it has no nodes")?;
        // `/ready` returns 503 unless there is a Kubernetes cluster. This path answers only after the files are read.
        // A client on another machine without a certificate gets 401.
        match ask(node, "GET", "/debug/syncz")? {
            (200 | 401, _) => Ok(ClusterStatus::default()),
            (status, reply) => {
                Err(format!("`{}` answered {status}: {}", node.name, reply.trim()).into())
            }
        }
    }
}

/// Node of the control plane: its name, its location, and its ports.
struct ControlPlane {
    name: String,
    location: Location,
    client: u16,
    grpc: u16,
    monitoring: u16,
}

impl ControlPlane {
    fn listening(
        name: String,
        location: Location,
        ports: &mut Allocator,
    ) -> Result<Self, HostError> {
        let mut port = || ports.take_for(location);
        let (client, grpc, monitoring) = (port()?, port()?, port()?);
        Ok(Self { name, location, client, grpc, monitoring })
    }

    /// Returns the agent of a proxy, with a certificate for the name that Istio gives to its pod.
    fn agent(
        &self,
        pod: Pod,
        program: PathBuf,
        authority: &Authority,
        ports: &mut Allocator,
    ) -> Result<Agent, HostError> {
        let status =
            (pod.location != self.location).then(|| ports.take_for(pod.location)).transpose()?;
        let uri = format!("spiffe://{TRUST_DOMAIN}/ns/{NAMESPACE}/sa/{}", pod.name);
        let identity =
            authority.workload(&uri).map_err(|error| unsound(&self.name, &error.to_string()))?;
        Ok(Agent {
            program,
            kind: pod.kind,
            pod: pod.name,
            ip: pod.ip,
            discovery: self.location.at(self.grpc),
            status,
            identity,
            ca_pem: authority.ca_pem(),
        })
    }

    /// Describes `pilot-discovery`, which reads the mesh from files.
    fn node(
        self,
        context: &DescribeContext<'_>,
        installed: &InstalledProgram,
        plan: &config::Plan,
    ) -> NodeSpec {
        let Self { name, location, client, grpc, monitoring } = self;
        let dir = context.dir.join(&name);
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        let at = |port: u16| location.at(port).to_string();
        let args = [
            "discovery".to_owned(),
            "--registries=".to_owned(),
            format!("--meshConfig={}", dir.join("mesh.yaml").display()),
            "--networksConfig=/dev/null".to_owned(),
            format!("--httpAddr={}", at(client)),
            format!("--grpcAddr={}", at(grpc)),
            "--httpsAddr=".to_owned(),
            "--secureGRPCAddr=".to_owned(),
            format!("--monitoringAddr={}", at(monitoring)),
            "--ctrlz_port=0".to_owned(),
        ];
        let file = |path: &str, text: String| NodeFile {
            path: path.into(),
            contents: text.into_bytes(),
            mode: FileMode::Readable,
        };
        let mut files = vec![file("mesh.yaml", config::mesh(&dir.join("config")))];
        let resources = plan.resources().into_iter();
        files.extend(resources.map(|(name, text)| file(&format!("config/{name}"), text)));
        NodeSpec {
            program: (&installed.command()[0]).into(),
            args: args.into_iter().map(Into::into).collect(),
            env: ENVIRONMENT.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
            files,
            dir,
            location,
            ports: vec![
                ("client".into(), client),
                ("grpc".into(), grpc),
                ("monitoring".into(), monitoring),
            ],
            limits: context.system.limits.clone(),
            name,
            ..NodeSpec::default()
        }
    }
}

/// A pod's replacement: a proxy's type, its name in the mesh, and its location.
#[derive(Clone, Copy)]
struct Pod {
    /// Proxy type: `router` or `sidecar`.
    kind: &'static str,
    name: &'static str,
    /// Address in its name.
    ip: IpAddr,
    location: Location,
}

impl Pod {
    fn proxy(self, port: u16, version: &str, agent: Agent) -> Proxy {
        Proxy {
            port,
            node: self.node(version),
            clusters: vec![
                Upstream { name: "xds-grpc", at: ProxyEndpoint::Pipe(agent::XDS) },
                Upstream { name: "sds-grpc", at: ProxyEndpoint::Pipe(agent::SDS) },
            ],
            agent: Some(agent),
        }
    }

    /// Returns Envoy's `node`, which identifies a proxy.
    fn node(self, version: &str) -> serde_json::Value {
        let Self { kind, name, ip, .. } = self;
        json!({
            "id": format!("{kind}~{ip}~{name}.{NAMESPACE}~{NAMESPACE}.svc.{TRUST_DOMAIN}"),
            "cluster": format!("{name}.{NAMESPACE}"),
            "metadata": {
                "INTERCEPTION_MODE": "NONE",
                "ISTIO_VERSION": version,
                "LABELS": {"app": name},
                "NAMESPACE": NAMESPACE,
                "NAME": name,
                "SERVICE_ACCOUNT": name,
                "WORKLOAD_NAME": name,
            },
        })
    }
}

fn unsound(node: &str, problem: &str) -> HostError {
    HostError::Spec { node: node.to_owned(), problem: problem.to_owned() }
}

/// Returns the settings that differ from a mesh in Kubernetes, with their reasons.
fn settings() -> Vec<Setting> {
    vec![
        setting("registries", "none", "it runs without Kubernetes, from equivalent files"),
        setting(
            "PILOT_ENABLE_METADATA_EXCHANGE, PILOT_ENABLE_ALPN_FILTER",
            false,
            "the proxies are a stock Envoy, which lacks these filters of Istio's own build",
        ),
        setting(
            "ENABLE_CA_SERVER",
            false,
            "workloads have certificates of bakeoff's authority; it signs with an account's token",
        ),
    ]
}

/// Returns the guarantees under these options.
fn guarantees(_: &study::System) -> Guarantees {
    Guarantees {
        replication: "none: its configuration is in files".into(),
        acknowledged: "nothing is written".into(),
        reads: "the contents of the files".into(),
        ..Guarantees::default()
    }
}

/// Returns the address in the gateway's name. Istio assigns a sidecar to the application by this address, so the
/// gateway needs a different one even on the same address. Nothing connects to it.
fn gateway_ip(gateway: Location, sidecar: Location) -> IpAddr {
    let stands_in = [[127, 0, 0, 2], [127, 0, 0, 1]].map(IpAddr::from);
    let all = [gateway.address].into_iter().chain(stands_in);
    let mut others = all.filter(|address| *address != sidecar.address);
    others.next().expect("two addresses differ")
}
