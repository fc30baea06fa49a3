use proptest::prelude::*;

use super::*;
use crate::round_trip::{cuts, documented, encode, hex, hostile};

fn message(reply: &ErrorReply<'_>) -> Vec<u8> {
    encode(reply.encoded_len(), |buffer| reply.encode(buffer))
}

fn refusal(message: &[u8]) -> ErrorReply<'_> {
    match ReplyHead::decode(message) {
        Err(ReplyError::Refused(reply)) => reply,
        other => panic!("{other:?} is no refusal"),
    }
}

#[test]
fn the_bytes_are_those_of_the_docs() {
    let reply = ErrorReply::wrong_owner(12).with_detail("slot 5");
    let message = message(&reply);
    assert_eq!(message, documented("wrong owner"));
    assert_eq!(refusal(&message), reply);
    assert_eq!(reply.to_string(), "WEFT-1101 wrong owner: slot 5");
}

#[test]
fn every_code_is_read_as_written() {
    for &code in ErrorCode::all() {
        let reply = ErrorReply::new(code);
        assert_eq!(refusal(&message(&reply)), reply);
        assert_eq!(ReplyError::Refused(reply).code(), code);
    }
}

/// A server that is newer than its client may answer with a code that the client has never heard of.
#[test]
fn an_unknown_code_keeps_its_number() {
    let message = hex("e707 0000 04000000 0c00000000000000 62757379");
    let reply = refusal(&message);
    assert_eq!((reply.code, reply.argument), (ErrorCode::Unrecognized, 12));
    assert_eq!(reply.detail, "WEFT-2023: busy");
}

#[test]
fn a_status_that_is_neither_outcome_nor_error_is_refused() {
    for status in [4_u16, 5, 999] {
        let mut message = hex("0000 0000 00000000 0000000000000000");
        message[..2].copy_from_slice(&status.to_le_bytes());
        let error = DecodeError::UnexpectedStatus { status };
        assert_eq!(ReplyHead::decode(&message), Err(error.into()));
    }
}

#[test]
fn a_long_detail_is_cut_between_characters() {
    let reply = ErrorReply::new(ErrorCode::Internal).with_detail("ü".repeat(ERROR_DETAIL_MAX));
    let message = message(&reply);
    assert_eq!(message.len(), HEAD_LEN + ERROR_DETAIL_MAX);
    assert_eq!(refusal(&message).detail, "ü".repeat(ERROR_DETAIL_MAX / 2));
}

#[test]
fn a_detail_that_is_no_text_is_refused() {
    let message = hex("4d04 0000 01000000 0c00000000000000 ff");
    let error = DecodeError::InvalidText { field: "detail" };
    assert_eq!(ReplyHead::decode(&message), Err(error.into()));
}

#[test]
fn what_is_wrong_with_a_request_becomes_its_answer() {
    let check = |error: DecodeError, code, argument| {
        let reply = ErrorReply::from(error);
        assert_eq!((reply.code, reply.argument), (code, argument));
        assert_eq!(reply.detail, error.to_string());
    };
    let version = DecodeError::UnsupportedVersion { version: 9 };
    check(version, ErrorCode::UnsupportedVersion, u64::from(PROTOCOL_VERSION));
    let limit = LimitError::RequestValueTooLarge { len: 1 << 30 };
    check(limit.into(), ErrorCode::ValueTooLarge, crate::limits::REQUEST_VALUE_MAX as u64);
    check(DecodeError::UnknownOperation { operation: 0 }, ErrorCode::UnknownOperation, 0);
    check(DecodeError::Truncated { missing: 1 }, ErrorCode::MalformedRequest, 0);
    assert_eq!(ErrorReply::from(limit), ErrorReply::from(DecodeError::Limit(limit)));
}

proptest! {
    #[test]
    fn refusals_are_read_as_written(argument: u64, detail in ".{0,100}") {
        let code = ErrorCode::MemoryLimitReached;
        let reply = ErrorReply { code, argument, detail: Cow::Owned(detail) };
        let message = message(&reply);
        prop_assert_eq!(refusal(&message), reply.clone().into_owned());
        for cut in cuts(message.len()) {
            let error = ReplyHead::decode(&message[..cut]).expect_err("a cut reply is none");
            let cut_short = matches!(error, ReplyError::Malformed(DecodeError::Truncated { .. }));
            prop_assert!(cut_short, "{error:?} at {cut}");
        }
    }

    #[test]
    fn hostile_replies_are_survived(
        message in hostile(documented("wrong owner")),
    ) {
        if let Ok((head, body)) = ReplyHead::decode(&message) {
            prop_assert_eq!(head.length as usize, body.len());
        }
    }
}
