//! Tests ingress gateways as users run them: both meshes under load, limits, and failures to start.
//!
//! Not here: certificates of the proxies (tests of their folder in `bakeoff-systems`).

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::Value;

use crate::support::case::{Case, Part, case, part, with};
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::{Bench, CommandOutput, Run, array, bakeoff, figure, text};

const ISTIO: Part = Part { needs: &["go"], ..part("control-plane", "istio") };
const CONSUL: Part = Part { needs: &["go"], ..part("control-plane", "consul") };
const BOTH: Case = Case { parts: &[CONSUL, ISTIO], ..case("ingress-gateway", "", 1) };
const WITH_CONSUL: Case = Case { what: "of Consul's", parts: &[CONSUL], ..BOTH };
/// With the test's own control plane, given by path.
const ALONE: Case = Case { what: "by itself", parts: &[], ..BOTH };

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    type Test = fn(&Case);
    let tests: [(&str, Case, Test); 6] = [
        ("control_plane_that_never_programs_its_proxy_is_reported", ALONE, never_programmed),
        ("too_little_cpu_to_start_is_reported", WITH_CONSUL, too_little_cpu),
        ("both_are_loaded_and_verified_next_to_the_application_alone", BOTH, both),
        ("too_little_memory_to_start_is_reported", WITH_CONSUL, too_little_memory),
        ("proxies_reconfigured_under_load_are_reported", WITH_CONSUL, reconfigured),
        ("an_application_that_is_slow_is_slow_through_the_gateway", WITH_CONSUL, slow),
    ];
    let mut trials: Vec<Trial> =
        tests.map(|(name, case, test)| with(name, case, skipped, test)).into();
    let name = "cpu_limits_hold_as_seen_from_outside_and_throttling_shows";
    trials.push(with(name, WITH_CONSUL, skipped, cpu_limits));
    trials
}

fn gateway(name: &str, plane: &str, limits: &str) -> String {
    let plane = match plane {
        "consul" => "{kind: consul, options: {raft-multiplier: 1}}",
        "istio" => "{kind: istio}",
        other => other,
    };
    format!(
        "  {name}: {{kind: ingress-gateway{limits}, parts: {{application: {{kind: application}}, \
         control-plane: {plane}, sidecar: {{kind: envoy}}}}}}\n"
    )
}

fn bench(systems: &str, load: &str) -> Bench {
    Bench::new(&format!(
        "title: Gateways\nsystems:\n{systems}workloads:\n  requests: {{mix: {{request: 1}}, \
         request: {{expect: {{status: 200, body-size: 255}}}}}}\nloads:\n  load: {{{load}}}\ntrials: 1\n"
    ))
}

/// Returns the usage of nodes in a trial's line of the record, by the suffixes of their names.
fn usage(trial: &Value) -> BTreeMap<String, Value> {
    let nodes = array(&trial["usage"]).iter();
    nodes.map(|one| (text(&one["name"]).to_owned(), one.clone())).collect()
}

fn trials_of(run: &Run) -> Vec<Value> {
    run.record().into_iter().filter(|line| line["line"] == "trial").collect()
}

/// Returns the verdict of a check in a trial's line: `passed`, or the reason.
fn check(trial: &Value, name: &str) -> Value {
    let found = array(&trial["checks"]).iter().find(|check| check["name"] == name);
    found.map_or(Value::Null, |check| check["verdict"].clone())
}

fn both(_: &Case) {
    let systems = [
        gateway("with-consul", "consul", ""),
        gateway("with-istio", "istio", ", limits: {cpu: 2, memory: 1GiB}"),
        "  direct: {kind: application}\n".to_owned(),
    ];
    let run = bench(&systems.concat(), "clients: 20, stop: {operations: 2000}").run();
    crate::support::nothing_runs_in(run.bench.path());
    assert_eq!(run.trials().len(), 3, "{}", run.ran.stderr);
    for trial in run.trials() {
        run.excuses(trial);
        assert_eq!(figure(trial, "errors"), 0.0, "{trial}");
        assert_eq!(figure(trial, "requests_verified"), 2000.0, "{trial}");
    }
    for trial in trials_of(&run) {
        let direct = trial["trial"]["system"] == "direct";
        let expected = if direct { Value::Null } else { "passed".into() };
        assert_eq!(check(&trial, "configuration")["verdict"], expected, "{trial}");
    }
    let record = run.record();
    for system in array(&record[0]["systems"]).iter().filter(|one| one["kind"] != "application") {
        let named = |one: &&Value| one["name"] == "mutual TLS to the sidecar";
        let setting = array(&system["settings"]).iter().find(named);
        assert_eq!(setting.unwrap()["value"], "on", "{system}");
        let roles: Vec<&str> =
            array(&system["parts"]).iter().map(|one| text(&one["role"])).collect();
        assert_eq!(roles, ["application", "control-plane", "sidecar"]);
    }
    for trial in trials_of(&run) {
        let usage = usage(&trial);
        let system = text(&trial["trial"]["system"]);
        // The usage of gateway and sidecar is separate, and gives CPU per request.
        let watched: &[&str] = match system {
            "direct" => &["direct-1"],
            _ => &["-1", "-application-1", "-control-plane-1", "-sidecar-1"],
        };
        for end in watched {
            let node =
                if system == "direct" { (*end).to_owned() } else { format!("{system}{end}") };
            assert!(usage.contains_key(&node), "no {node}: {:?}", usage.keys());
        }
    }
}

/// Returns the CPU time of processes and their children so far, as the scheduler counts it.
fn cpu_time(pids: &[String]) -> Duration {
    let mut nanoseconds = 0;
    for pid in pids {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let stat = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let on_cpu = stat.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
            nanoseconds += on_cpu.unwrap_or(0);
        }
    }
    Duration::from_nanos(nanoseconds)
}

/// Returns the processes whose working directory has this name and is below another folder.
fn working_in(dir: &Path, name: &str) -> Vec<String> {
    let lines = crate::support::processes_of(dir).into_iter();
    let pids = lines.filter_map(|line| line.split(':').next().map(str::to_owned));
    let there = |pid: &String| {
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        cwd.ends_with(name)
    };
    pids.filter(there).collect()
}

/// Returns the CPUs that a gateway used in its busiest stretch, measured from outside during a study.
fn busiest(bench: &Bench, node: &str, stretch: Duration) -> f64 {
    let mut child = bench
        .command()
        .arg("--json")
        .stdout(std::fs::File::create(bench.path().join("report.json")).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut seen: Vec<(Instant, Duration)> = Vec::new();
    let mut pids = Vec::new();
    while child.try_wait().unwrap().is_none() {
        if pids.is_empty() {
            pids = working_in(bench.path(), node);
        } else {
            seen.push((Instant::now(), cpu_time(&pids)));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut most: f64 = 0.0;
    for (index, (from, before)) in seen.iter().enumerate() {
        let long_enough = |(at, _): &&(Instant, Duration)| at.duration_since(*from) >= stretch;
        if let Some((to, after)) = seen[index..].iter().find(long_enough) {
            let used = after.saturating_sub(*before).as_secs_f64();
            most = most.max(used / to.duration_since(*from).as_secs_f64());
        }
    }
    most
}

fn cpu_limits(_: &Case) -> Result<(), SkipReason> {
    // Below its fair share of two CPUs, or else the limit never applies.
    const LIMIT: f64 = 0.07;
    let mut seen = Vec::new();
    // It never gets more than the limit, and the full limit only if other work leaves it.
    loop {
        let limits = format!(", limits: {{cpu: {LIMIT}, memory: 200MiB}}");
        let bench =
            bench(&gateway("gw", "consul", &limits), "clients: 50, warmup: 0s, stop: {after: 8s}");
        let cpu = busiest(&bench, "gw-1", Duration::from_secs(6));
        let record = bench.record();
        let trial = record.iter().find(|line| line["line"] == "trial").unwrap();
        let verdict = check(trial, "limits");
        if verdict["verdict"] != "passed" {
            // It must report the reason; then the test ends.
            assert_eq!(verdict["verdict"], "not-checked", "{verdict}");
            let why = format!("limits cannot be applied here: {verdict}");
            return Err(SkipReason::Machine(why));
        }
        crate::support::nothing_runs_in(bench.path());
        seen.push(cpu);
        assert!(cpu < LIMIT * 1.05, "{seen:?}");
        if cpu > LIMIT * 0.95 {
            let usage = usage(trial);
            let throttled = usage["gw-1"]["throttled_seconds"].as_f64().unwrap();
            assert!(throttled > 1.0, "it wanted more than {LIMIT}: {throttled}");
            assert_eq!(usage["gw-sidecar-1"]["throttled_seconds"], Value::Null, "it has no limits");
            return Ok(());
        }
        assert!(seen.len() < 4, "{seen:?}");
    }
}

/// Sets the timeout of a sidecar for its application in Consul.
fn set_timeout(config: &Path, milliseconds: u32) -> std::io::Result<()> {
    let config: Value = serde_json::from_slice(&std::fs::read(config)?)?;
    let port = config["ports"]["http"].as_u64().unwrap();
    let entry = format!(
        r#"{{"Kind": "service-defaults", "Name": "application", "Protocol": "http",
            "LocalConnectTimeoutMs": {milliseconds}}}"#
    );
    let mut socket = TcpStream::connect(("127.0.0.1", port.try_into().unwrap()))?;
    write!(
        socket,
        "PUT /v1/config HTTP/1.1\r\nHost: consul\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{entry}",
        entry.len()
    )?;
    socket.read_to_string(&mut String::new()).map(drop)
}

fn reconfigured(_: &Case) {
    let bench = bench(&gateway("gw", "consul", ""), "clients: 4, warmup: 0s, stop: {after: 3s}");
    let mut command = bench.command();
    let mut child =
        command.arg("--json").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut milliseconds = 500;
    while child.try_wait().unwrap().is_none() {
        for pid in working_in(bench.path(), "gw-control-plane-1") {
            // It may not listen yet, or not any more.
            let config = Path::new("/proc").join(pid).join("cwd/consul.json");
            milliseconds += 1;
            set_timeout(&config, milliseconds).ok();
        }
        // Consul publishes a change once it is stable for a moment.
        std::thread::sleep(Duration::from_millis(700));
    }
    crate::support::nothing_runs_in(bench.path());
    let trial = bench.record().into_iter().find(|line| line["line"] == "trial").unwrap();
    let verdict = check(&trial, "configuration");
    assert_eq!(verdict["verdict"], "failed", "{trial}");
    assert_eq!(
        verdict["why"], "cluster `local_app` of `gw-sidecar-1` changed during the load",
        "{trial}"
    );
}

/// Runs a study that cannot start, and returns its output.
fn cannot_start(systems: &str) -> CommandOutput {
    let bench = bench(systems, "clients: 1, stop: {operations: 1}");
    let ran = CommandOutput::run(&mut bench.command());
    assert_eq!(ran.code, Some(4), "{}\n{}", ran.stdout, ran.stderr);
    crate::support::nothing_runs_in(bench.path());
    ran
}

fn too_little_cpu(_: &Case) {
    let ran = cannot_start(&gateway("gw", "consul", ", limits: {cpu: 0.001}"));
    if ran.stderr.contains("cannot be applied") {
        return;
    }
    ran.complains(&[
        "`gw-1` was not ready after 30s: its limit of 0.001 CPUs throttled it ",
        " % of the time",
        "hint: raise its `limits`",
    ]);
}

fn too_little_memory(_: &Case) {
    let ran = cannot_start(&gateway("gw", "consul", ", limits: {memory: 12MiB}"));
    ran.complains(&[
        "`gw-1` was killed by the kernel at its memory limit of 12 MiB (oom_kill ",
        "before it was ready",
        "hint: raise its `limits`",
    ]);
}

/// A control plane of Istio that becomes ready, but listens for no proxies.
const SILENT: &str = r#"#!/bin/sh
if [ "$1" = version ]; then echo 'version.BuildInfo{Version:"1.26.0"}'; exit; fi
for word; do case $word in --httpAddr=*) port=${word##*:} ;; esac; done
mkdir -p web/debug && echo '[]' > web/debug/syncz
echo 'this mesh has nothing to say to proxies'
exec python3 -m http.server --bind 127.0.0.1 --directory web "$port" 2> /dev/null
"#;

fn never_programmed(_: &Case) {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let program = write("pilot-discovery", SILENT);
    // Its only task here is to start Envoy.
    write(
        "pilot-agent",
        "#!/bin/sh\nexec \"$(echo \"$PROXY_CONFIG\" | sed 's/.*\"binaryPath\":\"\\([^\"]*\\)\".*/\\1/')\" -c envoy.json --disable-hot-restart\n",
    );
    let plane = format!("{{kind: istio, program: {}}}", program.display());
    cannot_start(&gateway("gw", &plane, "")).complains(&[
        "`gw-sidecar-1` was not ready after 30s",
        "`gw-sidecar-1` has no listener on port ",
        "no control plane is connected, clusters were sent 0 times and listeners 0 times",
        "gw-control-plane-1.log",
        "| this mesh has nothing to say to proxies",
    ]);
}

fn slow(_: &Case) {
    let systems = gateway("gw", "consul", "")
        .replace("{kind: application}", "{kind: application, options: {delay: 40ms}}");
    let run = bench(&systems, "clients: 4, stop: {operations: 80}").run();
    assert_eq!(figure(run.trial(), "errors"), 0.0, "{}", run.ran.stderr);
    let p50 = figure(run.trial(), "response_p50_ms");
    assert!((40.0..120.0).contains(&p50), "{p50}");
    let ran = CommandOutput::run(
        bakeoff().args(["manifests", "ingress", "--out"]).arg(run.bench.path().join("m")),
    );
    let ran = ran.ends_with(0);
    assert!(ran.stdout.contains("m/README.md") && ran.stdout.contains("m/study.yaml"), "{ran:?}");
    let again =
        bakeoff().args(["manifests", "ingress", "--out"]).arg(run.bench.path().join("m")).output();
    CommandOutput::from_output(again.unwrap()).ends_with(2).complains(&["is not empty"]);
}
