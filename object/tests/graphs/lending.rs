//! Sequences that lie elsewhere, and are sent from there.

use weft_object::{Frozen, Graph, Seq, Types, Wire};
use weft_transport::{Purpose, Shared};

use crate::{memory, received, sent};

#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Column {
    before: u64,
    numbers: Seq<u32>,
    others: Seq<u32>,
}

fn types() -> Types {
    Types::new().with::<Column>()
}

/// Numbers in a block of memory, a multiple of four bytes from its beginning.
fn numbers(count: usize, shift: usize) -> Shared {
    let mut block = memory().allocate((count + shift) * 4, Purpose::Send).unwrap();
    for (at, number) in block.chunks_exact_mut(4).enumerate() {
        number.copy_from_slice(&(at as u32).to_le_bytes());
    }
    block.freeze().narrow(shift * 4..(count + shift) * 4)
}

/// A column with these, and with some that are written around them.
fn column(shared: &Shared) -> Frozen<Column> {
    Graph::build(&memory(), Purpose::Send, &types(), |graph| {
        let column = Column { before: 7, numbers: Seq::EMPTY, others: Seq::EMPTY };
        let column = graph.alloc(column)?;
        let numbers = graph.seq_shared(shared)?;
        let others = graph.seq(&[1, 2, 3])?;
        let before = 8;
        *graph.get_mut(column) = Column { before, numbers, others };
        graph.alloc(Column { before: 9, numbers: others, others: numbers })?;
        Ok(column)
    })
    .unwrap()
}

#[test]
fn a_long_sequence_is_sent_from_where_it_lies() {
    let shared = numbers(100_000, 2);
    let graph = column(&shared);
    let lent: Vec<_> =
        graph.segments().iter().filter(|one| one.pages().as_ptr() == shared.as_ptr()).collect();
    let [lent] = lent[..] else { panic!("{} segments lend it", lent.len()) };
    assert_eq!(lent.pages().len(), shared.len());
    assert!(graph.len_bytes() < 400_000 + 1_000);
    let view = received(&sent(&graph), &types()).unwrap();
    let column: &Column = view.root().unwrap();
    assert_eq!(column.before, 8);
    assert!(view.seq(column.numbers).iter().copied().eq(2..100_002));
    assert_eq!(view.seq(column.others), [1, 2, 3]);
    // One that is compacted has what it leads to in memory of its own.
    let compact = graph.compact(&memory(), Purpose::Send).unwrap();
    drop((graph, shared));
    let view = received(&sent(&compact), &types()).unwrap();
    assert_eq!(view.seq(view.root::<Column>().unwrap().numbers)[99_999], 100_001);
}

#[test]
fn what_is_short_or_does_not_lie_as_pages_do_is_copied() {
    let long = Graph::SHARED_MIN / 4;
    for (count, shift) in [(long - 2, 0), (0, 0), (1, 1), (long, 1), (long + 1, 0)] {
        let shared = numbers(count.max(1), shift).narrow(0..count * 4);
        let holders = shared.holders();
        let graph = column(&shared);
        assert_eq!(shared.holders(), holders, "{count} from {shift}");
        let view = received(&sent(&graph), &types()).unwrap();
        let numbers = view.seq(view.root::<Column>().unwrap().numbers);
        assert!(numbers.iter().copied().eq(shift as u32..(count + shift) as u32));
    }
    assert_eq!(numbers(long, 0).holders() + 1, {
        let shared = numbers(long, 0);
        let graph = column(&shared);
        let holders = shared.holders();
        drop(graph);
        holders
    });
}

#[test]
#[should_panic(expected = "if it is not shared")]
fn what_is_shared_is_not_changed() {
    let shared = numbers(100_000, 0);
    let _ = Graph::build(&memory(), Purpose::Send, &types(), |graph| {
        let numbers = graph.seq_shared::<u32>(&shared)?;
        graph.seq_mut(numbers)[0] = 1;
        graph.alloc(Column { before: 7, numbers, others: Seq::EMPTY })
    });
}

#[test]
#[should_panic(expected = "whole elements")]
fn half_an_element_is_refused() {
    let shared = numbers(100_000, 0).narrow(0..399_998);
    let _ = Graph::build(&memory(), Purpose::Send, &types(), |graph| {
        let numbers = graph.seq_shared::<u32>(&shared)?;
        graph.alloc(Column { before: 7, numbers, others: Seq::EMPTY })
    });
}

/// What is written between shared sequences lies in blocks that are not much longer.
#[test]
fn sharing_again_and_again_takes_little_memory() {
    let shared = numbers(16 << 10, 0);
    let memory = memory();
    let own = [7_u32; 1_000];
    let graph = Graph::build(&memory, Purpose::Send, &types(), |graph| {
        let mut last =
            graph.alloc(Column { before: 0, numbers: Seq::EMPTY, others: Seq::EMPTY })?;
        for before in 0..200 {
            let (numbers, others) = (graph.seq_shared(&shared)?, graph.seq(&own)?);
            last = graph.alloc(Column { before, numbers, others })?;
        }
        Ok(last)
    });
    let graph = graph.unwrap();
    let own_bytes = graph.len_bytes() - 200 * shared.len() as u64;
    let graph_bytes = memory.account().allocated_bytes;
    assert!(graph_bytes < 2 * own_bytes, "{graph_bytes} for {own_bytes}");
    drop(graph);
}
