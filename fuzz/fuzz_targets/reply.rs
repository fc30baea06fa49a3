//! What a server may answer: a client reads it as the reply to whichever operation it called.
//!
//! The first byte chooses the operation; the rest is the message. All that is accepted is touched.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_protocol::{
    AbortUploadReply, AppendReply, ClusterMap, CompareAndSetReply, CreateTableReply, DeleteReply,
    ExistsReply, ExpireReply, FieldsReply, GetRangeReply, GetReply, HotKeysReply, IncrementReply,
    MapReply, MultiDeletePart, MultiGetPart, MultiPutPart, NodeEntry, OpenClientReply,
    PreviousReply, PutReply, Record, RegisterWorkerReply, ReplyError, ScanReply, Slot, StatsReply,
    TableChangedReply, TableStatsReply, TablesReply, TruncateReply, UnregisterWorkerReply,
    UploadPieceReply, WatchEndReply, WatchNextReply, WatchReply, WorkersReply,
};
use weft_transport::{Incarnation, NodeId};

fuzz_target!(|bytes: &[u8]| {
    let Some((&operation, message)) = bytes.split_first() else { return };
    let outcome = match operation % 33 {
        0 => GetReply::decode(message).map(drop),
        1 => PutReply::decode(message).map(drop),
        2 => DeleteReply::decode(message).map(drop),
        3 => ExistsReply::decode(message).map(drop),
        4 => MultiGetPart::decode(message).map(|part| {
            assert_eq!(part.items().count(), part.len());
            part.items().for_each(|item| drop(message[item.value_range].to_vec()));
        }),
        5 => MultiPutPart::decode(message).map(|part| assert_eq!(part.items().count(), part.len())),
        6 => MultiDeletePart::decode(message)
            .map(|part| assert_eq!(part.items().count(), part.len())),
        7 => StatsReply::decode(message).map(|stats| drop(stats.into_owned())),
        8 => MapReply::decode(message).map(owners),
        9 => CompareAndSetReply::decode(message).map(drop),
        10 => IncrementReply::decode(message).map(drop),
        11 => AppendReply::decode(message).map(drop),
        12 => PreviousReply::decode(message)
            .map(|reply| drop(reply.previous.map(|previous| previous.value.to_vec()))),
        13 => ExpireReply::decode(message).map(drop),
        14 => GetRangeReply::decode(message).map(drop),
        15 => FieldsReply::decode(message).map(|reply| {
            if let FieldsReply::Found { fields, .. } = reply {
                fields.into_iter().flatten().for_each(|range| drop(message[range].to_vec()));
            }
        }),
        // The value of a get.
        16 => {
            if let Ok(record) = Record::parse(message) {
                assert_eq!(record.fields().count(), record.len());
            }
            Ok(())
        }
        17 => TablesReply::decode(message).map(|reply| {
            let catalog = &reply.catalog;
            assert!(catalog.tables().iter().all(|table| catalog.table(table.id) == Some(table)));
            let again = TablesReply { catalog: catalog.clone() };
            assert_eq!(again.encoded_len() + 1, bytes.len());
        }),
        18 => TruncateReply::decode(message).map(drop),
        19 => TableStatsReply::decode(message).map(drop),
        20 => HotKeysReply::decode(message).map(|reply| {
            assert!(reply.keys.iter().all(|key| key.kept.len() <= key.key_len()));
            assert_eq!(reply.encoded_len() + 1, bytes.len());
        }),
        21 => UploadPieceReply::decode(message).map(drop),
        22 => AbortUploadReply::decode(message).map(drop),
        23 => WatchReply::decode(message).map(drop),
        24 => WatchNextReply::decode(message).map(|reply| {
            assert_eq!(reply.events.iter().count(), reply.events.len());
            assert_eq!(reply.encoded_len() + 1, bytes.len());
        }),
        25 => WatchEndReply::decode(message).map(drop),
        26 => OpenClientReply::decode(message).map(drop),
        27 => CreateTableReply::decode(message).map(drop),
        28 => TableChangedReply::decode(message).map(drop),
        29 => RegisterWorkerReply::decode(message).map(drop),
        30 => UnregisterWorkerReply::decode(message).map(drop),
        31 => WorkersReply::decode(message).map(|reply| {
            assert!(reply.workers.iter().all(|entry| entry.description().is_within_limits()));
            assert_eq!(reply.encoded_len() + 1, bytes.len());
        }),
        _ => ScanReply::decode(message).map(|page| {
            assert_eq!(page.objects().count(), page.len());
            page.objects()
                .filter_map(|object| object.value_range)
                .for_each(|range| drop(message[range].to_vec()));
        }),
    };
    if let Err(ReplyError::Refused(refusal)) = outcome {
        drop(refusal.to_string());
    }
});

/// A map that was accepted names an owner for every slot.
fn owners(reply: MapReply) {
    let map = match reply {
        MapReply::Map(map) => Some(map),
        MapReply::Difference(difference) => difference.apply(&small_map()).ok(),
        MapReply::Unchanged { .. } => None,
    };
    if let Some(map) = map {
        for number in 0..Slot::COUNT {
            let slot = Slot::from_number(number).expect("it is below the count");
            let _ = map.owner_of(slot);
        }
    }
}

/// What differences are applied to.
fn small_map() -> ClusterMap {
    let address = "a:1".to_owned();
    let node = NodeEntry { id: NodeId(1), incarnation: Incarnation(1), address };
    ClusterMap::even(vec![node], 2, 8).expect("it is a map")
}
