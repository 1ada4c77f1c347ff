//! Feeds a reader with altered inputs: a fuzzer for the stable toolchain, to be called by tests.
//!
//! A kept corpus is altered by chance: bits, bytes, ranges, numbers, words of the format, parts of another input. Nothing
//! guides it; what it lacks in depth it has in speed, and in reaching functions that are private. `cargo fuzz`
//! guides the targets of `crates/bakeoff-wire/fuzz`.
//!
//! `BAKEOFF_FUZZ_SECONDS` says how long each reader is fed (0.5 by default, 10 in CI), `BAKEOFF_FUZZ_COUNT` how many inputs
//! it gets instead, `BAKEOFF_FUZZ_SEED` the seed of a run that failed.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Inputs grow no longer than this, in bytes, unless the corpus holds longer ones.
const LENGTH_MAX: usize = 4096;
/// How many inputs are made between two looks at the clock.
const BATCH: u64 = 64;
/// Numbers at which readers tend to go wrong.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "127",
    "128",
    "255",
    "256",
    "65536",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "18446744073709551616",
    "1e308",
    "-0.0",
];

/// Feeds `target` with the corpus and what becomes of it; `words` are pieces of the format. Returns the number of inputs.
///
/// # Panics
/// As soon as the target does. The message has the seed, and the input that it panicked over.
pub fn run(name: &str, corpus: &[&[u8]], words: &[&str], mut target: impl FnMut(&[u8])) -> u64 {
    let seed = asked("BAKEOFF_FUZZ_SEED").unwrap_or_else(rand::random);
    let most: Option<u64> = asked("BAKEOFF_FUZZ_COUNT");
    let seconds = asked("BAKEOFF_FUZZ_SECONDS");
    let by_default = if std::env::var_os("CI").is_some() { 10.0 } else { 0.5 };
    let time = Duration::from_secs_f64(seconds.unwrap_or(by_default));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let began = now();
    let mut count = 0;
    let mut feed = |input: &[u8]| {
        let fed = catch_unwind(AssertUnwindSafe(|| target(input)));
        if let Err(panic) = fed {
            let input = input.escape_ascii();
            say(&format!("fuzz: {name}: BAKEOFF_FUZZ_SEED={seed} panicked over: {input}"));
            resume_unwind(panic);
        }
    };
    for input in corpus {
        feed(input);
    }
    while most.map_or_else(|| now() - began < time, |most| count < most) {
        for _ in 0..BATCH {
            feed(&altered(corpus, words, &mut rng));
        }
        count += BATCH;
    }
    say(&format!("fuzz: {name}: {count} inputs, seed {seed}"));
    count
}

fn asked<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// Reads the clock itself: core, whose readers it feeds, is below the crate of clocks.
#[allow(clippy::disallowed_methods, reason = "it measures nothing, and ends by the clock")]
fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_macros, reason = "it prints for the person who runs a test")]
fn say(line: &str) {
    eprintln!("{line}");
}

/// Returns an input of the corpus with one to eight alterations.
fn altered(corpus: &[&[u8]], words: &[&str], rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let any = |rng: &mut Xoshiro256PlusPlus| match corpus.len() {
        0 => &[][..],
        length => corpus[rng.random_range(0..length)],
    };
    let mut input = any(rng).to_vec();
    let most = input.len().max(LENGTH_MAX);
    for _ in 0..rng.random_range(1..=8) {
        let at = rng.random_range(0..=input.len());
        let end = rng.random_range(at..=input.len()).min(at + 64);
        match rng.random_range(0..9) {
            0 if at < input.len() => input[at] ^= 1 << rng.random_range(0..8),
            1 if at < input.len() => input[at] = rng.random(),
            2 => input.insert(at, rng.random()),
            3 => drop(input.drain(at..end)),
            4 => {
                let copy = input[at..end].to_vec();
                input.splice(at..at, copy);
            }
            5 => {
                let other = any(rng);
                let from = rng.random_range(0..=other.len());
                let to = rng.random_range(from..=other.len()).min(from + 256);
                input.splice(at..end, other[from..to].iter().copied());
            }
            6 if !words.is_empty() => {
                let word = words[rng.random_range(0..words.len())];
                input.splice(at..end, word.bytes());
            }
            7 => number(&mut input, at, rng),
            8 if rng.random_range(0..4) == 0 => input.truncate(at),
            _ => {}
        }
        input.truncate(most);
    }
    input
}

/// Replaces the number at or behind `at`.
fn number(input: &mut Vec<u8>, at: usize, rng: &mut Xoshiro256PlusPlus) {
    let Some(from) = (at..input.len()).find(|&at| input[at].is_ascii_digit()) else { return };
    let length = input[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut by = NUMBERS[rng.random_range(0..NUMBERS.len())].to_owned();
    if rng.random_range(0..4) == 0 {
        by.clear();
        let _ = write!(by, "{}", rng.random::<u64>());
    }
    input.splice(from..from + length, by.bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_that_panics_over_an_altered_input_is_found() {
        let fragile = |input: &[u8]| assert!(!input.windows(3).any(|three| three == b"11{"));
        let found = catch_unwind(|| run("fragile", &[b"{a: 1}", b"1"], &["{"], fragile));
        assert!(found.is_err());
    }

    #[test]
    fn same_seed_yields_the_same_inputs() {
        let inputs = |seed| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            (0..50).map(|_| altered(&[b"abc 12", b"x"], &["word"], &mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(3).iter().all(|input| input.len() <= LENGTH_MAX));
    }

    #[test]
    fn nothing_is_altered_without_harm() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
        for _ in 0..1000 {
            altered(&[], &[], &mut rng);
            altered(&[b""], &[""], &mut rng);
        }
    }
}
