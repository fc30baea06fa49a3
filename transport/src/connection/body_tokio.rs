//! Streamed bodies as tokio's byte streams.

use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use crate::error::BodyError;

use super::{BodyReader, BodyWriter};

/// Errors have the [`BodyError`] in them.
impl AsyncWrite for BodyWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, Error>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        Self::poll_write(&mut self, context, bytes).map_err(to_io)
    }

    /// Waits until what has been written has been sent, as [`flush`](BodyWriter::flush) does.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.poll_sent(context).map_err(to_io)
    }

    /// Ends the body, as [`finish`](BodyWriter::finish) does.
    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        self.poll_finish(context).map_err(to_io)
    }
}

/// Errors have the [`BodyError`] in them.
impl AsyncBufRead for BodyReader {
    fn poll_fill_buf(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<&[u8], Error>> {
        let reader = self.get_mut();
        if reader.part_read().is_empty() {
            let piece = ready!(reader.poll_next(context)).map_err(to_io)?;
            reader.set_part(piece);
        }
        Poll::Ready(Ok(reader.part_read()))
    }

    fn consume(self: Pin<&mut Self>, count: usize) {
        self.get_mut().consume_part(count);
    }
}

/// Errors have the [`BodyError`] in them.
impl AsyncRead for BodyReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), Error>> {
        let bytes = ready!(self.as_mut().poll_fill_buf(context))?;
        let count = bytes.len().min(buffer.remaining());
        buffer.put_slice(&bytes[..count]);
        self.consume(count);
        Poll::Ready(Ok(()))
    }
}

fn to_io(error: BodyError) -> Error {
    let kind = match &error {
        BodyError::Unsupported => ErrorKind::Unsupported,
        BodyError::HeadTooLong { .. } => ErrorKind::InvalidInput,
        BodyError::DeadlineExceeded | BodyError::Silent { .. } => ErrorKind::TimedOut,
        BodyError::Memory(_) => ErrorKind::OutOfMemory,
        BodyError::Disconnected { .. } => ErrorKind::ConnectionReset,
        BodyError::Aborted(_) => ErrorKind::ConnectionAborted,
        BodyError::Refused(_) => ErrorKind::BrokenPipe,
    };
    Error::new(kind, error)
}
