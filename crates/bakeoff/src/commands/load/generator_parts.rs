//! The parts that generators had in a load, and how far apart they began.

use bakeoff_core::check::machine;
use bakeoff_core::record::GeneratorPart;

/// One generator's part of a load.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GeneratorShown {
    pub(super) machine: String,
    pub(super) part: GeneratorPart,
}

/// Adds the parts of a later step to those of the steps before.
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

/// Returns within how many microseconds all generators began, as far as their clocks are known to each other.
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
    fn beginnings_are_as_far_apart_as_clocks_allow() {
        assert_eq!(began_within_us(&[shown(0.0, 20.0), shown(0.0, 30.0)]), 60.0);
        assert_eq!(began_within_us(&[shown(0.0, 20.0), shown(100.0, 30.0)]), 150.0);
    }

    #[test]
    fn steps_add_up_and_the_worst_beginning_stays() {
        let mut parts = vec![shown(5.0, 20.0)];
        append(&mut parts, &[shown(1.0, 30.0)]);
        let part = &parts[0].part;
        assert_eq!((part.clients, part.verified, part.errors), (4, 200, 2));
        assert_eq!((part.late_us, part.clock_error_us), (5.0, 30.0));
    }
}
