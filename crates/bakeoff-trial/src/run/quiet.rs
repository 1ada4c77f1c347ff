//! Warns before a run if other programs keep the machine busy. Its trials would not be valid.
//!
//! Not here: observing the programs (`bakeoff_host`), the checks of a trial (core's `check`).

use std::time::Duration;

use bakeoff_core::check::BUSY_MACHINE;
use bakeoff_core::check::machine::{neighbours_max, steal_between};
use bakeoff_core::stats::and;
use bakeoff_core::study::Study;
use bakeoff_core::units::figure_text;
use bakeoff_host::OtherWork;

/// Length of the observation. Shorter ones are within the rounding of the kernel's ticks.
pub(super) const WINDOW: Duration = Duration::from_secs(1);

/// Returns a warning if other programs use more than a trial of the study bears; `None` on a quiet machine.
pub(super) fn warning(of: &OtherWork, study: &Study) -> Option<String> {
    let all = f64::from(of.cpus) * of.seconds;
    let share = of.used / all;
    let stolen = of.stolen.and_then(|stolen| steal_between(stolen, of.cpus, of.seconds));
    let cause = match stolen {
        Some(why) => why,
        None if share > neighbours_max(study) => {
            let one = |(name, seconds): (&str, f64)| {
                format!("`{name}` ({} CPUs)", figure_text(seconds / of.seconds))
            };
            let who: Vec<String> =
                of.commands.iter().map(|of| one((&of.name, of.seconds))).collect();
            let who =
                if who.is_empty() { String::new() } else { format!(", most by {}", and(&who)) };
            let percent = figure_text(share * 100.0);
            format!("other programs use {percent} % of this machine's CPU time{who}")
        }
        None => return None,
    };
    Some(format!(
        "{cause}: while that lasts, trials are not valid, and the run ends undecided; {BUSY_MACHINE}"
    ))
}

#[cfg(test)]
mod tests {
    use bakeoff_core::study;
    use bakeoff_core::trial_samples::Command;
    use bakeoff_systems as systems;

    use super::*;

    #[test]
    fn busy_machine_is_reported_with_its_programs_and_what_to_do() {
        let text = "title: t\nsystems: {a: {kind: canary}}\nworkloads: {w: {mix: {get: 1}, keys: {count: 1}}}\n\
                    loads: {l: {clients: 1, stop: {after: 1s}}}\n";
        let study = study::parse("t", "t.yaml", text, &systems::kinds()).unwrap();
        let quiet = OtherWork { seconds: 1.0, cpus: 2, used: 0.05, stolen: None, commands: vec![] };
        assert_eq!(warning(&quiet, &study), None);
        let commands = vec![Command { name: "rustc".to_owned(), seconds: 0.8 }];
        let busy = OtherWork { used: 0.82, commands, ..quiet.clone() };
        let text = warning(&busy, &study).unwrap();
        assert!(text.starts_with(
            "other programs use 41.0 % of this machine's CPU time, most by `rustc` (0.80 CPUs): "
        ));
        assert!(text.contains("`renice`") && text.contains("`--shared-machine`"), "{text}");
        let stolen = OtherWork { stolen: Some(0.9), ..quiet };
        assert!(warning(&stolen, &study).unwrap().starts_with("the hypervisor gave 45.0 %"));
    }
}
