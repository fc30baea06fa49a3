//! Map: tell a client who owns which slots.

use weft_protocol::{ErrorReply, Map, MapReply};
use weft_transport::CallId;

use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    request: Map,
) -> Result<(), ErrorReply<'static>> {
    let reply = MapReply::new(&work.node.map(), request);
    work.batch.reply(call, reply);
    Ok(())
}
