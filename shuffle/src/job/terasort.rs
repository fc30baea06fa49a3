//! Sorts the records of the sort benchmark, and looks whether they are sorted.
//!
//! A record has 100 bytes, of which the first 10 are its key (`docs/shuffle.md`). That a sum of checksums tells whether all records are still there is the
//! idea of the benchmark's `valsort`, and with its checksum the sums are its own.

mod check;

use weft_object::{Pair, Types};

pub use self::check::{Check, Checked};
use crate::dataset::{Dataset, KeyAlone};

/// Bytes of a record.
pub const RECORD_BYTES: usize = 100;
/// Bytes of its key.
pub const KEY_BYTES: usize = 10;
const VALUE_BYTES: usize = RECORD_BYTES - KEY_BYTES;

/// A record: its key, and the rest.
pub type Record = Pair<[u8; KEY_BYTES], [u8; VALUE_BYTES]>;

/// The types of records that [`sort`] exchanges.
pub fn types(types: Types) -> Types {
    types.with::<Record>().with::<KeyAlone<[u8; KEY_BYTES]>>().with::<u64>()
}

/// All records in order.
pub fn sort(records: impl Dataset<Item = [u8; RECORD_BYTES]>) -> impl Dataset<Item = Record> {
    records.map(of_bytes).sort_by_key()
}

fn of_bytes(bytes: [u8; RECORD_BYTES]) -> Record {
    let (mut key, mut value) = ([0; KEY_BYTES], [0; VALUE_BYTES]);
    key.copy_from_slice(&bytes[..KEY_BYTES]);
    value.copy_from_slice(&bytes[KEY_BYTES..]);
    Pair { key, value }
}
