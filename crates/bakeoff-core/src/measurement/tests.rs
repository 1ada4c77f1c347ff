//! Tests how the parts of a measurement add up.

use super::*;
use crate::staleness::{Age, ReadAge, StaleBy};

fn of_node(node: &str, milliseconds: &[u64]) -> TargetFigures {
    let mut of = TargetFigures { node: node.to_owned(), ..TargetFigures::default() };
    for &latency in milliseconds {
        of.verified += 1;
        of.service.record(Duration::from_millis(latency));
    }
    of
}

#[test]
fn appended_stages_add_up_by_node_with_shifted_silences() {
    let stage = |targets, silences| Measurement {
        window: Duration::from_secs(4),
        targets,
        silences,
        ..Measurement::default()
    };
    let silence = |from| Silence { from, seconds: 0.7 };
    let mut whole = stage(vec![of_node("a", &[1]), of_node("b", &[2])], vec![silence(1.0)]);
    whole.append(&stage(vec![of_node("b", &[3]), of_node("a", &[4])], vec![silence(2.0)]));
    assert_eq!(whole.targets, [of_node("a", &[1, 4]), of_node("b", &[2, 3])]);
    assert_eq!(whole.silences, [silence(1.0), silence(6.0)]);
}

#[test]
fn stalls_are_shifted_by_stage_and_renumbered_by_thread() {
    let stage = |stalls: &[(u32, f64, f64)]| Measurement {
        window: Duration::from_secs(4),
        generator_threads: 2,
        stalls: stalls
            .iter()
            .map(|&(thread, from, seconds)| GeneratorStall { thread, from, seconds })
            .collect(),
        ..Measurement::default()
    };
    let mut whole = stage(&[(0, 1.0, 0.2), (1, 1.0, 0.3)]);
    assert_eq!(whole.most_stalled(), Some((1, Duration::from_millis(300))));
    whole.append(&stage(&[(0, 2.0, 0.2)]));
    assert_eq!(whole.most_stalled(), Some((0, Duration::from_millis(400))));
    assert_eq!(whole.stalls[2], GeneratorStall { thread: 0, from: 6.0, seconds: 0.2 });
    whole.add_next_to(&stage(&[(0, 3.0, 0.25)]));
    assert_eq!(whole.stalls[2], GeneratorStall { thread: 2, from: 3.0, seconds: 0.25 });
    assert_eq!(whole.most_stalled(), Some((0, Duration::from_millis(400))));
    let text = serde_json::to_string(&Measurement::default()).unwrap();
    assert!(!text.contains("stalls") && !text.contains("receive_lag"), "{text}");
}

#[test]
fn bytes_of_appended_stages_add_up() {
    let stage = |bytes_sent, bytes_received| Measurement {
        bytes_sent,
        bytes_received,
        ..Measurement::default()
    };
    let mut whole = stage(1, 20);
    whole.append(&stage(300, 4000));
    assert_eq!((whole.bytes_sent, whole.bytes_received), (301, 4020));
}

#[test]
fn handshakes_of_stages_and_parallel_loads_add_up() {
    let of = |full, resumed| Measurement {
        handshakes: Handshakes { full, resumed },
        ..Measurement::default()
    };
    let mut whole = of(1, 20);
    whole.append(&of(300, 0));
    whole.add_next_to(&of(0, 4000));
    assert_eq!(whole.handshakes, Handshakes { full: 301, resumed: 4020 });
    let text = serde_json::to_string(&Measurement::default()).unwrap();
    assert!(!text.contains("handshakes"), "{text}");
}

#[test]
fn errors_are_counted_by_text_and_few_texts_are_kept() {
    let example = |what: String| Example { what, ..Example::default() };
    let mut figures = OperationFigures::default();
    for number in 0..40 {
        figures.count_error(ErrorKind::Status, || example("500".to_owned()));
        figures.count_error(ErrorKind::Status, || example(format!("503: took {number} ms")));
        figures.count_error(ErrorKind::Timeout, || example("no answer".to_owned()));
    }
    let mut other = OperationFigures::default();
    for word in "abcdefghijklmnopqrstuvwxyz".chars() {
        other.count_error(ErrorKind::Status, || example(format!("500: {word}")));
    }
    other.count_error(ErrorKind::Status, || example("500".to_owned()));
    figures.merge(&other);
    let status = &figures.errors[&ErrorKind::Status];
    assert_eq!((status.count, status.texts.len()), (107, TEXTS_MAX));
    let text = |text: &str, count| ErrorText { text: text.to_owned(), count };
    // The other had no room left for its last.
    assert_eq!(status.texts[..2], [text("500", 40), text("503: took N ms", 40)]);
    assert!(figures.errors[&ErrorKind::Timeout].texts.is_empty());
}

#[test]
fn failures_that_waited_rank_behind_successes() {
    let mut figures = OperationFigures { verified: 60, ..OperationFigures::default() };
    figures.response.record_many(Duration::from_millis(2), 60);
    figures.service = figures.response.clone();
    figures.unanswered.record_many(Duration::from_secs(1), 40);
    figures.unanswered_service = figures.unanswered.clone();
    figures.errors.entry(ErrorKind::Timeout).or_default().count = 40;
    for ranked in [figures.responses(), figures.services()] {
        assert_eq!(ranked.count(), 100);
        let p90 = ranked.percentile(0.9);
        assert_eq!(p90.why_not().as_deref(), Some("40.0 % failed; those after 1.00 s"));
        assert_eq!(ranked.percentile(0.5).text(), "2.00 ms");
    }
    assert_eq!(figures.answered_and_unanswered().count(), 100);
    let second = SecondFigures {
        verified: 60,
        errors: 40,
        response: figures.response.pack(),
        service: figures.service.pack(),
        failed: Some(figures.unanswered.pack()),
    };
    let ranked = second.responses().unwrap();
    assert_eq!((ranked.count(), ranked.failed_share()), (100, 0.4));
    assert_eq!(ranked.max().text(), "≥ 1.00 s");
    // Dropped operations have no service time, and quick errors are failures too.
    figures.errors.entry(ErrorKind::Dropped).or_default().count = 10;
    figures.errors.entry(ErrorKind::Status).or_default().count = 30;
    assert_eq!((figures.responses().count(), figures.services().count()), (140, 130));
}

#[test]
fn longest_silences_are_kept_in_order_of_time() {
    let mut all: Vec<Silence> = (0..=SILENCES_MAX)
        .map(|at| Silence { from: at as f64, seconds: if at == 3 { 0.5 } else { 0.6 } })
        .collect();
    longest(&mut all);
    assert_eq!(all.len(), SILENCES_MAX);
    assert!(all.is_sorted_by(|a, b| a.from < b.from));
    assert!(all.iter().all(|silence| silence.from != 3.0));
}

#[test]
fn parallel_measurements_add_up_over_the_same_window() {
    let side = |name: &str, node: &str, milliseconds: u64, silences: &[(f64, f64)]| {
        let mut figures = OperationFigures { verified: 10, ..OperationFigures::default() };
        figures.verified_in_window = 10;
        figures.service.record(Duration::from_millis(milliseconds));
        figures.count_error(ErrorKind::Dropped, Example::default);
        figures.count_error(ErrorKind::Reset, Example::default);
        let second = |second| {
            let latencies = Latencies::default().pack();
            let of = SecondFigures {
                verified: 5,
                errors: 0,
                response: latencies.clone(),
                service: latencies,
                failed: None,
            };
            Second { second, operations: [(name.to_owned(), of)].into() }
        };
        let silences = silences.iter().map(|&(from, seconds)| Silence { from, seconds });
        let mut of = Measurement {
            window: Duration::from_secs(4),
            operations: [(name.to_owned(), figures)].into(),
            seconds: vec![second(0), second(milliseconds as u32)],
            silences: silences.collect(),
            generator_cpu: Duration::from_secs(2),
            generator_threads: 1,
            ..Measurement::default()
        };
        of.tell_of_only_node(node);
        of
    };
    let mut whole = side("put", "a", 2, &[(0.5, 1.0), (3.0, 0.9)]);
    whole.add_next_to(&side("get", "b", 1, &[(1.0, 2.6)]));
    assert_eq!(whole.window, Duration::from_secs(4));
    assert_eq!(whole.throughput(), Some(5.0));
    assert_eq!((whole.generator_cpu, whole.generator_threads), (Duration::from_secs(2), 2));
    let seconds: Vec<(u32, u64)> =
        whole.seconds.iter().map(|one| (one.second, one.verified())).collect();
    assert_eq!(seconds, [(0, 10), (1, 5), (2, 5)]);
    let nodes: Vec<(&str, u64, u64)> =
        whole.targets.iter().map(|of| (of.node.as_str(), of.verified, of.errors)).collect();
    assert_eq!(nodes, [("a", 10, 1), ("b", 10, 1)]);
    let silences: Vec<(f64, f64)> =
        whole.silences.iter().map(|one| (one.from, one.seconds)).collect();
    assert_eq!(silences.len(), 2, "{silences:?}");
    assert!((silences[0].0 - 1.0).abs() < 1e-9 && (silences[0].1 - 0.5).abs() < 1e-9);
    assert!((silences[1].0 - 3.0).abs() < 1e-9 && (silences[1].1 - 0.6).abs() < 1e-9);
}

#[test]
fn staleness_of_appended_stages_adds_up_by_node() {
    let stage = |nodes: &[(&str, ReadAge)]| {
        let one = |&(node, seen): &(&str, ReadAge)| {
            let mut of = Staleness { node: node.to_owned(), ..Staleness::default() };
            of.count(seen);
            of
        };
        Measurement { staleness: nodes.iter().map(one).collect(), ..Measurement::default() }
    };
    let lag = StaleBy { age: Age::Exactly(Duration::from_millis(3)), behind: 2 };
    let mut whole = stage(&[("a", ReadAge::Fresh), ("b", ReadAge::Stale(Some(lag)))]);
    whole.append(&stage(&[("b", ReadAge::Fresh), ("c", ReadAge::Fresh)]));
    let counts: Vec<(&str, u64, u64)> =
        whole.staleness.iter().map(|of| (of.node.as_str(), of.reads, of.stale)).collect();
    assert_eq!(counts, [("a", 1, 0), ("b", 2, 1), ("c", 1, 0)]);
}

#[test]
fn system_gave_out_only_if_more_successes_were_expected() {
    let ended = |verified: u64, from: f64| {
        let figures =
            OperationFigures { verified, verified_in_window: verified, ..Default::default() };
        let operations = [("put".to_owned(), figures)].into();
        let window = Duration::from_secs(60);
        let silent_from = Some(from);
        Measurement { window, operations, silent_from, ..Measurement::default() }.gave_out()
    };
    assert_eq!(ended(60_000, 59.0), Some(59.0));
    assert_eq!(ended(60, 59.0), None, "a single failure at one operation a second is expected");
    assert_eq!(ended(60, 55.0), Some(55.0));
    assert_eq!(ended(0, 0.0), None, "it never succeeded, which is reported elsewhere");
}

#[test]
fn silence_is_a_stall_only_if_operations_are_faster() {
    let stalled = |service: Duration| {
        let mut figures = OperationFigures { verified: 9, ..Default::default() };
        figures.service.record_many(service, 9);
        let operations = [("put".to_owned(), figures)].into();
        let silences =
            vec![Silence { from: 1.0, seconds: 2.0 }, Silence { from: 4.0, seconds: 0.6 }];
        Measurement { operations, silences, ..Measurement::default() }.stalled().count()
    };
    assert_eq!(stalled(Duration::from_millis(1)), 2);
    assert_eq!(stalled(Duration::from_millis(100)), 1);
    assert_eq!(stalled(Duration::from_secs(1)), 0);
}

/// Returns ten seconds of `successes` a second, each taking `service`, with a silence at the start of each second.
fn pausing(successes: u64, service: Duration, pause: f64) -> Measurement {
    let mut figures = OperationFigures { verified: successes, ..Default::default() };
    figures.verified_in_window = successes;
    figures.service.record_many(service, successes);
    let mut measured = Measurement {
        window: Duration::from_secs(10),
        operations: [("get".to_owned(), figures)].into(),
        ..Measurement::default()
    };
    let pauses = (0..10).map(|at| Silence { from: f64::from(at), seconds: pause });
    measured.keep_silences(pauses.collect());
    measured
}

#[test]
fn waiting_for_the_slowest_operation_is_not_a_stall() {
    let with_slow = |pause| {
        let mut measured = pausing(60_000, Duration::from_millis(1), pause);
        let mut slow = OperationFigures { verified: 600, ..Default::default() };
        slow.service.record_many(Duration::from_millis(100), 600);
        measured.operations.insert("scan".to_owned(), slow);
        let pauses = measured.silences.clone();
        measured.keep_silences(pauses);
        measured.stood_still().is_some()
    };
    assert!(!with_slow(0.15), "all clients wait for it");
    assert!(with_slow(0.25), "twice as long and more");
}

#[test]
fn pauses_of_a_tenth_of_each_second_are_a_tenth_of_the_window() {
    let measured = pausing(60_000, Duration::from_micros(1500), 0.1);
    assert_eq!(measured.silences.len(), 10);
    assert!((measured.stood_still().unwrap() - 0.1).abs() < 1e-9, "{measured:?}");
    let mut both = measured.clone();
    both.append(&pausing(60_000, Duration::from_micros(1500), 0.05));
    assert!((both.stood_still().unwrap() - 0.075).abs() < 1e-9, "of twenty seconds");
    let mut adjacent = measured.clone();
    adjacent.add_next_to(&pausing(60_000, Duration::from_micros(1500), 0.04));
    assert!((adjacent.stood_still().unwrap() - 0.04).abs() < 1e-9, "common to both");
}

#[test]
fn batches_slow_operations_and_low_rates_do_not_stand_still() {
    let share = |successes, service, pause| {
        pausing(successes, Duration::from_millis(service), pause).stood_still()
    };
    assert_eq!(share(128_000, 5, 0.04), None, "64 clients, a batch each 5 ms");
    assert_eq!(share(100, 90, 0.1), None, "one client whose operations take 90 ms");
    assert_eq!(share(10, 1, 1.0), None, "one operation a second");
    assert_eq!(share(60_000, 1, 0.009), None, "less than 1 % of the window");
}
