//! Segments of records that are graphs.

#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

use proptest::prelude::*;
use weft_object::{
    AlignedBytes, BODY_BYTES_MAX, Fault, Full, Graph, GraphSegmentWriter, Invalid, Link,
    PAGE_BYTES, Ref, Root, Segment, Seq, Text, Types, View, Wire,
};
use weft_transport::{Memory, MemoryConfig, Purpose};

#[derive(Wire, Clone, Copy)]
#[repr(C)]
struct Part {
    name: Text,
    number: u64,
}

/// Leads to parts, and to another of its own type, which is no record for that.
#[derive(Wire, Clone, Copy)]
#[repr(C)]
struct Whole {
    name: Text,
    parts: Seq<Link<Part>>,
    other: Option<Link<Whole>>,
}

/// What a record is made of.
type Model = (String, Vec<(String, u64)>);

fn types() -> Types {
    Types::new().with::<Root<Whole>>()
}

fn memory() -> Memory {
    Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap()
}

fn writer(bytes: usize) -> GraphSegmentWriter<Whole> {
    GraphSegmentWriter::new(&memory(), Purpose::Send, &types(), bytes).unwrap()
}

/// A record whose root leads to another object of the root's type, and that back.
fn build<'g>(graph: &mut Graph<'g>, (name, parts): &Model) -> Result<Ref<'g, Whole>, Full> {
    let mut links = Vec::new();
    for (name, number) in parts {
        let name = graph.text(name)?;
        links.push(graph.alloc(Part { name, number: *number })?.link());
    }
    let parts = graph.seq(&links)?;
    let name = graph.text(name)?;
    let root = graph.alloc(Whole { name, parts, other: None })?;
    let other = Whole { name: Text::EMPTY, parts: Seq::EMPTY, other: Some(root.link()) };
    let other = graph.alloc(other)?;
    graph.get_mut(root).other = Some(other.link());
    Ok(root)
}

fn bytes(segment: &Segment) -> Vec<u8> {
    [segment.head(), segment.pages()].concat()
}

fn received(bytes: &[u8]) -> Result<View<AlignedBytes>, Invalid> {
    View::validate(AlignedBytes::copied(bytes), &types())
}

fn read<B>(view: &View<B>) -> Vec<Model> {
    let part = |link: &Link<Part>| {
        let part = view.get(*link);
        (view.text(&part.name).to_owned(), part.number)
    };
    let records = view.roots::<Whole>().map(|root| {
        let other = view.get(root.other.unwrap());
        assert!(std::ptr::eq(view.get(other.other.unwrap()), root), "a cycle leads back");
        (view.text(&root.name).to_owned(), view.seq(root.parts).iter().map(part).collect())
    });
    records.collect()
}

fn model(number: u64) -> Model {
    let parts = (0..number % 5).map(|part| (format!("part {part} of {number}"), part)).collect();
    (format!("whole {number}"), parts)
}

#[test]
fn a_segment_takes_as_many_records_as_it_has_room_for() {
    let mut writer = writer(16 * PAGE_BYTES);
    let full = (0..).find(|number| writer.push(|graph| build(graph, &model(*number))).is_err());
    let full = full.unwrap();
    assert!(full > 300, "{full}");
    assert_eq!(writer.len() as u64, full);
    let segment = writer.freeze();
    assert!(segment.pages().len() <= 16 * PAGE_BYTES);
    let expected: Vec<Model> = (0..full).map(model).collect();
    assert_eq!(read(&received(&bytes(&segment)).unwrap()), expected);
    assert_eq!(read(&segment.view(&types()).unwrap()), expected);
}

#[test]
fn nothing_is_left_of_a_record_for_which_there_is_no_room() {
    let mut writer = writer(4 * PAGE_BYTES);
    for number in 0..10 {
        writer.push(|graph| build(graph, &model(number))).unwrap();
        let long = ("long".to_owned(), vec![("a part with a name".to_owned(), 1); 1000]);
        assert_eq!(writer.push(|graph| build(graph, &long)), Err(Full::Segment));
        // One that fails by itself, with all of its objects written.
        let failed = writer.push(|graph| {
            build(graph, &model(7))?;
            Err(Full::Graph)
        });
        assert_eq!(failed, Err(Full::Graph));
    }
    let view = received(&bytes(&writer.freeze())).unwrap();
    assert_eq!(read(&view), (0..10).map(model).collect::<Vec<_>>());
    let parts = (0..10).map(|number| model(number).1.len()).sum::<usize>();
    assert_eq!(view.records::<Part>().flatten().count(), parts);
    assert_eq!(view.records::<Whole>().flatten().count(), 20);
}

#[test]
fn a_record_is_as_long_as_a_segment_or_none() {
    let with_text = |len: usize| ("x".repeat(len), Vec::new());
    let mut taken = writer(BODY_BYTES_MAX);
    let long = with_text(BODY_BYTES_MAX - PAGE_BYTES);
    taken.push(|graph| build(graph, &long)).unwrap();
    assert_eq!(read(&received(&bytes(&taken.freeze())).unwrap()), [long]);
    let mut refused = writer(BODY_BYTES_MAX);
    let longer = with_text(BODY_BYTES_MAX);
    assert_eq!(refused.push(|graph| build(graph, &longer)), Err(Full::Segment));
    assert!(refused.is_empty());
    let segment = refused.freeze();
    assert!(segment.is_empty());
    assert_eq!(read(&received(&bytes(&segment)).unwrap()), []);
}

#[test]
fn a_sequence_that_could_be_shared_is_copied_into_the_segment() {
    let memory = memory();
    let mut block = memory.allocate(16 << 10, Purpose::Send).unwrap();
    block.fill(3);
    let shared = block.freeze();
    let types = Types::new().with::<Root<Seq<u64>>>();
    let mut writer =
        GraphSegmentWriter::<Seq<u64>>::new(&memory, Purpose::Send, &types, 8 * PAGE_BYTES)
            .unwrap();
    writer
        .push(|graph| {
            let numbers = graph.seq_shared::<u64>(&shared)?;
            graph.alloc(numbers)
        })
        .unwrap();
    let segment = writer.freeze();
    let view = segment.view(&types).unwrap();
    let numbers = view.seq(*view.roots::<Seq<u64>>().next().unwrap());
    assert_eq!(numbers, [0x0303_0303_0303_0303; 2048]);
}

/// Objects of a type, of which many and few are written at once and some by themselves, are where their links lead.
fn linked_objects<T: Wire + PartialEq + std::fmt::Debug>(object: impl Fn(u64) -> T) {
    let (memory, types) = (memory(), Types::new().with::<Root<Seq<Link<T>>>>());
    for lens in [vec![0, 1, 3, 0, 200, 2], vec![5000, 1], vec![255, 256, 257, 1024]] {
        let mut writer =
            GraphSegmentWriter::<Seq<Link<T>>>::new(&memory, Purpose::Send, &types, BODY_BYTES_MAX)
                .unwrap();
        for (at, len) in lens.iter().enumerate() {
            let pushed = writer.push(|graph| {
                graph.alloc(object(u64::MAX))?;
                let objects = (0..*len).map(|index| object(u64::from(index) * 7 + at as u64));
                let links = graph.linked(objects)?;
                graph.alloc(links)
            });
            pushed.unwrap();
        }
        let segment = writer.freeze();
        let view = segment.view(&types).unwrap();
        let found: Vec<Seq<Link<T>>> = view.roots::<Seq<Link<T>>>().copied().collect();
        assert_eq!(found.len(), lens.len());
        for (at, (links, len)) in found.into_iter().zip(lens).enumerate() {
            let number = |index: u32| u64::from(index) * 7 + at as u64;
            let expected: Vec<T> = (0..len).map(|index| object(number(index))).collect();
            assert!(view.linked(links).copied().eq(expected.iter().copied()), "{len} of them");
            let one_by_one = view.seq(links).iter().map(|link| *view.get(*link));
            assert!(one_by_one.eq(expected), "{len} of them");
        }
    }
}

#[test]
fn objects_that_are_written_together_are_where_their_links_lead() {
    linked_objects(|number| number);
    linked_objects(|number| number as u16);
    linked_objects(|number| number as u32);
    linked_objects(|number| [number as u8, 2, 3]);
    linked_objects(|number| [number as u32, 2, 3]);
    linked_objects(|number| [number; 17]);
}

#[test]
fn of_objects_for_which_there_is_no_room_together_all_have_links() {
    // Whoever goes on with a graph that was full has nothing in it that was not written.
    let memory = Memory::new(MemoryConfig { limit_bytes: 2 << 20 }).unwrap();
    let types = Types::new().with::<Seq<Link<[u64; 64]>>>();
    let graph = Graph::build(&memory, Purpose::Send, &types, |graph| {
        // Beside it, there is room for another.
        graph.alloc(Seq::<Link<[u64; 64]>>::EMPTY)?;
        let full = graph.linked((0..10_000_u32).map(|number| [u64::from(number); 64]));
        assert!(matches!(full, Err(Full::Memory(_))), "{full:?}");
        graph.alloc(Seq::<Link<[u64; 64]>>::EMPTY)
    });
    let view = graph.unwrap().view().unwrap();
    let links: Vec<Link<[u64; 64]>> = view.records().flatten().copied().collect();
    assert_eq!(links.len(), 10_000);
    assert!(links.iter().any(|link| view.get(*link)[0] > 100));
}

#[test]
#[should_panic(expected = "a link is followed in its own graph")]
fn a_sequence_of_links_of_another_graph_is_not_followed() {
    let types = Types::new().with::<Root<Seq<Link<u64>>>>();
    let segment = |len: u64| {
        let (memory, purpose) = (memory(), Purpose::Send);
        let writer = GraphSegmentWriter::<Seq<Link<u64>>>::new(&memory, purpose, &types, 64 << 10);
        let mut writer = writer.unwrap();
        let numbers: Vec<u64> = (0..len).collect();
        writer.push(|graph| graph.linked(numbers).and_then(|links| graph.alloc(links))).unwrap();
        writer.freeze()
    };
    let (many, few) = (segment(2000), segment(2));
    let of_many = many.view(&types).unwrap();
    let links = *of_many.roots::<Seq<Link<u64>>>().next().unwrap();
    few.view(&types).unwrap().linked(links).count();
}

#[test]
fn a_link_into_another_record_leads_there_or_is_refused() {
    // Within a segment it does no harm.
    let mut one = writer(PAGE_BYTES);
    let mut first = None;
    let keep = |root: Ref<'_, Whole>| root.link();
    one.push(|graph| {
        let root = build(graph, &model(1))?;
        first = Some(keep(root));
        Ok(root)
    })
    .unwrap();
    let leading = |graph: &mut Graph<'_>, other| {
        let whole = Whole { name: Text::EMPTY, parts: Seq::EMPTY, other };
        graph.alloc(whole).map(Ref::link)
    };
    one.push(|graph| {
        leading(graph, first)?;
        build(graph, &model(2))
    })
    .unwrap();
    assert_eq!(read(&one.freeze().view(&types()).unwrap()), [model(1), model(2)]);

    // In a segment that has not as many, it is found.
    let mut many = writer(16 * PAGE_BYTES);
    let mut last = None;
    for number in 0..300 {
        many.push(|graph| {
            let root = build(graph, &model(number))?;
            last = Some(keep(root));
            Ok(root)
        })
        .unwrap();
    }
    let mut other = writer(PAGE_BYTES);
    other
        .push(|graph| {
            leading(graph, last)?;
            build(graph, &model(2))
        })
        .unwrap();
    let refused = received(&bytes(&other.freeze())).map(drop).unwrap_err();
    assert!(matches!(refused, Invalid::Record { name: "Whole", .. }), "{refused}");
}

/// A segment of one record, without room that is left: the pages are those of `Part`, of texts, of links, of `Whole` and of roots.
fn small() -> (Vec<u8>, usize) {
    let mut writer = writer(PAGE_BYTES);
    writer.push(|graph| build(graph, &model(3))).unwrap();
    let segment = writer.freeze();
    (bytes(&segment), segment.head().len())
}

/// What is said of the segment when its root's link is another.
fn with_root(link: u32) -> Result<Vec<Model>, Fault> {
    let (mut bytes, _) = small();
    let at = bytes.len() - 8;
    bytes[at..at + 4].copy_from_slice(&link.to_le_bytes());
    match received(&bytes) {
        Ok(view) => Ok(read(&view)),
        Err(Invalid::Record { fault, name: "Root", .. }) => Err(fault),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_root_is_where_an_object_of_its_type_is() {
    let (bytes, head) = small();
    let root: [u8; 4] = *bytes[bytes.len() - 8..].first_chunk().unwrap();
    let root = u32::from_le_bytes(root);
    assert_eq!(with_root(root), Ok(vec![model(3)]));
    assert_eq!(with_root(0), Err(Fault::NoPage { page: 0 }));
    assert_eq!(with_root(root + 1), Err(Fault::Between));
    // Behind the root comes the object that it leads to, and then none.
    assert_eq!(with_root(root + 2 * (size_of::<Whole>() as u32 / 4)), Err(Fault::Beyond));
    assert!(matches!(with_root(1 << 10), Err(Fault::OtherType { .. })));
    assert!(matches!(with_root(100 << 10), Err(Fault::NoPage { page: 100 })));
    assert!(head < bytes.len());
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        models in prop::collection::vec((".{0,20}", prop::collection::vec((".{0,20}", any::<u64>()), 0..10)), 0..100)
    ) {
        let mut writer = writer(BODY_BYTES_MAX);
        for model in &models {
            writer.push(|graph| build(graph, model)).unwrap();
        }
        prop_assert_eq!(read(&received(&bytes(&writer.freeze())).unwrap()), models);
    }

    /// Whatever is accepted is read to the end, without following any link twice from where it is found.
    #[test]
    fn damage_is_refused_or_harmless(at in any::<prop::sample::Index>(), word in prop_oneof![any::<u32>(), (0..8_u32, 0..40_u32).prop_map(|(page, unit)| page << 10 | unit)]) {
        let (mut bytes, _) = small();
        let at = at.index(bytes.len() / 4) * 4;
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        if let Ok(view) = received(&bytes) {
            for root in view.roots::<Whole>() {
                let names = view.seq(root.parts).iter().map(|part| view.text(&view.get(*part).name).len());
                let other = root.other.map_or(0, |other| view.seq(view.get(other).parts).len());
                std::hint::black_box(names.sum::<usize>() + view.text(&root.name).len() + other);
            }
        }
    }
}
