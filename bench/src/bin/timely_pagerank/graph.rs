//! A graph over the workers of Timely: vertices are numbers without holes, and vertex `n` with its
//! rank, and the edges that begin at it, are at worker `n` modulo their number.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context as _, ensure};
use timely::ExchangeData;
use timely::dataflow::InputHandle;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::{Operator as _, Probe as _};
use timely::worker::Worker;
use weft_shuffle::{EdgeList, Share};

/// A worker's vertices and edges. Its vertex at index `i` is number `i * workers + worker`.
pub(crate) struct Graph {
    /// The names in the input of all vertices, by number.
    pub(crate) identifiers: Vec<u64>,
    /// How many edges begin at each of this worker's vertices.
    pub(crate) out_degrees: Vec<u32>,
    /// Indices of sources and numbers of targets, each edge once, in no order that is promised.
    pub(crate) edges: Vec<(u32, u32)>,
}

impl Graph {
    /// Reads this worker's share of the edges and sends them to where they begin.
    pub(crate) fn load(worker: &mut Worker, input: &Path) -> anyhow::Result<Self> {
        let (own, workers) = (worker.index(), worker.peers());
        let share = Share::new(own, workers).expect("a worker has a number below theirs");
        let mut edges = Vec::new();
        let list = EdgeList::open(input)?;
        list.edges(share, &AtomicU64::new(0), |from, to| edges.push((from, to)))?;

        let mut identifiers: Vec<u64> = edges.iter().flat_map(|(from, to)| [*from, *to]).collect();
        sort_and_deduplicate(&mut identifiers);
        let to_all = (0..workers as u64)
            .flat_map(|to| identifiers.iter().map(move |identifier| (to, *identifier)));
        let named = exchange(worker, to_all, |(to, _)| *to);
        let mut identifiers: Vec<u64> =
            named.into_iter().map(|(_, identifier)| identifier).collect();
        sort_and_deduplicate(&mut identifiers);
        let vertices = identifiers.len();
        ensure!(vertices > 0, "{} has no edges", input.display());
        u32::try_from(vertices + workers).with_context(|| {
            format!("{vertices} vertices, where 2^32 less the workers are the limit")
        })?;
        let numbers: HashMap<u64, u32, foldhash::fast::FixedState> =
            identifiers.iter().enumerate().map(|(number, name)| (*name, number as u32)).collect();

        let numbered = edges.iter().map(|(from, to)| (numbers[from], numbers[to]));
        let mut edges = exchange(worker, numbered, |(from, _)| u64::from(*from));
        sort_and_deduplicate(&mut edges);
        let mut out_degrees = vec![0; (own..vertices).step_by(workers).len()];
        for (from, _) in &mut edges {
            *from /= workers as u32;
            out_degrees[*from as usize] += 1;
        }
        Ok(Self { identifiers, out_degrees, edges })
    }
}

/// Sends every record to the worker that `place` names, modulo their number, and returns what came.
fn exchange<R: ExchangeData + Clone>(
    worker: &mut Worker,
    records: impl Iterator<Item = R>,
    place: fn(&R) -> u64,
) -> Vec<R> {
    /// After how many records the worker sends and receives.
    const BATCH: usize = 1 << 16;
    let received = Rc::new(RefCell::new(Vec::new()));
    let mut input = InputHandle::<u64, _>::new();
    let probe = worker.dataflow(|scope| {
        let received = Rc::clone(&received);
        let exchange = Exchange::new(move |record: &R| place(record));
        let arrived =
            input.to_stream(scope).unary::<crate::Nothing, _, _, _>(exchange, "Keep", |_, _| {
                move |input, _output| {
                    input.for_each(|_, records: &mut Vec<R>| received.borrow_mut().append(records));
                }
            });
        arrived.probe().0
    });
    for (sent, record) in records.enumerate() {
        input.send(record);
        if sent.is_multiple_of(BATCH) {
            worker.step();
        }
    }
    input.close();
    worker.step_or_park_while(None, || !probe.done());
    received.take()
}

fn sort_and_deduplicate<T: Ord>(values: &mut Vec<T>) {
    values.sort_unstable();
    values.dedup();
}
