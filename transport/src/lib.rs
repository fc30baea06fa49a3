//! Moves frames between nodes, aggregated and flow-controlled, out of and into registered memory.
//!
//! # Layout
//! - [`Endpoint`], [`Connection`]: what users hold. [`Handler`], [`Batch`]: what a server implements.
//! - [`ConnectionManager`]: which nodes there are, and the connections to them.
//! - `session`: the protocol of one connection, without I/O and without a clock: `inbound` (frames
//!   in), `outbound` (lanes to batches), `credit` (windows), `call` (who waits for which reply).
//! - `reactor`: who polls, receives, dispatches and flushes; `idle`: how it waits.
//! - `link`: the closed enum of what carries bytes (TCP, shared memory, verbs, a simulated network); `poller`: readiness of links.
//! - `stream` (with the feature `streams`): a link by itself, as a byte stream for tokio's programs.
//! - [`Buffer`], [`Ticket`]: buffers that users register and post; `registration`: what that is bounded by.
//! - [`BodyWriter`], [`BodyReader`]: bodies of any length, sent and received as they go.
//! - [`Memory`]: the registered memory that everything is sent from and received into.
//!
//! The crate knows no operation, no key and no table.

#![deny(unsafe_code)]

pub mod frame;
pub mod handshake;
pub mod limits;

mod body;
mod buffer;
mod catching;
mod connection;
mod driver;
mod endpoint;
mod error;
mod handler;
mod handling;
mod identity;
mod idle;
mod lane;
mod link;
mod local;
mod manager;
mod memory;
#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
mod models;
mod poller;
mod reactor;
mod registration;
mod reply;
mod secret;
mod session;
#[cfg(feature = "streams")]
mod stream;
mod sync;
mod ticket;
mod time;
#[cfg(test)]
mod trials;

pub use body::Body;
pub use buffer::{Buffer, RegisterFailed, RegisterFailure, RegisteredBuffer};
pub use connection::{
    BodyReader, BodyWriter, Calling, Connection, Ended, Peer, Receiving, Replies, Sending,
};
pub use endpoint::{Endpoint, EndpointConfig, EndpointStats, Sleep};
pub use error::{
    AcceptError, Applied, BodyError, CallError, CloseReason, ConnectError, EndpointError, Goodbye,
    PostError, SendError, StopReason,
};
pub use handler::{
    Batch, CallId, Handler, HandlerPool, Incoming, IncomingKind, MessageHandler, NoHandler,
    PooledMessages, Responder, Retained, RetainedMessages,
};
pub use handshake::Windows;
pub use identity::{Incarnation, NodeId};
pub use idle::{PollPolicy, UnknownPollPolicy};
#[doc(hidden)]
pub use link::SharedMapping;
pub use link::{
    LinkKind, LinkPolicy, SimConfig, SimCounters, SimCrash, SimNetwork, UnknownLinkPolicy,
    VerbsError, VerbsOptions,
};
pub use manager::{AddressState, Backoff, ConnectionManager, ListedAddress, NodeEvent, NodeEvents};
pub use memory::{
    Account, Appender, Block, Charge, Memory, MemoryConfig, MemoryError, PAGE_BYTES, Purpose,
    Reserve, Shared, Taken,
};
pub use registration::{RegisterError, RegistrationStats, registration_stats};
pub use reply::Reply;
pub use secret::Secret;
pub use session::inflow::BodyPiece;
pub use session::receives::Messages;
#[cfg(feature = "streams")]
pub use stream::{
    StreamConfig, StreamCounters, WeftListener, WeftReadHalf, WeftStream, WeftWriteHalf,
};
pub use ticket::{Completed, PostFailed, Ticket, TimedOut, Until};
pub use time::{Clock, ManualClock, Skew, SkewedClock, SystemClock, Time};
