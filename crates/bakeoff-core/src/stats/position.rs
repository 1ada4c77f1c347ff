//! Tests whether the place within a round mattered: whether trials that ran first, second and so on in
//! their rounds differ beyond what systems, rounds and noise explain.
//!
//! Logarithms of figures are taken as a sum of a system's, a round's and a place's effect and noise, by
//! least squares, and an F test asks whether the places explain more than noise does. Places are balanced over
//! systems (`plan`), so that an effect is no bias of a comparison; it widens the scatter, and tells that
//! trials do not leave the machine as they found it.
//!
//! Not here: which trials and figures (`report`).

use super::student;

/// One trial's figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placed {
    /// Which system, from 0.
    pub system: usize,
    /// Which round, from 0.
    pub round: usize,
    /// Which place in it, from 0.
    pub place: usize,
    /// The figure, above zero.
    pub figure: f64,
}

/// Result of the test.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// The probability of places at least this different where there is no effect.
    pub p_value: f64,
    /// About how far figures at each place lie from the mean of all, as a ratio.
    pub ratios: Vec<f64>,
}

/// Degrees of freedom that noise must be left with.
const FREEDOM_MIN: usize = 2;
/// Share of a column's length below which its rest says nothing new.
const NOTHING: f64 = 1e-9;

/// Tests for an effect of the place; `None` with too few trials to tell it from noise.
pub fn effect(trials: &[Placed]) -> Option<Effect> {
    let number = |of: fn(&Placed) -> usize| trials.iter().map(of).max().map_or(0, |last| last + 1);
    let column = |is_it: &dyn Fn(&Placed) -> bool| -> Vec<f64> {
        trials.iter().map(|one| f64::from(u8::from(is_it(one)))).collect()
    };
    let mut rest: Vec<f64> = trials.iter().map(|one| one.figure.ln()).collect();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for system in 0..number(|one| one.system) {
        add(&mut basis, column(&|one| one.system == system));
    }
    for round in 0..number(|one| one.round) {
        add(&mut basis, column(&|one| one.round == round));
    }
    basis.iter().for_each(|one| remove(&mut rest, one));
    let (before, without) = (squares(&rest), basis.len());
    let places = number(|one| one.place);
    let ratio = |place: usize| {
        let of_it = || trials.iter().zip(&rest).filter(|(one, _)| one.place == place);
        let count = of_it().count().max(1) as f64;
        (of_it().map(|(_, rest)| rest).sum::<f64>() / count).exp()
    };
    let ratios = (0..places).map(ratio).collect();
    for place in 0..places {
        add(&mut basis, column(&|one| one.place == place));
    }
    basis[without..].iter().for_each(|one| remove(&mut rest, one));
    let (explained, left) = (basis.len() - without, trials.len().checked_sub(basis.len())?);
    if explained == 0 || left < FREEDOM_MIN {
        return None;
    }
    let (explained, left) = (explained as f64, left as f64);
    let noise = squares(&rest);
    let f = ((before - noise) / explained).max(0.0) / (noise / left);
    // Figures without any noise are those of a test, or of a histogram's one bucket.
    let p_value = if f.is_finite() { student::f_above(f, explained, left) } else { 1.0 };
    Some(Effect { p_value, ratios })
}

fn squares(of: &[f64]) -> f64 {
    of.iter().map(|value| value * value).sum()
}

/// Takes out of a column what lies along a direction of length one.
fn remove(column: &mut [f64], along: &[f64]) {
    let part: f64 = column.iter().zip(along).map(|(a, b)| a * b).sum();
    column.iter_mut().zip(along).for_each(|(value, along)| *value -= part * along);
}

/// Adds what is new of a column to an orthonormal basis (Gram and Schmidt, twice for accuracy).
fn add(basis: &mut Vec<Vec<f64>>, mut column: Vec<f64>) {
    let before = squares(&column);
    for _ in 0..2 {
        basis.iter().for_each(|one| remove(&mut column, one));
    }
    let new = squares(&column);
    if new > before * NOTHING {
        column.iter_mut().for_each(|value| *value /= new.sqrt());
        basis.push(column);
    }
}

#[cfg(test)]
mod tests {
    use rand::seq::SliceRandom as _;
    use rand::{RngExt as _, SeedableRng as _};
    use rand_distr::{Distribution as _, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// The share of simulated runs in which an effect is found at 5 %, where each later place has this
    /// factor more and one trial of ten is lost.
    fn found(systems: usize, rounds: usize, factor: f64) -> f64 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64((systems * 100 + rounds) as u64);
        let found = (0..1000).filter(|_| {
            let mut trials = Vec::new();
            for round in 0..rounds {
                let mut order: Vec<usize> = (0..systems).collect();
                order.shuffle(&mut rng);
                let drift: f64 = rng.random_range(-0.1..0.1);
                for (place, system) in order.into_iter().enumerate() {
                    let noise: f64 = StandardNormal.sample(&mut rng);
                    let figure =
                        (0.02 * noise + drift + system as f64).exp() * factor.powi(place as i32);
                    if rng.random_range(0..10) > 0 {
                        trials.push(Placed { system, round, place, figure });
                    }
                }
            }
            effect(&trials).is_some_and(|effect| effect.p_value < 0.05)
        });
        found.count() as f64 / 1000.0
    }

    #[test]
    fn an_effect_is_found_where_there_is_one_and_hardly_where_there_is_none() {
        for (systems, rounds) in [(2, 7), (3, 7), (5, 9)] {
            let alarms = found(systems, rounds, 1.0);
            assert!(alarms < 0.07, "{systems} in {rounds}: {alarms}");
            let share = found(systems, rounds, 1.1);
            assert!(share > 0.9, "{systems} in {rounds}: {share}");
        }
    }

    #[test]
    fn ratios_are_those_of_the_places() {
        let trial = |round: usize, place: usize| Placed {
            system: (round + place) % 2,
            round,
            place,
            figure: if place == 0 { 1.1 } else { 1.0 } * if round == 3 { 1.001 } else { 1.0 },
        };
        let trials: Vec<Placed> =
            (0..6).flat_map(|round| [trial(round, 0), trial(round, 1)]).collect();
        let of = effect(&trials).expect("there are enough trials");
        assert!(of.ratios[0] > 1.04 && of.ratios[1] < 0.96, "{of:?}");
        assert_eq!(effect(&trials[..4]), None);
        assert_eq!(effect(&[]), None);
    }
}
