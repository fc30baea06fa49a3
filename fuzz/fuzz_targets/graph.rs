//! Valid graphs, damaged at every level: header, page table, links, lengths, texts. What is accepted is touched to the last byte.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use weft_object::{
    AlignedBytes, AnyLink, Assembly, Graph, Limits, Link, Map, Seq, Text, Types, View, Wire,
};
use weft_transport::{Memory, MemoryConfig, Purpose};

#[derive(Wire, Clone, Copy)]
#[repr(C)]
struct Node {
    number: u64,
    name: Text,
    children: Seq<Link<Node>>,
    by_number: Map<u32, u32>,
    by_name: Map<Text, Link<Node>>,
    next: Option<Link<Node>>,
    any: AnyLink,
    kind: Kind,
    flags: [bool; 4],
}

#[derive(Wire, Clone, Copy, Debug)]
#[repr(u32)]
enum Kind {
    Plain,
    Odd = 7,
}

static TYPES: LazyLock<Types> = LazyLock::new(|| Types::new().with::<Node>());

/// Segments of a few graphs.
static GRAPHS: LazyLock<Vec<Vec<Vec<u8>>>> =
    LazyLock::new(|| [1, 20, 400, 2_000].map(segments).into());

fn segments(count: u32) -> Vec<Vec<u8>> {
    let memory = Memory::new(MemoryConfig { limit_bytes: 16 << 20 }).expect("16 MiB can be had");
    let graph = Graph::build(&memory, Purpose::Send, &TYPES, |graph| {
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
    let graph = graph.expect("16 MiB suffice");
    graph.segments().iter().map(|segment| [segment.head(), segment.pages()].concat()).collect()
}

/// Ten bytes of the input are one damage: to which part of which segment, where, and what is written there.
fn damage(segments: &mut [Vec<u8>], bytes: &[u8; 10]) {
    let [part, segment, a, b, c, d, word @ ..] = *bytes;
    let count = segments.len();
    let segment = &mut segments[usize::from(segment) % count];
    let at = u32::from_le_bytes([a, b, c, d]) as usize;
    let head = 24
        + 8 * segment
            .get(8..10)
            .map_or(0, |pages| usize::from(pages[0]) + 256 * usize::from(pages[1]));
    let range = match part % 4 {
        0 => 0..24,
        1 => 24..head,
        2 => head..segment.len(),
        _ => return segment.truncate(segment.len() - at % 64.min(segment.len() + 1)),
    };
    let range = range.start.min(segment.len())..range.end.min(segment.len());
    if range.len() < 4 {
        return;
    }
    let at = range.start + at % (range.len() / 4) * 4;
    if part & 0x80 == 0 {
        segment[at..at + 4].copy_from_slice(&word);
    } else {
        segment[at + usize::from(word[0] % 4)] ^= word[1];
    }
}

fn touch(view: &View<AlignedBytes>) {
    let mut sum = 0_u64;
    for node in view.records::<Node>().flatten() {
        sum ^= node.number;
        sum ^= view.text(&node.name).chars().fold(0, |sum, letter| sum ^ u64::from(letter));
        sum ^= view.seq(node.children).iter().fold(0, |sum, child| sum ^ view.get(*child).number);
        sum ^= view.map(node.by_number).get(&3).map_or(0, |value| u64::from(*value));
        sum ^= view.map(node.by_name).get("the one").map_or(1, |link| view.get(*link).number);
        sum ^= node.next.map_or(2, |next| view.get(next).number);
        sum ^= view.downcast::<Node>(node.any).map_or(3, |node| node.number);
        // Not matches: a bool or a kind that is none has to reach the sanitizer.
        sum ^= node.flags.iter().map(|flag| u64::from(*flag)).sum::<u64>();
        sum ^= format!("{:?}", node.kind).len() as u64;
    }
    std::hint::black_box((sum, view.root::<Node>().map(|root| root.number)).0);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&graph, damages)) = bytes.split_first() else { return };
    let mut segments = GRAPHS[usize::from(graph) % GRAPHS.len()].clone();
    let (damages, _) = damages.as_chunks::<10>();
    damages.iter().take(16).for_each(|bytes| damage(&mut segments, bytes));
    let mut assembly = Assembly::new(&TYPES, Limits::default());
    for segment in &segments {
        if assembly.add(AlignedBytes::copied(segment)).is_err() {
            return;
        }
    }
    let Ok(view) = assembly.finish() else { return };
    touch(&view);
    touch(&view.to_owned());
});
