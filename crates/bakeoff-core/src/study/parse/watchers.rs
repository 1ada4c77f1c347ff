//! Parses the watchers of a workload.
//!
//! Not here: whether a system has watches (`combine`).

use crate::study::reading::Fields;
use crate::study::tree::DiagnosticSink;
use crate::study::{Operation, SlowReaders, Watchers};
use crate::watch::{WatchRange, WatchStart, WatchedKeys};
use crate::workload::Keys;

use super::workloads::Mix;

/// Maximum number of watched keys, over all watchers. Each takes 4 bytes of memory.
const WATCHED_MAX: u64 = 1 << 24;
/// Default maximum number of connections.
const CONNECTIONS: u32 = 30;

/// Parses `watchers`. `Some(None)` if the workload has none.
pub(super) fn watchers(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    mix: Option<&Mix>,
    keys: Option<&Keys>,
) -> Option<Option<Box<Watchers>>> {
    if fields.node("watchers").is_none() {
        return Some(None);
    }
    let of = fields.table(sink, "watchers")?;
    let count = of.whole(sink, "count").map(|count| count as u32);
    let range = of.word(sink, "of", WatchRange::ALL);
    let from = of.word(sink, "from", WatchStart::ALL);
    let connections = match of.gives("connections") {
        true => of.whole(sink, "connections").map(|connections| connections as u32),
        false => Some(CONNECTIONS.min(count.unwrap_or(CONNECTIONS))),
    };
    let previous = of.flag(sink, "previous");
    let progress = of.duration(sink, "progress");
    let churn = of.duration(sink, "churn");
    let slow = slow(sink, &of, connections);
    let mix = mix?;
    if !mix.keys().any(|operation| operation.writes()) {
        let what = format!("{} has watchers and writes nothing", fields.what);
        sink.hint(fields.key_at("watchers"), what, "add `put` to its mix");
        return None;
    }
    // A `watch` has its own watcher, a `lock` writes keys that no value explains, and a `move` several at a time.
    let other = [Operation::Watch, Operation::Lock, Operation::Move];
    let other = other.into_iter().find(|one| mix.contains_key(one));
    if let Some(other) = other {
        let what = format!("{} has watchers and `{other}` in its mix", fields.what);
        sink.hint(fields.key_at("watchers"), what, format!("write `put` in place of `{other}`"));
        return None;
    }
    let (count, range, keys) = (count?, range?, keys?);
    if let (Some(connections), true) = (connections, of.gives("connections"))
        && connections > count
    {
        let what = format!("{connections} connections are too many for {count} watchers");
        sink.hint(of.value_at("connections"), what, format!("write `connections: {count}`"));
        return None;
    }
    let each = WatchedKeys { count: u32::try_from(keys.count).unwrap_or(u32::MAX), range }.each();
    let watched = u64::from(count).saturating_mul(each as u64);
    if watched > WATCHED_MAX || keys.count > WATCHED_MAX {
        let what = format!("{count} watchers of {each} keys each are too many to judge");
        let hint = format!("watchers times keys are at most {WATCHED_MAX}: use fewer keys");
        sink.hint(of.value_at("count"), what, hint);
        return None;
    }
    Some(Some(Box::new(Watchers {
        count,
        of: range,
        from: from?,
        connections: connections?,
        previous: previous?,
        progress: progress?,
        churn: churn?,
        slow: slow?,
    })))
}

fn slow(
    sink: &mut DiagnosticSink<'_>,
    of: &Fields<'_>,
    connections: Option<u32>,
) -> Option<Option<SlowReaders>> {
    if of.node("slow").is_none() {
        return Some(None);
    }
    let slow = of.table(sink, "slow")?;
    let count = slow.whole(sink, "connections").map(|count| count as u32);
    let (every, pause) = (slow.duration(sink, "every"), slow.duration(sink, "for"));
    let (count, every, pause) = (count?, every?, pause?);
    if let Some(connections) = connections.filter(|&connections| count > connections) {
        let what =
            format!("{count} slow connections are more than the {connections} of all watchers");
        sink.hint(slow.value_at("connections"), what, "slow down fewer of them");
        return None;
    }
    if pause >= every {
        let what = "a pause of slow readers lasts until the next one begins".to_owned();
        sink.hint(slow.value_at("for"), what, "make `for` shorter than `every`");
        return None;
    }
    Some(Some(SlowReaders { connections: count, every, pause }))
}
