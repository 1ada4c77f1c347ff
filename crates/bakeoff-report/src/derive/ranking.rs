//! Ranks systems in groups by the verdicts of their pairs: `nginx, haproxy > caddy, traefik`.
//!
//! A system is in a later group if it is proven worse than every system of every earlier group. Within a group nothing
//! is proven. Some verdicts form no groups: of three systems, the first may be proven better than the last, while the
//! middle one is not shown to differ from either. The proven pairs are then the result.
//!
//! Not here: verdicts (`judgement`), the best system (`leader`).

use std::fmt;

/// The proven order of systems under one workload and load. Names are in the study's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ranking<'a> {
    /// Groups, the best first; at least two.
    Groups(Vec<Vec<&'a str>>),
    /// Each system that is proven better than others, with these.
    Pairs(Vec<(&'a str, Vec<&'a str>)>),
    /// No pair is proven to differ.
    NoneShown,
}

impl<'a> Ranking<'a> {
    /// Ranks the systems. `beats`: true if the first is proven better than the second.
    pub(crate) fn new(systems: &[&'a str], beats: impl Fn(&str, &str) -> bool) -> Self {
        let beaten = |by: &str| -> Vec<&'a str> {
            systems.iter().copied().filter(|other| beats(by, other)).collect()
        };
        let pairs: Vec<(&str, Vec<&str>)> = systems
            .iter()
            .map(|&one| (one, beaten(one)))
            .filter(|(_, others)| !others.is_empty())
            .collect();
        if pairs.is_empty() {
            return Self::NoneShown;
        }
        // In separate groups, the systems of a group beat the same others: those of all later groups.
        let mut groups: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
        for &one in systems {
            let others = beaten(one);
            match groups.iter_mut().find(|(_, same)| *same == others) {
                Some((group, _)) => group.push(one),
                None => groups.push((vec![one], others)),
            }
        }
        groups.sort_by_key(|(_, others)| std::cmp::Reverse(others.len()));
        let separate = groups.iter().enumerate().all(|(place, (_, others))| {
            let later = groups[place + 1..].iter().flat_map(|(group, _)| group);
            let mut later: Vec<&str> = later.copied().collect();
            later.sort_by_key(|name| systems.iter().position(|one| one == name));
            later == *others
        });
        match separate {
            true => Self::Groups(groups.into_iter().map(|(group, _)| group).collect()),
            false => Self::Pairs(pairs),
        }
    }
}

impl fmt::Display for Ranking<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Groups(groups) => {
                let groups: Vec<String> = groups.iter().map(|group| group.join(", ")).collect();
                to.write_str(&groups.join(" > "))
            }
            Self::Pairs(pairs) => {
                let pair =
                    |(one, others): &(&str, Vec<&str>)| format!("{one} > {}", others.join(", "));
                let pairs: Vec<String> = pairs.iter().map(pair).collect();
                write!(to, "{}; nothing else shown", pairs.join("; "))
            }
            Self::NoneShown => to.write_str("no difference shown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks `a` to `d` by these proven pairs.
    #[track_caller]
    fn check(proven: &[(&str, &str)], expected: &str) {
        let ranking =
            Ranking::new(&["a", "b", "c", "d"], |one, other| proven.contains(&(one, other)));
        assert_eq!(ranking.to_string(), expected);
    }

    #[test]
    fn groups_form_if_pairs_separate_them() {
        check(&[("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")], "a, b > c, d");
        let chain = [("d", "a"), ("d", "b"), ("d", "c"), ("a", "b"), ("a", "c"), ("b", "c")];
        check(&chain, "d > a > b > c");
        check(&[("a", "d"), ("b", "d"), ("c", "d")], "a, b, c > d");
        check(&[], "no difference shown");
    }

    #[test]
    fn overlapping_and_circular_pairs_are_listed() {
        // b is not shown to differ from a or c.
        check(&[("a", "c")], "a > c; nothing else shown");
        check(&[("a", "c"), ("a", "d"), ("b", "d")], "a > c, d; b > d; nothing else shown");
        check(&[("a", "b"), ("b", "c"), ("c", "a")], "a > b; b > c; c > a; nothing else shown");
        check(&[("a", "b"), ("c", "d")], "a > b; c > d; nothing else shown");
    }
}
