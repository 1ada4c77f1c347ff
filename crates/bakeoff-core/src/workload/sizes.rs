//! Sizes of a workload's values: one, a list, a range.
//!
//! Not here: the values themselves (`values`), how a study writes sizes (`parse`).

use serde::{Deserialize, Serialize};

/// The sizes of a workload's values, in bytes; none is below
/// [`VALUE_SIZE_MIN`](super::VALUE_SIZE_MIN).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueSizes {
    /// All are of this size.
    Fixed(u64),
    /// Each is one of these, one as likely as another; a size that stands there twice is twice as
    /// likely.
    Listed(Vec<u64>),
    /// Each is one of a range, its ends included, one as likely as another.
    Range {
        /// The smallest.
        from: u64,
        /// The largest.
        to: u64,
    },
}

impl ValueSizes {
    /// Returns the mean size, rounded.
    pub fn mean(&self) -> u64 {
        match self {
            Self::Fixed(size) => *size,
            Self::Listed(sizes) => {
                let sum: u128 = sizes.iter().map(|&size| u128::from(size)).sum();
                let count = sizes.len().max(1) as u128;
                u64::try_from((sum + count / 2) / count).unwrap_or(u64::MAX)
            }
            Self::Range { from, to } => from / 2 + to / 2 + (from % 2 + to % 2).div_ceil(2),
        }
    }

    /// Returns the smallest size.
    pub fn least(&self) -> u64 {
        match self {
            Self::Fixed(size) => *size,
            Self::Listed(sizes) => sizes.iter().copied().min().unwrap_or(0),
            Self::Range { from, .. } => *from,
        }
    }

    /// Returns the largest size.
    pub fn most(&self) -> u64 {
        match self {
            Self::Fixed(size) => *size,
            Self::Listed(sizes) => sizes.iter().copied().max().unwrap_or(0),
            Self::Range { to, .. } => *to,
        }
    }

    /// Returns the size that a random number stands for.
    pub fn pick(&self, random: u64) -> u64 {
        // The high half of a product is evenly spread over what it was multiplied by (Lemire 2019).
        let below = |count: u64| ((u128::from(random) * u128::from(count)) >> 64) as u64;
        match self {
            Self::Fixed(size) => *size,
            Self::Listed(sizes) => {
                sizes.get(below(sizes.len() as u64) as usize).map_or(0, |&size| size)
            }
            Self::Range { from, to } => {
                from.saturating_add(below(to.saturating_sub(*from).saturating_add(1)))
            }
        }
    }

    /// Returns whether there is one size for all.
    pub fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::super::mix64;
    use super::*;

    /// How often each of 100,000 random numbers stands for a size.
    fn picks(sizes: &ValueSizes, wanted: u64) -> usize {
        (0..100_000).filter(|&number| sizes.pick(mix64(number)) == wanted).count()
    }

    #[test]
    fn each_size_of_a_list_comes_as_often_as_it_stands_there() {
        let sizes = ValueSizes::Listed(vec![100, 100, 5000, 36]);
        for (size, expected) in [(100, 50_000), (5000, 25_000), (36, 25_000)] {
            assert!(picks(&sizes, size).abs_diff(expected) < 1_000, "{size}");
        }
        assert_eq!((sizes.least(), sizes.mean(), sizes.most()), (36, 1309, 5000));
    }

    #[test]
    fn a_range_yields_both_of_its_ends_and_nothing_beyond() {
        let sizes = ValueSizes::Range { from: 10, to: 14 };
        for size in 10..=14 {
            assert!(picks(&sizes, size).abs_diff(20_000) < 1_000, "{size}");
        }
        assert_eq!((sizes.least(), sizes.mean(), sizes.most()), (10, 12, 14));
        assert_eq!(ValueSizes::Range { from: 1, to: 4 }.mean(), 3);
        assert_eq!(ValueSizes::Range { from: 7, to: 7 }.mean(), 7);
    }
}
