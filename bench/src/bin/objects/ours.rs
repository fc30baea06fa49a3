//! Weft's: built where it is sent from.

use anyhow::Result;
use weft_object::{Full, Graph, Link, Ref, Seq, Text, Types, View, Wire};
use weft_transport::{Memory, MemoryConfig, Purpose, Shared};

use crate::Shape;
use crate::heap::{self, Model};
use crate::shared::{self, SHARED_BY};
use crate::steps::{Step, Steps, check};

#[derive(Wire, Clone, Copy)]
#[repr(C)]
struct Point {
    x: f64,
    y: f64,
}

#[derive(Wire, Clone, Copy)]
#[repr(C)]
struct Pair {
    number: i32,
    text: Text,
}

#[derive(Wire, Clone, Copy)]
#[repr(C)]
struct Item {
    value: f64,
    next: Option<Link<Item>>,
    spare: u32,
}

#[derive(Wire, Clone, Copy)]
#[repr(C)]
struct Node {
    id: u32,
    point: Link<Point>,
}

/// Odd, as sizes are powers of two.
const SCATTERED_BY: usize = 40_503;

type LinkedPoints = Seq<Link<Point>>;
type LinkedPairs = Seq<Link<Pair>>;
type Nodes = Seq<Node>;

/// Takes the steps.
pub(crate) fn measure(shape: Shape, count: usize, steps: &mut Steps) -> Result<()> {
    match shape {
        Shape::Floats => run::<Seq<f32>>(
            steps,
            |graph| {
                let floats = graph.seq_from((0..count).map(|at| at as f32))?;
                graph.alloc(floats)
            },
            |view, root| heap::sum_of_floats(view.seq(*root)),
            || heap::Floats::build(count).sum(),
        ),
        Shape::Points => run::<Seq<Point>>(
            steps,
            |graph| {
                let points = graph.seq_from((0..count).map(point))?;
                graph.alloc(points)
            },
            |view, root| view.seq(*root).iter().map(|point| point.x + point.y).sum(),
            || shared::Points::build(count).sum(),
        ),
        Shape::LinkedPoints => linked_points(steps, count, |at| at),
        // Every number once, and next to none beside the one before.
        Shape::Scattered => linked_points(steps, count, |at| at * SCATTERED_BY % count),
        Shape::Pairs => run::<LinkedPairs>(
            steps,
            |graph| {
                let mut links = Vec::with_capacity(count);
                for at in 0..count {
                    let text = heap::text(at);
                    let text = graph.text(str::from_utf8(&text).expect("digits are UTF-8"))?;
                    links.push(graph.alloc(Pair { number: at as i32, text })?.link());
                }
                let links = graph.seq(&links)?;
                graph.alloc(links)
            },
            |view, root| {
                let pairs = view.seq(*root).iter().map(|link| view.get(*link));
                let sum =
                    |pair: &Pair| f64::from(pair.number) + heap::sum_of_text(view.text(&pair.text));
                pairs.map(sum).sum()
            },
            || heap::Pairs::build(count).sum(),
        ),
        Shape::List => run::<Item>(
            steps,
            |graph| list(graph, count),
            |view, root| {
                let (mut item, mut sum) = (root, root.value);
                while let Some(next) = item.next {
                    item = view.get(next);
                    sum += item.value;
                }
                sum
            },
            || (0..count).map(|at| at as f64).sum(),
        ),
        Shape::Sharing => run::<Nodes>(
            steps,
            |graph| {
                let mut points = Vec::with_capacity(count / SHARED_BY);
                for at in 0..count / SHARED_BY {
                    points.push(graph.alloc(point(at))?.link());
                }
                let node = |at: usize| Node { id: at as u32, point: points[at % points.len()] };
                let nodes = graph.seq_from((0..count).map(node))?;
                graph.alloc(nodes)
            },
            |view, root| {
                let sum = |node: &Node| {
                    let point = view.get(node.point);
                    f64::from(node.id) + point.x + point.y
                };
                view.seq(*root).iter().map(sum).sum()
            },
            || shared::Sharing::build(count).sum(),
        ),
    }
}

/// Points, and links to them in this order.
fn linked_points(steps: &mut Steps, count: usize, order: impl Fn(usize) -> usize) -> Result<()> {
    run::<LinkedPoints>(
        steps,
        |graph| {
            let mut points = Vec::with_capacity(count);
            for at in 0..count {
                points.push(graph.alloc(point(at))?.link());
            }
            let links = graph.seq_from((0..count).map(|at| points[order(at)]))?;
            graph.alloc(links)
        },
        |view, root| {
            let points = view.seq(*root).iter().map(|link| view.get(*link));
            points.map(|point| point.x + point.y).sum()
        },
        || heap::LinkedPoints::build(count).sum(),
    )
}

fn point(at: usize) -> Point {
    let heap::Point { x, y } = heap::point(at);
    Point { x, y }
}

/// Each item leads to the next, which is made after it.
fn list<'g>(graph: &mut Graph<'g>, count: usize) -> Result<Ref<'g, Item>, Full> {
    let first = graph.alloc(Item { value: 0.0, next: None, spare: 0 })?;
    let mut last = first;
    for at in 1..count {
        let item = graph.alloc(Item { value: at as f64, next: None, spare: 0 })?;
        graph.get_mut(last).next = Some(item.link());
        last = item;
    }
    Ok(first)
}

fn run<R: Wire>(
    steps: &mut Steps,
    build: impl for<'g> Fn(&mut Graph<'g>) -> Result<Ref<'g, R>, Full>,
    sum: impl Fn(&View<Shared>, &R) -> f64,
    expected: impl FnOnce() -> f64,
) -> Result<()> {
    let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 30 })?;
    let types = Types::new().with::<R>();
    let expected = expected();
    for _ in 0..steps.rounds {
        let graph = steps.time(Step::Build, || {
            Graph::build(&memory, Purpose::Send, &types, |graph| build(graph))
        })?;
        // What a transport is handed: heads, and memory that lies where it was written.
        let pieces: Vec<_> = steps.time(Step::Send, || {
            let pieces = graph.segments().iter();
            pieces.map(|segment| (segment.head(), segment.pages().clone())).collect()
        });
        (steps.bytes, steps.segments) = (graph.len_bytes(), pieces.len() as u64);
        let view = steps.time(Step::Receive, || graph.view())?;
        let found = steps.time(Step::Use, || view.root::<R>().map(|root| sum(&view, root)))?;
        check(found, expected)?;
    }
    Ok(())
}
