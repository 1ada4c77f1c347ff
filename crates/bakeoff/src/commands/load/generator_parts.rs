//! Each generator's share of a load, and the spread of their start times.

use bakeoff_core::check::machine;
use bakeoff_core::record::GeneratorPart;

/// One generator's share of a load.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GeneratorShown {
    pub(super) machine: String,
    pub(super) part: GeneratorPart,
}

/// Adds a later step: sums counts and CPU time, and keeps the largest lateness, clock error and CPU share.
pub(super) fn append(parts: &mut Vec<GeneratorShown>, later: &[GeneratorShown]) {
    if parts.is_empty() {
        parts.extend_from_slice(later);
        return;
    }
    for (part, later) in parts.iter_mut().map(|one| &mut one.part).zip(later) {
        let later = &later.part;
        part.verified += later.verified;
        part.errors += later.errors;
        part.cpu += later.cpu;
        part.late_us = part.late_us.max(later.late_us);
        part.clock_error_us = part.clock_error_us.max(later.clock_error_us);
        part.busiest = part.busiest.max(later.busiest);
    }
}

/// Returns the time within which all generators began, in microseconds. Clock errors widen it.
pub(super) fn began_within_us(parts: &[GeneratorShown]) -> f64 {
    machine::began_within_us(parts.iter().map(|one| &one.part))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn shown(late_us: f64, clock_error_us: f64) -> GeneratorShown {
        let (clients, verified, errors) = (4, 100, 1);
        let part = GeneratorPart {
            clients,
            verified,
            errors,
            late_us,
            clock_error_us,
            ..GeneratorPart::default()
        };
        GeneratorShown { machine: "h1".to_owned(), part }
    }

    #[test]
    fn start_spread_includes_clock_errors() {
        assert_eq!(began_within_us(&[shown(0.0, 20.0), shown(0.0, 30.0)]), 60.0);
        assert_eq!(began_within_us(&[shown(0.0, 20.0), shown(100.0, 30.0)]), 150.0);
    }

    #[test]
    fn append_sums_counts_and_keeps_the_worst_start() {
        let mut parts = vec![shown(5.0, 20.0)];
        append(&mut parts, &[shown(1.0, 30.0)]);
        let part = &parts[0].part;
        assert_eq!((part.clients, part.verified, part.errors), (4, 200, 2));
        assert_eq!((part.late_us, part.clock_error_us), (5.0, 30.0));
    }
}
