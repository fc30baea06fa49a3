//! What the two ends of a connection have down of the streamed bodies between them, for tests that compare it.

/// A body that has begun and not ended, by its sender.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentBody {
    pub(crate) number: u64,
    /// Bytes that have been taken for sending.
    pub(crate) taken: u64,
    /// The end of what may be.
    pub(crate) granted: u64,
}

/// A body that has begun and not ended, by its receiver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedBody {
    pub(crate) number: u64,
    pub(crate) received: u64,
    /// The end of what its sender has been told that it may send.
    pub(crate) told: u64,
    pub(crate) granted: u64,
    /// Bytes that there is memory for and that have not come.
    pub(crate) room: u64,
    /// Blocks that are granted, being filled, waiting, or lent.
    pub(crate) blocks: usize,
    /// Nothing more of it is taken.
    pub(crate) refused: bool,
}

/// What a sender has to count back as large and streamed bodies end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Not gathered to their end, a class.
    pub(crate) unfinished: [usize; 3],
    /// Begun and not ended.
    pub(crate) bodies: usize,
    pub(crate) queued_bytes: [usize; 3],
}
