//! Suggests known words for an unknown one.
//!
//! Not here: the position of the word in a file (`study::placed`).

use crate::units::shown;

/// Returns `` did you mean `clients`? ``, or `otherwise` with the list of known words.
pub fn suggest<'w>(written: &str, known: impl Iterator<Item = &'w str>, otherwise: &str) -> String {
    let known: Vec<_> = known.collect();
    match nearest(written, known.iter().copied()) {
        Some(word) => format!("did you mean `{}`?", shown(word)),
        None if known.is_empty() => "there are none: leave it out".to_owned(),
        None => format!("{otherwise} {}", list(&known)),
    }
}

/// Returns the word that was probably meant. A third of its letters may be wrong, or other words may follow it.
pub(crate) fn nearest<'w>(
    written: &str,
    known: impl Iterator<Item = &'w str> + Clone,
) -> Option<&'w str> {
    if written.len() > 60 {
        return None;
    }
    let plain = written.to_lowercase().replace(['_', ' '], "-");
    let distance = |word: &str| strsim::damerau_levenshtein(&plain, &word.to_lowercase());
    let begins = |word: &&str| plain.strip_prefix(word).is_some_and(|rest| rest.starts_with('-'));
    known
        .clone()
        .map(|word| (distance(word), word))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, word)| *distance <= word.chars().count().div_ceil(3).min(3))
        .map(|(_, word)| word)
        .or_else(|| known.clone().find(begins))
}

/// Lists words as `` `a`, `b` and `c` ``, at most 20 of them.
pub(crate) fn list(words: &[&str]) -> String {
    let mut quoted: Vec<_> =
        words.iter().take(20).map(|word| format!("`{}`", shown(word))).collect();
    if words.len() > 20 {
        return format!("{}, …", quoted.join(", "));
    }
    match quoted.pop() {
        Some(last) if quoted.is_empty() => last,
        Some(last) => format!("{} and {last}", quoted.join(", ")),
        None => "none".to_owned(),
    }
}
