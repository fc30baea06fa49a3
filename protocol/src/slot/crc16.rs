//! CRC16/XMODEM: polynomial 0x1021, most significant bit first, nothing inverted, initially zero.

const POLYNOMIAL: u16 = 0x1021;

/// What a byte does to the remainder.
static TABLE: [u16; 256] = table();

/// The checksum of `bytes`.
#[inline]
pub(super) fn xmodem(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = remainder & 0x8000 != 0;
            remainder <<= 1;
            if carry {
                remainder ^= POLYNOMIAL;
            }
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue() {
        assert_eq!(xmodem(b"123456789"), 0x31C3);
        assert_eq!(xmodem(b""), 0);
    }
}
