//! Parses HTTP statuses that count as successes: `200`, `2xx`, `200-299,404`.
//!
//! A study's `expect` and `bakeoff load --expect-status` use the same syntax.
//!
//! Not here: judging answers by them (the engine's `works::http`, the systems of a study).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Set of statuses: the first and the last of each range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statuses(Vec<(u16, u16)>);

/// Lowest final status; lower ones are interim (RFC 9110 section 15.2).
pub const STATUS_MIN: u16 = 200;
/// Highest three-digit status.
pub const STATUS_MAX: u16 = 999;
/// Maximum number of ranges.
pub const STRETCHES_MAX: usize = 100;

/// Explains why a list of statuses is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatusesError {
    /// A part is neither a status nor a range of them.
    #[error("`{0}` is not a status: 200, 2xx or 200-299, from {STATUS_MIN} to {STATUS_MAX}")]
    Status(String),
    /// A range ends before it begins.
    #[error("`{0}` ends before it begins")]
    Backwards(String),
    /// More than [`STRETCHES_MAX`] ranges.
    #[error("more than {STRETCHES_MAX} statuses and ranges")]
    TooMany,
}

impl Default for Statuses {
    /// Returns 200 to 299: the request succeeded (RFC 9110 section 15.3). An unfollowed redirect does not count,
    /// because a redirect to a login page is the fastest answer of all.
    fn default() -> Self {
        Self(vec![(200, 299)])
    }
}

impl Statuses {
    /// Returns a set of this one status.
    pub fn one(status: u16) -> Self {
        Self(vec![(status, status)])
    }

    /// Parses `200`, `2xx`, `200-299,404`.
    pub fn parse(text: &str) -> Result<Self, StatusesError> {
        let parts = text.split(',');
        if parts.clone().nth(STRETCHES_MAX).is_some() {
            return Err(StatusesError::TooMany);
        }
        parts.map(|part| stretch(part.trim())).collect::<Result<_, _>>().map(Self)
    }

    /// Returns true if the set contains this status.
    #[inline]
    pub fn has(&self, status: u16) -> bool {
        self.0.iter().any(|&(first, last)| (first..=last).contains(&status))
    }

    /// Returns the status if there is only one.
    pub fn single(&self) -> Option<u16> {
        match self.0[..] {
            [(first, last)] if first == last => Some(first),
            _ => None,
        }
    }
}

/// Parses one status or one range.
fn stretch(part: &str) -> Result<(u16, u16), StatusesError> {
    let wrong = || StatusesError::Status(part.chars().take(40).collect());
    let status = |text: &str| {
        let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        let status = text.parse().ok().filter(|_| digits);
        status.filter(|status| (STATUS_MIN..=STATUS_MAX).contains(status)).ok_or_else(wrong)
    };
    if let Some(hundreds) = part.strip_suffix("xx") {
        let first = status(&format!("{hundreds}00"))?;
        return Ok((first, first + 99));
    }
    let (from, to) = part.split_once('-').unwrap_or((part, part));
    let (from, to) = (status(from.trim())?, status(to.trim())?);
    if from > to {
        return Err(StatusesError::Backwards(part.to_owned()));
    }
    Ok((from, to))
}

impl fmt::Display for Statuses {
    /// Formats the set as [`Statuses::parse`] reads it.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, &(first, last)) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match last - first {
                0 => write!(to, "{comma}{first}")?,
                99 if first % 100 == 0 => write!(to, "{comma}{}xx", first / 100)?,
                _ => write!(to, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Statuses {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Statuses".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let description = "One status as a number, or several as text: `2xx`, `200,301-308`.";
        schemars::json_schema!({"description": description, "type": ["integer", "string"]})
    }
}

impl Serialize for Statuses {
    /// A single status is a number.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.single() {
            Some(status) => to.serialize_u16(status),
            None => to.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum StatusForm {
            One(u16),
            Several(String),
        }
        match StatusForm::deserialize(from)? {
            StatusForm::One(status) => Ok(Self::one(status)),
            StatusForm::Several(text) => Self::parse(&text).map_err(de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_parsed_in_all_forms() {
        let statuses = Statuses::parse("200, 3xx,404-406").unwrap();
        let all = 200..1000;
        let had: Vec<u16> = all.filter(|status| statuses.has(*status)).collect();
        let expected = [200].into_iter().chain(300..400).chain(404..407);
        assert_eq!(had, expected.collect::<Vec<u16>>());
        for wrong in ["", "99", "1xx", "2x", "300-200", "200,", "1000", "-", "+20", "2 00", "02xx"]
        {
            assert!(Statuses::parse(wrong).is_err(), "{wrong}");
        }
        let many = vec!["200"; STRETCHES_MAX + 1].join(",");
        assert_eq!(Statuses::parse(&many), Err(StatusesError::TooMany));
    }

    #[test]
    fn statuses_survive_a_round_trip() {
        let check = |text: &str, json: &str| {
            let statuses = Statuses::parse(text).unwrap();
            assert_eq!(serde_json::to_string(&statuses).unwrap(), json);
            assert_eq!(serde_json::from_str::<Statuses>(json).unwrap(), statuses);
        };
        check("200", "200");
        check("200-200", "200");
        check("2xx", r#""2xx""#);
        check("200-299, 404", r#""2xx,404""#);
        check("200,204", r#""200,204""#);
        check("301-308", r#""301-308""#);
        assert!(serde_json::from_str::<Statuses>(r#""ok""#).is_err());
        assert!(serde_json::from_str::<Statuses>("100").unwrap().has(100), "of an old record");
    }
}
