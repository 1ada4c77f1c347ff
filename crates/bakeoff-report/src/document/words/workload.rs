//! Texts about workload and load: operations, clients, duration.
//!
//! Not here: results (`words`, `tables`).

use bakeoff_core::plan;
use bakeoff_core::search;
use bakeoff_core::stats::and;
use bakeoff_core::study::{
    Arrivals, KeyOrder, Load, Routing, Stop, Study, System, Targets, ValueSizes,
};
use bakeoff_core::units::{ByteCount, count_text, duration_text, plural, rate_text, share_text};
use bakeoff_core::workload::PROOF_SIZE;

use crate::derive::comparison::Comparison;
use crate::document::watches;

/// Returns `create under sweep: closed load, 1 to 1000 clients, 1,000,000 operations`.
pub(crate) fn heading(study: &Study, of: &Comparison) -> String {
    let scaled = study.scale_text().map_or(String::new(), |scale| format!(" (scaled to {scale})"));
    format!("{} under {}{scaled}: {}", of.workload.name, of.load.name, load(study, &of.load))
}

fn load(study: &Study, load: &Load) -> String {
    let mut parts = vec![format!("{} load", plan::load_kind(load))];
    if let (Some(find), Some(first)) = (&load.find, load.arrivals.rate()) {
        let (objective, first) = (find.text(), rate_text(first));
        parts.push(format!(
            "search for the highest rate that keeps {objective}, starting at {first}"
        ));
        if let Stop::After(time) = load.stop {
            let most = duration_text(search::longest(time, load.warmup));
            parts.push(format!("at most {most} in all"));
        }
    }
    match load.arrivals {
        Arrivals::Closed => {}
        Arrivals::Constant { .. } if load.find.is_some() => parts.push("evenly spaced".to_owned()),
        Arrivals::Poisson { .. } if load.find.is_some() => {
            parts.push("with Poisson arrivals".to_owned())
        }
        Arrivals::Constant { rate } => parts.push(format!("{}, evenly spaced", rate_text(rate))),
        Arrivals::Poisson { rate } => {
            parts.push(format!("{} with Poisson arrivals", rate_text(rate)))
        }
    }
    // A system's own number of clients is shown only if it differs.
    let own = |system: &&System| load.clients_on(&system.name) != load.clients.as_slice();
    let (own, general): (Vec<&System>, Vec<&System>) = study.systems.iter().partition(own);
    if !general.is_empty() {
        parts.push(plan::clients_text(&load.clients));
    }
    parts.extend(
        own.iter().map(|one| {
            format!("{} for {}", plan::clients_text(load.clients_on(&one.name)), one.name)
        }),
    );
    if load.in_flight > 1 {
        parts.push(format!("{} operations in flight each", load.in_flight));
    }
    parts.push(match load.stop {
        Stop::After(time) => duration_text(time),
        Stop::Operations(1) => "1 operation".to_owned(),
        Stop::Operations(count) => format!("{} operations", count_text(count)),
    });
    parts.join(", ")
}

/// Describes the clients' operations in a line.
pub(crate) fn workload(of: &Comparison) -> String {
    let (work, load) = (&of.workload, &of.load);
    let all: u64 = work.mix.values().map(|&weight| u64::from(weight)).sum();
    let share = |weight: u32| {
        let text = format!("{:.1}", f64::from(weight) * 100.0 / all.max(1) as f64);
        text.trim_end_matches(".0").to_owned()
    };
    let mix: Vec<String> = match work.mix.len() {
        1 => work.mix.keys().map(|op| op.name().to_owned()).collect(),
        _ => work.mix.iter().map(|(op, &weight)| format!("{} % {op}", share(weight))).collect(),
    };
    let order = match work.keys.order {
        KeyOrder::Sequential => "in sequence".to_owned(),
        KeyOrder::Unique => "each once".to_owned(),
        KeyOrder::Uniform => "uniformly chosen".to_owned(),
        KeyOrder::Zipfian { exponent } => format!("zipfian ({exponent})"),
        KeyOrder::Hotspot { keys, operations } => {
            format!("{} of operations on {} of keys", share_text(operations), share_text(keys))
        }
        KeyOrder::Latest { exponent } => {
            format!("written in sequence, the latest read most ({exponent})")
        }
        KeyOrder::Same => "always the first".to_owned(),
    };
    let keys = plural(work.keys.count, "key");
    let mut parts = vec![and(&mix)];
    let stored = work.mix.keys().any(|op| op.is_stored());
    let texts = work.mix.keys().any(|op| op.takes_text());
    if stored {
        parts.push(format!("{keys} of {} B, {order}", work.keys.size));
    }
    if let Some(sizes) = work.value_sizes().map(value_sizes) {
        match (stored, texts) {
            (true, _) => parts.push(format!("values of {sizes}")),
            (false, true) => parts.push(format!("texts of {sizes}")),
            (false, false) => {}
        }
    }
    let with: Vec<String> =
        work.with.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if !with.is_empty() {
        parts.push(format!("with {}", with.join(", ")));
    }
    if work.request().is_some_and(|request| request.http2) {
        parts.push("over HTTP/2".to_owned());
    }
    if of.reads() {
        parts.push(format!("{} reads", work.reads));
    }
    parts.extend(work.watchers.as_deref().map(watches::text));
    if work.fill {
        parts.push("all keys written beforehand".to_owned());
    }
    if !load.warmup.is_zero() {
        parts.push(format!("after {} of warm-up", duration_text(load.warmup)));
    }
    parts.push(format!("operations time out after {}", duration_text(load.timeout)));
    match load.targets {
        Routing::Same(Targets::All) => {}
        Routing::Same(Targets::Leader) => parts.push("sent to the leader only".to_owned()),
        Routing::Same(Targets::Followers) => parts.push("sent to the followers only".to_owned()),
        Routing::Split { writes, reads } => parts.push(format!(
            "writes sent to {} and reads to {}, by separate clients",
            nodes_named(writes),
            nodes_named(reads)
        )),
    }
    if !load.keep_alive {
        parts.push("a new connection for each operation".to_owned());
    }
    parts.join("; ")
}

/// Describes the sizes of values, and how much proof short ones carry.
fn value_sizes(sizes: &ValueSizes) -> String {
    let (least, mean, most) =
        (ByteCount(sizes.least()), ByteCount(sizes.mean()), ByteCount(sizes.most()));
    let mut text = match sizes {
        ValueSizes::Fixed(_) => most.to_string(),
        ValueSizes::Range { .. } => format!("{least} to {most}"),
        ValueSizes::Listed(all) => {
            format!("{least} to {most}, mean {mean} ({} sizes)", all.len())
        }
    };
    if (sizes.least() as usize) < PROOF_SIZE {
        text +=
            &format!(" (in values of {least}, {} bits prove key and number)", sizes.least() * 6);
    }
    text
}

/// Names target nodes in a sentence.
fn nodes_named(targets: Targets) -> &'static str {
    match targets {
        Targets::All => "all nodes",
        Targets::Leader => "the leader",
        Targets::Followers => "the followers",
    }
}
