//! Suggests what makes the next run valid, from the cause that was measured.
//!
//! Not here: the checks and their causes (`verdict`), hints in servers' words (`causes`).

use crate::record::{Check, TrialRecord};
use crate::verdict::{Cause, CheckName};

/// Advice for a machine that other programs keep busy.
pub const BUSY_MACHINE: &str = "wait until that work ends, lower its priority (`renice`), or compare the systems next \
                                to it with `--shared-machine`";

/// Returns what to try after a trial that is not valid; `None` if its failure is a result about the system.
pub fn advice(trial: &TrialRecord) -> Option<&'static str> {
    trial.checks.iter().filter(|check| check.verdict.failed()).find_map(of_check)
}

fn of_check(check: &Check) -> Option<&'static str> {
    use CheckName as Name;
    let by_system = check.cause() == Cause::Unclear;
    Some(match check.name {
        Name::Neighbours => BUSY_MACHINE,
        Name::Steal => {
            "use a machine whose CPUs nobody shares, or compare the systems on this one with `--shared-machine`"
        }
        Name::Disk => "free space on that disk, or write to another with `--out`",
        Name::Timers | Name::Schedule | Name::ReceiveLag if by_system => {
            "the systems leave the generator no CPU: pin them (`limits.cpus`), lower the load, or put it on another machine (`--on`)"
        }
        Name::Timers | Name::Schedule | Name::ReceiveLag => {
            "keep a CPU free for the generator (pin the systems with `limits.cpus`), or load for longer (`stop`), so that a \
             short delay counts less"
        }
        Name::Generator => {
            "use fewer clients or a lower rate, more CPUs, or generators on more machines (`--on`)"
        }
        Name::GeneratorsTogether => {
            "use machines nearer to each other, or load for longer (`stop`)"
        }
        Name::Stationary => "raise `warmup`",
        Name::Keys => "raise `keys.count`",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    #[test]
    fn advice_follows_from_the_measured_cause() {
        let failed = |name, cause| {
            let check = Check::new(name, Verdict::Failed("so".to_owned()));
            of_check(&Check { cause, ..check })
        };
        assert!(failed(CheckName::Neighbours, None).unwrap().contains("`--shared-machine`"));
        let by_system = failed(CheckName::Timers, Some(Cause::Unclear)).unwrap();
        assert!(by_system.starts_with("the systems leave the generator no CPU"));
        assert_ne!(failed(CheckName::Timers, None), Some(by_system));
        assert_eq!(failed(CheckName::Answers, None), None, "a wrong answer is a result");
    }
}
