//! Runs a real HAProxy in front of small test servers, if it can be installed.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_host::{Host, Process};

use super::*;
use crate::Neighbour;
use crate::declaration::Health;
use crate::testing::{program, study_system};

/// A system with the health paths `/leader` and `/any`.
#[derive(Debug)]
struct Small;

impl System for Small {
    fn declares(&self) -> Declaration {
        Declaration {
            health: Some(Health { leader: "/leader", any: "/any" }),
            ..Declaration::new(Kind::new("small"), Origin::Bakeoff)
        }
    }

    fn describe(
        &self,
        _: &DescribeContext<'_>,
        _: &mut Allocator,
    ) -> Result<Description, HostError> {
        Ok(Description::default())
    }

    fn probe(&self, _: &[Access]) -> Result<ClusterStatus, NotReady> {
        Ok(ClusterStatus::default())
    }
}

/// Three nodes that each answer their number. `leads` is the leader, `well` the nodes that can serve.
struct Nodes {
    access: Vec<Access>,
    leads: Arc<AtomicUsize>,
    well: Vec<Arc<AtomicBool>>,
}

fn nodes() -> Nodes {
    let leads = Arc::new(AtomicUsize::new(1));
    let (mut access, mut well) = (Vec::new(), Vec::new());
    for number in 0..3 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        access.push(at(listener.local_addr().unwrap(), &format!("small-{number}")));
        let (leads, serves) = (leads.clone(), Arc::new(AtomicBool::new(true)));
        well.push(serves.clone());
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let mut request = vec![0; 4096];
                let Ok(count) = connection.read(&mut request) else { continue };
                let request = String::from_utf8_lossy(&request[..count]).into_owned();
                let leads = leads.load(Ordering::Relaxed) == number;
                let serves = serves.load(Ordering::Relaxed);
                let fine = match request.split(' ').nth(1) {
                    Some("/leader") => leads && serves,
                    Some("/any") => serves,
                    _ => true,
                };
                let status = if fine { "200 OK" } else { "429 Too Many Requests" };
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: 1\r\nConnection: close\r\n\r\n{number}"
                );
                let _ = connection.write_all(answer.as_bytes());
            }
        });
    }
    Nodes { access, leads, well }
}

fn at(address: SocketAddr, name: &str) -> Access {
    Access {
        name: name.to_owned(),
        authority: address.to_string(),
        target: Target { address, tls: None },
        memory: Memory::default(),
    }
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = clock::now() + Duration::from_secs(10);
    while !holds() {
        assert!(clock::now() < deadline, "{what} did not come to be");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs HAProxy in front of these nodes; `None` if it cannot be installed.
fn front(
    nodes: &Nodes,
    options: &[(&str, &str)],
    dir: &tempfile::TempDir,
) -> Option<(Process, Vec<Access>)> {
    let installed = program(&HaProxy, &["/usr/sbin/haproxy"])?;
    let described = describe(nodes, options, &installed, dir).unwrap();
    let access = described.accesses();
    let host = Host::new(dir.path()).unwrap();
    let process = host.launch(described.nodes.into_iter().next().unwrap()).unwrap();
    wait_for("a front that sends to the right nodes", || HaProxy.probe(&access).is_ok());
    Some((process, access))
}

fn describe(
    nodes: &Nodes,
    options: &[(&str, &str)],
    program: &bakeoff_install::InstalledProgram,
    dir: &tempfile::TempDir,
) -> Result<Description, HostError> {
    let composite =
        Neighbour { role: COMPOSITE.into(), system: &Small, nodes: nodes.access.clone() };
    let balancer = study_system("haproxy", 1, options);
    let context = DescribeContext {
        system: &balancer,
        role: "balancer",
        composite: &balancer,
        program: Some(program),
        dir: dir.path(),
        locations: &[bakeoff_host::Location::HERE],
        members: &[],
        seed: 0,
        neighbours: &[composite],
    };
    HaProxy.describe(&context, &mut Allocator::new(None))
}

/// Returns the answering nodes, with one connection per request.
fn answers(front: &Access, count: usize) -> Vec<String> {
    (0..count).map(|_| ask(front, "GET", "/").unwrap().1).collect()
}

#[test]
fn all_healthy_nodes_get_requests_in_turn() {
    for mode in ["tcp", "http"] {
        let (nodes, dir) = (nodes(), tempfile::TempDir::new().unwrap());
        let Some((process, access)) = front(&nodes, &[("mode", mode)], &dir) else { return };
        let mut seen = answers(&access[0], 6);
        seen.sort();
        assert_eq!(seen, ["0", "0", "1", "1", "2", "2"], "{mode}");
        nodes.well[2].store(false, Ordering::Relaxed);
        wait_for("two nodes", || HaProxy.probe(&access).is_err());
        assert!(!answers(&access[0], 4).contains(&"2".to_owned()));
        nodes.well[2].store(true, Ordering::Relaxed);
        wait_for("three nodes", || HaProxy.probe(&access).is_ok());
        process.kill9();
        process.restart().unwrap();
        wait_for("the same after a restart", || HaProxy.probe(&access).is_ok());
        let pid = process.pid().unwrap();
        drop(process);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}

#[test]
fn only_the_leader_gets_requests_and_a_new_one_is_found() {
    let (nodes, dir) = (nodes(), tempfile::TempDir::new().unwrap());
    let options = [("to", "leader"), ("balance", "leastconn"), ("threads", "1")];
    let Some((_process, access)) = front(&nodes, &options, &dir) else { return };
    assert_eq!(answers(&access[0], 4), ["1", "1", "1", "1"]);
    nodes.leads.store(2, Ordering::Relaxed);
    wait_for("the new leader", || ask(&access[0], "GET", "/").is_ok_and(|(_, who)| who == "2"));
    wait_for("one leader", || HaProxy.probe(&access).is_ok());
    assert_eq!(answers(&access[0], 4), ["2", "2", "2", "2"]);
}

#[test]
fn refuses_backends_that_its_mode_cannot_pass_through() {
    let Some(installed) = program(&HaProxy, &["/usr/sbin/haproxy"]) else { return };
    let dir = tempfile::TempDir::new().unwrap();
    let mut nodes = nodes();
    let authority = bakeoff_engine::tls::Authority::new().unwrap();
    nodes.access[0].target.tls = Some(bakeoff_engine::transport::TlsTarget::new(
        rustls::pki_types::ServerName::try_from("localhost").unwrap(),
        authority.client_config(&[]).unwrap(),
    ));
    let refused = describe(&nodes, &[("mode", "http")], &installed, &dir).err().unwrap();
    assert!(refused.to_string().contains("`mode: http` cannot pass TLS through"), "{refused}");
    let described = describe(&nodes, &[], &installed, &dir).unwrap();
    let text = String::from_utf8(described.nodes[0].files[0].contents.clone()).unwrap();
    assert!(text.contains(" check check-ssl verify none\n"), "{text}");
}

#[test]
fn statistics_fail_before_the_first_check() {
    let head = "# pxname,svname,status,check_status,\n";
    let up = |lines: &str| nodes_up(&format!("{head}{lines}")).map(|up| up.join(" "));
    let unasked = || Err(StatisticsError::NotAsked("b".to_owned()));
    assert_eq!(up("nodes,a,UP,L7OK,\nnodes,b,UP,INI,\n"), unasked());
    assert_eq!(up("nodes,a,UP,L7OK,\nnodes,b,UP,,\n"), unasked());
    let unasked = up("nodes,b,UP,,\n").unwrap_err();
    assert_eq!(unasked.to_string(), "it has not yet checked `b`");
    assert_eq!(up("nodes,a,UP,L7OK,\nnodes,b,UP,* L7OK,\nnodes,c,DOWN,L7STS,\n").unwrap(), "a b");
    assert_eq!(up("nodes,a,UP,L7OK,\nnodes,BACKEND,UP,,\nclients,b,OPEN,,\n").unwrap(), "a");
    assert!(nodes_up("<html>").unwrap_err().to_string().contains("pxname"));
}

#[test]
fn no_statistics_panic() {
    let csv: &[u8] =
        b"# pxname,svname,status,check_status,\nnodes,one,UP,L7OK,\nnodes,two,DOWN,* L4CON,\n\
        nodes,BACKEND,UP,,\n";
    bakeoff_fuzz::run("haproxy", &[csv], &["# ", ",", "\n", "nodes,", "UP", "INI"], |input| {
        nodes_up(&String::from_utf8_lossy(input)).ok();
    });
}
