//! The levels at which a message can be sent and received.

use crate::serve::Service;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    /// `send` and `receive`: the transport copies.
    Copying,
    /// Buffers that were registered once, posted again and again.
    Posted,
    /// As `Posted`, but each message's buffer is registered before it and unregistered behind it, with
    /// nothing left in the cache.
    Anew,
}

impl Level {
    pub(super) fn name(self) -> &'static str {
        match self {
            Level::Copying => "copying",
            Level::Posted => "posted",
            Level::Anew => "registered anew",
        }
    }

    /// The service that sends each message back.
    pub(super) fn echo(self) -> Service {
        match self {
            Level::Copying => Service::CopyingEcho,
            Level::Posted => Service::PostedEcho,
            Level::Anew => Service::AnewEcho,
        }
    }

    /// The service that counts messages.
    pub(super) fn sink(self) -> Service {
        match self {
            Level::Copying => Service::CopyingSink,
            Level::Posted => Service::PostedSink,
            Level::Anew => Service::AnewSink,
        }
    }
}
