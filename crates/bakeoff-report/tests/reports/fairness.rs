//! Tests of how a report states differences besides the product, and the machine's own limits.

use std::collections::BTreeMap;

use bakeoff_core::check::{CheckName, Verdict};
use bakeoff_core::measurement::{ErrorKind, Handshakes};
use bakeoff_core::record::{
    Acknowledged, Check, Freshness, PartRecord, Record, Setting, SystemRecord,
};
use bakeoff_core::study::{
    Endpoint, Limits, Operation, ReadConsistency, Servers, Stop, System, Tls,
};
use bakeoff_core::units::ByteCount;
use bakeoff_report::fairness::{Fact, Row, Weight};
use bakeoff_report::{self as report, Extent, Report};

use super::building::{Trials as _, closed, failing, measured, record, study, workload};
use super::{NARROW, PLAIN, full, millis, repeated};

/// The one row with this name.
pub(super) fn row(report: &Report, what: &str) -> Row {
    let sheet = report.fairness();
    let found: Vec<&Row> = sheet.rows.iter().filter(|row| row.what == what).collect();
    assert_eq!(found.len(), 1, "{what}: {:?}", sheet.rows);
    assert_eq!(found[0].cells.len(), sheet.systems.len(), "{what}");
    found[0].clone()
}

/// Returns what is read in the cells of a row.
pub(super) fn texts(row: &Row) -> Vec<&str> {
    row.cells.iter().map(Fact::text).collect()
}

/// Changes the second of two alike systems, and holds what the sheet then says against what is
/// expected: the weight and the cells of a row, and the finding, if there is one.
pub(super) fn check(
    change: impl FnOnce(&mut Record),
    what: &str,
    weight: Weight,
    cells: [&str; 2],
    finding: Option<&str>,
) {
    let mut record = repeated();
    change(&mut record);
    let report = Report::new(&record);
    let seen = row(&report, what);
    assert_eq!((seen.weight, texts(&seen)), (weight, cells.to_vec()), "{what}");
    let findings = &report.fairness().findings;
    assert_eq!(findings.first().map(String::as_str), finding, "{findings:?}");
    // What decides is said above every table, and the page holds it in every form.
    let text = full(&report, &PLAIN);
    for finding in findings {
        let wording = text.find(finding.as_str()).unwrap();
        assert!(wording < text.find("total seconds").unwrap_or(usize::MAX), "{text}");
        assert!(report.findings().contains(finding));
    }
    full(&report, &NARROW);
    report::markdown(&report);
    let json = report::json(&report);
    let rows = json["fairness"]["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["what"] == what && row["cells"][1] == cells[1]));
}

#[test]
fn parts_are_told_side_by_side() {
    let part = |record: &mut Record, place: usize, kind: &str, nodes: u32, place_of| {
        let system = &mut record.header.systems[place];
        system.nodes = 3;
        system.guarantees.acknowledged_in = Some(place_of);
        let part = SystemRecord {
            kind: kind.into(),
            version: Some("1.0".into()),
            nodes,
            guarantees: system.guarantees.clone(),
            ..SystemRecord::default()
        };
        system.parts = vec![PartRecord { role: "storage".into(), part }];
    };
    check(
        |record| {
            part(record, 0, "consul", 3, Acknowledged::MajorityDisks);
            part(record, 1, "postgresql", 1, Acknowledged::Disk);
        },
        "storage",
        Weight::Matters,
        ["consul 1.0, 3 nodes", "postgresql 1.0, 1 node"],
        Some(
            "the contenders do not survive the same failures: etcd acknowledges a write on a \
             majority's disks and survives the failure of one node; zookeeper acknowledges a write \
             on one node's disk and survives no failure of a node",
        ),
    );
}

#[test]
fn a_system_that_is_started_with_tls_and_asked_with_a_token_is_told_so() {
    let tls = |record: &mut Record| record.header.systems[1].tls_version = Some("TLS".into());
    check(
        tls,
        "transport",
        Weight::Decides,
        ["plain TCP", "TLS"],
        Some("not all contenders are spoken to alike: etcd over plain TCP, zookeeper over TLS"),
    );
    let token = |record: &mut Record| {
        record.header.systems[1].authentication = Some("a token with each request".into());
    };
    let cells = ["none", "a token with each request"];
    check(token, "authentication", Weight::Matters, cells, None);
}

fn asked(record: &mut Record) -> &mut System {
    &mut record.header.study.systems[1]
}

#[test]
fn one_node_against_three_decides() {
    check(
        |record| {
            record.header.systems[0].nodes = 1;
            record.header.systems[0].guarantees.acknowledged_in = Some(Acknowledged::Disk);
        },
        "nodes",
        Weight::Decides,
        ["1, survives no failure of a node", "3, survive the failure of 1"],
        Some(
            "one contender is a single node and the other a cluster of three: etcd acknowledges a \
             write on one node's disk and survives no failure of a node; zookeeper acknowledges a \
             write on a majority's disks and survives the failure of one node",
        ),
    );
    // Four survive no more than three, and cost more.
    check(
        |record| {
            record.header.systems[0].nodes = 4;
        },
        "nodes",
        Weight::Matters,
        ["4, survive the failure of 1", "3, survive the failure of 1"],
        None,
    );
}

#[test]
fn memory_against_disks_decides_where_somebody_writes() {
    let unsynced = |record: &mut Record| {
        record.header.systems[1].guarantees.acknowledged_in =
            Some(Acknowledged::MajorityPageCaches);
    };
    let cells = ["on a majority's disks", "in the page caches of a majority"];
    let what = "a write is acknowledged";
    check(
        unsynced,
        what,
        Weight::Decides,
        cells,
        Some(
            "acknowledged writes are not equally safe: etcd acknowledges a write on a majority's \
             disks; zookeeper acknowledges a write in the page caches of a majority; a power cut \
             may take what zookeeper acknowledged",
        ),
    );
    let reads_only = |record: &mut Record| {
        unsynced(record);
        record.header.study.workloads[0].mix = BTreeMap::from([(Operation::Get, 1)]);
    };
    check(reads_only, what, Weight::Matters, cells, None);
}

#[test]
fn stale_against_linearizable_reads_decide() {
    let reads = |nodes: u32| {
        move |record: &mut Record| {
            let work = &mut record.header.study.workloads[0];
            work.mix = BTreeMap::from([(Operation::Get, 1)]);
            work.reads = ReadConsistency::Default;
            for (system, is) in record
                .header
                .systems
                .iter_mut()
                .zip([Freshness::Linearizable, Freshness::NodeAsked])
            {
                system.guarantees.freshness.insert(ReadConsistency::Default, is);
                system.nodes = nodes;
            }
        }
    };
    check(
        reads(3),
        "default reads return",
        Weight::Decides,
        [
            "the newest acknowledged value (linearizable)",
            "what the node asked has, which may be old",
        ],
        Some(
            "default reads are not equally fresh: those of zookeeper may be old, those of etcd may \
             not",
        ),
    );
    // Where there is but one node, nobody can be asked who is behind.
    check(
        reads(1),
        "default reads return",
        Weight::Matters,
        ["the newest acknowledged value (linearizable)", "what the only node has"],
        None,
    );
}

#[test]
fn tls_against_plain_tcp_decides() {
    let over_tls = |record: &mut Record| {
        for (system, tls) in record.header.study.systems.iter_mut().zip([false, true]) {
            let endpoint = Endpoint { tls, host: "10.0.0.5".into(), port: 2379 };
            system.servers = Servers::Running(vec![endpoint]);
        }
        asked(record).tls = Some(Tls {
            ca: None,
            cert: Some("c.pem".into()),
            key: Some("k.pem".into()),
            insecure: false,
        });
        for system in &mut record.header.systems {
            system.already_running = true;
        }
        record.header.systems[1].tls_version = Some("TLS 1.3".into());
    };
    let finding = "not all contenders are spoken to alike: etcd over plain TCP, zookeeper over TLS";
    check(over_tls, "transport", Weight::Decides, ["plain TCP", "TLS 1.3"], Some(finding));
    check(
        over_tls,
        "authentication",
        Weight::Matters,
        ["none", "client certificate"],
        Some(finding),
    );
}

#[test]
fn limits_on_one_side_decide_and_so_do_those_that_were_not_applied() {
    let held = |record: &mut Record| {
        asked(record).limits =
            Some(Limits { cpu: Some(0.5), memory: Some(ByteCount(1 << 30)), cpus: Vec::new() });
    };
    let what = "CPU and memory limits";
    check(
        held,
        what,
        Weight::Decides,
        ["none", "0.5 CPUs and 1 GiB memory a node, applied"],
        Some(
            "the contenders are not held to the same limits: etcd to nothing, zookeeper to 0.5 CPUs \
             and 1 GiB memory a node",
        ),
    );
    let cells = ["1 CPU a node, applied", "1 CPU a node, asked for and not applied"];
    check(
        |record| {
            for system in &mut record.header.study.systems {
                system.limits = Some(Limits { cpu: Some(1.0), memory: None, cpus: Vec::new() });
            }
            let theirs = record.trials.iter_mut().filter(|one| one.trial.system == "zookeeper");
            let last = theirs.last().unwrap();
            last.checks[0].verdict = Verdict::NotChecked("there are no cgroups".into());
        },
        what,
        Weight::Decides,
        cells,
        Some(
            "limits were asked for and not applied to zookeeper (1 CPU a node) in 1 of 3 trials: \
             there are no cgroups; without them a program takes what it can get, so that these \
             figures say little of what it does within its limits, and little of how it compares \
             there",
        ),
    );
}

#[test]
fn limits_are_told_with_cpus_and_of_parts_too() {
    let limits =
        |cpu: Option<f64>, cpus: &[u32]| Some(Limits { cpu, memory: None, cpus: cpus.to_vec() });
    let pinned = |theirs: &'static [u32]| {
        move |record: &mut Record| {
            record.header.study.systems[0].limits = limits(None, &[0]);
            asked(record).limits = limits(Some(0.5), theirs);
        }
    };
    let what = "CPU and memory limits";
    check(
        pinned(&[0, 1]),
        what,
        Weight::Decides,
        ["CPU 0 alone, applied", "0.5 CPUs a node, on CPUs 0 and 1 alone, applied"],
        Some(
            "the contenders are not held to the same limits: etcd to CPU 0 alone, zookeeper to 0.5 \
             CPUs a node, on CPUs 0 and 1 alone",
        ),
    );
    let parts = |record: &mut Record| {
        for (place, cpu) in [(0, 2.0), (1, 0.1)] {
            let system = &mut record.header.study.systems[place];
            let part = System { limits: limits(Some(cpu), &[]), ..system.clone() };
            system.parts = BTreeMap::from([("gateway".to_owned(), part)]);
        }
    };
    check(
        parts,
        what,
        Weight::Decides,
        ["gateway: 2 CPUs a node, applied", "gateway: 0.1 CPUs a node, applied"],
        Some(
            "the contenders are not held to the same limits: etcd to gateway: 2 CPUs a node, \
             zookeeper to gateway: 0.1 CPUs a node",
        ),
    );
}

#[test]
fn a_generator_with_cpus_of_its_own_is_told_so() {
    let apart = |record: &mut Record| {
        for trial in &mut record.trials {
            if trial.trial.system == "zookeeper" {
                trial.generator_cpus = vec![2, 3];
            }
        }
    };
    let cells = [
        "on the servers' machine, sharing its CPUs",
        "on the servers' machine, on CPUs 2 and 3 of its own",
    ];
    check(apart, "load generator", Weight::Decides, cells, None);
    let shared = |record: &mut Record| {
        apart(record);
        let verdict = Verdict::NotChecked("no CPU is left over".into());
        for trial in &mut record.trials {
            trial.checks.push(Check::new(CheckName::GeneratorApart, verdict.clone()));
        }
    };
    let cells = [cells[0], "on the servers' machine, on CPUs 2 and 3, shared with nodes"];
    check(shared, "load generator", Weight::Decides, cells, None);
}

#[test]
fn tls_between_the_parts_of_one_and_not_of_the_other_decides() {
    let between = |ours: Option<&'static str>, theirs: Option<&'static str>| {
        move |record: &mut Record| {
            for (place, wording) in [(0, ours), (1, theirs)] {
                let system = &mut record.header.systems[place];
                system.between = wording.map(str::to_owned);
                let part = SystemRecord { kind: "envoy".into(), nodes: 1, ..Default::default() };
                system.parts = vec![PartRecord { role: "gateway".into(), part }];
            }
        }
    };
    let what = "between its parts";
    check(
        between(Some("mTLS, TLS 1.3"), Some("plain HTTP")),
        what,
        Weight::Decides,
        ["mTLS, TLS 1.3", "plain HTTP"],
        Some(
            "not all contenders encrypt what their parts say to each other: those of etcd speak \
             TLS, those of zookeeper do not",
        ),
    );
    let both = between(Some("mTLS, TLS 1.3"), Some("mTLS, TLS 1.2"));
    check(both, what, Weight::Matters, ["mTLS, TLS 1.3", "mTLS, TLS 1.2"], None);
    let unsaid = between(Some("mTLS, TLS 1.3"), None);
    check(unsaid, what, Weight::Matters, ["mTLS, TLS 1.3", "not said"], None);
    let same = between(Some("plain HTTP"), Some("plain HTTP"));
    check(same, what, Weight::Same, ["plain HTTP", "plain HTTP"], None);
    let report = Report::new(&repeated());
    assert!(report.fairness().rows.iter().all(|row| row.what != what), "nobody says so");
}

#[test]
fn full_handshakes_on_one_side_alone_decide() {
    let shaken = |ours: (u64, u64), theirs: (u64, u64)| {
        move |record: &mut Record| {
            for trial in &mut record.trials {
                let ours_too = trial.trial.system == "etcd";
                let (full, resumed) = if ours_too { ours } else { theirs };
                let measurement = &mut trial.stages[0].measurement;
                let requests = measurement.verified();
                let of = |percent: u64| requests * percent / 100;
                measurement.handshakes = Handshakes { full: of(full), resumed: of(resumed) };
            }
        }
    };
    let what = "TLS handshakes";
    let ours = "full for 0.97 % of requests, resumed for 99.0 %";
    let theirs = "full for 100 % of requests, resumed for 0.00 %";
    let wording = format!(
        "the contenders do not pay for as many TLS handshakes: etcd {ours}; zookeeper {theirs}"
    );
    check(shaken((1, 99), (100, 0)), what, Weight::Decides, [ours, theirs], Some(&wording));
    check(shaken((1, 99), (1, 99)), what, Weight::Same, [ours, ours], None);
    let few = "full for 0.94 % of requests, resumed for 3.9 %";
    check(shaken((1, 99), (1, 4)), what, Weight::Matters, [ours, few], None);
    let report = Report::new(&repeated());
    assert!(report.fairness().rows.iter().all(|row| row.what != what), "nobody spoke TLS");
}

#[test]
fn errors_on_one_side_decide_above_a_hundredth() {
    let failing_after = |count: u64| {
        move |record: &mut Record| {
            for trial in record.trials.iter_mut().filter(|one| one.trial.system == "zookeeper") {
                let stage = &mut trial.stages[0].measurement;
                *stage = failing(stage.clone(), "put", ErrorKind::Status, count);
            }
        }
    };
    let what = "errors under create/steady";
    let finding = "under create/steady 5.0 % of zookeeper's operations failed, and none of etcd's";
    check(failing_after(60), what, Weight::Decides, ["none", "5.0 %"], Some(finding));
    check(failing_after(6), what, Weight::Matters, ["none", "0.53 %"], None);
    check(|_| {}, "errors", Weight::Same, ["none", "none"], None);
}

#[test]
fn one_that_ran_already_is_not_taken_to_be_like_one_that_was_started() {
    let ran = |record: &mut Record| {
        let endpoint = Endpoint { tls: false, host: "10.0.0.5".into(), port: 2379 };
        asked(record).servers = Servers::Running(vec![endpoint]);
        record.header.systems[1].already_running = true;
        record.header.systems[1].guarantees.acknowledged_in = None;
    };
    let finding = "zookeeper ran already and etcd was started on this machine by bakeoff: hardware, \
                   network, settings and what else was going on there may differ, and are not known \
                   here";
    check(
        ran,
        "started",
        Weight::Decides,
        ["by bakeoff, afresh for each trial", "ran already, not started by bakeoff"],
        Some(finding),
    );
    let words = "when it is on the disks of a majority (its settings are not known)";
    check(
        ran,
        "a write is acknowledged",
        Weight::Matters,
        ["on a majority's disks", words],
        Some(finding),
    );
}

#[test]
fn clients_of_a_systems_own_decide() {
    check(
        |record| {
            let load = &mut record.header.study.loads[0];
            load.clients_for = BTreeMap::from([("zookeeper".to_owned(), vec![32])]);
            load.in_flight = 4;
        },
        "clients",
        Weight::Decides,
        [
            "64, each with up to 4 operations under way",
            "32, each with up to 4 operations under way",
        ],
        Some(
            "the contenders were not loaded by as many clients under steady: etcd by 64, zookeeper \
             by 32",
        ),
    );
}

#[test]
fn bytes_are_those_of_each_message_and_differ_from_a_fiftieth_on() {
    let bytes = |each: [u64; 2]| {
        move |record: &mut Record| {
            for trial in &mut record.trials {
                let stage = &mut trial.stages[0].measurement;
                let each = each[usize::from(trial.trial.system == "zookeeper")];
                stage.warmup_operations = 100;
                stage.bytes_received = (stage.verified() + 100) * each;
            }
        }
    };
    let what = "bytes per response";
    check(bytes([100, 101]), what, Weight::Same, ["100 B", "100 B"], None);
    check(bytes([100, 110]), what, Weight::Matters, ["100 B", "110 B"], None);
    check(|_| {}, what, Weight::Unknown, ["not measured", "not measured"], None);
}

#[test]
fn one_system_against_itself_differs_in_its_options_and_in_nothing_else() {
    let mut record = repeated();
    for (place, sync) in ["each", "none"].into_iter().enumerate() {
        let system = &mut record.header.systems[place];
        system.kind = "canary".to_owned();
        system.settings = vec![Setting {
            name: "sync".into(),
            value: sync.into(),
            reason: "the study asks for it".into(),
        }];
    }
    record.header.systems[1].guarantees.acknowledged_in = Some(Acknowledged::MajorityPageCaches);
    let report = Report::new(&record);
    let differing: Vec<(&str, Weight)> =
        report.fairness().differing().iter().map(|row| (&*row.what, row.weight)).collect();
    let expected = [
        ("a write is acknowledged", Weight::Decides),
        ("settings that depart from defaults", Weight::Matters),
    ];
    assert_eq!(differing, expected);
    assert_eq!(report.fairness().findings.len(), 1);
    let names = report.fairness().systems.clone();
    let groups = differing_row(&report).groups(&names).len();
    assert_eq!(groups, 2);
}

fn differing_row(report: &Report) -> Row {
    report.fairness().differing()[0].clone()
}

#[test]
fn a_work_tells_nothing_of_systems_that_are_not_put_to_it() {
    let load = closed("steady", &[64], Stop::After(millis(4000)));
    let mut create = workload("create", &[(Operation::Put, 1)], "steady");
    create.systems = vec!["etcd".to_owned(), "zookeeper".to_owned()];
    let mut made = record(study(&["etcd", "consul", "zookeeper"], create, load, 1));
    for system in ["etcd", "zookeeper"] {
        let mut whole = measured("put", 500, millis(4000), millis(2));
        whole.bytes_sent = whole.verified() * 100;
        made.run(system, vec![(64, whole)]);
    }
    let report = Report::new(&made);
    for (what, cell) in [("bytes per request", "100 B"), ("errors", "none")] {
        let seen = row(&report, what);
        assert_eq!(
            (seen.weight, seen.cells[1].text()),
            (Weight::Same, "does not run it"),
            "{what}"
        );
        assert_eq!([seen.cells[0].text(), seen.cells[2].text()], [cell; 2], "{what}");
        let text = full(&report, &PLAIN);
        assert!(text.contains(&format!("{what} ({cell})")), "{text}");
    }
    // One of those that are put to it and was not measured is told.
    made.trials.retain(|trial| trial.trial.system == "etcd");
    let report = Report::new(&made);
    let seen = row(&report, "errors");
    assert_eq!(texts(&seen), ["none", "does not run it", "not measured"], "{seen:?}");
    assert_eq!(seen.weight, Weight::Matters);
    let told = full(&report, &PLAIN);
    assert!(told.contains("errors: etcd: none; zookeeper: not measured"), "{told}");
}

#[test]
fn one_difference_among_many_settings_is_shown_in_full() {
    let mut record = repeated();
    let setting = |name: String, value: &str| Setting {
        name,
        value: value.to_owned(),
        reason: "asked for".to_owned(),
    };
    let all = (0..10).map(|number| setting(format!("an-option-{number}"), "a-long-value"));
    let all: Vec<Setting> = all.collect();
    for (system, own) in record.header.systems.iter_mut().zip(["one", "another"]) {
        system.settings = all.clone();
        system.settings.push(setting("decides".to_owned(), own));
    }
    let text = full(&Report::new(&record), &PLAIN);
    let line = text.lines().find(|line| line.contains("settings that depart")).expect("a row");
    assert!(line.contains("etcd: decides = one, and 10 that all have"), "{line}");
    assert!(line.contains("zookeeper: decides = another, and 10 that all have"), "{line}");
}

#[test]
fn many_settings_do_not_fill_a_line() {
    let mut record = repeated();
    let setting = |number: u32| Setting {
        name: format!("an-option-{number}"),
        value: "a-value-of-some-length".to_owned(),
        reason: "its default is another".to_owned(),
    };
    record.header.systems[0].settings = (0..60).map(setting).collect();
    let report = Report::new(&record);
    for extent in [Extent::Glance, Extent::Full] {
        let text = report::terminal(&report, &PLAIN, extent);
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(longest < 900, "{longest} characters");
        let line = text.lines().find(|line| line.contains("settings that depart")).expect("a row");
        assert!(line.contains("an-option-0 = a-value-of-some-length, "), "{line}");
        assert!(!line.contains("an-option-59"), "{line}");
        // Each has a line of its own where everything is shown.
        let every =
            text.contains("set an-option-59 = a-value-of-some-length: its default is another");
        assert_eq!(every, extent == Extent::Full);
    }
    let page = report::html(&report, &record);
    assert!(page.contains("an-option-59"), "it can be unfolded");
}
