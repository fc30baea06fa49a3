//! The bounds on everything that a peer can size, and how they hang together.

use std::time::Duration;

use crate::frame::frame_len;

/// The longest body that is sent in one frame, in bytes. A longer one is announced and goes in
/// chunks, if both sides can do that, or is refused with a typed error on the sending side.
pub const MESSAGE_MAX: usize = 1 << 20;

/// The longest body of a message, request or reply, in bytes: 64 MiB, and 64 KiB for what programs say of so much. Such
/// a one has a block of its own on either side.
pub const LARGE_MAX: usize = (64 << 20) + (64 << 10);

/// Bytes of a large body that go at once, but for the end of it: a small frame waits for no more.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Bytes of large bodies that are granted and not received, over all transfers of one direction of a
/// connection: what loopback needs to be busy while a grant is on its way. With twice as much, small calls beside
/// large replies take up to twice as long, since all of it may lie before theirs in the system's buffers.
pub const GRANTED_MAX: usize = 128 << 10;

/// Parts of large bodies that are read from the peer's memory at once, over all transfers of one direction of
/// a connection.
pub(crate) const FETCHES_MAX: usize = 4;

/// Bytes of these. No small frame waits behind them; what comes in chunks is granted nothing while they are more than it may have.
pub(crate) const FETCHED_MAX: usize = FETCHES_MAX * CHUNK_BYTES;

/// The peer whose memory is read is told each time that so much more of a body has been, in bytes: that it
/// goes on.
pub(crate) const TAKEN_TOLD_EVERY: usize = 4 << 20;

/// How many transfers of one direction may be announced and unfinished. A sender keeps the others
/// to itself; one more ends the connection.
pub const TRANSFERS_MAX: usize = 24;

/// How many transfers of one direction and class have a block and grants at a time.
pub(crate) const LANDING_MAX: usize = 4;

/// The part of the memory that is not set aside which one large body may take.
pub(crate) const LARGE_SHARE: u64 = 4;

/// Large bodies that wait for one connection, in bytes, or one that is longer: further senders wait.
/// Each class is counted apart. Of replies, what lay elsewhere before is not counted: requests would wait for
/// replies to others, and whoever keeps it bounds that memory.
pub(crate) const LARGE_QUEUED_MAX: usize = 16 << 20;

/// The longest message, request or reply that a streamed body begins with, in bytes: it goes in one piece,
/// and nothing waits longer for it than for a chunk.
pub const BODY_HEAD_MAX: usize = 32 << 10;

/// How much of a streamed body may be granted, received or lent to its reader and not given back yet, in bytes.
/// There is memory for all of that before it is granted. As much waits at its sender.
pub const BODY_AHEAD_MAX: usize = 256 << 10;

/// The same in blocks of one chunk each.
pub(crate) const BODY_BLOCKS: usize = BODY_AHEAD_MAX / CHUNK_BYTES;

/// How many streamed bodies of one direction may have begun and not ended. A sender keeps the others to
/// itself; one more ends the connection.
pub const BODIES_MAX: usize = 24;

/// What a reply counts for beside the memory that was taken for it, among the large replies that wait, if its body is streamed
/// or lay elsewhere before, in bytes: no more than 1,024 of them.
pub(crate) const REPLY_QUEUED_COST: usize = LARGE_QUEUED_MAX / 1024;

/// Pieces of a streamed body that wait to be sent: short ones do not cost more for their number than for
/// their bytes.
pub(crate) const BODY_PIECES_MAX: usize = 256;

/// What is lent to a streamed body up to this length is copied instead, in bytes: it costs less than to gather
/// it, and to hold on to the memory that it is a part of.
pub(crate) const BODY_COPIED_MAX: usize = 4 << 10;

/// After so many receives without a part of a streamed body none is expected to be next.
pub(crate) const BODY_EXPECTED_FOR: u32 = 4;

/// The longest body of a hello or goodbye, in bytes: whoever has not yet said who they are gets
/// no more than this.
pub const GREETING_MAX: usize = 256;

/// The largest window a peer may grant us, in bytes; a hello that grants more is refused.
pub const WINDOW_MAX: u32 = 64 << 20;

/// No more of a peer's window than this is used, in bytes: what waits for a peer is our memory, and
/// the peer decides how long.
pub(crate) const SEND_AHEAD_MAX: u64 = 16 << 20;

/// The smallest window that a peer may grant, in bytes: a message of the largest size fits.
pub const WINDOW_MIN: u32 = 2 << 20;

/// How many calls may wait for their replies on one connection; one more waits for its turn.
pub const CALLS_MAX: usize = CALL_SLOTS / 4 * 3;

/// The same with those [for replication](crate::Connection::for_replication), which have what is beyond `CALLS_MAX` to
/// themselves.
pub(crate) const CALL_SLOTS: usize = 1 << 16;

/// Of how many hellos of nodes the incarnations are kept at least, and of twice as many at most,
/// beside those of nodes that are connected.
pub(crate) const NODES_KEPT: u64 = 4096;

/// How many addresses a connection manager tries by itself at once; what is asked for comes on top.
pub(crate) const ATTEMPTS_MAX: usize = 64;

/// How many events of nodes wait for one who does not take them; one more drops the oldest.
pub(crate) const EVENTS_MAX: usize = 1024;

/// How long a peer may take from connecting to a complete hello.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a peer may take to end a connection that this side leaves, or to take what was committed when the endpoint is
/// shut down; then it is closed.
pub const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes received at once into a reactor's buffer.
pub(crate) const RECEIVE_BYTES: usize = 256 << 10;

/// While a long body is to be expected that has its place already, no more than this is received
/// elsewhere, in bytes: the rest of it then goes where it belongs without being copied there.
pub(crate) const PLACED_HEAD_BYTES: usize = 4 << 10;

/// Bodies that are worth one more receive, in bytes: copying them would cost more.
pub(crate) const PLACED_MIN: usize = 32 << 10;

/// Incomplete frames up to this length are carried over to the front of the next receive: the
/// longest greeting, so that nobody is given a block before they have said who they are. Longer ones
/// get a block of their own that the rest is received into.
pub(crate) const CARRY_MAX: usize = frame_len(GREETING_MAX);

/// Requests that wait for room for their replies are copied into blocks of this size, in bytes, or
/// of their own if they are longer.
pub(crate) const DEFER_BYTES: usize = 16 << 10;

/// What a connection is charged for its state, in bytes, for as long as it lives: what both sides'
/// structures and the beginning of a short frame take: 3,996, and a little for what allocators round. Measured
/// (`server/tests/node/crowd.rs`).
pub const CONNECTION_BYTES: u64 = 4160;

/// The part of the memory that is left free by ending the connections that have kept the others
/// waiting for longest: room for whoever comes and goes at once.
pub(crate) const FREE_SHARE: u64 = 4;

/// How long the peer may take until a link that is tried before TCP has come about; then the
/// connection goes on over the next one.
pub(crate) const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(1);

/// The part of the memory, without what is set aside for sessions, that links may take, for rings
/// shared with peers and for buffers that a device reads and writes; connections beyond that run
/// over TCP.
pub(crate) const LINK_SHARE: u64 = 4;

/// The part of the memory that receive buffers may take which handlers hold on to; beyond it, what
/// is retained is copied.
pub(crate) const RETAINED_SHARE: u64 = 4;

/// The part of `RLIMIT_MEMLOCK` up to which memory is registered that nobody has asked to have registered, so that it can
/// be sent from: the other half is left to queues, receives and users' buffers, without which there is no
/// connection.
#[cfg(any(test, feature = "verbs"))]
pub(crate) const LENT_SHARE: u64 = 2;

/// Bodies from this length on are written into a block of their own and gathered from there, in bytes; ...
pub(crate) const GATHER_MIN: usize = 32 << 10;

/// ... over shared memory, where they are copied once more and that is cheaper from what has just been copied, from this length on, ...
pub(crate) const SHM_GATHER_MIN: usize = 64 << 10;

/// ... or when this much waits in the lane already, in bytes: lanes keep the memory that they have grown to, blocks go with
/// what lies in them.
pub(crate) const SHM_GATHER_BACKLOG: u64 = 256 << 10;

/// Messages up to this length are copied out of posted buffers, in bytes: it costs less than to gather
/// two pieces, and keep track of them until the link has taken them.
pub(crate) const COPIED_MAX: usize = 1 << 10;

/// Bytes handed to the link in one gathered write: as many as TCP puts into one segment at most, which is
/// a few less than 64 KiB, by headers of up to 72 bytes over loopback. Streams pay by the segment there: one
/// byte more than fits makes a second one, and costs a third of all throughput.
pub(crate) const BATCH_BYTES: usize = (64 << 10) - 128;

/// A thread that has this much of requests or replies to send does not wait for the end of its turn, in bytes, unless the last send over a socket was a
/// moment ago: the peer can work on them while the rest is being written. The least ...
pub(crate) const OVERLAP_BYTES_MIN: u32 = 2 << 10;

/// ... and the most.
pub(crate) const OVERLAP_BYTES_MAX: u32 = 32 << 10;

/// Pieces handed to the link in one gathered write.
pub(crate) const BATCH_PIECES: usize = 64;

/// The first and smallest ring of a lane, in bytes. In a model, one that a few words fill.
pub(crate) const RING_MIN: usize = if cfg!(all(test, feature = "loom")) { 64 } else { 4 << 10 };

const _: () = assert!(WINDOW_MIN as usize >= frame_len(MESSAGE_MAX) + RECEIVE_BYTES);
const _: () = assert!(WINDOW_MIN <= WINDOW_MAX);
const _: () = assert!(CARRY_MAX < PLACED_HEAD_BYTES && PLACED_HEAD_BYTES < RECEIVE_BYTES);
const _: () = assert!(MESSAGE_MAX < LARGE_MAX);
const _: () = assert!(frame_len(CHUNK_BYTES) <= RECEIVE_BYTES);
const _: () = assert!(CHUNK_BYTES.is_multiple_of(8) && GRANTED_MAX.is_multiple_of(CHUNK_BYTES));
const _: () = assert!(GATHER_MIN <= SHM_GATHER_MIN && SHM_GATHER_MIN <= MESSAGE_MAX);
const _: () = assert!(BODY_HEAD_MAX <= CHUNK_BYTES && BODY_AHEAD_MAX.is_multiple_of(CHUNK_BYTES));
const _: () = assert!(BODY_COPIED_MAX <= CHUNK_BYTES && BODY_COPIED_MAX * 32 >= CHUNK_BYTES);
