//! What a client may send: bytes that are a request or are refused with a reason.
//!
//! Walks every list and hashes every key of what was accepted, and expects what we write of it to be
//! read as the same request again.

#![no_main]

use std::ops::Bound;

use libfuzzer_sys::fuzz_target;
use weft_protocol::{ErrorReply, Key, Record, Request, Slot, UploadPiece, Watched};

fuzz_target!(|message: &[u8]| {
    let request = match Request::decode(message) {
        Ok(request) => request,
        Err(error) => {
            let reply = ErrorReply::from(error);
            reply.encode(&mut vec![0; reply.encoded_len()]);
            return;
        }
    };
    if let Some((_, key)) = request.key() {
        touch(key);
    }
    if let Some(completion) = request.completion() {
        assert!((1..=completion.id.sequence).contains(&completion.first_incomplete));
    }
    match request {
        Request::MultiGet(multi) => multi.keys.iter().for_each(touch),
        Request::MultiPut(multi) => multi.pairs.iter().for_each(|pair| touch(pair.key)),
        Request::MultiDelete(multi) => multi.keys.iter().for_each(touch),
        Request::GetRange(get) => {
            let range = get.range_of(1_000);
            assert!(range.start <= range.end && range.end <= 1_000);
        }
        Request::Scan(scan) => touch(scan.key_prefix),
        Request::GetFields(get) => get.names.iter().for_each(touch),
        Request::PutFields(put) => {
            put.changes.iter().for_each(|change| touch(change.name));
            let mut record = Vec::new();
            if Record::EMPTY.change(put.changes.iter(), &mut record).is_ok() {
                let record = Record::parse(&record).expect("it was made of good changes");
                assert!(record.fields().count() <= put.changes.len());
            }
        }
        Request::Watch(watch) => match watch.watched {
            Watched::Key(key) | Watched::Prefix(key) => touch(key),
        },
        Request::Range(range) => {
            for bound in [range.lower, range.upper] {
                if let Bound::Included(key) | Bound::Excluded(key) = bound {
                    touch(key);
                }
            }
        }
        Request::UploadPiece(piece) => {
            let piece_len = piece.copied_len as usize + piece.bytes.len();
            assert_eq!(UploadPiece::piece_len(piece.value_len, piece.offset), Some(piece_len));
        }
        Request::Ask(_)
        | Request::CreateTable(_)
        | Request::DropTable(_)
        | Request::AlterTable(_)
        | Request::Get(_)
        | Request::Put(_)
        | Request::Delete(_)
        | Request::Exists(_)
        | Request::Stats(_)
        | Request::Map(_)
        | Request::CompareAndSet(_)
        | Request::Increment(_)
        | Request::Append(_)
        | Request::GetAndPut(_)
        | Request::GetAndDelete(_)
        | Request::Expire(_)
        | Request::Tables(_)
        | Request::Truncate(_)
        | Request::TableStats(_)
        | Request::HotKeys(_)
        | Request::CompleteUpload(_)
        | Request::AbortUpload(_)
        | Request::WatchNext(_)
        | Request::WatchEnd(_)
        | Request::OpenClient(_)
        | Request::RenewClient(_)
        | Request::RegisterWorker(_)
        | Request::RenewWorker(_)
        | Request::UnregisterWorker(_)
        | Request::Workers(_) => {}
    }
    let mut again = vec![0; request.encoded_len()];
    request.encode(&mut again);
    assert_eq!(Request::decode(&again), Ok(request));
});

fn touch(key: Key<'_>) {
    assert!(key.slot().number() < Slot::COUNT);
}
