//! Latencies: recorded exactly enough, merged exactly.
//!
//! HdrHistogram with 3 significant digits from 1 ns to 1 hour. What lies beyond is counted as
//! saturated and shown as such, never as a number. In a record a histogram is its V2 encoding,
//! compressed and in base64, as other HdrHistogram tools read it.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::AdditionError;
use hdrhistogram::serialization::{
    DeserializeError, Deserializer, Serializer as _, V2DeflateSerializer,
};
use serde::{Deserialize, Serialize};

/// The longest latency that is told apart: one hour, in nanoseconds.
pub const LATENCY_MAX_NS: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// A distribution of latencies.
#[derive(Clone, PartialEq)]
pub struct Latencies {
    histogram: hdrhistogram::Histogram<u64>,
    saturated: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram =
            hdrhistogram::Histogram::new_with_bounds(1, LATENCY_MAX_NS, SIGNIFICANT_DIGITS)
                .expect("the bounds are constants that HdrHistogram accepts");
        Self { histogram, saturated: 0 }
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Latencies({} values, {} saturated)", self.count(), self.saturated)
    }
}

impl Latencies {
    /// Records one latency.
    pub fn record(&mut self, latency: Duration) {
        self.record_many(latency, 1);
    }

    /// Records the same latency `count` times.
    pub fn record_many(&mut self, latency: Duration, count: u64) {
        if count == 0 {
            return; // the histogram would take note of its least and most
        }
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if nanoseconds > LATENCY_MAX_NS {
            self.saturated += count;
        }
        self.histogram.saturating_record_n(nanoseconds, count);
    }

    /// Returns how many were recorded, saturated ones included.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns how many lay beyond an hour.
    pub fn saturated(&self) -> u64 {
        self.saturated
    }

    /// Returns whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// Adds all of `other`, exactly.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all histograms here have the same bounds");
        self.saturated += other.saturated;
    }

    /// Forgets everything; keeps the memory.
    pub fn clear(&mut self) {
        if self.is_empty() {
            return; // most are: nothing failed
        }
        self.histogram.reset();
        self.saturated = 0;
    }

    /// The latency that a share of `quantile` (0 to 1) does not exceed; `None` when there is
    /// nothing, or when that value is saturated.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let beyond = self.saturated as f64 > (1.0 - quantile) * self.count() as f64;
        if self.is_empty() || (self.saturated > 0 && beyond) {
            return None;
        }
        Some(Duration::from_nanos(self.histogram.value_at_quantile(quantile)))
    }

    /// Returns how many lie above a latency, within the histogram's precision.
    pub fn count_above(&self, latency: Duration) -> u64 {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if nanoseconds >= LATENCY_MAX_NS {
            return 0;
        }
        self.count() - self.histogram.count_between(0, nanoseconds)
    }

    /// The mean; `None` when there is nothing or anything is saturated.
    pub fn mean(&self) -> Option<Duration> {
        (!self.is_empty() && self.saturated == 0)
            .then(|| Duration::from_nanos(self.histogram.mean().round() as u64))
    }

    /// The fastest, within the histogram's precision.
    pub fn min(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(self.histogram.min()))
    }

    /// The slowest, within the histogram's precision; `None` when it is saturated.
    pub fn max(&self) -> Option<Duration> {
        self.quantile(1.0)
    }

    /// Every latency that was recorded and how often, in rising order, within the histogram's
    /// precision; what is saturated counts at the longest.
    pub fn recorded(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.histogram.iter_recorded().map(|step| {
            (Duration::from_nanos(step.value_iterated_to()), step.count_since_last_iteration())
        })
    }

    /// Takes the `count` slowest out, or all where there are fewer; returns them.
    pub fn split_off_slowest(&mut self, count: u64) -> Self {
        let mut rest = self.count().saturating_sub(count);
        let (mut kept, mut taken) = (Self::default(), Self::default());
        for (latency, times) in self.recorded() {
            let keeps = times.min(rest);
            rest -= keeps;
            kept.record_many(latency, keeps);
            taken.record_many(latency, times - keeps);
        }
        // Those beyond an hour are the slowest of all.
        taken.saturated = self.saturated.min(taken.count());
        kept.saturated = self.saturated - taken.saturated;
        *self = kept;
        taken
    }

    /// The V2 encoding, deflated, in base64: what `HistogramLogProcessor` and its kin read.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.histogram, &mut bytes)
            .expect("writing a histogram to memory does not fail");
        STANDARD.encode(bytes)
    }

    /// The encoded form.
    pub fn pack(&self) -> PackedLatencies {
        PackedLatencies { hdr: self.encode(), saturated: self.saturated }
    }

    /// Reads what [`Self::encode`] wrote.
    pub fn decode(text: &str, saturated: u64) -> Result<Self, HistogramError> {
        let bytes = STANDARD.decode(text).map_err(HistogramError::Base64)?;
        let read: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(HistogramError::Form)?;
        let mut latencies = Self { saturated, ..Self::default() };
        latencies.histogram.add(&read).map_err(HistogramError::Bounds)?;
        Ok(latencies)
    }
}

/// Error in a text that should be a histogram of latencies.
#[derive(Debug)]
pub enum HistogramError {
    /// It is not base64.
    Base64(base64::DecodeError),
    /// Its bytes are no HdrHistogram.
    Form(DeserializeError),
    /// It holds latencies beyond an hour.
    Bounds(AdditionError),
}

impl fmt::Display for HistogramError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base64(error) => write!(to, "not base64: {error}"),
            Self::Form(error) => write!(to, "not an HdrHistogram: {error}"),
            Self::Bounds(error) => write!(to, "values out of bounds: {error}"),
        }
    }
}

impl std::error::Error for HistogramError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Base64(error) => Some(error),
            Self::Form(error) => Some(error),
            Self::Bounds(error) => Some(error),
        }
    }
}

/// A distribution in its encoded form: what a record holds, small enough to keep one a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PackedLatencies {
    /// [`Latencies::encode`]'s text.
    pub hdr: String,
    /// Number beyond an hour.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub saturated: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl PackedLatencies {
    /// The distribution; an error when the text is no histogram.
    pub fn unpack(&self) -> Result<Latencies, HistogramError> {
        Latencies::decode(&self.hdr, self.saturated)
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
    fn text_that_is_no_histogram_is_refused_with_its_source() {
        use std::error::Error as _;
        let refused = |text: &str| Latencies::decode(text, 0).unwrap_err();
        assert!(matches!(refused("?"), HistogramError::Base64(_)));
        let no_form = refused("AAAA");
        assert!(matches!(no_form, HistogramError::Form(_)));
        assert!(no_form.to_string().starts_with("not an HdrHistogram: "), "{no_form}");
        assert!(no_form.source().is_some());
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
        fn refuses_text_that_is_no_histogram(text in "[A-Za-z0-9+/]{0,200}") {
            prop_assert!(Latencies::decode(&text, 0).is_err());
        }
    }

    #[test]
    fn a_saturated_quantile_is_not_a_number() {
        let latencies = holding(&[1000, 1000, 1000, LATENCY_MAX_NS * 2]);
        assert_eq!(latencies.saturated(), 1);
        assert_eq!(latencies.quantile(0.5), Some(Duration::from_nanos(1000)));
        assert_eq!(latencies.max(), None);
        assert_eq!(latencies.mean(), None);
    }

    #[test]
    fn recorded_values_come_back_in_rising_order() {
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
    fn the_slowest_are_split_off() {
        let recorded = |of: &Latencies| of.recorded().collect::<Vec<_>>();
        let mut all = holding(&[1000, 2000, 2000, 3000, LATENCY_MAX_NS * 2]);
        let slowest = all.split_off_slowest(3);
        assert_eq!(recorded(&all), recorded(&holding(&[1000, 2000])));
        assert_eq!(recorded(&slowest), recorded(&holding(&[2000, 3000, LATENCY_MAX_NS * 2])));
        assert_eq!((all.saturated(), slowest.saturated()), (0, 1));
        assert_eq!(all.split_off_slowest(9).count(), 2);
        assert!(all.is_empty());
    }

    #[test]
    fn an_empty_histogram_has_no_numbers() {
        let latencies = Latencies::default();
        assert_eq!((latencies.min(), latencies.max(), latencies.mean()), (None, None, None));
    }
}
