//! Values that come in pieces: how long they are kept, and what memory they take.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weft_protocol::limits::{UPLOAD_PIECE_BYTES, VALUE_MAX};
use weft_protocol::{Key, TableId, Target, UploadEffect, UploadPiece, Version};
use weft_server::store::{Completed, Partition, PartitionConfig, StoreError};
use weft_transport::{Memory, MemoryConfig, Purpose};

const TABLE: TableId = TableId::DEFAULT;

fn partition(limit_bytes: u64) -> (Memory, Partition) {
    let memory = Memory::new(MemoryConfig { limit_bytes }).unwrap();
    let config = PartitionConfig { id: 0, epoch: 1, seed: 3, memory: memory.clone() };
    (memory, Partition::new(config).unwrap())
}

/// The piece at `offset` of a value of `len` bytes, of which each is that of its place.
fn piece<'a>(key: &'a [u8], upload: u64, value: &'a [u8], offset: usize) -> UploadPiece<'a> {
    UploadPiece {
        target: Target {
            table: TABLE,
            map_epoch: 0,
            completion: None,
            key: Key::new(key).unwrap(),
        },
        expires_at_ms: None,
        upload,
        value_len: value.len() as u32,
        offset: offset as u64,
        copied_from: Version::NONE,
        keeps_expiry: false,
        copied_len: 0,
        bytes: &value[offset..value.len().min(offset + UPLOAD_PIECE_BYTES)],
    }
}

fn log_bytes(memory: &Memory) -> u64 {
    memory.account().allocated_for(Purpose::Log)
}

#[test]
fn the_largest_value_takes_little_more_than_its_length() {
    let (memory, mut partition) = partition(256 << 20);
    let value: Vec<u8> = (0..VALUE_MAX).map(|at| (at / 3) as u8).collect();
    for round in 0..3 {
        for offset in (0..VALUE_MAX).step_by(UPLOAD_PIECE_BYTES) {
            partition.upload_piece(&piece(b"key", round, &value, offset), 0).unwrap();
        }
        partition.complete_upload(TABLE, b"key", round, UploadEffect::Put, 0).unwrap();
        let object = partition.get(TABLE, b"key", 0).unwrap();
        object.verify().unwrap();
        assert!(object.value == value);
        let stats = partition.stats();
        assert_eq!((stats.objects, stats.upload_bytes), (1, 0));
        assert_eq!(stats.log_bytes, log_bytes(&memory));
        assert!(stats.log_bytes <= VALUE_MAX as u64 * 66 / 64, "{} bytes", stats.log_bytes);
    }
    partition.verify().unwrap();
    partition.delete(TABLE, b"key", 0).unwrap();
    assert_eq!(log_bytes(&memory), 0);
}

#[test]
fn an_upload_that_is_left_alone_is_given_up() {
    let (memory, mut partition) = partition(64 << 20);
    let value = vec![7; 3 * UPLOAD_PIECE_BYTES];
    for upload in 0..5 {
        partition.upload_piece(&piece(b"key", upload, &value, 0), 1_000).unwrap();
    }
    assert_eq!(partition.stats().upload_bytes, log_bytes(&memory));
    assert!(log_bytes(&memory) > 5 * value.len() as u64);
    // One goes on, and its time begins anew.
    partition.upload_piece(&piece(b"key", 2, &value, UPLOAD_PIECE_BYTES), 20_000).unwrap();
    partition.drop_stale_uploads(31_000);
    assert_eq!(partition.stats().upload_bytes, log_bytes(&memory));
    assert!(log_bytes(&memory) > 5 * value.len() as u64, "half a minute is not over");
    partition.drop_stale_uploads(31_001);
    assert!(log_bytes(&memory) < 2 * value.len() as u64, "one is left");
    partition.upload_piece(&piece(b"key", 2, &value, 2 * UPLOAD_PIECE_BYTES), 31_001).unwrap();
    let gone = partition.complete_upload(TABLE, b"key", 1, UploadEffect::Put, 31_001);
    assert_eq!(gone.unwrap_err(), StoreError::UploadUnknown);
    let completed = partition.complete_upload(TABLE, b"key", 2, UploadEffect::Put, 31_001);
    assert!(matches!(completed, Ok(Completed::Put(_))));
    // A clock that was set back gives up nothing.
    partition.upload_piece(&piece(b"key", 9, &value, 0), 50_000).unwrap();
    partition.drop_stale_uploads(1);
    assert!(partition.abort_upload(TABLE, b"key", 9));
    assert_eq!(partition.stats().upload_bytes, 0);
}

#[test]
fn an_upload_is_of_one_object() {
    let (_, mut partition) = partition(64 << 20);
    let value = vec![7; UPLOAD_PIECE_BYTES];
    partition.upload_piece(&piece(b"key", 4, &value, 0), 0).unwrap();
    let unknown = Err(StoreError::UploadUnknown);
    assert_eq!(partition.upload_piece(&piece(b"yek", 4, &value, 0), 0), unknown);
    assert_eq!(partition.upload_piece(&piece(b"key", 4, &value[1..], 0), 0), unknown);
    for key in [&b"yek"[..], b"key "] {
        let other = partition.complete_upload(TABLE, key, 4, UploadEffect::Put, 0);
        assert_eq!(other.unwrap_err(), StoreError::UploadUnknown);
        assert!(!partition.abort_upload(TABLE, key, 4));
    }
    let other = TableId(1);
    let elsewhere = partition.complete_upload(other, b"key", 4, UploadEffect::Put, 0);
    assert_eq!(elsewhere.unwrap_err(), StoreError::UploadUnknown);
    assert!(partition.abort_upload(TABLE, b"key", 4));
}

#[test]
fn what_has_no_room_begins_nothing() {
    let (memory, mut partition) = partition(1 << 20);
    let value = vec![7; 4 * UPLOAD_PIECE_BYTES];
    let refused = partition.upload_piece(&piece(b"key", 1, &value, 0), 0);
    assert!(matches!(refused, Err(StoreError::MemoryLimit(_))));
    assert_eq!((log_bytes(&memory), partition.stats().upload_bytes), (0, 0));
}
