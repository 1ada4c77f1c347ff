//! Computes the hash that records hold of lines, files and programs.

use sha2::{Digest as _, Sha256};

/// Returns the SHA-256 of bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
