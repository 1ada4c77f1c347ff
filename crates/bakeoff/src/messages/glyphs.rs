//! Draws bars with the characters that the terminal's locale can show.
//!
//! Not here: the bars (`commands::load`).

/// Characters for bars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Glyphs {
    /// Block elements, in eighths of a line.
    Blocks,
    /// ASCII characters, denser for higher bars.
    Ascii,
}

impl Glyphs {
    /// Returns the mark of a text that goes on.
    pub(crate) fn more(self) -> &'static str {
        match self {
            Self::Blocks => "…",
            Self::Ascii => "~",
        }
    }

    /// Returns the character for a share of the highest bar, above 0 and at most 1.
    pub(crate) fn bar(self, share: f64) -> char {
        let bars = match self {
            Self::Blocks => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Self::Ascii => ['_', '.', ':', '-', '=', '+', '*', '#'],
        };
        let place = (share * bars.len() as f64).ceil() as usize;
        bars[place.clamp(1, bars.len()) - 1]
    }
}

/// Returns the characters for the locale: blocks only for UTF-8.
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
    fn blocks_need_a_utf_8_locale() {
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
