//! The one place that reads the time of day.
//!
//! Not here: the monotonic clock, by which everything is measured (the crate's root).

use std::sync::OnceLock;
use std::time::Duration;

use bakeoff_core::units::parse_duration;
use jiff::SignedDuration;

/// Lets the wall clock jump, for tests of the check that sees it: `AFTER,BY`, as in `2s,-5s`. It
/// jumps by BY once, AFTER the first trial began.
const CLOCK_STEP: &str = "BAKEOFF_CLOCK_STEP";

/// The time now, in UTC: `2026-11-21T20:24:50Z`.
pub fn utc_now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the time since a moment that [`utc_now`] wrote. `None` if the text is no moment, or lies in the future.
pub fn since(moment: &str) -> Option<Duration> {
    let moment: jiff::Timestamp = moment.parse().ok()?;
    jiff::Timestamp::now().duration_since(moment).try_into().ok()
}

/// The time now, in seconds since 1970, as the machine's clock has it: somebody may set it.
/// Trials begin and end with a reading.
pub fn seconds() -> f64 {
    static FIRST: OnceLock<(jiff::Timestamp, Option<Step>)> = OnceLock::new();
    let now = jiff::Timestamp::now();
    let asked = || std::env::var(CLOCK_STEP).ok().and_then(|text| parse_step(&text));
    let (first, step) = FIRST.get_or_init(|| (now, asked()));
    let jump = step.as_ref().filter(|step| now.duration_since(*first) >= step.after);
    let jump = jump.map_or(0.0, |step| step.by.as_secs_f64());
    now.as_duration().as_secs_f64() + jump
}

struct Step {
    after: SignedDuration,
    by: SignedDuration,
}

fn parse_step(text: &str) -> Option<Step> {
    let (after, by) = text.split_once(',')?;
    let (is_back, by) = by.strip_prefix('-').map_or((false, by), |by| (true, by));
    let signed = |text: &str| SignedDuration::try_from(parse_duration(text).ok()?).ok();
    let by = signed(by)?;
    Some(Step { after: signed(after)?, by: if is_back { -by } else { by } })
}

/// The time now as a name for a folder: `2026-11-21-202450`.
pub fn utc_folder() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d-%H%M%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_since_a_moment_is_known_unless_it_lies_ahead() {
        assert!(since("2026-11-21T20:24:50Z").is_some_and(|time| !time.is_zero()));
        assert_eq!(since("9000-01-01T00:00:00Z"), None);
        assert_eq!(since("yesterday"), None);
    }

    #[test]
    fn a_step_of_the_clock_goes_either_way() {
        let step = parse_step("2s,-500ms").unwrap();
        let by = SignedDuration::from_millis(-500);
        assert_eq!((step.after, step.by), (SignedDuration::from_secs(2), by));
        assert_eq!(parse_step("0s,5s").unwrap().by, SignedDuration::from_secs(5));
        assert!(["", "2s", "2s,", "x,1s", "-2s,1s"].iter().all(|text| parse_step(text).is_none()));
    }
}
