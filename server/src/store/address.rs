//! Where a record lies in a partition's log.

/// Bits of an offset within a segment, in units of 8 bytes.
const OFFSET_BITS: u32 = 17;
/// Bits of a segment's number.
const SEGMENT_BITS: u32 = 20;
/// Bytes that an offset counts in: records start at multiples of this.
const UNIT_BYTES: usize = 8;

/// A record's place: a segment's number and an offset within it. Never zero as bits, since segments
/// are counted from 1, so that a zero can stand for no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address(u64);

impl Address {
    /// Bits of an address; the others are zero.
    pub(super) const BITS: u32 = SEGMENT_BITS + OFFSET_BITS;
    /// Segments are numbered from 1 to this: 1 TiB of full segments in one partition.
    pub(super) const SEGMENT_MAX: u32 = (1 << SEGMENT_BITS) - 1;
    /// Offsets are below this, which is the size of the largest segment with more than one record.
    pub(super) const OFFSET_END: usize = UNIT_BYTES << OFFSET_BITS;

    #[inline]
    pub(super) fn new(segment: u32, offset: usize) -> Address {
        debug_assert!(segment > 0 && segment <= Self::SEGMENT_MAX, "segment {segment}");
        debug_assert!(offset.is_multiple_of(UNIT_BYTES) && offset < Self::OFFSET_END, "{offset}");
        Address(u64::from(segment) << OFFSET_BITS | (offset / UNIT_BYTES) as u64)
    }

    /// The address that [`Address::bits`] gave.
    #[inline]
    pub(super) fn from_bits(bits: u64) -> Address {
        debug_assert!(bits > 0 && bits >> Self::BITS == 0, "{bits:x} is no address");
        Address(bits)
    }

    #[inline]
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) fn segment(self) -> u32 {
        (self.0 >> OFFSET_BITS) as u32
    }

    #[inline]
    pub(super) fn offset(self) -> usize {
        (self.0 & ((1 << OFFSET_BITS) - 1)) as usize * UNIT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_segment_and_an_offset() {
        for (segment, offset) in [(1, 0), (1, 8), (77, 65_000), (Address::SEGMENT_MAX, 1_048_568)] {
            let address = Address::from_bits(Address::new(segment, offset).bits());
            assert_eq!((address.segment(), address.offset()), (segment, offset));
            assert!(address.bits() > 0 && address.bits() >> Address::BITS == 0);
        }
    }
}
