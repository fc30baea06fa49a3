//! Expire: append an object once more, with another expiry.

use weft_protocol::limits::REQUEST_VALUE_MAX;
use weft_protocol::{ErrorReply, Expire, ExpireReply, Slot};
use weft_transport::CallId;

use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    expire: &Expire<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &Expire { target, expires_at_ms } = expire;
    let (table, key) = (target.table, target.key);
    let reply = work.write(table, slot, key.len(), |partition, now_ms| {
        let expired = partition.expire(table, &key, expires_at_ms, REQUEST_VALUE_MAX, now_ms)?;
        let version = expired.unwrap_or(partition.version());
        Ok(ExpireReply { version, exists: expired.is_some() })
    })?;
    work.replies.reply(call, reply);
    Ok(())
}
