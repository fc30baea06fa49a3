//! The bytes of the text, whatever the file is compressed with.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::gzip_members::{self, GzipMembers};
use super::zstd_frames::ZstdFrames;

/// What one system call asks for below a decompressor.
const COMPRESSED_READ_BYTES: usize = 256 << 10;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A skippable frame of zstd, which parallel compressors put first; its first byte is 0x50 to 0x5f.
const ZSTD_SKIPPABLE_MAGIC_TAIL: [u8; 3] = [0x2a, 0x4d, 0x18];

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Plain,
    Gzip,
    Zstd,
}

/// Reads a file, without moving the cursor that all who have it open share.
struct FileReader<'a> {
    file: &'a File,
    offset: u64,
}

/// Counts what is read of a file.
pub(super) struct CountedFile<'a> {
    file: FileReader<'a>,
    bytes_read: &'a AtomicU64,
}

/// A file that is the text itself, which can be entered anywhere. What is read of it is counted by chunks, since readers look into those of others.
pub(super) struct PlainFile<'a> {
    file: FileReader<'a>,
    file_bytes: u64,
    bytes_read: &'a AtomicU64,
}

/// Gives the text.
pub(super) enum Decoder<'a> {
    Plain(PlainFile<'a>),
    Gzip(GzipMembers<BufReader<CountedFile<'a>>>),
    /// Boxed because its tables are several times larger than the others.
    Zstd(Box<ZstdFrames<BufReader<CountedFile<'a>>>>),
}

impl Format {
    /// Told by the first bytes. No text begins with a mark: none is UTF-8 but that of skippable frames, which ends
    /// with a control character.
    pub(super) fn of(file: &File) -> io::Result<Format> {
        let mut head = Vec::with_capacity(ZSTD_MAGIC.len());
        FileReader { file, offset: 0 }.take(ZSTD_MAGIC.len() as u64).read_to_end(&mut head)?;
        Ok(match head.as_slice() {
            head if head.starts_with(&gzip_members::MAGIC) => Format::Gzip,
            head if head == ZSTD_MAGIC => Format::Zstd,
            [0x50..=0x5f, tail @ ..] if tail == ZSTD_SKIPPABLE_MAGIC_TAIL => Format::Zstd,
            _ => Format::Plain,
        })
    }
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl Read for CountedFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.bytes_read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl<'a> Decoder<'a> {
    /// The text of a file of `file_bytes` bytes; what is read of it is added to `bytes_read`.
    pub(super) fn new(
        format: Format,
        file: &'a File,
        file_bytes: u64,
        bytes_read: &'a AtomicU64,
    ) -> Decoder<'a> {
        let file = FileReader { file, offset: 0 };
        let buffered = |file| {
            BufReader::with_capacity(COMPRESSED_READ_BYTES, CountedFile { file, bytes_read })
        };
        match format {
            Format::Plain => Decoder::Plain(PlainFile { file, file_bytes, bytes_read }),
            Format::Gzip => Decoder::Gzip(GzipMembers::new(buffered(file))),
            Format::Zstd => Decoder::Zstd(Box::new(ZstdFrames::new(buffered(file)))),
        }
    }

    /// Goes on `bytes` further in the text. Returns how many it were: of a compressed one fewer, if it ends before that; a plain one gives nothing there.
    pub(super) fn skip(&mut self, bytes: u64) -> io::Result<u64> {
        match self {
            Decoder::Plain(source) => {
                source.file.offset += bytes;
                Ok(bytes)
            }
            // There is no way but through it.
            Decoder::Gzip(source) => io::copy(&mut source.take(bytes), &mut io::sink()),
            Decoder::Zstd(source) => io::copy(&mut source.take(bytes), &mut io::sink()),
        }
    }

    /// A chunk of the share of who reads this is done, of so many bytes from `at` of the text. Compressed text is counted as it is read.
    pub(super) fn count_chunk(&self, at: u64, bytes: u64) {
        if let Decoder::Plain(source) = self {
            let bytes = source.file_bytes.saturating_sub(at).min(bytes);
            source.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl Read for Decoder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Decoder::Plain(source) => source.file.read(buffer),
            Decoder::Gzip(source) => source.read(buffer),
            Decoder::Zstd(source) => source.read(buffer),
        }
    }
}
