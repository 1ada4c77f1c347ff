//! Gives each variant of an enum the word that studies, records, command line and reports use for it.
//!
//! Not here: serde's names for the same variants; a test in `study::names` compares the two.

/// Writes `ALL`, `NAMES`, `name` and `Display` of an enum without fields.
macro_rules! named {
    ($type:ident: $($variant:ident = $name:literal),+ $(,)?) => {
        impl $type {
            /// Every one, in the order of the documentation.
            pub const ALL: &'static [$type] = &[$($type::$variant),+];
            /// The names of [`Self::ALL`], in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// The word for it in studies, records and reports.
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
