//! Istio's agent, which starts a proxy's Envoy as it does in every container of an Istio mesh.
//!
//! It passes Envoy's configuration on from the control plane, and serves it the certificate that lies in
//! its folder over SDS, both by sockets in the file system. Envoy is its child, so that limits hold for
//! both, as those of a container do.
//!
//! Not here: the bootstrap of that Envoy (`envoy`).

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use bakeoff_engine::tls::Identity;
use bakeoff_host::{FileMode, NodeFile, NodeSpec};
use serde_json::json;

/// Where the agent serves Envoy its configuration.
pub(crate) const XDS: &str = "./etc/istio/proxy/XDS";
/// Where it serves certificates.
pub(crate) const SDS: &str = "./var/run/secrets/workload-spiffe-uds/socket";
/// Where it looks for a certificate that it need not ask anybody for.
const CREDENTIALS: &str = "var/run/secrets/workload-spiffe-credentials";

/// One proxy's agent.
pub(crate) struct Agent {
    pub(crate) program: PathBuf,
    /// `router` or `sidecar`.
    pub(crate) kind: &'static str,
    /// The proxy's name for the control plane: that of its pod.
    pub(crate) pod: &'static str,
    /// The address in the proxy's name.
    pub(crate) ip: IpAddr,
    /// Where the control plane serves configuration.
    pub(crate) discovery: SocketAddr,
    /// A port that is held for its status server; `None` where the control plane has one at the same address.
    pub(crate) status: Option<u16>,
    pub(crate) identity: Identity,
    /// Who is trusted.
    pub(crate) ca_pem: String,
}

impl Agent {
    /// The agent in place of the Envoy that `spec` describes, which the agent starts.
    pub(crate) fn starting(
        &self,
        spec: NodeSpec,
        bootstrap: &Path,
        admin: u16,
        threads: Option<&str>,
    ) -> NodeSpec {
        let mut config = json!({
            "binaryPath": spec.program,
            "customConfigFile": bootstrap,
            "proxyAdminPort": admin,
            "configPath": "./etc/istio/proxy",
            "discoveryAddress": self.discovery,
            "controlPlaneAuthPolicy": "NONE",
            // For probes and metrics, which nobody asks for here. It would listen on all interfaces and has to
            // be given, so it is a port that is taken: the agent says that it cannot have it, and goes on.
            "statusPort": self.status.unwrap_or(self.discovery.port()),
            "terminationDrainDuration": "0.1s",
        });
        if let Some(threads) = threads.and_then(|threads| threads.parse::<u32>().ok()) {
            config["concurrency"] = threads.into();
        }
        let env = [
            ("PROXY_CONFIG", config.to_string()),
            ("POD_NAME", self.pod.to_owned()),
            ("POD_NAMESPACE", super::NAMESPACE.to_owned()),
            ("INSTANCE_IP", self.ip.to_string()),
            ("SERVICE_ACCOUNT", self.pod.to_owned()),
            ("TRUST_DOMAIN", super::TRUST_DOMAIN.to_owned()),
            ("PILOT_CERT_PROVIDER", "none".to_owned()),
        ];
        let credential = |name: &str, text: &str, mode| NodeFile {
            path: Path::new(CREDENTIALS).join(name),
            contents: text.as_bytes().to_vec(),
            mode,
        };
        let mut files = spec.files;
        files.extend([
            credential("cert-chain.pem", &self.identity.cert_pem, FileMode::Readable),
            credential("key.pem", &self.identity.key_pem, FileMode::Private),
            credential("root-cert.pem", &self.ca_pem, FileMode::Readable),
        ]);
        let own = env.into_iter().map(|(name, value)| (name.to_owned(), value));
        NodeSpec {
            program: self.program.clone(),
            args: ["proxy", self.kind].map(Into::into).to_vec(),
            env: spec.env.into_iter().chain(own).collect(),
            files,
            held: self.status.into_iter().collect(),
            ..spec
        }
    }
}
