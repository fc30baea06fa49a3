//! Buffers that messages are sent from and received into, as their owner sees them.
//!
//! The explicit level beside [`Connection::send`] and [`Connection::receive`], which copy: what Javia-II
//! was to Javia-I (Chang and von Eicken). A buffer is allocated, registered with a connection,
//! posted and, when its ticket is done, there again. Whoever posts a buffer gives it away, so that
//! the compiler keeps the owner from what the transport is about to read or write.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::connection::{Connection, Core};
use crate::error::CloseReason;
use crate::memory::{Block, Memory, MemoryError, Purpose};
use crate::registration::{RegisterError, Registration};
use crate::ticket::Ticket;

/// The page about all of this, whose program is a test.
#[cfg(doctest)]
#[doc = include_str!("../../docs/buffers.md")]
struct Page;

/// Memory that can be registered: allocated from a [`Memory`], or a vector that its owner has anyway. It
/// reads and writes as a `[u8]`.
pub struct Buffer {
    block: Block,
}

impl Buffer {
    /// Allocates at least `len` bytes of registered memory, in whole pages, all zero.
    ///
    /// # Errors
    /// See [`Memory::allocate`].
    pub fn allocate(memory: &Memory, len: usize) -> Result<Self, MemoryError> {
        let mut block = memory.allocate(len, Purpose::Buffer)?;
        // It also has the pages there: now, rather than in the middle of a turn of the reactor.
        let len = block.len();
        block.mark_touched(len);
        block.fill(0);
        Ok(Self { block })
    }

    /// The vector that the buffer was made of. What it was registered with is undone.
    ///
    /// # Errors
    /// The buffer itself, if it was allocated.
    pub fn into_vec(self) -> Result<Vec<u8>, Self> {
        self.block.into_vector().map_err(|block| Self { block })
    }
}

impl From<Vec<u8>> for Buffer {
    /// The vector's bytes, where they lie. No memory limit counts them.
    fn from(vector: Vec<u8>) -> Self {
        Self { block: Block::from_vector(vector) }
    }
}

impl From<Box<[u8]>> for Buffer {
    /// The box's bytes, where they lie. No memory limit counts them.
    fn from(bytes: Box<[u8]>) -> Self {
        Vec::from(bytes).into()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.block
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len()).finish()
    }
}

/// A buffer that is registered with a connection, and can be posted on it.
///
/// ```
/// # use weft_transport::{PostFailed, RegisteredBuffer};
/// fn greet(mut buffer: RegisteredBuffer) -> Result<RegisteredBuffer, PostFailed> {
///     buffer[..5].copy_from_slice(b"hello");
///     let ticket = buffer.post_send(5);
///     let mut buffer = ticket.wait()?.buffer;
///     buffer[0] = b'j';
///     Ok(buffer)
/// }
/// ```
///
/// It reads and writes as a `[u8]`, as long as it is not posted:
///
/// ```compile_fail,E0382
/// # fn post(mut buffer: weft_transport::RegisteredBuffer) {
/// let ticket = buffer.post_send(5);
/// buffer[0] = 1; // It is the transport's until the ticket gives it back.
/// # }
/// ```
///
/// Nor can anything that was borrowed from it before be kept:
///
/// ```compile_fail,E0505
/// # fn post(buffer: weft_transport::RegisteredBuffer) {
/// let greeting = &buffer[..5];
/// let ticket = buffer.post_receive();
/// println!("{greeting:?}");
/// # }
/// ```
///
/// It cannot be unregistered, or posted twice, while it is:
///
/// ```compile_fail,E0382
/// # fn post(buffer: weft_transport::RegisteredBuffer) {
/// let ticket = buffer.post_receive();
/// let buffer = buffer.unregister();
/// # }
/// ```
///
/// ```compile_fail,E0382
/// # fn post(buffer: weft_transport::RegisteredBuffer) {
/// let first = buffer.post_send(5);
/// let second = buffer.post_send(5);
/// # }
/// ```
pub struct RegisteredBuffer {
    /// Before the block: a registration is out of use before its memory can go.
    registration: Option<Registration>,
    block: Block,
    core: Arc<Core>,
}

impl RegisteredBuffer {
    pub(crate) fn new(core: Arc<Core>, block: Block, registration: Option<Registration>) -> Self {
        Self { registration, block, core }
    }

    /// Sends the first `len` bytes as a message, from where they lie. The ticket is done when the
    /// transport needs the buffer no more: the link has the bytes, though the peer may not.
    ///
    /// Posted sends of a connection arrive in the order in which they were posted, but for those above
    /// [`MESSAGE_MAX`](crate::limits::MESSAGE_MAX) bytes that the receiver takes longer for; there is no
    /// order between them and what [`Connection::send`] sends. Never waits: what the peer's window has no
    /// room for is sent when there is.
    ///
    /// # Panics
    /// If the buffer has fewer bytes.
    pub fn post_send(self, len: usize) -> Ticket {
        assert!(len <= self.len(), "a send of {len} bytes from a buffer of {}", self.len());
        let Self { registration, block, core } = self;
        Ticket::send(core, block, registration, len)
    }

    /// Receives the next message for which no receive was posted earlier. The ticket is done when all of
    /// the message is in the buffer.
    ///
    /// A message that is longer than the buffer fails the receive with
    /// [`PostError::TooLong`](crate::PostError::TooLong), which says how long it is; it waits for the next
    /// receive that is long enough, and none that came later overtakes it.
    pub fn post_receive(self) -> Ticket {
        let Self { registration, block, core } = self;
        Ticket::receive(core, block, registration)
    }

    /// The buffer, to be read, written, dropped or registered with another connection. Its registration
    /// is kept until the memory goes or others need the room, so that the next one costs little.
    pub fn unregister(self) -> Buffer {
        Buffer { block: self.block }
    }

    /// What it is registered with.
    pub fn connection(&self) -> Connection {
        Connection::new(Arc::clone(&self.core))
    }
}

impl Deref for RegisteredBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block
    }
}

impl DerefMut for RegisteredBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.block
    }
}

impl fmt::Debug for RegisteredBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredBuffer").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Connection {
    /// Registers `buffer` with this connection, so that it can be posted here. Over verbs, with the
    /// device's protection domain, which connections of one reactor share; over other links its pages
    /// count as locked, and nothing else is done with them. Either way there is one bound for the process,
    /// `RLIMIT_MEMLOCK`, and what is registered already is found in a cache.
    ///
    /// # Errors
    /// [`RegisterFailed`], which has the buffer.
    pub fn register(&self, buffer: Buffer) -> Result<RegisteredBuffer, RegisterFailed> {
        if let Some(reason) = self.core.closed() {
            let error = RegisterFailure::Disconnected(reason.clone());
            return Err(RegisterFailed { buffer, error });
        }
        match Registration::make(&buffer.block, &self.core.link.domain()) {
            Ok(registration) => {
                let core = Arc::clone(&self.core);
                Ok(RegisteredBuffer::new(core, buffer.block, Some(registration)))
            }
            Err(error) => Err(RegisterFailed { buffer, error: RegisterFailure::Refused(error) }),
        }
    }
}

/// A buffer that could not be registered, and why. It reads as that reason does.
#[derive(Debug)]
pub struct RegisterFailed {
    /// The buffer, as it was.
    pub buffer: Buffer,
    /// Why.
    pub error: RegisterFailure,
}

impl std::fmt::Display for RegisterFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for RegisterFailed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // What stands behind the reason: the reason itself has been said.
        self.error.source()
    }
}

/// Why a buffer could not be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterFailure {
    /// The connection has ended.
    #[error("disconnected: {0}")]
    Disconnected(CloseReason),
    /// There is no room for it, or the device refused.
    #[error(transparent)]
    Refused(#[from] RegisterError),
}
