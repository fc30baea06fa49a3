//! A part of a text file, cut at line ends, in pieces that end between words.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::Context as _;

/// Few enough bytes that those who count are not kept waiting; no word may be longer.
const PIECE_BYTES: usize = 1 << 20;

/// What is left of the part, and the piece that was read last.
pub(crate) struct Text {
    file: File,
    at: u64,
    end: u64,
    piece: Vec<u8>,
}

impl Text {
    /// Part number `part` of `parts`, whose lines begin in that part of the bytes of the file.
    pub(crate) fn open(path: &Path, part: usize, parts: usize) -> anyhow::Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let bytes = file.metadata()?.len();
        let cut = |part: usize| {
            let at = u128::from(bytes) * part as u128 / parts as u128;
            line_from(&file, at as u64)
        };
        let (at, end) = (cut(part)?, cut(part + 1)?);
        Ok(Self { file, at, end, piece: Vec::with_capacity(PIECE_BYTES) })
    }

    /// How many bytes are not read yet.
    pub(crate) fn bytes(&self) -> u64 {
        self.end - self.at
    }

    /// The next piece; none at the end of the part.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<&[u8]>> {
        let bytes = (PIECE_BYTES as u64).min(self.bytes()) as usize;
        if bytes == 0 {
            return Ok(None);
        }
        self.piece.resize(bytes, 0);
        self.file.read_exact_at(&mut self.piece, self.at).context("cannot read the text")?;
        if (bytes as u64) < self.bytes() {
            let blank = self.piece.iter().rposition(u8::is_ascii_whitespace);
            let at = self.at;
            let blank = blank.with_context(|| {
                format!("at byte {at} begins a word of more than {PIECE_BYTES} bytes, the limit")
            })?;
            self.piece.truncate(blank + 1);
        }
        self.at += self.piece.len() as u64;
        Ok(Some(&self.piece))
    }
}

/// Where the first line begins that does not begin before `at`; the end of the file if there is none.
fn line_from(file: &File, at: u64) -> anyhow::Result<u64> {
    // A line begins at `at` if the byte before ends one.
    let Some(mut at) = at.checked_sub(1) else {
        return Ok(0);
    };
    let mut bytes = vec![0; PIECE_BYTES];
    loop {
        let read = file.read_at(&mut bytes, at).context("cannot read the text")?;
        if read == 0 {
            return Ok(at);
        }
        if let Some(end) = bytes[..read].iter().position(|byte| *byte == b'\n') {
            return Ok(at + end as u64 + 1);
        }
        at += read as u64;
    }
}

/// The words of a piece: what lies between ASCII whitespace.
pub(crate) fn words(piece: &[u8]) -> impl Iterator<Item = &[u8]> {
    piece.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}
