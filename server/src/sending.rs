//! How a value gets into its reply.

use weft_transport::Shared;

use crate::counters::{Event, Tally};
use crate::limits::COPY_MAX;
use crate::pins::Pins;

/// How a value gets into its reply.
#[derive(Debug)]
pub(crate) enum Sending {
    /// Its bytes are copied.
    Copy,
    /// It is sent from the segment that it lies in, which it keeps until then.
    Gather(Shared),
}

/// Decides how `len` bytes of a value, which was found, are sent, and counts that. `pin` gives a view of
/// them.
#[inline]
pub(crate) fn sending(
    len: usize,
    pins: &Pins,
    tally: &mut Tally,
    pin: impl FnOnce() -> Shared,
) -> Sending {
    tally.event(Event::Hit);
    tally.add(Event::BytesRead, len as u64);
    if len > COPY_MAX {
        if pins.admit(len) {
            tally.event(Event::ValueGathered);
            return Sending::Gather(pin());
        }
        tally.event(Event::PinRefused);
    }
    tally.event(Event::ValueCopied);
    Sending::Copy
}
