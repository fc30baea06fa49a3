//! Reads the frames of a file one after the other, and looks for more behind what is none.

use crate::limits::LOG_READ_BYTES;

use super::disk::DiskError;
use super::file_header::{FILE_HEADER_BYTES, FileHeader, Identity};
use super::frame::{FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader};

/// Reads bytes of a file from an offset: fewer than there is room for only at its end.
type ReadAt<'a> = dyn FnMut(u64, &mut [u8]) -> Result<usize, DiskError> + 'a;

/// What stands at an offset.
#[derive(Debug)]
pub(super) enum Found<'a> {
    /// A frame, with its body.
    Frame { at: u64, header: FrameHeader, body: &'a [u8] },
    /// No frame; or one whose header is intact and whose body is not.
    Damage { at: u64, header: Option<FrameHeader> },
    /// The end, of the file or of what is to be read of it.
    End { at: u64 },
}

/// Reads a file's frames. Holds the longest of them in memory, and [`LOG_READ_BYTES`].
pub(super) struct Scanner<'a> {
    read_at: &'a mut ReadAt<'a>,
    seed: u32,
    /// What is behind is not looked at.
    limit: u64,
    /// Where the next frame stands.
    at: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Scanner<'a> {
    /// Of the file with this seed, up to `limit`.
    pub(super) fn new(read_at: &'a mut ReadAt<'a>, seed: u32, limit: u64) -> Scanner<'a> {
        let at = FILE_HEADER_BYTES as u64;
        Scanner { read_at, seed, limit, at, window: Vec::new(), window_at: 0 }
    }

    /// The next frame. After damage, [`resume`](Self::resume) says where it may go on.
    pub(super) fn next(&mut self) -> Result<Found<'_>, DiskError> {
        let at = self.at;
        let (seed, limit) = (self.seed, self.limit);
        let header_bytes = self.bytes(at, FRAME_HEADER_BYTES)?;
        if header_bytes.is_empty() {
            return Ok(Found::End { at });
        }
        let Some(header) = FrameHeader::decode(header_bytes, seed, at) else {
            return Ok(Found::Damage { at, header: None });
        };
        let frame_len = header.frame_len();
        let end = at + frame_len as u64;
        let frame = if end <= limit { self.bytes(at, frame_len)? } else { &[] };
        if !is_intact(&header, frame) {
            return Ok(Found::Damage { at, header: Some(header) });
        }
        self.at = end;
        // Borrowed anew: the window is where the frame is.
        let start = (at - self.window_at) as usize + FRAME_HEADER_BYTES;
        let body = &self.window[start..start + header.body_len as usize];
        Ok(Found::Frame { at, header, body })
    }

    /// Goes on behind damage. A damaged frame whose header is intact tells where the next one stands, which may be damaged too; otherwise the
    /// next intact frame is looked for. `false` if there is none.
    pub(super) fn resume(
        &mut self,
        at: u64,
        header: Option<&FrameHeader>,
    ) -> Result<bool, DiskError> {
        if let Some(header) = header {
            self.at = at + header.frame_len() as u64;
            return Ok(true);
        }
        let mut next = at + 8;
        loop {
            let seed = self.seed;
            // A whole step, so that what is looked through is read once.
            let bytes = self.bytes(next, LOG_READ_BYTES)?;
            if bytes.len() < FRAME_HEADER_BYTES {
                return Ok(false);
            }
            let starts = (0..=bytes.len() - FRAME_HEADER_BYTES).step_by(8);
            let mut candidates = starts.filter(|start| bytes[*start..].starts_with(&FRAME_MAGIC));
            let is_frame = |start: &usize| {
                FrameHeader::decode(&bytes[*start..], seed, next + *start as u64).is_some()
            };
            match candidates.find(is_frame) {
                None => {
                    // The last ones looked at are those that a header had room behind.
                    next += (bytes.len() - FRAME_HEADER_BYTES) as u64 / 8 * 8 + 8;
                }
                Some(start) => {
                    self.at = next + start as u64;
                    if matches!(self.next()?, Found::Frame { .. }) {
                        self.at = next + start as u64;
                        return Ok(true);
                    }
                    next = self.at + 8;
                }
            }
        }
    }

    /// Whether a frame at or behind `from` says that all before was synced farther than `damage_at`: then that is no torn write.
    pub(super) fn is_synced_behind(
        &mut self,
        damage_at: u64,
        header: Option<&FrameHeader>,
    ) -> Result<bool, DiskError> {
        let before = self.at;
        let mut may_go_on = self.resume(damage_at, header)?;
        let mut is_synced = false;
        while may_go_on && !is_synced {
            match self.next()? {
                Found::Frame { header, .. } => is_synced = header.synced > damage_at,
                Found::Damage { at, header } => may_go_on = self.resume(at, header.as_ref())?,
                Found::End { .. } => may_go_on = false,
            }
        }
        self.at = before;
        Ok(is_synced)
    }

    /// Up to `len` bytes from `at`: fewer at the limit, and at the end of the file. Memory is taken as far as there are bytes, not
    /// as a header promises.
    fn bytes(&mut self, at: u64, len: usize) -> Result<&[u8], DiskError> {
        let len = usize::try_from(self.limit.saturating_sub(at)).map_or(len, |left| left.min(len));
        let start = at.checked_sub(self.window_at).and_then(|start| usize::try_from(start).ok());
        let start = start.filter(|start| *start <= self.window.len());
        match start {
            Some(start) if start + len <= self.window.len() => {
                return Ok(&self.window[start..start + len]);
            }
            Some(start) => drop(self.window.drain(..start)),
            None => self.window.clear(),
        }
        self.window_at = at;
        while self.window.len() < len {
            let filled = self.window.len();
            self.window.resize(filled + LOG_READ_BYTES, 0);
            let read = (self.read_at)(at + filled as u64, &mut self.window[filled..])?;
            self.window.truncate(filled + read);
            if read < LOG_READ_BYTES {
                break;
            }
        }
        Ok(&self.window[..len.min(self.window.len())])
    }
}

/// Whether a frame's body, and the zeroes that fill it up, are what was written.
fn is_intact(header: &FrameHeader, frame: &[u8]) -> bool {
    let body_end = FRAME_HEADER_BYTES + header.body_len as usize;
    frame.len() == header.frame_len()
        && crc32c::crc32c(&frame[FRAME_HEADER_BYTES..body_end]) == header.body_checksum
        && frame[body_end..].iter().all(|byte| *byte == 0)
}

/// Reads the bytes of file number `file` of a log, whatever they are, and shows every intact frame with where it stands: for tests and tools.
/// `false` if the file's header is not intact.
pub fn read_file(
    identity: &Identity,
    file: u64,
    bytes: &[u8],
    visit: &mut dyn FnMut(u64, &FrameHeader, &[u8]),
) -> bool {
    let mut read_at = |offset: u64, into: &mut [u8]| {
        let start = usize::try_from(offset).map_or(bytes.len(), |start| start.min(bytes.len()));
        let read = into.len().min(bytes.len() - start);
        into[..read].copy_from_slice(&bytes[start..start + read]);
        Ok(read)
    };
    let mut scanner = Scanner::new(&mut read_at, identity.seed(file), u64::MAX);
    // Memory never fails to be read.
    while let Ok(found) = scanner.next() {
        match found {
            Found::Frame { at, header, body } => visit(at, &header, body),
            Found::Damage { at, header } => {
                if !scanner.resume(at, header.as_ref()).unwrap_or(false) {
                    break;
                }
            }
            Found::End { .. } => break,
        }
    }
    FileHeader::decode(bytes)
        .is_ok_and(|header| header.identity == *identity && header.file == file)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_protocol::{PartitionId, Version};
    use weft_transport::{NodeId, Time};

    use super::*;
    use crate::durable::holdings::Holdings;
    use crate::durable::log::{Log, Settings};
    use crate::durable::{Disk, FrameKind, Mode, recover};

    /// Keeps the bytes of one file.
    struct OneFile(Vec<u8>);

    impl Disk for OneFile {
        fn names(&mut self) -> Result<Vec<String>, DiskError> {
            Ok(Vec::new())
        }
        fn create(&mut self, _: &str, _: u64) -> Result<(), DiskError> {
            Ok(())
        }
        fn append(&mut self, _: &str, bytes: &[u8]) -> Result<(), DiskError> {
            self.0.extend_from_slice(bytes);
            Ok(())
        }
        fn sync(&mut self, _: &str) -> Result<(), DiskError> {
            Ok(())
        }
        fn sync_names(&mut self) -> Result<(), DiskError> {
            Ok(())
        }
        fn trim(&mut self, _: &str) -> Result<(), DiskError> {
            Ok(())
        }
        fn remove(&mut self, _: &str) -> Result<(), DiskError> {
            Ok(())
        }
        fn settle(&mut self, _: &str) -> Result<(), DiskError> {
            Ok(())
        }
        fn read_at(&mut self, _: &str, _: u64, _: &mut [u8]) -> Result<usize, DiskError> {
            Ok(0)
        }
    }

    fn identity() -> Identity {
        let cluster = 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100;
        Identity { cluster, node: NodeId(0x17), mode: Mode::Fsync }
    }

    /// A file of these entries of partition 5, closed.
    fn written(entries: &[&[u8]]) -> Vec<u8> {
        let mut disk = OneFile(Vec::new());
        let recovery = recover(&mut disk, identity(), &Settings::default()).unwrap();
        let mut log = Log::new(Settings::default(), &recovery);
        let mut drain = |log: &mut Log| {
            while let Some(mut effect) = log.poll(Time::ZERO) {
                let outcome = crate::durable::perform(&mut disk, &mut effect);
                log.done(effect, outcome, Time::ZERO);
            }
        };
        drain(&mut log);
        log.create(PartitionId(5), 2, Time::ZERO).unwrap();
        for (entry, sequence) in entries.iter().zip(1..) {
            let version = Version::new(3, sequence);
            log.append(PartitionId(5), version, version, &[entry], Time::ZERO).unwrap();
        }
        log.close();
        drain(&mut log);
        disk.0
    }

    /// Where frames stand, what they say, and their bodies.
    fn frames(bytes: &[u8]) -> Vec<(u64, FrameHeader, Vec<u8>)> {
        let mut frames = Vec::new();
        read_file(&identity(), 1, bytes, &mut |at, header, body| {
            frames.push((at, *header, body.to_vec()));
        });
        frames
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let page = include_str!("../../../docs/storage-format.md");
        let example =
            page.split("```text\n").find(|block| block.starts_with("77 65 66 74")).unwrap();
        let lines = example.split("```").next().unwrap().lines();
        let expected: Vec<u8> = lines
            .flat_map(|line| line.split('#').next().unwrap().split_ascii_whitespace())
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        assert_eq!(written(&[b"an entry"]), expected, "{:02x?}", written(&[b"an entry"]));
    }

    proptest! {
        #[test]
        fn of_a_file_that_was_changed_only_what_was_written_is_read(
            lens in prop::collection::vec(0_usize..300, 1..6),
            changes in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..5),
            cut in any::<prop::sample::Index>(),
        ) {
            let entries: Vec<Vec<u8>> = lens.iter().map(|len| vec![*len as u8; *len]).collect();
            let entries: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
            let bytes = written(&entries);
            let whole = frames(&bytes);
            prop_assert_eq!(whole.last().unwrap().1.kind, FrameKind::Close);
            let mut changed = bytes.clone();
            for (at, bits) in &changes {
                changed[at.index(bytes.len())] ^= bits;
            }
            for frame in frames(&changed) {
                prop_assert!(whole.contains(&frame));
            }
            changed.truncate(cut.index(bytes.len()));
            for frame in frames(&changed) {
                prop_assert!(whole.contains(&frame));
            }
            // Moved by a multiple of 8, no frame is one.
            prop_assert_eq!(frames(&[&[0; 8], &bytes[..]].concat()), []);
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            let mut holdings = Holdings::default();
            for (offset, header, _) in frames(&bytes) {
                holdings.apply(&header, crate::durable::holdings::Position { file: 1, offset });
            }
        }
    }

    #[test]
    fn a_frame_in_a_value_is_no_frame() {
        let inner = written(&[b"inner"]);
        let outer = written(&[&inner]);
        assert_eq!(frames(&outer).len(), 6);
        let mut changed = outer.clone();
        // The header of the entries' frame.
        let at = frames(&outer)[4].0 as usize;
        changed[at + 9] ^= 1;
        assert_eq!(frames(&changed).len(), 5, "what is behind it, and not what is in it");
    }
}
