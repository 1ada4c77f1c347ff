//! Names deviations from the protocol that leave a response unambiguous.
//!
//! Browsers, curl and wrk accept such responses, and so does this client. It records them for one mention in the
//! report.

use std::ops::BitOrAssign;

/// Names a deviation from the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oddity {
    /// Several Content-Length fields with the same value.
    RepeatedLength,
    /// Both Content-Length and Transfer-Encoding; the latter counts (RFC 9112 section 6.3).
    LengthNextToChunks,
    /// A Transfer-Encoding of `identity`, which RFC 7230 removed.
    IdentityCoding,
    /// More than 96 header fields.
    ManyFields,
    /// A field value that continues on the next line (RFC 9112 section 5.2).
    FoldedField,
    /// A blank between a field's name and its colon (RFC 9112 section 5.1).
    BlankBeforeColon,
    /// A head above 64 KiB.
    LargeHead,
    /// Line breaks between two responses.
    LineBreaksBetween,
}

impl Oddity {
    const ALL: [Self; 8] = [
        Self::RepeatedLength,
        Self::LengthNextToChunks,
        Self::IdentityCoding,
        Self::ManyFields,
        Self::FoldedField,
        Self::BlankBeforeColon,
        Self::LargeHead,
        Self::LineBreaksBetween,
    ];

    /// Returns the deviation in words, to follow "responses with".
    pub fn text(self) -> &'static str {
        match self {
            Self::RepeatedLength => "the same Content-Length several times",
            Self::LengthNextToChunks => "both Content-Length and Transfer-Encoding",
            Self::IdentityCoding => "`Transfer-Encoding: identity`",
            Self::ManyFields => "more than 96 header fields",
            Self::FoldedField => "folded header fields",
            Self::BlankBeforeColon => "a blank before the colon of a header field",
            Self::LargeHead => "heads above 64 KiB",
            Self::LineBreaksBetween => "line breaks after their end",
        }
    }
}

/// Holds a set of [`Oddity`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Oddities(u8);

impl Oddities {
    /// Returns true if the set is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the members in order of declaration.
    pub fn iter(self) -> impl Iterator<Item = Oddity> {
        Oddity::ALL.into_iter().filter(move |&oddity| self.0 & bit(oddity) != 0)
    }
}

impl From<Oddity> for Oddities {
    fn from(oddity: Oddity) -> Self {
        Self(bit(oddity))
    }
}

impl BitOrAssign for Oddities {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitOrAssign<Oddity> for Oddities {
    fn bitor_assign(&mut self, other: Oddity) {
        self.0 |= bit(other);
    }
}

fn bit(oddity: Oddity) -> u8 {
    1 << oddity as u8
}
