//! Parses one EDN value, as far as Jepsen's histories use them.
//!
//! Not here: the meaning of values (`jepsen`).

/// Deepest nesting of a value.
const DEPTH_MAX: u32 = 16;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Edn {
    /// `nil`.
    Nil,
    /// A whole number.
    Number(i128),
    /// A keyword, without its colon.
    Keyword(String),
    /// A vector or list.
    List(Vec<Edn>),
    /// A map, in the order of its text.
    Map(Vec<(Edn, Edn)>),
    /// A string, symbol, set, decimal or character.
    Other,
}

impl Edn {
    /// Returns the value of a keyword in a map.
    pub(super) fn get(&self, key: &str) -> Option<&Edn> {
        let Self::Map(all) = self else { return None };
        all.iter().find_map(|(name, value)| {
            matches!(name, Self::Keyword(name) if name == key).then_some(value)
        })
    }
}

/// Parses the value at the beginning of a text. Ignores what follows.
pub(super) fn parse(text: &str) -> Result<Edn, String> {
    Parser { left: text }.value(0)
}

struct Parser<'a> {
    left: &'a str,
}

impl Parser<'_> {
    fn skip_space(&mut self) {
        self.left = self.left.trim_start_matches(|char: char| char.is_whitespace() || char == ',');
    }

    fn value(&mut self, depth: u32) -> Result<Edn, String> {
        if depth > DEPTH_MAX {
            return Err("values are nested too deeply".to_owned());
        }
        self.skip_space();
        let mut chars = self.left.chars();
        match chars.next().ok_or("the value ends early")? {
            '[' | '(' => self.list(depth).map(Edn::List),
            '{' => {
                let all = self.list(depth)?;
                if all.len() % 2 == 1 {
                    return Err("a map has a key without a value".to_owned());
                }
                let mut all = all.into_iter();
                let mut map = Vec::new();
                while let (Some(key), Some(value)) = (all.next(), all.next()) {
                    map.push((key, value));
                }
                Ok(Edn::Map(map))
            }
            '"' => self.string(),
            '#' if self.left.starts_with("#{") => {
                self.left = &self.left[1..];
                self.list(depth).map(|_| Edn::Other)
            }
            // A tag, such as `#jepsen.history.Op{…}`: its value follows.
            '#' => {
                self.word();
                self.value(depth + 1)
            }
            _ => Ok(atom(self.word())),
        }
    }

    /// Parses values up to the closing bracket.
    fn list(&mut self, depth: u32) -> Result<Vec<Edn>, String> {
        self.left = &self.left[1..];
        let mut all = Vec::new();
        loop {
            self.skip_space();
            match self.left.chars().next() {
                Some(']' | ')' | '}') => {
                    self.left = &self.left[1..];
                    return Ok(all);
                }
                Some(_) => all.push(self.value(depth + 1)?),
                None => return Err("a bracket is not closed on this line".to_owned()),
            }
        }
    }

    fn string(&mut self) -> Result<Edn, String> {
        let mut escaped = false;
        for (place, char) in self.left.char_indices().skip(1) {
            match char {
                '"' if !escaped => {
                    self.left = &self.left[place + 1..];
                    return Ok(Edn::Other);
                }
                _ => escaped = char == '\\' && !escaped,
            }
        }
        Err("a string is not closed on this line".to_owned())
    }

    /// Takes the characters up to a space or bracket, at least one.
    fn word(&mut self) -> &str {
        let ends = |char: char| char.is_whitespace() || ",[](){}\"".contains(char);
        let first = self.left.chars().next().map_or(0, char::len_utf8);
        let end = self.left[first..].find(ends).map_or(self.left.len(), |end| first + end);
        let (word, left) = self.left.split_at(end);
        self.left = left;
        word
    }
}

fn atom(word: &str) -> Edn {
    match word {
        "nil" => Edn::Nil,
        _ => match (word.strip_prefix(':'), word.trim_end_matches(['N', 'M']).parse()) {
            (Some(keyword), _) => Edn::Keyword(keyword.to_owned()),
            (None, Ok(number)) => Edn::Number(number),
            (None, Err(_)) => Edn::Other,
        },
    }
}
