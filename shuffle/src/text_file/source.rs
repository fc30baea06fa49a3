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

/// Reads a file from its beginning, without moving the cursor that all who have it open share, and
/// counts what it reads.
pub(super) struct CountedFile<'a> {
    file: &'a File,
    offset: u64,
    bytes_read: &'a AtomicU64,
}

/// Gives the text.
pub(super) enum Decoder<'a> {
    Plain(CountedFile<'a>),
    Gzip(GzipMembers<BufReader<CountedFile<'a>>>),
    /// Boxed because its tables are several times larger than the others.
    Zstd(Box<ZstdFrames<BufReader<CountedFile<'a>>>>),
}

impl Format {
    /// Told by the first bytes. No text begins with a mark: none is UTF-8 but that of skippable frames, which ends
    /// with a control character.
    pub(super) fn of(file: &File) -> io::Result<Format> {
        let ignored = AtomicU64::new(0);
        let mut head = Vec::with_capacity(ZSTD_MAGIC.len());
        CountedFile::new(file, &ignored).take(ZSTD_MAGIC.len() as u64).read_to_end(&mut head)?;
        Ok(match head.as_slice() {
            head if head.starts_with(&gzip_members::MAGIC) => Format::Gzip,
            head if head == ZSTD_MAGIC => Format::Zstd,
            [0x50..=0x5f, tail @ ..] if tail == ZSTD_SKIPPABLE_MAGIC_TAIL => Format::Zstd,
            _ => Format::Plain,
        })
    }
}

impl<'a> CountedFile<'a> {
    pub(super) fn new(file: &'a File, bytes_read: &'a AtomicU64) -> CountedFile<'a> {
        CountedFile { file, offset: 0, bytes_read }
    }
}

impl Read for CountedFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        self.bytes_read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl<'a> Decoder<'a> {
    pub(super) fn new(format: Format, file: CountedFile<'a>) -> Decoder<'a> {
        let buffered = |file| BufReader::with_capacity(COMPRESSED_READ_BYTES, file);
        match format {
            Format::Plain => Decoder::Plain(file),
            Format::Gzip => Decoder::Gzip(GzipMembers::new(buffered(file))),
            Format::Zstd => Decoder::Zstd(Box::new(ZstdFrames::new(buffered(file)))),
        }
    }
}

impl Read for Decoder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Decoder::Plain(source) => source.read(buffer),
            Decoder::Gzip(source) => source.read(buffer),
            Decoder::Zstd(source) => source.read(buffer),
        }
    }
}
