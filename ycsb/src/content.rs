//! What the fields of a record hold: random printable bytes, or bytes that follow from the name of
//! record and field, so that a read can be verified (`dataintegrity`).

use std::io::Write as _;

use rand::Rng as _;

use crate::generator::{Random, Uniform, Zipfian};
use crate::record::{Layout, Values};

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
    /// `dataintegrity`.
    pub(crate) verifiable: bool,
}

impl Content {
    /// Makes `values` those of a whole new record for `key`.
    pub(crate) fn fill(&self, key: &[u8], values: &mut Values, random: &mut Random) {
        values.clear();
        for index in 0..self.layout.count() {
            self.push(key, index, values, random);
        }
    }

    /// Makes `values` a new value of field `index` of the record of `key`.
    pub(crate) fn fill_one(
        &self,
        key: &[u8],
        index: usize,
        values: &mut Values,
        random: &mut Random,
    ) {
        values.clear();
        self.push(key, index, values, random);
    }

    /// Whether the fields of a record, or just field `only`, hold what they were given. `field` gives the value of each.
    pub(crate) fn verify<'f>(
        &self,
        key: &[u8],
        field: impl Fn(usize) -> Option<&'f [u8]>,
        only: Option<usize>,
    ) -> bool {
        // Verifiable fields have one length, so a field of another length has to be wrong.
        let FieldLength::Constant(length) = self.length else { return false };
        let mut expected = Vec::new();
        self.layout.names().iter().enumerate().all(|(index, name)| {
            if only.is_some_and(|only| only != index) {
                return true;
            }
            expected.clear();
            write_verifiable(key, name, length, &mut expected);
            field(index).is_some_and(|field| field == expected)
        })
    }

    fn push(&self, key: &[u8], index: usize, values: &mut Values, random: &mut Random) {
        let length = self.length.sample(random);
        values.push(index, |out| {
            if self.verifiable {
                write_verifiable(key, &self.layout.names()[index], length, out);
            } else {
                write_random(length, out, random);
            }
        });
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
fn write_verifiable(key: &[u8], name: &str, length: usize, out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(key);
    write!(out, ":{name}").expect("a Vec takes every write");
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
            layout: Layout::new("field", fields),
            length: FieldLength::Constant(100),
            verifiable,
        }
    }

    fn verifiable(key: &str, name: &str, length: usize) -> String {
        let mut out = Vec::new();
        write_verifiable(key.as_bytes(), name, length, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// What upstream's `buildDeterministicValue` gives for the same arguments.
    #[test]
    fn verifiable_values_agree_with_upstream() {
        assert_eq!(
            verifiable("user6284781860667377211", "field0", 100),
            "user6284781860667377211:field0:-56807877:2032869390:-165488160:1762371712:\
             -169193395:-1039977118:-10"
        );
        assert_eq!(
            verifiable("user1", "f3", 64),
            "user1:f3:295312793:1502708776:1529764757:38687862:915370816:-122"
        );
        assert_eq!(verifiable("user1", "field0", 5), "user1");
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
        let mut values = Values::default();
        content.fill(b"user1", &mut values, &mut random);
        let mut record: Vec<_> = values.iter().map(|(_, value)| value.to_vec()).collect();
        let verify = |record: &[Vec<u8>], key: &[u8], only| {
            content.verify(key, |index| record.get(index).map(Vec::as_slice), only)
        };
        assert!(verify(&record, b"user1", None));
        assert!(!verify(&record, b"user2", None), "another record's bytes");
        assert!(!verify(&record[..2], b"user1", None), "a field is missing");

        record[1][50] ^= 1;
        assert!(!verify(&record, b"user1", None));
        assert!(verify(&record, b"user1", Some(0)), "field 0 is whole");
        assert!(!verify(&record, b"user1", Some(1)));

        content.fill_one(b"user1", 1, &mut values, &mut random);
        let (index, value) = values.iter().next().unwrap();
        record[index] = value.to_vec();
        assert!(verify(&record, b"user1", None), "the update mended field 1");
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
