//! Orders systems within rounds by Williams designs: Latin squares in which each system also follows each other one
//! equally often.
//!
//! For an even number of systems one square is enough. For an odd number it takes two, the second with each round
//! reversed (Williams, Experimental designs balanced for the estimation of residual effects of treatments, 1949). The
//! seed of the run assigns systems to letters and orders the rows, anew for each pair of squares. A run that ends
//! within a square is balanced as far as possible: at any place no system appears more than one round more often than
//! another.
//!
//! Not here: the other contents of a round (`plan`).

use rand::Rng;
use rand::seq::SliceRandom as _;

/// Generates the rounds of one workload and load.
#[derive(Debug)]
pub(super) struct Williams {
    systems: usize,
    /// Drawn rounds still to come, the last first.
    ahead: Vec<Vec<usize>>,
}

impl Williams {
    pub(super) fn new(systems: usize) -> Self {
        Self { systems, ahead: Vec::new() }
    }

    /// Returns the systems in the order of the next round, by their index in the study.
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

/// Returns the first row of a square: 0, 1, n − 1, 2, n − 2, … Its steps are all different, so its shifts make each
/// letter follow each other one.
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

    /// Returns the difference between the most and the least frequent of these cells.
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
    fn each_system_has_each_place_and_predecessor_equally_often() {
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
    fn run_of_any_length_is_balanced_within_one_round() {
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
    fn different_seeds_give_different_orders() {
        let all: std::collections::HashSet<_> = (0..50).map(|seed| rounds(4, 4, seed)).collect();
        assert!(all.len() > 40, "{}", all.len());
        assert_eq!(rounds(5, 9, 3), rounds(5, 9, 3));
    }
}
