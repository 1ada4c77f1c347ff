//! Starts the machines of a cluster. Each is a set of namespaces with a first process, and ends with it.
//!
//! A machine has its own mounts, processes, network and host name. Killing its first process therefore removes
//! everything that a node's programs mount, start and bind, in any state. `/run`, `/var/lib` and `/var/log` start
//! empty, so that the programs neither see nor write those of the host.
//!
//! Not here: the programs on a machine (`control`, `node`), the network between them (`network`), cgroups (`cgroup`),
//! which belong to no namespace.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::error::ClusterError;
use super::process::{Server, child_of, last_lines, wait_until};
use super::process_id::ProcessId;
use super::programs::Programs;
use super::run::{Machine, Run};

/// Longest time for a machine to start.
const STARTED: Duration = Duration::from_secs(20);

/// Kernel settings that a kubelet would change for the whole host. It reads these copies with the wanted values
/// instead.
const TUNABLES: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Prepares the mounts of a machine and becomes its first process. Arguments: host name, `ip`, the folder of kernel
/// settings, the first process's program.
const SCRIPT: &str = r#"set -e
for folder in /run /var/lib /var/log; do mount -t tmpfs -o mode=755,size=256m bakeoff "$folder"; done
mkdir -p /run/lock /var/lib/kubelet
(cd "$3" && find . -type f) | while read -r file; do
    if [ -e "/proc/sys/$file" ]; then mount --bind "$3/$file" "/proc/sys/$file"; fi
done
mount --make-rshared /
echo "$1" > /proc/sys/kernel/hostname
echo 1 > /proc/sys/net/ipv4/ip_forward
"$2" link set lo up
exec "$4"
"#;

/// Folders that start empty on a machine. None of bakeoff's files may be in them.
pub(super) const HIDDEN: [&str; 4] = ["/run", "/var/run", "/var/lib", "/var/log"];

pub(super) fn start(
    run: &Run,
    programs: &Programs,
    name: &str,
    address: String,
) -> Result<Machine, ClusterError> {
    let tunables = format!("{name}/tunables");
    for (tunable, value) in TUNABLES {
        let file = format!("{tunables}/{tunable}");
        let folder =
            Path::new(&file).parent().map_or_else(String::new, |dir| dir.display().to_string());
        run.make_folder(&folder)?;
        run.write_with_mode(&file, &format!("{value}\n"), 0o644)?;
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--mount-proc"]);
    unshare.args(["--", "sh", "-c", SCRIPT, "sh", name]).arg(programs.tool("ip"));
    unshare.arg(run.path(&tunables)).arg(&programs.init);
    programs.prepare(&mut unshare);
    let mut server = Server::start(run, &format!("machine-{name}"), unshare)?;
    let log = run.log(server.name());
    let mut init = None;
    wait_until(
        STARTED,
        || {
            server.check(run)?;
            init = child_of(server.id()).filter(|child| executes(*child, &programs.init));
            Ok(init.is_some())
        },
        || ClusterError::NotReady {
            what: format!("machine {name}"),
            within: STARTED,
            last: last_lines(&log, 5),
            log: log.clone(),
        },
    )?;
    let init = init.expect("it was waited for");
    Ok(Machine { name: name.to_owned(), address, init })
}

fn executes(process: ProcessId, program: &Path) -> bool {
    let link = std::fs::read_link(format!("/proc/{}/exe", process.pid));
    link.is_ok_and(|link| program.canonicalize().is_ok_and(|program| program == link))
}

impl Machine {
    /// Returns a command for a program that runs on this machine.
    pub(super) fn command(&self, programs: &Programs, program: &Path) -> Command {
        let mut nsenter = Command::new("nsenter");
        nsenter.arg(format!("--target={}", self.init.pid));
        nsenter.args(["--mount", "--pid", "--net", "--uts", "--ipc", "--"]).arg(program);
        programs.prepare(&mut nsenter);
        nsenter
    }

    /// Returns a command for a program that runs only in this machine's network.
    pub(super) fn in_network(&self, program: &Path) -> Command {
        let mut nsenter = Command::new("nsenter");
        nsenter.arg(format!("--net={}", self.network_namespace())).arg("--").arg(program);
        nsenter
    }

    /// Returns the path of the network namespace: `/proc/4711/ns/net`.
    pub(super) fn network_namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.init.pid)
    }
}
