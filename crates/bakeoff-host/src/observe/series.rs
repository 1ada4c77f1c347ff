//! Series of samples: appending to them, and closing them.
//!
//! Not here: what is sampled, and when (`observe`).

use bakeoff_core::observed::{Column, Series};

/// Adds a look. What it does not see is no number until all looks are [settled](settle).
pub(super) fn push(series: &mut Series, at: f64, row: Vec<(Column, f64)>) {
    series.at.push(at);
    for column in series.columns.values_mut() {
        column.push(f64::NAN);
    }
    row.into_iter().for_each(|(column, value)| set(series, column, value));
}

/// Sets what the last look found. A column that is new was the same before, as far as is known.
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

/// Fills in what single looks did not see: a counter grew evenly from the look before to the look
/// after, a gauge stood still. Before the first look that saw a column it was the same; one that no look saw is none.
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
