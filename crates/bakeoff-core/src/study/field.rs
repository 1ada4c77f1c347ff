//! Declares the forms of a study's fields.
//!
//! Not here: the fields (`fields`, `fault`), reading them (`reading`), the form of the schema (`schema`).

/// Declares the fields of one kind of mapping.
pub(in crate::study) struct Table {
    /// Name in the schema.
    pub(in crate::study) name: &'static str,
    pub(in crate::study) meaning: &'static str,
    /// Sets of fields; a study gives exactly one field of each set.
    pub(in crate::study) one_of: &'static [&'static [&'static str]],
    pub(in crate::study) fields: &'static [Field],
}

/// Declares one field.
#[derive(Clone, Copy)]
pub(in crate::study) struct Field {
    pub(in crate::study) name: &'static str,
    pub(in crate::study) meaning: &'static str,
    pub(in crate::study) form: Form,
    pub(in crate::study) given: Requirement,
    /// Example value as in a study.
    pub(in crate::study) example: &'static str,
}

/// Declares whether a field is required.
#[derive(Clone, Copy)]
pub(in crate::study) enum Requirement {
    /// Required.
    Always,
    /// Optional, with this default.
    Default(&'static str),
    /// Optional; `meaning` explains the effect of omission.
    Maybe,
}

/// Declares the form of a field's value.
#[derive(Clone, Copy)]
pub(in crate::study) enum Form {
    /// Text that is not empty.
    Text,
    /// Text, number or flag, taken as written.
    AsWritten,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Whole number within inclusive bounds.
    Whole { min: u64, max: u64 },
    /// Decimal number within bounds; `min` itself is allowed only if `from_min`.
    Number { min: f64, from_min: bool, max: f64 },
    /// Size in bytes within inclusive bounds.
    Size { min: u64, max: u64 },
    /// Duration of at most `max`; zero only if `zero`.
    Duration { zero: bool, max: &'static str },
    /// Operations per unit of time, more than zero.
    Rate,
    /// HTTP statuses: `200`, `2xx`, `200-299,404`.
    Status,
    /// Share: `10%` or `0.1`.
    Share,
    /// Whole percentage: `10%`.
    Percent,
    /// One value or a list of them.
    OneOrMany(&'static Form),
    /// List of values.
    List(&'static Form),
    /// Mapping with known fields.
    Table(&'static Table),
    /// Section: a mapping from user-chosen names, not empty.
    Named(&'static Form),
    /// Mapping from names that something else defines, such as the kind of system.
    Open(&'static Form),
    /// Mapping from some of these words.
    Keyed(&'static [&'static str], &'static Form),
    /// One of several forms.
    Either(&'static [Form]),
}

/// User-chosen name: lower-case letters, digits and hyphens, because it becomes part of file names.
pub(in crate::study) const NAME_PATTERN: &str = "^[a-z0-9][a-z0-9-]{0,39}$";
/// Maximum number of systems, workloads or loads in a study.
pub const NAMES_MAX: usize = 64;
/// Maximum number of stages in a sweep.
pub(in crate::study) const STAGES_MAX: usize = 100;

/// Declares a required field.
pub(in crate::study) const fn always(
    name: &'static str,
    form: Form,
    example: &'static str,
    meaning: &'static str,
) -> Field {
    Field { name, meaning, form, given: Requirement::Always, example }
}

/// Declares an optional field.
pub(in crate::study) const fn maybe(
    name: &'static str,
    form: Form,
    example: &'static str,
    meaning: &'static str,
) -> Field {
    Field { name, meaning, form, given: Requirement::Maybe, example }
}

/// Declares an optional field with a default.
pub(in crate::study) const fn default(
    name: &'static str,
    form: Form,
    default: &'static str,
    meaning: &'static str,
) -> Field {
    Field { name, meaning, form, given: Requirement::Default(default), example: default }
}

/// Joins lists of fields.
pub(in crate::study) const fn joined<const COUNT: usize>(parts: &[&[Field]]) -> [Field; COUNT] {
    let mut all = [parts[0][0]; COUNT];
    let (mut part, mut place) = (0, 0);
    while part < parts.len() {
        let mut nth = 0;
        while nth < parts[part].len() {
            all[place] = parts[part][nth];
            (nth, place) = (nth + 1, place + 1);
        }
        part += 1;
    }
    assert!(place == COUNT);
    all
}

/// Returns the number of fields in these lists.
pub(in crate::study) const fn count(parts: &[&[Field]]) -> usize {
    let (mut part, mut all) = (0, 0);
    while part < parts.len() {
        (all, part) = (all + parts[part].len(), part + 1);
    }
    all
}
