//! A log without anything but objects: what every index but Weft's own finds them in.

pub(crate) const KEY_BYTES: usize = 16;
pub(crate) const VALUE_BYTES: usize = 32;
const RECORD_BYTES: usize = KEY_BYTES + VALUE_BYTES;

/// As many objects as a mebibyte has room for.
const SEGMENT_RECORDS: usize = (1 << 20) / RECORD_BYTES;

#[derive(Default)]
pub(crate) struct Log {
    segments: Vec<Box<[[u8; RECORD_BYTES]]>>,
    len: usize,
}

impl Log {
    /// Appends an object and says where it lies.
    pub(crate) fn append(&mut self, key: &[u8; KEY_BYTES], value: &[u8; VALUE_BYTES]) -> u64 {
        let address = self.len;
        if address == self.segments.len() * SEGMENT_RECORDS {
            // Not zeroed by hand: pages become resident as they are written.
            self.segments.push(vec![[0; RECORD_BYTES]; SEGMENT_RECORDS].into_boxed_slice());
        }
        let record = &mut self.segments[address / SEGMENT_RECORDS][address % SEGMENT_RECORDS];
        record[..KEY_BYTES].copy_from_slice(key);
        record[KEY_BYTES..].copy_from_slice(value);
        self.len += 1;
        address as u64
    }

    pub(crate) fn key(&self, address: u64) -> &[u8; KEY_BYTES] {
        let address = address as usize;
        let record = &self.segments[address / SEGMENT_RECORDS][address % SEGMENT_RECORDS];
        record.first_chunk().expect("a record begins with its key")
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.len * RECORD_BYTES) as u64
    }
}
