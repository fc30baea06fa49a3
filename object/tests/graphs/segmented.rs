//! Graphs of many segments, which come one after the other.

use weft_object::{
    AlignedBytes, Assembly, Fault, Frozen, Graph, Invalid, Limits, Link, Types, Wire,
};
use weft_transport::Purpose;

use crate::{memory, received, sent};

#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Node {
    number: u64,
    next: Option<Link<Node>>,
    other: Link<Node>,
}

const COUNT: usize = 200_000;

/// A list in the order of its making, each of whose nodes also leads to one far away, ahead or behind.
fn list(count: usize) -> (Frozen<Node>, Types) {
    let types = Types::new().with::<Node>();
    let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| {
        let mut nodes = Vec::with_capacity(count);
        for number in 0..count as u64 {
            // A node leads to itself until all are there.
            nodes.push(graph.alloc_cyclic(|me| Node { number, next: None, other: me })?);
        }
        for (at, node) in nodes.iter().enumerate() {
            let other = nodes[(at * 7919 + 1) % count].link();
            let next = nodes.get(at + 1).map(|next| next.link());
            let node = graph.get_mut(*node);
            (node.other, node.next) = (other, next);
        }
        Ok(nodes[0])
    });
    (graph.unwrap(), types)
}

#[test]
fn a_graph_of_many_segments_is_checked_as_they_come() {
    let (graph, types) = list(COUNT);
    assert!(graph.segments().len() > 4, "{} segments", graph.segments().len());
    let view = received(&sent(&graph), &types).unwrap();
    let (mut node, mut count) = (view.root::<Node>().unwrap(), 0);
    loop {
        assert_eq!(node.number, count);
        assert_eq!(view.get(node.other).number, (count * 7919 + 1) % COUNT as u64);
        count += 1;
        let Some(next) = node.next else { break };
        node = view.get(next);
    }
    assert_eq!(count, COUNT as u64);
}

#[test]
fn a_link_to_a_segment_that_never_comes_is_found_at_the_end() {
    let (graph, types) = list(COUNT);
    let mut segments = sent(&graph);
    // Says that it is the last, and has the root on its first page.
    let mut head = segments.swap_remove(0);
    head[6] = 1;
    head[16..20].copy_from_slice(&(1_u32 << 10).to_le_bytes());
    let invalid = received(&[head], &types).unwrap_err();
    assert!(
        matches!(invalid, Invalid::Record { name: "Node", fault: Fault::NoPage { .. }, .. }),
        "{invalid}"
    );
}

#[test]
fn segments_come_in_order_and_end() {
    let (graph, types) = list(COUNT);
    let segments = sent(&graph);
    let swapped = [segments[1].clone(), segments[0].clone()];
    assert!(matches!(
        received(&swapped, &types),
        Err(Invalid::OutOfOrder { expected: 1, found: 2.. })
    ));
    assert!(matches!(received(&segments[..2], &types), Err(Invalid::Unfinished)));
    let mut longer = segments.clone();
    longer.push(segments[0].clone());
    assert!(matches!(received(&longer, &types), Err(Invalid::BehindTheLast)));
    let mut assembly = Assembly::new(&types, Limits::default());
    assert!(assembly.add(AlignedBytes::copied(&segments[1])).is_err());
    let again = assembly.add(AlignedBytes::copied(&segments[0]));
    assert!(matches!(again, Err(Invalid::OutOfOrder { .. })), "what has failed stays so");
    assert!(matches!(assembly.finish(), Err(Invalid::OutOfOrder { .. })));
}

#[test]
fn no_more_is_taken_than_the_limits_say() {
    let (graph, types) = list(1_000);
    let segments = sent(&graph);
    let bytes = segments.iter().map(|segment| segment.len() as u64).sum();
    let pages = 1_000_u32;
    let enough = Limits { bytes, records: 1_000, pages };
    let take = |limits: Limits| {
        let mut assembly = Assembly::new(&types, limits);
        segments.iter().try_for_each(|s| assembly.add(AlignedBytes::copied(s)).map(|_| ()))
    };
    assert_eq!(take(enough), Ok(()));
    let what = |limits| match take(limits).unwrap_err() {
        Invalid::Limit { what, limit } => (what, limit),
        other => panic!("{other}"),
    };
    assert_eq!(what(Limits { bytes: bytes - 1, ..enough }), ("bytes", bytes - 1));
    assert_eq!(what(Limits { records: 999, ..enough }), ("records", 999));
    assert_eq!(what(Limits { pages: 3, ..enough }), ("pages", 3));
}
