//! How an input is cut in pieces: by a size that follows from its content, so that the input
//! itself stays what a peer would send and transcripts are good seeds.
//!
//! Not here: what the pieces are fed to (the targets).

/// The pieces of `input`.
pub fn cuts(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let sum =
        input.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31) + usize::from(*byte) & 0xffff);
    input.chunks(1 + sum % 61)
}
