//! Tests the report's page in a real browser: headless Chromium, driven over its DevTools pipe.
//!
//! Without a browser, every test is reported as ignored with the reason, and counted on the last line. In CI that is a
//! failure, unless the machine lacks the means to fetch one.
//!
//! Not here: contents of the page (`bakeoff-report`'s `tests/reports`), finding the browser (`support/chromium`).

#![allow(clippy::disallowed_macros, reason = "a test program of its own reports what it skipped")]
#![allow(clippy::disallowed_methods, reason = "a test waits by the clock for what it looks at")]

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../../bakeoff-report/tests/reports/building.rs"]
mod building;
#[allow(dead_code, reason = "a chore uses the rest")]
#[path = "support/chromium.rs"]
mod chromium;
#[path = "support/debian.rs"]
mod debian;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../../bakeoff-report/tests/reports/large.rs"]
mod large;
#[path = "support/skip.rs"]
mod skip;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bakeoff_core::record::chain::Chain;
use bakeoff_core::record::{RecordLine, TrialOutcome};
use bakeoff_core::study::{Operation, Stop};
use bakeoff_report::{self as report, Report};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chromium::Chromium;
use debian::FetchProblem;
use libtest_mimic::Arguments;
use serde_json::{Value, json};
use skip::{SkipReason, SkippedTests};
use tempfile::TempDir;

/// Maximum load time of a page. The aim is one second; a machine that builds meanwhile is slower.
const LOADED_WITHIN_MS: f64 = 5000.0;

static CHROMIUM: LazyLock<Result<Chromium, FetchProblem>> = LazyLock::new(Chromium::find);

struct Browser {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    number: u64,
    events: Vec<Value>,
    dir: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Browser {
    fn start() -> Self {
        let chromium = CHROMIUM.as_ref().expect("it was looked for");
        let dir = tempfile::tempdir().expect("there is room for a profile");
        let mut process = chromium
            .command(dir.path())
            // Its sandbox needs rights that root in a container and some users lack. All opened pages are our own.
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args(["--disable-dev-shm-usage", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let to = process.stdin.take().expect("it is a pipe");
        let from = BufReader::new(process.stdout.take().expect("it is a pipe"));
        let session = String::new();
        let mut it = Self { process, to, from, session, number: 0, events: Vec::new(), dir };
        let target = it.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let attached = it.call("Target.attachToTarget", target);
        it.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            it.call(&format!("{domain}.enable"), json!({}));
        }
        it
    }

    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message).expect("the browser answers");
        assert_eq!(message.pop(), Some(0), "the browser went away");
        serde_json::from_slice(&message).expect("it speaks JSON")
    }

    #[track_caller]
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if !self.session.is_empty()
            && !method.starts_with("Target.")
            && !method.starts_with("Browser.")
        {
            message["sessionId"] = self.session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser listens");
        loop {
            let answer = self.receive();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn size(&mut self, width: u32, mobile: bool) {
        let metrics =
            json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": mobile});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Opens a page from a file, like a mail attachment.
    fn open(&mut self, page: &str) {
        let path = self.dir.path().join("report.html");
        std::fs::write(&path, page).expect("a page can be written");
        self.visit(&file_url(&path));
    }

    /// Opens a page and waits until it is loaded.
    fn visit(&mut self, url: &str) {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": url }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive();
            self.events.push(event);
        }
    }

    /// Waits until an expression is true in the page.
    #[track_caller]
    fn await_in_page(&mut self, expression: &str) {
        let give_up = Instant::now() + Duration::from_secs(60);
        while self.ask(expression) != true {
            assert!(Instant::now() < give_up, "not within a minute: {expression}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Evaluates an expression in the page.
    #[track_caller]
    fn ask(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    fn key(&mut self, key: &str, code: u32) {
        let mut event = json!({"key": key, "code": key, "windowsVirtualKeyCode": code});
        if key == "Enter" {
            event["text"] = "\r".into();
        }
        for kind in ["keyDown", "keyUp"] {
            event["type"] = kind.into();
            self.call("Input.dispatchKeyEvent", event.clone());
        }
    }

    /// Returns the page's errors and its network requests.
    fn troubles(&self) -> Vec<String> {
        let trouble = |event: &Value| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown"
                | "Log.entryAdded"
                | "Runtime.consoleAPICalled"
                | "Network.loadingFailed" => Some(event.to_string()),
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str()?;
                    (!url.starts_with("file:")).then(|| format!("asked for {url}"))
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(trouble).collect()
    }
}

static LARGE: LazyLock<String> = LazyLock::new(|| building::page_of(&large::large()));
static SMALL: LazyLock<String> = LazyLock::new(|| building::page_of(&large::under("c64")));
static HOSTILE: LazyLock<String> = LazyLock::new(|| building::page_of(&large::hostile()));

fn a_large_page_opens_without_a_word_on_the_console() {
    let mut browser = Browser::start();
    browser.open(&LARGE);
    assert_eq!(browser.troubles(), Vec::<String>::new());
    let took = browser.ask("performance.getEntriesByType('navigation')[0].loadEventEnd");
    let took = took.as_f64().expect("it was loaded");
    println!("{} bytes opened in {took:.0} ms", LARGE.len());
    assert!(took < LOADED_WITHIN_MS, "{took} ms");
    let sections = browser.ask("[...document.querySelectorAll('section')].map(one => one.id)");
    let expected = [
        "figures", "ratios", "clients", "latency", "time", "fairness", "trials", "setup", "method",
        "data",
    ];
    assert_eq!(sections, json!(expected));
    // The table of contents leads to every section, and nothing that decides is folded.
    let entries =
        browser.ask("[...document.querySelectorAll('.toc a')].map(one => one.hash.slice(1))");
    assert_eq!(entries, json!(expected));
    let folded = browser.ask(
        "['h1', '.curve svg', '.facts', 'section > h2'].filter(what => \
         !document.querySelector(what).checkVisibility())",
    );
    assert_eq!(folded, json!([]));
    // Each section has visible content, each chart a name and a description.
    let heights = browser
        .ask("Math.min(...[...document.querySelectorAll('section')].map(one => one.offsetHeight))");
    assert!(heights.as_f64().is_some_and(|least| least > 80.0), "{heights}");
    let unnamed = browser.ask(
        "[...document.querySelectorAll('svg[role=img]')].filter(one => !one.getAttribute('aria-label') \
         && !(one.querySelector('title') && one.querySelector('desc'))).length",
    );
    assert_eq!(unnamed, 0);
    let twice = browser.ask(
        "(() => { const ids = [...document.querySelectorAll('[id]')].map(one => one.id); return \
         ids.length - new Set(ids).size })()",
    );
    assert_eq!(twice, 0, "an id is there once");
}

fn nothing_but_the_page_itself_may_run_or_be_fetched() {
    let mut browser = Browser::start();
    browser.open(&SMALL);
    assert_eq!(browser.troubles(), Vec::<String>::new());
    let violations = browser.ask(
        "new Promise(done => { const seen = []; \
         document.addEventListener('securitypolicyviolation', e => seen.push(e.effectiveDirective)); \
         const script = document.createElement('script'); script.textContent = 'window.ran = 1'; \
         const style = document.createElement('style'); style.textContent = 'body{display:none}'; \
         const image = document.createElement('img'); image.src = 'http://127.0.0.1:9/x.png'; \
         document.body.append(script, style, image); \
         setTimeout(() => done([seen.sort(), window.ran === undefined]), 300) })",
    );
    assert_eq!(violations, json!([["img-src", "script-src-elem", "style-src-elem"], true]));
    // The same check must find such requests of a page.
    assert!(!browser.troubles().is_empty(), "the browser reports refusals");
}

fn foreign_text_is_shown_and_never_executed() {
    let mut browser = Browser::start();
    browser.open(&HOSTILE);
    assert_eq!(browser.troubles(), Vec::<String>::new());
    let title = browser.ask("document.title");
    assert!(title.as_str().is_some_and(|title| title.contains("<script>")), "{title}");
    assert_eq!(browser.ask("document.querySelectorAll('img, i, u, iframe').length"), 0);
    let shown =
        browser.ask("document.body.innerText.includes('answered `</title></script><script>')");
    assert_eq!(shown, true);
}

fn nothing_is_wider_than_a_phone() {
    let mut browser = Browser::start();
    browser.size(360, true);
    for page in [&*SMALL, &*LARGE, &*HOSTILE] {
        browser.open(page);
        browser.ask("document.querySelectorAll('details').forEach(one => one.open = true)");
        let widths = browser.ask(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth, innerWidth]",
        );
        assert_eq!(widths, json!([360, 360, 360]));
        let smallest = browser.ask(
            "Math.min(...[...document.querySelectorAll('figure > svg text, figure > div:not([hidden]) \
             svg text')].map(one => parseFloat(getComputedStyle(one).fontSize) \
             * one.ownerSVGElement.getBoundingClientRect().width / one.ownerSVGElement.viewBox.baseVal.width))",
        );
        assert!(smallest.as_f64().is_some_and(|px| px >= 9.0), "letters of {smallest} px");
    }
}

fn every_control_can_be_reached_and_used_by_keyboard() {
    let mut browser = Browser::start();
    browser.open(&SMALL);
    let mut seen = Vec::new();
    for _ in 0..400 {
        browser.key("Tab", 9);
        let focused = browser.ask(
            "(() => { const one = document.activeElement; const style = getComputedStyle(one); \
             return [one.localName + (one.id ? '#' + one.id : '') + (one.className && \
             one.localName !== 'svg' ? '.' + one.className : '') + (one.dataset.file || ''), \
             style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 1] })()",
        );
        let what = focused[0].as_str().expect("an element").to_owned();
        if what == "body" {
            break;
        }
        assert_eq!(focused[1], true, "{what} does not show that it has the focus");
        seen.push(what);
    }
    assert_eq!(seen[0], "a.skip");
    for needed in ["select", "summary", "div.scroll", "afile-json", "afile-csv", "afile-record"] {
        let is_there = seen.iter().any(|one| one.split(' ').next() == Some(needed));
        assert!(is_there, "{needed} is not among {seen:?}");
    }
    let all = browser.ask(
        "[...document.querySelectorAll('button, select, summary, .scroll, a[href]')] \
         .filter(one => one.checkVisibility()).length",
    );
    assert_eq!(seen.len() as u64, all.as_u64().unwrap_or(0), "{seen:?}");

    // A heading sorts the key figures, the largest first; pressed again, the smallest first.
    let sort = "(() => { const table = document.querySelector('#key ~ .stacks table'); \
         const button = [...table.querySelectorAll('.sort')].find(one => one.textContent === 'p99'); \
         button.click(); const column = button.parentElement.cellIndex; \
         return [button.parentElement.getAttribute('aria-sort'), \
         [...table.tBodies[0].rows].map(row => row.cells[column].textContent)] })()";
    let [largest, smallest] = [browser.ask(sort), browser.ask(sort)];
    assert_eq!([&largest[0], &smallest[0]], ["descending", "ascending"]);
    let mut reversed = largest[1].as_array().expect("cells").clone();
    reversed.reverse();
    assert_eq!(&json!(reversed), &smallest[1]);
    assert_ne!(largest[1], smallest[1]);

    let shown = "[...document.querySelectorAll('.picked > div:not([hidden])')].map(one => one.id)";
    let before = browser.ask(shown);
    browser.ask("document.querySelector('.pick:not([hidden]) select').focus()");
    browser.key("ArrowDown", 40);
    let after = browser.ask(shown);
    assert_ne!(before, after);
    assert_eq!(before.as_array().map(Vec::len), after.as_array().map(Vec::len));

    browser.ask("document.querySelector('figure summary').focus()");
    browser.key("Enter", 13);
    assert_eq!(browser.ask("document.querySelector('figure details').open"), true);
    // The numbers of a chart over time become a table on demand.
    browser.ask("document.querySelector('#time figure details').open = true");
    let table = browser.ask(
        "new Promise(done => setTimeout(() => done(document.querySelectorAll('#time figure details \
         table tr').length), 300))",
    );
    assert!(table.as_u64().is_some_and(|rows| rows > 20), "{table}");
    assert_eq!(browser.troubles(), Vec::<String>::new());
}

fn letters_stand_out_in_light_and_dark() {
    let mut browser = Browser::start();
    let contrast = "(() => { const rgb = color => { const drawn = document.createElement('canvas') \
        .getContext('2d'); drawn.fillStyle = color; drawn.fillRect(0, 0, 1, 1); \
        return [...drawn.getImageData(0, 0, 1, 1).data].slice(0, 3) }; \
        const light = color => rgb(color).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : \
        ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0); \
        const style = getComputedStyle(document.documentElement); \
        const of = name => light(style.getPropertyValue(name).trim()); \
        const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); \
        const pairs = [['--ink', '--paper', 7], ['--soft', '--paper', 4.5], ['--link', '--paper', 4.5], \
        ['--alarm', '--paper', 4.5], ['--ink', '--load', 4.5], ['--ink', '--kill', 4.5], \
        ...[0, 1, 2, 3, 4, 5, 6, 7].map(n => ['--s' + n, '--paper', 4.5])]; \
        return pairs.filter(([a, b, least]) => !(ratio(of(a), of(b)) >= least)) \
        .map(([a, b]) => a + ' on ' + b + ': ' + ratio(of(a), of(b)).toFixed(2)) })()";
    for scheme in ["light", "dark"] {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.call("Emulation.setEmulatedMedia", features);
        browser.open(&SMALL);
        assert_eq!(browser.ask(contrast), json!([]), "{scheme}");
        let seen = browser.ask("getComputedStyle(document.body).backgroundColor");
        let expected = if scheme == "dark" { "rgb(20, 23, 26)" } else { "rgb(255, 255, 255)" };
        assert_eq!(seen, expected);
    }
}

fn without_javascript_everything_can_be_read() {
    let mut browser = Browser::start();
    browser.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    browser.open(&SMALL);
    browser.call("Emulation.setScriptExecutionDisabled", json!({"value": false}));
    assert_eq!(browser.ask("document.querySelector('[data-file]').href"), "", "no script ran");
    let shown = browser.ask(
        "[...document.querySelectorAll('.picked')].map(one => \
         [...one.querySelectorAll(':scope > div')].filter(trial => trial.offsetHeight > 0).length)",
    );
    let shown = shown.as_array().expect("a list").clone();
    assert!(!shown.is_empty());
    // One trial of each system that ran.
    assert!(shown.iter().all(|count| count == 1), "{shown:?}");
    assert_eq!(browser.ask("document.querySelector('.pick').offsetHeight"), 0);
}

fn a_file_is_saved_from_the_page() {
    let mut browser = Browser::start();
    let saved = browser.dir.path().join("saved");
    std::fs::create_dir(&saved).expect("a folder can be made");
    let allowed = json!({"behavior": "allow", "downloadPath": saved});
    browser.call("Browser.setDownloadBehavior", allowed);
    browser.open(&SMALL);
    let record = large::under("c64");
    let report = Report::new(&record);
    for (id, expected) in
        [("file-csv", report::csv(&report)), ("file-json", report::json(&report).to_string())]
    {
        let name = browser.ask(&format!("document.querySelector('[data-file={id}]').download"));
        let path = saved.join(name.as_str().expect("it has a name"));
        let click = format!("document.querySelector('[data-file={id}]').click()");
        browser.ask(&click);
        let text = wait_for_file(&path);
        match id {
            "file-csv" => assert_eq!(text, expected),
            _ => {
                let value: Value = serde_json::from_str(&text).expect("it is JSON");
                // Parsing may change a number's last digit, so both are parsed.
                let again: Value = serde_json::from_str(&expected).expect("it is JSON");
                assert!(value == again, "the saved JSON differs");
            }
        }
    }
    assert_eq!(browser.troubles(), Vec::<String>::new());
}

fn wait_for_file(path: &Path) -> String {
    let give_up = Instant::now() + Duration::from_secs(20);
    loop {
        // Chromium renames a complete file.
        if let Ok(text) = std::fs::read_to_string(path)
            && !text.is_empty()
        {
            return text;
        }
        assert!(Instant::now() < give_up, "{} was not saved", path.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Most pages of a printed report of one load and three systems.
const PAPER_PAGES_MAX: usize = 5;

fn on_paper_all_is_light_and_nothing_is_to_be_pressed() {
    let mut browser = Browser::start();
    let dark = json!([{"name": "prefers-color-scheme", "value": "dark"}]);
    browser.call("Emulation.setEmulatedMedia", json!({"media": "print", "features": dark}));
    browser.open(&SMALL);
    let seen = browser.ask("getComputedStyle(document.body).backgroundColor");
    assert_eq!(seen, "rgb(255, 255, 255)");
    let shown = browser.ask(
        "[...document.querySelectorAll('button, select, .skip, [data-file]')] \
         .filter(one => one.offsetHeight > 0).length",
    );
    assert_eq!(shown, 0);
    let printed = browser.call("Page.printToPDF", json!({"printBackground": true}));
    let pdf = STANDARD.decode(printed["data"].as_str().unwrap_or_default()).expect("base64");
    assert!(pdf.starts_with(b"%PDF") && pdf.len() > 20_000, "{} bytes", pdf.len());
    let pages = pdf.windows(11).filter(|at| at.starts_with(b"/Type /Page") && at[10] == b'e');
    let lists = pdf.windows(12).filter(|at| at.starts_with(b"/Type /Pages")).count();
    assert!(pages.count() - lists <= PAPER_PAGES_MAX, "a report is for four pages of paper");
    // Warnings are unfolded on paper, the numbers of charts are not. Some sections are on the screen only.
    let folded = browser.ask(
        "[...document.querySelectorAll('details:not(figure details) > :not(summary)')] \
         .filter(one => one.offsetHeight === 0 && (one.closest('section')?.offsetHeight ?? 1) > 0).length",
    );
    assert_eq!(folded, 0);
}

fn file_url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Writes the records of many runs: studies, versions and machines in turn. The second is altered, the third has
/// no valid trial, and the last cannot be read.
fn write_runs(folder: &Path, count: u32) {
    use building::{Trials as _, closed, measured, study, workload};
    for number in 0..count {
        let load = closed("steady", &[16], Stop::After(Duration::from_secs(4)));
        let work = workload("create", &[(Operation::Put, 1)], "steady");
        let mut record = building::record(study(&["etcd", "zookeeper"], work, load, 2));
        record.header.study.name = format!("study-{}", number / 4 % 25);
        record.header.started = format!("2026-11-{:02}T{:02}:24:50Z", 1 + number % 28, number % 24);
        record.header.environment.cpus = 2 << (number % 4);
        for system in &mut record.header.systems {
            system.version = Some(format!("3.{}.0", number % 3));
        }
        for round in 0..2 {
            for (system, rate) in [("etcd", 900), ("zookeeper", 400)] {
                let rate = rate + u64::from(number) + round;
                let of = measured("put", rate, Duration::from_secs(4), Duration::from_millis(1));
                record.run(system, vec![(16, of)]);
            }
        }
        if number == 2 {
            for trial in &mut record.trials {
                trial.outcome = TrialOutcome::Failed("exit code 3".to_owned());
            }
        }
        for stage in record.trials.iter_mut().flat_map(|trial| &mut trial.stages) {
            // Made-up seconds have no histograms. One with all of them verifies.
            let of = &mut stage.measurement;
            of.seconds.truncate(1);
            for (name, figures) in &mut of.seconds[0].operations {
                let whole = &of.operations[name];
                figures.verified = whole.verified_in_window;
                figures.response = whole.response.pack();
                figures.service = whole.service.pack();
            }
        }
        record.end.iter_mut().for_each(|end| end.ended.clone_from(&record.header.started));
        let mut chain = Chain::default();
        let mut text = chain.link(&RecordLine::Run(record.header.clone()));
        for trial in &record.trials {
            text += &chain.link(&RecordLine::Trial(trial.clone()));
        }
        text.extend(record.end.iter().map(|end| chain.link(&RecordLine::End(end.clone()))));
        match number {
            1 => text = text.replacen("\"round\":1", "\"round\":0", 1),
            last if last == count - 1 => "{torn".clone_into(&mut text),
            _ => {}
        }
        let run = folder.join(format!("run-{number:03}"));
        std::fs::create_dir_all(&run).expect("a folder can be made");
        std::fs::write(run.join("record.jsonl"), text).expect("a record can be written");
    }
}

fn site_of_500_runs_opens_and_filters() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (runs, site) = (folder.path().join("runs"), folder.path().join("site"));
    write_runs(&runs, 500);
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
        command.arg("site").arg(&runs).arg("--out").arg(&site).output().expect("it starts")
    };
    let made = command();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let again = command();
    assert_eq!(again.status.code(), Some(2), "nothing is overwritten");
    let size = std::fs::metadata(site.join("index.html")).expect("an index").len();
    println!("index.html has {size} bytes");
    assert!(size < 200_000, "{size} bytes");

    let mut browser = Browser::start();
    browser.visit(&file_url(&site.join("index.html")));
    assert_eq!(browser.troubles(), Vec::<String>::new());
    let rows = "[...document.querySelectorAll('tr[data-row]')].filter(one => one.offsetHeight > 0)";
    let count = format!("{rows}.length");
    assert_eq!(
        browser.ask("document.querySelector('h1').textContent"),
        "499 runs of 25 studies on 4 machines"
    );
    assert_eq!(browser.ask(&count), 100);
    let choose = |browser: &mut Browser, name: &str, value: &str| {
        browser.ask(&format!(
            "(() => {{ const one = document.querySelector('[data-filter={name}]'); one.value = '{value}'; \
             one.dispatchEvent(new Event('change')) }})()"
        ));
    };
    choose(&mut browser, "study", "study-7");
    assert_eq!(browser.ask(&count), 4, "one line for each machine");
    choose(&mut browser, "machine", "machine 2");
    assert_eq!(browser.ask(&count), 1);
    choose(&mut browser, "version", "etcd 9.9.9");
    let unread = browser.ask("document.body.innerText.includes('run-499')");
    assert_eq!(unread, true, "what cannot be shown is named");

    // The page of a study: one machine, the altered record without figures, each run with its record.
    let page = browser
        .ask("document.querySelector('a[href^=\"study-0-machine-2\"]').getAttribute('href')");
    browser.visit(&file_url(&site.join(page.as_str().expect("a link"))));
    assert_eq!(browser.troubles(), Vec::<String>::new());
    let altered = browser.ask(
        "[...document.querySelectorAll('#runs tbody tr')].filter(one => \
         one.innerText.includes('altered record: ')).map(one => one.querySelectorAll('a').length)",
    );
    assert_eq!(altered, json!([1]), "only the record is linked");
    let machines = browser.ask("document.body.innerText.match(/\\d+ CPUs/g)");
    assert_eq!(machines, json!(["4 CPUs"]));
    let all = browser.ask(&count);
    choose(&mut browser, "system", "etcd");
    assert_eq!(browser.ask(&count).as_u64().map(|half| half * 2), all.as_u64());
    let links = browser
        .ask("[...document.querySelectorAll('a[href]')].map(one => one.getAttribute('href'))");
    for link in links.as_array().expect("a list") {
        let link = link.as_str().expect("a link");
        assert!(link.starts_with('#') || site.join(link).is_file(), "{link}");
    }
    assert_eq!(
        browser.ask("document.querySelector('#runs code').textContent"),
        "bakeoff reproduce record.jsonl"
    );
    let invalid = std::fs::read_to_string(site.join("study-0-machine-3.html")).expect("a page");
    assert!(invalid.contains("not valid"), "a run without a valid trial");
}

/// Returns the source of axe-core, the checker of accessibility, from the npm registry.
fn axe() -> Result<String, SkipReason> {
    const PACKAGE: &str = "axe-core@4.14.1";
    let folder = debian::cache().map_err(SkipReason::Program)?.join("tools").join(PACKAGE);
    let source = folder.join("package/axe.min.js");
    if !source.is_file() {
        let lacks =
            |tool: &str| SkipReason::Machine(format!("axe-core not found (no {tool} here)"));
        for tool in ["npm", "tar"] {
            debian::on_path(tool).ok_or_else(|| lacks(tool))?;
        }
        let failed = |why: String| SkipReason::Program(format!("axe-core not fetched: {why}"));
        std::fs::create_dir_all(&folder).map_err(|error| failed(error.to_string()))?;
        let mut pack = Command::new("npm");
        pack.args(["pack", "--silent", PACKAGE]).current_dir(&folder);
        debian::finish("npm pack", &mut pack, FETCHED).map_err(failed)?;
        let archive = folder.join("axe-core-4.14.1.tgz");
        let mut unpack = Command::new("tar");
        unpack.arg("-xzf").arg(&archive).arg("-C").arg(&folder);
        debian::finish("tar", &mut unpack, FETCHED).map_err(failed)?;
    }
    std::fs::read_to_string(&source).map_err(|error| SkipReason::Program(error.to_string()))
}

/// Longest time to fetch a package.
const FETCHED: Duration = Duration::from_secs(120);

/// Runs axe-core's rules on pages in light and in dark, on a desktop and on a phone.
fn axe_reports_nothing() -> Result<(), SkipReason> {
    let axe = axe()?;
    let mut browser = Browser::start();
    for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 390)] {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.call("Emulation.setEmulatedMedia", features);
        browser.size(width, width < 500);
        for page in [&*SMALL, &*HOSTILE] {
            browser.open(page);
            browser.ask(&format!("{axe}; typeof axe.run"));
            let found = browser.ask(
                "axe.run().then(result => result.violations.map(one => one.id + ': ' + \
                 one.nodes.slice(0, 3).map(node => node.html.slice(0, 120)).join(' | ')))",
            );
            assert_eq!(found, json!([]), "{scheme}, {width} px");
        }
    }
    // The same holds for a site.
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (runs, site) = (folder.path().join("runs"), folder.path().join("site"));
    write_runs(&runs, 12);
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command.arg("site").arg(&runs).arg("--out").arg(&site).output().expect("it starts");
    for page in ["index.html", "study-0-machine-2.html"] {
        browser.visit(&file_url(&site.join(page)));
        browser.ask(&format!("{axe}; typeof axe.run"));
        let found = browser.ask("axe.run().then(result => result.violations.map(one => one.id))");
        assert_eq!(found, json!([]), "{page}");
    }
    // A fault is found.
    browser.ask("document.documentElement.removeAttribute('lang')");
    let found = browser.ask("axe.run().then(result => result.violations.map(one => one.id))");
    assert_eq!(found, json!(["html-has-lang"]));
    Ok(())
}

/// Runs a test that lacks nothing.
fn done(test: fn()) -> Result<(), SkipReason> {
    test();
    Ok(())
}

/// A study whose names would be markup, if they were not escaped.
const LIVE_STUDY: &str = "\
title: <b>Which</b> of two?
systems:
  first: {kind: canary, options: {sync: none}}
  second: {kind: canary, options: {sync: none}}
workloads:
  write: {mix: {put: 1}, keys: {count: 100}}
loads:
  steady: {clients: 2, warmup: 200ms, stop: {after: 2s}}
trials: 2
";

fn live_page_follows_a_run_and_becomes_its_report() {
    let dir = tempfile::tempdir().expect("there is room for a run");
    std::fs::write(dir.path().join("study.yaml"), LIVE_STUDY).expect("a study can be written");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command.args(["run", "study.yaml", "--trials", "2", "--live"]).current_dir(dir.path());
    command.env("BAKEOFF_SHARED_MACHINE", "1").env("BAKEOFF_BASELINE_FOR", "30ms");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut browser = Browser::start();
    let mut run = command.spawn().expect("bakeoff can be started");
    let mut lines = BufReader::new(run.stderr.take().expect("it is a pipe")).lines();
    let url = lines.find_map(|line| line.ok()?.strip_prefix("Live: ").map(str::to_owned));
    let url = url.expect("it prints where the page is");
    std::thread::spawn(move || lines.for_each(drop)); // a full pipe would stop it
    browser.visit(&url);
    browser.await_in_page("document.querySelectorAll('#places figure path.line').length > 3");
    assert_eq!(browser.ask("document.getElementById('title').textContent"), "<b>Which</b> of two?");
    let state = browser.ask("document.getElementById('state').textContent");
    let state = state.as_str().unwrap_or_default();
    assert!(state.starts_with("Round 1 of 2, trial 1 of 4: "), "{state}");
    browser.await_in_page("document.querySelectorAll('#usage tbody tr').length === 2");
    let usage = browser.ask("document.getElementById('usage').innerText");
    assert!(usage.as_str().is_some_and(|text| text.contains("generator")), "{usage}");
    // Both systems of a round share its charts, and a verdict after it is provisional.
    browser.await_in_page("document.querySelectorAll('#places .legend li').length === 2");
    browser.await_in_page(
        "document.getElementById('verdict').textContent.startsWith('Provisional, after 2 trials: ')",
    );
    assert_eq!(browser.ask("document.documentElement.scrollWidth <= innerWidth"), true);
    // At the end the report is there, with a script that works.
    browser.await_in_page("document.querySelector('#ratios') !== null");
    run.wait().expect("the run ends");
    browser.await_in_page("document.querySelector('[data-file]').href !== ''");
    let title = browser.ask("document.title");
    assert!(title.as_str().is_some_and(|title| title.contains("<b>Which</b>")), "{title}");
    assert_eq!(browser.ask("document.querySelectorAll('.study b, title b').length"), 0);
    let mut troubles = browser.troubles();
    troubles.retain(|trouble| !trouble.starts_with(&format!("asked for {url}")));
    // The report replaces the page, which may cut its stream of events.
    troubles.retain(|trouble| !trouble.contains(r#""type":"EventSource""#));
    assert_eq!(troubles, Vec::<String>::new());
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let skipped = SkippedTests::default();
    type Test = (&'static str, fn() -> Result<(), SkipReason>);
    let tests: [Test; 12] = [
        ("a_large_page_opens_without_a_word_on_the_console", || {
            done(a_large_page_opens_without_a_word_on_the_console)
        }),
        ("nothing_but_the_page_itself_may_run_or_be_fetched", || {
            done(nothing_but_the_page_itself_may_run_or_be_fetched)
        }),
        ("foreign_text_is_shown_and_never_executed", || {
            done(foreign_text_is_shown_and_never_executed)
        }),
        ("nothing_is_wider_than_a_phone", || done(nothing_is_wider_than_a_phone)),
        ("every_control_can_be_reached_and_used_by_keyboard", || {
            done(every_control_can_be_reached_and_used_by_keyboard)
        }),
        ("letters_stand_out_in_light_and_dark", || done(letters_stand_out_in_light_and_dark)),
        ("without_javascript_everything_can_be_read", || {
            done(without_javascript_everything_can_be_read)
        }),
        ("a_file_is_saved_from_the_page", || done(a_file_is_saved_from_the_page)),
        ("on_paper_all_is_light_and_nothing_is_to_be_pressed", || {
            done(on_paper_all_is_light_and_nothing_is_to_be_pressed)
        }),
        ("live_page_follows_a_run_and_becomes_its_report", || {
            done(live_page_follows_a_run_and_becomes_its_report)
        }),
        ("site_of_500_runs_opens_and_filters", || done(site_of_500_runs_opens_and_filters)),
        ("axe_reports_nothing", axe_reports_nothing),
    ];
    let trials = tests.into_iter().map(|(name, test)| {
        skipped.unless_lacking(name, move || {
            if let Err(missing) = &*CHROMIUM {
                return Err(missing.clone().into());
            }
            test()
        })
    });
    skipped.conclude(&arguments, trials.collect())
}
