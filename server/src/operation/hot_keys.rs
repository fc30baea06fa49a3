//! Hot-keys: tell which keys were asked for the most of late.

use weft_protocol::{ErrorReply, HotKeys, TableId};
use weft_transport::CallId;

use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    request: HotKeys,
) -> Result<(), ErrorReply<'static>> {
    // Whoever changes the catalog takes partitions' locks while it has the catalog's.
    work.held.release();
    let node = work.node;
    let catalog = node.catalog.get();
    let is_there = |id| id == TableId::DEFAULT || catalog.table(id).is_some();
    let hottest = node.hot_keys.hottest(request.keys_max as usize, is_there, node.now());
    work.replies.reply(call, hottest.reply());
    Ok(())
}
