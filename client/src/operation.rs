//! The operations: one file each, with what it asks and how it reads the answer.

pub(crate) mod abort_upload;
pub(crate) mod append;
pub(crate) mod compare_and_set;
pub(crate) mod complete_upload;
pub(crate) mod delete;
pub(crate) mod exists;
pub(crate) mod expire;
pub(crate) mod get;
pub(crate) mod get_and_delete;
pub(crate) mod get_and_put;
pub(crate) mod get_fields;
pub(crate) mod get_range;
pub(crate) mod increment;
pub(crate) mod multi_delete;
pub(crate) mod multi_get;
pub(crate) mod multi_put;
pub(crate) mod put;
pub(crate) mod put_fields;
pub(crate) mod range;
pub(crate) mod scan;
pub(crate) mod upload_piece;
pub(crate) mod watch;
pub(crate) mod watch_next;

use weft_protocol::{Key, NumberedHead, PreviousReply, Target};
use weft_transport::{Connection, Reply};

use crate::core::Heading;
use crate::error::ClientError;
use crate::object::{Object, Replaced};

/// What a mutation of `key` begins with.
#[inline]
fn target(heading: Heading, key: Key<'_>) -> Target<'_> {
    let Heading { table, map_epoch, completion } = heading;
    Target { table, map_epoch, completion, key }
}

/// What a reply says of the object that a mutation has replaced or removed.
fn replaced(reply: Reply, from: &Connection) -> Result<Replaced, ClientError> {
    let PreviousReply { version, previous } =
        PreviousReply::decode(&reply).map_err(|error| ClientError::of_reply(from, error))?;
    let Some(was) = previous.map(|previous| previous.version) else {
        return Ok(Replaced { version, previous: None });
    };
    let message_len = reply.len();
    let previous = Object::new(reply.slice(NumberedHead::LEN..message_len), was);
    Ok(Replaced { version, previous: Some(previous) })
}
