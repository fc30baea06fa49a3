//! Multi-put: put after put, in the order of the request; one that fails does not stop the others.

use weft_protocol::{ErrorReply, MultiPut, PutReply};
use weft_transport::CallId;

use crate::counters::Event;
use crate::hot_keys::Access;
use crate::lookahead::Lookahead;
use crate::needed::Needed;
use crate::partitions::Place;
use crate::work::{Work, Written};

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    multi_put: &MultiPut<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &MultiPut { table, pairs, completion, .. } = multi_put;
    let mut part = work.take_part();
    let mut pairs = Lookahead::new(table, pairs.iter(), |pair| pair.key);
    while let Some((index, pair, Place { slot, .. })) = pairs.next(&mut work.held) {
        work.tally.event(Event::Item);
        work.sample_item(table, pair.key, Access::Write);
        let len = pair.key.len() + pair.value.len();
        let completion = completion.map(|completion| completion.item(index));
        let done =
            work.write((table, slot), completion, Needed::object(len), |partition, now_ms| {
                partition.put(table, &pair.key, &pair.value, pair.expires_at_ms, now_ms)
            });
        let pushed = match done {
            Ok(Written { answer: version, is_repeated }) => {
                if !is_repeated {
                    work.tally.add(Event::BytesWritten, pair.value.len() as u64);
                }
                part.push(index, &PutReply { version })
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
