//! What a stranger may send first: a stream of frames, the first of them a hello.
//!
//! Reads it as a session does, header before body, and touches all that it decodes. A header that
//! is accepted announces no more than the limit, and is written back as the bytes it was read from.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_transport::StopReason;
use weft_transport::frame::{Announcement, HEADER_BYTES, Header, Kind, Source, frame_len};
use weft_transport::handshake::{Hello, decode_goodbye};
use weft_transport::limits::MESSAGE_MAX;

fuzz_target!(|stream: &[u8]| {
    // Few inputs are a frame of these kinds that is all there.
    source(stream);
    announcement(stream);
    reason(stream);
    let mut rest = stream;
    while let Some((bytes, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let Ok(header) = Header::decode(bytes) else { return };
        assert_eq!(header.encode(), *bytes);
        assert!(header.len as usize <= MESSAGE_MAX);
        assert_eq!(header.frame_len(), frame_len(header.len as usize));
        let body = &after[..after.len().min(header.len as usize)];
        match header.kind {
            Kind::Hello => hello(body),
            Kind::Goodbye => drop(decode_goodbye(&header, body).to_string()),
            Kind::Announce => announcement(body),
            Kind::Credit | Kind::Message | Kind::Request | Kind::Reply => {}
            Kind::OpenMessage | Kind::OpenRequest | Kind::OpenReply => {}
            Kind::Refuse | Kind::Cancel => reason(body),
            Kind::Grant | Kind::Chunk | Kind::End => {}
            Kind::Source => source(body),
            Kind::Taken | Kind::Withdraw | Kind::Unanswered => {}
        }
        let Some(next) = rest.get(header.frame_len()..) else { return };
        rest = next;
    }
});

/// An announcement that was accepted is written back as the bytes it was read from.
fn announcement(body: &[u8]) {
    if let Some(announcement) = Announcement::decode(body) {
        assert_eq!(announcement.encode(), *body);
    }
}

/// Where a part of a body lies is sixteen bytes, each of which means something.
fn source(body: &[u8]) {
    let source = Source::decode(body);
    assert_eq!(source.is_some(), body.len() == Source::BYTES);
    if let Some(source) = source {
        assert_eq!(source.encode(), *body);
    }
}

/// A reason that was accepted is read again from what we would write of it, but for a text that is too long then.
fn reason(body: &[u8]) {
    let Some(reason) = StopReason::decode(body) else { return };
    let again = StopReason::decode(&reason.encode()).expect("a reason that was written");
    match (again, reason) {
        (StopReason::Program { code, text }, StopReason::Program { code: first, text: all }) => {
            assert_eq!(code, first);
            assert!(all.starts_with(&text));
        }
        (again, reason) => assert_eq!(again, reason),
    }
}

/// A hello that was accepted is accepted again from what we would write of it.
fn hello(body: &[u8]) {
    match Hello::decode(body) {
        Ok(hello) => {
            let again = hello.encode();
            assert_eq!(Hello::decode(&again[HEADER_BYTES..]), Ok(hello));
        }
        Err(reason) => drop(reason.to_string()),
    }
}
