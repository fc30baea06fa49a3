//! Looks at many bytes of a text at once.

/// Bytes that are looked at together: one bit of a word for each.
pub(crate) const BLOCK_BYTES: usize = u64::BITS as usize;

/// A bit for each byte that is so, the lowest one for the first.
#[inline(always)]
pub(crate) fn bytes_that(block: &[u8; BLOCK_BYTES], is_so: impl Fn(u8) -> bool) -> u64 {
    // Without a branch, and ones and zeros in bytes: this becomes instructions for 16 bytes.
    let are_so = block.map(|byte| u8::from(is_so(byte)));
    let (eights, _) = are_so.as_chunks();
    // Eight bytes that are 0 or 1, each times another power of two, so that all meet in the highest byte.
    let bits =
        |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    eights.iter().rev().fold(0, |mask, eight| mask << 8 | bits(eight))
}
