//! Tests the cluster of `cargo xtask cluster`: it is a real Kubernetes and leaves nothing behind.
//!
//! Studies run in its pods, and leave nothing either.
//!
//! Not here: hosts over SSH (`machines`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::Value;

use crate::support::kubernetes::{Cluster, Namespaces, left_of, usual_folders};
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::{
    BASELINE_FOR, BRIEFLY, CommandOutput, FAULTY_ETCD, SMALL_ETCD, array, proven_faults, record,
    text, wait_for,
};

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    vec![
        skipped.unless_lacking("kubernetes_runs_a_job_and_leaves_nothing", runs_a_job),
        skipped.unless_lacking("kubernetes_whose_up_was_killed_leaves_nothing", killed),
    ]
}

/// The test with the longest waits: for pods, and for failures.
pub(crate) fn study(skipped: &SkippedTests) -> Trial {
    skipped.unless_lacking("kubernetes_runs_a_study_in_restricted_pods", runs_a_study)
}

/// Three pods on two nodes that resolve the first one's name, as user `nobody` without rights.
const JOB: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: tried, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: Service
metadata: {name: workers, namespace: tried}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: worker}, ports: [{port: 8080}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: work, namespace: tried}
spec:
  completionMode: Indexed
  completions: 3
  parallelism: 3
  backoffLimit: 0
  template:
    metadata: {labels: {app: worker}}
    spec:
      subdomain: workers
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: worker}}}
      containers:
      - name: worker
        image: localhost/bakeoff-shell:1
        imagePullPolicy: Never
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        env:
        - {name: ADDRESS, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        command: ["/bin/sh", "-c"]
        args:
        - |
          until nslookup work-0.workers.tried.svc.cluster.local > /data/found; do sleep 0.2; done
          found=$(sed -n 's/^Address: //p' /data/found)
          echo "index $JOB_COMPLETION_INDEX at $ADDRESS on $NODE sees $found as $(id -u)"
          sleep 2
        volumeMounts: [{name: data, mountPath: /data}]
        resources: {limits: {cpu: 500m, memory: 64Mi}}
      volumes: [{name: data, emptyDir: {}}]
"#;

fn runs_a_job() -> Result<(), SkipReason> {
    let usual = usual_folders();
    let cluster = Cluster::start(2)?;
    let began = Instant::now();
    let status = cluster.status();
    let name = text(&status["name"]).to_owned();
    assert!(cluster.up(2).starts_with("a cluster of 2 nodes is up already"), "it is reused");

    let machines = array(&status["nodes"]).iter().chain([&status["control"]]);
    let pids: Vec<u64> = machines.map(|machine| machine["pid"].as_u64().unwrap()).collect();
    let namespaces = Namespaces::hold(&pids);
    assert_eq!((pids.len(), namespaces.count(), namespaces.used().len()), (3, 15, 15));

    let kubeconfig = std::fs::read_to_string(text(&status["kubeconfig"])).unwrap();
    let token = kubeconfig.split("token: ").nth(1).unwrap().split('}').next().unwrap();
    assert_eq!((token.len(), arguments_hold(token)), (64, false), "secrets are no arguments");

    cluster.kubectl(&["apply", "-f", "-"], JOB).ends_with(0);
    let wait = ["-n", "tried", "wait", "--for=condition=complete", "job/work", "--timeout=60s"];
    cluster.kubectl(&wait, "").ends_with(0);
    let logs = ["-n", "tried", "logs", "--selector=app=worker", "--tail=-1"];
    let logs = cluster.kubectl(&logs, "").ends_with(0).stdout;
    let lines: Vec<Vec<&str>> = logs.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!(lines.len(), 3, "{logs}");
    let first = lines.iter().find(|words| words[1] == "0").expect("index 0 ran")[3];
    assert!(first.starts_with("198.18."), "{logs}");
    for node in ["n1", "n2"] {
        assert!(lines.iter().any(|words| words[5] == node), "{node} ran none: {logs}");
    }
    for words in &lines {
        assert_eq!((words[7], words[9]), (first, "65534"), "{logs}");
    }
    // The same job without its restrictions.
    let free = JOB.replace("runAsNonRoot: true, ", "").replace("name: work,", "name: free,");
    let forbidden = cluster.kubectl(&["apply", "-f", "-"], &free);
    assert!(forbidden.stderr.contains("would violate PodSecurity"), "{}", forbidden.stderr);
    cluster.kubectl(&["delete", "namespace", "tried"], "").ends_with(0);

    assert!(!left_of(&name, &cluster.folder()).is_empty(), "it is up");
    let ran = cluster.xtask(&["down"]).ends_with(0);
    assert!(ran.stdout.starts_with("the cluster is down after "), "{}", ran.stdout);
    assert_eq!(left_of(&name, &cluster.folder()), Vec::<String>::new());
    assert_eq!(usual_folders(), usual);
    assert_eq!(namespaces.used().len(), 0, "{:?}", namespaces.used());
    let ran = cluster.xtask(&["down"]).ends_with(0);
    assert!(ran.stdout.starts_with("no cluster is up"), "{}", ran.stdout);
    cluster.xtask(&["kubectl", "get", "nodes"]).ends_with(1).complains(&["no cluster is up in"]);
    assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
    Ok(())
}

/// Returns true if any process has this text in its arguments.
fn arguments_hold(text: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut all = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    all.any(|arguments| String::from_utf8_lossy(&arguments).contains(text))
}

/// Kills xtask before it has written anything, and again while servers start.
fn killed() -> Result<(), SkipReason> {
    let cluster = Cluster::place()?;
    let name = {
        // The programs may have to be built first.
        cluster.up(1);
        text(&cluster.status()["name"]).to_owned()
    };
    cluster.xtask(&["down"]).ends_with(0);
    for server in ["machine-n1", "etcd", "kubelet-n1"] {
        let mut up = cluster.begin_up();
        let log = cluster.folder().join("logs").join(format!("{server}.log"));
        wait_for(server, Duration::from_secs(60), || log.exists());
        up.kill().and_then(|()| up.wait()).unwrap();
        assert!(!left_of(&name, &cluster.folder()).is_empty(), "killed too late, at {server}");
        cluster.xtask(&["status"]).ends_with(1).complains(&["no cluster is up in"]);
        cluster.xtask(&["down"]).ends_with(0);
        assert_eq!(left_of(&name, &cluster.folder()), Vec::<String>::new(), "{server}");
    }
    Ok(())
}

const PODS: &str = "\
kubernetes: {servers: 3, generators: 2, image: 'localhost/bakeoff-debian:1', image-pull: Never, share-nodes: true, cpu: 600m, \
memory: 1Gi}
";

/// Returns `bakeoff` in the cluster's network, with its `kubectl`.
fn bakeoff(cluster: &Cluster) -> Command {
    let network = format!("--net={}", text(&cluster.status()["control"]["network"]));
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("nsenter");
    command.args([&network, "--", env!("CARGO_BIN_EXE_bakeoff")]);
    command.env("PATH", format!("{}:{path}", cluster.bin().display())).env(BASELINE_FOR, BRIEFLY);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a study in pods.
fn begin(cluster: &Cluster, dir: &Path, study: &str, places: &str) -> Child {
    let (file, on) = (dir.join("study.yaml"), dir.join("places.yaml"));
    std::fs::write(&file, study).unwrap();
    std::fs::write(&on, places).unwrap();
    let mut command = bakeoff(cluster);
    command.arg("run").arg(file).arg("--on").arg(on).args(["--shared-machine", "--out"]);
    command.arg(dir.join("runs"));
    // Tests wait for its lines in a file.
    command.stderr(std::fs::File::create(dir.join("stderr")).unwrap());
    command.spawn().unwrap()
}

/// Waits for a run, and returns it with its output.
fn end(dir: &Path, running: Child) -> CommandOutput {
    let output = running.wait_with_output().unwrap();
    let stderr = std::fs::read(dir.join("stderr")).unwrap();
    CommandOutput::from_output(Output { stderr, ..output })
}

/// Returns the namespaces of runs in a cluster.
fn namespaces(cluster: &Cluster) -> Vec<String> {
    let get = ["get", "namespaces", "--selector=bakeoff.dev/run", "-o", "name"];
    let listed = cluster.kubectl(&get, "").ends_with(0).stdout;
    listed.lines().map(str::to_owned).collect()
}

fn runs_a_study() -> Result<(), SkipReason> {
    let cluster = Cluster::start(2)?;
    cluster.import("debian");
    let dir = tempfile::tempdir().unwrap();
    let running = begin(&cluster, dir.path(), SMALL_ETCD, PODS);
    let all = ["get", "pods", "-A", "--selector=bakeoff.dev/run", "-o"];
    let running_pods =
        "jsonpath={range .items[*]}{.status.phase} {.spec.securityContext.runAsUser}{\"\\n\"}{end}";
    wait_for("five pods of nobody", Duration::from_secs(60), || {
        let seen = cluster.kubectl(&[&all[..], &[running_pods]].concat(), "").stdout;
        seen.lines().filter(|line| *line == "Running 65534").count() == 5
    });
    let label = "jsonpath={.items[*].metadata.labels.pod-security\\.kubernetes\\.io/enforce}";
    let get = ["get", "namespaces", "--selector=bakeoff.dev/run", "-o", label];
    assert_eq!(cluster.kubectl(&get, "").ends_with(0).stdout, "restricted");

    let ran = end(dir.path(), running).ends_with(0);
    let runs = dir.path().join("runs");
    let run = std::fs::read_dir(runs).unwrap().flatten().next().unwrap().path();
    let lines = record(&run);
    let trial = lines.iter().find(|line| line["line"] == "trial").expect("a trial was recorded");
    assert_eq!(array(&trial["machines"]).len(), 5, "{}", ran.stderr);
    let generated = &trial["machines"][4]["generated"][0];
    assert_eq!(generated["clients"], 4, "{generated}");
    assert!(generated["verified"].as_u64() > Some(50), "{generated}");
    assert_eq!(namespaces(&cluster), Vec::<String>::new());

    // Tests with long waits, next to one under load.
    std::thread::scope(|scope| {
        scope.spawn(|| sidecar_is_limited_by_itself(&cluster));
        scope.spawn(|| missing_images_are_reported(&cluster));
        scope.spawn(|| too_few_nodes_are_reported(&cluster));
        scope.spawn(|| missing_rights_are_reported(&cluster));
        scope.spawn(|| wrong_namespaces_and_agents_are_reported(&cluster));
    });
    faults_are_proven(&cluster);
    assert_eq!(namespaces(&cluster), Vec::<String>::new());
    images_and_limits(&cluster)
}

/// Pauses, kills and restarts nodes in pods. What a pod cannot do is refused.
fn faults_are_proven(cluster: &Cluster) {
    let dir = tempfile::tempdir().unwrap();
    let ran = end(dir.path(), begin(cluster, dir.path(), FAULTY_ETCD, PODS));
    let run = std::fs::read_dir(dir.path().join("runs")).unwrap().flatten().next();
    let lines = record(&run.unwrap_or_else(|| panic!("no run: {}", ran.stderr)).path());
    let trial = lines.iter().find(|line| line["line"] == "trial").expect("a trial was recorded");
    let proven = proven_faults(trial);
    assert_eq!(proven, BTreeSet::from(["killed", "paused", "rolling"]), "{}", ran.stderr);
    for (fault, why) in [
        ("isolate: leader", "bakeoff cuts networks that it made"),
        ("disk: leader, full: true", "cannot break the disks of system `etcd`"),
    ] {
        let study = format!("{FAULTY_ETCD}  cut: {{{fault}, at: 1s, for: 3s}}\n");
        end(dir.path(), begin(cluster, dir.path(), &study, PODS)).ends_with(2).complains(&[why]);
    }
}

/// Runs a study on pods that never start and leave room for others, and returns the output.
fn fails(cluster: &Cluster, places: &str) -> CommandOutput {
    let places = places.replace("cpu: 600m, memory: 1Gi", "cpu: 10m, memory: 16Mi");
    let dir = tempfile::tempdir().unwrap();
    end(dir.path(), begin(cluster, dir.path(), SMALL_ETCD, &places)).ends_with(4)
}

fn missing_images_are_reported(cluster: &Cluster) {
    let ran = fails(cluster, &PODS.replace("bakeoff-debian:1", "none:1"));
    ran.complains(&["ErrImageNeverPull", "last event: ", "`image-pull`"]);
}

fn wrong_namespaces_and_agents_are_reported(cluster: &Cluster) {
    let with = |field: &str| PODS.replace("servers: 3", &format!("servers: 1, {field}"));
    let dir = tempfile::tempdir().unwrap();
    end(dir.path(), begin(cluster, dir.path(), SMALL_ETCD, &with("namespace: none")))
        .ends_with(2)
        .complains(&["the Kubernetes cluster has no namespace `none`", "create namespace none`"]);
    let ran = fails(cluster, &with("agent-image: 'localhost/bakeoff-shell:1'"));
    ran.complains(&[
        "copying bakeoff from `agent-image` failed",
        "hint: check that the nodes can pull `agent-image`",
    ]);
}

fn too_few_nodes_are_reported(cluster: &Cluster) {
    let ran = fails(cluster, &PODS.replace("share-nodes: true", "share-nodes: false"));
    ran.complains(&["no node can run it", "last event: FailedScheduling", "share-nodes"]);
}

const MESH: &str = "\
title: a sidecar with limits of its own
systems:
  istio:
    kind: ingress-gateway
    parts:
      application: {kind: application}
      control-plane: {kind: istio}
      sidecar: {kind: envoy, limits: {cpu: 0.5}}
workloads:
  requests: {mix: {request: 1}, request: {path: /, expect: {status: 200}}}
loads:
  some: {clients: 4, stop: {operations: 400}}
trials: 1
";

/// The sidecar runs in its application's pod, in its own container.
fn sidecar_is_limited_by_itself(cluster: &Cluster) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut ran = end(dir, begin(cluster, dir, MESH, PODS));
    if ran.stdout.contains("generators together: ") {
        // Other tests used the CPUs at the start.
        std::fs::remove_dir_all(dir.join("runs")).unwrap();
        ran = end(dir, begin(cluster, dir, MESH, PODS));
    }
    let ran = ran.ends_with(0);
    let run = std::fs::read_dir(dir.join("runs")).unwrap().flatten().next().unwrap().path();
    let lines = record(&run);
    let trial = lines.iter().find(|line| line["line"] == "trial").expect("a trial was recorded");
    let machine_of = |server: &str| {
        let has = |one: &&Value| {
            one["servers"].as_array().is_some_and(|all| all.contains(&server.into()))
        };
        text(&array(&trial["machines"]).iter().find(has).expect(server)["name"])
    };
    let application = machine_of("istio-application-1");
    assert_eq!(machine_of("istio-sidecar-1"), application.replace("servers", "adjacent"));
    let machines = array(&lines[0]["environment"]["machines"]);
    let address =
        |name: &str| text(&machines.iter().find(|one| one["name"] == name).unwrap()["address"]);
    assert_eq!(address(application), address(machine_of("istio-sidecar-1")));
    let mut checks = array(&trial["checks"]).iter();
    let limits = checks.find(|check| check["name"] == "limits").expect("limits were asked for");
    assert_eq!(limits["verdict"]["verdict"], "passed", "{}", ran.stderr);
}

/// Images without a shell, of bakeoff and of one system.
const IMAGES: &str = "\
kubernetes: {servers: 1, generators: 1, agent-image: 'localhost/bakeoff-test:1', images: {etcd: 'localhost/etcd-test:1'}, \
image-pull: Never, share-nodes: true, cpu: 1, memory: 2Gi}
";

const LIMITED: &str = "\
title: a program of an image, and limits of pods
systems:
  of-image: {kind: etcd}
  limited: {kind: canary, limits: {cpu: 0.5, memory: 300MiB}}
workloads:
  write: {mix: {put: 1}, keys: {count: 1000, order: uniform}, values: {size: 64}}
loads:
  steady: {clients: 4, warmup: 0s, stop: {after: 3s}}
trials: 2
";

/// Returns the etcd of an earlier run: on `PATH`, or in the cache.
fn etcd() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("etcd"));
    let cache = bakeoff_install::place::of_environment();
    let versions = std::fs::read_dir(cache.unwrap().join("etcd")).into_iter().flatten().flatten();
    let in_cache =
        versions.flat_map(|one| ["bin/etcd", "usr/bin/etcd"].map(|file| one.path().join(file)));
    on_path.chain(in_cache).find(|path| path.is_file()).expect("etcd was run")
}

fn images_and_limits(cluster: &Cluster) -> Result<(), SkipReason> {
    let etcd = etcd();
    let program = env!("CARGO_BIN_EXE_bakeoff");
    let file = |path: &str, file: &Path| format!("{path}={}", file.display());
    let own = file("/bakeoff", Path::new(program));
    // etcd's image also has bakeoff's libraries, because it is not static here.
    let both = [own.clone(), file("/usr/local/bin/etcd", &etcd)];
    cluster.xtask(&["image", "localhost/bakeoff-test:1", &own]).ends_with(0);
    cluster.xtask(&["image", "localhost/etcd-test:1", &both[0], &both[1]]).ends_with(0);

    let dir = tempfile::tempdir().unwrap();
    let running = begin(cluster, dir.path(), LIMITED, IMAGES);
    let namespace = under_way(cluster, dir.path(), "[3/4]");
    let of_job = "--selector=bakeoff.dev/takes=generators";
    let delete = ["-n", &namespace, "delete", "pod", of_job, "--wait=false"];
    cluster.kubectl(&delete, "").ends_with(0);
    end(dir.path(), running).ends_with(4).complains(&[
        "lost the connection to `generators-0`",
        "lost a machine; stopping the run with 2 trials left",
        "Stopping container agent",
        "--resume",
    ]);
    assert_eq!(namespaces(cluster), Vec::<String>::new());

    let run = std::fs::read_dir(dir.path().join("runs")).unwrap().flatten().next().unwrap().path();
    let mut resume = bakeoff(cluster);
    // New pods may be on other nodes.
    resume.args(["run", "--shared-machine", "--trust", "--resume"]).arg(&run);
    let on = dir.path().join("places.yaml");
    let ran = CommandOutput::from_output(resume.arg("--on").arg(on).output().unwrap());
    let lines = record(&run);
    let trials = lines.iter().filter(|line| line["line"] == "trial");
    let outcomes: Vec<&str> = trials.map(|line| text(&line["outcome"]["ended"])).collect();
    assert_eq!(
        outcomes,
        ["completed", "completed", "machine-lost", "completed", "completed"],
        "{}",
        ran.stderr
    );

    let sources = array(&lines[0]["systems"]).iter().map(|one| text(&one["source"]));
    assert_eq!(sources.collect::<Vec<_>>(), ["image localhost/etcd-test:1", "part of bakeoff"]);
    let pods = array(&lines[0]["environment"]["machines"]).iter().map(|one| {
        let pod = &one["pod"];
        assert_eq!(pod["asked"], pod["read"], "{}", ran.stderr);
        (text(&one["name"]), pod["read"]["cpu"].as_f64(), text(&pod["node"]).starts_with('n'))
    });
    let all = ["servers-0", "servers-etcd-0", "generators-0"].map(|name| (name, Some(1.0), true));
    assert_eq!(pods.collect::<Vec<_>>(), all);
    let of = |system: &str| {
        let trial = lines.iter().find(|line| line["trial"]["system"] == system).expect("it ran");
        let servers =
            array(&trial["machines"]).iter().filter(|one| !array(&one["servers"]).is_empty());
        let servers: Vec<&str> = servers.map(|one| text(&one["name"])).collect();
        let mut checks = array(&trial["checks"]).iter();
        (
            servers,
            checks
                .find(|check| check["name"] == "limits")
                .map(|check| check["verdict"]["verdict"].clone()),
        )
    };
    assert_eq!(of("of-image"), (vec!["servers-etcd-0"], None));
    assert_eq!(of("limited"), (vec!["servers-0"], Some("passed".into())));
    std::fs::remove_dir_all(dir.path().join("runs")).unwrap();
    let mut running = begin(cluster, dir.path(), LIMITED, IMAGES);
    under_way(cluster, dir.path(), "[1/4]");
    running.kill().and_then(|()| running.wait()).unwrap();
    wait_for("the namespace's end", Duration::from_secs(120), || namespaces(cluster).is_empty());
    dead_node_keeps_no_namespace(cluster, dir.path());
    Ok(())
}

/// No kubelet confirms the end of pods on a dead node. The node stays dead.
fn dead_node_keeps_no_namespace(cluster: &Cluster, dir: &Path) {
    std::fs::remove_dir_all(dir.join("runs")).unwrap();
    let running = begin(cluster, dir, LIMITED, IMAGES);
    let namespace = under_way(cluster, dir, "[1/4]");
    let node = ["-n", &namespace, "get", "pod", "servers-0", "-o", "jsonpath={.spec.nodeName}"];
    let node = cluster.kubectl(&node, "").ends_with(0).stdout;
    let status = cluster.status();
    let of_node = array(&status["nodes"]).iter().find(|one| one["name"] == node.trim()).unwrap();
    let pid = rustix::process::Pid::from_raw(of_node["pid"].as_i64().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let by_force = format!("`servers-0` on the node `{}`", node.trim());
    let ran = end(dir, running).ends_with(4);
    ran.complains(&["lost the connection to ", "were deleted by force: ", &by_force]);
    assert_eq!(namespaces(cluster), Vec::<String>::new());
}

/// Waits until a trial is under load, and returns the namespace.
fn under_way(cluster: &Cluster, dir: &Path, trial: &str) -> String {
    wait_for(trial, Duration::from_secs(90), || {
        std::fs::read_to_string(dir.join("stderr")).unwrap().contains(trial)
    });
    std::thread::sleep(Duration::from_millis(1500));
    namespaces(cluster).remove(0).trim_start_matches("namespace/").to_owned()
}

/// Checks that a run and `doctor` report all missing rights and nodes.
fn missing_rights_are_reported(cluster: &Cluster) {
    let dir = tempfile::tempdir().unwrap();
    let kubectl = dir.path().join("kubectl");
    let script =
        format!("#!/bin/sh\nexec {}/kubectl --as=nobody \"$@\"\n", cluster.bin().display());
    std::fs::write(&kubectl, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&kubectl, mode).unwrap();
    let missing = [
        "create namespaces, delete namespaces, create jobs.batch",
        "create pods/exec, list events",
    ];
    let places = format!("kubernetes: {{kubectl: {}}}\n", kubectl.display());
    end(dir.path(), begin(cluster, dir.path(), SMALL_ETCD, &places))
        .ends_with(2)
        .complains(&missing);
    let doctor = |places: &str, code: i32| {
        let on = dir.path().join("places.yaml");
        std::fs::write(&on, places).unwrap();
        let ran = bakeoff(cluster).args(["doctor", "demo", "--on"]).arg(on).output().unwrap();
        CommandOutput::from_output(ran).ends_with(code).stdout
    };
    let output = doctor(&places, 3);
    assert!(
        output.contains("missing   the rights to create namespaces, delete namespaces"),
        "{output}"
    );
    let output = doctor("kubernetes: {node-selector: {disk: nvme}, storage-class: fast}", 3);
    assert!(output.contains("missing   4 nodes for the run's pods"), "{output}");
    assert!(output.contains("missing   the storage class `fast`"), "{output}");
}
