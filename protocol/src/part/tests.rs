use proptest::prelude::*;

use super::*;
use crate::error_code::ErrorCode;
use crate::limits::{ERROR_DETAIL_MAX, REQUEST_VALUE_MAX, VALUE_MAX};
use crate::operation::delete::DeleteReply;
use crate::operation::get::GetReply;
use crate::operation::put::PutReply;
use crate::round_trip::{bytes, cuts, documented, hostile, versions};

type GetPart<'a> = Part<'a, GetReply<'a>>;

const VERSION: Version = Version::new(1, 9);

fn found(value: &[u8]) -> GetReply<'_> {
    GetReply::Found { version: VERSION, value }
}

fn outcomes<'a, R: ItemReply<'a>>(message: &'a [u8]) -> Vec<(usize, Outcome<'a, R>)> {
    let part = Part::<R>::decode(message).expect("the builder's parts are good");
    assert_eq!(part.items().len(), part.len());
    part.items().map(|item| (item.index, item.outcome)).collect()
}

fn fill(part: &mut PartBuilder) {
    part.push(5, &found(b"upf")).unwrap();
    part.push(1, &GetReply::Absent { version: VERSION }).unwrap();
    part.push_unprocessed(0).unwrap();
    part.push_error(3, &ErrorReply::wrong_owner(12)).unwrap();
}

#[test]
fn the_bytes_are_those_of_the_docs() {
    let mut part = PartBuilder::new();
    fill(&mut part);
    let message = part.finish();
    assert_eq!(message, documented("multi-get part"));
    assert_eq!(
        outcomes::<GetReply<'_>>(message),
        [
            (5, Outcome::Done(found(b"upf"))),
            (1, Outcome::Done(GetReply::Absent { version: VERSION })),
            (0, Outcome::Unprocessed),
            (3, Outcome::Failed(ErrorReply::wrong_owner(12))),
        ]
    );
}

#[test]
fn parts_of_mutations_hold_versions() {
    let mut part = PartBuilder::new();
    let put = PutReply { version: VERSION };
    part.push(0, &put).unwrap();
    part.push_error(1, &ErrorReply::memory_limit(1 << 30)).unwrap();
    assert_eq!(
        outcomes::<PutReply>(part.finish()),
        [(0, Outcome::Done(put)), (1, Outcome::Failed(ErrorReply::memory_limit(1 << 30)))]
    );

    part.clear();
    let delete = DeleteReply { version: VERSION, existed: false };
    part.push(7, &delete).unwrap();
    assert_eq!(outcomes::<DeleteReply>(part.finish()), [(7, Outcome::Done(delete))]);

    // A put is never answered with absent, not in a part either.
    let error = DecodeError::UnexpectedStatus { status: 1 };
    assert_eq!(Part::<PutReply>::decode(part.finish()), Err(error.into()));
}

#[test]
fn a_part_may_be_empty() {
    let mut part = PartBuilder::default();
    assert_eq!((part.count(), part.is_empty()), (0, true));
    assert!(GetPart::decode(part.finish()).unwrap().is_empty());
}

#[test]
fn a_part_is_ok_and_what_was_left_undone_has_no_value() {
    let mut message = documented("multi-get part");
    let unprocessed = message.len() - 2 * HEAD_LEN;
    assert_eq!(message[unprocessed], 2);
    message[unprocessed + 4] = HEAD_LEN as u8;
    message[2] -= 1;
    let error = DecodeError::TrailingBytes { extra: HEAD_LEN };
    assert_eq!(GetPart::decode(&message), Err(error.into()));

    let mut message = documented("multi-get part");
    message[0] = 1;
    let error = DecodeError::UnexpectedStatus { status: 1 };
    assert_eq!(GetPart::decode(&message), Err(error.into()));
}

#[test]
fn a_request_may_be_refused_as_a_whole() {
    let refused = ErrorReply::new(ErrorCode::ShuttingDown);
    let mut message = vec![0; refused.encoded_len()];
    refused.encode(&mut message);
    assert_eq!(GetPart::decode(&message), Err(ReplyError::Refused(refused)));
}

#[test]
fn a_value_is_found_in_the_message_by_its_range() {
    let mut part = PartBuilder::new();
    part.push(0, &found(b"warp")).unwrap();
    part.push(1, &found(b"weft!")).unwrap();
    let message = part.finish().to_vec();
    let ranges = GetPart::decode(&message).unwrap().items().map(|item| item.value_range);
    let values: Vec<_> = ranges.map(|range| &message[range]).collect();
    assert_eq!(values, [b"warp".as_slice(), b"weft!"]);
}

#[test]
fn a_part_ends_at_the_limit_of_a_message() {
    let value = vec![1; REQUEST_VALUE_MAX];
    let mut part = PartBuilder::new();
    part.push(0, &found(&value)).unwrap();
    let len = part.encoded_len();
    assert_eq!(part.push(1, &found(&value)), Err(PartFull));
    assert_eq!(part.finish_gathered(1, VERSION, REQUEST_VALUE_MAX), Err(PartFull));
    assert_eq!((part.encoded_len(), part.count()), (len, 1), "the part stays as it was");

    let left = MESSAGE_MAX - part.len_with(0);
    assert_eq!(part.push(1, &found(&value[..left + 1])), Err(PartFull));
    part.push(1, &found(&value[..left])).unwrap();
    assert_eq!(part.finish().len(), MESSAGE_MAX);
    assert_eq!(part.push_unprocessed(2), Err(PartFull));

    part.clear();
    part.push(1, &found(&value)).unwrap();
    assert_eq!(part.count(), 1);
}

#[test]
fn everything_that_one_item_may_be_fits_an_empty_part() {
    let value = vec![1; REQUEST_VALUE_MAX];
    PartBuilder::new().push(0, &found(&value)).unwrap();
    PartBuilder::new().finish_gathered(0, VERSION, VALUE_MAX).unwrap();
    let detail = "d".repeat(2 * ERROR_DETAIL_MAX);
    let error = ErrorReply::new(ErrorCode::Internal).with_detail(detail);
    PartBuilder::new().push_error(0, &error).unwrap();
}

/// The longest multi-put or multi-delete is answered in one part.
#[test]
fn versions_of_all_keys_fit_one_part() {
    let mut part = PartBuilder::new();
    for index in 0..MULTI_KEYS_MAX {
        part.push(index, &PutReply { version: VERSION }).unwrap();
    }
    let message = part.finish();
    let part = Part::<PutReply>::decode(message).unwrap();
    assert!(part.items().map(|item| item.index).eq(0..MULTI_KEYS_MAX));
}

#[test]
fn a_count_that_the_items_do_not_make_up_is_refused() {
    let mut part = PartBuilder::new();
    fill(&mut part);
    let message = part.finish();
    let with_count = |count: u16| {
        let mut message = message.to_vec();
        message[2..4].copy_from_slice(&count.to_le_bytes());
        message
    };
    let error = |count| GetPart::decode(&with_count(count)).unwrap_err().code();
    for count in [0, 3, 5, u16::MAX] {
        assert!(GetPart::decode(&with_count(count)).is_err(), "{count}");
        assert_eq!(error(count), ErrorCode::MalformedReply);
    }
}

proptest! {
    /// Whether a server copies or gathers the last value, the client gets the same bytes.
    #[test]
    fn a_gathered_value_gives_the_same_bytes(
        values in prop::collection::vec((bytes(40), versions()), 1..10),
    ) {
        let mut copied = PartBuilder::new();
        let mut gathered = PartBuilder::new();
        let ((last, last_version), others) = values.split_last().unwrap();
        for (index, (value, version)) in others.iter().enumerate() {
            let reply = GetReply::Found { version: *version, value };
            copied.push(index, &reply).unwrap();
            gathered.push(index, &reply).unwrap();
        }
        let reply = GetReply::Found { version: *last_version, value: last };
        copied.push(others.len(), &reply).unwrap();
        let head = gathered.finish_gathered(others.len(), *last_version, last.len()).unwrap();
        let gathered = [head, last].concat();
        prop_assert_eq!(&gathered, copied.finish());

        let read = GetPart::decode(&gathered).unwrap();
        prop_assert_eq!(read.len(), values.len());
        for (item, (value, version)) in read.items().zip(&values) {
            let reply = GetReply::Found { version: *version, value };
            prop_assert_eq!(item.outcome, Outcome::Done(reply));
            prop_assert_eq!(item.value_range.start % 8, 0);
        }
        for cut in cuts(gathered.len()) {
            prop_assert!(GetPart::decode(&gathered[..cut]).is_err());
        }
    }

    #[test]
    fn hostile_parts_are_survived(message in hostile(documented("multi-get part"))) {
        if let Ok(part) = GetPart::decode(&message) {
            prop_assert_eq!(part.items().count(), part.len());
            for item in part.items() {
                prop_assert!(message.get(item.value_range).is_some());
            }
        }
    }
}
