//! Tests hostile and random texts: parsing ends soon, with a message.

use proptest::prelude::*;
use proptest::sample::Index;

use super::{BASE, EVERY_FAULT, EVERY_FIELD, kinds, parse};
use crate::study::shipped::shipped;

#[track_caller]
fn first_line(text: &str) -> String {
    let diagnostics = parse("my", "my.yaml", text, &kinds()).expect_err("the study is wrong");
    diagnostics.to_string().lines().next().unwrap_or_default().to_owned()
}

#[test]
fn huge_study_is_rejected_unread() {
    let text = format!("{BASE}# {}", "x".repeat(1 << 20));
    assert_eq!(first_line(&text), "error: the study is longer than 524288 bytes");
}

#[test]
fn more_trials_than_a_year_has_time_for_are_rejected() {
    let named = |what: &str, text: &str| {
        (0..64).fold(format!("{what}:\n"), |all, n| format!("{all}  n{n}: {text}\n"))
    };
    let text = format!(
        "title: too many\n{}{}{}trials: 1\n",
        named("systems", "{kind: etcd}"),
        named("workloads", "{mix: {put: 1}, keys: {count: 10}}"),
        named("loads", "{clients: 1, stop: {after: 1s}}"),
    );
    let why = "error: the study plans 262,144 trials, and at most 100,000 are possible";
    assert_eq!(first_line(&text), why);
}

#[test]
fn deep_nesting_is_rejected() {
    let deep = "error: this is nested too deeply";
    let flow = first_line(&"[".repeat(100_000));
    assert!(flow.starts_with("error: this is"), "{flow}");
    let block = first_line(&(0..500).fold(String::new(), |text, n| text + &" ".repeat(n) + "a:\n"));
    assert!(block.starts_with("error: this is"), "{block}");
    assert_eq!(first_line(&format!("a: {}{}", "[".repeat(24), "]".repeat(24))), deep);
    // An alias is as deep as the node that it repeats.
    let chain = (1..40)
        .fold("a0: &a0 [x]\n".to_owned(), |text, n| text + &format!("a{n}: &a{n} [*a{}]\n", n - 1));
    assert_eq!(first_line(&chain), deep);
}

#[test]
fn aliases_of_aliases_do_not_multiply() {
    let laughs = (1..20).fold("a0: &a0 [lol, lol]\n".to_owned(), |text, n| {
        let list = vec![format!("*a{}", n - 1); 10].join(", ");
        text + &format!("a{n}: &a{n} [{list}]\n")
    });
    let large = "error: the study is too large with its aliases written out";
    assert_eq!(first_line(&laughs), large);
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 1000].join(", "));
    assert_eq!(first_line(&long), large);
    assert_eq!(first_line("a: &a [*a]\n"), "error: an alias is inside the node that it repeats");
}

#[test]
fn number_of_diagnostics_is_limited() {
    let many = (0..10_000).fold(BASE.to_owned(), |text, n| text + &format!("field-{n}: 1\n"));
    let diagnostics = parse("my", "my.yaml", &many, &kinds()).expect_err("the study is wrong");
    assert_eq!(diagnostics.0.len(), 100);
}

/// Describes one change to a text, at any position.
#[derive(Debug, Clone)]
enum Change {
    Remove(Index, Index),
    Insert(Index, String),
    Repeat(Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let piece = prop_oneof![
        "[ -~\n]{1,6}",
        Just("{".to_owned()),
        Just("*a".to_owned()),
        Just("&a ".to_owned()),
        Just(": ".to_owned()),
        Just("\n    ".to_owned()),
        Just("99999999999999999999".to_owned()),
        Just("-1".to_owned()),
        Just("µ\u{7}é".to_owned()),
    ];
    prop_oneof![
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Change::Remove(from, to)),
        (any::<Index>(), piece).prop_map(|(at, piece)| Change::Insert(at, piece)),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Change::Repeat(from, to)),
    ]
}

fn changed(text: &str, changes: &[Change]) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    for change in changes {
        let at = |index: &Index| index.index(letters.len() + 1);
        let range = |from, to| {
            let (from, to) = (at(from), at(to));
            // Short pieces leave most of the study, and so most of its faults, in place.
            from.min(to)..from.max(to).min(from.min(to) + 20)
        };
        match change {
            Change::Remove(from, to) => drop(letters.drain(range(from, to))),
            Change::Insert(index, piece) => {
                let index = at(index);
                letters.splice(index..index, piece.chars());
            }
            Change::Repeat(from, to) => {
                let range = range(from, to);
                let piece = letters[range.clone()].to_vec();
                letters.splice(range.end..range.end, piece);
            }
        }
    }
    letters.into_iter().collect()
}

/// Parses a text, and checks that each fault has a place within it.
fn read_and_place(text: &str) -> Result<(), TestCaseError> {
    if let Err(diagnostics) = parse("my", "my.yaml", text, &kinds()) {
        prop_assert!(!diagnostics.0.is_empty());
        let lines = text.matches('\n').count() + 1;
        for diagnostic in &diagnostics.0 {
            let place = diagnostic.place.as_ref().expect("a mistake in a text has a place");
            prop_assert!((1..=lines).contains(&place.line), "{diagnostic}");
            prop_assert!(place.column >= 1 && place.width >= 1);
            let shown = diagnostic.to_string();
            prop_assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn parsing_any_text_never_panics(text in "(?s).{0,200}") {
        read_and_place(&text)?;
    }

    #[test]
    fn parsing_any_yaml_never_panics(text in "[a-c:{}\\[\\],&*!|>\"'#\n -]{0,60}") {
        read_and_place(&text)?;
    }

    #[test]
    fn parsing_a_changed_study_never_panics(
        which in any::<Index>(),
        changes in prop::collection::vec(change(), 1..6),
    ) {
        let mut texts: Vec<_> = shipped().iter().map(|(_, text)| *text).collect();
        texts.extend([BASE, EVERY_FIELD, EVERY_FAULT]);
        read_and_place(&changed(texts[which.index(texts.len())], &changes))?;
    }
}
