//! Graphs with fields of all kinds, as peers send them, and a look at all that was received.

use std::sync::LazyLock;

use weft_object::{AnyLink, Frozen, Graph, Link, Map, Seq, StableBytes, Text, Types, View, Wire};
use weft_transport::{Memory, Purpose};

#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
pub struct Node {
    pub number: u64,
    pub name: Text,
    pub children: Seq<Link<Node>>,
    pub by_number: Map<u32, u32>,
    pub by_name: Map<Text, Link<Node>>,
    pub next: Option<Link<Node>>,
    pub any: AnyLink,
    pub kind: Kind,
    pub flags: [bool; 4],
}

#[derive(Wire, Clone, Copy, Debug)]
#[repr(u32)]
pub enum Kind {
    Plain,
    Odd = 7,
}

pub static TYPES: LazyLock<Types> = LazyLock::new(|| Types::new().with::<Node>());

/// A graph of `count` nodes and one.
pub fn build(memory: &Memory, types: &Types, count: u32) -> Frozen<Node> {
    let graph = Graph::build(memory, Purpose::Send, types, |graph| {
        let mut last: Option<Link<Node>> = None;
        let mut children = Vec::new();
        for number in 0..count {
            let name = graph.text(&"long, short – ".repeat(number as usize % 3))?;
            let by_number = graph.map((0..number % 5).map(|key| (key * number, key)))?;
            let by_name = graph.text_map(last.map(|last| ("the one before, by its name", last)))?;
            let children_here = graph.seq(&children)?;
            let kind = if number % 2 == 0 { Kind::Plain } else { Kind::Odd };
            let node = graph.alloc_cyclic(|me| Node {
                number: number.into(),
                name,
                children: children_here,
                by_number,
                by_name,
                next: last,
                any: last.unwrap_or(me).any(),
                kind,
                flags: [true, false, true, number % 3 == 0],
            })?;
            last = Some(node.link());
            children =
                if number % 7 == 0 { Vec::new() } else { [children, vec![node.link()]].concat() };
        }
        graph.alloc_cyclic(|me| Node {
            number: 0,
            name: Text::EMPTY,
            children: Seq::EMPTY,
            by_number: Map::EMPTY,
            by_name: Map::EMPTY,
            next: last,
            any: me.any(),
            kind: Kind::Odd,
            flags: [false; 4],
        })
    });
    graph.expect("there is memory for it")
}

/// The bytes of each segment, as they are sent.
pub fn segments(graph: &Frozen<Node>) -> Vec<Vec<u8>> {
    graph.segments().iter().map(|segment| [segment.head(), segment.pages()].concat()).collect()
}

/// Reads all that can be read of a graph.
pub fn touch<B: StableBytes>(view: &View<B>) {
    let mut sum = 0_u64;
    for node in view.records::<Node>().flatten() {
        sum ^= node.number;
        sum ^= view.text(&node.name).chars().fold(0, |sum, letter| sum ^ u64::from(letter));
        sum ^= view.seq(node.children).iter().fold(0, |sum, child| sum ^ view.get(*child).number);
        sum ^= view.map(node.by_number).get(&3).map_or(0, |value| u64::from(*value));
        for pair in view.map(node.by_number).pairs() {
            sum ^= u64::from(pair.key ^ pair.value);
        }
        sum ^= view.map(node.by_name).get("the one").map_or(1, |link| view.get(*link).number);
        for pair in view.map(node.by_name).pairs() {
            sum ^= view.text(&pair.key).len() as u64 ^ view.get(pair.value).number;
        }
        sum ^= node.next.map_or(2, |next| view.get(next).number);
        sum ^= view.downcast::<Node>(node.any).map_or(3, |node| node.number);
        // Not matches: a bool or a kind that is none has to reach the sanitizer.
        sum ^= node.flags.iter().map(|flag| u64::from(*flag)).sum::<u64>();
        sum ^= format!("{:?}", node.kind).len() as u64;
    }
    std::hint::black_box((sum, view.root::<Node>().map(|root| root.number)).0);
}
