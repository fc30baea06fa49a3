//! How a value gets into its reply.

use weft_transport::Shared;

use crate::counters::{Event, Tally};
use crate::limits::COPY_MAX;
use crate::pins::Pins;
use crate::store::ObjectRef;

/// How a value gets into its reply.
#[derive(Debug)]
pub(crate) enum Sending {
    /// Its bytes are copied.
    Copy,
    /// It is sent from the segment that it lies in, which it keeps until then.
    Gather(Shared),
}

/// Decides how the value of `object`, which was found, is sent, and counts that.
#[inline]
pub(crate) fn sending(object: &ObjectRef<'_>, pins: &Pins, tally: &mut Tally) -> Sending {
    tally.event(Event::Hit);
    tally.add(Event::BytesRead, object.value.len() as u64);
    if object.value.len() > COPY_MAX {
        if pins.admit(object.value.len()) {
            tally.event(Event::ValueGathered);
            return Sending::Gather(object.pin());
        }
        tally.event(Event::PinRefused);
    }
    tally.event(Event::ValueCopied);
    Sending::Copy
}
