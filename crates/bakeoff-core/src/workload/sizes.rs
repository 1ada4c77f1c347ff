//! Describes the sizes of a workload's values: one, a list, a range.
//!
//! Not here: the values (`values`), the syntax in a study (`parse`).

use serde::{Deserialize, Serialize};

/// Describes the sizes of a workload's values in bytes.
///
/// None is below [`VALUE_SIZE_MIN`](super::VALUE_SIZE_MIN).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ValueSizes {
    /// One size for all.
    Fixed(u64),
    /// One of these, equally likely; a repeated size is twice as likely.
    Listed(Vec<u64>),
    /// Any size in a range, including its ends, equally likely.
    Range {
        /// Smallest size.
        from: u64,
        /// Largest size.
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

    /// Returns the size for a random number.
    pub fn pick(&self, random: u64) -> u64 {
        // The high half of a product spreads evenly over the factor (Lemire 2019).
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

    /// Returns true if all values have one size.
    pub fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::super::mix64;
    use super::*;

    /// Counts how many of 100,000 random numbers give a size.
    fn picks(sizes: &ValueSizes, wanted: u64) -> usize {
        (0..100_000).filter(|&number| sizes.pick(mix64(number)) == wanted).count()
    }

    #[test]
    fn listed_sizes_are_equally_likely_per_entry() {
        let sizes = ValueSizes::Listed(vec![100, 100, 5000, 36]);
        for (size, expected) in [(100, 50_000), (5000, 25_000), (36, 25_000)] {
            assert!(picks(&sizes, size).abs_diff(expected) < 1_000, "{size}");
        }
        assert_eq!((sizes.least(), sizes.mean(), sizes.most()), (36, 1309, 5000));
    }

    #[test]
    fn range_includes_both_ends_and_nothing_beyond() {
        let sizes = ValueSizes::Range { from: 10, to: 14 };
        for size in 10..=14 {
            assert!(picks(&sizes, size).abs_diff(20_000) < 1_000, "{size}");
        }
        assert_eq!((sizes.least(), sizes.mean(), sizes.most()), (10, 12, 14));
        assert_eq!(ValueSizes::Range { from: 1, to: 4 }.mean(), 3);
        assert_eq!(ValueSizes::Range { from: 7, to: 7 }.mean(), 7);
    }
}
