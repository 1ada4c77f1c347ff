//! Cuts an input in pieces. The size follows from the content, so the input stays exactly what a peer would send, and
//! transcripts are good seeds.
//!
//! Not here: the decoders that get the pieces (the targets).

/// Returns the pieces of `input`.
pub fn cuts(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let sum =
        input.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31) + usize::from(*byte) & 0xffff);
    input.chunks(1 + sum % 61)
}
