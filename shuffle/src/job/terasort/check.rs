//! Whether records are in order, and which they are.

use super::{KEY_BYTES, RECORD_BYTES};

/// Looks at records, in the order in which they come.
#[derive(Debug, Default)]
pub struct Check {
    checked: Checked,
    last: Option<[u8; KEY_BYTES]>,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// How many records there are.
    pub records: u64,
    /// The sum of their CRC-32: the same for the same records in any order.
    pub checksum: u128,
    /// How many have the key of the one before.
    pub duplicate_keys: u64,
    /// How many have a key below that of the one before.
    pub unordered: u64,
    /// The first of these, counted from 0.
    pub first_unordered: Option<u64>,
}

impl Check {
    /// Looks at the next record.
    pub fn see(&mut self, record: &[u8; RECORD_BYTES]) {
        let Checked { records, checksum, duplicate_keys, unordered, first_unordered } =
            &mut self.checked;
        let mut crc = flate2::Crc::new();
        crc.update(record);
        *checksum += u128::from(crc.sum());
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(&record[..KEY_BYTES]);
        if let Some(last) = self.last.replace(key) {
            *duplicate_keys += u64::from(key == last);
            if key < last {
                *unordered += 1;
                first_unordered.get_or_insert(*records);
            }
        }
        *records += 1;
    }

    /// What was found so far.
    pub fn so_far(&self) -> Checked {
        self.checked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(keys: &[u8]) -> Checked {
        let mut check = Check::default();
        for key in keys {
            check.see(&[*key; RECORD_BYTES]);
        }
        check.so_far()
    }

    #[test]
    fn what_is_out_of_order_or_twice_is_counted() {
        let of = |keys| {
            let Checked { records, duplicate_keys, unordered, first_unordered, .. } = checked(keys);
            (records, duplicate_keys, unordered, first_unordered)
        };
        assert_eq!(of(&[]), (0, 0, 0, None));
        assert_eq!(of(&[1, 2, 2, 3]), (4, 1, 0, None));
        assert_eq!(of(&[3, 1, 2, 0]), (4, 0, 2, Some(1)));
    }

    #[test]
    fn the_sum_tells_which_records_there_are_and_not_in_which_order() {
        assert_eq!(checked(&[1, 2, 3]).checksum, checked(&[3, 1, 2]).checksum);
        assert_ne!(checked(&[1, 2, 3]).checksum, checked(&[1, 2, 2]).checksum);
        // CRC-32 of a hundred zeroes, as zlib has it.
        assert_eq!(checked(&[0]).checksum, 0x9988_c6ca);
    }
}
