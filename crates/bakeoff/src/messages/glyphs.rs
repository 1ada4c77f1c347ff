//! The signs that bars are drawn with, by what the terminal's locale can show.
//!
//! Not here: which bars there are (`commands::load`).

/// The signs that bars are drawn with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Glyphs {
    /// Blocks of an eighth of a line each.
    Blocks,
    /// Signs of ASCII, the denser the higher.
    Ascii,
}

impl Glyphs {
    /// Returns the bar for a share above 0 of the highest one.
    pub(crate) fn bar(self, share: f64) -> char {
        let bars = match self {
            Self::Blocks => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Self::Ascii => ['_', '.', ':', '-', '=', '+', '*', '#'],
        };
        let place = (share * bars.len() as f64).ceil() as usize;
        bars[place.clamp(1, bars.len()) - 1]
    }
}

/// Returns the signs that the locale has: what is not UTF-8 shows blocks as garbage.
pub(crate) fn glyphs() -> Glyphs {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    glyphs_of(&locale.unwrap_or_default().to_string_lossy())
}

fn glyphs_of(locale: &str) -> Glyphs {
    let locale = locale.to_ascii_lowercase();
    match locale.contains("utf-8") || locale.contains("utf8") {
        true => Glyphs::Blocks,
        false => Glyphs::Ascii,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_for_locales_of_utf_8() {
        for (locale, glyphs) in [
            ("en_US.UTF-8", Glyphs::Blocks),
            ("C.utf8", Glyphs::Blocks),
            ("de_DE.ISO-8859-1", Glyphs::Ascii),
            ("C", Glyphs::Ascii),
            ("", Glyphs::Ascii),
        ] {
            assert_eq!(glyphs_of(locale), glyphs, "{locale}");
        }
    }
}
