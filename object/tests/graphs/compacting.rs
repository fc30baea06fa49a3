//! What is left out, and what is not.

use weft_object::{Graph, Link, Seq, Text, Types, Wire};
use weft_transport::Purpose;

use crate::{memory, received, sent};

#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Document {
    title: Text,
    lines: Seq<Text>,
    next: Option<Link<Document>>,
}

#[test]
fn what_was_replaced_is_left_out() {
    let types = Types::new().with::<Document>();
    let line = |at: usize| format!("line {at} with “quotes” of three bytes each");
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| {
        let document = Document { title: Text::EMPTY, lines: Seq::EMPTY, next: None };
        let root = graph.alloc(document)?;
        for version in 0..100 {
            let lost = graph.alloc(document)?;
            graph.abandon(lost);
            let mut lines = Vec::new();
            for at in 0..50 {
                lines.push(graph.text(&line(version * 50 + at))?);
            }
            let before = graph.get(root).lines;
            graph.abandon_seq(before);
            let lines = graph.seq(&lines)?;
            graph.get_mut(root).lines = lines;
        }
        Ok(root)
    })
    .unwrap();
    let said = 100 * size_of::<Document>() + 99 * 50 * size_of::<Text>();
    assert_eq!(graph.dead_bytes(), said as u64);
    let compacted = graph.compact(&memory(), Purpose::Send).unwrap();
    assert_eq!(compacted.dead_bytes(), 0);
    let live: usize = (0..50).map(|at| line(4_950 + at).len() + 3 + size_of::<Text>()).sum();
    assert!(compacted.len_bytes() < (live + 200) as u64, "{}", compacted.len_bytes());
    let view = received(&sent(&compacted), &types).unwrap();
    let lines = view.seq(view.root::<Document>().unwrap().lines);
    assert_eq!(lines.len(), 50);
    for (at, text) in lines.iter().enumerate() {
        assert_eq!(view.text(text), line(4_950 + at));
    }
}

/// A link to an element of a sequence, and sequences that share elements, stay so.
#[test]
fn what_is_shared_stays_shared() {
    #[derive(Wire, Clone, Copy, Debug)]
    #[repr(C)]
    struct Two {
        one: Seq<Link<u32>>,
        other: Seq<Link<u32>>,
        number: Link<u32>,
        unused: u32,
    }
    let types = Types::new().with::<Two>();
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| {
        for number in 0..3_000 {
            graph.alloc::<u32>(number)?;
        }
        let number = graph.alloc(7_u32)?.link();
        for number in 0..3_000 {
            graph.alloc::<u32>(number)?;
        }
        let seq = graph.seq(&[number; 10])?;
        graph.alloc(Two { one: seq, other: seq, number, unused: 0 })
    })
    .unwrap();
    let compacted = graph.compact(&memory(), Purpose::Send).unwrap();
    let view = received(&sent(&compacted), &types).unwrap();
    let two = view.root::<Two>().unwrap();
    assert!(std::ptr::eq(view.seq(two.one), view.seq(two.other)));
    assert!(
        view.seq(two.one).iter().all(|link| std::ptr::eq(view.get(*link), view.get(two.number)))
    );
    assert_eq!(*view.get(two.number), 7);
    assert_eq!(view.records::<u32>().map(<[_]>::len).sum::<usize>(), 1);
}

/// A list as deep as it is long: nothing recurses, neither the check nor the compaction.
#[test]
fn a_deep_list_is_compacted() {
    let types = Types::new().with::<Document>();
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| {
        let mut next = None;
        for _ in 0..300_000 {
            graph.alloc(Document { title: Text::EMPTY, lines: Seq::EMPTY, next: None })?;
            let document = Document { title: graph.text("list")?, lines: Seq::EMPTY, next };
            next = Some(graph.alloc(document)?.link());
        }
        graph.alloc(Document { title: Text::EMPTY, lines: Seq::EMPTY, next })
    })
    .unwrap();
    let compacted = graph.compact(&memory(), Purpose::Send).unwrap();
    assert!(compacted.len_bytes() < graph.len_bytes() * 51 / 100);
    let view = received(&sent(&compacted), &types).unwrap();
    let (mut document, mut count) = (view.root::<Document>().unwrap(), 0);
    while let Some(next) = document.next {
        document = view.get(next);
        count += 1;
    }
    assert_eq!(count, 300_000);
}

/// Where a byte is one of a text, it is no object, so that no character is cut when its neighbours go.
#[test]
fn a_link_into_a_text_is_refused() {
    use weft_object::{AnyLink, Fault, Invalid};
    let types = Types::new().with::<Text>().with::<AnyLink>().with::<u32>();
    let mut foreign = None;
    Graph::build(&memory(), Purpose::Send, &types, |graph| {
        graph.alloc(0_u32)?;
        let number = graph.alloc(1_u32)?;
        foreign = Some(number.link().any());
        Ok(number)
    })
    .unwrap();
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| {
        graph.text("abcéééééé")?;
        graph.alloc(foreign.unwrap())
    });
    let invalid = graph.unwrap().view().map(|_| ()).unwrap_err();
    let fault = Fault::OtherType { found: 1 };
    assert_eq!(invalid, Invalid::Record { page: 1, record: 0, name: "AnyLink", fault });
}
