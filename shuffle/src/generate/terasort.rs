//! Records to sort: those of the sort benchmark's `gensort` and of Hadoop's TeraGen, 100 bytes with a key of 10.
//!
//! ```text
//! bytes 0..10   key: the highest bytes of the record's 128 random bits
//!      10..12   00 11
//!      12..44   the record's number, in 32 hexadecimal digits
//!      44..48   88 99 AA BB
//!      48..96   the lowest 12 hexadecimal digits of the random bits, each four times
//!      96..100  CC DD EE FF
//! ```

use super::Bits;

/// Records of a chunk.
const CHUNK_RECORDS: u64 = 10_000;

/// Random bits follow one on the other: x becomes `STEP.factor` * x + `STEP.offset`, modulo 2^128.
const STEP: Steps = Steps {
    factor: 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645,
    offset: 0x4A69_6D47_7261_7952_4950_2020_2020_2001,
};

/// Records in no order, with keys that differ but for chance.
#[derive(Clone, Copy, Debug)]
pub struct TeraSort {
    records: u64,
    seed: u64,
}

impl TeraSort {
    /// So many records. With `seed` 0, they are those that `gensort` makes.
    pub fn new(records: u64, seed: u64) -> TeraSort {
        TeraSort { records, seed }
    }

    pub(super) fn chunks(&self) -> u64 {
        self.records.div_ceil(CHUNK_RECORDS)
    }

    pub(super) fn write_chunk(&self, chunk: u64, into: &mut Vec<u8>) {
        let first = chunk * CHUNK_RECORDS;
        let mut random = Steps::times(first).of(self.first_state());
        for number in first..self.records.min(first + CHUNK_RECORDS) {
            random = STEP.of(random);
            push_record(into, number, random);
        }
    }

    fn first_state(&self) -> u128 {
        if self.seed == 0 {
            return 0;
        }
        let mut bits = Bits::of_chunk(self.seed, 0);
        u128::from(bits.next()) << 64 | u128::from(bits.next())
    }
}

fn push_record(into: &mut Vec<u8>, number: u64, random: u128) {
    // Its highest byte first, as keys are compared.
    into.extend(random.to_le_bytes()[6..].iter().rev());
    into.extend_from_slice(&[0x00, 0x11]);
    into.extend((0..32).rev().map(|place| hex_digit(u128::from(number), place)));
    into.extend_from_slice(&[0x88, 0x99, 0xAA, 0xBB]);
    into.extend((0..12).rev().flat_map(|place| [hex_digit(random, place); 4]));
    into.extend_from_slice(&[0xCC, 0xDD, 0xEE, 0xFF]);
}

/// The hexadecimal digit at a place, counted from the lowest.
fn hex_digit(number: u128, place: u32) -> u8 {
    b"0123456789ABCDEF"[(number >> (4 * place)) as usize & 15]
}

/// What some steps come to.
#[derive(Clone, Copy)]
struct Steps {
    factor: u128,
    offset: u128,
}

impl Steps {
    fn of(self, state: u128) -> u128 {
        self.factor.wrapping_mul(state).wrapping_add(self.offset)
    }

    /// These, and `more` behind them.
    fn then(self, more: Steps) -> Steps {
        Steps { factor: more.factor.wrapping_mul(self.factor), offset: more.of(self.offset) }
    }

    /// `count` single steps, in the time of its bits.
    fn times(count: u64) -> Steps {
        let (mut all, mut power) = (Steps { factor: 1, offset: 0 }, STEP);
        for bit in 0..u64::BITS {
            if count >> bit & 1 == 1 {
                all = all.then(power);
            }
            power = power.then(power);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD_BYTES: usize = 100;

    fn records(generator: TeraSort) -> Vec<u8> {
        let mut bytes = Vec::new();
        (0..generator.chunks()).for_each(|chunk| generator.write_chunk(chunk, &mut bytes));
        bytes
    }

    /// The offset is the text "JimGrayRIP" with blanks and a 1, and the first random bits follow on 0: so it is what `gensort` begins with.
    #[test]
    fn the_first_key_of_seed_0_is_that_of_gensort() {
        let bytes = records(TeraSort::new(1, 0));
        let number = b"00000000000000000000000000000000";
        let filler = b"222200002222000022220000222200002222000000001111";
        let parts: [&[u8]; 5] = [
            b"JimGrayRIP\x00\x11",
            number,
            &[0x88, 0x99, 0xAA, 0xBB],
            filler,
            &[0xCC, 0xDD, 0xEE, 0xFF],
        ];
        assert_eq!(bytes.escape_ascii().to_string(), parts.concat().escape_ascii().to_string());
    }

    #[test]
    fn a_chunk_goes_on_where_the_one_before_has_ended() {
        let count = 2 * CHUNK_RECORDS + 1;
        for seed in [0, 7] {
            let generator = TeraSort::new(count, seed);
            let bytes = records(generator);
            assert_eq!(bytes.len() as u64, count * RECORD_BYTES as u64);
            let mut random = generator.first_state();
            for (number, record) in bytes.chunks(RECORD_BYTES).enumerate() {
                random = STEP.of(random);
                let key = record[..10].iter().fold(0, |key, byte| key << 8 | u128::from(*byte));
                assert_eq!(key, random >> 48);
                assert_eq!(record[12..44], *format!("{number:032X}").as_bytes());
            }
        }
        assert!(records(TeraSort::new(9, 1)) != records(TeraSort::new(9, 2)));
    }
}
