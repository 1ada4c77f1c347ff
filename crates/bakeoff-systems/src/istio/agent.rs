//! Runs Istio's agent, which starts a proxy's Envoy as in the containers of an Istio mesh.
//!
//! The agent forwards Envoy's configuration from the control plane, and serves it the certificate in its folder over
//! SDS. Both use sockets in the file system. Envoy is its child, so that limits apply to both, as in a container.
//!
//! Not here: the bootstrap of that Envoy (`envoy`).

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use bakeoff_engine::tls::Identity;
use bakeoff_host::{FileMode, NodeFile, NodeSpec};
use serde_json::json;

/// Socket on which the agent serves configuration to Envoy.
pub(crate) const XDS: &str = "./etc/istio/proxy/XDS";
/// Socket on which it serves certificates.
pub(crate) const SDS: &str = "./var/run/secrets/workload-spiffe-uds/socket";
/// Folder in which it looks for a mounted certificate before it requests one.
const CREDENTIALS: &str = "var/run/secrets/workload-spiffe-credentials";

/// Agent of one proxy.
pub(crate) struct Agent {
    pub(crate) program: PathBuf,
    /// Proxy type: `router` or `sidecar`.
    pub(crate) kind: &'static str,
    /// Name of the proxy's pod in the control plane.
    pub(crate) pod: &'static str,
    /// Address in the proxy's name.
    pub(crate) ip: IpAddr,
    /// Address at which the control plane serves configuration.
    pub(crate) discovery: SocketAddr,
    /// Port reserved for its status server; `None` if the control plane has one at the same address.
    pub(crate) status: Option<u16>,
    pub(crate) identity: Identity,
    /// Certificate authority to trust, in PEM.
    pub(crate) ca_pem: String,
}

impl Agent {
    /// Replaces the Envoy that `spec` describes with the agent, which starts it.
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
            // The agent needs a status port, which is unused here and would listen on all interfaces. So it gets a
            // port that is taken: it reports that it cannot bind it, and continues.
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
