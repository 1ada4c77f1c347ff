//! Appends to series of samples, and fills in their gaps.
//!
//! Not here: sampling (`observe`).

use bakeoff_core::trial_samples::{Column, Series};

/// Adds a sample. Missing columns hold NaN until the series is [settled](settle).
pub(super) fn push(series: &mut Series, at: f64, row: Vec<(Column, f64)>) {
    series.at.push(at);
    for column in series.columns.values_mut() {
        column.push(f64::NAN);
    }
    row.into_iter().for_each(|(column, value)| set(series, column, value));
}

/// Sets a column of the last sample. Earlier samples of a new column get the same value.
pub(super) fn set(series: &mut Series, column: Column, value: f64) {
    let values = series.columns.entry(column).or_default();
    if values.len() == series.at.len()
        && let Some(last) = values.last_mut()
    {
        *last = value;
    } else {
        values.resize(series.at.len(), value);
    }
}

/// Fills in values that single samples lack. A counter is interpolated between its neighbours and a gauge keeps its
/// last value. Samples before the first value get that value. A column without any value is removed.
pub(super) fn settle(mut series: Series) -> Series {
    let at = &series.at;
    series.columns.retain(|_, values| values.iter().any(|value| !value.is_nan()));
    for (column, values) in &mut series.columns {
        let mut last: Option<usize> = None;
        for place in 0..values.len() {
            if values[place].is_nan() {
                continue;
            }
            if last.is_none() {
                let value = values[place];
                values[..place].fill(value);
            }
            let before = last.unwrap_or(place);
            let (from, grown) = (values[before], values[place] - values[before]);
            for between in (before + 1)..place {
                let share = (at[between] - at[before]) / (at[place] - at[before]).max(1e-9);
                let share = if column.is_counter() { share } else { 0.0 };
                values[between] = ((from + grown * share) * 1e4).round() / 1e4;
            }
            last = Some(place);
        }
        if let Some(last) = last {
            let value = values[last];
            values[last..].fill(value);
        }
    }
    series
}
