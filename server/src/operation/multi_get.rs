//! Multi-get: objects in the order of the request, in parts that are sent as they fill.
//!
//! What has no room comes back unprocessed and the client asks again, as with DynamoDB's
//! `UnprocessedKeys`. The room is what the peer's window has left, which fills up when the peer
//! reads slowly, and [`MULTI_REPLY_MAX`], which bounds how long others wait.

use weft_protocol::limits::REQUEST_VALUE_MAX;
use weft_protocol::{ErrorReply, GetReply, MultiGet, PartBuilder, ReplyHead};
use weft_transport::{Batch, CallId};

use crate::counters::{Event, Tally};
use crate::hot_keys::Access;
use crate::limits::{COPY_MAX, MULTI_REPLY_MAX, PART_BYTES};
use crate::lookahead::Lookahead;
use crate::partitions::Place;
use crate::pins::Pins;
use crate::sending::{Sending, sending};
use crate::store::ObjectRef;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    multi_get: &MultiGet<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &MultiGet { table, keys, .. } = multi_get;
    let mut answer = Answer {
        call,
        part: work.take_part(),
        keys_left: keys.len(),
        value_bytes: 0,
        is_full: false,
        has_sent: false,
    };
    let mut keys = Lookahead::new(table, keys.iter(), |key| *key);
    while let Some((index, key, Place { slot, tag })) = keys.next(&mut work.held) {
        if !answer.is_full {
            work.sample_item(table, key, Access::Read);
        }
        let Work { node, replies, held, tally, now_ms, .. } = work;
        tally.event(Event::Item);
        answer.keys_left -= 1;
        if answer.is_full {
            answer.leave(index, tally);
        } else {
            match held.enter_to_read(table, slot) {
                Err(error) => answer.refuse(index, &error, tally),
                Ok((partition, committed)) => {
                    let newest = partition.version();
                    let found = partition.get_tagged(tag.expect(OWNED), table, &key, *now_ms);
                    let version = found.as_ref().map_or(newest, |object| object.version);
                    let told = replies.depends_on(committed, version);
                    if let Err(error) = told {
                        answer.refuse(index, &error, tally);
                    } else if committed.excludes(version) {
                        // Asked for again, it can be told: the last part goes when it can.
                        answer.leave(index, tally);
                    } else if let Some(object) = found {
                        answer.add(index, &object, replies.batch, &node.pins, tally);
                    } else {
                        tally.event(Event::Miss);
                        let absent = GetReply::Absent { version };
                        answer.part.push(index, &absent).expect(HEAD_FITS);
                    }
                }
            }
        }
        if answer.part.encoded_len() >= PART_BYTES {
            answer.send_part(replies.batch);
        }
        work.survey_pins_if_due();
    }
    if answer.has_sent {
        // Parts keep their order only if all go at once.
        work.replies.depends_on_nothing();
    }
    work.finish_part(call, answer.part);
    Ok(())
}

/// Parts are sent long before they are full, so that items without a value always fit.
const HEAD_FITS: &str = "a part of less than PART_BYTES has room for a head";

/// A value goes into a part that has room for it, or is empty.
const ITEM_FITS: &str = "an empty part has room for every item";

/// Which partitions a node owns does not change.
const OWNED: &str = "a key of a partition that is owned has a tag";

/// What a part takes of the window beside its items, at most: the frame's header and padding, the
/// part's head, the padding of an item.
const PART_OVERHEAD: usize = 64;

/// The reply as far as it is made.
struct Answer {
    call: CallId,
    part: PartBuilder,
    /// Keys that have no item yet.
    keys_left: usize,
    /// Bytes of all values so far.
    value_bytes: usize,
    /// A value had no room. Those after it are left too, small as they may be: whoever asks again
    /// asks for the rest, in order.
    is_full: bool,
    /// Parts have been sent.
    has_sent: bool,
}

impl Answer {
    fn add(
        &mut self,
        index: usize,
        object: &ObjectRef<'_>,
        batch: &mut Batch<'_>,
        pins: &Pins,
        tally: &mut Tally,
    ) {
        let len = object.value.len();
        // A value that is longer than a message takes next to nothing of the window, and one is always answered.
        let is_long = len > REQUEST_VALUE_MAX;
        let is_too_much = self.value_bytes + len > MULTI_REPLY_MAX && self.value_bytes > 0;
        let in_window = if is_long { 0 } else { len };
        if is_too_much || self.room_needed(in_window) > batch.reply_room() {
            self.is_full = true;
            return self.leave(index, tally);
        }
        self.value_bytes += len;
        if self.part.len_with(len) > PART_BYTES && !self.part.is_empty() {
            self.send_part(batch);
        }
        let version = object.version;
        let sending = sending(len, pins, tally, || object.pin());
        if let Sending::Copy = sending
            && len <= COPY_MAX
        {
            let found = GetReply::Found { version, value: object.value };
            return self.part.push(index, &found).expect(ITEM_FITS);
        }
        let head = self.part.finish_gathered(index, version, len).expect(ITEM_FITS);
        self.has_sent = true;
        match sending {
            // Straight to where it is sent from: a part that grew with it would be a second copy.
            Sending::Copy => batch.reply_part(self.call, [head, object.value]),
            Sending::Gather(value) => batch.reply_part_shared(self.call, head, value),
        }
        self.part.clear();
    }

    /// Room for what is in the part, a value of `len` bytes, and a head for each key that is left:
    /// every key gets its item, whatever becomes of it.
    fn room_needed(&self, len: usize) -> usize {
        let heads_len = self.keys_left * ReplyHead::LEN;
        let parts = 3 + heads_len / PART_BYTES;
        self.part.len_with(len) + heads_len + parts * PART_OVERHEAD
    }

    fn leave(&mut self, index: usize, tally: &mut Tally) {
        tally.event(Event::Unprocessed);
        self.part.push_unprocessed(index).expect(HEAD_FITS);
    }

    fn refuse(&mut self, index: usize, error: &ErrorReply<'_>, tally: &mut Tally) {
        tally.event(Event::Refused);
        self.part.push_error(index, error).expect(HEAD_FITS);
    }

    fn send_part(&mut self, batch: &mut Batch<'_>) {
        batch.reply_part(self.call, self.part.finish());
        self.part.clear();
        self.has_sent = true;
    }
}
