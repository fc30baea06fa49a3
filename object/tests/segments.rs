//! Segments, from the writer to the view, and what a view refuses.

#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

use proptest::prelude::*;
use weft_object::{
    AlignedBytes, BODY_BYTES_MAX, Fault, Full, Invalid, PAGE_BYTES, PAGES_MAX, Segment,
    SegmentWriter, Types, View, Wire,
};
use weft_transport::{Memory, MemoryConfig, Purpose};

#[derive(Wire, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Rank {
    vertex: u64,
    rank: f64,
}

#[derive(Wire, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Odd {
    pair: Pair,
    flags: [bool; 4],
    number: u32,
}

#[derive(Wire, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Pair {
    first: u64,
    second: i64,
}

fn memory() -> Memory {
    Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap()
}

fn types() -> Types {
    Types::new().with::<Rank>().with::<Odd>().with::<u8>().with::<[u16; 3]>()
}

fn segment<T: Wire>(records: &[T], pages: usize) -> Segment {
    let bytes = pages * PAGE_BYTES;
    let mut writer = SegmentWriter::new(&memory(), Purpose::Send, &types(), bytes).unwrap();
    for record in records {
        writer.push(*record).unwrap();
    }
    assert_eq!(writer.len(), records.len());
    writer.freeze()
}

/// What the other side receives.
fn sent(segment: &Segment) -> Vec<u8> {
    let bytes = [segment.head(), segment.pages()].concat();
    assert_eq!(bytes.len(), segment.len());
    bytes
}

fn validate(bytes: &[u8]) -> Result<View<AlignedBytes>, Invalid> {
    View::validate(AlignedBytes::copied(bytes), &types())
}

fn read<T: Wire>(bytes: &[u8]) -> Vec<T> {
    validate(bytes).unwrap().records::<T>().flatten().copied().collect()
}

fn odd(number: u32) -> Odd {
    let pair = Pair { first: u64::from(number) << 20, second: -i64::from(number) };
    Odd { pair, flags: [true, false, number.is_multiple_of(2), true], number }
}

#[test]
fn what_was_pushed_is_read_in_order() {
    for count in [0, 1, 169, 170, 171, 340, 341, 1000] {
        let records: Vec<Odd> = (0..count).map(odd).collect();
        let bytes = sent(&segment(&records, 8));
        assert_eq!(read::<Odd>(&bytes), records, "{count}");
        assert_eq!(read::<Rank>(&bytes), [], "no other type is there");
    }
}

#[test]
fn a_full_segment_says_so_and_keeps_what_it_has() {
    let mut writer =
        SegmentWriter::new(&memory(), Purpose::Send, &types(), 2 * PAGE_BYTES).unwrap();
    let rank = Rank { vertex: 3, rank: 0.25 };
    let mut written = 0;
    while writer.push(rank).is_ok() {
        written += 1;
    }
    assert_eq!(written, 2 * PAGE_BYTES / size_of::<Rank>());
    assert_eq!(writer.push(rank), Err(Full::Segment));
    assert_eq!(read::<Rank>(&sent(&writer.freeze())).len(), written);
}

#[test]
fn only_what_was_written_is_sent() {
    let memory = memory();
    let mut dirty = memory.allocate(4 * PAGE_BYTES, Purpose::Send).unwrap();
    dirty.mark_touched(4 * PAGE_BYTES);
    dirty.fill(0xA5);
    drop(dirty);
    let mut writer = SegmentWriter::new(&memory, Purpose::Send, &types(), 4 * PAGE_BYTES).unwrap();
    for _ in 0..683 {
        writer.push([0u16; 3]).unwrap();
    }
    let segment = writer.freeze();
    assert_eq!(segment.pages().len(), 683 * 6 + 6, "cut to its records, rounded up");
    assert!(segment.pages().iter().all(|byte| *byte == 0), "nothing that memory held before");
}

#[test]
#[cfg_attr(miri, ignore = "a million records, one by one")]
fn the_largest_segment_fits_a_message() {
    let segment = segment(&vec![7u8; BODY_BYTES_MAX], BODY_BYTES_MAX / PAGE_BYTES);
    assert_eq!(segment.len(), 24 + 8 + BODY_BYTES_MAX);
    // With some bytes to spare for what a message says ahead of the segment.
    let most = weft_object::HEAD_BYTES_MAX + BODY_BYTES_MAX;
    assert!(most + 64 <= weft_transport::limits::MESSAGE_MAX);
}

#[test]
fn each_wrong_field_is_named() {
    let good = sent(&segment(&[Rank { vertex: 1, rank: 1.0 }; 300], 8));
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        validate(&changed).map(|_| ()).unwrap_err()
    };
    assert_eq!(with(0, b"XSEG"), Invalid::Magic { found: u32::from_le_bytes(*b"XSEG") });
    assert_eq!(with(4, &[1, 0]), Invalid::Version { found: 1 });
    assert_eq!(with(6, &[2]), Invalid::Reserved { at: 6 });
    assert_eq!(with(7, &[1]), Invalid::Reserved { at: 6 });
    assert_eq!(with(6, &[0]), Invalid::Unfinished);
    let many = PAGES_MAX as u32 + 1;
    assert_eq!(with(8, &many.to_le_bytes()), Invalid::TooManyPages { pages: many });
    assert_eq!(with(8, &u32::MAX.to_le_bytes()), Invalid::TooManyPages { pages: u32::MAX });
    assert_eq!(with(12, &[2]), Invalid::OutOfOrder { expected: 1, found: 2 });
    let nowhere = Fault::NoPage { page: 2 };
    assert_eq!(with(16, &(2u32 << 10).to_le_bytes()), Invalid::Root { place: 0, fault: nowhere });
    assert_eq!(with(20, &[1]), Invalid::Reserved { at: 20 });
    assert_eq!(with(23, &[1]), Invalid::Reserved { at: 22 });
    assert_eq!(with(24, &[9, 0]), Invalid::UnknownType { page: 0, place: 9 });
    assert_eq!(with(26, &[9]), Invalid::Room { page: 0, room: 9 });
    assert_eq!(with(26, &[12]), Invalid::Count { page: 0, count: 300, stride: 16 });
    assert_eq!(with(27, &[1]), Invalid::Reserved { at: 27 });
    assert_eq!(with(28, &[0, 0]), Invalid::Count { page: 0, count: 0, stride: 16 });
    // One record more than there are bytes.
    assert_eq!(with(28, &[45, 1]), Invalid::Length { expected: 301 * 16, found: 300 * 16 });
    let count = u32::MAX;
    assert_eq!(with(28, &[255; 4]), Invalid::Count { page: 0, count, stride: 16 });
    for cut in [0, 7, 23, 24, 31] {
        assert!(matches!(validate(&good[..cut]), Err(Invalid::Truncated { .. })), "{cut}");
    }
    for cut in [32, 33, 4000, good.len() - 1] {
        assert!(matches!(validate(&good[..cut]), Err(Invalid::Length { .. })), "{cut}");
    }
    let longer = [good.as_slice(), &[0; 8]].concat();
    assert!(matches!(validate(&longer), Err(Invalid::Length { .. })), "bytes behind the pages");
}

#[test]
fn a_record_that_is_no_value_is_named() {
    let mut bytes = sent(&segment(&(0..200).map(odd).collect::<Vec<_>>(), 8));
    // The 172nd record's first flag.
    bytes[24 + 8 + 172 * 24 + 16] = 2;
    let fault = Fault::Value;
    assert_eq!(
        validate(&bytes).map(|_| ()).unwrap_err(),
        Invalid::Record { page: 0, record: 172, name: "Odd", fault }
    );
}

#[test]
fn misaligned_bytes_are_refused() {
    let bytes = sent(&segment(&[Rank { vertex: 1, rank: 1.0 }], 1));
    let shifted = AlignedBytes::copied(&[&[0], bytes.as_slice()].concat());
    let shifted = &weft_object::StableBytes::bytes(&shifted)[1..];
    assert_eq!(View::validate(shifted, &types()).map(|_| ()).unwrap_err(), Invalid::Misaligned);
}

/// Reads every byte that a view lends.
fn touch(bytes: &[u8]) -> usize {
    let Ok(view) = validate(bytes) else { return 0 };
    let ranks = view.records::<Rank>().flatten().map(|r| r.vertex ^ r.rank.to_bits());
    let odds = view.records::<Odd>().flatten().map(|o| {
        // A bool that is neither would be undefined behaviour, so this is what ASan and Miri see.
        o.flags.iter().map(|flag| u64::from(*flag)).sum::<u64>() + u64::from(o.number)
    });
    let small = view.records::<u8>().flatten().map(|byte| u64::from(*byte));
    let triples = view.records::<[u16; 3]>().flatten().map(|t| u64::from(t[0] ^ t[1] ^ t[2]));
    let sum = ranks.chain(odds).chain(small).chain(triples).fold(0, |sum: u64, n| sum ^ n);
    std::hint::black_box(sum);
    1
}

#[derive(Clone, Debug)]
enum Mutation {
    Set(usize, u8),
    Flip(usize, u8),
    Cut(usize),
    Grow(u8, usize),
    Swap(usize, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    // The head is where the damage is: most mutations go there.
    let at = prop_oneof![4 => 0..80usize, 1 => 0..3 * PAGE_BYTES];
    prop_oneof![
        (at.clone(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (at.clone(), 0..8u8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        (0..3 * PAGE_BYTES).prop_map(Mutation::Cut),
        (any::<u8>(), 1..64usize).prop_map(|(byte, count)| Mutation::Grow(byte, count)),
        (at.clone(), at).prop_map(|(one, other)| Mutation::Swap(one, other)),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let len = bytes.len();
    match *mutation {
        Mutation::Set(at, byte) if len > 0 => bytes[at % len] = byte,
        Mutation::Flip(at, bit) if len > 0 => bytes[at % len] ^= 1 << bit,
        Mutation::Swap(one, other) if len > 0 => bytes.swap(one % len, other % len),
        Mutation::Cut(at) => bytes.truncate(at),
        Mutation::Grow(byte, count) => bytes.extend(std::iter::repeat_n(byte, count)),
        Mutation::Set(..) | Mutation::Flip(..) | Mutation::Swap(..) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        // Under miri, a thousand times slower, some.
        if cfg!(miri) { 40 } else {
            option_env!("WEFT_HOSTILE_CASES").map_or(4_000, |cases| cases.parse().unwrap())
        }
    ))]

    #[test]
    fn damaged_segments_are_refused_or_harmless(
        counts in (0..400usize, 0..400u32),
        mutations in proptest::collection::vec(mutation(), 1..6),
    ) {
        let ranks: Vec<Rank> =
            (0..counts.0).map(|at| Rank { vertex: at as u64, rank: at as f64 }).collect();
        let odds: Vec<Odd> = (0..counts.1).map(odd).collect();
        for mut bytes in [sent(&segment(&ranks, 8)), sent(&segment(&odds, 8))] {
            prop_assert_eq!(touch(&bytes), 1, "undamaged");
            for mutation in &mutations {
                mutate(&mut bytes, mutation);
                touch(&bytes);
            }
        }
    }

    #[test]
    fn noise_is_refused_or_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        touch(&bytes);
    }
}
