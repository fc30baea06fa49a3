//! Values that are looked at together: one that is wrong is found and named wherever it stands among others.

use weft_object::{Fault, Graph, Invalid, Link, Seq, Text, Types, Wire};
use weft_transport::Purpose;

use crate::{memory, received, sent};

/// More than are looked at together, twice, and some.
const COUNT: usize = 40;

#[derive(Wire, Clone, Copy)]
#[repr(C)]
struct Entry {
    /// Marks where the entry begins.
    number: u32,
    name: Text,
    target: Link<Target>,
    next: Option<Link<Target>>,
    /// Three values, of which not any bytes are one.
    flags: [bool; 4],
}

/// Twelve bytes: a page has offsets that are none of theirs.
#[derive(Wire, Clone, Copy)]
#[repr(C)]
struct Target {
    words: [u32; 3],
}

fn types() -> Types {
    Types::new().with::<Seq<Entry>>()
}

/// Entries in one page, which lead to targets in another one; and where they lie in the one segment.
fn graph() -> (Vec<u8>, usize) {
    let graph = Graph::build(&memory(), Purpose::Send, &types(), |graph| {
        let mut targets = Vec::new();
        for at in 0..4 {
            targets.push(graph.alloc(Target { words: [at; 3] })?.link());
        }
        let name = graph.text("seventy")?;
        let entry = |(number, at): (u32, usize)| {
            let (target, next) = (targets[at % 4], Some(targets[(at + 3) % 4]));
            Entry { number, name, target, next, flags: [true; 4] }
        };
        let entries: Vec<_> = (0x5eed_0000..).zip(0..COUNT).map(entry).collect();
        let entries = graph.seq(&entries)?;
        graph.alloc(entries)
    });
    let segments = sent(&graph.unwrap());
    let [segment] = &segments[..] else { panic!("the graph has one segment") };
    let marks = 0x5eed_0000_u32.to_le_bytes();
    let first = segment.windows(4).position(|window| window == marks).unwrap();
    (segment.clone(), first)
}

/// What is found when a field of one entry is something else.
fn found(record: usize, field: usize, bytes: &[u8]) -> Result<(), (usize, Fault)> {
    let (mut segment, first) = graph();
    let at = first + record * size_of::<Entry>() + field;
    segment[at..at + bytes.len()].copy_from_slice(bytes);
    match received(&[segment], &types()) {
        Ok(_) => Ok(()),
        Err(Invalid::Record { name: "Entry", record, fault, .. }) => Err((record, fault)),
        Err(other) => panic!("{other}"),
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(*bytes.first_chunk().unwrap())
}

#[test]
fn a_faulty_value_is_named_wherever_it_stands_among_others() {
    let (segment, first) = graph();
    assert!(received(std::slice::from_ref(&segment), &types()).is_ok());
    let fields = [std::mem::offset_of!(Entry, target), std::mem::offset_of!(Entry, next)];
    let first_target = word(&segment[first + fields[0]..]);
    for record in 0..COUNT {
        for field in fields {
            let fault = |raw: u32| {
                let (at, fault) = found(record, field, &raw.to_le_bytes()).unwrap_err();
                assert_eq!(at, record, "{raw:#x}");
                fault
            };
            assert_eq!(fault(first_target + 4 * 3), Fault::Beyond, "behind the last");
            assert_eq!(fault(first_target + 1), Fault::Between);
            assert_eq!(fault(first_target + 2), Fault::Between);
            let page = first_target >> 10;
            assert!(matches!(fault((page + 1) << 10), Fault::OtherType { .. }), "the next page");
            assert_eq!(fault(u32::MAX), Fault::NoPage { page: u32::MAX >> 10 });
            assert_eq!(fault(1), Fault::NoPage { page: 0 });
        }
        let nowhere = |field| found(record, field, &[0; 4]);
        assert_eq!(nowhere(fields[0]), Err((record, Fault::NoPage { page: 0 })));
        assert_eq!(nowhere(fields[1]), Ok(()), "an optional link may lead nowhere");
        let flag = std::mem::offset_of!(Entry, flags) + record % 4;
        assert_eq!(found(record, flag, &[2]), Err((record, Fault::Value)));
    }
}

#[test]
fn every_byte_of_a_text_counts_wherever_it_stands_among_others() {
    let name = std::mem::offset_of!(Entry, name);
    for record in [0, 7, 15, 16, 31, 32, COUNT - 1] {
        for len in 0..=7_usize {
            let mut text = [0; 8];
            text[..len].fill(b'x');
            text[7] = 0x80 | len as u8;
            assert_eq!(found(record, name, &text), Ok(()), "{len} bytes");
            for at in 0..7 {
                let mut other = text;
                // Half of a character within the text, and something behind its end.
                other[at] = if at < len { 0xc3 } else { 1 };
                assert_eq!(found(record, name, &other), Err((record, Fault::Text)), "{other:x?}");
            }
            let longer = [0x88 | len as u8, 0xc0 | len as u8, 0x90 | len as u8];
            for last in longer {
                let mut other = text;
                other[7] = last;
                assert_eq!(found(record, name, &other), Err((record, Fault::Text)), "{last:x}");
            }
        }
        // Characters of two bytes are looked at more closely, and are fine.
        assert_eq!(found(record, name, &[0xc3, 0xa4, 0xc3, 0xb6, 0, 0, 0, 0x84]), Ok(()));
    }
}
