//! Starts the control plane on its own machine: etcd, API server, controller manager, scheduler, DNS.
//!
//! etcd does not sync its disk, because the cluster's data is temporary.

use std::process::Command;
use std::time::Duration;

use super::error::ClusterError;
use super::network::{CONTROL, SERVICES};
use super::process::{Server, finish, last_lines, wait_until};
use super::programs::Programs;
use super::run::{Machine, Run};

const READY: Duration = Duration::from_secs(90);
const BRIEF: Duration = Duration::from_secs(30);

/// Domain of the pods' DNS names.
pub(super) const DOMAIN: &str = "cluster.local";

/// Machine of the control plane, and the means to start servers on it.
pub(super) struct Control<'a> {
    pub(super) run: &'a Run,
    pub(super) programs: &'a Programs,
    pub(super) machine: &'a Machine,
}

impl Control<'_> {
    pub(super) fn start_store(&self) -> Result<Vec<Server>, ClusterError> {
        let mut etcd = self.machine.command(self.programs, &self.programs.etcd);
        etcd.arg("--data-dir").arg(self.run.path("control/etcd"));
        let clients = "http://127.0.0.1:2379";
        etcd.args(["--listen-client-urls", clients, "--advertise-client-urls", clients]);
        etcd.args(["--listen-peer-urls", "http://127.0.0.1:2380", "--unsafe-no-fsync"]);
        let etcd = Server::start(self.run, "etcd", etcd)?;

        let mut api = self.kubernetes("kube-apiserver");
        api.args([
            "--etcd-servers=http://127.0.0.1:2379",
            "--authorization-mode=Node,RBAC",
            "--secure-port=6443",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--kubelet-preferred-address-types=InternalIP",
            "--profiling=false",
        ]);
        api.arg(format!("--bind-address={CONTROL}")).arg(format!("--advertise-address={CONTROL}"));
        api.arg(format!("--service-cluster-ip-range={SERVICES}"));
        for (option, file) in [
            ("tls-cert-file", "pki/api.crt"),
            ("tls-private-key-file", "pki/api.key"),
            ("client-ca-file", "pki/ca.crt"),
            ("token-auth-file", "pki/tokens.csv"),
            ("kubelet-client-certificate", "pki/kubelet-client.crt"),
            ("kubelet-client-key", "pki/kubelet-client.key"),
            ("service-account-key-file", "pki/accounts.pub"),
            ("service-account-signing-key-file", "pki/accounts.key"),
        ] {
            self.with_file(&mut api, option, file);
        }
        Ok(vec![etcd, Server::start(self.run, "kube-apiserver", api)?])
    }

    /// Starts the servers that need a running API server.
    pub(super) fn start_controllers(&self) -> Result<Vec<Server>, ClusterError> {
        let mut controllers = self.client("kube-controller-manager");
        self.with_file(&mut controllers, "service-account-private-key-file", "pki/accounts.key");
        self.with_file(&mut controllers, "root-ca-file", "pki/ca.crt");
        // The controller manager creates this folder.
        self.with_file(&mut controllers, "flex-volume-plugin-dir", "control/volume-plugins");
        let controllers = Server::start(self.run, "kube-controller-manager", controllers)?;
        let scheduler = self.client("kube-scheduler");
        let scheduler = Server::start(self.run, "kube-scheduler", scheduler)?;

        let corefile = format!(
            "{DOMAIN}:53 {{\n  errors\n  kubernetes {DOMAIN} {{\n    kubeconfig {} bakeoff\n    ttl 1\n  }}\n}}\n",
            self.run.kubeconfig().display()
        );
        let corefile = self.run.write("control/Corefile", &corefile)?;
        let mut dns = self.machine.command(self.programs, &self.programs.coredns);
        dns.arg("-conf").arg(corefile);
        Ok(vec![controllers, scheduler, Server::start(self.run, "coredns", dns)?])
    }

    pub(super) fn await_api(&self, servers: &mut [Server]) -> Result<(), ClusterError> {
        self.await_that("the API server", "kube-apiserver", servers, || {
            self.kubectl(&["get", "--raw", "/readyz"]).is_ok()
        })
    }

    /// Waits until all nodes are ready and pods can be created.
    pub(super) fn await_nodes(
        &self,
        nodes: &[Machine],
        servers: &mut [Server],
    ) -> Result<(), ClusterError> {
        let conditions = "jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=='Ready')].status} {end}";
        let log = format!("kubelet-{}", nodes.last().map_or("n1", |node| &node.name));
        self.await_that("each node", &log, servers, || {
            let printed = self.kubectl(&["get", "nodes", "-o", conditions]).unwrap_or_default();
            let is_ready = |node: &Machine| {
                let wanted = format!("{}=True", node.name);
                printed.split_whitespace().any(|word| word == wanted)
            };
            nodes.iter().all(is_ready)
        })?;
        self.await_that("the default service account", "kube-controller-manager", servers, || {
            self.kubectl(&["get", "serviceaccount", "default", "--output=name"]).is_ok()
        })
    }

    fn await_that(
        &self,
        what: &str,
        log: &str,
        servers: &mut [Server],
        is_so: impl Fn() -> bool,
    ) -> Result<(), ClusterError> {
        let log = self.run.log(log);
        let late = || ClusterError::NotReady {
            what: what.to_owned(),
            within: READY,
            last: last_lines(&log, 5),
            log: log.clone(),
        };
        let look = || {
            for server in servers.iter_mut() {
                server.check(self.run)?;
            }
            Ok(is_so())
        };
        wait_until(READY, look, late)
    }

    fn kubectl(&self, words: &[&str]) -> Result<String, ClusterError> {
        finish(Command::new(self.run.kubectl()).args(words), BRIEF)
    }

    fn kubernetes(&self, name: &str) -> Command {
        let mut command = self.machine.command(self.programs, &self.programs.kubernetes);
        command.arg(name);
        command
    }

    /// Returns a command for a client of the API server without leader election.
    fn client(&self, name: &str) -> Command {
        let mut command = self.kubernetes(name);
        // With the default limits 200 pods would take 20 s.
        command.args(["--leader-elect=false", "--kube-api-qps=200", "--kube-api-burst=400"]);
        for option in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
            self.with_file(&mut command, option, "kubeconfig");
        }
        // The server writes an unused certificate here.
        self.with_file(&mut command, "cert-dir", &format!("control/{name}"));
        command
    }

    fn with_file(&self, command: &mut Command, option: &str, file: &str) {
        command.arg(format!("--{option}={}", self.run.path(file).display()));
    }
}
