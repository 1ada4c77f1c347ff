//! Names each variant of an enum, as in studies, records, the command line and reports.
//!
//! Not here: serde's names for the same variants; a test in `study::names` compares the two.

/// Generates `ALL`, `NAMES`, `name` and `Display` for an enum without fields.
macro_rules! named {
    ($type:ident: $($variant:ident = $name:literal),+ $(,)?) => {
        impl $type {
            /// All variants, in the order of the documentation.
            pub const ALL: &'static [$type] = &[$($type::$variant),+];
            /// Names of [`Self::ALL`], in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Returns the name in studies, records and reports.
            pub const fn name(self) -> &'static str {
                match self { $($type::$variant => $name),+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.pad(self.name())
            }
        }
    };
}

pub(crate) use named;
