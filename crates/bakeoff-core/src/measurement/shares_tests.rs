//! Tests that the shares of a load add up to the measurement of a single generator.

use proptest::prelude::*;

use super::*;

/// A success: the second in which it ended, true for a put, its latency, and its generator.
type Success = (u32, bool, u64, usize);

fn measured<'a>(successes: impl Iterator<Item = &'a Success>) -> Measurement {
    let mut of = Measurement { window: Duration::from_secs(5), ..Measurement::default() };
    let mut seconds = BTreeMap::<(u32, &str), (u64, Latencies)>::new();
    for &(second, is_put, nanoseconds, _) in successes {
        let name = if is_put { "put" } else { "get" };
        let latency = Duration::from_nanos(nanoseconds);
        let figures = of.operations.entry(name.to_owned()).or_default();
        figures.verified += 1;
        figures.verified_in_window += 1;
        figures.response.record(latency * 2);
        figures.service.record(latency);
        let (verified, latencies) = seconds.entry((second, name)).or_default();
        *verified += 1;
        latencies.record(latency);
    }
    for ((second, name), (verified, latencies)) in seconds {
        if of.seconds.last().is_none_or(|last| last.second != second) {
            of.seconds.push(Second { second, operations: BTreeMap::new() });
        }
        let figures = SecondFigures {
            verified,
            errors: 0,
            response: latencies.pack(),
            service: latencies.pack(),
            failed: None,
        };
        of.seconds.last_mut().unwrap().operations.insert(name.to_owned(), figures);
    }
    of
}

proptest! {
    #[test]
    fn shares_add_up_to_the_whole(
        successes in prop::collection::vec((0..5_u32, any::<bool>(), 1_000..10_000_000_000_u64, 0..3_usize), 0..200),
    ) {
        let share = |index| measured(successes.iter().filter(move |success| success.3 == index));
        let mut sum = share(0);
        sum.add_share(&share(1)).unwrap();
        sum.add_share(&share(2)).unwrap();
        let whole = measured(successes.iter());
        // All distributions are the same, bin by bin, in total and in each second.
        prop_assert_eq!(&sum.operations, &whole.operations);
        prop_assert_eq!(&sum.seconds, &whole.seconds);
        prop_assert_eq!(sum.window, whole.window);
        for quantile in [0.5, 0.9, 0.99, 0.999, 1.0] {
            let of = |measured: &Measurement| measured.total().response.quantile(quantile);
            prop_assert_eq!(of(&sum), of(&whole));
        }
    }
}
