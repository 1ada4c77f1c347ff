//! Tests that the scripts of `examples/wrk` load a real Vault, in `bakeoff wrk` and unchanged in wrk.
//!
//! It compares a script's counts with Vault's contents afterwards. `bakeoff install` provides Vault, one in-memory
//! server for all tests; wrk comes from Debian packages.
//!
//! Not here: scripts in general (`wrk`), Vault in studies (`bakeoff_systems`).

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::debian::{DebianProgram, FetchProblem, library_folders};
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::{Bench, CommandOutput, array, bakeoff, has, text};

const TOKEN: &str = "a-token-of-this-test";
const PASSWORD: &str = "a \"word\" to\\pass";
const SCRIPTS: [&str; 4] =
    ["vault-fill.lua", "vault-login.lua", "vault-read.lua", "vault-write.lua"];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/wrk")
}

/// The Vault shared by all tests, started by the first.
pub(crate) type SharedVault = Arc<Mutex<Option<Arc<Vault>>>>;

pub(crate) fn tests(shared: &SharedVault, skipped: &SkippedTests) -> Vec<Trial> {
    let mut tests = Vec::new();
    let plain: [(&str, fn()); 2] = [
        ("each_script_is_tested", each_script_is_tested),
        ("a_script_without_its_secret_says_so_and_sends_nothing", a_secret_is_asked_for),
    ];
    for (name, test) in plain {
        tests.push(Trial::test(name, move || {
            test();
            Ok(())
        }));
    }
    type Test = fn(&Vault);
    let with_vault: [(&str, Test); 6] = [
        ("a_started_store_is_loaded_with_the_token_of_its_file", a_started_store_is_loaded),
        ("written_secrets_are_there", written_secrets_are_there),
        ("the_published_load_is_answered_without_an_error", the_published_load_has_no_error),
        ("reads_find_what_was_filled_in_and_miss_what_was_not", reads_find_what_was_filled_in),
        ("logins_succeed_with_the_right_password_alone", logins_need_the_password),
        ("a_wrong_token_gives_errors_that_are_counted_and_said", a_wrong_token_is_said),
    ];
    for (name, test) in with_vault {
        tests.push(on_vault(name, shared, skipped, move |vault| {
            test(vault);
            Ok(())
        }));
    }
    let name = "the_scripts_run_in_wrk_and_say_the_same";
    tests.push(on_vault(name, shared, skipped, they_run_in_wrk));
    tests
}

/// Stops the shared Vault.
pub(crate) fn stop_shared(shared: &SharedVault) {
    drop(shared.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// Returns a test that needs the Vault.
fn on_vault(
    name: &str,
    shared: &SharedVault,
    skipped: &SkippedTests,
    test: impl FnOnce(&Vault) -> Result<(), SkipReason> + Send + 'static,
) -> Trial {
    let shared = Arc::clone(shared);
    skipped.unless_lacking(name, move || {
        let vault = the_vault(&shared).map_err(|why| match has("go") {
            true => SkipReason::Program(why),
            false => SkipReason::Machine(why),
        })?;
        test(&vault)
    })
}

fn the_vault(shared: &SharedVault) -> Result<Arc<Vault>, String> {
    let mut vault = shared.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(vault) = &*vault {
        return Ok(Arc::clone(vault));
    }
    let started = Arc::new(Vault::start()?);
    *vault = Some(Arc::clone(&started));
    Ok(started)
}

/// A Vault in development mode: unsealed, with in-memory storage.
pub(crate) struct Vault {
    process: Child,
    port: u16,
    _home: tempfile::TempDir,
}

impl Vault {
    /// Starts the installed Vault. The error is the reason why there is none.
    fn start() -> Result<Self, String> {
        let ran = CommandOutput::run(bakeoff().args(["install", "vault"]));
        if ran.code != Some(0) {
            let why: Vec<&str> =
                ran.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
            return Err(format!("vault not found: {}", why.join("; ")));
        }
        let home = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = std::fs::File::create(home.path().join("log")).unwrap();
        let process = Command::new(program())
            .args(["server", "-dev", "-dev-no-store-token"])
            .arg(format!("-dev-listen-address=127.0.0.1:{port}"))
            .env("VAULT_DEV_ROOT_TOKEN_ID", TOKEN)
            .env("HOME", home.path())
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut vault = Self { process, port, _home: home };
        crate::support::wait_for("Vault", Duration::from_secs(60), || {
            assert!(vault.process.try_wait().unwrap().is_none(), "Vault ended by itself");
            vault.ask("GET", "auth/token/lookup-self", &Value::Null).is_some()
        });
        Ok(vault)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the answer to one request on its own connection; `None` unless it succeeds.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Option<Value> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        write!(
            socket,
            "{method} /v1/{path} HTTP/1.0\r\nX-Vault-Token: {TOKEN}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        match head.split(' ').nth(1)? {
            "200" => serde_json::from_str(body).ok(),
            "204" => Some(Value::Null),
            _ => None,
        }
    }

    /// Creates an empty store of version 1.
    fn mount(&self, name: &str) {
        let body = json!({"type": "kv", "options": {"version": "1"}});
        self.ask("POST", &format!("sys/mounts/{name}"), &body).expect("a store is made");
    }

    /// Returns the numbers of the scripts' secrets below a mount.
    fn numbers(&self, mount: &str) -> BTreeSet<u64> {
        let Some(listed) = self.ask("GET", &format!("{mount}/wrk?list=true"), &Value::Null) else {
            return BTreeSet::new();
        };
        array(&listed["data"]["keys"]).iter().map(|key| text(key).parse().unwrap()).collect()
    }

    fn value(&self, mount: &str, number: u64) -> String {
        let read = self.ask("GET", &format!("{mount}/wrk/{number}"), &Value::Null);
        text(&read.expect("a listed secret is there")["data"]["value"]).to_owned()
    }

    /// Runs a script in this tool with valid secrets.
    fn load(&self, tool: Tool, options: &str, script: &str, arguments: &str) -> CommandOutput {
        self.load_with(tool, TOKEN, PASSWORD, options, script, arguments)
    }

    fn load_with(
        &self,
        tool: Tool,
        token: &str,
        password: &str,
        options: &str,
        script: &str,
        arguments: &str,
    ) -> CommandOutput {
        let mut command = tool.command();
        command.env("VAULT_TOKEN", token).env("VAULT_PASSWORD", password);
        command
            .args(["--timeout", "20s"])
            .args(options.split_whitespace())
            .arg("-s")
            .arg(examples().join(script));
        command.arg(self.url()).arg("--").args(arguments.split_whitespace());
        CommandOutput::run(&mut command).ends_with(0)
    }
}

impl Drop for Vault {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A Lua script whose requests carry the token from a file.
const WITH_TOKEN_OF_FILE: &str = r#"
local file = assert(io.open(os.getenv("TOKEN_FILE")))
wrk.headers["X-Vault-Token"] = file:read("*l")
file:close()
wrk.path = "/v1/auth/token/lookup-self"
"#;

fn a_started_store_is_loaded(_: &Vault) {
    let study = "title: t\nsystems:\n  store: {kind: vault, options: {storage: inmem}}\nworkloads:\n  \
                 tokens: {mix: {lookup-token: 1}}\nloads:\n  few: {clients: 1, stop: {operations: 10}}\n";
    let bench = Bench::new(study);
    let mut command = bakeoff();
    command.env("TMPDIR", bench.path()).arg("start").arg(bench.study());
    let mut process = command.arg("--json").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let started: Value = serde_json::from_str(&line).expect(&line);
    let file = Path::new(text(&started["token_file"]));
    let token = std::fs::read_to_string(file).unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(token.len() > 10 && !line.contains(&token), "{started}");
    let script = bench.path().join("token.lua");
    std::fs::write(&script, WITH_TOKEN_OF_FILE).unwrap();
    let url = text(&started["clients"][0]["url"]).to_owned();
    let mut wrk = bakeoff();
    wrk.env("TOKEN_FILE", file).args(["wrk", "-d1s", "-c2", "-t1", "-s"]).arg(&script).arg(&url);
    let ran = CommandOutput::run(&mut wrk).ends_with(0);
    assert!(!ran.stdout.contains("Non-2xx"), "{}", ran.stdout);
    assert!(!ran.stdout.contains(&token) && !ran.stderr.contains(&token));
    std::fs::write(&script, "wrk.path = '/v1/auth/token/lookup-self'").unwrap();
    let without = CommandOutput::run(
        bakeoff().args(["wrk", "-d1s", "-c2", "-t1", "-s"]).arg(&script).arg(&url),
    );
    assert!(without.stdout.contains("Non-2xx"), "{}", without.stdout);
    kill_process(Pid::from_child(&process), Signal::INT).unwrap();
    process.wait().unwrap();
    assert!(!file.exists(), "it goes with the folder");
}

/// Returns Vault's path from `bakeoff systems`.
fn program() -> PathBuf {
    let systems = CommandOutput::run(bakeoff().arg("systems")).ends_with(0).stdout;
    let block = systems.split("\n\n").find(|block| block.starts_with("vault\n")).unwrap();
    let runs = block.lines().find_map(|line| line.trim().strip_prefix("runs "));
    PathBuf::from(runs.expect("vault was installed").trim())
}

#[derive(Debug, Clone, Copy)]
enum Tool {
    Bakeoff,
    Wrk,
}

impl Tool {
    fn command(self) -> Command {
        match self {
            Self::Bakeoff => {
                let mut command = bakeoff();
                command.arg("wrk");
                command
            }
            Self::Wrk => {
                let mut command = wrk().expect("it was looked for");
                command.stdin(Stdio::null());
                command
            }
        }
    }
}

/// Returns the installed wrk, else Debian's.
fn wrk() -> Result<Command, FetchProblem> {
    const PACKAGED: DebianProgram = DebianProgram {
        package: "wrk",
        adjacent: &[],
        there_already: &["libc6"],
        file: None,
        // It prints its version with the usage, and exits with 1.
        runs: |tree| match in_tree(tree).arg("-v").output() {
            Ok(ran) if ran.stdout.starts_with(b"wrk ") => Ok(()),
            Ok(ran) => Err(String::from_utf8_lossy(&ran.stderr).into_owned()),
            Err(error) => Err(error.to_string()),
        },
    };
    fn in_tree(tree: &Path) -> Command {
        let mut command = Command::new(tree.join("usr/bin/wrk"));
        let libraries = std::env::join_paths(library_folders(tree));
        command.env("LD_LIBRARY_PATH", libraries.expect("a cache has no colon in its path"));
        command
    }
    match has("wrk") {
        true => Ok(Command::new("wrk")),
        false => PACKAGED.tree().map(|tree| in_tree(&tree)),
    }
}

/// Returns a script's answer counts by status.
fn answers(ran: &CommandOutput) -> Vec<(u64, u64)> {
    let lines = ran.stdout.lines().filter_map(|line| line.split_once(" answers with status "));
    lines.map(|(count, status)| (status.parse().unwrap(), count.trim().parse().unwrap())).collect()
}

/// Returns the number of answers, all of which must have this status.
#[track_caller]
fn all_with(ran: &CommandOutput, status: u64) -> u64 {
    match answers(ran).as_slice() {
        [(only, count)] if *only == status && *count > 0 => *count,
        others => panic!("{others:?} are not all {status}:\n{}{}", ran.stdout, ran.stderr),
    }
}

#[track_caller]
fn says(ran: &CommandOutput, words: &str) {
    assert!(ran.stdout.contains(words), "`{words}` is not in:\n{}", ran.stdout);
}

fn each_script_is_tested() {
    let listed = std::fs::read_dir(examples()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = listed.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, SCRIPTS, "`examples/wrk` has what is run here");
}

fn a_secret_is_asked_for() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    for script in SCRIPTS {
        let mut command = Tool::Bakeoff.command();
        command.env_remove("VAULT_TOKEN").env("VAULT_PASSWORD", "");
        command.args(["-t1", "-c1", "-d1s", "-s"]).arg(examples().join(script)).arg(&url);
        let secret = if script == "vault-login.lua" { "VAULT_PASSWORD" } else { "VAULT_TOKEN" };
        CommandOutput::run(&mut command).ends_with(2).complains(&[&format!("{secret} is not set")]);
    }
}

fn written_secrets_are_there(vault: &Vault) {
    vault.mount("one");
    let ran = vault.load(Tool::Bakeoff, "-t1 -c1 -d1s", "vault-write.lua", "30 one");
    let answered = all_with(&ran, 204);
    let numbers = vault.numbers("one");
    assert!(numbers.iter().all(|number| (1..=30).contains(number)), "{numbers:?}");
    let writes = numbers.iter().map(|number| {
        let value = vault.value("one", *number);
        assert_eq!(value.len(), 100, "{value}");
        let write = value.strip_prefix("thread 1, write ").and_then(|rest| rest.split(' ').next());
        write.unwrap_or_else(|| panic!("{value}")).parse::<u64>().unwrap()
    });
    // Each write has a number. wrk requests the first one before the load without sending it. The last number is at
    // most the last answer's, and none is overwritten.
    let writes: BTreeSet<u64> = writes.collect();
    assert_eq!(writes.len(), numbers.len(), "no two secrets are of the same write");
    assert_eq!(writes.last(), Some(&(answered + 1)), "{}", ran.stdout);
    assert!(!writes.contains(&1));
}

fn the_published_load_has_no_error(vault: &Vault) {
    vault.mount("six");
    let ran = vault.load(Tool::Bakeoff, "-t6 -c16 -d1s", "vault-write.lua", "10000 six");
    let answered = all_with(&ran, 204);
    assert!(!ran.stdout.contains("Non-2xx") && !ran.stdout.contains("Socket"), "{}", ran.stdout);
    let numbers = vault.numbers("six");
    assert!(numbers.iter().all(|number| (1..=10_000).contains(number)), "{numbers:?}");
    // Random numbers of so many rarely repeat, and each thread has others.
    let distinct = numbers.len() as f64;
    assert!(distinct <= answered as f64, "{distinct} of {answered}");
    let expected = 1e4 * (1.0 - (-(answered as f64) / 1e4).exp());
    assert!((0.9..=1.1).contains(&(distinct / expected)), "{distinct} of {expected} expected");
    let threads = numbers.iter().take(60).map(|number| {
        let value = vault.value("six", *number);
        value.split([' ', ',']).nth(1).unwrap().to_owned()
    });
    assert!(threads.collect::<BTreeSet<_>>().len() > 3, "several threads wrote");
}

fn reads_find_what_was_filled_in(vault: &Vault) {
    vault.mount("read");
    // One thread would suffice; two each write all.
    let ran = vault.load(Tool::Bakeoff, "-t2 -c5 -d1s", "vault-fill.lua", "42 read");
    let written = answers(&ran).into_iter().find(|(status, _)| *status == 204);
    assert_eq!(written, Some((204, 84)), "{}", ran.stdout);
    says(&ran, "  42 of 42 secrets written\n");
    assert!(!ran.stdout.contains("more time"), "{}", ran.stdout);
    assert_eq!(vault.numbers("read"), (1..=42).collect());
    assert_eq!(vault.value("read", 7), format!("secret 7 {}", "x".repeat(91)));

    let ran = vault.load(Tool::Bakeoff, "-t4 -c16 -d1s", "vault-read.lua", "42 read");
    all_with(&ran, 200);
    assert!(!ran.stdout.contains("Non-2xx"), "{}", ran.stdout);

    // Every second one is missing.
    let ran = vault.load(Tool::Bakeoff, "-t2 -c4 -d1s", "vault-read.lua", "84 read");
    let [(200, found), (404, missed)] = answers(&ran)[..] else { panic!("{}", ran.stdout) };
    assert!(found > 0 && missed > 0);
    says(&ran, &format!("  {missed} secrets were not read"));
}

fn logins_need_the_password(vault: &Vault) {
    let body = json!({"type": "userpass", "config": {"token_type": "batch"}});
    vault.ask("POST", "sys/auth/userpass", &body).expect("a method is enabled");
    let user = json!({"password": PASSWORD});
    vault.ask("POST", "auth/userpass/users/loadtester", &user).expect("a user is made");
    let ran = vault.load(Tool::Bakeoff, "-t1 -c2 -d1s", "vault-login.lua", "");
    all_with(&ran, 200);
    let load = |password| {
        vault.load_with(Tool::Bakeoff, "", password, "-t1 -c2 -d1s", "vault-login.lua", "")
    };
    let ran = load("another");
    // Vault locks out a user with 403 after several failures.
    let answers = answers(&ran);
    assert!(answers.iter().all(|(status, _)| [400, 403].contains(status)), "{}", ran.stdout);
    let refused: u64 = answers.iter().map(|(_, count)| count).sum();
    says(&ran, &format!("  {refused} logins were refused"));
}

fn a_wrong_token_is_said(vault: &Vault) {
    vault.mount("closed");
    let load = |options, script, arguments| {
        vault.load_with(Tool::Bakeoff, "wrong-token", "", options, script, arguments)
    };
    let ran = load("-t2 -c4 -d1s", "vault-write.lua", "10 closed");
    let refused = all_with(&ran, 403);
    says(&ran, &format!("  {refused} secrets were not written"));
    says(&ran, "Non-2xx or 3xx responses: ");
    assert!(
        ran.stderr.contains("successes alone: 0.00 requests/sec, no latency"),
        "{}",
        ran.stderr
    );
    assert_eq!(vault.numbers("closed"), BTreeSet::new());
    let printed = [ran.stdout, ran.stderr].concat();
    assert!(!printed.contains("wrong-token"), "{printed}");

    let ran = load("-t1 -c1 -d1s", "vault-fill.lua", "10 closed");
    all_with(&ran, 403);
    says(&ran, "  0 of 10 secrets written\n  give it more time");
    // A header on the command line overrides the environment.
    let header = format!("-t1 -c1 -d1s -HX-Vault-Token:{TOKEN}");
    says(&load(&header, "vault-fill.lua", "10 closed"), "  10 of 10 secrets written\n");
}

fn they_run_in_wrk(vault: &Vault) -> Result<(), SkipReason> {
    wrk().map_err(SkipReason::from)?;
    vault.mount("wrk");
    let ran = vault.load(Tool::Wrk, "-t1 -c4 -d1s", "vault-fill.lua", "20 wrk");
    says(&ran, "  20 of 20 secrets written\n");
    assert_eq!(vault.numbers("wrk"), (1..=20).collect());
    all_with(&vault.load(Tool::Wrk, "-t2 -c4 -d1s", "vault-read.lua", "20 wrk"), 200);
    all_with(&vault.load(Tool::Wrk, "-t2 -c4 -d1s", "vault-write.lua", "20 wrk"), 204);
    let wrong = |script, arguments| {
        vault.load_with(Tool::Wrk, "wrong", "wrong", "-t1 -c1 -d1s", script, arguments)
    };
    says(&wrong("vault-login.lua", "nobody"), " logins were refused");
    says(&wrong("vault-write.lua", "20 wrk"), " secrets were not written");
    Ok(())
}
