//! What a feed keeps, and what it says when that is too much.

use std::sync::Arc;
use std::task::{Poll, Waker};

use weft_protocol::limits::{KEY_MAX, WATCH_EVENTS_MAX, WATCH_PAGE_BYTES};
use weft_protocol::{Key, TableId, Version, WatchEvent, Watched};
use weft_server::store::{Feed, FeedError, Partition, PartitionConfig};
use weft_transport::{Memory, MemoryConfig};

use crate::slots;

const TABLE: TableId = TableId::DEFAULT;

fn partition() -> Partition {
    let memory = Memory::new(MemoryConfig { limit_bytes: 256 << 20 }).unwrap();
    Partition::new(PartitionConfig { id: 1, epoch: 1, seed: 7, memory }).unwrap()
}

fn watched(partition: &mut Partition, bytes_max: usize) -> Arc<Feed> {
    let all = Watched::Prefix(Key::new(b"").unwrap());
    let feed = Arc::new(Feed::new(TABLE, all, bytes_max));
    partition.watch(&feed, slots());
    feed
}

/// The sequence of the first, and the versions of all; nothing if there are none.
fn poll(feed: &Feed, received: u64) -> Option<Result<(u64, Vec<Version>), FeedError>> {
    match feed.poll(received, Waker::noop()) {
        Poll::Pending => None,
        Poll::Ready(Err(error)) => Some(Err(error)),
        Poll::Ready(Ok(page)) => {
            let version = |event: WatchEvent<'_>| match event {
                WatchEvent::Key { version, .. } | WatchEvent::Table { version, .. } => version,
            };
            let reply = page.reply();
            Some(Ok((reply.first, reply.events.iter().map(version).collect())))
        }
    }
}

fn put(partition: &mut Partition, key: &[u8]) -> Version {
    partition.put(TABLE, key, b"value", None, 0).unwrap()
}

#[test]
fn who_watches_is_told_when_another_node_makes_the_changes() {
    let mut partition = partition();
    let feed = watched(&mut partition, 1 << 10);
    let version = put(&mut partition, b"loom");
    partition.set_following(true);
    partition.set_following(false);
    put(&mut partition, b"weft");
    // What was told before is received first, and nothing of what came after.
    assert_eq!(poll(&feed, 0), Some(Ok((1, vec![version]))));
    assert_eq!(poll(&feed, 1), Some(Err(FeedError::Moved)));
}

/// Events of a key of four bytes take 20.
const ROOM: usize = 10;

#[test]
fn an_event_too_many_is_told_and_none_less() {
    let mut partition = partition();
    let feed = watched(&mut partition, ROOM * 20);
    let versions: Vec<_> = (0..ROOM).map(|_| put(&mut partition, b"loom")).collect();
    assert_eq!(poll(&feed, 0), Some(Ok((1, versions.clone()))));
    // They stay until they were received, and what was received makes room for as many.
    assert_eq!(poll(&feed, 4), Some(Ok((5, versions[4..].to_vec()))));
    let more: Vec<_> = (0..4).map(|_| put(&mut partition, b"weft")).collect();
    let all = [&versions[4..], &more].concat();
    assert_eq!(poll(&feed, 4), Some(Ok((5, all))));
    put(&mut partition, b"warp");
    let behind = FeedError::FellBehind { sequence: ROOM as u64 + 5 };
    for received in [4, 14, 0, 15, u64::MAX] {
        assert_eq!(poll(&feed, received), Some(Err(behind)), "for good");
    }
    // Others of another length would be another number until there is no room.
    for _ in 0..2 * ROOM {
        put(&mut partition, &[b'k'; 40]);
    }
    assert_eq!(poll(&feed, 14), Some(Err(behind)), "it is the first that was dropped");
}

#[test]
fn one_that_finds_no_room_wakes_who_waits() {
    let mut partition = partition();
    let feed = watched(&mut partition, 19);
    let bell = Arc::<crate::Bell>::default();
    assert!(feed.poll(0, &Waker::from(Arc::clone(&bell))).is_pending());
    put(&mut partition, b"loom");
    assert!(bell.0.load(std::sync::atomic::Ordering::Relaxed));
    assert_eq!(poll(&feed, 0), Some(Err(FeedError::FellBehind { sequence: 1 })));
}

#[test]
fn a_buffer_that_is_gone_around_many_times_loses_nothing() {
    let mut partition = partition();
    // No whole number of events.
    let feed = watched(&mut partition, 1_000);
    let (mut received, mut told) = (0, 0);
    for round in 0..2_000_usize {
        let count = 1 + round % 7;
        let key = &[b'k'; 60][..round % 50];
        let versions: Vec<_> = (0..count).map(|_| put(&mut partition, key)).collect();
        assert_eq!(poll(&feed, received), Some(Ok((told + 1, versions))), "round {round}");
        told += count as u64;
        received = told;
    }
    assert_eq!(poll(&feed, received), None);
}

#[test]
fn a_page_has_room_for_so_many_events_and_bytes() {
    let mut partition = partition();
    let feed = watched(&mut partition, 8 << 20);
    let count = WATCH_EVENTS_MAX + 10;
    let versions: Vec<_> = (0..count).map(|_| put(&mut partition, b"")).collect();
    let (first, told) = poll(&feed, 0).unwrap().unwrap();
    assert_eq!((first, &told[..]), (1, &versions[..WATCH_EVENTS_MAX]));
    let (first, told) = poll(&feed, WATCH_EVENTS_MAX as u64).unwrap().unwrap();
    assert_eq!((first, told.len()), (WATCH_EVENTS_MAX as u64 + 1, 10));

    let long = vec![b'k'; KEY_MAX];
    let versions: Vec<_> = (0..7).map(|_| put(&mut partition, &long)).collect();
    let fit = WATCH_PAGE_BYTES / (KEY_MAX + 16);
    let (first, told) = poll(&feed, count as u64).unwrap().unwrap();
    assert_eq!((first, &told[..]), (count as u64 + 1, &versions[..fit]));
}

#[test]
fn only_what_was_told_can_have_been_received() {
    let mut partition = partition();
    let feed = watched(&mut partition, 1_000);
    assert_eq!(poll(&feed, 1), Some(Err(FeedError::OutOfOrder { received: 1 })));
    let versions: Vec<_> = (0..3).map(|_| put(&mut partition, b"loom")).collect();
    assert_eq!(poll(&feed, 1), Some(Err(FeedError::OutOfOrder { received: 1 })));
    assert_eq!(poll(&feed, 0), Some(Ok((1, versions))));
    put(&mut partition, b"loom");
    for received in [4, u64::MAX] {
        assert_eq!(poll(&feed, received), Some(Err(FeedError::OutOfOrder { received })));
    }
    assert!(poll(&feed, 3).unwrap().is_ok());
    // What was received was forgotten.
    assert_eq!(poll(&feed, 2), Some(Err(FeedError::OutOfOrder { received: 2 })));
    assert!(poll(&feed, 4).is_none());
}
