//! The bounds on what a client does by itself, and how they hang together.

use std::time::Duration;

use weft_protocol::limits::MULTI_KEYS_MAX;
use weft_transport::Backoff;
use weft_transport::limits::WINDOW_MIN;

/// The first pause before an operation is tried again.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The longest pause before an operation is tried again, and before a node is connected to again: one
/// that comes back is noticed within twice this time.
pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The pauses between attempts to connect to one node, however many operations wait for it: for an
/// endpoint that a client shares, as those of its own have it.
pub const BACKOFF: Backoff = Backoff { first: PAUSE_MIN, max: PAUSE_MAX };

/// How long one node may take to hand out its map before the next one is asked as well.
pub(crate) const MAP_PATIENCE: Duration = Duration::from_millis(250);

/// How long a client that finds nodes without a map waits before it asks for one again.
pub(crate) const FORMING_PAUSE: Duration = Duration::from_millis(50);

/// How long an attempt is waited for before the client looks whether the node still serves the key, and again after each such look. The request
/// is not sent a second time for that: a node that is slow has it, and would only have more to do. It goes to another node when
/// the map says that another one serves the key, or to the same one when the connection is lost.
pub(crate) const ATTEMPT_PATIENCE: Duration = Duration::from_millis(250);

/// Mutations that one client has under way, from the oldest on: so many are handed out while one waits for a node that has failed. Nodes remember
/// as many of it, of some sixty bytes each, so it is not more.
pub(crate) const SEQUENCES_MAX: u64 = 1 << 16;

/// How long after a lease could not be renewed that is tried again.
pub(crate) const LEASE_PAUSE: Duration = Duration::from_secs(1);

/// How long after nodes gave no leases they are asked again: they may be of another release by then.
pub(crate) const UNSUPPORTED_PAUSE: Duration = Duration::from_secs(10);

/// For how long nodes that have not said which tables there are are waited for when another one has.
pub(crate) const CATALOG_PATIENCE: Duration = Duration::from_millis(250);

/// How long a node that serves something may take to say how much, before it is looked whether others serve that by now.
pub(crate) const SERVER_PATIENCE: Duration = Duration::from_secs(1);

/// How long one node may take to have a change of the tables decided before another one is asked as well, for the same change.
pub(crate) const DECISION_PATIENCE: Duration = Duration::from_secs(1);

/// How long a change of the tables that is decided waits for nodes to learn of it. Who is told of it does not depend on that.
pub(crate) const SPREAD_PATIENCE: Duration = Duration::from_millis(500);

/// The map is not fetched again on mere suspicion (an owner that cannot be reached) when the last
/// fetch ended less than this ago.
pub(crate) const MAP_FRESH: Duration = Duration::from_millis(100);

/// How many nodes are asked for the map in one go. Any node has it, so in a cluster of a thousand
/// there is no point in asking them all.
pub(crate) const MAP_SOURCES_MAX: usize = 5;

/// Pieces of a value that are on their way at a time: enough that neither side waits for the other.
pub(crate) const UPLOAD_PIECES_MAX: usize = 8;

/// How often a value is uploaded at most, if the node forgets it meanwhile.
pub(crate) const UPLOADS_MAX: usize = 3;

/// The smallest memory limit that a client starts with: room to send and receive the largest
/// message on a few connections.
pub(crate) const MEMORY_MIN_BYTES: u64 = 16 << 20;

// One multi-request always finds numbers for its items.
const _: () = assert!(SEQUENCES_MAX >= 2 * MULTI_KEYS_MAX as u64);
const _: () = assert!(PAUSE_MIN.as_nanos() < PAUSE_MAX.as_nanos());
const _: () = assert!(PAUSE_MAX.as_nanos() <= MAP_FRESH.as_nanos());
const _: () = assert!(MEMORY_MIN_BYTES >= 4 * WINDOW_MIN as u64);
