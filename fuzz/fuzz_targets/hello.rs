//! What a stranger may say of itself, and what a peer may say when it leaves.
//!
//! Reads every input as the body of both. A hello that is accepted is written back as one that says the
//! same, and says it still with more behind it. What we would write of a goodbye has its number.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_transport::CloseReason;
use weft_transport::frame::{Class, HEADER_BYTES, Header, Kind};
use weft_transport::handshake::{Hello, decode_goodbye, encode_goodbye};
use weft_transport::limits::{GREETING_MAX, WINDOW_MAX, WINDOW_MIN};

fuzz_target!(|bytes: &[u8]| {
    hello(bytes);
    if let Some((id, text)) = bytes.split_first_chunk() {
        goodbye(u64::from_le_bytes(*id), text);
    }
});

fn hello(body: &[u8]) {
    let hello = match Hello::decode(body) {
        Ok(hello) => hello,
        Err(reason) => return drop(reason.to_string()),
    };
    for class in Class::ALL {
        assert!((WINDOW_MIN..=WINDOW_MAX).contains(&hello.windows.of(class)));
    }
    let again = hello.encode();
    assert_eq!(Hello::decode(&again[HEADER_BYTES..]), Ok(hello));
    // Later versions may append.
    assert_eq!(Hello::decode(&[body, &[0xff; 16]].concat()), Ok(hello));
}

/// `id` and `text` are a frame's, as long as they may be.
fn goodbye(id: u64, text: &[u8]) {
    let text = &text[..text.len().min(GREETING_MAX)];
    let (kind, class, len) = (Kind::Goodbye, Class::Reply, text.len() as u32);
    let reason = decode_goodbye(&Header { len, kind, class, more: false, id }, text);
    let (again, reason) = (told(&reason), reason);
    match (&again, &reason) {
        (CloseReason::Goodbye(again), CloseReason::Goodbye(first)) => {
            assert_eq!(again.code, first.code);
            assert!(!first.text.contains(char::is_control));
        }
        (again, first) => assert_eq!(again, first),
    }
}

/// What a peer reads in what we write of `reason`.
fn told(reason: &CloseReason) -> CloseReason {
    let frame = encode_goodbye(reason);
    let (header, body) = frame.split_first_chunk::<HEADER_BYTES>().expect("a frame has a header");
    let header = Header::decode(header).expect("a goodbye that was written");
    assert_eq!(header.frame_len(), frame.len());
    decode_goodbye(&header, &body[..header.len as usize])
}
