//! Multi-delete: delete after delete, in the order of the request; one that fails does not stop the
//! others.

use weft_protocol::{DeleteReply, ErrorReply, MultiDelete};
use weft_transport::CallId;

use crate::counters::Event;
use crate::hot_keys::Access;
use crate::lookahead::Lookahead;
use crate::needed::Needed;
use crate::partitions::Place;
use crate::store::Deleted;
use crate::work::{Work, Written};

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    multi_delete: &MultiDelete<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &MultiDelete { table, keys, completion, .. } = multi_delete;
    let mut part = work.take_part();
    let mut keys = Lookahead::new(table, keys.iter(), |key| *key);
    while let Some((index, key, Place { slot, .. })) = keys.next(&mut work.held) {
        work.tally.event(Event::Item);
        work.sample_item(table, key, Access::Write);
        let completion = completion.map(|completion| completion.item(index));
        let done =
            work.write((table, slot), completion, Needed::removal(key), |partition, now_ms| {
                partition.delete(table, &key, now_ms)
            });
        let pushed = match done {
            Ok(Written { answer: Deleted { version, existed }, .. }) => {
                part.push(index, &DeleteReply { version, existed })
            }
            Err(error) => {
                work.tally.event(Event::Refused);
                part.push_error(index, &error)
            }
        };
        pushed.expect("items without a value or a detail always fit one part");
    }
    work.finish_part(call, part);
    Ok(())
}
