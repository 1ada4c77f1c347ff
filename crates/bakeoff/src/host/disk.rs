//! Measures a disk.
