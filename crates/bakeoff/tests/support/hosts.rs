//! Provides test hosts: namespaces joined by a bridge, each with its own processes, mounts, address and a real `sshd`.
//!
//! Addresses are from 198.18.0.0/15 (reserved for benchmarks by RFC 2544), without a route outside. A host is the first
//! process of its namespace: if it ends, everything on the host ends and the namespaces disappear. Needs root.
//!
//! Not here: the programs on the hosts.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bakeoff_agent::AgentExecutable;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::debian::{ANSWER, DebianProgram, finish, library_folders, on_path};
use super::skip::SkipReason;
use super::{BASELINE_FOR, BRIEFLY};

/// Address of the coordinator, next to the hosts.
pub(crate) const COORDINATOR: &str = "198.18.0.254";

const SSHD: DebianProgram = DebianProgram {
    package: "openssh-server",
    adjacent: &["openssh-client", "iproute2"],
    there_already: &["libc6", "debconf", "init-system-helpers", "lsb-base", "runit-helper", "ucf"],
    file: None,
    // It has no command that succeeds without effect. Its refusal of an option shows that it runs.
    runs: |tree| {
        let sshd = tree.join("usr/sbin/sshd");
        match finish("sshd", with_libraries(tree, &sshd).arg("-?"), ANSWER) {
            Err(why) if !why.contains("OpenSSH") => Err(why),
            _ => Ok(()),
        }
    },
};

fn with_libraries(tree: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    let folders = library_folders(tree);
    let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    command.env("LD_LIBRARY_PATH", folders.join(":"));
    command
}

/// Hosts that reach each other, and the coordinator's namespace.
pub(crate) struct Hosts {
    dir: tempfile::TempDir,
    tree: PathBuf,
    /// Holds the bridge, on the coordinator's side.
    switch: Child,
    hosts: Vec<Child>,
}

impl Hosts {
    /// Creates `count` hosts with this bakeoff in their caches, as after an earlier run: sending it takes longer than
    /// most tests.
    pub(crate) fn new(count: usize) -> Result<Self, SkipReason> {
        let hosts = Self::bare(count)?;
        static SENT: LazyLock<AgentExecutable> = LazyLock::new(|| {
            AgentExecutable::read(Path::new(env!("CARGO_BIN_EXE_bakeoff"))).unwrap()
        });
        let copy = hosts.dir().join("agent");
        fs::copy(&SENT.path, &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o700)).unwrap();
        for number in 1..=count {
            let agents = hosts.own(number).join("cache/bakeoff/agents");
            fs::create_dir_all(&agents).unwrap();
            fs::hard_link(&copy, agents.join(format!("bakeoff-{}", SENT.sha256))).unwrap();
        }
        Ok(hosts)
    }

    /// Creates `count` hosts without a cached bakeoff.
    pub(crate) fn bare(count: usize) -> Result<Self, SkipReason> {
        if !rustix::process::geteuid().is_root() {
            return Err(SkipReason::Machine("namespaces with addresses need root".to_owned()));
        }
        let tree = SSHD.tree()?;
        let dir = tempfile::tempdir().map_err(|error| SkipReason::Machine(error.to_string()))?;
        let mut hosts =
            Self { dir, tree, switch: held(&["--net"], "exec sleep 3600"), hosts: Vec::new() };
        hosts.make(count).map_err(|why| {
            SkipReason::Machine(format!("this machine makes no hosts of namespaces: {why}"))
        })?;
        Ok(hosts)
    }

    fn make(&mut self, count: usize) -> Result<(), String> {
        let keygen = |file: &Path| {
            let program = on_path("ssh-keygen").unwrap_or(self.tree.join("usr/bin/ssh-keygen"));
            let mut command = with_libraries(&self.tree, &program);
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file);
            finish("ssh-keygen", &mut command, ANSWER)
        };
        let path = self.dir.path().to_owned();
        keygen(&path.join("user"))?;
        keygen(&path.join("host"))?;
        for folder in [&path, &path.join("bin")] {
            fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        // A shell without start-up files, which would run for each connection.
        let passwd = format!(
            "root:x:0:0::{}:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n\
             sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n",
            path.display()
        );
        fs::write(path.join("passwd"), passwd).map_err(|error| error.to_string())?;
        if on_path("ssh").is_none() {
            let libraries: Vec<_> = library_folders(&self.tree);
            let libraries: Vec<_> = libraries.iter().map(|one| one.display().to_string()).collect();
            let script = format!(
                "#!/bin/sh\nLD_LIBRARY_PATH={} exec {} \"$@\"\n",
                libraries.join(":"),
                self.tree.join("usr/bin/ssh").display()
            );
            let ssh = path.join("bin/ssh");
            fs::write(&ssh, script).map_err(|error| error.to_string())?;
            fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).ok();
        }
        settle(&self.switch)?;
        self.ip_in(&self.switch, "link set lo up")?;
        self.ip_in(&self.switch, "link add br0 type bridge")?;
        self.ip_in(&self.switch, &format!("addr add {COORDINATOR}/24 dev br0"))?;
        self.ip_in(&self.switch, "link set br0 up")?;
        let mut config = String::new();
        for number in 1..=count {
            self.host(number)?;
            config.push_str(&format!(
                "Host h{number}\n  HostName {}\n  User root\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
                 StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n  \
                 KexAlgorithms curve25519-sha256\n  Ciphers aes128-gcm@openssh.com\n",
                Self::address(number),
                path.join("user").display()
            ));
        }
        fs::write(path.join("ssh_config"), config).map_err(|error| error.to_string())?;
        for number in 1..=count {
            self.await_ssh(number)?;
        }
        Ok(())
    }

    /// Starts a host with its address and `sshd`.
    fn host(&mut self, number: usize) -> Result<(), String> {
        let path = self.dir.path();
        let own = path.join(format!("h{number}"));
        for folder in ["data", "cache"] {
            fs::create_dir_all(own.join(folder)).map_err(|error| error.to_string())?;
        }
        let config = format!(
            "Port 22\nListenAddress {}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes no\n\
             PermitRootLogin yes\nPasswordAuthentication no\nMaxStartups 100\nSetEnv XDG_CACHE_HOME={}\n",
            Self::address(number),
            path.join("host").display(),
            path.join("user.pub").display(),
            own.join("cache").display()
        );
        fs::write(own.join("sshd_config"), config).map_err(|error| error.to_string())?;
        let script = format!(
            "mount -t tmpfs none /run && mkdir /run/sshd && mount --bind {} /etc/passwd || exit 1\n\
             while [ ! -e {} ]; do sleep 0.02; done\n\
             {} -D -e -f {} 2>{} & wait",
            path.join("passwd").display(),
            own.join("up").display(),
            self.tree.join("usr/sbin/sshd").display(),
            own.join("sshd_config").display(),
            own.join("sshd.log").display(),
        );
        let host = with_libraries(&self.tree, Path::new("unshare"))
            .args(["--net", "--pid", "--mount", "--uts", "--fork", "--kill-child", "--mount-proc"])
            .args(["--", "sh", "-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        settle(&host)?;
        let pid = inner(&host)?;
        let end = format!("p{number}");
        self.ip_in(&self.switch, &format!("link add {end} type veth peer name eth0 netns {pid}"))?;
        self.ip_in(&self.switch, &format!("link set {end} master br0 up"))?;
        self.ip_at(pid, "link set lo up")?;
        self.ip_at(pid, &format!("addr add {}/24 dev eth0", Self::address(number)))?;
        self.ip_at(pid, "link set eth0 up")?;
        fs::write(own.join("up"), "").map_err(|error| error.to_string())?;
        self.hosts.push(host);
        Ok(())
    }

    fn await_ssh(&self, number: usize) -> Result<(), String> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let ssh = self
                .command("ssh")
                .arg("-F")
                .arg(self.config())
                .args(["-o", "BatchMode=yes"])
                .arg(format!("h{number}"))
                .arg("true")
                .output();
            let seen = match ssh {
                Ok(ended) if ended.status.success() => return Ok(()),
                Ok(ended) => String::from_utf8_lossy(&ended.stderr).into_owned(),
                Err(error) => error.to_string(),
            };
            if Instant::now() > until {
                let log = self.dir.path().join(format!("h{number}/sshd.log"));
                let log = fs::read_to_string(log).unwrap_or_default();
                return Err(format!("h{number} is not reachable: {seen}\n{log}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the address of a host, counted from 1.
    pub(crate) fn address(number: usize) -> String {
        format!("198.18.0.{number}")
    }

    /// Returns a host's folder.
    pub(crate) fn own(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("h{number}"))
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn listener(&self) -> TcpListener {
        let namespace = fs::File::open(format!("/proc/{}/ns/net", self.switch.id())).unwrap();
        // A separate thread enters the namespace; its sockets stay there.
        let listen = move || {
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), network).unwrap();
            TcpListener::bind((COORDINATOR, 0)).unwrap()
        };
        std::thread::spawn(listen).join().unwrap()
    }

    /// Returns an `ssh` configuration that names the hosts `h1`, `h2`, ….
    pub(crate) fn config(&self) -> PathBuf {
        self.dir.path().join("ssh_config")
    }

    /// Returns a command in the coordinator's namespace.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.switch.id().to_string(), "-n", "--", program]);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:{}", self.dir.path().join("bin").display()));
        command.env(BASELINE_FOR, BRIEFLY);
        command
    }

    /// Returns a host's address on the inner network of the hosts.
    pub(crate) fn inner_address(number: usize) -> String {
        format!("198.19.0.{number}")
    }

    /// Adds an inner network of the hosts, which the coordinator cannot reach.
    pub(crate) fn join_inner_network(&self) {
        for (host, number) in self.hosts.iter().zip(1..) {
            let add = format!("addr add {}/24 dev eth0", Self::inner_address(number));
            self.ip_at(inner(host).unwrap(), &add).unwrap();
        }
    }

    /// Returns the number of connections that a host's inner address has with itself.
    pub(crate) fn connections_with_itself(&self, number: usize) -> usize {
        let Ok(pid) = inner(&self.hosts[number - 1]) else { return 0 };
        let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
        let address: std::net::Ipv4Addr = Self::inner_address(number).parse().unwrap();
        // As the kernel writes it: bytes in native order, and state 01 for established.
        let address = format!("{:08X}:", u32::from_ne_bytes(address.octets()));
        let is_one = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, from, to, "01", ..] = words[..] else { return false };
            from.starts_with(&address) && to.starts_with(&address)
        };
        table.lines().filter(is_one).count()
    }

    /// Writes a places file; `servers` and `generators` are hosts by number.
    pub(crate) fn places(&self, servers: &[usize], generators: &[usize]) -> PathBuf {
        self.places_at(servers, generators, Self::address)
    }

    /// Writes a places file with other addresses.
    pub(crate) fn places_at(
        &self,
        servers: &[usize],
        generators: &[usize],
        address: impl Fn(usize) -> String,
    ) -> PathBuf {
        let mut text = String::from("machines:\n");
        for number in 1..=self.hosts.len() {
            text.push_str(&format!(
                "  h{number}: {{ssh: h{number}, address: {}, data: {}, servers: {}, generator: {}}}\n",
                address(number),
                self.own(number).join("data").display(),
                servers.contains(&number),
                generators.contains(&number),
            ));
        }
        text.push_str(&format!("ssh: [-F, {}, -o, ConnectTimeout=60]\n", self.config().display()));
        let file = self.dir.path().join("places.yaml");
        fs::write(&file, text).unwrap();
        file
    }

    /// Returns the process that holds a host.
    pub(crate) fn process(&self, number: usize) -> u32 {
        self.hosts[number - 1].id()
    }

    /// Disconnects a host from the network, or connects it again.
    pub(crate) fn connect(&self, number: usize, connected: bool) {
        let state = if connected { "up" } else { "down" };
        self.ip_in(&self.switch, &format!("link set p{number} {state}")).unwrap();
    }

    /// Ends a host with all its processes.
    pub(crate) fn kill(&mut self, number: usize) {
        let host = &mut self.hosts[number - 1];
        host.kill().unwrap();
        host.wait().unwrap();
    }

    /// Returns the `ps` lines of a host's processes with these words in their command line.
    pub(crate) fn processes(&self, number: usize, words: &str) -> Vec<String> {
        let Ok(pid) = inner(&self.hosts[number - 1]) else { return Vec::new() };
        let mut found = Vec::new();
        for entry in
            fs::read_dir(Path::new("/proc").join(pid.to_string()).join("root").join("proc"))
                .into_iter()
                .flatten()
                .flatten()
        {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(words) {
                found.push(format!("{} {line}", entry.file_name().to_string_lossy()));
            }
        }
        found
    }

    fn ip_in(&self, of: &Child, words: &str) -> Result<(), String> {
        self.ip_at(of.id(), words)
    }

    fn ip_at(&self, pid: u32, words: &str) -> Result<(), String> {
        let ip = ["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"].map(PathBuf::from);
        let ip = ip.into_iter().find(|ip| ip.is_file()).unwrap_or(self.tree.join("bin/ip"));
        let mut command = with_libraries(&self.tree, Path::new("nsenter"));
        command.args(["-t", &pid.to_string(), "-n", "--"]).arg(ip).args(words.split(' '));
        finish(&format!("ip {words}"), &mut command, ANSWER).map(drop)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in self.hosts.iter_mut().chain([&mut self.switch]) {
            host.kill().ok();
            host.wait().ok();
        }
    }
}

/// Starts a process in new namespaces.
fn held(namespaces: &[&str], script: &str) -> Child {
    Command::new("unshare")
        .args(namespaces)
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("util-linux is there")
}

/// Waits until a process has left our network namespace.
fn settle(of: &Child) -> Result<(), String> {
    let ours = fs::read_link("/proc/self/ns/net").map_err(|error| error.to_string())?;
    for _ in 0..250 {
        match fs::read_link(format!("/proc/{}/ns/net", of.id())) {
            Ok(theirs) if theirs != ours => return Ok(()),
            Ok(_) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(format!("`unshare` ended: {error}")),
        }
    }
    Err("`unshare` made no namespace within 5 s".to_owned())
}

/// Returns the outer process id of the first process of a host's namespace.
fn inner(host: &Child) -> Result<u32, String> {
    for _ in 0..250 {
        let children = format!("/proc/{0}/task/{0}/children", host.id());
        let children = fs::read_to_string(children).unwrap_or_default();
        if let Some(pid) = children.split_whitespace().next().and_then(|pid| pid.parse().ok()) {
            return Ok(pid);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("a host has no first process".to_owned())
}

/// A canary that the hosts can reach; killed when dropped.
pub(crate) struct CanaryNextTo {
    process: Child,
    pub(crate) address: String,
}

impl CanaryNextTo {
    /// Starts a canary. `command` runs bakeoff in the hosts' network.
    pub(crate) fn start(hosts: &Hosts, mut command: Command) -> Self {
        let listen = format!("{COORDINATOR}:0");
        command.args(["__canary", "--listen", &listen, "--sync", "none", "--data"]);
        command.arg(hosts.dir().join("canary"));
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            line.unwrap().strip_prefix("canary: listening on ").map(str::to_owned)
        });
        std::thread::spawn(move || lines.for_each(drop)); // a full pipe would stop it
        Self { process, address: address.expect("a canary says where it listens") }
    }

    /// Returns one of its counters.
    pub(crate) fn stat(&self, hosts: &Hosts, name: &str) -> u64 {
        let script = format!(
            "exec 3<>/dev/tcp/{} && printf 'GET /stats HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n' \
             >&3 && cat <&3",
            self.address.replace(':', "/")
        );
        let output = hosts.command("bash").args(["-c", &script]).output().unwrap();
        let output = String::from_utf8_lossy(&output.stdout);
        let (_, body) = output.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{output}"));
        serde_json::from_str::<serde_json::Value>(body).unwrap()[name].as_u64().expect(name)
    }
}

impl Drop for CanaryNextTo {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
