//! Put-tables: have the tables that a client names.

use weft_protocol::{ErrorReply, PutTables};
use weft_transport::CallId;

use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    put: &PutTables<'_>,
) -> Result<(), ErrorReply<'static>> {
    work.held.release();
    let node = work.node;
    let (partitions, evictor) = (&node.partitions, &node.evictor);
    let reply = node.catalog.put(partitions, evictor, put.expected, put.catalog.catalog());
    node.sweeper.look_for_buried();
    work.batch.reply(call, reply);
    Ok(())
}
