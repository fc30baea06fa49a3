//! Expire: append an object once more, with another expiry.

use weft_protocol::limits::REQUEST_VALUE_MAX;
use weft_protocol::{ErrorReply, Expire, ExpireReply, Slot};
use weft_transport::CallId;

use crate::needed::Needed;
use crate::store::Expired;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    expire: &Expire<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &Expire { target, expires_at_ms } = expire;
    let (table, key) = (target.table, target.key);
    let needed = Needed::longer(key, 0);
    let written = work.write((table, slot), target.completion, needed, |partition, now_ms| {
        let expired = partition.expire(table, &key, expires_at_ms, REQUEST_VALUE_MAX, now_ms)?;
        let version = expired.unwrap_or(partition.version());
        Ok(Expired { version, exists: expired.is_some() })
    })?;
    let Expired { version, exists } = written.answer;
    work.replies.reply(call, ExpireReply { version, exists });
    Ok(())
}
