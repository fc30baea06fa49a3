//! CRC16/XMODEM: polynomial 0x1021, most significant bit first, nothing inverted, initially zero.
//!
//! Eight bytes a step, each looked up on its own ("slicing", Kounavis and Berry): a byte at a time
//! every lookup waits for the one before, which cost a 16-byte key 25 ns at either end of a request.

const POLYNOMIAL: u16 = 0x1021;

/// How many bytes a step takes.
const STEP: usize = 8;

/// `TABLES[n][byte]` is the checksum of `byte` and `n` zero bytes behind it: 4 KiB.
static TABLES: [[u16; 256]; STEP] = tables();

/// The checksum of `bytes`.
#[inline]
pub(super) fn xmodem(bytes: &[u8]) -> u16 {
    let (steps, rest) = bytes.as_chunks::<STEP>();
    let crc = steps.iter().fold(0, step);
    rest.iter().fold(crc, |crc, &byte| (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)])
}

/// The checksum after eight more bytes. The checksum so far is 16 bits, so it meets the first two.
#[inline]
fn step(crc: u16, bytes: &[u8; STEP]) -> u16 {
    let [high, low] = [(crc >> 8) as u8, crc as u8];
    let &[b0, b1, b2, b3, b4, b5, b6, b7] = bytes;
    TABLES[7][usize::from(b0 ^ high)]
        ^ TABLES[6][usize::from(b1 ^ low)]
        ^ TABLES[5][usize::from(b2)]
        ^ TABLES[4][usize::from(b3)]
        ^ TABLES[3][usize::from(b4)]
        ^ TABLES[2][usize::from(b5)]
        ^ TABLES[1][usize::from(b6)]
        ^ TABLES[0][usize::from(b7)]
}

const fn tables() -> [[u16; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = (byte as u16) << 8;
        let mut zeros = 0;
        while zeros < STEP {
            remainder = shift_out_byte(remainder);
            tables[zeros][byte] = remainder;
            zeros += 1;
        }
        byte += 1;
    }
    tables
}

const fn shift_out_byte(mut remainder: u16) -> u16 {
    let mut bit = 0;
    while bit < 8 {
        let carry = remainder & 0x8000 != 0;
        remainder <<= 1;
        if carry {
            remainder ^= POLYNOMIAL;
        }
        bit += 1;
    }
    remainder
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue() {
        assert_eq!(xmodem(b"123456789"), 0x31C3);
        assert_eq!(xmodem(b""), 0);
    }

    proptest! {
        /// The definition: a long division, bit by bit.
        #[test]
        fn steps_and_rests_divide_like_the_definition(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let by_definition =
                bytes.iter().fold(0, |crc, &byte| shift_out_byte(crc ^ (u16::from(byte) << 8)));
            prop_assert_eq!(xmodem(&bytes), by_definition);
        }
    }
}
