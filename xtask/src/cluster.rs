//! Runs `cargo xtask cluster`: a real Kubernetes of a few nodes on this machine, without a container engine, for
//! tests.
//!
//! Each node and the control plane has its own namespaces, which run Kubernetes' own programs. A bridge without a
//! route out joins them. A cluster keeps all files in one folder, and its name marks its processes, so that `down`
//! ends all of the cluster and nothing else, whatever happened before.
//!
//! Not here: the programs in the cluster.

mod certificates;
mod cgroup;
mod control;
mod debian;
mod down;
mod error;
mod images;
mod machine;
mod network;
mod node;
mod preflight;
mod process;
mod process_id;
mod programs;
mod run;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use control::Control;
use down::Keep;
use error::ClusterError;
use node::Node;
use preflight::{MachineFeatures, Services};
use process::Server;
use programs::Programs;
use run::{Machine, Run, State};

use crate::Failure;

/// Default number of nodes.
const NODES: usize = 2;

/// Runs the command after `cargo xtask cluster`.
pub(crate) fn command(words: &[&str]) -> Result<(), Failure> {
    obey(words).map_err(|error| error.to_string())
}

fn obey(words: &[&str]) -> Result<(), ClusterError> {
    match words {
        ["up"] => up(None),
        ["up", "--nodes", count] => up(Some(node_count(count)?)),
        ["programs"] => programs(),
        ["down"] => down(),
        ["status"] => status(Form::Text),
        ["status", "--json"] => status(Form::Json),
        ["check"] => check(),
        ["kubectl", arguments @ ..] => kubectl(arguments),
        ["image", file] => import(file),
        ["image", name, files @ ..] => import_files(name, files),
        _ => Err(ClusterError::Usage(format!("unknown command `cluster {}`", words.join(" ")))),
    }
}

fn node_count(word: &str) -> Result<usize, ClusterError> {
    let count = word.parse().ok().filter(|count| (1..=network::NODES_MAX).contains(count));
    let most = network::NODES_MAX;
    count.ok_or_else(|| {
        ClusterError::Usage(format!("`--nodes {word}` is not a number from 1 to {most}"))
    })
}

fn find() -> Result<(PathBuf, Run), ClusterError> {
    let cache = programs::cache()?;
    let run = Run::find(&cache);
    Ok((cache, run))
}

fn up(count: Option<usize>) -> Result<(), ClusterError> {
    let (cache, run) = find()?;
    let cgroups = preflight::machine(&run, &cache)?;
    let _lock = run.lock(&cache)?;
    // Start anew if a node was lost.
    let whole = run.state().filter(|state| state.running_nodes().count() == state.nodes().len());
    if let Some(state) = whole {
        let nodes = state.nodes().len();
        if count.is_some_and(|wanted| wanted != nodes) {
            let hint = "stop it first: `cargo xtask cluster down`";
            return Err(ClusterError::Usage(format!("a cluster of {nodes} nodes is up; {hint}")));
        }
        println!("a cluster of {nodes} nodes is up already");
        print!("{}", description(&run));
        return Ok(());
    }
    down::end(&run, Keep::Nothing)?;
    let programs = Programs::have(&cache)?;
    run.make_folder("logs")?;
    let began = Instant::now();
    let count = count.unwrap_or(NODES);
    let started = preflight::kernel(&run, cgroups, &programs)
        .and_then(|means| start(&run, &programs, &means, count).map(|()| means));
    match started {
        Ok(means) => {
            println!("{count} nodes are ready after {:.1} s", began.elapsed().as_secs_f64());
            for note in means.notes() {
                println!("note: {note}");
            }
            print!("{}", description(&run));
            Ok(())
        }
        Err(error) => {
            // The next command reports leftovers; report only the cause now.
            let _ = down::end(&run, Keep::Logs);
            Err(error)
        }
    }
}

/// Fetches and builds the programs of a cluster without starting it.
fn programs() -> Result<(), ClusterError> {
    let began = Instant::now();
    Programs::have(&programs::cache()?)?;
    println!("the cache has a cluster's programs after {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Starts a cluster, and writes its state file once it is ready.
fn start(
    run: &Run,
    programs: &Programs,
    means: &MachineFeatures,
    count: usize,
) -> Result<(), ClusterError> {
    for folder in ["bin", "control", "images"] {
        run.make_folder(folder)?;
    }
    certificates::write(run)?;
    let machines = start_machines(run, programs, count)?;
    let (control, nodes) = machines.split_first().expect("the first one is the control plane's");
    network::join(run, programs, control, nodes)?;
    write_kubectl(run, programs, control)?;

    let control = Control { run, programs, machine: control };
    let mut servers = control.start_store()?;
    let images = [images::pause(run, programs)?, images::shell(run, programs)?];
    let images = &images;
    let mut cgroups = Vec::new();
    for node in nodes {
        cgroups.push(means.cgroups.make(run, &node.name)?);
    }
    let nodes_of_run =
        || (1..).zip(nodes).map(|(number, machine)| Node { run, programs, machine, number });
    let prepared = std::thread::scope(|scope| {
        let prepare = |node: Node<'_>| -> Result<Server, ClusterError> {
            let mut containerd = node.start_containerd(means.snapshots)?;
            node.await_containerd(&mut containerd)?;
            for image in images {
                images::import(programs, node.machine, image)?;
            }
            Ok(containerd)
        };
        let threads: Vec<_> =
            nodes_of_run().map(|node| scope.spawn(move || prepare(node))).collect();
        let api = control.await_api(&mut servers).and_then(|()| control.start_controllers());
        let joined = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        let containerds = joined.collect::<Result<Vec<_>, _>>();
        api.and_then(|controllers| Ok((controllers, containerds?)))
    });
    let (controllers, containerds) = prepared?;
    servers.extend(controllers.into_iter().chain(containerds));
    for (node, cgroup) in nodes_of_run().zip(&cgroups) {
        servers.push(node.start_kubelet(cgroup)?);
        if means.services == Services::Proxied {
            servers.push(node.start_proxy()?);
        }
    }
    control.await_nodes(nodes, &mut servers)?;
    run.write_state(&State { machines })
}

/// Starts the machines of the control plane and the nodes concurrently.
fn start_machines(
    run: &Run,
    programs: &Programs,
    count: usize,
) -> Result<Vec<Machine>, ClusterError> {
    let mut wanted = vec![("control".to_owned(), network::CONTROL.to_owned())];
    wanted.extend((1..=count).map(|number| (format!("n{number}"), network::node_address(number))));
    std::thread::scope(|scope| {
        let start = |(name, address): (String, String)| {
            scope.spawn(move || machine::start(run, programs, &name, address))
        };
        let threads: Vec<_> = wanted.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}

/// Writes the script that replaces `kubectl`. It enters the network of this cluster, if it is still up.
fn write_kubectl(run: &Run, programs: &Programs, control: &Machine) -> Result<(), ClusterError> {
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    let script = format!(
        r#"#!/bin/sh
# kubectl of the cluster of tests, in the network of its control plane.
started() {{ shift 19; echo "$1"; }}
stat=$(cat /proc/{pid}/stat 2>/dev/null)
if [ "$(started ${{stat##*) }} 2>/dev/null)" != {ticks} ]; then
    echo "error: the cluster in "{folder}" is not up" >&2
    echo "hint: cargo xtask cluster up" >&2
    exit 1
fi
export KUBECONFIG={kubeconfig} KUBECACHEDIR={cache} KUBERC=off
exec nsenter --net={namespace} -- {kubernetes} kubectl "$@"
"#,
        pid = control.init.pid,
        ticks = control.init.start_ticks,
        folder = quoted(run.folder()),
        kubeconfig = quoted(&run.kubeconfig()),
        cache = quoted(&run.path("kubectl-cache")),
        namespace = control.network_namespace(),
        kubernetes = quoted(&programs.kubernetes),
    );
    run.write_with_mode("bin/kubectl", &script, 0o700).map(drop)
}

/// Describes how to use a running cluster.
fn description(run: &Run) -> String {
    let mut text = String::new();
    let bin = run.path("bin");
    let rows = [
        ("kubectl", run.kubectl().display().to_string()),
        ("on PATH", format!("export PATH={}:$PATH", bin.display())),
        (
            "kubeconfig",
            format!("{} (reachable only from the cluster's network)", run.kubeconfig().display()),
        ),
        (
            "images",
            format!(
                "{}, {}; `cluster image debian` adds {}",
                images::SHELL,
                node::PAUSE,
                images::DEBIAN
            ),
        ),
        ("volumes", "only emptyDir: there is no storage class".to_owned()),
        ("logs", run.path("logs").display().to_string()),
    ];
    for (name, value) in rows {
        let _ = writeln!(text, "  {:<12}{value}", format!("{name}:"));
    }
    text
}

fn down() -> Result<(), ClusterError> {
    let (cache, run) = find()?;
    needs_root(&run, &cache)?;
    let lock = run.lock(&cache)?;
    let began = Instant::now();
    match down::end(&run, Keep::Nothing)? {
        true => println!("the cluster is down after {:.1} s", began.elapsed().as_secs_f64()),
        false => println!("no cluster is up in `{}`", run.folder().display()),
    }
    lock.remove();
    Ok(())
}

/// Checks for root: other users cannot see the cluster's processes and would get "not up".
fn needs_root(run: &Run, cache: &Path) -> Result<(), ClusterError> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => preflight::machine(run, cache).map(drop),
    }
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Text,
    Json,
}

fn status(form: Form) -> Result<(), ClusterError> {
    let (cache, run) = find()?;
    needs_root(&run, &cache)?;
    let state = run.state().ok_or_else(|| not_up(&run))?;
    match form {
        Form::Text => {
            println!("a cluster of {} nodes is up", state.nodes().len());
            for Machine { name, address, init } in &state.machines {
                let how = if init.is_running() { "" } else { ", killed" };
                println!("  {:<12}{address}, pid {}{how}", format!("{name}:"), init.pid);
            }
            print!("{}", description(&run));
        }
        Form::Json => {
            let machine = |one: &Machine| {
                serde_json::json!({"name": one.name, "address": one.address, "pid": one.init.pid,
                                   "running": one.init.is_running(),
                                   "network": one.network_namespace()})
            };
            let json = serde_json::json!({
                "name": run.name(),
                "folder": run.folder(),
                "kubectl": run.kubectl(),
                "kubeconfig": run.kubeconfig(),
                "control": machine(state.control()),
                "nodes": state.nodes().iter().map(machine).collect::<Vec<_>>(),
                "images": {"shell": images::SHELL, "pause": node::PAUSE, "debian": images::DEBIAN},
            });
            println!("{json:#}");
        }
    }
    Ok(())
}

fn not_up(run: &Run) -> ClusterError {
    ClusterError::NotUp { run: run.folder().to_owned() }
}

/// Checks whether a cluster can start here, without starting or fetching anything.
fn check() -> Result<(), ClusterError> {
    let (cache, run) = find()?;
    preflight::machine(&run, &cache)?;
    match programs::are_cached(&cache) {
        true => println!("a cluster can be started here"),
        false => println!(
            "a cluster can be started here, after its programs are built in about ten minutes"
        ),
    }
    Ok(())
}

/// Replaces this process by `kubectl`, so that its exit code is kept.
fn kubectl(arguments: &[&str]) -> Result<(), ClusterError> {
    let (cache, run) = find()?;
    needs_root(&run, &cache)?;
    run.state().ok_or_else(|| not_up(&run))?;
    let mut command = Command::new(run.kubectl());
    let error = command.args(arguments).exec();
    Err(ClusterError::Start { program: run.kubectl().display().to_string(), error })
}

/// Imports an image into each node. `debian` is built here.
fn import(image: &str) -> Result<(), ClusterError> {
    let (cache, run) = find()?;
    needs_root(&run, &cache)?;
    let state = run.state().ok_or_else(|| not_up(&run))?;
    let programs = Programs::have(&cache)?;
    let file = match image {
        "debian" => images::debian(&cache)?,
        file => std::path::absolute(file).unwrap_or_else(|_| file.into()),
    };
    std::fs::metadata(&file).map_err(ClusterError::file("read", &file))?;
    import_into_each(image, &file, &state, &programs)
}

/// Builds an image of files on this machine, each given as `PATH-IN-IMAGE=FILE`, and imports it into each node.
fn import_files(name: &str, files: &[&str]) -> Result<(), ClusterError> {
    let (cache, run) = find()?;
    needs_root(&run, &cache)?;
    let state = run.state().ok_or_else(|| not_up(&run))?;
    let pairs: Option<Vec<_>> = files.iter().map(|pair| pair.split_once('=')).collect();
    let pairs = pairs.ok_or_else(|| ClusterError::Usage("PATH-IN-IMAGE=FILE".to_owned()))?;
    let file = images::of_files(&run, name, &pairs)?;
    import_into_each(name, &file, &state, &Programs::have(&cache)?)
}

/// Imports an image's tar into each node.
fn import_into_each(
    image: &str,
    file: &Path,
    state: &State,
    programs: &Programs,
) -> Result<(), ClusterError> {
    let began = Instant::now();
    let import = |node: &Machine| match image {
        // Debian's image is large and never changes, so skip it if it is there.
        "debian" if images::has(programs, node, images::DEBIAN)? => {
            Ok(vec![images::DEBIAN.to_owned()])
        }
        _ => images::import(programs, node, file),
    };
    let imported = std::thread::scope(|scope| {
        let threads: Vec<_> =
            state.running_nodes().map(|node| scope.spawn(|| import(node))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        joined.collect::<Result<Vec<_>, _>>()
    });
    let imported = imported?;
    let (names, count) = (imported.concat(), imported.len());
    let names = names.into_iter().collect::<BTreeSet<_>>();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    println!("{count} nodes have {names} after {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_command_lines_are_refused() {
        for words in [
            &["up", "--nodes"][..],
            &["up", "--nodes", "0"],
            &["up", "--nodes", "10"],
            &["sideways"],
            &[],
        ] {
            assert!(matches!(obey(words), Err(ClusterError::Usage(_))), "{words:?}");
        }
        assert_eq!(node_count("3").unwrap(), 3);
    }
}
