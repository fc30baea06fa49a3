//! Segments of records that have texts.

#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

use proptest::prelude::*;
use weft_object::{
    AlignedBytes, BODY_BYTES_MAX, Full, PAGE_BYTES, Pair, Segment, Text, TextSegmentWriter, Types,
    View,
};
use weft_transport::{Memory, MemoryConfig, Purpose};

type Named = Pair<Text, u64>;

fn writer(bytes: usize) -> TextSegmentWriter<Named> {
    let memory = Memory::new(MemoryConfig { limit_bytes: 16 << 20 }).unwrap();
    TextSegmentWriter::new(&memory, Purpose::Send, &types(), bytes).unwrap()
}

fn types() -> Types {
    Types::new().with::<Named>()
}

fn push(writer: &mut TextSegmentWriter<Named>, name: &str, value: u64) -> Result<(), Full> {
    writer.push(|texts| Ok(Pair { key: texts.text(name)?, value }))
}

fn read(segment: &Segment) -> Vec<(String, u64)> {
    let bytes = AlignedBytes::copied(&[segment.head(), segment.pages()].concat());
    let view = View::validate(bytes, &types()).unwrap();
    let records = view.records::<Named>().flatten();
    records.map(|named| (view.text(&named.key).to_owned(), named.value)).collect()
}

#[test]
fn a_segment_takes_as_many_records_as_it_has_room_for() {
    let mut writer = writer(16 * PAGE_BYTES);
    let name = |value: u64| format!("the name of {value}");
    let full = (0..).find(|value| push(&mut writer, &name(*value), *value).is_err()).unwrap();
    // 16 bytes of a record and as many of its text, at the least.
    assert!((1_500..2_048).contains(&full), "{full}");
    assert_eq!(push(&mut writer, &name(0), 0), Err(Full::Segment));
    assert_eq!(writer.len() as u64, full);
    let segment = writer.freeze();
    assert!(segment.pages().len() <= 16 * PAGE_BYTES);
    assert!(read(&segment).into_iter().eq((0..full).map(|value| (name(value), value))));
}

#[test]
fn a_text_has_room_in_a_segment_of_the_bytes_that_it_is_said_to_need() {
    let most = BODY_BYTES_MAX - PAGE_BYTES;
    for len in [0, 1, 7, 8, 2_048, 2_049, 4_096, 4_097, 100_000, most] {
        let name = "x".repeat(len);
        let bytes = TextSegmentWriter::<Named>::bytes_for(len);
        let mut writer = writer(bytes);
        assert!(writer.is_empty());
        push(&mut writer, &name, 7).unwrap();
        assert_eq!(read(&writer.freeze()), [(name, 7)], "{len}");
    }
    assert!(TextSegmentWriter::<Named>::bytes_for(most + 1) > BODY_BYTES_MAX);
}

#[test]
fn an_empty_segment_has_no_records() {
    let segment = writer(PAGE_BYTES).freeze();
    assert!(segment.is_empty());
    assert_eq!(read(&segment), []);
}

proptest! {
    #[test]
    fn what_is_written_is_read(names in prop::collection::vec(".{0,40}", 0..300)) {
        let mut writer = writer(BODY_BYTES_MAX);
        let expected: Vec<(String, u64)> = names.into_iter().zip(0..).collect();
        for (name, value) in &expected {
            push(&mut writer, name, *value).unwrap();
        }
        prop_assert_eq!(read(&writer.freeze()), expected);
    }
}
