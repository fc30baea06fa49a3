//! What has gone wrong with formats that are used in place, each once, by the names under which it was published: refused here, or not to be had.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weft_object::{
    AlignedBytes, Assembly, Fault, Frozen, Graph, Invalid, Limits, Link, Map, Pair, Seq, Text,
    Types, View, Wire,
};
use weft_transport::Purpose;

use crate::{memory, received, sent};

#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Item {
    numbers: Seq<u32>,
    name: Text,
    by_number: Map<u32, u32>,
    next: Option<Link<Item>>,
    shared: Link<u32>,
}

fn types() -> Types {
    Types::new().with::<Item>()
}

fn graph() -> Frozen<Item> {
    Graph::build(&memory(), Purpose::Send, &types(), |graph| {
        let shared = graph.alloc(5_u32)?.link();
        let numbers = graph.seq(&[1, 2, 3, 4])?;
        let name = graph.text("a name that has its own place")?;
        let by_number = graph.map([(1, 10), (2, 20), (3, 30)])?;
        graph.alloc(Item { numbers, name, by_number, next: None, shared })
    })
    .unwrap()
}

/// The graph's one segment with its root changed: where a field lies in it, and what is written there.
fn with(at: usize, bytes: &[u8]) -> Result<View<AlignedBytes>, Invalid> {
    let mut segments = sent(&graph());
    let segment = &mut segments[0];
    // The root is the last to be allocated, and the first of its page: it is found by its name's length.
    let name = (29_u32).to_le_bytes();
    let found = segment.windows(4).rposition(|window| window == name).unwrap();
    let root = found - std::mem::offset_of!(Item, name) - 4;
    segment[root + at..root + at + bytes.len()].copy_from_slice(bytes);
    received(&segments, &types())
}

fn fault(at: usize, bytes: &[u8]) -> Fault {
    match with(at, bytes).unwrap_err() {
        Invalid::Record { name: "Item", fault, .. } => fault,
        other => panic!("{other}"),
    }
}

/// RUSTSEC-2026-0235: a counted slice with a forged length passed the check.
#[test]
fn a_length_that_is_forged_is_refused() {
    let len = std::mem::offset_of!(Item, numbers) + 4;
    assert_eq!(with(len, &4_u32.to_le_bytes()).map(|_| ()), Ok(()));
    for forged in [6_u32, 1_000, 1 << 30, u32::MAX] {
        assert_eq!(fault(len, &forged.to_le_bytes()), Fault::Beyond, "{forged}");
    }
    let len = std::mem::offset_of!(Item, name) + 4;
    for forged in [40_u32, 1 << 20, (1 << 31) - 1] {
        assert_eq!(fault(len, &forged.to_le_bytes()), Fault::Beyond, "{forged}");
    }
}

/// RUSTSEC-2026-0234: a hash table read outside; rkyv's issues 668 and 685: a probe that does not end, an index that panics later.
#[test]
fn a_map_that_is_forged_is_searched_within_its_pairs() {
    let len = std::mem::offset_of!(Item, by_number) + 4;
    assert_eq!(fault(len, &4_u32.to_le_bytes()), Fault::Beyond);
    let types = Types::new().with::<Map<u32, u32>>();
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| {
        // Pairs are a sequence, so anybody can have them in any order.
        let pair = |key| Pair { key, value: key };
        let unsorted: Vec<_> = [9_u32, 1, 8, 2, 7, 7, 7, 0].map(pair).into();
        let unsorted = graph.seq(&unsorted)?;
        graph.alloc(unsorted)
    });
    let view = received(&sent(&graph.unwrap()), &types).unwrap();
    let map = view.map(*view.root::<Map<u32, u32>>().unwrap());
    for key in 0..12 {
        assert!(map.get(&key).is_none_or(|value| *value == key));
    }
}

/// RUSTSEC-2026-0001: memory for what is claimed, not for what is there.
#[test]
fn nothing_is_allocated_for_a_claim() {
    let mut segment = sent(&graph()).remove(0);
    let entry = 24 + 4;
    segment[entry..entry + 4].copy_from_slice(&(u32::MAX / 4).to_le_bytes());
    let invalid = received(&[segment], &types()).unwrap_err();
    assert!(matches!(invalid, Invalid::Length { .. } | Invalid::Count { .. }), "{invalid}");
}

/// RUSTSEC-2026-0122: a panic in the middle of writing left what was not written.
#[test]
fn a_panic_while_a_graph_is_written_leaves_nothing_to_be_read() {
    let types = Types::new().with::<Seq<bool>>();
    let built = catch_unwind(AssertUnwindSafe(|| {
        Graph::build(&memory(), Purpose::Send, &types, |graph| {
            let before = graph.seq(&[true; 8])?;
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                graph.seq_from((0..8).map(|at| if at < 4 { false } else { panic!("of the test") }))
            }));
            assert!(panicked.is_err());
            let again = catch_unwind(AssertUnwindSafe(|| graph.seq_from([true; 2])));
            assert!(again.is_err(), "what may not have been written is not forgotten");
            let lent = catch_unwind(AssertUnwindSafe(|| graph.seq_mut(before)[0] = false));
            assert!(lent.is_err(), "and not lent");
            graph.alloc(before)
        })
    }));
    assert!(built.is_err(), "nor is it sent");
}

/// A type whose check panics, which safe code can have only by a defect of ours, leaves no graph behind.
#[test]
fn arrays_of_nothing_are_nothing() {
    #[derive(Wire, Clone, Copy)]
    #[repr(C)]
    struct Odd {
        value: u64,
        nothing: [[bool; 0]; 2],
    }
    let types = Types::new().with::<Odd>();
    let odd = Odd { value: 3, nothing: [[]; 2] };
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| graph.alloc(odd)).unwrap();
    assert_eq!(graph.view().unwrap().root::<Odd>().unwrap().value, 3);
    assert!(graph.compact(&memory(), Purpose::Send).is_ok());
}

/// rkyv's issues 684: a deep list ended the stack; and 668: nothing ends that goes round. A list of which the last leads to the first is checked as any.
#[test]
fn depth_and_circles_are_nothing_special() {
    #[derive(Wire, Clone, Copy, Debug)]
    #[repr(C)]
    struct Ring {
        next: Link<Ring>,
    }
    let types = Types::new().with::<Ring>();
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| {
        let first = graph.alloc_cyclic(|me| Ring { next: me })?;
        let mut last = first;
        for _ in 1..400_000 {
            last = graph.alloc(Ring { next: last.link() })?;
        }
        graph.get_mut(first).next = last.link();
        Ok(first)
    });
    let graph = graph.unwrap();
    let view = received(&sent(&graph), &types).unwrap();
    let first = view.root::<Ring>().unwrap();
    let (mut ring, mut count) = (view.get(first.next), 1);
    while !std::ptr::eq(ring, first) {
        (ring, count) = (view.get(ring.next), count + 1);
    }
    assert_eq!(count, 400_000);
    assert!(graph.compact(&memory(), Purpose::Send).is_ok());
}

/// rkyv's issue 471: counted pointers as keys or values of a map failed the check though they were valid; and its shared pointers may not
/// be of two types. What is shared is nothing that the check could see.
#[test]
fn what_is_shared_may_be_anywhere() {
    let types = Types::new().with::<Map<Text, Link<Item>>>();
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| {
        let shared = graph.alloc(5_u32)?.link();
        let name = graph.text("a name that both have")?;
        let item = Item { numbers: Seq::EMPTY, name, by_number: Map::EMPTY, next: None, shared };
        let item = graph.alloc(item)?.link();
        let map = graph.text_map([("one", item), ("other", item)])?;
        graph.alloc(map)
    });
    let view = received(&sent(&graph.unwrap()), &types).unwrap();
    let map = view.map::<Text, Link<Item>>(*view.root().unwrap());
    let [one, other] = ["one", "other"].map(|name| view.get(*map.get(name).unwrap()));
    assert!(std::ptr::eq::<Item>(one, other));
}

/// rkyv's issues 694 and 699: a niche that is not checked. A link is never zero but where it may be.
#[test]
fn a_link_that_is_zero_is_refused_and_an_optional_one_is_none() {
    let zero = 0_u32.to_le_bytes();
    assert_eq!(fault(std::mem::offset_of!(Item, shared), &zero), Fault::NoPage { page: 0 });
    let view = with(std::mem::offset_of!(Item, next), &zero).unwrap();
    assert!(view.root::<Item>().unwrap().next.is_none());
}

/// RUSTSEC-2021-0120: bytes of another type, alignment and machine were taken for what they were not.
#[test]
fn a_link_to_another_type_or_between_objects_is_refused() {
    let next = std::mem::offset_of!(Item, next);
    // Page 1 holds the numbers, and the first object is one.
    assert!(matches!(fault(next, &(1_u32 << 10).to_le_bytes()), Fault::OtherType { .. }));
    assert_eq!(fault(next, &(9_u32 << 10).to_le_bytes()), Fault::NoPage { page: 9 });
    // The root's own page, in the middle of it.
    let root = 4_u32 << 10;
    assert_eq!(fault(next, &(root + 1).to_le_bytes()), Fault::Between);
    let behind = root + size_of::<Item>() as u32 / 4;
    assert_eq!(fault(next, &behind.to_le_bytes()), Fault::Beyond);
    assert!(with(next, &root.to_le_bytes()).is_ok(), "but it may lead to itself");
}

/// RUSTSEC-2026-0233: what was freed stayed in use. A view keeps what it lends: this does not compile otherwise, see `View`. And what an
/// assembly has refused, it does not lend later.
#[test]
fn what_was_refused_is_never_lent() {
    let mut bad = sent(&graph()).remove(0);
    let last = bad.len() - 8;
    bad[24..last].fill(0xff);
    let mut assembly = Assembly::new(&types(), Limits::default());
    assert!(assembly.add(AlignedBytes::copied(&bad)).is_err());
    assert!(assembly.add(AlignedBytes::copied(&sent(&graph())[0])).is_err());
    assert!(assembly.finish().is_err());
}
