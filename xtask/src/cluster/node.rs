//! Starts the servers of a node on its own machine: containerd, kubelet and the service proxy.
//!
//! Not here: the machine itself (`machine`), its addresses (`network`).

use std::path::Path;
use std::time::Duration;

use super::control::DOMAIN;
use super::error::ClusterError;
use super::network::{CONTROL, PODS, pod_subnet};
use super::process::{Server, finish, last_lines, wait_until};
use super::programs::Programs;
use super::run::{Machine, Run};

/// Image of a pod's first container, which holds its namespaces.
pub(super) const PAUSE: &str = "localhost/bakeoff-pause:1";
/// containerd's socket, in a folder that each node has to itself.
pub(super) const SOCKET: &str = "/run/containerd/containerd.sock";

const READY: Duration = Duration::from_secs(60);
const BRIEF: Duration = Duration::from_secs(20);

/// Method of layering the files of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Snapshots {
    /// With the kernel's overlay file system.
    Overlay,
    /// With copies, if the run folder itself is on an overlay.
    Copies,
}

/// Machine of a node, and the means to start servers on it.
pub(super) struct Node<'a> {
    pub(super) run: &'a Run,
    pub(super) programs: &'a Programs,
    pub(super) machine: &'a Machine,
    /// Number of the node, from 1.
    pub(super) number: usize,
}

impl Node<'_> {
    fn name(&self) -> &str {
        &self.machine.name
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.name())
    }

    pub(super) fn start_containerd(&self, snapshots: Snapshots) -> Result<Server, ClusterError> {
        for folder in ["cni", "containerd", "opt"] {
            self.run.make_folder(&self.file(folder))?;
        }
        let conflist = conflist(&pod_subnet(self.number), &self.run.path(&self.file("addresses")));
        self.run.write(&self.file("cni/10-pods.conflist"), &conflist)?;
        let config = containerd_config(self, snapshots);
        let config = self.run.write(&self.file("containerd.toml"), &config)?;
        let mut containerd = self.machine.command(self.programs, &self.programs.tool("containerd"));
        containerd.arg("--config").arg(config);
        Server::start(self.run, &format!("containerd-{}", self.name()), containerd)
    }

    pub(super) fn await_containerd(&self, containerd: &mut Server) -> Result<(), ClusterError> {
        let log = self.run.log(containerd.name());
        let answers = || {
            containerd.check(self.run)?;
            let mut ctr = self.machine.command(self.programs, &self.programs.tool("ctr"));
            ctr.args(["--address", SOCKET, "--namespace", "k8s.io", "images", "list", "--quiet"]);
            Ok(finish(&mut ctr, BRIEF).is_ok())
        };
        let late = || ClusterError::NotReady {
            what: format!("containerd of {}", self.name()),
            within: READY,
            last: last_lines(&log, 5),
            log: log.clone(),
        };
        wait_until(READY, answers, late)
    }

    /// Starts the kubelet, with its pods in an existing cgroup.
    pub(super) fn start_kubelet(&self, cgroup: &str) -> Result<Server, ClusterError> {
        let config = self.run.write(&self.file("kubelet.yaml"), &kubelet_config(self, cgroup))?;
        let mut kubelet = self.machine.command(self.programs, &self.programs.kubernetes);
        kubelet.arg("kubelet");
        let paths = [
            ("config", config),
            ("kubeconfig", self.run.kubeconfig()),
            ("root-dir", self.run.path(&self.file("kubelet"))),
            ("cert-dir", self.run.path(&self.file("pki"))),
        ];
        for (option, path) in paths {
            kubelet.arg(format!("--{option}={}", path.display()));
        }
        kubelet.arg(format!("--hostname-override={}", self.name()));
        kubelet.arg(format!("--node-ip={}", self.machine.address));
        Server::start(self.run, &format!("kubelet-{}", self.name()), kubelet)
    }

    /// Starts the proxy for the addresses of services.
    pub(super) fn start_proxy(&self) -> Result<Server, ClusterError> {
        let mut proxy = self.machine.command(self.programs, &self.programs.kubernetes);
        // Zero keeps a kernel setting, because some of them apply to the whole host.
        proxy.args([
            "kube-proxy",
            "--proxy-mode=nftables",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            "--oom-score-adj=0",
        ]);
        proxy.arg(format!("--kubeconfig={}", self.run.kubeconfig().display()));
        proxy.arg(format!("--hostname-override={}", self.name()));
        proxy.arg(format!("--cluster-cidr={PODS}"));
        Server::start(self.run, &format!("kube-proxy-{}", self.name()), proxy)
    }
}

/// Returns the settings of the bridge and the addresses of the node's pods.
fn conflist(subnet: &str, addresses: &Path) -> String {
    serde_json::json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            "ipMasq": false,
            "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "dataDir": addresses,
                "ranges": [[{"subnet": subnet}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    })
    .to_string()
}

fn containerd_config(node: &Node<'_>, snapshots: Snapshots) -> String {
    let folder = |name: &str| node.run.path(&node.file(name)).display().to_string();
    let snapshotter = match snapshots {
        Snapshots::Overlay => "overlayfs",
        Snapshots::Copies => "native",
    };
    // `restrict_oom_score_adj` is needed to start pods without CAP_SYS_RESOURCE.
    format!(
        r#"version = 2
root = {root:?}
state = "/run/containerd/state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = {opt:?}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  tolerate_missing_hugetlb_controller = true
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {plugins:?}
    conf_dir = {conf:?}
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      BinaryName = {runc:?}
      Root = "/run/runc"
"#,
        root = folder("containerd"),
        opt = folder("opt"),
        conf = folder("cni"),
        plugins = node.programs.network_plugins().display().to_string(),
        runc = node.programs.tool("runc").display().to_string(),
    )
}

/// Returns the kubelet's settings. Pods only use the cluster's DNS, and the disk may be nearly full, as on test
/// machines.
fn kubelet_config(node: &Node<'_>, cgroup: &str) -> String {
    let folder = |name: &str| node.run.path(&node.file(name));
    serde_json::json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": false},
            "x509": {"clientCAFile": node.run.path("pki/ca.crt")},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        "clusterDNS": [CONTROL],
        "clusterDomain": DOMAIN,
        "resolvConf": "",
        "makeIPTablesUtilChains": false,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "failSwapOn": false,
        "oomScoreAdj": 0,
        "podLogsDir": folder("podlogs"),
        "volumePluginDir": folder("volume-plugins"),
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
    })
    .to_string()
}
