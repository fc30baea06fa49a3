//! The bounds on everything that a peer can size, and how they hang together.

use weft_transport::limits::{LARGE_MAX, MESSAGE_MAX};

use crate::numbered::NumberedHead;
use crate::prefix::PREFIX_LEN;
use crate::reply::HEAD_LEN;
use crate::watch_event::WatchEvent;

/// The longest key, in bytes: what the 16-bit length in requests and object headers can say. An
/// empty key is a key, as in Redis.
pub const KEY_MAX: usize = 65_535;

/// The longest value, in bytes. A reply carries it whole.
pub const VALUE_MAX: usize = 64 << 20;

/// The longest value that one request carries, in bytes, and the longest record of fields: with the longest key and
/// everything optional it fits one message. A longer value is uploaded in pieces, so that no request keeps a node for
/// longer than it takes to copy a message.
pub const REQUEST_VALUE_MAX: usize = MESSAGE_MAX - (KEY_MAX + 1) - 1024;

/// Bytes of each piece of an upload, but for the last one: what is copied and summed in some tens of microseconds.
pub const UPLOAD_PIECE_BYTES: usize = 256 << 10;

/// The most keys of one multi-request. A request is worked off in one go by one reactor, so this
/// also bounds how long it can keep others waiting.
pub const MULTI_KEYS_MAX: usize = 16_384;

/// The most bytes that the keys or pairs of one multi-request may take.
pub const LIST_BYTES_MAX: usize = MESSAGE_MAX - PREFIX_LEN - COMPLETION_LEN;

/// The most fields of a record, and of a request for some.
pub const FIELDS_MAX: usize = 1_024;

/// The most objects of one page of a scan.
pub const SCAN_OBJECTS_MAX: usize = 1_024;

/// The most bytes of one page of a scan, but for one key that is longer.
pub const SCAN_PAGE_BYTES: usize = 256 << 10;

/// The most tables of a cluster, beside the one that is always there.
pub const TABLES_MAX: usize = 1_024;

/// The longest name of a table, in bytes.
pub const TABLE_NAME_MAX: usize = 128;

/// The most keys of a reply to hot-keys.
pub const HOT_KEYS_MAX: usize = 1_024;

/// The most bytes of a key that such a reply carries; of longer keys the rest is left out.
pub const HOT_KEY_BYTES_MAX: usize = 256;

/// The most events of a reply to watch-next.
pub const WATCH_EVENTS_MAX: usize = 16_384;

/// The most bytes of the events of such a reply.
pub const WATCH_PAGE_BYTES: usize = 256 << 10;

/// The longest that a node waits for an event before it answers that there is none, in milliseconds: short enough that whoever is
/// in between does not take the connection for dead.
pub const WATCH_WAIT_MAX_MS: u32 = 10_000;

/// The longest text that an error reply carries, in bytes; longer ones are cut.
pub const ERROR_DETAIL_MAX: usize = 512;

/// The most nodes of a cluster map.
pub const NODES_MAX: usize = 2_048;

/// The most partitions of a cluster map, of all classes together.
pub const PARTITIONS_MAX: usize = 16_384;

/// The most members of a partition: one that is to go stays until those that take its place are in sync.
pub const MEMBERS_MAX: usize = 5;

/// The longest address of a node, in bytes: a DNS name is at most 253, and the port follows.
pub const ADDRESS_MAX: usize = 260;

/// The most workers of a cluster.
pub const WORKERS_MAX: usize = 1_024;

/// The longest name of a worker's build, in bytes: a SHA-256 as digits.
pub const WORKER_BUILD_MAX: usize = 64;

/// The most counters of a stats reply.
pub const COUNTERS_MAX: usize = 4_096;

/// The longest name of a counter, in bytes.
pub const COUNTER_NAME_MAX: usize = 128;

/// The longest entry of a partition, in bytes: what one message carries. It has room for an object of the largest value and a key
/// of 63 KiB, the completion of the request that made it, and their headers.
pub const ENTRY_MAX: usize = LARGE_MAX - 64;

/// The most entries of one message between nodes.
pub const ENTRIES_MAX: usize = 16_384;

/// Entries that are sent in one message, in bytes, but for one that is longer: enough that its head costs nothing, and little enough
/// that what is behind it does not wait long.
pub const APPEND_BYTES: usize = 256 << 10;

/// The most acknowledgements of one message between nodes.
pub const ACKNOWLEDGEMENTS_MAX: usize = 4_096;

/// The most bytes of records in one piece of a snapshot.
pub const SNAPSHOT_PIECE_MAX: usize = ENTRY_MAX;

/// Bytes of a completion id.
pub(crate) const COMPLETION_LEN: usize = 20;

/// Bytes of an expiry.
pub(crate) const EXPIRY_LEN: usize = 8;

// The largest object fits a put, a multi-put of its own, a get's reply and a part of its own.
const _: () = {
    // With the version that a compare-and-set expects.
    let put = PREFIX_LEN + COMPLETION_LEN + EXPIRY_LEN + 8 + KEY_MAX + REQUEST_VALUE_MAX;
    let pair = 8 + EXPIRY_LEN + KEY_MAX + REQUEST_VALUE_MAX;
    assert!(put <= MESSAGE_MAX);
    assert!(pair <= LIST_BYTES_MAX);
    assert!(2 + KEY_MAX <= LIST_BYTES_MAX);
    assert!(
        PREFIX_LEN + COMPLETION_LEN + EXPIRY_LEN + KEY_MAX + 32 + UPLOAD_PIECE_BYTES <= MESSAGE_MAX
    );
    assert!(REQUEST_VALUE_MAX < VALUE_MAX && VALUE_MAX.is_multiple_of(UPLOAD_PIECE_BYTES));
    assert!(2 * HEAD_LEN + VALUE_MAX <= LARGE_MAX);
    assert!(NumberedHead::LEN + VALUE_MAX <= LARGE_MAX);
};

// Replies without values to a whole multi-request always fit one part, and so does an item that
// says why it failed.
const _: () = assert!(HEAD_LEN + MULTI_KEYS_MAX * HEAD_LEN <= MESSAGE_MAX);
const _: () = assert!(2 * HEAD_LEN + ERROR_DETAIL_MAX <= MESSAGE_MAX);

// A page has room for the longest key and the largest value that it carries.
const _: () = assert!(SCAN_PAGE_BYTES / 2 + KEY_MAX < SCAN_PAGE_BYTES);
const _: () = assert!(SCAN_PAGE_BYTES <= MESSAGE_MAX && SCAN_OBJECTS_MAX <= u16::MAX as usize);

// A reply to watch-next has room for an event of the longest key.
const _: () = assert!(WatchEvent::HEAD_LEN + KEY_MAX <= WATCH_PAGE_BYTES);
const _: () = assert!(HEAD_LEN + WATCH_PAGE_BYTES <= MESSAGE_MAX);
const _: () = assert!(WATCH_EVENTS_MAX <= u16::MAX as usize);

// The longest entry fits a message between nodes, and so do all acknowledgements.
const _: () = assert!(32 + 16 + ENTRY_MAX.next_multiple_of(8) <= LARGE_MAX);
const _: () = assert!(VALUE_MAX + (63 << 10) + 512 <= ENTRY_MAX);
const _: () = assert!(8 + ACKNOWLEDGEMENTS_MAX * 16 <= MESSAGE_MAX);
const _: () = assert!(ACKNOWLEDGEMENTS_MAX <= u16::MAX as usize);

// An item's index is 16 bits wide.
const _: () = assert!(MULTI_KEYS_MAX <= 1 << 16);

// The largest catalog, map and the longest stats and lists of hot keys fit a message.
const _: () = assert!(PREFIX_LEN + 20 + (TABLES_MAX + 1) * (16 + TABLE_NAME_MAX) <= MESSAGE_MAX);
const _: () = {
    let (node, partition) = (18 + ADDRESS_MAX, 16 + 2 * MEMBERS_MAX);
    assert!(HEAD_LEN + 16 + NODES_MAX * node + PARTITIONS_MAX * partition <= MESSAGE_MAX);
};
const _: () = assert!(HEAD_LEN + 24 + HOT_KEYS_MAX * (40 + HOT_KEY_BYTES_MAX) <= MESSAGE_MAX);
const _: () = assert!(HEAD_LEN + 28 + COUNTERS_MAX * (10 + COUNTER_NAME_MAX) <= MESSAGE_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_names_the_limits() {
        let page = include_str!("../../docs/protocol.md");
        let (_, limits) = page.split_once("## Limits").expect("the page has the section");
        let (limits, _) = limits.split_once("\n## ").expect("another section follows");
        let all = [
            MESSAGE_MAX,
            KEY_MAX,
            VALUE_MAX,
            REQUEST_VALUE_MAX,
            UPLOAD_PIECE_BYTES,
            MULTI_KEYS_MAX,
            FIELDS_MAX,
            SCAN_OBJECTS_MAX,
            SCAN_PAGE_BYTES,
            TABLES_MAX,
            TABLE_NAME_MAX,
            HOT_KEYS_MAX,
            HOT_KEY_BYTES_MAX,
            WATCH_EVENTS_MAX,
            WATCH_PAGE_BYTES,
            WATCH_WAIT_MAX_MS as usize,
            ERROR_DETAIL_MAX,
            NODES_MAX,
            PARTITIONS_MAX,
            MEMBERS_MAX,
            ADDRESS_MAX,
            COUNTERS_MAX,
            COUNTER_NAME_MAX,
        ];
        for limit in all {
            assert!(limits.contains(&limit.to_string()), "{limit}");
        }
    }
}
