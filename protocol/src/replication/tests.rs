use proptest::prelude::*;

use super::*;
use crate::limits::{ACKNOWLEDGEMENTS_MAX, ENTRIES_MAX, ENTRY_MAX};
use crate::round_trip::{bytes, cuts, encode, hex, hostile};
use crate::version::Version;

/// The bytes of the example called `name` in docs/replication.md.
fn documented(name: &str) -> Vec<u8> {
    const PAGE: &str = include_str!("../../../docs/replication.md");
    let (_, rest) = PAGE.split_once(&format!("```hex {name}\n")).expect("the page has the example");
    let (example, _) = rest.split_once("```").expect("the example ends");
    let lines = example.lines().map(|line| line.split('#').next().unwrap_or_default());
    hex(&lines.collect::<String>())
}

fn written(message: &PeerMessage<'_>) -> Vec<u8> {
    encode(message.encoded_len(), |buffer| message.encode(buffer))
}

const PARTITION: PartitionId = PartitionId(0x0102);

fn two_entries() -> Vec<u8> {
    let mut buffer = Vec::new();
    Entry { version: Version::new(2, 10), bytes: b"weft" }.push_to(&mut buffer);
    Entry { version: Version::new(3, 11), bytes: b"eight888" }.push_to(&mut buffer);
    buffer
}

#[test]
fn the_bytes_are_those_of_the_docs() {
    let entries = two_entries();
    let entries = Entries::written(2, &entries);
    let previous = Version::new(2, 9);
    let mut acknowledged = Vec::new();
    Acknowledgement { partition: PARTITION, epoch: 3, sequence: 11 }.push_to(&mut acknowledged);
    Acknowledgement { partition: PartitionId(7), epoch: 1, sequence: 5 }.push_to(&mut acknowledged);
    let (partition, epoch, session) = (PARTITION, 3, 2);
    let examples = [
        (
            "append",
            PeerMessage::Append(AppendEntries {
                partition,
                epoch,
                previous,
                committed: 8,
                session: 0,
                entries,
            }),
        ),
        ("acknowledge", PeerMessage::Acknowledge(Acknowledgements::written(&acknowledged))),
        ("missing", PeerMessage::Missing(Missing { partition, epoch, last: previous, session: 0 })),
        ("stale", PeerMessage::Stale(Stale { partition, epoch })),
        ("fence", PeerMessage::Fence(Fence { partition, epoch, map_version: 40 })),
        (
            "fenced",
            PeerMessage::Fenced(Fenced {
                partition,
                epoch,
                last: previous,
                lease_ms: 500,
                served: 2,
            }),
        ),
        ("tail", PeerMessage::Tail(Tail { partition, epoch, after: previous })),
        (
            "tail entries",
            PeerMessage::TailEntries(TailEntries { partition, epoch, previous, entries }),
        ),
        ("lease", PeerMessage::Lease(Lease { sent_at: 0x1122_3344, map_version: 40 })),
        (
            "grant",
            PeerMessage::Grant(Grant { sent_at: 0x1122_3344, map_version: 41, duration_ms: 500 }),
        ),
        (
            "snapshot begin",
            PeerMessage::SnapshotBegin(SnapshotBegin { partition, epoch, base: previous, session }),
        ),
        (
            "snapshot records",
            PeerMessage::SnapshotRecords(SnapshotRecords {
                partition,
                epoch,
                session,
                piece: 1,
                records: b"records",
            }),
        ),
        (
            "snapshot end",
            PeerMessage::SnapshotEnd(SnapshotEnd {
                partition,
                epoch,
                session,
                pieces: 2,
                through: 11,
            }),
        ),
        (
            "snapshot acknowledge",
            PeerMessage::SnapshotAcknowledge(SnapshotAcknowledge {
                partition,
                epoch,
                session,
                pieces: 2,
                is_complete: true,
            }),
        ),
        ("notice", PeerMessage::Notice(Notice { body: b"sits" })),
        ("part", PeerMessage::Part(Part { total: 600, offset: 596, bytes: b"sits" })),
    ];
    for (name, message) in examples {
        assert_eq!(written(&message), documented(name), "{name}");
        assert_eq!(PeerMessage::decode(&documented(name)), Ok(message), "{name}");
    }
}

#[test]
fn entries_that_do_not_follow_one_another_are_refused() {
    let append = |previous: Version, epoch: u32| {
        let entries = two_entries();
        let entries = Entries::written(2, &entries);
        written(&PeerMessage::Append(AppendEntries {
            partition: PARTITION,
            epoch,
            previous,
            committed: 0,
            session: 0,
            entries,
        }))
    };
    assert!(PeerMessage::decode(&append(Version::new(2, 9), 3)).is_ok());
    for (previous, epoch, version) in [
        (Version::new(2, 8), 3, Version::new(2, 10)),
        (Version::new(2, 10), 3, Version::new(2, 10)),
        (Version::new(3, 9), 3, Version::new(2, 10)),
        (Version::new(2, 9), 2, Version::new(3, 11)),
    ] {
        let error = DecodeError::EntryOutOfOrder { version };
        assert_eq!(PeerMessage::decode(&append(previous, epoch)), Err(error));
    }
}

#[test]
fn a_count_or_a_length_beyond_the_limits_is_refused_before_it_is_used() {
    let mut append = documented("append");
    append[28..32].copy_from_slice(&(ENTRIES_MAX as u32 + 1).to_le_bytes());
    let error =
        DecodeError::ListTooLong { field: "entries", count: ENTRIES_MAX + 1, limit: ENTRIES_MAX };
    assert_eq!(PeerMessage::decode(&append), Err(error));

    let mut append = documented("append");
    append[40..44].copy_from_slice(&(ENTRY_MAX as u32 + 1).to_le_bytes());
    let field = "bytes of an entry";
    let error = DecodeError::ListTooLong { field, count: ENTRY_MAX + 1, limit: ENTRY_MAX };
    assert_eq!(PeerMessage::decode(&append), Err(error));

    let mut acknowledge = documented("acknowledge");
    acknowledge[2..4].copy_from_slice(&(ACKNOWLEDGEMENTS_MAX as u16 + 1).to_le_bytes());
    let (field, limit) = ("acknowledgements", ACKNOWLEDGEMENTS_MAX);
    let error = DecodeError::ListTooLong { field, count: limit + 1, limit };
    assert_eq!(PeerMessage::decode(&acknowledge), Err(error));
}

#[test]
fn a_part_is_within_its_message() {
    use weft_transport::limits::LARGE_MAX;

    let part = |total: u64, offset: u64, len: usize| {
        let mut message = documented("part");
        message.truncate(24);
        message[8..16].copy_from_slice(&total.to_le_bytes());
        message[16..24].copy_from_slice(&offset.to_le_bytes());
        message.resize(24 + len, 7);
        PeerMessage::decode(&message).map(drop)
    };
    let (longest, most) = (LARGE_MAX as u64, Part::BYTES_MAX);
    assert_eq!(part(longest, longest - 1, 1), Ok(()));
    assert_eq!(part(longest, 0, most), Ok(()));
    for (total, offset, len) in [
        (longest + 1, 0, 1),
        (longest, longest, 1),
        (600, 599, 2),
        (600, u64::MAX, 2),
        (600, 5, 0),
        (longest, 0, most + 1),
    ] {
        assert_eq!(part(total, offset, len), Err(DecodeError::PartRange { total, offset, len }));
    }
}

#[test]
fn a_message_of_another_kind_version_or_epoch_range_is_refused() {
    let mut message = documented("stale");
    message[0] = 17;
    assert_eq!(PeerMessage::decode(&message), Err(DecodeError::UnknownMessage { kind: 17 }));
    message[0] = 0;
    assert_eq!(PeerMessage::decode(&message), Err(DecodeError::UnknownMessage { kind: 0 }));
    message[1] = 2;
    assert_eq!(PeerMessage::decode(&message), Err(DecodeError::UnsupportedVersion { version: 2 }));
    let mut message = documented("stale");
    message[4..8].copy_from_slice(&(Version::EPOCH_MAX + 1).to_le_bytes());
    let error = DecodeError::EpochRange { epoch: Version::EPOCH_MAX + 1 };
    assert_eq!(PeerMessage::decode(&message), Err(error));
}

/// What a message is made of, owned.
#[derive(Debug, Clone)]
struct Parts {
    partition: PartitionId,
    epoch: u32,
    version: Version,
    numbers: (u64, u32, u32),
    entries: Vec<u8>,
    count: u32,
    acknowledgements: Vec<u8>,
    records: Vec<u8>,
    flag: bool,
}

fn parts() -> impl Strategy<Value = Parts> {
    let entries = prop::collection::vec((bytes(40), 0..3_u32), 0..8);
    let acknowledgements = prop::collection::vec(any::<(u16, u32, u64)>(), 0..8);
    let numbers = any::<(u16, (u64, u32, u32), bool)>();
    let version = (0..=100_u32, 0..1_u64 << 40);
    (numbers, version, entries, acknowledgements, bytes(100)).prop_map(
        |(numbers, version, entries, acknowledgements, records)| {
            let version = Version::new(version.0, version.1);
            let mut last = version;
            let mut written = Vec::new();
            for (bytes, epochs) in &entries {
                last = Version::new(last.epoch() + epochs, last.sequence() + 1);
                Entry { version: last, bytes }.push_to(&mut written);
            }
            let mut acknowledged = Vec::new();
            for (partition, epoch, sequence) in acknowledgements {
                let partition = PartitionId(partition);
                Acknowledgement { partition, epoch, sequence }.push_to(&mut acknowledged);
            }
            Parts {
                partition: PartitionId(numbers.0),
                epoch: last.epoch(),
                version,
                numbers: numbers.1,
                entries: written,
                count: entries.len() as u32,
                acknowledgements: acknowledged,
                records,
                flag: numbers.2,
            }
        },
    )
}

impl Parts {
    fn messages(&self) -> [PeerMessage<'_>; 16] {
        let (partition, epoch, last) = (self.partition, self.epoch, self.version);
        let (long, session, piece) = self.numbers;
        let entries = Entries::written(self.count, &self.entries);
        let (previous, records) = (last, &self.records[..]);
        let acknowledgements = Acknowledgements::written(&self.acknowledgements);
        [
            PeerMessage::Append(AppendEntries {
                partition,
                epoch,
                previous,
                committed: long,
                session,
                entries,
            }),
            PeerMessage::Acknowledge(acknowledgements),
            PeerMessage::Missing(Missing { partition, epoch, last, session }),
            PeerMessage::Stale(Stale { partition, epoch }),
            PeerMessage::Fence(Fence { partition, epoch, map_version: long }),
            PeerMessage::Fenced(Fenced {
                partition,
                epoch,
                last,
                lease_ms: session,
                served: epoch,
            }),
            PeerMessage::Tail(Tail { partition, epoch, after: last }),
            PeerMessage::TailEntries(TailEntries { partition, epoch, previous, entries }),
            PeerMessage::Lease(Lease { sent_at: long, map_version: last.0 }),
            PeerMessage::Grant(Grant { sent_at: long, map_version: last.0, duration_ms: session }),
            PeerMessage::SnapshotBegin(SnapshotBegin { partition, epoch, base: last, session }),
            PeerMessage::SnapshotRecords(SnapshotRecords {
                partition,
                epoch,
                session,
                piece,
                records,
            }),
            PeerMessage::SnapshotEnd(SnapshotEnd {
                partition,
                epoch,
                session,
                pieces: piece,
                through: long,
            }),
            PeerMessage::SnapshotAcknowledge(SnapshotAcknowledge {
                partition,
                epoch,
                session,
                pieces: piece,
                is_complete: self.flag,
            }),
            PeerMessage::Notice(Notice { body: records }),
            match records {
                [] => PeerMessage::Part(Part { total: 9, offset: 8, bytes: b"." }),
                bytes => PeerMessage::Part(Part { total: bytes.len() + 8, offset: 8, bytes }),
            },
        ]
    }
}

/// Uses all that a decoded message has to give.
fn touch(message: PeerMessage<'_>) -> usize {
    match message {
        PeerMessage::Append(append) => append.entries.iter().map(|entry| entry.bytes.len()).sum(),
        PeerMessage::TailEntries(tail) => tail.entries.iter().map(|entry| entry.bytes.len()).sum(),
        PeerMessage::Acknowledge(acknowledgements) => acknowledgements.iter().count(),
        PeerMessage::SnapshotRecords(records) => records.records.len(),
        other => other.encoded_len(),
    }
}

proptest! {
    #[test]
    fn messages_are_read_as_written(parts in parts()) {
        for message in parts.messages() {
            let written = written(&message);
            prop_assert_eq!(PeerMessage::decode(&written), Ok(message));
            // From where on it may end anywhere.
            let open_from = match message {
                PeerMessage::SnapshotRecords(_) => Some(16),
                PeerMessage::Notice(_) => Some(8),
                PeerMessage::Part(_) => Some(25),
                _ => None,
            };
            for cut in cuts(written.len()) {
                let read = PeerMessage::decode(&written[..cut]);
                prop_assert!(read.is_err() || open_from.is_some_and(|from| cut >= from), "{:?} at {}", read, cut);
            }
            let longer = [&written[..], &[0]].concat();
            let read = PeerMessage::decode(&longer);
            match (message, open_from) {
                (PeerMessage::Part(_), _) => {
                    prop_assert!(matches!(read, Err(DecodeError::PartRange { .. })), "{:?}", read);
                }
                (_, Some(_)) => prop_assert!(read.is_ok(), "{:?}", read),
                (_, None) => prop_assert_eq!(read, Err(DecodeError::TrailingBytes { extra: 1 })),
            }
        }
    }

    #[test]
    fn what_was_written_by_a_decoder_is_what_it_read(
        message in parts().prop_flat_map(|parts| {
            let messages: Vec<_> = parts.messages().iter().map(written).collect();
            prop::sample::select(messages).prop_flat_map(hostile)
        }),
    ) {
        if let Ok(read) = PeerMessage::decode(&message) {
            touch(read);
            prop_assert_eq!(written(&read), message);
        }
    }
}
