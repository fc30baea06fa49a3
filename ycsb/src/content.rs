//! What the fields of a record hold: random printable bytes, or bytes that follow from the name of
//! record and field, so that a read can be verified (`dataintegrity`).

use std::io::Write as _;

use rand::Rng as _;

use crate::generator::{Random, Uniform, Zipfian};
use crate::record::Layout;

/// How long fields are (`fieldlengthdistribution`), in bytes.
#[derive(Clone, Debug)]
pub(crate) enum FieldLength {
    Constant(usize),
    Uniform(Uniform),
    /// Short fields are the frequent ones.
    Zipfian {
        shortest: usize,
        beyond: Zipfian,
    },
}

impl FieldLength {
    fn sample(&self, random: &mut Random) -> usize {
        match self {
            FieldLength::Constant(length) => *length,
            FieldLength::Uniform(lengths) => lengths.sample(random) as usize,
            FieldLength::Zipfian { shortest, beyond } => shortest + beyond.sample(random) as usize,
        }
    }
}

/// The fields of the workload's records.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) layout: Layout,
    pub(crate) length: FieldLength,
    /// `fieldnameprefix`: fields are called by it and their number.
    pub(crate) name_prefix: String,
    /// `dataintegrity`.
    pub(crate) verifiable: bool,
}

impl Content {
    /// Writes a whole new record for `key` into `record`.
    pub(crate) fn write_record(&self, key: &[u8], record: &mut Vec<u8>, random: &mut Random) {
        record.clear();
        for index in 0..self.layout.fields {
            let length = self.length.sample(random);
            self.layout.append(record, index, length, |out| {
                self.write_field(key, index, length, out, random);
            });
        }
    }

    /// Writes into `changed` the `record` of `key` with new bytes in field `index`; `None` if it is
    /// not a record of this workload.
    pub(crate) fn change_field(
        &self,
        key: &[u8],
        record: &[u8],
        index: usize,
        changed: &mut Vec<u8>,
        random: &mut Random,
    ) -> Option<()> {
        let length = self.length.sample(random);
        self.layout.replace(record, index, changed, length, |out| {
            self.write_field(key, index, length, out, random);
        })
    }

    /// Whether the fields of `record`, or just field `only`, hold what they were given.
    pub(crate) fn verify(&self, key: &[u8], record: &[u8], only: Option<usize>) -> bool {
        let mut expected = Vec::new();
        self.layout.fields(record).enumerate().all(|(index, field)| {
            let Some(field) = field else { return false };
            if only.is_some_and(|only| only != index) {
                return true;
            }
            expected.clear();
            // Verifiable fields have one length, so a field of another length has to be wrong.
            let FieldLength::Constant(length) = self.length else { return false };
            write_verifiable(key, &self.name_prefix, index, length, &mut expected);
            field == expected
        })
    }

    fn write_field(
        &self,
        key: &[u8],
        index: usize,
        length: usize,
        out: &mut Vec<u8>,
        random: &mut Random,
    ) {
        if self.verifiable {
            write_verifiable(key, &self.name_prefix, index, length, out);
        } else {
            write_random(length, out, random);
        }
    }
}

/// Appends `length` random bytes from the 64 that begin with the space: printable, as upstream's
/// are, and 6 bits of chance a byte.
fn write_random(length: usize, out: &mut Vec<u8>, random: &mut Random) {
    let begin = out.len();
    out.resize(begin + length, 0);
    for chunk in out[begin..].chunks_mut(8) {
        let word = (random.next_u64() & 0x3F3F_3F3F_3F3F_3F3F) + 0x2020_2020_2020_2020;
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

/// Appends upstream's deterministic value: `key:field`, then `:` and Java's hash of all before it,
/// again and again, cut at `length`.
fn write_verifiable(key: &[u8], name_prefix: &str, index: usize, length: usize, out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(key);
    write!(out, ":{name_prefix}{index}").expect("a Vec takes every write");
    let (mut hash, mut hashed) = (0_i32, begin);
    while out.len() - begin < length {
        out.push(b':');
        for &byte in &out[hashed..] {
            hash = hash.wrapping_mul(31).wrapping_add(i32::from(byte));
        }
        hashed = out.len();
        write!(out, "{hash}").expect("a Vec takes every write");
    }
    out.truncate(begin + length);
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    fn content(fields: usize, verifiable: bool) -> Content {
        Content {
            layout: Layout { fields },
            length: FieldLength::Constant(100),
            name_prefix: "field".to_owned(),
            verifiable,
        }
    }

    fn verifiable(key: &str, name_prefix: &str, index: usize, length: usize) -> String {
        let mut out = Vec::new();
        write_verifiable(key.as_bytes(), name_prefix, index, length, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// What upstream's `buildDeterministicValue` gives for the same arguments.
    #[test]
    fn verifiable_values_agree_with_upstream() {
        assert_eq!(
            verifiable("user6284781860667377211", "field", 0, 100),
            "user6284781860667377211:field0:-56807877:2032869390:-165488160:1762371712:\
             -169193395:-1039977118:-10"
        );
        assert_eq!(
            verifiable("user1", "f", 3, 64),
            "user1:f3:295312793:1502708776:1529764757:38687862:915370816:-122"
        );
        assert_eq!(verifiable("user1", "field", 0, 5), "user1");
    }

    #[test]
    fn random_values_are_printable_and_differ() {
        let mut random = Random::seed_from_u64(1);
        let mut values = Vec::new();
        write_random(1_003, &mut values, &mut random);
        assert_eq!(values.len(), 1_003);
        assert!(values.iter().all(|byte| (b' '..b' ' + 64).contains(byte)));
        let distinct: std::collections::BTreeSet<u8> = values.iter().copied().collect();
        assert_eq!(distinct.len(), 64);
    }

    #[test]
    fn a_changed_field_still_verifies_and_a_damaged_one_does_not() {
        let content = content(3, true);
        let mut random = Random::seed_from_u64(2);
        let (mut record, mut changed) = (Vec::new(), Vec::new());
        content.write_record(b"user1", &mut record, &mut random);
        assert!(content.verify(b"user1", &record, None));
        assert!(!content.verify(b"user2", &record, None), "another record's bytes");

        record[150] ^= 1;
        assert!(!content.verify(b"user1", &record, None));
        assert!(content.verify(b"user1", &record, Some(0)), "field 0 is whole");
        assert!(!content.verify(b"user1", &record, Some(1)));

        content.change_field(b"user1", &record, 1, &mut changed, &mut random).unwrap();
        assert!(content.verify(b"user1", &changed, None), "the update mended field 1");
    }

    #[test]
    fn lengths_stay_in_their_range() {
        let mut random = Random::seed_from_u64(3);
        let lengths = [
            FieldLength::Uniform(Uniform::new(5, 20)),
            FieldLength::Zipfian { shortest: 5, beyond: Zipfian::new(16, 0.99) },
        ];
        let means = lengths.map(|length| {
            let drawn: Vec<usize> = (0..10_000).map(|_| length.sample(&mut random)).collect();
            assert_eq!(drawn.iter().min(), Some(&5));
            assert_eq!(drawn.iter().max(), Some(&20));
            drawn.iter().sum::<usize>() as f64 / 10_000.0
        });
        assert!((means[0] - 12.5).abs() < 0.2, "{means:?}");
        assert!(means[1] < 11.0, "{means:?}");
    }
}
