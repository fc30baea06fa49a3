//! Every kind of field makes the way.

use weft_object::{
    AnyLink, Bytes, Fault, Graph, Invalid, Link, Map, OtherRoot, Pair, Seq, Text, Types, Wire,
};
use weft_transport::Purpose;

use crate::{memory, received, sent};

#[derive(Wire, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Color {
    Red = 3,
    Green,
    Blue = 9,
}

#[derive(Wire, Clone, Copy, Debug)]
#[repr(u32)]
enum Event {
    Named { name: Text },
    Numbered { number: u32, times: u32 },
    Linked { to: Link<Everything>, other: Option<Link<Everything>> } = 7,
}

#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Everything {
    number: i64,
    short: Text,
    long: Text,
    bytes: Bytes,
    points: Seq<Pair<f64, f64>>,
    events: Seq<Event>,
    by_number: Map<u32, i32>,
    by_name: Map<Text, Link<Everything>>,
    me: Option<Link<Everything>>,
    nobody: Option<Link<Everything>>,
    any: AnyLink,
    colors: [Color; 3],
    flag: bool,
}

#[test]
fn what_was_built_is_read() {
    let types = Types::new().with::<Everything>();
    let long = "a text that is longer than seven bytes – ja";
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| {
        let number = graph.alloc(Event::Numbered { number: 1, times: 2 })?;
        let everything = Everything {
            number: -5,
            short: graph.text("sieben!")?,
            long: graph.text(long)?,
            bytes: graph.bytes(&[1, 2, 3])?,
            points: graph.seq(&[Pair { key: 0.5, value: 1.5 }, Pair { key: 2.5, value: 3.5 }])?,
            events: Seq::EMPTY,
            by_number: graph.map([(7, -7), (3, -3), (7, -8), (9, -9)])?,
            by_name: Map::EMPTY,
            me: None,
            nobody: None,
            any: number.link().any(),
            colors: [Color::Blue, Color::Red, Color::Green],
            flag: true,
        };
        let root = graph.alloc(everything)?;
        let link = root.link();
        graph.get_mut(root).me = Some(link);
        let names = graph.text_map([("zebra", link), (long, link), ("ape", link)])?;
        graph.get_mut(root).by_name = names;
        let name = graph.text(long)?;
        let events = [
            Event::Named { name },
            Event::Linked { to: link, other: None },
            Event::Linked { to: link, other: Some(link) },
        ];
        let events = graph.seq(&events)?;
        graph.get_mut(root).events = events;
        graph.seq_mut(events)[1] = Event::Numbered { number: 4, times: 5 };
        assert_eq!(graph.get(root).number, -5);
        Ok(root)
    })
    .unwrap();
    let received = received(&sent(&graph), &types).unwrap();
    for view in [received.to_owned(), received] {
        let root = view.root::<Everything>().unwrap();
        assert_eq!((root.number, root.flag, root.nobody), (-5, true, None));
        assert_eq!((view.text(&root.short), view.text(&root.long)), ("sieben!", long));
        assert_eq!(root.long.len(), long.len());
        assert_eq!(view.seq(root.bytes), [1, 2, 3]);
        assert_eq!(view.seq(root.points)[1], Pair { key: 2.5, value: 3.5 });
        assert_eq!(root.colors, [Color::Blue, Color::Red, Color::Green]);
        assert!(std::ptr::eq(view.get(root.me.unwrap()), root), "a cycle");
        let numbers = view.map(root.by_number);
        assert_eq!(numbers.pairs().len(), 3);
        assert_eq!(
            [3, 7, 9, 4].map(|key| numbers.get(&key).copied()),
            [Some(-3), Some(-8), Some(-9), None]
        );
        let names = view.map(root.by_name);
        assert_eq!(names.get("ape").copied(), root.me);
        assert_eq!(names.get(long).copied(), root.me);
        assert_eq!(names.get("bear"), None);
        let event = view.downcast::<Event>(root.any).unwrap();
        assert!(matches!(event, Event::Numbered { number: 1, times: 2 }));
        assert!(view.downcast::<Everything>(root.any).is_none());
        let [Event::Named { name }, Event::Numbered { number: 4, .. }, Event::Linked { to, other }] =
            view.seq(root.events)
        else {
            panic!("{:?}", view.seq(root.events));
        };
        assert_eq!(view.text(name), long);
        assert_eq!((Some(*to), *other), (root.me, root.me));
    }
}

#[test]
fn the_root_is_asked_for_by_its_type() {
    let types = Types::new().with::<u64>().with::<bool>();
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| graph.alloc(5_u64)).unwrap();
    let view = graph.view().unwrap();
    assert_eq!(view.root::<u64>(), Ok(&5));
    assert_eq!(view.root::<bool>(), Err(OtherRoot { expected: "bool", found: Some("u64") }));
    assert_eq!(view.root::<bool>().unwrap_err().to_string(), "the graph's root is u64, not bool");
}

#[test]
fn a_link_of_another_graph_is_found() {
    let types = Types::new().with::<Link<u64>>();
    let memory = memory();
    let mut taken = None;
    Graph::build(&memory, Purpose::Send, &types, |graph| {
        (0..100).try_for_each(|number| graph.alloc::<u64>(number).map(|_| ()))?;
        let last = graph.alloc(100_u64)?;
        taken = Some(last.link());
        Ok(last)
    })
    .unwrap();
    let graph = Graph::build(&memory, Purpose::Send, &types, |graph| graph.alloc(taken.unwrap()));
    let invalid = graph.unwrap().view().unwrap_err();
    let fault = Fault::NoPage { page: 2 };
    assert_eq!(invalid, Invalid::Record { page: 0, record: 0, name: "Link", fault });
}

#[test]
fn a_small_graph_is_small_and_a_large_sequence_is_cut_to_measure() {
    let types = Types::new().with::<Seq<f32>>().with::<Text>();
    let graph = |len: usize| {
        Graph::build(&memory(), Purpose::Send, &types, |graph| {
            let seq = graph.seq_from((0..len).map(|at| at as f32))?;
            graph.alloc(seq)
        })
        .unwrap()
    };
    // A head with two entries, a page for the root and one for the elements.
    assert_eq!(graph(1).len_bytes(), 24 + 2 * 8 + 8 + 8);
    let large = graph(1 << 20);
    assert_eq!(large.segments().len(), 2, "a sequence beyond a segment has its own");
    assert_eq!(large.len_bytes(), 2 * 24 + 2 * 8 + 8 + (4 << 20));
    let view = received(&sent(&large), &types).unwrap();
    let seq = view.seq(*view.root::<Seq<f32>>().unwrap());
    assert!(seq.iter().enumerate().all(|(at, number)| *number == at as f32));
}

#[test]
fn what_is_between_short_sequences_is_valid_too() {
    let types = Types::new().with::<Seq<Color>>().with::<Seq<Seq<Color>>>();
    let colors = [Color::Red, Color::Blue, Color::Green];
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| {
        let mut all = Vec::new();
        for len in (0..=3).cycle().take(2_000) {
            all.push(graph.seq(&colors[..len])?);
        }
        let all = graph.seq(&all)?;
        graph.alloc(all)
    })
    .unwrap();
    let view = received(&sent(&graph), &types).unwrap();
    for (at, seq) in view.seq(*view.root::<Seq<Seq<Color>>>().unwrap()).iter().enumerate() {
        assert_eq!(view.seq(*seq), &colors[..at % 4], "{at}");
    }
}

#[test]
fn nothing_that_memory_held_before_is_sent() {
    let memory = memory();
    let mut dirty = memory.allocate(1 << 20, Purpose::Send).unwrap();
    dirty.mark_touched(1 << 20);
    dirty.fill(0xA5);
    drop(dirty);
    let types = Types::new().with::<Text>().with::<Seq<u16>>();
    let graph = Graph::build(&memory, Purpose::Send, &types, |graph| {
        for len in 0..500 {
            graph.text(&"\0".repeat(len % 50))?;
            graph.seq(&vec![0_u16; len % 5])?;
        }
        graph.alloc(Text::EMPTY)
    })
    .unwrap();
    for segment in graph.segments() {
        assert!(segment.pages().iter().all(|byte| *byte != 0xA5));
    }
    received(&sent(&graph), &types).unwrap();
}

/// Tags are what the program says, by constants of its own too, whatever their names.
#[test]
fn tags_of_enums_are_the_programs_own() {
    const TAG_1: u8 = 7;
    #[derive(Wire, Clone, Copy, Debug, PartialEq)]
    #[repr(u8)]
    enum Either {
        Number { number: u8 } = TAG_1,
        Flag { flag: bool } = 3,
    }
    let types = Types::new().with::<Seq<Either>>();
    let values = [Either::Number { number: 200 }, Either::Flag { flag: true }];
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| {
        let values = graph.seq(&values)?;
        graph.alloc(values)
    });
    let segments = sent(&graph.unwrap());
    let view = received(&segments, &types).unwrap();
    assert_eq!(view.seq(*view.root::<Seq<Either>>().unwrap()), values);
    let at = segments[0].windows(4).position(|window| window == [7, 200, 3, 1]).unwrap();
    for (offset, wrong) in [(0, 0), (0, 4), (2, 7 + 1), (3, 2), (3, 200)] {
        let mut damaged = segments.clone();
        damaged[0][at + offset] = wrong;
        let invalid = received(&damaged, &types).map(|_| ()).unwrap_err();
        assert!(matches!(invalid, Invalid::Record { name: "Either", fault: Fault::Value, .. }));
    }
}

/// Types with parameters lead to what they lead to, and are other types with other parameters.
#[test]
fn types_with_parameters_are_kept_apart() {
    #[derive(Wire, Clone, Copy, Debug)]
    #[repr(C)]
    struct List<T> {
        first: Option<Link<Cell<T>>>,
    }
    #[derive(Wire, Clone, Copy, Debug)]
    #[repr(C)]
    struct Cell<T> {
        value: T,
        next: Option<Link<Cell<T>>>,
        tag: Tag<T, 2>,
    }
    #[derive(Wire, Clone, Copy, Debug)]
    #[repr(u32)]
    enum Tag<T, const N: usize> {
        Values { values: [T; N] },
        Others { others: [T; N] } = 9,
    }
    type Both = Pair<List<u32>, List<i32>>;
    let types = Types::new().with::<Both>();
    assert_eq!(types.len(), 3, "the pair, and two kinds of cells");
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| {
        let tag = Tag::Others { others: [1, 2] };
        let one = graph.alloc(Cell { value: 7_u32, next: None, tag })?.link();
        let two = graph.alloc(Cell { value: 8_u32, next: Some(one), tag })?.link();
        let tag = Tag::Values { values: [-1, -2] };
        let other = graph.alloc(Cell { value: -7_i32, next: None, tag })?.link();
        graph.alloc(Pair { key: List { first: Some(two) }, value: List { first: Some(other) } })
    });
    let view = received(&sent(&graph.unwrap()), &types).unwrap();
    let Pair { key, value } = view.root::<Both>().unwrap();
    let two = view.get(key.first.unwrap());
    assert_eq!((two.value, view.get(two.next.unwrap()).value), (8, 7));
    assert!(matches!(two.tag, Tag::Others { others: [1, 2] }));
    let other = view.get(value.first.unwrap());
    assert_eq!(other.value, -7);
    assert!(matches!(other.tag, Tag::Values { values: [-1, -2] }));
    assert!(view.root::<Pair<List<i32>, List<u32>>>().is_err());
}

/// Another type of the same layout is not lent, whatever is listed.
#[test]
fn what_is_not_listed_is_not_lent() {
    let types = Types::new().with::<u8>().with::<AnyLink>();
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| {
        let byte = graph.alloc(0xee_u8)?.link();
        graph.alloc(byte.any())
    });
    let view = graph.unwrap().view().unwrap();
    let any = *view.root::<AnyLink>().unwrap();
    assert_eq!(view.downcast::<u8>(any), Some(&0xee));
    assert_eq!(view.downcast::<bool>(any), None);
    assert_eq!(view.downcast::<[u8; 1]>(any), None);
    assert_eq!(view.records::<bool>().count(), 0);
}

/// Parts that have bytes in common are each copied for themselves.
#[test]
fn parts_that_overlap_are_copied_each() {
    let types = Types::new().with::<u64>();
    let segment = |first: u8, last: u8| {
        let mut head = b"WSEG\x02\0\0\0\x01\0\0\0".to_vec();
        head[6] = last;
        head.extend([first, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0]);
        head
    };
    let numbers: Vec<u8> = (0..12_u64).flat_map(u64::to_le_bytes).collect();
    let numbers = weft_object::AlignedBytes::copied(&numbers);
    let bytes = weft_object::StableBytes::bytes(&numbers);
    let mut assembly = weft_object::Assembly::new(&types, weft_object::Limits::default());
    assert_eq!(assembly.add_split(&segment(1, 0), &bytes[..64]), Ok(false));
    assert_eq!(assembly.add_split(&segment(2, 1), &bytes[32..]), Ok(true));
    let view = assembly.finish().unwrap();
    let all = |pages: Vec<&[u64]>| pages.concat();
    let expected: Vec<u64> = (0..8).chain(4..12).collect();
    assert_eq!(all(view.records::<u64>().collect()), expected);
    let owned = view.to_owned();
    assert_eq!(all(owned.records::<u64>().collect()), expected);
}
