//! Upload-piece: bring a piece of a value that is too long for one request.

use weft_protocol::{Slot, UploadPiece, UploadPieceReply};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::operation::target;
use crate::retry::Effect;
use crate::upload::Upload;

/// The piece that begins at `offset`.
pub(crate) struct AskUploadPiece<'a> {
    pub(crate) upload: &'a Upload<'a>,
    pub(crate) number: u64,
    pub(crate) offset: usize,
}

impl Ask for AskUploadPiece<'_> {
    type Answer = UploadPieceReply;
    /// A piece that comes twice is the same piece, and changes no object.
    const EFFECT: Effect = Effect::Read;

    fn slot(&self) -> Slot {
        self.upload.key.slot()
    }

    fn request(&self, heading: Heading) -> impl Body {
        let &Self { upload, number, offset } = self;
        let (copied_len, bytes) = upload.piece(offset);
        UploadPiece {
            target: target(heading, upload.key),
            expires_at_ms: upload.expires_at_ms,
            upload: number,
            value_len: upload.len() as u32,
            offset: offset as u64,
            copied_from: upload.start.version,
            keeps_expiry: upload.keeps_expiry,
            copied_len: copied_len as u32,
            bytes,
        }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<UploadPieceReply, ClientError> {
        UploadPieceReply::decode(&reply).map_err(|error| ClientError::of_reply(from, error))
    }
}
