//! Renew-client: have a client's lease begin anew.

use weft_protocol::{ErrorCode, ErrorReply, RenewClient};
use weft_transport::CallId;

use crate::clients::leasing;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    renew: RenewClient,
) -> Result<(), ErrorReply<'static>> {
    let node = work.node;
    if node.coordination.cluster().is_some() {
        leasing::renew(work, renew.client);
        return Ok(());
    }
    let renewed = node.clients.renew(renew.client, node.now());
    let reply = renewed.ok_or(ErrorReply::new(ErrorCode::ClientUnknown))?;
    work.replies.reply(call, reply);
    Ok(())
}
