//! Tests Vault: every operation once, where secrets must not appear, and clusters that cannot be loaded.
//!
//! Not here: that it keeps acknowledged writes on each storage (`bakeoff_systems`).

use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::support::case::{Case, Part, case, part, with};
use crate::support::certificates::Certificates;
use crate::support::skip::SkippedTests;
use crate::support::vault::{Vault, ask};
use crate::support::{AUDITS, Bench, CommandOutput, Run, array, audit, figure, folders, text};

const VAULT: Case = Case { needs: &["go"], ..case("vault", "1.21", 1) };
const POSTGRESQL: Part = Part { needs: &["apt-get", "dpkg-deb"], ..part("database", "postgresql") };
const WITH_DATABASE: Case = Case { what: "with a database", parts: &[POSTGRESQL], ..VAULT };
const ON_POSTGRESQL: Case =
    Case { what: "on PostgreSQL", parts: &[Part { role: "storage", ..POSTGRESQL }], ..VAULT };
const THREE: Case = Case { nodes: 3, more: "options: {raft-multiplier: 1}", ..VAULT };
const IN_MEMORY: Case = Case { more: "options: {storage: inmem}", ..VAULT };

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    type Test = fn(&Case);
    let tests: [(&str, Case, Test); 7] = [
        ("every_operation_is_done_and_verified", WITH_DATABASE, every_operation),
        ("certificates_are_stored_only_where_they_are_to_be", VAULT, stored_or_not),
        ("secrets_are_in_private_files_only_and_gone_afterwards", ON_POSTGRESQL, secrets),
        ("unloadable_cluster_is_named_at_once", VAULT, refuses_unloadable_clusters),
        ("a_system_behind_tls_is_verified", VAULT, tls_is_verified),
        ("memory_storage_is_not_waited_for_after_a_kill", IN_MEMORY, memory_storage_forgets_all),
        ("leader_that_dies_under_load_is_reported", THREE, a_leader_dies),
    ];
    tests.map(|(name, case, test)| with(name, case, skipped, test)).into()
}

/// Returns a study of one system; workloads and loads are YAML of one line each.
fn bench(system: &str, workloads: &[&str], loads: &[&str], more: &str) -> Bench {
    let lines = |lines: &[&str]| lines.iter().map(|line| format!("  {line}\n")).collect::<String>();
    let (workloads, loads) = (lines(workloads), lines(loads));
    Bench::new(&format!(
        "title: Secrets\nsystems:\n  {system}\nworkloads:\n{workloads}loads:\n{loads}trials: 1\n{more}"
    ))
}

#[track_caller]
fn all_is_well(run: &Run, operations: f64) {
    assert!(!run.trials().is_empty(), "{}", run.ran.stderr);
    for trial in run.trials() {
        run.excuses(trial);
        assert_eq!(figure(trial, "errors"), 0.0, "{trial}");
        assert_eq!(figure(trial, "requests_verified"), operations, "{trial}");
    }
}

fn every_operation(case: &Case) {
    const OPERATIONS: u32 = 60;
    let of_keys = "mix: {put: 4, get: 4, delete: 1, list: 2}, keys: {count: 40, per-directory: 10}, reads: default";
    let others = "login-userpass: 1, login-approle: 1, lookup-token: 2, encrypt: 2, decrypt: 2, \
                  sign: 2, issue-credentials: 1, read-policy: 2, read-mount: 2";
    let certificates = "mix: {issue-certificate: 1, sign-certificate: 1}";
    let run = bench(
        &case.in_study(),
        &[
            &format!("kv1: {{{of_keys}, with: {{kv: v1}}, loads: [each]}}"),
            &format!("kv2: {{{of_keys}, with: {{kv: v2}}, loads: [kept]}}"),
            &format!("others: {{mix: {{{others}}}, keys: {{count: 8}}}}"),
            &format!(
                "rsa: {{{certificates}, with: {{certificate-key: rsa-2048}}, loads: [kept]}}"
            ),
            &format!(
                "ec: {{{certificates}, with: {{certificate-key: ec-p256, stored: no}}, loads: [each]}}"
            ),
            &format!(
                "edwards: {{{certificates}, with: {{certificate-key: ed25519, lease: yes, issuer: root}}, \
                 loads: [each]}}"
            ),
            "keys: {mix: {encrypt: 1, decrypt: 1, sign: 1}, keys: {count: 4}, values: {size: 100B}, loads: [kept], \
             with: {encryption-key: rsa-2048, signing-key: ecdsa-p256}}",
        ],
        &[
            &format!("kept: {{clients: 3, stop: {{operations: {OPERATIONS}}}, timeout: 60s}}"),
            &format!(
                "each: {{clients: 3, keep-alive: off, stop: {{operations: {OPERATIONS}}}, timeout: 60s}}"
            ),
        ],
        "clusters: kept\n",
    )
    .run();
    crate::support::nothing_runs_in(run.bench.path());
    all_is_well(&run, f64::from(OPERATIONS));
    let mut seen: BTreeMap<String, f64> = BTreeMap::new();
    assert_eq!(run.trials().len(), 8);
    for trial in run.trials() {
        for (operation, figures) in trial["measurement"]["operations"].as_object().unwrap() {
            let verified = figures["verified"].as_f64().unwrap_or_default();
            *seen.entry(operation.clone()).or_default() += verified;
        }
    }
    assert_eq!(seen.len(), 15, "{seen:?}");
    assert!(seen.values().all(|&verified| verified > 0.0), "{seen:?}");
    let audited = run.trials().into_iter().filter(|trial| !array(&trial["audits"]).is_empty());
    assert_eq!(audited.count(), 2, "what writes keys is read back");
}

/// Returns an unsealed Vault of the test, and its root token.
fn opened() -> (Vault, String) {
    let vault = Vault::start(None);
    let (token, key) = vault.initialise();
    vault.unseal(&key);
    (vault, token)
}

fn attached(port: u16) -> String {
    format!("mine: {{kind: vault, endpoints: [\"http://127.0.0.1:{port}\"]}}")
}

/// Returns the maximum number of certificates that the authority stored during a load.
fn stored(vault: &Vault, token: &str, with: &str) -> usize {
    const OPERATIONS: usize = 300;
    let workload = format!(
        "certs: {{mix: {{issue-certificate: 1}}, with: {{certificate-key: ed25519{with}}}}}"
    );
    let load = format!("l: {{clients: 2, rate: 150/s, stop: {{operations: {OPERATIONS}}}}}");
    let bench = bench(&attached(vault.port), &[&workload], &[&load], "");
    let mut command = bench.command();
    command.env("VAULT_TOKEN", token).stdout(Stdio::null()).stderr(Stdio::null());
    let mut bakeoff = command.spawn().unwrap();
    let mut most = 0;
    while bakeoff.try_wait().unwrap().is_none() {
        let (_, output) = vault.ask("LIST", "bakeoff-pki/certs", Some(token), None);
        most = most.max(array(&output["data"]["keys"]).len());
        std::thread::sleep(Duration::from_millis(20));
    }
    let done = &bench.record()[1]["stages"][0]["measurement"];
    assert!(done.is_object(), "{}", bench.record()[1]);
    most
}

fn stored_or_not(_: &Case) {
    let (vault, token) = opened();
    let make = |path: &str, body: Value| {
        let (status, output) = vault.ask("POST", path, Some(&token), Some(&body));
        assert!((200..300).contains(&status), "{path}: {status} {output}");
    };
    // Names like ours, which the user created.
    make("sys/mounts/bakeoff-mine", json!({"type": "kv"}));
    make("sys/auth/bakeoff-ci", json!({"type": "approle"}));
    make(
        "sys/policies/acl/bakeoff-bench",
        json!({"policy": "path \"a\" { capabilities = [\"read\"] }"}),
    );
    let before = vault.made(&token);
    let yes = stored(&vault, &token, "");
    let no = stored(&vault, &token, ", stored: no");
    assert!(yes > 100, "{yes} of 300 were seen");
    // The authority's own certificate.
    assert!(no <= 3, "{no} were stored");
    assert_eq!(vault.made(&token), before, "all that was made is gone");

    make("sys/mounts/bakeoff-kv", json!({"type": "kv"}));
    make("bakeoff-kv/theirs", json!({"value": "kept"}));
    let puts = ["puts: {mix: {put: 1}, keys: {count: 10}}"];
    let load = ["l: {clients: 2, stop: {operations: 20}}"];
    let bench = bench(&attached(vault.port), &puts, &load, "");
    let ran = CommandOutput::run(bench.command().env("VAULT_TOKEN", &token));
    ran.complains(&[
        "path is already in use at bakeoff-kv/",
        "hint: `bakeoff-kv` is not marked as made by bakeoff",
    ]);
    let (_, theirs) = vault.ask("GET", "bakeoff-kv/theirs", Some(&token), None);
    assert_eq!(theirs["data"]["value"], "kept", "{theirs}");
}

fn running(bench: &Bench) -> Child {
    let out = std::fs::File::create(bench.path().join("stdout")).unwrap();
    let err = std::fs::File::create(bench.path().join("stderr")).unwrap();
    bench.command().stdout(out).stderr(err).spawn().unwrap()
}

/// Returns every Vault token (`hvs.…`) in the memory of a process of ours.
fn tokens_in_memory(pid: u32) -> Vec<String> {
    const FORM: &str = "hvs.";
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let Ok(memory) = std::fs::File::open(format!("/proc/{pid}/mem")) else { return Vec::new() };
    let mut found = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let range = line.split(' ').next().unwrap_or_default();
        let Some((from, to)) = range.split_once('-') else { continue };
        let number = |text| u64::from_str_radix(text, 16).unwrap_or(0);
        let (from, to) = (number(from), number(to));
        let mut bytes = vec![0; usize::try_from(to - from).unwrap().min(64 << 20)];
        let Ok(read) = memory.read_at(&mut bytes, from) else { continue };
        // Uses std's search, which is optimised even in tests.
        let lossy = String::from_utf8_lossy(&bytes[..read]);
        for (at, _) in lossy.match_indices(FORM) {
            let rest = lossy[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '.');
            let token: String = rest.collect();
            if token.len() >= 28 {
                found.push(token);
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Returns all files below a folder.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

/// Returns the first of these texts in a file.
fn held<'a>(path: &Path, texts: &'a [String]) -> Option<&'a String> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let lossy = String::from_utf8_lossy(&bytes);
    texts.iter().find(|text| lossy.contains(text.as_str()))
}

/// Returns each node's folder and configuration below a folder.
fn configurations(dir: &Path) -> Vec<(PathBuf, Value)> {
    let configs = files(dir).into_iter().filter(|path| path.ends_with("config.json"));
    configs
        .filter_map(|path| {
            let config = serde_json::from_str(&std::fs::read_to_string(&path).ok()?).ok()?;
            Some((path.parent()?.to_owned(), config))
        })
        .collect()
}

fn secrets(case: &Case) {
    let bench = bench(
        &case.in_study(),
        &["work: {mix: {put: 2, login-userpass: 1, login-approle: 1}, keys: {count: 10}}"],
        &["steady: {rate: 40/s, clients: 2, warmup: 0s, stop: {after: 3s}}"],
        "",
    );
    let mut bakeoff = running(&bench);
    let password = |(_, config): &(PathBuf, Value)| {
        let url = text(&config["storage"]["postgresql"]["connection_url"]).to_owned();
        let (_, rest) = url.split_once("://bakeoff:")?;
        Some(rest.split_once('@')?.0.to_owned())
    };
    let mut known = Vec::new();
    crate::support::wait_for("secrets", Duration::from_secs(60), || {
        assert!(bakeoff.try_wait().unwrap().is_none(), "it ended before its secrets were known");
        known = tokens_in_memory(bakeoff.id());
        let passwords: Vec<String> =
            configurations(&bench.out()).iter().filter_map(password).collect();
        let both = !known.is_empty() && !passwords.is_empty();
        known.extend(passwords);
        both
    });
    // The entire load and the time after it.
    let (mut looks, mut private) = (0, 0);
    while bakeoff.try_wait().unwrap().is_none() {
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let line = process.path().join("cmdline");
            assert_eq!(held(&line, &known), None, "in {}", line.display());
        }
        for path in files(bench.path()) {
            let Ok(metadata) = path.metadata() else { continue };
            if held(&path, &known).is_some() {
                let mode = metadata.permissions().mode() & 0o777;
                assert_eq!(mode & 0o077, 0, "`{}` is {mode:o}", path.display());
                private += 1;
            }
        }
        looks += 1;
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(looks > 2 && private > 0, "{looks} looks saw {private} files with secrets");
    let record = bench.record();
    assert_eq!(record[1]["outcome"]["ended"], "completed", "{}", record[1]["outcome"]);
    let left = files(bench.path());
    assert!(left.iter().any(|path| path.ends_with("record.jsonl")), "{left:?}");
    assert!(left.iter().any(|path| path.extension().is_some_and(|it| it == "log")), "{left:?}");
    for path in left {
        assert_eq!(held(&path, &known), None, "in {}", path.display());
        // Nor any other token.
        assert_eq!(held(&path, &["hvs.".to_owned()]), None, "in {}", path.display());
    }
    crate::support::nothing_runs_in(bench.path());
}

const SMALL: &str = "all: {mix: {put: 2, get: 2}, keys: {count: 20}, reads: default}";
const SHORT: &str = "counted: {clients: 2, stop: {operations: 60}}";

/// Asserts that bakeoff rejects a study with this token at once, with this message.
#[track_caller]
fn refused(system: &str, token: Option<&str>, parts: &[&str]) {
    let bench = bench(system, &[SMALL], &[SHORT], "");
    let mut command = bench.command();
    command.env_remove("VAULT_TOKEN").env_remove("BAO_TOKEN");
    if let Some(token) = token {
        command.env("VAULT_TOKEN", token);
    }
    let began = Instant::now();
    let ran = CommandOutput::run(&mut command).ends_with(4).complains(parts);
    assert!(began.elapsed() < Duration::from_secs(5), "it waited for {:?}", began.elapsed());
    let token = token.filter(|token| !token.is_empty());
    assert!(token.is_none_or(|token| !ran.stderr.contains(token)), "{}", ran.stderr);
    assert_eq!(bench.runs().len(), 0, "no run was begun");
}

fn refuses_unloadable_clusters(_: &Case) {
    let vault = Vault::start(None);
    let system = attached(vault.port);
    let says = |what: &'static str, hint: &'static str| {
        ["error: system `mine` cannot be loaded: ", what, "hint: ", hint]
    };
    refused(&system, Some("hvs.any"), &says("is not initialised", "`operator init`"));
    let (token, key) = vault.initialise();
    refused(&system, Some(&token), &says("is sealed", "`operator unseal`"));
    vault.unseal(&key);
    refused(&system, None, &says("no token is set for", "`VAULT_TOKEN`"));
    refused(&system, Some(""), &says("no token is set for", "`VAULT_TOKEN`"));
    let wrong = "hvs.000000000000000000000000";
    refused(&system, Some(wrong), &says("refuses the token", "may be expired"));
    let asked = json!({"ttl": "1s", "explicit_max_ttl": "1s"});
    let (_, output) = vault.ask("POST", "auth/token/create", Some(&token), Some(&asked));
    let brief = text(&output["auth"]["client_token"]).to_owned();
    std::thread::sleep(Duration::from_millis(1500));
    refused(&system, Some(&brief), &says("refuses the token", "may be expired"));

    // With valid credentials it is loaded, and left unchanged.
    let before = vault.made(&token);
    let bench = bench(&system, &[SMALL], &[SHORT], "");
    let ran = CommandOutput::run(bench.command().arg("--json").env("VAULT_TOKEN", &token));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let run = Run { report, ran, bench };
    all_is_well(&run, 60.0);
    assert_eq!(vault.made(&token), before);
    for path in files(run.bench.path()) {
        assert_eq!(held(&path, std::slice::from_ref(&token)), None, "in {}", path.display());
    }
}

fn tls_is_verified(_: &Case) {
    let certificates = Certificates::new();
    let (cert, key) = (certificates.path("server.pem"), certificates.path("server.key"));
    let vault = Vault::start(Some((&cert, &key)));
    let (token, key) = vault.initialise();
    vault.unseal(&key);
    let trusting = |ca: &str| {
        let (path, port) = (certificates.path(ca), vault.tls_port);
        let endpoint = format!("\"https://127.0.0.1:{port}\"");
        format!(
            "mine: {{kind: vault, endpoints: [{endpoint}], tls: {{ca: \"{}\"}}}}",
            path.display()
        )
    };
    let good = bench(&trusting("ca.pem"), &[SMALL], &[SHORT], "");
    CommandOutput::run(good.command().env("VAULT_TOKEN", &token)).ends_with(0);
    let bad = bench(&trusting("other.pem"), &[SMALL], &[SHORT], "");
    CommandOutput::run(bad.command().env("VAULT_TOKEN", &token)).ends_with(4).complains(&[
        "error: ",
        "certificate",
        "127.0.0.1",
        "hint: ",
    ]);
}

fn memory_storage_forgets_all(case: &Case) {
    let began = Instant::now();
    let run = bench(&case.in_study(), &[SMALL, "signs: {mix: {sign: 1}}"], &[SHORT], "").run();
    crate::support::nothing_runs_in(run.bench.path());
    assert_eq!(run.ran.code, Some(1), "{}", run.ran.stderr);
    assert!(run.ran.stderr.contains("lost all data when it was killed"), "{}", run.ran.stderr);
    assert!(
        run.ran.stderr.contains("hint: storage `inmem` loses all data in a kill"),
        "{}",
        run.ran.stderr
    );
    assert!(began.elapsed() < Duration::from_secs(60), "it waited {:?}", began.elapsed());
    let record = run.bench.record();
    let outcomes: Vec<&str> = record
        .iter()
        .filter(|line| line["line"] == "trial")
        .map(|line| text(&line["outcome"]["ended"]))
        .collect();
    let mut sorted = outcomes.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["completed", "failed"], "what does not write is not killed");
}

/// Returns the number of connections to these ports. The kernel lists the connections of all tests for that, including
/// closed ones.
fn connections_to(ports: &[u16]) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let remotes: Vec<String> = ports.iter().map(|port| format!("0100007F:{port:04X}")).collect();
    let is = |line: &str| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next().is_some_and(|remote| remotes.iter().any(|one| one == remote))
            && fields.next() == Some("01")
    };
    table.lines().filter(|line| is(line)).count()
}

fn a_leader_dies(case: &Case) {
    const CLIENTS: usize = 12;
    let bench = bench(
        &case.in_study(),
        &["writes: {mix: {put: 1}, keys: {count: 200}}"],
        &[&format!(
            "open: {{rate: 60/s, clients: {CLIENTS}, warmup: 0s, stop: {{after: 9s}}, timeout: 2s}}"
        )],
        "",
    );
    let mut bakeoff = running(&bench);
    let port = |config: &Value| {
        let address = text(&config["listener"][0]["tcp"]["address"]).to_owned();
        address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0)
    };
    let mut nodes: Vec<(PathBuf, u16)> = Vec::new();
    crate::support::wait_for("clients of the load", Duration::from_secs(90), || {
        assert!(bakeoff.try_wait().unwrap().is_none(), "it ended before its load began");
        let all = configurations(&bench.out());
        nodes = all.iter().map(|(dir, config)| (dir.clone(), port(config))).collect();
        let ports: Vec<u16> = nodes.iter().map(|&(_, port)| port).collect();
        std::thread::sleep(Duration::from_millis(90));
        !ports.is_empty() && connections_to(&ports) >= CLIENTS
    });
    assert_eq!(nodes.len(), 3);
    std::thread::sleep(Duration::from_secs(2));
    let leads = |port: u16| {
        let output = ask(port, "GET", "sys/leader", None, None);
        output.is_some_and(|(_, output)| output["is_self"] == true)
    };
    let (dir, _) = nodes.iter().find(|&&(_, port)| leads(port)).expect("one of them leads");
    let processes = crate::support::processes_of(dir);
    let server = processes.iter().find(|process| process.contains("server -config")).unwrap();
    let pid: i32 = server.split(':').next().unwrap().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();

    assert_eq!(bakeoff.wait().unwrap().code(), Some(1));
    crate::support::nothing_runs_in(bench.path());
    let run = folders(&bench.out()).remove(0);
    let report =
        CommandOutput::run(crate::support::bakeoff().arg("report").arg(&run).arg("--json"))
            .ends_with(0);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let trial = &report["comparisons"][0]["systems"][0]["trials"][0];
    let killed = dir.file_name().unwrap().to_str().unwrap();
    let reasons = crate::support::reasons(trial).join("\n");
    assert!(reasons.contains("servers: ") && reasons.contains(killed), "{reasons}");
    let errors = figure(trial, "errors");
    let kinds = ["refused", "reset", "closed", "timeout", "status", "dropped"];
    let by_kind: f64 = kinds.map(|kind| figure(trial, &format!("errors_{kind}"))).iter().sum();
    assert!(errors > 0.0 && errors == by_kind, "{errors} and {by_kind}: {trial}");
    assert!(figure(trial, "requests_verified") > 60.0, "{trial}");
    // Writes acknowledged before and after the leader change exist.
    assert_eq!(AUDITS.map(|when| audit(trial, when)), ["passed", "passed"], "{trial}");
    for name in ["report.md", "report.html", "report.json"] {
        assert!(run.join(name).is_file(), "no {name}");
    }
}
