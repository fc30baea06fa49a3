//! The bounds on what a peer or an operator can make a node hold, and how they hang together.

use std::time::Duration;

use weft_protocol::TableOptions;
use weft_protocol::limits::{
    HOT_KEYS_MAX, KEY_MAX, MULTI_KEYS_MAX, NODES_MAX, REQUEST_VALUE_MAX, SCAN_PAGE_BYTES,
    WATCH_WAIT_MAX_MS,
};
use weft_transport::limits::MESSAGE_MAX;

/// The most threads that serve: more than the cores of any machine that this is for, and few enough
/// that each has its descriptors and its receive buffer.
pub const REACTORS_MAX: usize = 1024;

/// The least memory a node can be given, in bytes: receive buffers, segments for each
/// partition, and room to store something.
pub const MEMORY_MIN: u64 = 64 << 20;

/// Partitions that a node holds at most, whoever their primary is: as many as there are slots.
pub const HOSTED_MAX: usize = 16384;

/// Bytes that a node may use for messages before it is of a cluster.
pub const FORMING_MEMORY: u64 = 16 << 20;

/// Reports that a heartbeat carries.
pub const REPORTS_PER_HEARTBEAT_MAX: usize = 4_096;

/// For how long a node asks the coordinators before it says that they cannot be reached: longer than it takes to elect a leader.
pub const ASK_PATIENCE: Duration = Duration::from_secs(5);

/// For how long it waits for one of them.
pub const ASK_ATTEMPT: Duration = Duration::from_secs(1);

/// How long it rests when none of them knew.
pub const ASK_PAUSE: Duration = Duration::from_millis(50);

/// Questions that a node has put to the coordinators at a time.
pub const INQUIRIES_MAX: usize = 1_024;

/// Bytes of messages to a node that wait for room on its connection: what does not fit is sent again when replicas miss an answer.
pub const OUTBOX_BYTES: usize = 8 << 20;

/// Bytes of messages that wait for a coordinator, or for a node from one; a single one may be longer. What does not fit is sent again by who misses an
/// answer.
pub const INBOX_BYTES: usize = 8 << 20;

/// Values up to this length are copied into the reply; longer ones are gathered from the segment
/// that they lie in. Copying a kilobyte is cheaper than counting a pin up and down and giving the
/// kernel one more piece to gather.
pub const COPY_MAX: usize = 1 << 10;

/// Requests that are decoded, prefetched and executed together. Enough misses in flight to hide
/// the latency of memory (64 independent reads run 1.7 times as fast as 16 in the baselines), few
/// enough that nobody waits for long behind them.
pub const BATCH_MAX: usize = 64;

/// Bytes of values that one multi-get is answered with; the keys past it come back unprocessed and
/// the client asks again. Bounds how long one request keeps a reactor, and what it pins.
pub const MULTI_REPLY_MAX: usize = 8 << 20;

/// A part of a multi-get's reply is sent when it has this length: what the transport hands to the
/// system in one write.
pub const PART_BYTES: usize = 64 << 10;

/// Bytes that are freed at a time for a long value, in about a millisecond: there may have to be 64 MiB, and others wait meanwhile.
pub const UPLOAD_ROOM_BYTES: usize = 1 << 20;

/// Buckets of the index that one page of a scan looks at: some hundred microseconds, in which others wait for the
/// partition.
pub const SCAN_BUCKETS_MAX: usize = 512;

/// Keys of a range among which the first are looked for, in bytes: two pages of them, and one more.
pub const RANGE_KEYS_BYTES: usize = 2 * SCAN_PAGE_BYTES + KEY_MAX;

/// Keys whose requests are counted at a time: each that has more than one part in so many of a node's requests is among them. A sample
/// looks through all of them.
pub const HOT_KEYS_COUNTED: usize = 128;

/// Of so many requests one is looked at to find hot keys. At 100,000 requests a second a key that has a hundredth of them is known
/// to a sixth after ten seconds, and a request pays a sixty-fourth of what counting it costs.
pub const HOT_KEYS_SAMPLED_ONE_IN: u32 = 64;

/// How often the counts of hot keys are halved: soon enough that a key that has cooled down leaves within a minute or two, and
/// seldom enough that a thousand requests a second are something to count.
pub const HOT_KEYS_HALVED_EVERY: Duration = Duration::from_secs(10);

/// For how long a client is remembered that does not ask for more: long enough that renewing costs nothing, and that a client outlives a
/// change of coordinator; what it leaves behind is kept for as long.
pub const CLIENT_LEASE: Duration = Duration::from_secs(60);

/// For how long a worker is registered that says nothing: short enough that its work is soon given to others, and longer than the coordinators take to find another
/// leader.
pub const WORKER_LIFETIME: Duration = Duration::from_secs(6);

/// The most clients that have leases, of a megabyte or two.
pub const CLIENTS_MAX: usize = 1 << 16;

/// Clients that are over of which a node remembers that by their numbers, where no coordinator tells: as many as can have leases.
pub const CLIENTS_OVER_MAX: usize = CLIENTS_MAX;

/// How often a node looks whether partitions of which it is the primary have clients that are over.
pub const ENDING_PAUSE: Duration = Duration::from_secs(1);

/// Clients that a partition forgets in one step: as many entries as take a millisecond or so.
pub const CLIENTS_ENDED_TOGETHER: usize = 1_024;

/// Maps that a node keeps to tell a client what has changed since it had one of them: a failover takes a few.
pub const MAPS_KEPT: usize = 32;

/// The most watches that a node has open.
pub const WATCHES_MAX: usize = 1024;

/// The part of the network's memory that watches may take. Connections may take a half and rings that are shared a quarter, and the rest
/// has to do for what is received and sent.
pub const WATCHES_SHARE: u64 = 8;

/// Bytes of events that a node keeps for a watch whose client does not say how many: some ten thousand, which is what a client that
/// reads a value for each of them gets through in a second.
pub const WATCH_QUEUE_DEFAULT: usize = 1 << 20;

/// On a small node it is so small a part of what watches may take, so that there can be some.
pub const WATCH_QUEUE_DEFAULT_SHARE: u64 = 16;

/// The fewest bytes of events that a watch has room for.
pub const WATCH_QUEUE_MIN: usize = 4 << 10;

/// The most bytes of events that a watch has room for.
pub const WATCH_QUEUE_MAX: usize = 16 << 20;

/// A watch that was not asked for its events for so long ends: longer than a client takes to connect again after a node was out of
/// reach, and short enough that the queues of clients that are gone do not add up.
pub const WATCH_LEASE: Duration = Duration::from_secs(30);

/// The most data connections a node takes, whatever it has of memory and descriptors.
pub const CONNECTIONS_MAX: u64 = 10_000;

/// Descriptors that are not for data connections: those of the HTTP and the control port, of the reactors, and of
/// connections that are being read to their end. Of very few, half.
pub const DESCRIPTORS_RESERVED: u64 = 192;

/// The part of the network's memory that the state of connections may take.
pub const CONNECTIONS_SHARE: u64 = 2;

/// Connections that the HTTP port serves at once; one more ends the oldest.
pub const HTTP_CONNECTIONS_MAX: usize = 64;

/// Bytes of the head of an HTTP request: the least that the HTTP library can be limited to, and
/// many times what a scraper sends.
pub const HTTP_HEAD_MAX: usize = 8 << 10;

/// What an HTTP connection may take, in bytes: the head, the answer's head and figures as text, and
/// the library's state.
pub const HTTP_CONNECTION_BYTES: u64 = 32 << 10;

/// What all HTTP connections may take. Charged to the network's memory while the port is open.
pub const HTTP_BYTES: u64 = HTTP_CONNECTIONS_MAX as u64 * HTTP_CONNECTION_BYTES;

/// How long an HTTP connection may last, from its acceptance to the last byte of its answer.
pub const HTTP_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the HTTP port and the control port wait when the system cannot give them a connection.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections that the control port serves at once; one more ends the oldest. Fewer where [`CONTROL_SHARE`] has no room for so many.
pub const CONTROL_CONNECTIONS_MAX: usize = 16;

/// The part of the network's memory that the control port may take: three connections of the smallest node.
pub const CONTROL_SHARE: u64 = 16;

/// Calls that a connection to the control port may have under way, watches included.
pub const CONTROL_CALLS_MAX: u32 = 4;

/// The longest request of the control port, in bytes: the longest name of a table many times, and thousands of partitions.
pub const CONTROL_REQUEST_MAX: usize = 16 << 10;

/// Bytes of the headers of a call of the control port.
pub const CONTROL_HEADERS_MAX: usize = 8 << 10;

/// Bytes that may be on the way to the control port in a connection, and to or from it in a call: for people and their tools.
pub const CONTROL_WINDOW_BYTES: u32 = 16 << 10;

/// What a connection to the control port may take, in bytes: for each call its headers, its request, and what is on the way of that and of the
/// answer; what is on the way besides; and the library's state. What is answered, a few megabytes in the largest of clusters, is there only while
/// it is sent, as what a node is told of the map is.
pub const CONTROL_CONNECTION_BYTES: u64 = CONTROL_CALLS_MAX as u64
    * (CONTROL_HEADERS_MAX + CONTROL_REQUEST_MAX + 2 * CONTROL_WINDOW_BYTES as usize) as u64
    + CONTROL_WINDOW_BYTES as u64
    + (16 << 10);

/// How many connections the control port of a node with so much memory for the network serves at once. What they may take,
/// [`CONTROL_CONNECTION_BYTES`] each, is charged to that memory while the port is open.
pub fn control_connections_max(network_bytes: u64) -> usize {
    let by_memory = network_bytes / CONTROL_SHARE / CONTROL_CONNECTION_BYTES;
    by_memory.clamp(1, CONTROL_CONNECTIONS_MAX as u64) as usize
}

/// How long a call of the control port waits for the coordinators: longer than they take to find another leader.
pub const CONTROL_PATIENCE: Duration = Duration::from_secs(10);

/// How often a connection to the control port on which nothing happens is tried, and how long its answer may take.
pub const CONTROL_KEEP_ALIVE: Duration = Duration::from_secs(20);

/// How long calls of the control port may take to end when the node stops.
pub const CONTROL_STOP_PATIENCE: Duration = Duration::from_secs(1);

/// Maps that the control port keeps to tell watchers what has changed: of each, some hundred kilobytes where there are hundreds of partitions.
pub const CONTROL_MAPS_KEPT: usize = 4;

/// Partitions that begin anew at a time when an operator accepts their loss.
pub const CONTROL_LOSSES_TOGETHER: usize = 64;

/// The most outcomes that a partition remembers of one client: four of the largest multi-requests, in each partition. A client that is
/// told of more has to wait for answers.
pub const OUTCOMES_PER_CLIENT_MAX: usize = 4 * MULTI_KEYS_MAX;

/// The most outcomes that a partition remembers of all clients, a hundred megabytes of them, and the most clients. They count against the
/// memory limit, which may be reached before.
pub const OUTCOMES_MAX: usize = 1 << 20;

/// For how long what has expired is kept by who does not lead a partition: by how much clocks of nodes may differ. The primary may still
/// find it, and send what it made of it.
pub const EXPIRED_KEPT_MS: u64 = 60_000;

const _: () = assert!(OUTCOMES_PER_CLIENT_MAX < OUTCOMES_MAX);
/// The longest name of a zone, in bytes: that of a rack or of a zone of a provider.
pub const ZONE_MAX: usize = 64;

/// Into how many partitions a class of tables is divided at most, so that those of all classes (three numbers of replicas, three
/// durabilities) have numbers of 16 bits.
pub const PARTITIONS_PER_CLASS_MAX: u16 = 4_096;

/// Members and learners of a partition: as many as replicas, and as many to take their place.
pub const REPLICAS_HELD_MAX: usize = 2 * TableOptions::REPLICAS_MAX as usize;

/// Clients whose leases one command renews.
pub const RENEWALS_MAX: usize = 4_096;

/// Accepted proposals that the coordinator remembers: those of operators, clients and joining nodes within minutes, and nobody tries one
/// again for longer than seconds.
pub const PROPOSALS_MAX: usize = 4_096;

/// Nodes and clients that are gone which the coordinator remembers for those whose map is of before.
pub const HISTORY_MAX: usize = 4_096;

/// The longest entry of the coordinator's log, in bytes: the placement of the largest class takes an eighth.
pub const ENTRY_MAX: usize = 1 << 20;

/// Commands of one entry of the coordinator's log.
pub const ENTRY_COMMANDS_MAX: usize = 4_096;

/// The longest snapshot of the coordinator's state, in bytes: ten times that of 2,048 nodes, 9 classes of 4,096 partitions and 65,536 clients.
pub const CLUSTER_SNAPSHOT_MAX: usize = 64 << 20;

/// The longest answer of a coordinator, in bytes: how 2,048 nodes and 9 classes of 4,096 partitions are takes six million.
pub const ANSWER_MAX: usize = 16 << 20;

/// The longest notice between nodes and coordinators, in bytes: a snapshot from one coordinator to another, and what is around it.
pub const NOTICE_MAX: usize = CLUSTER_SNAPSHOT_MAX + (2 << 20);

/// Coordinators, those that only follow included: any two of five may be gone, and each is sent every entry.
pub const COORDINATORS_MAX: usize = 5;

/// Questions that a leader has not answered yet; whoever asks more is told to ask again.
pub const QUESTIONS_MAX: usize = 8_192;

/// Messages and questions that a coordinator takes before it does what they lead to, and looks at the time.
pub const MAIL_TOGETHER: usize = 256;

/// Lives of nodes that the leader tells of changes: twice as many as nodes, since one that was started anew may still be heard in both.
pub const LISTENERS_MAX: usize = 2 * NODES_MAX;

/// What the leader remembers of nodes that cannot reach one another, and of learners that have caught up, each.
pub const REPORTS_MAX: usize = 65_536;

const _: () = assert!(9 * PARTITIONS_PER_CLASS_MAX as usize <= 1 << 16);
/// The longest body of a frame in the log's files: an entry is never split, and may hold two of the longest values, the new one and
/// the one that its completion tells of, with keys and heads. Whoever reads a frame holds one body in memory.
pub const FRAME_BODY_MAX: usize = 160 << 20;

/// Bytes that may wait to be written to the log; an append beyond is refused. A quarter of a second of a disk that writes 250 MB/s:
/// who appends asks before whether there is room, and stops taking writes while there is none.
pub const LOG_BACKLOG_MAX: usize = 64 << 20;

/// The share of a node's memory that may wait for each of its logs, if that is less.
pub const LOG_BACKLOG_SHARE: u64 = 16;

/// Bytes that are written to the log in one piece, unless one frame is longer.
pub const LOG_WRITE_BYTES: usize = 1 << 20;

/// Entries of partitions that nobody else holds are made without asking the log for room, and shared state for it, up to this length ...
pub const LOG_UNASKED_BYTES: usize = 960;

/// ... where so much room is left: enough for one on each reactor, with its frame.
pub const LOG_ROOM_KEPT_BYTES: u64 = (REACTORS_MAX << 10) as u64;

/// What goes to a disk from where it lies, and not through the system's memory of files, begins at a multiple of this in the file and in memory: what
/// disks and file systems ask for at most.
pub const DIRECT_ALIGN: usize = 4096;

/// So many bytes go that way at least: fewer are copied sooner than they are waited for.
pub const DIRECT_MIN: usize = 64 << 10;

/// Bytes of entries that are put under one frame header: enough that the header costs nothing, few enough that damage concerns little.
pub const LOG_FRAME_BYTES: usize = 64 << 10;

/// Bytes that are read from the log at a time.
pub const LOG_READ_BYTES: usize = 1 << 20;

/// When a file of the log has this many bytes, the next one is begun.
pub const LOG_FILE_BYTES: u64 = 64 << 20;

/// How long the first one is; each next one is twice as long, up to [`LOG_FILE_BYTES`]. Room for a file is taken when it is made, and a node that keeps little is to take little.
pub const LOG_FIRST_FILE_BYTES: u64 = 4 << 20;

/// How many files' worth of bytes the log may have besides twice what is live, before partitions are written anew.
pub const LOG_SLACK_FILES: u64 = 4;

/// How long what a `disk` log was given waits to be synced, at most, if the disk keeps up.
pub const LOG_SYNC_INTERVAL: Duration = Duration::from_millis(200);

/// Bytes that a `disk` log has written when it syncs them, though the interval is not over: what the system holds back is what a sync takes
/// long for.
pub const LOG_SYNC_BYTES: u64 = 32 << 20;

/// How long a log whose disk is full waits before it tries again to make a file.
pub const LOG_FULL_PAUSE: Duration = Duration::from_millis(500);

/// Entries of a partition that a node keeps when it starts from its log, for members that have come less far: what can have been
/// on its way to the disks of several nodes at a time.
pub const RECOVERED_TAIL_BYTES: usize = 8 << 20;

/// The share of the node's memory that such entries of all partitions may take, beside it, until members have compared what they have.
pub const RECOVERED_TAIL_SHARE: u64 = 16;

const _: () =
    assert!(DESCRIPTORS_RESERVED > (HTTP_CONNECTIONS_MAX + CONTROL_CONNECTIONS_MAX) as u64);
const _: () = assert!(HTTP_CONNECTION_BYTES > 2 * HTTP_HEAD_MAX as u64);
const _: () =
    assert!(WATCH_QUEUE_MIN <= WATCH_QUEUE_DEFAULT && WATCH_QUEUE_DEFAULT <= WATCH_QUEUE_MAX);
const _: () = assert!(WATCH_LEASE.as_millis() > 2 * WATCH_WAIT_MAX_MS as u128);
const _: () = assert!(HOT_KEYS_COUNTED <= HOT_KEYS_MAX);
const _: () = assert!(COPY_MAX < REQUEST_VALUE_MAX);
const _: () = assert!(MULTI_REPLY_MAX >= MESSAGE_MAX);
const _: () = assert!(BATCH_MAX <= MULTI_KEYS_MAX);
const _: () = assert!(PART_BYTES + 1024 <= MESSAGE_MAX);
const _: () = assert!(FRAME_BODY_MAX <= u32::MAX as usize);
