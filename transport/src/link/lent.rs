//! Bytes that a link may send from where they lie, since they are in memory that is registered with it.

use std::fmt::Debug;
use std::sync::Arc;

use crate::memory::Shared;

/// Bytes that are worth a piece of their own in a message: fewer are copied beside what precedes them.
pub(crate) const LENT_MIN: usize = 1 << 10;

/// A piece of what is to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where they may be sent from where they lie.
    pub(crate) lending: Option<Lending<'a>>,
}

/// Who has memory that a link sends from.
pub(crate) trait Owner: Debug + Send + Sync {
    /// The link never says that it is done with the memory: a device that tells of nothing any more may read it for ever. It
    /// and its owner are kept for as long as the process lives, so whoever waits for the memory waits in vain. May be called several times.
    #[cfg_attr(not(feature = "verbs"), expect(dead_code, reason = "only a device is so"))]
    fn lose(&self);
}

/// Memory that a link may hold on to until it has been sent.
#[cfg_attr(not(feature = "verbs"), expect(dead_code, reason = "only a device takes it"))]
#[derive(Debug)]
pub(crate) struct Lending<'a> {
    /// It begins with the bytes that are to be sent.
    pub(crate) memory: &'a Shared,
    /// By which the device knows it, for as long as its owner lives.
    pub(crate) key: u32,
    /// Who has it registered, or what keeps it so. Is let go of last.
    pub(crate) owner: Arc<dyn Owner>,
}

#[cfg(feature = "verbs")]
impl Lending<'_> {
    /// A view of `len` bytes from `start` on.
    pub(crate) fn part(&self, start: usize, len: usize) -> Shared {
        self.memory.slice(start..start + len)
    }
}
