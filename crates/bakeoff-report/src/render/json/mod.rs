//! Renders reports and results of loads as JSON. Each form is a type, from which its schema is generated.
//!
//! Not here: the JSON of compared runs (`render::comparison`) and of trends (`render::trend`).

pub mod load;
pub(crate) mod run;

use bakeoff_core::stats::Figure;
use serde::Serialize;
use serde_json::{Number, Value};

use crate::model::quantity::Quantity;

pub use run::json;

/// Version of the JSON. Raised when a name or a meaning changes, but not for additions.
pub const FORMAT: u32 = 1;

/// Returns why there is no number although something was measured.
pub(crate) fn none_because(quantity: Quantity, figure: Figure) -> Option<String> {
    match figure {
        Figure::Failed { .. } => Some(quantity.text(figure).replacen("none: ", "", 1)),
        Figure::TooFew { .. } => Some(quantity.text(figure)),
        _ => None,
    }
}

/// Returns a figure as a number; `None` without one.
pub(crate) fn number(quantity: Quantity, figure: Figure) -> Option<Number> {
    match figure.value()? {
        // A median of two counts may lie between them.
        value if quantity.is_count() && value.fract() == 0.0 => Some((value as u64).into()),
        value => Number::from_f64(value),
    }
}

/// Returns an output as JSON.
pub(crate) fn written(output: impl Serialize) -> Value {
    serde_json::to_value(output).expect("texts, numbers, and maps with texts as keys")
}
