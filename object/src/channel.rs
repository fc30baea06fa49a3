//! Sending graphs from one process to another: the verbs of Naos (Taranov et al., ATC '21), whose `writeObject`, `readObject`, `isReadable`,
//! `writeObjectAsync` and handles to wait for these are, over any link of the transport.
//!
//! - A [`GraphListener`] is the handler of the endpoint that receives. It [accepts](GraphListener::accept) channels.
//! - A [`GraphSender`] opens a channel over a connection: the two agree on the types once. It [sends](GraphSender::send) graphs, which is
//!   handing over their segments, or [begins to](GraphSender::send_async) and waits or tests later.
//! - A [`GraphReceiver`] [receives](GraphReceiver::receive) them in the order in which they were sent, checked, to be used where they
//!   were received.
//!
//! # Who does what, when
//! - Each segment is checked by whoever receives it, on its reactor's thread, while the next is on its way. A graph is lent when its last
//!   segment has been checked, and not before.
//! - A send is over when the receiver has all segments and has found nothing wrong with them. Nobody has to have called
//!   [`receive`](GraphReceiver::receive): the receiver grants each channel so many bytes ahead of that ([`GraphLimits::granted_bytes`]),
//!   which come back when a graph is received. While some are left nobody is asked; the sender asks for more when half are used.
//! - A graph that is larger than that is granted what it needs when all before it have been received, on a channel that somebody has accepted.
//!
//! # What is copied
//! Segments of 128 KiB and more are used in the buffer that they were received into. So are all that are larger than a message
//! ([`MESSAGE_MAX`](weft_transport::limits::MESSAGE_MAX)): these land in blocks of their own. Messages of shorter ones are copied once, out of a buffer that they share with others,
//! and so are those for which the channels of a connection would hold up more than a quarter of its window.

mod bond;
mod bundle;
mod error;
mod inlet;
mod listener;
mod message;
mod received;
mod receiver;
mod sender;
mod sent;

pub use self::error::{ReceiveError, SendGraphError};
pub use self::listener::{GraphLimits, GraphListener};
pub use self::received::ReceivedBytes;
pub use self::receiver::GraphReceiver;
pub use self::sender::GraphSender;
pub use self::sent::Sent;
