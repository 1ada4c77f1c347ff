//! Parses what happens to the disk of a fault.

use std::time::Duration;

use crate::study::DiskFault;
use crate::study::reading::Fields;
use crate::study::tree::DiagnosticSink;
use crate::units::duration_text;

const WAYS: [&str; 3] = ["sync-delay", "stall", "full"];
/// Shortest delay of a sync that differs from a busy machine's own.
const DELAY_MIN: Duration = Duration::from_millis(10);

/// Parses the disk of a fault; `None` for a mistake.
pub(super) fn read(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    lasts: Option<Duration>,
) -> Option<DiskFault> {
    let mut given = WAYS.into_iter().filter(|way| fields.node(way).is_some());
    let Some(way) = given.next() else {
        let what = format!("{} leaves the disk as it is", fields.what);
        let hint = "add `sync-delay: 100ms`, `stall: true` or `full: true`";
        sink.hint(fields.key_at("disk"), what, hint);
        return None;
    };
    if let Some(other) = given.next() {
        let what = format!("{} has both `{way}` and `{other}`", fields.what);
        sink.hint(fields.key_at(other), what, "a fault is one action; write two faults");
        return None;
    }
    if way == "sync-delay" {
        let sync_delay = fields.duration(sink, way)?;
        let within = lasts.is_none_or(|lasts| sync_delay < lasts);
        if sync_delay < DELAY_MIN || !within {
            let what = format!("a `sync-delay` of {} cannot be proven", duration_text(sync_delay));
            let hint = "a sync is timed during the fault: write at least 10ms, and less than `for`";
            sink.hint(fields.value_at(way), what, hint);
            return None;
        }
        return Some(DiskFault::Slow { sync_delay });
    }
    match (fields.flag(sink, way)?, way) {
        (true, "stall") => Some(DiskFault::Stalled),
        (true, _) => Some(DiskFault::Full),
        (false, _) => {
            let what = format!("{} leaves the disk as it is", fields.what);
            sink.hint(fields.value_at(way), what, format!("write `{way}: true`"));
            None
        }
    }
}
