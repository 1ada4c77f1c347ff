//! Tests how a report states differences besides the product, and the limits of the machine.

use std::collections::BTreeMap;

use bakeoff_core::check::{CheckName, Verdict};
use bakeoff_core::measurement::{ErrorKind, Handshakes};
use bakeoff_core::record::{
    AckLocation, Check, Freshness, PartRecord, Record, Setting, SystemRecord,
};
use bakeoff_core::study::{
    Endpoint, Limits, Operation, ReadConsistency, Servers, Stop, System, Tls,
};
use bakeoff_core::units::ByteCount;
use bakeoff_report::fairness::{Fact, Row, Weight};
use bakeoff_report::{self as report, Extent, Report};

use super::building::{Trials as _, closed, failing, measured, page_of, record, study, workload};
use super::{NARROW, PLAIN, full, millis, repeated};

/// Returns the only row with this name.
pub(super) fn row(report: &Report, what: &str) -> Row {
    let sheet = report.fairness();
    let found: Vec<&Row> = sheet.rows.iter().filter(|row| row.what == what).collect();
    assert_eq!(found.len(), 1, "{what}: {:?}", sheet.rows);
    assert_eq!(found[0].cells.len(), sheet.systems.len(), "{what}");
    found[0].clone()
}

/// Returns the texts of a row's cells.
pub(super) fn texts(row: &Row) -> Vec<&str> {
    row.cells.iter().map(Fact::text).collect()
}

/// Changes one of two equal systems and compares the sheet with the expected weight, cells and finding.
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
    // A finding that may decide stands above every table, and is in every output format.
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
fn parts_have_a_row() {
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
            part(record, 0, "consul", 3, AckLocation::MajorityDisks);
            part(record, 1, "postgresql", 1, AckLocation::Disk);
        },
        "storage",
        Weight::Matters,
        ["consul 1.0, 3 nodes", "postgresql 1.0, 1 node"],
        Some(
            "the systems do not survive the same failures: etcd acknowledges a write on a \
             majority's disks and survives the failure of one node; zookeeper acknowledges a write \
             on one node's disk and survives no failure of a node",
        ),
    );
}

#[test]
fn tls_and_authentication_have_rows() {
    let tls = |record: &mut Record| record.header.systems[1].tls_version = Some("TLS".into());
    check(
        tls,
        "transport",
        Weight::Decides,
        ["plain TCP", "TLS"],
        Some("client connections differ: etcd over plain TCP, zookeeper over TLS"),
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
            record.header.systems[0].guarantees.acknowledged_in = Some(AckLocation::Disk);
        },
        "nodes",
        Weight::Decides,
        ["1, survives no failure of a node", "3, survive the failure of 1"],
        Some(
            "one system is a single node and the other a cluster of three: etcd acknowledges a \
             write on one node's disk and survives no failure of a node; zookeeper acknowledges a \
             write on a majority's disks and survives the failure of one node",
        ),
    );
    // Four nodes survive no more failures than three, and cost more.
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
fn memory_against_disks_decides_for_workloads_with_writes() {
    let unsynced = |record: &mut Record| {
        record.header.systems[1].guarantees.acknowledged_in = Some(AckLocation::MajorityPageCaches);
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
            "the queried node's value, which may be stale",
        ],
        Some(
            "default reads are not equally fresh: those of zookeeper may be stale, those of etcd may \
             not",
        ),
    );
    // A single node cannot lag behind another.
    check(
        reads(1),
        "default reads return",
        Weight::Matters,
        ["the newest acknowledged value (linearizable)", "the only node's value"],
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
    let finding = "client connections differ: etcd over plain TCP, zookeeper over TLS";
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
            "the systems have different limits: etcd with no limits, zookeeper with 0.5 CPUs \
             and 1 GiB memory a node",
        ),
    );
    let cells = ["1 CPU a node, applied", "1 CPU a node, requested but not applied"];
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
            "requested limits were not applied to zookeeper (1 CPU a node) in 1 of 3 trials: there are \
             no cgroups; without them a program uses all it can get, so these figures say little \
             about its performance, or a comparison, within the limits",
        ),
    );
}

#[test]
fn limits_include_pinned_cpus_and_parts() {
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
            "the systems have different limits: etcd with CPU 0 alone, zookeeper with 0.5 \
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
            "the systems have different limits: etcd with gateway: 2 CPUs a node, \
             zookeeper with gateway: 0.1 CPUs a node",
        ),
    );
}

#[test]
fn generator_with_own_cpus_decides() {
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
        let verdict = Verdict::NotChecked("no CPU is free".into());
        for trial in &mut record.trials {
            trial.checks.push(Check::new(CheckName::GeneratorApart, verdict.clone()));
        }
    };
    let cells = [cells[0], "on the servers' machine, on CPUs 2 and 3, shared with nodes"];
    check(shared, "load generator", Weight::Decides, cells, None);
}

#[test]
fn tls_between_parts_on_one_side_alone_decides() {
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
            "the systems differ in encryption between their parts: those of etcd use TLS, \
             those of zookeeper do not",
        ),
    );
    let both = between(Some("mTLS, TLS 1.3"), Some("mTLS, TLS 1.2"));
    check(both, what, Weight::Matters, ["mTLS, TLS 1.3", "mTLS, TLS 1.2"], None);
    let unsaid = between(Some("mTLS, TLS 1.3"), None);
    check(unsaid, what, Weight::Matters, ["mTLS, TLS 1.3", "not stated"], None);
    let same = between(Some("plain HTTP"), Some("plain HTTP"));
    check(same, what, Weight::Same, ["plain HTTP", "plain HTTP"], None);
    let report = Report::new(&repeated());
    assert!(report.fairness().rows.iter().all(|row| row.what != what), "unknown for both");
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
    let wording = format!("the shares of TLS handshakes differ: etcd {ours}; zookeeper {theirs}");
    check(shaken((1, 99), (100, 0)), what, Weight::Decides, [ours, theirs], Some(&wording));
    check(shaken((1, 99), (1, 99)), what, Weight::Same, [ours, ours], None);
    let few = "full for 0.94 % of requests, resumed for 3.9 %";
    check(shaken((1, 99), (1, 4)), what, Weight::Matters, [ours, few], None);
    let report = Report::new(&repeated());
    assert!(report.fairness().rows.iter().all(|row| row.what != what), "no TLS");
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
    let finding = "under create/steady, 5.0 % of zookeeper's operations failed, but none of etcd's";
    check(failing_after(60), what, Weight::Decides, ["none", "5.0 %"], Some(finding));
    check(failing_after(6), what, Weight::Matters, ["none", "0.53 %"], None);
    check(|_| {}, "errors", Weight::Same, ["none", "none"], None);
}

#[test]
fn already_running_system_differs_from_a_started_one() {
    let ran = |record: &mut Record| {
        let endpoint = Endpoint { tls: false, host: "10.0.0.5".into(), port: 2379 };
        asked(record).servers = Servers::Running(vec![endpoint]);
        record.header.systems[1].already_running = true;
        record.header.systems[1].guarantees.acknowledged_in = None;
    };
    let finding = "zookeeper ran already, but etcd was started on this machine by bakeoff: hardware, \
                   network, settings and other work there may differ and are unknown";
    check(
        ran,
        "started",
        Weight::Decides,
        ["by bakeoff, afresh for each trial", "ran already, not started by bakeoff"],
        Some(finding),
    );
    let words = "when it is on the disks of a majority (its settings are unknown)";
    check(
        ran,
        "a write is acknowledged",
        Weight::Matters,
        ["on a majority's disks", words],
        Some(finding),
    );
}

#[test]
fn different_client_counts_decide() {
    check(
        |record| {
            let load = &mut record.header.study.loads[0];
            load.clients_for = BTreeMap::from([("zookeeper".to_owned(), vec![32])]);
            load.in_flight = 4;
        },
        "clients",
        Weight::Decides,
        [
            "64, each with up to 4 operations in flight",
            "32, each with up to 4 operations in flight",
        ],
        Some("the systems had different numbers of clients under steady: etcd 64, zookeeper 32"),
    );
}

#[test]
fn bytes_per_message_differ_from_two_percent_on() {
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
fn system_against_itself_differs_only_in_its_options() {
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
    record.header.systems[1].guarantees.acknowledged_in = Some(AckLocation::MajorityPageCaches);
    let report = Report::new(&record);
    let differing: Vec<(&str, Weight)> =
        report.fairness().differing().iter().map(|row| (&*row.what, row.weight)).collect();
    let expected =
        [("a write is acknowledged", Weight::Decides), ("non-default settings", Weight::Matters)];
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
fn workload_row_excludes_systems_that_do_not_run_it() {
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
    // A system that runs the workload but was not measured is named.
    made.trials.retain(|trial| trial.trial.system == "etcd");
    let report = Report::new(&made);
    let seen = row(&report, "errors");
    assert_eq!(texts(&seen), ["none", "does not run it", "not measured"], "{seen:?}");
    assert_eq!(seen.weight, Weight::Matters);
    let text = full(&report, &PLAIN);
    assert!(text.contains("errors: etcd: none; zookeeper: not measured"), "{text}");
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
    let line = text.lines().find(|line| line.contains("non-default settings")).expect("a row");
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
    let text = report::terminal(&report, &PLAIN, Extent::Full);
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(longest < 900, "{longest} characters");
    let line = text.lines().find(|line| line.contains("non-default settings")).expect("a row");
    assert!(line.contains("an-option-0 = a-value-of-some-length, "), "{line}");
    assert!(!line.contains("an-option-59"), "{line}");
    // The full output has one line for each setting.
    assert!(text.contains("set an-option-59 = a-value-of-some-length: its default is another"));
    let page = page_of(&record);
    assert!(page.contains("an-option-59"), "it can be unfolded");
}
