//! Orders systems within rounds by Williams designs: Latin squares in which each system also follows
//! each other one equally often.
//!
//! For an even number of systems one square of as many rounds does both. For an odd number it takes two,
//! the second with each round turned round (Williams, Experimental designs balanced for the estimation of
//! residual effects of treatments, 1949). Which system has which letter and which row comes when are drawn from
//! the run's seed, afresh for each pair of squares. A run that ends within a square is balanced as far as it
//! goes: no system stands more than one round more often than another at any place.
//!
//! Not here: what a round holds besides (`plan`).

use rand::Rng;
use rand::seq::SliceRandom as _;

/// The rounds of one workload and load, one after the other.
#[derive(Debug)]
pub(super) struct Williams {
    systems: usize,
    /// Rounds that are drawn and yet to come, the last first.
    ahead: Vec<Vec<usize>>,
}

impl Williams {
    /// Orders so many systems.
    pub(super) fn new(systems: usize) -> Self {
        Self { systems, ahead: Vec::new() }
    }

    /// Returns the systems in the order of the next round, by their places in the study.
    pub(super) fn next_round(&mut self, rng: &mut impl Rng) -> Vec<usize> {
        if self.ahead.is_empty() {
            self.draw(rng);
        }
        self.ahead.pop().unwrap_or_default()
    }

    fn draw(&mut self, rng: &mut impl Rng) {
        let count = self.systems;
        let mut letters: Vec<usize> = (0..count).collect();
        letters.shuffle(rng);
        let first = first_row(count);
        let row = |shift: usize| -> Vec<usize> {
            first.iter().map(|&letter| letters[(letter + shift) % count]).collect()
        };
        let square: Vec<Vec<usize>> = (0..count).map(row).collect();
        let mut squares = vec![square];
        if !count.is_multiple_of(2) && count > 1 {
            let turned = squares[0].iter().map(|row| row.iter().rev().copied().collect());
            squares.push(turned.collect());
        }
        for mut square in squares {
            square.shuffle(rng);
            self.ahead.extend(square);
        }
    }
}

/// The first row of a square: 0, 1, n − 1, 2, n − 2, … Its steps are all different, so that shifting it
/// has each letter follow each other.
fn first_row(count: usize) -> Vec<usize> {
    let letter = |place: usize| match place {
        0 => 0,
        place if place % 2 == 1 => place.div_ceil(2),
        place => count - place / 2,
    };
    (0..count).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn rounds(systems: usize, rounds: usize, seed: u64) -> Vec<Vec<usize>> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut design = Williams::new(systems);
        (0..rounds).map(|_| design.next_round(&mut rng)).collect()
    }

    /// Returns how much more often the most frequent of these cells occurs than the least.
    fn spread(systems: usize, cells: impl Iterator<Item = (usize, usize)>, equal: bool) -> u32 {
        let mut counts = vec![vec![0; systems]; systems];
        cells.for_each(|(a, b)| counts[a][b] += 1);
        let counts = || {
            counts.iter().enumerate().flat_map(|(a, row)| {
                row.iter()
                    .enumerate()
                    .filter(move |(b, _)| equal || a != *b)
                    .map(|(_, count)| *count)
            })
        };
        counts().max().unwrap_or(0) - counts().min().unwrap_or(0)
    }

    fn places(rounds: &[Vec<usize>]) -> impl Iterator<Item = (usize, usize)> {
        rounds.iter().flat_map(|round| round.iter().copied().enumerate())
    }

    fn followers(rounds: &[Vec<usize>]) -> impl Iterator<Item = (usize, usize)> {
        rounds.iter().flat_map(|round| round.windows(2).map(|pair| (pair[0], pair[1])))
    }

    #[test]
    fn each_system_stands_everywhere_and_follows_each_other_equally_often() {
        for systems in 2..=9 {
            let whole = if systems % 2 == 0 { systems } else { 2 * systems };
            for seed in 0..20 {
                let rounds = rounds(systems, 2 * whole, seed);
                for design in rounds.chunks(whole) {
                    assert_eq!(spread(systems, places(design), true), 0, "{systems}: {design:?}");
                    assert_eq!(
                        spread(systems, followers(design), false),
                        0,
                        "{systems}: {design:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_run_of_any_length_is_balanced_to_within_one_round() {
        for systems in 1..=8 {
            for length in 1..=15 {
                for seed in 0..20 {
                    let rounds = rounds(systems, length, seed);
                    for round in &rounds {
                        let mut sorted = round.clone();
                        sorted.sort_unstable();
                        assert_eq!(sorted, (0..systems).collect::<Vec<_>>());
                    }
                    let spread = spread(systems, places(&rounds), true);
                    assert!(spread <= 1, "{systems} in {length} rounds: {rounds:?}");
                }
            }
        }
    }

    #[test]
    fn seeds_differ_in_their_orders() {
        let all: std::collections::HashSet<_> = (0..50).map(|seed| rounds(4, 4, seed)).collect();
        assert!(all.len() > 40, "{}", all.len());
        assert_eq!(rounds(5, 9, 3), rounds(5, 9, 3));
    }
}
