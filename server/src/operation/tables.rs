//! Tables: tell a client which tables there are.

use weft_protocol::{ErrorReply, TablesReply};
use weft_transport::CallId;

use crate::scratch::Use;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
) -> Result<(), ErrorReply<'static>> {
    work.provide(Use::Tables);
    // Whoever changes the catalog takes partitions' locks while it has the catalog's.
    work.held.release();
    work.replies.reply(call, TablesReply { catalog: work.node.catalog.get() });
    Ok(())
}
