//! Tests of [`super`].

use super::*;

const TEST: &str = "test \"k\" \"t\" { weight = 100 }\n";

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Resolves these flags, variables and lines of the file.
fn resolve<const N: usize>(
    flags: &str,
    variables: [(&str, &str); N],
    file: &str,
) -> Result<Options, LoadError> {
    let environment = Environment::from(variables);
    let Command::Run(RunFlags(flags)) = command(&words(&format!("run {flags}")))? else {
        panic!("this runs");
    };
    let config = Config::parse("t.hcl", &format!("{file}\n{TEST}"), environment.clone())?;
    let resolve = Resolve { flags: &flags, environment: &environment, config: &config };
    let options = resolve.options()?;
    config.finish()?;
    Ok(options)
}

#[track_caller]
fn check_wrong(flags: &str, file: &str, expected: &str) {
    let error = resolve(flags, [("VAULT_TOKEN", "t")], file).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn defaults_are_those_of_vault_benchmark() {
    let options = resolve("", [("VAULT_TOKEN", "t")], "").unwrap();
    assert_eq!(options.addresses, ["http://127.0.0.1:8200"]);
    assert_eq!((options.workers, options.rps), (10, None));
    assert_eq!(options.duration, Duration::from_secs(10));
    assert_eq!(options.report_mode, ReportMode::Terse);
    assert_eq!(options.log_level, LogLevel::Info);
    assert_eq!((options.random_mounts, options.cleanup), (true, false));
    assert_eq!((options.disable_http2, options.disable_keep_alive), (false, false));
    assert_eq!((options.pprof_interval, options.namespace), (None, None));
}

#[test]
fn command_line_overrides_environment_and_environment_overrides_file() {
    let file = "vault_addr = \"http://file:1/\"\nvault_token = \"f\"\nworkers = 3";
    let address = |flags: &str, environment| {
        let variables = [environment, ("VAULT_TOKEN", "e")];
        resolve(flags, variables, file).unwrap().addresses.remove(0)
    };
    let variable = ("VAULT_ADDR", "http://environment:1");
    assert_eq!(address("-vault_addr=http://flag:1", variable), "http://flag:1");
    assert_eq!(address("", variable), "http://environment:1");
    assert_eq!(address("", ("VAULT_X", "")), "http://file:1");
    // An empty variable counts as set, as in vault-benchmark.
    let error = resolve("", [("VAULT_ADDR", ""), ("VAULT_TOKEN", "e")], file).unwrap_err();
    assert!(error.to_string().contains("no server address given"), "{error}");
    assert_eq!(resolve("--workers 5", [], file).unwrap().workers, 5);
    assert_eq!(resolve("", [], file).unwrap().workers, 3);
}

#[test]
fn every_option_can_stand_in_the_file() {
    let file = "vault_token = \"f\"\nvault_namespace = \"team\"\nduration = \"2s\"\n\
                report_mode = \"json\"\naudit_path = \"/tmp/a\"\nannotate = \"a=b,c=\"\n\
                ca_pem_file = \"/tmp/ca\"\npprof_interval = \"5s\"\nlog_level = \"WARN\"\n\
                rps = 7\nworkers = 2\nrandom_mounts = true\ninput_results = true\n\
                cleanup = true\ndebug = true\ndisable_http2 = true\n\
                disable_keep_alive = true\ncluster_json = \"\"";
    let options = resolve("", [], file).unwrap();
    assert_eq!(options.namespace.as_deref(), Some("team"));
    assert_eq!((options.rps, options.workers), (Some(7), 2));
    assert_eq!(options.report_mode, ReportMode::Json);
    assert_eq!(options.pprof_interval, Some(Duration::from_secs(5)));
    assert_eq!(options.log_level, LogLevel::Warn);
    assert!(options.cleanup && options.debug && options.disable_http2);
    assert!(options.disable_keep_alive);
    assert_eq!(options.audit_path.as_deref(), Some("/tmp/a"));
    let annotations = [("a".to_owned(), "b".to_owned()), ("c".to_owned(), String::new())];
    assert_eq!(options.annotations, annotations);
}

#[test]
fn number_without_a_unit_means_seconds_only_on_the_command_line() {
    let duration =
        |flags, file| resolve(flags, [("VAULT_TOKEN", "t")], file).map(|options| options.duration);
    assert_eq!(duration("-duration=90", "").unwrap(), Duration::from_secs(90));
    assert_eq!(duration("-duration 1m30s", "").unwrap(), Duration::from_secs(90));
    assert!(duration("", "duration = \"90\"").is_err());
}

#[test]
fn refuses_impossible_options_with_their_place() {
    check_wrong("-workers=0", "", "`-workers` must be a whole number of at least 1");
    check_wrong("", "workers = 0", "t.hcl:1:11");
    check_wrong("-rps=x", "", "`-rps` must be a whole number");
    check_wrong("-duration=0s", "", "more than 0");
    check_wrong("", "report_mode = \"tense\"", "t.hcl:1:15");
    check_wrong("-report_mode=tense", "", "`terse`, `verbose`, `json`");
    check_wrong("-log_level=loud", "", "`-log_level` cannot be `loud`");
    check_wrong("-cleanup -random_mounts=false", "", "random mounts");
    check_wrong("-annotate=x", "", "`name=value`");
    check_wrong("-worker=1", "", "unknown flag `-worker`");
    check_wrong("-cleanup false", "", "`false` is not an option");
    check_wrong("-cleanup=maybe", "", "`true` or `false`");
    check_wrong("-vault_token=", "", "no Vault token");
    check_wrong("-cluster_json=/nowhere/at-all", "", "cannot read the cluster file");
}

#[test]
fn cluster_file_gives_servers_and_a_hidden_token() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = r#"{"token": "s.1", "vault_addrs": ["http://a:1/", "http://b:1"]}"#;
    std::fs::write(file.path(), text).unwrap();
    let flags = format!("-cluster_json={}", file.path().display());
    let options = resolve(&flags, [], "").unwrap();
    assert_eq!(options.addresses, ["http://a:1", "http://b:1"]);
    assert_eq!(options.token.reveal(), "s.1");
    assert!(!format!("{options:?}").contains("s.1"));
    assert_eq!(resolve(&flags, [("VAULT_TOKEN", "t")], "").unwrap().token.reveal(), "t");
    std::fs::write(file.path(), "{\"token\": \"s.1\" \"x\"}").unwrap();
    let error = resolve(&flags, [], "").unwrap_err().to_string();
    assert!(error.contains("1:") && !error.contains("s.1"), "{error}");
}

#[test]
fn commands_have_their_own_help_and_their_own_options() {
    let help = |line: &str| match command(&words(line)).unwrap() {
        Command::Help(text) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(help("-h"), USAGE);
    assert_eq!(help("run -workers 3 -help"), RUN_USAGE);
    assert_eq!(help("review --help"), REVIEW_USAGE);
    for name in VALUES.iter().chain(&SWITCHES) {
        assert!(RUN_USAGE.contains(&format!("  -{name}")), "{name}");
    }
    for wrong in ["", "ruin", "review", "review -results_file=x -report_mode=json"] {
        command(&words(wrong)).unwrap_err();
    }
    let Command::Review(review) = command(&words("review -results_file=x")).unwrap() else {
        panic!("this reviews");
    };
    assert_eq!(review.report_mode, ReportMode::Terse);
}
