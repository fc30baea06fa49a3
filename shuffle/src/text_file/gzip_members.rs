//! All members of a gzip file, one after the other, each held to its checksum.
//!
//! `flate2` reads many members too, but takes a few bytes behind the last one for the beginning of one
//! more, and says that the file is cut off.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// How every member begins.
pub(super) const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Gives what the members of `source` hold.
pub(super) struct GzipMembers<R> {
    /// None once all have been read.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> GzipMembers<R> {
    pub(super) fn new(source: R) -> GzipMembers<R> {
        GzipMembers { member: Some(GzDecoder::new(source)) }
    }

    /// Goes to the next member, if there is one.
    fn next_member(&mut self) -> io::Result<()> {
        let Some(member) = self.member.take() else { return Ok(()) };
        let mut source = member.into_inner();
        let head = source.fill_buf()?;
        if head.is_empty() {
            return Ok(());
        }
        // Of one byte that is read alone, the decoder finds the rest.
        if !head.starts_with(&MAGIC[..head.len().min(MAGIC.len())]) {
            let what = "what follows a complete member of gzip is no other one";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        self.member = Some(GzDecoder::new(source));
        Ok(())
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while let Some(member) = &mut self.member {
            match member.read(buffer)? {
                0 => self.next_member()?,
                count => return Ok(count),
            }
        }
        Ok(0)
    }
}
