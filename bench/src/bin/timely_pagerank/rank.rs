//! PageRank as a loop of Timely: what vertices give goes around it, to the workers that have those
//! who get it, and a round is over when the loop's frontier has passed it.
//!
//! What dangling vertices have goes the same way: behind its vertices, every worker has one more,
//! which all workers give what their dangling vertices have. So a round is one exchange.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use timely::dataflow::channels::pact::ExchangeCore;
use timely::dataflow::operators::{ConnectLoop as _, Feedback as _, Operator as _, Probe as _};
use timely::worker::Worker;
use weft_bench::column::{Column, ColumnBuilder};

use crate::graph::Graph;

const DAMPING: f64 = 0.85;

/// Numbers of vertices, and what each is given.
type Given = (Vec<u32>, Vec<f64>);

/// What a worker has in the end.
#[derive(Default)]
pub(crate) struct Ranked {
    /// The ranks of its vertices, by index.
    pub(crate) ranks: Vec<f64>,
    /// The seconds of each round.
    pub(crate) seconds: Vec<f64>,
}

/// Edges in the order in which they are gone through.
enum Edges {
    /// Targets of each source, by the sources' indices: every edge is sent.
    BySource(Rows),
    /// Indices of the sources of each of `targets`: they are added up, and one number is sent.
    ByTarget { targets: Vec<u32>, sources: Rows },
}

/// Lists of numbers, one behind the other.
struct Rows {
    offsets: Vec<usize>,
    numbers: Vec<u32>,
}

/// A worker's vertices in the course of it.
struct Vertices {
    /// Of all workers.
    all: u32,
    workers: u32,
    out_degrees: Vec<u32>,
    edges: Edges,
    ranks: Vec<f64>,
    /// What each vertex gives along each of its edges.
    parts: Vec<f64>,
    /// What each is given in even and in odd rounds, and last, what all dangling vertices have. Two,
    /// since who knows that a round is over sends what belongs to the next to who does not know yet.
    sums: [Vec<f64>; 2],
}

/// Ranks the graph in as many rounds.
pub(crate) fn rank(worker: &mut Worker, graph: Graph, combine: bool, iterations: u64) -> Ranked {
    let mut vertices = Vertices::new(graph, worker.peers(), combine);
    let ranked = Rc::new(RefCell::new(Ranked::default()));
    let probe = worker.dataflow::<u64, _, _>(|scope| {
        let ranked = Rc::clone(&ranked);
        let exchange =
            ExchangeCore::<ColumnBuilder<Given>, _>::new_core(|(to, _): &(&u32, &f64)| {
                u64::from(**to)
            });
        let (handle, given) = scope.feedback::<Column<Given>>(1);
        let giving = given.unary_frontier::<ColumnBuilder<Given>, _, _, _>(
            exchange,
            "Rank",
            move |capability, _| {
                let mut capability = Some(capability);
                let mut began = Instant::now();
                move |(input, frontier), output| {
                    input.for_each(|stamp, column| {
                        let round = *stamp.least().expect("the loop has one clock");
                        vertices.receive(round, column);
                    });
                    let Some(next) = &mut capability else { return };
                    let round = *next.time();
                    if round == 0 {
                        began = Instant::now();
                    } else if frontier.less_equal(&round) {
                        return;
                    } else {
                        vertices.end(round);
                        let mut ranked = ranked.borrow_mut();
                        ranked.seconds.push(began.elapsed().as_secs_f64());
                        began = Instant::now();
                        if round == iterations {
                            ranked.ranks = std::mem::take(&mut vertices.ranks);
                            capability = None;
                            return;
                        }
                    }
                    let mut session = output.session_with_builder(&*next);
                    vertices.give(|to, part| session.give((to, part)));
                    drop(session);
                    next.downgrade(&(round + 1));
                }
            },
        );
        let (probe, giving) = giving.probe();
        giving.connect_loop(handle);
        probe
    });
    worker.step_or_park_while(None, || !probe.done());
    ranked.take()
}

impl Vertices {
    fn new(graph: Graph, workers: usize, combine: bool) -> Self {
        let Graph { identifiers, out_degrees, edges } = graph;
        let own = out_degrees.len();
        Self {
            all: identifiers.len() as u32,
            workers: workers as u32,
            edges: Edges::new(edges, own, combine),
            ranks: vec![1.0 / identifiers.len() as f64; own],
            parts: vec![0.0; own],
            sums: [(); 2].map(|()| vec![0.0; own + 1]),
            out_degrees,
        }
    }

    fn receive(&mut self, round: u64, given: &Column<Given>) {
        let sums = &mut self.sums[round as usize % 2];
        let (to, parts) = given.borrow();
        for (to, part) in to.iter().zip(parts) {
            sums[(*to / self.workers) as usize] += part;
        }
    }

    /// Makes ranks of what was given in a round, of which all has come.
    fn end(&mut self, round: u64) {
        let sums = &mut self.sums[round as usize % 2];
        let dangling = sums[self.ranks.len()];
        let to_all = (1.0 - DAMPING + DAMPING * dangling) / f64::from(self.all);
        for (rank, sum) in self.ranks.iter_mut().zip(&*sums) {
            *rank = to_all + DAMPING * sum;
        }
        sums.fill(0.0);
    }

    /// Calls `send` with numbers of vertices and what each is given.
    fn give(&mut self, mut send: impl FnMut(u32, f64)) {
        let mut dangling = 0.0;
        for ((rank, degree), part) in self.ranks.iter().zip(&self.out_degrees).zip(&mut self.parts)
        {
            match degree {
                0 => dangling += rank,
                _ => *part = rank / f64::from(*degree),
            }
        }
        for last in self.all..self.all + self.workers {
            send(last, dangling);
        }
        self.edges.each(&self.parts, send);
    }
}

impl Edges {
    fn new(mut edges: Vec<(u32, u32)>, sources: usize, combine: bool) -> Self {
        if !combine {
            edges.sort_unstable();
            return Self::BySource(Rows::of(0..sources as u32, edges.into_iter()));
        }
        edges.sort_unstable_by_key(|(from, to)| (*to, *from));
        let mut targets: Vec<u32> = edges.iter().map(|(_, to)| *to).collect();
        targets.dedup();
        let edges = edges.into_iter().map(|(from, to)| (to, from));
        let sources = Rows::of(targets.iter().copied(), edges);
        Self::ByTarget { targets, sources }
    }

    /// Calls `send` with the target and what it is given, for each edge or for each target.
    fn each(&self, parts: &[f64], mut send: impl FnMut(u32, f64)) {
        match self {
            Self::BySource(targets) => {
                for (part, targets) in parts.iter().zip(targets.iter()) {
                    for to in targets {
                        send(*to, *part);
                    }
                }
            }
            Self::ByTarget { targets, sources } => {
                for (to, sources) in targets.iter().zip(sources.iter()) {
                    send(*to, sources.iter().map(|from| parts[*from as usize]).sum());
                }
            }
        }
    }
}

impl Rows {
    /// A row for each of `keys`, which ascend as those of `pairs` do and hold all of them.
    fn of(keys: impl Iterator<Item = u32>, pairs: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut pairs = pairs.peekable();
        let mut rows = Self { offsets: vec![0], numbers: Vec::new() };
        for key in keys {
            while let Some((_, number)) = pairs.next_if(|(of, _)| *of == key) {
                rows.numbers.push(number);
            }
            rows.offsets.push(rows.numbers.len());
        }
        rows
    }

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.offsets.windows(2).map(|ends| &self.numbers[ends[0]..ends[1]])
    }
}
