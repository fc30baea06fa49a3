//! All frames of a zstd file, one after the other, each held to its checksum.
//!
//! `ruzstd` decodes one frame and leaves to its caller that a file may have many, that some of them are
//! to be skipped, and whether the checksum is right.

use std::error::Error;
use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Gives what the frames of `source` hold.
pub(super) struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
    /// Whether the decoder has a frame that was not read to its end.
    in_frame: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    pub(super) fn new(source: R) -> ZstdFrames<R> {
        ZstdFrames { source, decoder: FrameDecoder::new(), in_frame: false }
    }

    /// Goes to the next frame that holds something, if there is one.
    fn next_frame(&mut self) -> io::Result<()> {
        while !self.in_frame
            && let Some(first) = self.source.fill_buf()?.first()
        {
            // The decoder would take a few bytes of something else for a frame that is cut off.
            if !matches!(first, 0x28 | 0x50..=0x5f) {
                let what = "what follows a complete frame of zstd is no other one";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            match self.decoder.init(&mut self.source) {
                Ok(()) => self.in_frame = true,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => skip(&mut self.source, length.into())?,
                Err(error) => return Err(decoding_failed(error)),
            }
        }
        Ok(())
    }

    fn end_frame(&mut self) -> io::Result<()> {
        let told = self.decoder.get_checksum_from_data();
        if told.is_some() && told != self.decoder.get_calculated_checksum() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum does not match"));
        }
        self.in_frame = false;
        Ok(())
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.next_frame()?;
            if !self.in_frame {
                return Ok(0);
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if self.decoder.is_finished() {
                self.end_frame()?;
            } else {
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(decoding_failed)?;
            }
        }
    }
}

fn skip(source: &mut impl Read, length: u64) -> io::Result<()> {
    let skipped = io::copy(&mut source.take(length), &mut io::sink())?;
    if skipped < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// The decoder's error, with the kind that tells a failing disk and a file that is cut off from one
/// that is damaged.
fn decoding_failed(error: FrameDecoderError) -> io::Error {
    let kind = match &error {
        FrameDecoderError::WindowSizeTooBig { .. } | FrameDecoderError::DictNotProvided { .. } => {
            io::ErrorKind::Unsupported
        }
        _ => {
            let mut causes = std::iter::successors(error.source(), |cause| (*cause).source());
            causes
                .find_map(|cause| cause.downcast_ref::<io::Error>())
                .map_or(io::ErrorKind::InvalidData, io::Error::kind)
        }
    };
    io::Error::new(kind, error)
}
