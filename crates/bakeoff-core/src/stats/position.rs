//! Tests if the place within a round mattered: if trials that ran first, second and so on differ beyond the effects
//! of systems, rounds and noise.
//!
//! Logarithms of figures are modeled as a sum of a system's, a round's and a place's effect and noise, by least
//! squares. An F test asks if the places explain more than noise does. Places are drawn at random (`plan`), so
//! an effect does not favour a system. It widens the scatter, and shows that trials leave the machine in a different
//! state.
//!
//! Not here: the choice of trials and figures (`report`).

use super::student;

/// Holds one trial's figure with its position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlacedFigure {
    /// Index of the system, from 0.
    pub system: usize,
    /// Index of the round, from 0.
    pub round: usize,
    /// Place in the round, from 0.
    pub place: usize,
    /// Figure, above zero.
    pub figure: f64,
}

/// Holds the result of the test.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Probability of places at least this different if there is no effect.
    pub p_value: f64,
    /// Approximate ratio of the figures at each place to the overall mean.
    pub ratios: Vec<f64>,
}

/// Minimum degrees of freedom that must remain for the noise.
const FREEDOM_MIN: usize = 2;
/// Share of a column's length below which its remainder adds nothing new.
const NOTHING: f64 = 1e-9;

/// Tests for an effect of the place; `None` with too few trials to separate it from noise.
pub fn effect(trials: &[PlacedFigure]) -> Option<Effect> {
    let number =
        |of: fn(&PlacedFigure) -> usize| trials.iter().map(of).max().map_or(0, |last| last + 1);
    let column = |is_it: &dyn Fn(&PlacedFigure) -> bool| -> Vec<f64> {
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
    // Figures without any noise come only from tests, or from a single histogram bucket.
    let p_value = if f.is_finite() { student::f_above(f, explained, left) } else { 1.0 };
    Some(Effect { p_value, ratios })
}

fn squares(of: &[f64]) -> f64 {
    of.iter().map(|value| value * value).sum()
}

/// Removes the component of a column along a unit vector.
fn remove(column: &mut [f64], along: &[f64]) {
    let part: f64 = column.iter().zip(along).map(|(a, b)| a * b).sum();
    column.iter_mut().zip(along).for_each(|(value, along)| *value -= part * along);
}

/// Adds the new part of a column to an orthonormal basis (Gram and Schmidt, twice for accuracy).
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

    /// Returns the share of simulated runs in which an effect is found at 5 %, if each later place has this factor
    /// more and one trial of ten is lost.
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
                        trials.push(PlacedFigure { system, round, place, figure });
                    }
                }
            }
            effect(&trials).is_some_and(|effect| effect.p_value < 0.05)
        });
        found.count() as f64 / 1000.0
    }

    #[test]
    fn effect_is_found_if_present_and_rarely_otherwise() {
        for (systems, rounds) in [(2, 7), (3, 7), (5, 9)] {
            let alarms = found(systems, rounds, 1.0);
            assert!(alarms < 0.07, "{systems} in {rounds}: {alarms}");
            let share = found(systems, rounds, 1.1);
            assert!(share > 0.9, "{systems} in {rounds}: {share}");
        }
    }

    #[test]
    fn ratios_match_the_places() {
        let trial = |round: usize, place: usize| PlacedFigure {
            system: (round + place) % 2,
            round,
            place,
            figure: if place == 0 { 1.1 } else { 1.0 } * if round == 3 { 1.001 } else { 1.0 },
        };
        let trials: Vec<PlacedFigure> =
            (0..6).flat_map(|round| [trial(round, 0), trial(round, 1)]).collect();
        let of = effect(&trials).expect("there are enough trials");
        assert!(of.ratios[0] > 1.04 && of.ratios[1] < 0.96, "{of:?}");
        assert_eq!(effect(&trials[..4]), None);
        assert_eq!(effect(&[]), None);
    }
}
