//! Records latencies with 3 significant digits, and merges them exactly.
//!
//! Uses HdrHistogram from 1 ns to 1 hour. Longer latencies count as saturated and are shown as such, never as a
//! number. Records store the V2 encoding, compressed and in base64, which other HdrHistogram tools can read.
//!
//! A histogram in memory has 280 KB, its text a hundredth of that or less. So a distribution that was read stays a text
//! until values are added to it, and each question about it decodes the text for a moment.

use std::borrow::Cow;
use std::fmt;
use std::io::Read as _;
use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::serialization::{
    DeserializeError, Deserializer, Serializer as _, V2DeflateSerializer,
};
use serde::{Deserialize, Serialize};

/// Longest recorded latency: one hour, in nanoseconds.
pub const LATENCY_MAX_NS: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
/// Shortest recorded latency, in nanoseconds.
const LOWEST: u64 = 1;

/// First bytes of a deflated V2 encoding.
const COOKIE_DEFLATED: u32 = 0x1c84_9314;
/// First bytes of a V2 encoding.
const COOKIE: u32 = 0x1c84_9313;
/// Bytes of a V2 encoding before its counts.
const HEADER: usize = 40;
/// Maximum bytes of an encoding: the header, and nine bytes for each of about 35,000 counts.
const PLAIN_MAX: u64 = 512 << 10;
/// Maximum bytes of a text. Deflating may lengthen it slightly, base64 by a third.
const TEXT_MAX: usize = 1 << 20;
/// Maximum latencies in one histogram: a million a second for thirty years.
const COUNT_MAX: u64 = 1_000_000_000_000_000;

/// Encoding of an empty histogram. Commonly three of an operation's five distributions are empty.
static NOTHING: LazyLock<String> = LazyLock::new(|| deflated(&empty()));

/// Holds a distribution of latencies. Allocates its 280 KB with the first recorded value.
#[derive(Clone, Default)]
pub struct Latencies {
    values: Values,
    saturated: u64,
}

/// Values of a distribution in the form that they are needed in.
#[derive(Clone, Default)]
enum Values {
    /// None was recorded yet.
    #[default]
    None,
    /// A valid text that was read, and the number of its values, at least one.
    Packed(Box<str>, u64),
    /// Counts that values can be added to.
    Counted(Box<Histogram>),
}

type Histogram = hdrhistogram::Histogram<u64>;

fn empty() -> Histogram {
    Histogram::new_with_bounds(LOWEST, LATENCY_MAX_NS, SIGNIFICANT_DIGITS)
        .expect("the bounds are constants that HdrHistogram accepts")
}

fn deflated(histogram: &Histogram) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .expect("writing a histogram to memory does not fail");
    STANDARD.encode(bytes)
}

impl PartialEq for Latencies {
    fn eq(&self, other: &Self) -> bool {
        // A cleared histogram is empty but still has its memory.
        self.saturated == other.saturated && self.filled().as_deref() == other.filled().as_deref()
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Latencies({} values, {} saturated)", self.count(), self.saturated)
    }
}

impl Latencies {
    /// Records one latency.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        self.record_many(latency, 1);
    }

    /// Records the same latency `count` times. Inlined into the load loop, which is optimized for speed.
    #[inline]
    pub fn record_many(&mut self, latency: Duration, count: u64) {
        if count == 0 {
            return; // the histogram would update its minimum and maximum
        }
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if nanoseconds > LATENCY_MAX_NS {
            self.saturated += count;
        }
        self.counted().saturating_record_n(nanoseconds, count);
    }

    /// Returns the counts to add values to.
    #[inline]
    fn counted(&mut self) -> &mut Histogram {
        if !matches!(self.values, Values::Counted(_)) {
            self.count_values();
        }
        let Values::Counted(histogram) = &mut self.values else {
            unreachable!("its values were counted just now")
        };
        histogram
    }

    /// Allocates the counts, and fills them from a text if there is one.
    #[cold]
    fn count_values(&mut self) {
        let histogram = self.filled().map_or_else(empty, Cow::into_owned);
        self.values = Values::Counted(Box::new(histogram));
    }

    /// Returns the histogram unless it is empty. Decodes a text, in some 20 microseconds.
    fn filled(&self) -> Option<Cow<'_, Histogram>> {
        match &self.values {
            Values::None => None,
            Values::Packed(text, _) => {
                Some(Cow::Owned(histogram(text).expect("the text was decoded when it was read")))
            }
            Values::Counted(histogram) => {
                Some(&**histogram).filter(|histogram| !histogram.is_empty()).map(Cow::Borrowed)
            }
        }
    }

    /// Returns the distribution in the form that answers many questions quickly.
    pub fn unpacked(of: Cow<'_, Self>) -> Cow<'_, Self> {
        match &of.values {
            Values::Packed(..) => {
                let mut owned = of.into_owned();
                owned.count_values();
                Cow::Owned(owned)
            }
            Values::None | Values::Counted(_) => of,
        }
    }

    /// Returns the distribution in the form that takes little memory.
    pub fn packed(&self) -> Self {
        let Values::Counted(histogram) = &self.values else { return self.clone() };
        let values = match histogram.is_empty() {
            true => Values::None,
            false => Values::Packed(deflated(histogram).into(), histogram.len()),
        };
        Self { values, saturated: self.saturated }
    }

    /// Returns the number of recorded latencies, including saturated ones.
    pub fn count(&self) -> u64 {
        match &self.values {
            Values::None => 0,
            Values::Packed(_, count) => *count,
            Values::Counted(histogram) => histogram.len(),
        }
    }

    /// Returns the number of latencies beyond one hour.
    pub fn saturated(&self) -> u64 {
        self.saturated
    }

    /// Returns true if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Adds all values of `other` exactly.
    pub fn merge(&mut self, other: &Self) {
        if self.is_empty() && !matches!(self.values, Values::Counted(_)) {
            *self = other.clone();
            return;
        }
        let Some(theirs) = other.filled() else { return };
        self.counted().add(&*theirs).expect("all histograms here have the same bounds");
        self.saturated += other.saturated;
    }

    /// Removes all values but keeps the memory.
    pub fn clear(&mut self) {
        if self.is_empty() {
            return; // usual, because nothing failed
        }
        match &mut self.values {
            Values::Counted(histogram) => histogram.reset(),
            values => *values = Values::None,
        }
        self.saturated = 0;
    }

    /// Returns the latency that a share of `quantile` (0 to 1) does not exceed. Returns `None` if there are no
    /// values, or if that one is saturated.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let beyond = self.saturated as f64 > (1.0 - quantile) * self.count() as f64;
        let known = self.filled().filter(|_| self.saturated == 0 || !beyond);
        known.map(|histogram| Duration::from_nanos(histogram.value_at_quantile(quantile)))
    }

    /// Returns the number of values above a latency, within the histogram's precision.
    pub fn count_above(&self, latency: Duration) -> u64 {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if nanoseconds >= LATENCY_MAX_NS {
            return 0;
        }
        let within = self.filled().map_or(0, |histogram| histogram.count_between(0, nanoseconds));
        self.count() - within
    }

    /// Returns the mean; `None` if there are no values or any is saturated.
    pub fn mean(&self) -> Option<Duration> {
        let known = self.filled().filter(|_| self.saturated == 0);
        known.map(|histogram| Duration::from_nanos(histogram.mean().round() as u64))
    }

    /// Returns the minimum, within the histogram's precision.
    pub fn min(&self) -> Option<Duration> {
        self.filled().map(|histogram| Duration::from_nanos(histogram.min()))
    }

    /// Returns the maximum, within the histogram's precision; `None` if it is saturated.
    pub fn max(&self) -> Option<Duration> {
        self.quantile(1.0)
    }

    /// Returns every recorded latency and its count, ascending, within the histogram's precision. Saturated values
    /// count as the longest.
    pub fn recorded(&self) -> impl Iterator<Item = (Duration, u64)> + use<> {
        let steps: Vec<_> = self.filled().map_or_else(Vec::new, |histogram| {
            let steps = histogram.iter_recorded().map(|step| {
                (Duration::from_nanos(step.value_iterated_to()), step.count_since_last_iteration())
            });
            steps.collect()
        });
        steps.into_iter()
    }

    /// Returns the V2 encoding, deflated and in base64, as `HistogramLogProcessor` and similar tools read it.
    pub fn encode(&self) -> String {
        match &self.values {
            Values::Packed(text, _) => text.clone().into(),
            _ => self.filled().map_or_else(|| NOTHING.clone(), |histogram| deflated(&histogram)),
        }
    }

    /// Returns the encoded form.
    pub fn pack(&self) -> PackedLatencies {
        PackedLatencies { hdr: self.encode(), saturated: self.saturated }
    }

    /// Reads a text of [`Self::encode`], and keeps it as it is.
    ///
    /// # Errors
    /// Fails if the text is not a histogram of latencies, or has fewer values than saturated ones.
    pub fn decode(text: &str, saturated: u64) -> Result<Self, HistogramError> {
        if text == *NOTHING && saturated == 0 {
            return Ok(Self::default());
        }
        let mut count = 0u64;
        for step in histogram(text)?.iter_recorded() {
            let added = count.checked_add(step.count_at_value());
            count = added
                .filter(|&count| count <= COUNT_MAX)
                .ok_or(HistogramError::Foreign("its counts are too large"))?;
        }
        if saturated > count {
            return Err(HistogramError::Foreign("it has more values beyond an hour than values"));
        }
        let values = if count == 0 { Values::None } else { Values::Packed(text.into(), count) };
        Ok(Self { values, saturated })
    }
}

/// Decodes a text to counts, which may be too large to add up.
fn histogram(text: &str) -> Result<Histogram, HistogramError> {
    if text.len() > TEXT_MAX {
        return Err(HistogramError::Foreign("it is too long"));
    }
    let bytes = STANDARD.decode(text).map_err(HistogramError::Base64)?;
    let bytes = inflated(&bytes)?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(HistogramError::Form)
}

/// Inflates a histogram's encoding up to the maximum size, and checks its header. HdrHistogram allocates memory by
/// that header.
///
/// The layout is that of HdrHistogram's V2 encoding: `encodeIntoCompressedByteBuffer` and `encodeIntoByteBuffer` of
/// `AbstractHistogram` in <https://github.com/HdrHistogram/HdrHistogram>.
fn inflated(bytes: &[u8]) -> Result<Vec<u8>, HistogramError> {
    let number = |at: usize, bytes: &[u8]| {
        let four = bytes.get(at..at + 4).and_then(|four| <[u8; 4]>::try_from(four).ok());
        four.map(u32::from_be_bytes)
    };
    if number(0, bytes) != Some(COOKIE_DEFLATED) {
        return Err(HistogramError::Foreign("it is not a deflated V2 encoding"));
    }
    let deflated = bytes.get(8..).unwrap_or_default();
    let mut plain = Vec::new();
    ZlibDecoder::new(deflated)
        .take(PLAIN_MAX + 1)
        .read_to_end(&mut plain)
        .map_err(|_| HistogramError::Foreign("it cannot be inflated"))?;
    if plain.len() as u64 > PLAIN_MAX {
        return Err(HistogramError::Foreign("it is too long"));
    }
    let long = |at: usize| {
        let (high, low) = (number(at, &plain)?, number(at + 4, &plain)?);
        Some(u64::from(high) << 32 | u64::from(low))
    };
    let header = (number(0, &plain), number(12, &plain), long(16), long(24));
    let digits = Some(u32::from(SIGNIFICANT_DIGITS));
    if header != (Some(COOKIE), digits, Some(LOWEST), Some(LATENCY_MAX_NS)) {
        return Err(HistogramError::Foreign("its bounds are not those of latencies"));
    }
    // HdrHistogram would allocate this number of bytes.
    if number(4, &plain).map(|length| length as usize) != plain.len().checked_sub(HEADER) {
        return Err(HistogramError::Foreign("its length differs from its header"));
    }
    Ok(plain)
}

/// Explains why a text is not a histogram of latencies.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// The text is not base64.
    #[error("not base64: {0}")]
    Base64(#[source] base64::DecodeError),
    /// The text is not a histogram that bakeoff writes.
    #[error("not a histogram of latencies: {0}")]
    Foreign(&'static str),
    /// The bytes are not an HdrHistogram.
    #[error("not an HdrHistogram: {0}")]
    Form(#[source] DeserializeError),
}

/// Holds a distribution in its encoded form, as in a record. It is small enough to keep one a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Latencies"))]
pub struct PackedLatencies {
    /// HdrHistogram in its V2 encoding, deflated and in base64; in nanoseconds, with three significant digits.
    pub hdr: String,
    /// Number of values beyond an hour, which are in the histogram at its upper bound.
    #[serde(default, skip_serializing_if = "crate::units::is_zero")]
    pub saturated: u64,
}

impl PackedLatencies {
    /// Decodes the distribution. Fails if the text is not a histogram.
    pub fn unpack(&self) -> Result<Latencies, HistogramError> {
        Latencies::decode(&self.hdr, self.saturated)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Latencies {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        PackedLatencies::schema_name()
    }

    fn schema_id() -> std::borrow::Cow<'static, str> {
        PackedLatencies::schema_id()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        PackedLatencies::json_schema(generator)
    }
}

impl Serialize for Latencies {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.pack().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        PackedLatencies::deserialize(from)?.unpack().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holding(nanoseconds: &[u64]) -> Latencies {
        let mut latencies = Latencies::default();
        for &value in nanoseconds {
            latencies.record(Duration::from_nanos(value));
        }
        latencies
    }

    #[test]
    fn invalid_text_is_rejected_with_its_source() {
        use std::error::Error as _;
        let refused = |text: &str| Latencies::decode(text, 0).unwrap_err();
        assert!(matches!(refused("?"), HistogramError::Base64(_)));
        let no_form = refused("AAAA");
        assert!(matches!(no_form, HistogramError::Foreign(_)));
        assert!(no_form.to_string().starts_with("not a histogram of latencies: "), "{no_form}");
        assert!(no_form.source().is_none());
    }

    /// Returns a deflated V2 encoding with these numbers in its header, and no counts.
    fn encoded(length: u32, digits: u32, high: u64) -> String {
        use std::io::Write as _;
        let mut plain = Vec::new();
        for number in [COOKIE, length, 0, digits] {
            plain.extend(number.to_be_bytes());
        }
        for number in [1, high, 1f64.to_bits()] {
            plain.extend(number.to_be_bytes());
        }
        let mut deflated =
            flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        deflated.write_all(&plain).unwrap();
        let deflated = deflated.finish().unwrap();
        let mut all = COOKIE_DEFLATED.to_be_bytes().to_vec();
        all.extend((deflated.len() as u32).to_be_bytes());
        all.extend(deflated);
        STANDARD.encode(all)
    }

    #[test]
    fn header_that_requests_too_much_memory_is_rejected() {
        let high = empty().high();
        let digits = u32::from(SIGNIFICANT_DIGITS);
        assert!(Latencies::decode(&encoded(0, digits, high), 0).unwrap().is_empty());
        for (length, digits, high) in
            [(0, 5, high), (0, digits, u64::MAX), (u32::MAX, digits, high), (1, digits, high)]
        {
            let refused = Latencies::decode(&encoded(length, digits, high), 0);
            let message = refused.unwrap_err().to_string();
            assert!(message.starts_with("not a histogram of latencies: "), "{message}");
        }
        let latencies = holding(&[1, 2]);
        assert!(Latencies::decode(&latencies.encode(), 3).is_err(), "more saturated than recorded");
        assert!(Latencies::decode(&"A".repeat(TEXT_MAX + 1), 0).is_err());
    }

    proptest! {
        #[test]
        fn merging_equals_recording_together(
            left in prop::collection::vec(0..LATENCY_MAX_NS * 2, 0..50),
            right in prop::collection::vec(0..LATENCY_MAX_NS * 2, 0..50),
        ) {
            let mut merged = holding(&left);
            merged.merge(&holding(&right));
            prop_assert_eq!(merged, holding(&[left, right].concat()));
        }

        #[test]
        fn encoding_loses_nothing(values in prop::collection::vec(0..LATENCY_MAX_NS * 2, 0..50)) {
            let latencies = holding(&values);
            let read = Latencies::decode(&latencies.encode(), latencies.saturated()).unwrap();
            prop_assert_eq!(read, latencies);
        }

        #[test]
        fn rejects_invalid_text(text in "[A-Za-z0-9+/]{0,200}") {
            prop_assert!(Latencies::decode(&text, 0).is_err());
        }
    }

    #[test]
    fn empty_histograms_are_equal_whether_cleared_read_or_new() {
        let nothing = Latencies::default();
        let mut cleared = holding(&[1000, LATENCY_MAX_NS * 2]);
        assert_ne!(cleared, nothing);
        cleared.clear();
        assert_eq!((&cleared, cleared.count()), (&nothing, 0));
        assert_eq!(cleared.encode(), deflated(&empty()));
        assert_eq!(Latencies::decode(&cleared.encode(), 0).unwrap(), nothing);
        let mut merged = nothing.clone();
        merged.merge(&cleared);
        assert_eq!((merged.quantile(0.5), merged.min(), merged.mean()), (None, None, None));
        assert_eq!(merged.count_above(Duration::ZERO), 0);
        merged.merge(&holding(&[1000]));
        assert_eq!(merged, holding(&[1000]));
    }

    #[test]
    fn saturated_quantile_is_none() {
        let latencies = holding(&[1000, 1000, 1000, LATENCY_MAX_NS * 2]);
        assert_eq!(latencies.saturated(), 1);
        assert_eq!(latencies.quantile(0.5), Some(Duration::from_nanos(1000)));
        assert_eq!(latencies.max(), None);
        assert_eq!(latencies.mean(), None);
    }

    #[test]
    fn recorded_values_are_returned_in_ascending_order() {
        let latencies = holding(&[3_000_000, 1000, 1000]);
        let steps: Vec<(Duration, u64)> = latencies.recorded().collect();
        let counts: Vec<u64> = steps.iter().map(|&(_, count)| count).collect();
        assert_eq!(counts, [2, 1]);
        assert_eq!(steps[0].0, Duration::from_nanos(1000));
        let off = steps[1].0.as_secs_f64() / 0.003 - 1.0;
        assert!(off.abs() < 0.001, "{off}");
        assert_eq!(Latencies::default().recorded().count(), 0);
    }

    #[test]
    fn empty_histogram_has_no_values() {
        let latencies = Latencies::default();
        assert_eq!((latencies.min(), latencies.max(), latencies.mean()), (None, None, None));
    }
}
