//! Tests the forms of histories, and the messages about invalid lines.

use super::super::judged_history::{HistoryVerdict, JudgedHistory};
use super::*;

fn read(text: &str) -> Result<ReadHistory, HistoryError> {
    let mut reader = HistoryReader::default();
    text.lines().try_for_each(|line| reader.read_line(line.as_bytes()))?;
    reader.finish()
}

#[track_caller]
fn judged(text: &str) -> (HistoryForm, JudgedHistory) {
    let mut read = read(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (read.form, read.judge())
}

/// Asserts that a history is refused in this line with this reason.
#[track_caller]
fn refuses(text: &str, line: u64, why: &str) {
    let error = read(text).expect_err(text);
    assert!(error.line == line && error.why.contains(why), "{error}");
}

const STALE_LOG: &str = "\
INFO  jepsen.util - :nemesis\t:info\t:start\tnil
INFO  jepsen.util - 0\t:invoke\t:write\t1
INFO  jepsen.util - 0\t:ok\t:write\t1
INFO  jepsen.util - 1   :invoke :write  2
INFO  jepsen.util - 1   :ok     :write  2
INFO  jepsen.util - 2\t:invoke\t:cas\t[1 2]
INFO  jepsen.util - 2\t:info\t:cas\t:timed-out
INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 0\t:ok\t:read\t1
";

#[test]
fn jepsen_log_is_judged() {
    let (form, found) = judged(STALE_LOG);
    assert_eq!((form, &found.verdict), (HistoryForm::JepsenLog, &HistoryVerdict::Violated));
    let shown = found.violation.unwrap();
    assert_eq!(shown.operations.len(), 3, "{shown:?}");
    assert_eq!((found.operations, found.unknown, found.keys), (4, 1, 1));
    let (_, found) = judged(&STALE_LOG.replace(":ok\t:read\t1", ":ok\t:read\t2"));
    assert_eq!(found.verdict, HistoryVerdict::Linearizable);
    // A write without an end may happen at any time.
    let open = "INFO  jepsen.util - 3 :invoke :write 1\n";
    let (_, found) = judged(&format!("{open}{STALE_LOG}"));
    assert_eq!(found.verdict, HistoryVerdict::Linearizable);
    // A refused write did not happen.
    let refused = format!("{open}INFO  jepsen.util - 3 :fail :write 1\n{STALE_LOG}");
    assert_eq!(judged(&refused).1.verdict, HistoryVerdict::Violated);
}

const EDN: &str = "\
[{:process 0, :type :invoke, :f :write, :value 0, :index 0, :time 10}
#jepsen.history.Op{:process 0, :type :ok, :f :write, :value 0, :time 20}
{:process :nemesis, :type :info, :f :start-partition, :value #{\"n1\" \"n2\"}, :time 25}
{:type :invoke, :f :cas, :value [0 3], :process 1, :time 30}
{:type :ok, :f :cas, :value [0 3], :process 1, :time 40}
{:type :invoke, :f :read, :value nil, :process 2, :time 35}
{:type :ok, :f :read, :value 0, :process 2, :time 50, :error [:timeout \"a \\\" b\"]}
{:type :invoke, :f :read, :process 2, :time 60}
{:type :ok, :f :read, :value READ, :process 2, :time 70}]
";

#[test]
fn jepsen_edn_is_judged() {
    let (form, found) = judged(&EDN.replace("READ", "3"));
    assert_eq!((form, &found.verdict), (HistoryForm::JepsenEdn, &HistoryVerdict::Linearizable));
    let (_, found) = judged(&EDN.replace("READ", "0"));
    assert_eq!(found.verdict, HistoryVerdict::Violated);
    assert_eq!(judged(&EDN.replace("READ", "nil")).1.verdict, HistoryVerdict::Violated);
    let keyed = |value: &str| {
        format!(
            "{{:type :invoke, :f :write, :value [7 1], :process 0}}\n{{:type :ok, :f :write, :value [7 1], \
             :process 0}}\n{{:type :invoke, :f :read, :value [8 nil], :process 0}}\n{{:type :ok, :f :read, \
             :value [8 {value}], :process 0}}\n"
        )
    };
    let (_, found) = judged(&keyed("nil"));
    assert_eq!((found.verdict, found.keys), (HistoryVerdict::Linearizable, 2));
    assert_eq!(judged(&keyed("1")).1.violation.map(|one| one.key).as_deref(), Some("8"));
}

#[test]
fn own_history_reads_back_as_it_was_written() {
    let (_, found) = judged(STALE_LOG);
    let mut first = read(STALE_LOG).unwrap();
    first.judge();
    let name = |key: u32| first.keys[key as usize].clone();
    let lines: Vec<String> =
        first.history.lines(&name).map(|line| serde_json::to_string(&line).unwrap()).collect();
    let (form, again) = judged(&lines.join("\n"));
    assert_eq!((form, again), (HistoryForm::Bakeoff, found));
}

#[test]
fn invalid_lines_are_named() {
    let own = r#"{"key":"a","client":1,"node":"n","action":"write","value":1,"outcome":"done","start_ns":5,"end_ns":9}"#;
    refuses("", 0, "without an operation");
    refuses("hello", 1, "`hello` is no operation");
    refuses(&format!("{own}\n{}", &own[..50]), 2, "is no operation: EOF");
    refuses(&own.replace("\"end_ns\":9", "\"end_ns\":4"), 1, "`end_ns` 4 is before");
    refuses(&own.replace("\"end_ns\":9", "\"end_ns\":null"), 1, "`end_ns` is missing");
    refuses(&own.replace("done", "unknown"), 1, "has no `end_ns`");
    refuses(&own.replace("\"write\"", "\"push\""), 1, "unknown variant");
    let log = |event: &str| format!("INFO  jepsen.util - {event}\n");
    refuses(&log("0 :ok :read 1"), 1, "process 0 ends an operation that it did not begin");
    refuses(&log("0 :invoke :write 1").repeat(2), 2, "before that of line 1 has ended");
    refuses(&log("0 :invoke :enqueue 1"), 1, "`:enqueue` is none of");
    refuses(&log("0 :invoke :write -1"), 1, "`-1` is no value of a register");
    refuses(&log("0 :invoke :cas 1"), 1, "no pair");
    refuses(&log("0 invoke"), 1, "is no event");
    refuses("{:type :invoke, :f :read", 1, "not closed");
    refuses("{:type :invoke, :process 0, :f :txn}", 1, "`:txn` is none of");
    refuses(
        &format!("{{:type :invoke, :process 0, :f :write, :value {}", "[".repeat(99)),
        1,
        "nested",
    );
}

#[test]
fn history_reader_never_panics() {
    let own = r#"{"key":"a","client":1,"node":"n","action":"read","value":null,"outcome":"done","start_ns":5,"end_ns":9}"#;
    let corpus: [&[u8]; 3] = [STALE_LOG.as_bytes(), EDN.as_bytes(), own.as_bytes()];
    let words =
        [":info", ":invoke", "[", "#", "{", "nil", "\"", "\\", "\n", "18446744073709551615"];
    bakeoff_fuzz::run("history", &corpus, &words, |input| {
        let mut reader = HistoryReader::default();
        let read = input.split(|&byte| byte == b'\n').try_for_each(|line| reader.read_line(line));
        if read.is_ok()
            && let Ok(mut read) = reader.finish()
        {
            read.judge();
        }
    });
}
