//! Real processes, launched and ended.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::record::durability::UnsafeSetting;
use rustix::process::Signal;
use tempfile::TempDir;

use super::StopResult;
use super::*;

pub(super) fn sh(dir: &TempDir, script: &str) -> NodeSpec {
    NodeSpec {
        name: "node-1".into(),
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        env: Vec::new(),
        files: Vec::new(),
        dir: dir.path().join("node-1"),
        ports: vec![("client".into(), 1)],
        limits: None,
        ..NodeSpec::default()
    }
}

pub(super) fn launch(spec: NodeSpec) -> Result<Process, HostError> {
    Host::new(spec.dir.parent().unwrap()).unwrap().launch(spec)
}

pub(super) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = clock::now() + Duration::from_secs(10);
    while !holds() {
        assert!(clock::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn log_has(process: &Process, line: &str) -> bool {
    process.log_tail(100).lines.iter().any(|l| l == line)
}

fn runs(pid: i32) -> bool {
    procfs::stat(pid).is_some_and(|stat| stat.lives())
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_node_runs_in_its_directory_with_little_environment_and_no_input() {
    let dir = TempDir::new().unwrap();
    let mut spec = sh(&dir, "pwd; env; cat; cat conf/a; stat -c %a conf/a; exit 7");
    spec.env = vec![("OWN".into(), "yes".into())];
    spec.files = vec![NodeFile {
        path: "conf/a".into(),
        contents: b"secret\n".to_vec(),
        mode: FileMode::Private,
    }];
    let process = launch(spec).unwrap();
    wait_for("the end", || !process.is_alive());
    assert_eq!(process.exit(), Some(Exit::Code(7)));
    let lines = process.log_tail(100).lines;
    let has = |line: &str| assert!(lines.iter().any(|l| l == line), "{line} in {lines:?}");
    has(dir.path().join("node-1").to_str().unwrap());
    has("OWN=yes");
    has("LANG=C");
    has(&format!("TMPDIR={}", dir.path().join("node-1/tmp").display()));
    has("secret");
    has("600");
    let mode = dir.path().join("node-1").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "what it keeps is its own");
    let names = lines.iter().filter_map(|l| l.split_once('=')).map(|(name, _)| name);
    let known = ["OWN", "LANG", "TMPDIR", "PATH", "HOME", "PWD", "OLDPWD", "SHLVL", "_"];
    let marks = [warden_line::MARK, warden_line::NODE_MARK];
    let unknown = names.filter(|n| !known.contains(n) && !marks.contains(n)).collect::<Vec<_>>();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn daemon_is_reported_and_ends_with_its_node() {
    let dir = TempDir::new().unwrap();
    let process = launch(sh(&dir, "(setsid sleep 61 &); echo left; exec sleep 60")).unwrap();
    let other = launch(NodeSpec { name: "node-2".into(), ..sh(&dir, "exec sleep 60") }).unwrap();
    wait_for("the daemon", || process.strays().iter().any(|stray| stray.starts_with("sleep (")));
    assert_eq!(other.strays(), [""; 0], "it is another node's");
    let strays = process.strays();
    let pid = strays[0].trim_start_matches("sleep (").trim_end_matches(')').parse().unwrap();
    process.kill9();
    assert!(!runs(pid), "{strays:?}");
    assert!(other.is_alive());
}

/// Descendants of a wrapper count, as do writes to a file opened with O_DSYNC.
#[test]
fn syncs_of_all_descendants_are_counted_while_tracing() {
    let dir = TempDir::new().unwrap();
    let script = "echo x > data; sync data; touch ready; while [ ! -e go ]; do sleep 0.01; done
        (sync data; sync -d data); dd if=/dev/zero of=data bs=1 count=3 oflag=dsync
        echo y > other; touch done; while :; do sync data; sleep 0.01; done";
    let process = launch(sh(&dir, script)).unwrap();
    let file = |name: &str| dir.path().join("node-1").join(name);
    wait_for("the wrapper", || file("ready").exists());
    process.begin_counting_syncs().unwrap();
    std::fs::write(file("go"), "").unwrap();
    wait_for("its syncs", || file("done").exists());
    let seen = process.end_counting_syncs();
    assert_eq!(seen.incomplete, None, "{:?} {:?}", process.exit(), process.log_tail(20));
    // One more may end before counting does.
    assert!((5..100).contains(&seen.syncs), "{seen:?}");
    assert!(process.is_alive(), "tracing leaves it as it was");
    assert!(process.end_counting_syncs().incomplete.is_some(), "nothing is counted any more");
    process.begin_counting_syncs().unwrap();
    drop(process);
}

#[test]
fn unsafe_settings_of_a_wrapped_program_are_found_and_nothing_else() {
    let dir = TempDir::new().unwrap();
    // A wrapper that stays, and starts the server with the unsafe setting.
    let mut spec = sh(&dir, "sh -c 'sleep 60; :' server --unsafe-no-fsync --password secret; :");
    spec.env = vec![("ETCD_UNSAFE_NO_FSYNC".into(), "true".into())];
    let process = launch(spec).unwrap();
    let known = ["unsafe-no-fsync", "ETCD_UNSAFE_NO_FSYNC"].map(UnsafeSetting::on);
    let both = ["`--unsafe-no-fsync`", "`ETCD_UNSAFE_NO_FSYNC=true`"];
    wait_for("the server", || process.unsafe_settings(&known) == both);
}

#[test]
fn a_program_that_is_missing_or_not_executable_is_named() {
    let dir = TempDir::new().unwrap();
    let fails_with = |program: &Path, message: &str| {
        let spec = NodeSpec { program: program.into(), ..sh(&dir, "") };
        let error = launch(spec).err().expect("must fail").to_string();
        assert!(error.contains(message) && error.contains("`node-1`"), "{error}");
    };
    fails_with(Path::new("no-such-program"), "`no-such-program`: it is not on `PATH`");
    fails_with(&dir.path().join("nothing"), "the file does not exist");
    fails_with(dir.path(), "it is not a file");
    let text = dir.path().join("text");
    std::fs::write(&text, "#!/no/such/interpreter\n").unwrap();
    fails_with(&text, "it is not executable");
    std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
    fails_with(&text, "cannot execute it: No such file");
}

#[test]
fn node_that_dies_at_once_is_reported_with_its_log_tail() {
    let dir = TempDir::new().unwrap();
    let script = "echo first; echo 'listen: address already in use \x1b[31m' >&2; exit 3";
    let nodes = [launch(sh(&dir, script)).unwrap()];
    let probe = || Probe::NotYet("connection refused".into());
    let began = clock::now();
    let error = await_ready(&nodes, LONG, &AtomicBool::new(false), probe).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(5));
    let text = error.to_string();
    assert!(text.starts_with("`node-1` ended with exit code 3 after "), "{text}");
    assert!(text.contains("\n    | first\n    | listen: address already in use"), "{text}");
    assert!(text.contains("logs/node-1.log (kept)"), "{text}");
    assert!(text.contains("hint: another process may hold a port; try `--base-port`"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn node_that_is_never_ready_is_reported_with_the_last_probe() {
    let dir = TempDir::new().unwrap();
    let nodes = [launch(sh(&dir, "echo starting; exec sleep 60")).unwrap()];
    let mut looks = 0;
    let probe = || {
        looks += 1;
        Probe::NotYet(format!("look {looks} returned 503"))
    };
    let within = Duration::from_millis(300);
    let text = await_ready(&nodes, within, &AtomicBool::new(false), probe).unwrap_err().to_string();
    assert!(looks > 3);
    let expected =
        format!("`node-1` was not ready after 300ms\n  probe: look {looks} returned 503");
    assert!(text.starts_with(&expected), "{text}");
    assert!(text.contains("| starting"), "{text}");
}

#[test]
fn node_that_gives_up_after_a_kill_is_started_again() {
    let dir = TempDir::new().unwrap();
    // It gives up at the second and third start, and at each from the seventh on.
    let script = "n=$(cat starts 2>/dev/null || echo 0); echo $((n + 1)) > starts
        case $n in 1|2|6|7|8|9) exit 1;; esac; touch runs; exec sleep 100";
    let nodes = [launch(sh(&dir, script)).unwrap()];
    let folder = dir.path().join("node-1");
    let starts = || std::fs::read_to_string(folder.join("starts")).unwrap_or_default();
    let stop = AtomicBool::new(false);
    let ready = || match folder.join("runs").exists() {
        true => Probe::Ready,
        false => Probe::NotYet(String::new()),
    };
    let again = || {
        std::fs::remove_file(folder.join("runs")).ok();
        nodes[0].restart().unwrap();
        await_ready(&nodes, LONG, &stop, ready)
    };
    await_ready(&nodes, LONG, &stop, ready).unwrap();
    again().unwrap();
    assert_eq!(starts().trim(), "4");
    for _ in 0..2 {
        again().unwrap();
    }
    let given_up = again().unwrap_err().to_string();
    assert!(given_up.contains("after it was started again"), "{given_up}");
    assert_eq!(starts().trim(), "10");
}

#[test]
fn waiting_ends_when_ready_and_when_the_user_stops_it() {
    let dir = TempDir::new().unwrap();
    let nodes = [launch(sh(&dir, "exec sleep 60")).unwrap()];
    let mut looks = 0;
    let ready = || {
        looks += 1;
        if looks == 3 { Probe::Ready } else { Probe::NotYet(String::new()) }
    };
    await_ready(&nodes, LONG, &AtomicBool::new(false), ready).unwrap();
    let never = || Probe::NotYet(String::new());
    let error = await_ready(&nodes, LONG, &AtomicBool::new(true), never).unwrap_err();
    assert!(matches!(error, HostError::Interrupted { .. }), "{error}");
}

#[test]
fn held_ports_are_in_use_for_the_node() {
    let dir = TempDir::new().unwrap();
    let location = Location { address: [127, 0, 0, 5].into(), ..Location::HERE };
    let port = ports::Allocator::new(None).take_for(location).unwrap();
    let everywhere = || std::net::TcpListener::bind(("0.0.0.0", port)).map(drop);
    let process = launch(NodeSpec { location, held: vec![port], ..sh(&dir, "exec sleep 100") });
    let process = process.unwrap();
    let error = everywhere().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert_eq!(process.listens_on(), [], "it is not the node who listens");
    drop(process);
    // A program that another test starts holds our descriptors until it executes.
    wait_for("the port", || everywhere().is_ok());
}

#[test]
fn a_node_that_ends_on_sigterm_is_not_forced() {
    let dir = TempDir::new().unwrap();
    let process = launch(sh(&dir, "trap 'exit 5' TERM; echo set; while :; do sleep 0.01; done"));
    let process = process.unwrap();
    wait_for("the trap", || log_has(&process, "set"));
    assert_eq!(process.terminate(LONG), StopResult { exit: Exit::Code(5), forced: false });
    assert_eq!(process.pid(), None);
}

#[test]
fn a_node_that_ignores_sigterm_is_killed_after_the_grace() {
    let dir = TempDir::new().unwrap();
    let process = launch(sh(&dir, "trap '' TERM; echo set; while :; do sleep 0.01; done"));
    let process = process.unwrap();
    wait_for("the trap", || log_has(&process, "set"));
    let began = clock::now();
    let stopped = process.terminate(Duration::from_millis(200));
    assert_eq!(stopped, StopResult { exit: Exit::Signal(9), forced: true });
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert_eq!(stopped.exit.to_string(), "was killed by SIGKILL");
}

#[test]
fn graces_of_several_nodes_run_concurrently() {
    let dir = TempDir::new().unwrap();
    let host = Host::new(dir.path()).unwrap();
    let script = "trap '' TERM; echo set; while :; do sleep 0.01; done";
    let nodes = (1..=3).map(|n| {
        let spec = NodeSpec { name: format!("node-{n}"), ..sh(&dir, script) };
        host.launch(spec).unwrap()
    });
    let nodes = nodes.collect::<Vec<_>>();
    wait_for("the traps", || nodes.iter().all(|node| log_has(node, "set")));
    let began = clock::now();
    let stopped = terminate_all(&nodes, Duration::from_millis(400));
    assert!(began.elapsed() < Duration::from_millis(1000), "{:?}", began.elapsed());
    assert!(stopped.iter().all(|stopped| stopped.forced));
}

/// Returns the IDs that a script printed, one a line, once there are `count` of them.
fn printed_ids(process: &Process, count: usize) -> Vec<i32> {
    let read = || process.log_tail(10).lines.iter().filter_map(|l| l.parse().ok()).collect();
    let mut ids: Vec<i32> = Vec::new();
    wait_for("all ids", || {
        ids = read();
        ids.len() == count
    });
    ids
}

#[test]
fn children_die_with_their_node_even_in_a_session_of_their_own() {
    let dir = TempDir::new().unwrap();
    let script = "sleep 60 & echo $!; setsid sleep 60 & echo $!; wait";
    let process = launch(sh(&dir, script)).unwrap();
    let ids = printed_ids(&process, 2);
    // `setsid` leaves the group only once it runs.
    wait_for("a new session", || procfs::stat(ids[1]).is_some_and(|s| s.group == ids[1]));
    assert!(ids.iter().all(|&id| runs(id)));
    drop(process);
    assert!(!ids.iter().any(|&id| runs(id)));
}

#[test]
fn processes_of_a_dead_node_are_cleared_away() {
    let dir = TempDir::new().unwrap();
    let process = launch(sh(&dir, "sleep 60 & echo $!; exit 1")).unwrap();
    let ids = printed_ids(&process, 1);
    wait_for("the end", || !process.is_alive());
    assert!(runs(ids[0]));
    assert_eq!(process.kill9(), Exit::Code(1));
    assert!(!runs(ids[0]));
}

#[test]
fn a_panic_leaves_nothing_running() {
    let dir = TempDir::new().unwrap();
    let process = launch(sh(&dir, "exec sleep 60")).unwrap();
    let pid = process.pid().unwrap();
    let outcome = std::thread::spawn(move || {
        let _moved = process;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(outcome.join().is_err());
    assert!(!runs(pid));
}

#[test]
fn a_node_outlives_the_thread_that_launched_it() {
    let dir = TempDir::new().unwrap();
    let spec = sh(&dir, "exec sleep 60");
    let process = std::thread::spawn(move || launch(spec).unwrap()).join().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!(process.is_alive());
}

#[test]
fn restart_runs_the_same_program_and_appends_to_its_log() {
    let dir = TempDir::new().unwrap();
    let process = launch(sh(&dir, "echo here >> count; wc -l < count; exec sleep 60")).unwrap();
    let first = process.pid().unwrap();
    wait_for("the first", || log_has(&process, "1"));
    assert_eq!(process.kill9(), Exit::Signal(9));
    assert!(!process.is_alive());
    process.restart().unwrap();
    wait_for("the second", || log_has(&process, "2"));
    assert!(log_has(&process, "1"), "the log of the first start is kept");
    assert_ne!(process.pid().unwrap(), first);
    assert!(!runs(first));
}

#[test]
fn log_tail_excludes_an_earlier_trial() {
    let dir = TempDir::new().unwrap();
    let first = launch(sh(&dir, "echo first")).unwrap();
    wait_for("its line", || log_has(&first, "first"));
    drop(first);
    let second = launch(sh(&dir, "echo second")).unwrap();
    wait_for("its line", || log_has(&second, "second"));
    assert!(!log_has(&second, "first"));
    assert!(std::fs::read_to_string(&second.logs()[0]).unwrap().starts_with("first\n---"));
}

#[test]
fn a_stopped_node_can_still_be_killed() {
    let dir = TempDir::new().unwrap();
    let process = launch(sh(&dir, "exec sleep 60")).unwrap();
    process.signal(Signal::STOP);
    let pid = process.pid().unwrap();
    wait_for("the stop", || procfs::stat(pid).is_some_and(|stat| stat.state == b'T'));
    let stopped = process.terminate(Duration::from_millis(50));
    assert_eq!(stopped, StopResult { exit: Exit::Signal(9), forced: true });
}

#[test]
fn a_node_runs_on_the_cpus_it_was_given_or_not_at_all() {
    let dir = TempDir::new().unwrap();
    let mut spec = sh(&dir, "grep Cpus_allowed_list /proc/self/status; exec sleep 60");
    spec.limits = Some(Limits { cpu: None, memory: None, cpus: vec![0] });
    let process = launch(spec).unwrap();
    wait_for("the list", || log_has(&process, "Cpus_allowed_list: 0"));
    let mut spec = sh(&dir, "");
    spec.limits = Some(Limits { cpu: None, memory: None, cpus: vec![1023] });
    let error = launch(spec).err().expect("must fail").to_string();
    assert!(error.contains("cannot pin it to CPUs 1023"), "{error}");
}

#[test]
fn a_node_enters_its_limits_before_its_first_instruction() {
    struct PinnedGroup(PathBuf);
    impl Confine for PinnedGroup {
        fn confine(&self, _: &NodeSpec) -> Confinement {
            let limits = LimitsApplied::Applied { by: "a test".into() };
            Confinement { enter: vec![self.0.clone()], limits, group: None }
        }
        fn release(&self, _: &NodeSpec) {
            std::fs::remove_file(&self.0).unwrap();
        }
    }
    let dir = TempDir::new().unwrap();
    let procs = dir.path().join("cgroup.procs");
    std::fs::write(&procs, "").unwrap();
    let host = Host::confining(dir.path(), Arc::new(PinnedGroup(procs.clone()))).unwrap();
    let process = host.launch(sh(&dir, "exec sleep 60")).unwrap();
    assert_eq!(std::fs::read_to_string(&procs).unwrap(), process.pid().unwrap().to_string());
    process.kill9();
    assert!(!procs.exists(), "released once it is gone");
}

#[test]
fn files_and_names_stay_inside_their_directories() {
    let dir = TempDir::new().unwrap();
    for path in ["../out", "/out", ""] {
        let mut spec = sh(&dir, "");
        let contents = Vec::new();
        spec.files = vec![NodeFile { path: path.into(), contents, mode: FileMode::Readable }];
        assert!(matches!(launch(spec), Err(HostError::Spec { .. })), "{path}");
    }
    for name in ["a/b", "..", ""] {
        let spec = NodeSpec { name: name.into(), ..sh(&dir, "") };
        assert!(matches!(launch(spec), Err(HostError::Spec { .. })), "{name}");
    }
}

#[test]
fn only_files_of_its_description_are_replaced() {
    let dir = TempDir::new().unwrap();
    let mut spec = sh(&dir, "exec sleep 60");
    let contents = b"old".to_vec();
    spec.files = vec![NodeFile { path: "conf/a".into(), contents, mode: FileMode::Private }];
    let process = launch(spec).unwrap();
    process.replace_file(Path::new("conf/a"), b"new").unwrap();
    let path = process.spec().dir.join("conf/a");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    for other in ["conf/b", "../out", "conf/../conf/a"] {
        let why = process.replace_file(Path::new(other), b"new").unwrap_err();
        assert_eq!(why, format!("it has no file `{other}`"));
    }
}

fn before(script: &str) -> SetupCommand {
    SetupCommand {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        within: LONG,
        failure: OnFailure::GiveUp,
    }
}

#[test]
fn commands_before_a_node_run_once_in_order_and_as_the_node() {
    let dir = TempDir::new().unwrap();
    let mut spec = sh(&dir, "cat made; exec sleep 60");
    spec.env = vec![("OWN".into(), "yes".into())];
    spec.before =
        vec![before("pwd; echo one >> made"), before("echo two-$OWN >> made; echo \"in-$(cat)\"")];
    let process = launch(spec).unwrap();
    wait_for("the server", || log_has(&process, "two-yes"));
    let lines = process.log_tail(10).lines;
    let node = dir.path().join("node-1");
    assert_eq!(lines, [node.to_str().unwrap(), "in-", "one", "two-yes"]);
    process.kill9();
    process.restart().unwrap();
    wait_for("the server again", || process.log_tail(10).lines.len() == 7);
    assert_eq!(std::fs::read_to_string(node.join("made")).unwrap(), "one\ntwo-yes\n");
}

#[test]
fn an_upgraded_node_starts_with_the_other_program_from_then_on() {
    let dir = TempDir::new().unwrap();
    let mut spec = sh(&dir, "echo old $OWN; exec sleep 60");
    spec.env = vec![("OWN".into(), "yes".into())];
    spec.upgrade = Some(Upgrade {
        version: "2".into(),
        program: "sh".into(),
        args: vec!["-c".into(), "echo new $OWN; exec sleep 60".into()],
        env: vec![("OWN".into(), "2".into())],
    });
    let process = launch(spec).unwrap();
    wait_for("the first version", || log_has(&process, "old yes"));
    process.restart().unwrap();
    wait_for("a restart", || {
        process.log_tail(10).lines.iter().filter(|line| *line == "old yes").count() == 2
    });
    assert_eq!(process.upgrade().unwrap(), "2");
    for starts in 1..=2 {
        process.restart().unwrap();
        wait_for("the other version", || {
            process.log_tail(10).lines.iter().filter(|line| *line == "new 2").count() == starts
        });
    }
    let plain = launch(sh(&dir, "exec sleep 60")).unwrap();
    assert!(plain.upgrade().is_err());
}

#[test]
fn failed_preparation_is_reported_and_the_node_not_started() {
    let dir = TempDir::new().unwrap();
    let mut spec = sh(&dir, "touch started");
    spec.before = vec![before("echo no room >&2; exit 3"), before("touch second")];
    let text = launch(spec).err().expect("must fail").to_string();
    assert!(text.starts_with("cannot prepare `node-1`: `/"), "{text}");
    assert!(text.contains("` ended with exit code 3 after "), "{text}");
    assert!(text.contains("\n    | no room"), "{text}");
    assert!(
        !dir.path().join("node-1/second").exists() && !dir.path().join("node-1/started").exists()
    );
}

#[test]
fn failing_preparation_is_retried_until_it_succeeds() {
    let dir = TempDir::new().unwrap();
    let mut spec = sh(&dir, "exec sleep 60");
    let tries = "echo x >> tries; test $(wc -l < tries) = 3";
    spec.before = vec![SetupCommand { failure: OnFailure::TryAgain, ..before(tries) }];
    let _process = launch(spec).unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("node-1/tries")).unwrap(), "x\nx\nx\n");
}

#[test]
fn slow_preparation_is_killed_with_its_children() {
    let dir = TempDir::new().unwrap();
    for failure in [OnFailure::GiveUp, OnFailure::TryAgain] {
        let mut spec = sh(&dir, "");
        let script = "setsid sleep 60 & echo $! > ids; echo $$ >> ids; wait";
        let within = Duration::from_millis(300);
        spec.before = vec![SetupCommand { within, failure, ..before(script) }];
        let text = launch(spec).err().expect("must fail").to_string();
        assert!(text.contains("` had not ended after 300ms and was killed"), "{text}");
        let ids = std::fs::read_to_string(dir.path().join("node-1/ids")).unwrap();
        let ids = ids.lines().map(|id| id.parse().unwrap()).collect::<Vec<i32>>();
        assert_eq!(ids.len(), 2);
        assert!(!ids.iter().any(|&id| runs(id)), "{ids:?}");
    }
}

/// Describes a node that refuses to run as root.
fn never_root(dir: &TempDir, script: &str) -> NodeSpec {
    NodeSpec { never_root: true, ..sh(dir, script) }
}

#[test]
fn node_that_refuses_root_runs_as_another_user_and_owns_its_files() {
    let dir = TempDir::new().unwrap();
    let see = "echo \"$(id -u) $(stat -c %u secret) $(stat -c %u made) $$\"; cat secret";
    let mut spec = never_root(&dir, &format!("{see}; touch more; exec sleep 60"));
    let contents = b"shh\n".to_vec();
    spec.files = vec![NodeFile { path: "secret".into(), contents, mode: FileMode::Private }];
    spec.before = vec![before("touch made; test $(id -u) != 0")];
    let process = launch(spec).unwrap();
    wait_for("the file", || log_has(&process, "shh"));
    let us = rustix::process::geteuid();
    let shown = if us.is_root() { 65534 } else { us.as_raw() };
    // The forked process has become the server, so signals and samples reach it.
    let line = format!("{shown} {shown} {shown} {}", process.pid().unwrap());
    assert!(log_has(&process, &line), "{line} in {:?}", process.log_tail(10).lines);
    // Its usage can still be sampled.
    let pid = process.pid().unwrap();
    assert!(procfs::io(pid).is_some() && procfs::open_files(pid).is_some());
    wait_for("its own file", || dir.path().join("node-1/more").exists());
}

#[test]
fn node_that_refuses_root_is_signalled_killed_and_restarted() {
    let dir = TempDir::new().unwrap();
    let script = "trap 'exit 5' TERM; sleep 60 & echo $!; while :; do sleep 0.01; done";
    let process = launch(never_root(&dir, script)).unwrap();
    let first = printed_ids(&process, 1);
    assert!(runs(first[0]));
    process.kill9();
    assert!(!runs(first[0]));
    process.restart().unwrap();
    let ids = printed_ids(&process, 2);
    assert_eq!(process.terminate(LONG), StopResult { exit: Exit::Code(5), forced: false });
    assert!(!runs(ids[1]));
}

#[test]
fn commands_before_a_node_are_in_its_limits() {
    struct PinnedGroup(PathBuf);
    impl Confine for PinnedGroup {
        fn confine(&self, _: &NodeSpec) -> Confinement {
            let limits = LimitsApplied::Applied { by: "a test".into() };
            Confinement { enter: vec![self.0.clone()], limits, group: None }
        }
        fn release(&self, _: &NodeSpec) {
            std::fs::remove_file(&self.0).unwrap();
        }
    }
    let dir = TempDir::new().unwrap();
    let procs = dir.path().join("cgroup.procs");
    std::fs::write(&procs, "").unwrap();
    let host = Host::confining(dir.path(), Arc::new(PinnedGroup(procs.clone()))).unwrap();
    let mut spec = never_root(&dir, "");
    let inside = format!("test \"$(cat {})\" = $$; echo inside-$?; exit 1", procs.display());
    spec.before = vec![before(&inside)];
    let text = host.launch(spec).err().expect("must fail").to_string();
    assert!(text.contains("| inside-0"), "{text}");
    assert!(!procs.exists(), "released though it never started");
}

#[test]
fn node_is_stopped_by_its_own_signal() {
    let dir = TempDir::new().unwrap();
    let script = "trap '' TERM; trap 'exit 6' USR2; echo set; while :; do sleep 0.01; done";
    let spec = NodeSpec { stop_signal: Some(Signal::USR2), ..sh(&dir, script) };
    let process = launch(spec).unwrap();
    wait_for("the trap", || log_has(&process, "set"));
    assert_eq!(process.terminate(LONG), StopResult { exit: Exit::Code(6), forced: false });
}

#[test]
fn findings_in_further_log_files_are_reported() {
    let dir = TempDir::new().unwrap();
    let script = "echo '[error] before'; while [ ! -e loaded ]; do sleep 0.01; done; \
                  echo '[error] on its output'; mkdir -p logs; \
                  echo '[crit] 7 in a file' > logs/error.log; touch written; sleep 60";
    let spec = NodeSpec { logs: vec!["logs/error.log".into()], ..sh(&dir, script) };
    let process = Host::new(dir.path()).unwrap().launch(spec).unwrap();
    let wait_for = |holds: &dyn Fn() -> bool| {
        let give_up = clock::now() + Duration::from_secs(20);
        while !holds() {
            assert!(clock::now() < give_up, "it never came to be");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait_for(&|| std::fs::read(&process.logs()[0]).is_ok_and(|log| !log.is_empty()));
    let mut marks = logs::Marks::begin([&process].into_iter());
    std::fs::write(process.dir().join("loaded"), "").unwrap();
    wait_for(&|| process.dir().join("written").exists());
    marks.end();
    let found = marks.complaints();
    assert_eq!((found.len(), &*found[0].node, found[0].lines), (1, "node-1", 2), "{found:?}");
    let what: Vec<&str> = found[0].kinds.iter().map(|kind| kind.what.as_str()).collect();
    assert_eq!(what, ["N in a file", "on its output"]);
}
