//! Samples what servers use.
