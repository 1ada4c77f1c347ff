//! Runs a study of one closely sampled canary, and reads its record.

use serde_json::Value;

use super::{Bench, array};

/// A study of one canary under a closed load of reads, sampled ten times a second.
pub(crate) fn bench(system: &str, load: &str) -> Bench {
    Bench::new(&format!(
        "title: A canary, watched\n\
         systems: {{canary: {{kind: canary{system}}}}}\n\
         workloads: {{work: {{mix: {{get: 9, put: 1}}, keys: {{count: 200}}}}}}\n\
         loads: {{load: {load}}}\n\
         trials: 1\n\
         sample-every: 100ms\n"
    ))
}

/// Returns the record's line of the only trial.
pub(crate) fn trial(bench: &Bench) -> Value {
    let lines = bench.record();
    let trials = lines.into_iter().filter(|line| line["line"] == "trial").collect::<Vec<_>>();
    let [trial] = &trials[..] else { panic!("{trials:?}") };
    trial.clone()
}

/// Returns the verdict of a check.
pub(crate) fn check<'a>(trial: &'a Value, name: &str) -> &'a Value {
    let found = array(&trial["checks"]).iter().find(|check| check["name"] == name);
    &found.unwrap_or_else(|| panic!("no `{name}` in {}", trial["checks"]))["verdict"]
}
