//! Put-tables: have the tables that a client names.

use weft_protocol::{ErrorReply, PutTables};
use weft_transport::CallId;

use crate::scratch::Use;
use crate::store::StoreError;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    put: &PutTables<'_>,
) -> Result<(), ErrorReply<'static>> {
    work.provide(Use::Tables);
    work.held.release();
    let node = work.node;
    let catalog = put.catalog.catalog();
    let (partitions, evictor, hot_keys) = (&node.partitions, &node.evictor, &node.hot_keys);
    let reply = node
        .catalog
        .put(partitions, evictor, hot_keys, put.expected, catalog)
        .map_err(|error| node.refusal(&StoreError::MemoryLimit(error)))?;
    partitions.positions().for_each(|position| work.take_in(position));
    node.sweeper.look_for_buried();
    work.replies.reply(call, reply);
    Ok(())
}
