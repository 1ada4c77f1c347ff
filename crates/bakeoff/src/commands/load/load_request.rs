//! Turns the flags of `bakeoff load` into requests, settings and conditions.
//!
//! Rejects invalid input here, before bakeoff connects to anything.
//!
//! Not here: the flags (`cli`), the requests themselves (`requests`).

use std::time::Duration;

use bakeoff_core::condition::Condition;
use bakeoff_core::schedule::LoadShare;
use bakeoff_core::schedule::{RateProfile, Spacing};
use bakeoff_core::search::least_rate;
use bakeoff_core::study::{Operation, Stop, usual_warmup};
use bakeoff_core::units::{count_text, harmless};
use bakeoff_engine::tls::{Pem, TlsOptions};
use bakeoff_engine::works::http::{Detour, Plan, Protocol, Request};
use bakeoff_engine::{Connections, Drive, Seconds};

use super::requests;
use super::settings::{Course, RequestShown, Settings};
use crate::cli::{LoadArgs, Ramp, Spread};
use crate::failure::Failure;
use bakeoff_fleet::machines::requests::Requests;

/// Default number of clients of a closed load.
const CLIENTS_CLOSED: u32 = 64;
/// Default number of clients of an open load. There it limits concurrency and does not set the load.
const CLIENTS_OPEN: u32 = 256;
/// Default duration of a load.
const TIME: Duration = Duration::from_secs(10);
/// Default duration of each try of a search.
const TIME_OF_A_TRY: Duration = Duration::from_secs(5);
/// Default first rate of a search, per second.
const FIRST_RATE: f64 = 1000.0;

/// Requests, settings and conditions of a load.
pub(super) struct LoadRequest {
    pub(super) plan: Plan,
    pub(super) settings: Settings,
    pub(super) fail_if: Vec<Condition>,
    /// Warnings about input that bakeoff accepts as it is.
    pub(super) warnings: Vec<String>,
}

impl LoadRequest {
    /// Returns the requests in the form that generators take.
    pub(super) fn requests(&self) -> Requests {
        let Settings { course, drive, .. } = &self.settings;
        let ramp = match (course, drive.stop) {
            (&Course::Ramp(Ramp { from, to }), Stop::After(over)) => {
                Some(RateProfile::Ramp { from, to, over })
            }
            _ => None,
        };
        // The rows of a ramp are merged from the figures of each second.
        let seconds = if ramp.is_some() { Seconds::Kept } else { Seconds::Told };
        Requests { plan: self.plan.clone(), ready: None, spin: drive.spin, ramp, seconds }
    }
}

/// Parses and checks all flags.
pub(super) fn read(args: &LoadArgs) -> Result<LoadRequest, Failure> {
    let mut requests = match &args.requests.targets {
        Some(path) => requests::from_file(args, path)?,
        None => requests::from_urls(args)?,
    };
    let (table, rows) = requests::rows(args)?;
    let warnings = requests::read_words(&mut requests, &table)?;
    let course = course(args)?;
    let spacing = match args.open.arrivals.unwrap_or(Spread::Constant) {
        Spread::Constant => Spacing::Constant,
        Spread::Poisson => Spacing::Poisson,
    };
    let drive = drive(args, &course)?;
    let mut plan = Plan {
        protocol: if args.connection.http2 { Protocol::Two } else { Protocol::One },
        tls: TlsOptions {
            ca: args.connection.ca.clone().map(Pem::File),
            // One PEM file may hold both certificate and key.
            cert: args.connection.cert.clone().map(|cert| {
                let key = args.connection.key.clone().unwrap_or_else(|| cert.clone());
                (Pem::File(cert), Pem::File(key))
            }),
            insecure: args.connection.insecure,
        },
        detours: match &args.connection.unix_socket {
            Some(path) => vec![Detour::to_unix_socket(path.clone())],
            None => detours(&args.connection.connect_to)?,
        },
        rows: table.into(),
        ..Plan::new(requests)
    };
    let settings = Settings {
        requests: plan.requests.iter().map(request_shown).collect(),
        rows,
        course,
        spacing,
        http2: plan.protocol == Protocol::Two,
        unix_socket: args.connection.unix_socket.as_ref().map(|path| path.display().to_string()),
        insecure: plan.tls.insecure,
        is_random: plan.requests.iter().flat_map(|one| &one.words).any(|words| words.is_random()),
        drive,
    };
    if let [one] = &mut plan.requests[..] {
        // A single request is the workload's operation. Several keep their own names.
        one.name = Operation::Request.name().to_owned();
    }
    let fail_if = conditions("--fail-if", &args.result.fail_if)?;
    check_samples(&settings, &fail_if)?;
    Ok(LoadRequest { plan, settings, fail_if, warnings })
}

/// Parses `--connect-to`.
fn detours(texts: &[String]) -> Result<Vec<Detour>, Failure> {
    let read = |text: &String| {
        Detour::parse(text).ok_or_else(|| {
            bad(
                format!("`--connect-to {}` is not `HOST:PORT:ADDRESS:PORT`", harmless(text)),
                "write `--connect-to example.com:443:127.0.0.1:8443`; the first two parts may be empty",
            )
        })
    };
    texts.iter().map(read).collect()
}

/// Rejects conditions on a percentile for which the load has too few requests. Without this check, the percentile
/// would be unknown at the end of the load.
fn check_samples(settings: &Settings, fail_if: &[Condition]) -> Result<(), Failure> {
    let Settings { course, drive, spacing, .. } = settings;
    let rate = match course {
        Course::FindMax { first, .. } => Some(*first),
        Course::Rate(rate) => Some(*rate),
        Course::Ramp(ramp) => Some(f64::midpoint(ramp.from, ramp.to)),
        Course::Steps(rates) => Some(rates.iter().sum()),
        Course::Closed => None,
    };
    let (had, what) = match (drive.stop, rate) {
        (Stop::Operations(count), _) => (count as f64, "the load"),
        (Stop::After(time), Some(rate)) if matches!(course, Course::FindMax { .. }) => {
            (rate * time.as_secs_f64(), "the first try")
        }
        (Stop::After(time), Some(rate)) => (rate * time.as_secs_f64(), "the load"),
        (Stop::After(_), None) => return Ok(()),
    };
    let objective = match course {
        Course::FindMax { objective, .. } => objective.as_slice(),
        _ => &[],
    };
    let slo = objective.iter().map(|one| ("--slo", one));
    for (flag, condition) in slo.chain(fail_if.iter().map(|one| ("--fail-if", one))) {
        let one = Duration::from_secs(1);
        let by_chance = *spacing == Spacing::Poisson && matches!(drive.stop, Stop::After(_));
        let needed = least_rate(std::slice::from_ref(condition), one, by_chance).ceil();
        if had < needed {
            let (needed, had) = (count_text(needed as u64), count_text(had as u64));
            return Err(bad(
                format!("`{flag}`: `{condition}` needs {needed} requests, but {what} has {had}"),
                "ask for a lower percentile, or load for longer or at a higher rate",
            ));
        }
    }
    Ok(())
}

fn conditions(flag: &str, texts: &[String]) -> Result<Vec<Condition>, Failure> {
    let read = |text: &String| {
        text.parse().map_err(|misread| Failure::bad_input(format!("`{flag}`: {misread}")))
    };
    texts.iter().map(read).collect()
}

fn course(args: &LoadArgs) -> Result<Course, Failure> {
    Ok(if args.open.find_max {
        let objective = conditions("--slo", &args.open.slo)?;
        Course::FindMax { first: args.open.rate.unwrap_or(FIRST_RATE), objective }
    } else if let Some(ramp) = args.open.ramp {
        Course::Ramp(ramp)
    } else if !args.open.steps.is_empty() {
        Course::Steps(args.open.steps.clone())
    } else {
        args.open.rate.map_or(Course::Closed, Course::Rate)
    })
}

fn drive(args: &LoadArgs, course: &Course) -> Result<Drive, Failure> {
    let open = *course != Course::Closed;
    let searching = matches!(course, Course::FindMax { .. });
    let usual = if open { CLIENTS_OPEN } else { CLIENTS_CLOSED };
    let requests = args.load.requests.unwrap_or(u64::MAX);
    let clients = match args.load.clients {
        Some(clients) if u64::from(clients) > requests => {
            return Err(bad(
                format!("{clients} clients cannot share {requests} requests"),
                format!("give `--clients {requests}` or fewer, or more `--requests`"),
            ));
        }
        Some(clients) => clients,
        None => usual.min(u32::try_from(requests).unwrap_or(u32::MAX)),
    };
    let threads = match args.load.threads {
        Some(threads) if threads > clients => {
            return Err(bad(
                format!("{threads} threads cannot share {clients} clients"),
                format!("give `--threads {clients}` or fewer, or more `--clients`"),
            ));
        }
        Some(threads) => threads,
        None => bakeoff_engine::open_files::cpus().clamp(1, clients),
    };
    let time = args.load.time.unwrap_or(if searching { TIME_OF_A_TRY } else { TIME });
    if time.is_zero() {
        return Err(bad("`--for` must be longer than zero", "give `--for 10s`"));
    }
    let stop = args.load.requests.map_or(Stop::After(time), Stop::Operations);
    let usual_warmup = match course {
        // A ramp's beginning is its warm-up.
        Course::Ramp(_) => Duration::ZERO,
        _ => usual_warmup(stop, 1, searching),
    };
    Ok(Drive {
        clients,
        in_flight: args.load.in_flight.unwrap_or(1),
        connections: if args.connection.no_keepalive {
            Connections::OneEach
        } else {
            Connections::Kept
        },
        arrivals: None,
        spin: args.open.precision.unwrap_or(Duration::ZERO),
        warmup: args.load.warmup.unwrap_or(usual_warmup),
        stop,
        timeout: args.load.timeout,
        seconds: Seconds::Told,
        threads,
        seed: args.load.seed.unwrap_or_else(|| rand::random::<u64>() >> 32), // short enough to retype
        first_ticket: 0,
        moments: None,
        share: LoadShare::WHOLE,
        own_operations: None,
    })
}

/// Returns the parts of a request that can be shown. Registers its secrets, so that records mask them.
fn request_shown(request: &Request) -> RequestShown {
    requests::note_secrets(request);
    RequestShown {
        name: request.name.clone(),
        method: request.method.clone(),
        url: requests::shown(&request.url),
        header_names: request.headers.iter().map(|(name, _)| name.clone()).collect(),
        body_bytes: request.body.len(),
        weight: request.weight,
    }
}

fn bad(what: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::input(what, hint)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: LoadArgs,
    }

    fn read_line(words: &[&str]) -> Result<LoadRequest, String> {
        let line = Line::try_parse_from(std::iter::once(&"load").chain(words))
            .map_err(|error| error.to_string())?;
        read(&line.args).map_err(|failure| {
            assert_eq!(failure.exit_code(), 2, "{failure}");
            failure.to_string()
        })
    }

    fn load_request(words: &[&str]) -> LoadRequest {
        read_line(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    #[track_caller]
    fn wrong(words: &[&str], message: &[&str]) {
        let Err(error) = read_line(words) else { panic!("{words:?} was accepted") };
        for part in message {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    }

    const URL: &str = "http://127.0.0.1:1/";

    #[test]
    fn load_without_a_rate_is_closed() {
        let plain = load_request(&[URL]);
        assert_eq!(
            (plain.settings.course.clone(), plain.settings.drive.clients),
            (Course::Closed, 64)
        );
        assert_eq!(plain.settings.drive.stop, Stop::After(Duration::from_secs(10)));
        let open = load_request(&[URL, "--rate", "60/m", "--arrivals", "poisson"]);
        assert_eq!(
            (open.settings.course.clone(), open.settings.drive.clients),
            (Course::Rate(1.0), 256)
        );
        assert_eq!(open.settings.arrivals(), "poisson");
        wrong(&[URL, "--arrivals", "poisson"], &["--rate", "--steps"]);
        wrong(&[URL, "--precision"], &["--rate"]);
    }

    #[test]
    fn parses_steps_and_ramps() {
        assert_eq!(
            load_request(&[URL, "--steps", "5/s,10"]).settings.course,
            Course::Steps(vec![5.0, 10.0])
        );
        let ramp = load_request(&[URL, "--ramp", "100..1000", "--for", "20s"]);
        assert_eq!(ramp.settings.course, Course::Ramp(Ramp { from: 100.0, to: 1000.0 }));
        wrong(&[URL, "--ramp", "5..6", "--warmup", "1s"], &["cannot be used with"]);
        wrong(&[URL, "--steps", "5", "--rate", "5"], &["cannot be used with"]);
        let from_nothing = load_request(&[URL, "--ramp", "0..10"]).settings.course;
        assert_eq!(from_nothing, Course::Ramp(Ramp { from: 0.0, to: 10.0 }));
        wrong(&[URL, "--ramp", "0..0"], &["nothing is ever due"]);
        wrong(&[URL, "--ramp", "5..fast"], &["`fast` is not a rate"]);
        wrong(&[URL, "--ramp", "5"], &["the first and the last rate"]);
    }

    #[test]
    fn rejects_contradictory_settings() {
        wrong(&[URL, "-c", "10", "-n", "5"], &["10 clients cannot share 5 requests"]);
        wrong(&[URL, "-c", "1", "-t", "2"], &["2 threads cannot share 1 clients"]);
        wrong(&[URL, "-n", "5", "--for", "1s"], &["cannot be used with"]);
        wrong(&[URL, "--in-flight", "5"], &["--http2"]);
        wrong(&[URL, "--for", "0s"], &["longer than zero"]);
        wrong(&[URL, "--rate", "0"], &["at least one an hour"]);
        // A default may follow from a given setting.
        assert_eq!(load_request(&[URL, "-n", "5"]).settings.drive.clients, 5);
    }

    #[test]
    fn search_and_objective_require_each_other() {
        wrong(&[URL, "--find-max"], &["--slo"]);
        wrong(&[URL, "--slo", "p99 < 1s"], &["--find-max"]);
        let search = load_request(&[URL, "--find-max", "--slo", "p90 < 20ms", "--rate", "50"]);
        let objective = vec!["p90 < 20ms".parse().unwrap()];
        assert_eq!(search.settings.course, Course::FindMax { first: 50.0, objective });
        assert_eq!(search.settings.drive.stop, Stop::After(Duration::from_secs(5)));
    }

    #[test]
    fn rejects_percentiles_with_too_few_requests() {
        let search = [URL, "--find-max", "--slo", "p99.9 < 20ms", "--rate", "50", "--for", "5s"];
        wrong(&search, &["`--slo`: `p99.9 < 20ms` needs 10,000 requests", "first try has 250"]);
        wrong(&[URL, "-n", "412", "--fail-if", "p99 > 1s"], &["needs 1,000", "the load has 412"]);
        let few = [URL, "--rate", "10", "--for", "9s", "--fail-if", "service p90 > 1s"];
        wrong(&few, &["needs 100 requests, but the load has 90"]);
        load_request(&[URL, "--steps", "60,40", "--for", "1s", "--fail-if", "p90 > 1s"]);
        load_request(&[URL, "--for", "1s", "--fail-if", "p99.99 > 1s"]); // the count of a closed load is unknown
        load_request(&[URL, "-n", "400", "--fail-if", "max > 1s"]);
    }

    #[test]
    fn errors_name_the_flag_or_the_line() {
        wrong(&["ftp://a/"], &["URL `ftp://a/`: `ftp` is not a scheme"]);
        wrong(&[], &["<URL>"]);
        wrong(&[URL, "--fail-if", "p99 > 20"], &["`--fail-if`: `20`", "p99 > 20\n        ^^"]);
        wrong(&[URL, "--expect-status", "2"], &["`--expect-status`: `2`"]);
        wrong(&[URL, "--weights", "1,2"], &["`--weights` has 2 numbers for 1 URL"]);
        wrong(&[URL, "--body-file", "/nowhere"], &["cannot read the body `/nowhere`"]);
        wrong(&["--targets", "/nowhere"], &["cannot read the targets file `/nowhere`"]);
        wrong(&["--targets", "f", URL], &["cannot be used with"]);
    }

    #[test]
    fn diagnostics_of_a_targets_file_name_file_and_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.txt");
        let read_text = |text: &str, more: &[&str]| {
            std::fs::write(&path, text).unwrap();
            let words = [&["--targets", path.to_str().unwrap()], more].concat();
            read_line(&words)
        };
        let error = read_text("GET http://a/\n\nGET ftp://a/\n@/nowhere\n", &[]).err().unwrap();
        let place = path.display();
        assert!(error.contains(&format!("{place}:3: `ftp`")), "{error}");
        assert!(error.contains(&format!("{place}:4: cannot read the body")), "{error}");
        let error = read_text("GET http://a/\n@/nowhere\nno\n", &[]).err().unwrap();
        assert!(error.contains(&format!("{place}:3: ")), "{error}");
        let load =
            read_text("2 GET http://a/\nX: own\nGET http://b/\n", &["-H", "x: all"]).unwrap();
        let of = |place: usize| load.plan.requests[place].headers.clone();
        assert_eq!(of(0), [("X".to_owned(), "own".to_owned())]);
        assert_eq!(of(1), [("x".to_owned(), "all".to_owned())]);
        assert_eq!((load.plan.requests[0].weight, load.plan.requests[1].weight), (2, 1));
    }

    #[test]
    fn body_implies_post_and_user_implies_authorization() {
        let load = load_request(&["http://ann:pw@a/?x=1&api_key=hunter2", "--body", "b"]);
        let request = &load.plan.requests[0];
        assert_eq!((request.method.as_str(), request.body.as_slice()), ("POST", &b"b"[..]));
        let expected = ("Authorization".to_owned(), "Basic YW5uOnB3".to_owned());
        assert_eq!(request.headers, [expected]);
        assert_eq!(load.settings.requests[0].name, "POST http://a/?x=1&api_key=***");
        assert_eq!(request.name, "request", "a single request is the workload's operation");
    }

    #[test]
    fn settings_and_errors_hold_no_secrets() {
        let url = "http://ann:hunter2@a:1/?token=hunter2";
        let load = load_request(&[url, url, "-H", "Authorization: hunter2"]);
        assert!(!format!("{:?}", load.settings).contains("hunter2"));
        assert_eq!(load.plan.requests[1].name, "GET http://a:1/?token=*** (2)");
        for words in [
            &["ftp://ann:hunter2@a/?token=hunter2"][..],
            &["http://ann:hunter2@a:x/"],
            &[URL, "-H", "Authorization hunter2"],
            &[URL, "-H", "Author ization: hunter2"],
        ] {
            let error = read_line(words).err().unwrap();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
