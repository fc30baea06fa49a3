//! What is sent: Naos's three types of data, as Weft has them and as others do.

use clap::ValueEnum;
use rkyv::api::high::{HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Portable, Serialize};
use weft_object::{Full, Graph, Link, Ref, Seq, StableBytes, Text, Types, View, Wire};

use crate::heap::{self, Model};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// A vector of f32
    Floats,
    /// A vector of boxes of points of two f64
    Points,
    /// A vector of boxes of an i32 and a text of five bytes
    Pairs,
}

/// One of them.
pub(crate) trait Data {
    /// As programs have it.
    type Model: Model
        + bitcode::Encode
        + bitcode::DecodeOwned
        + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Error>>
        + Archive<Archived: Portable + for<'a> CheckBytes<HighValidator<'a, Error>>>;
    type Root: Wire;

    fn build<'g>(graph: &mut Graph<'g>, count: usize) -> Result<Ref<'g, Self::Root>, Full>;
    fn sum<B: StableBytes>(view: &View<B>, root: &Self::Root) -> f64;
    fn sum_of_archive(archive: &<Self::Model as Archive>::Archived) -> f64;
}

pub(crate) struct Floats;
pub(crate) struct Points;
pub(crate) struct Pairs;

#[derive(Wire, Clone, Copy)]
#[repr(C)]
pub(crate) struct Point {
    x: f64,
    y: f64,
}

#[derive(Wire, Clone, Copy)]
#[repr(C)]
pub(crate) struct Pair {
    number: i32,
    text: Text,
}

/// What both sides know.
pub(crate) fn types() -> Types {
    Types::new()
        .with::<<Floats as Data>::Root>()
        .with::<<Points as Data>::Root>()
        .with::<<Pairs as Data>::Root>()
}

impl Data for Floats {
    type Model = heap::Floats;
    type Root = Seq<f32>;

    fn build<'g>(graph: &mut Graph<'g>, count: usize) -> Result<Ref<'g, Self::Root>, Full> {
        let floats = graph.seq_from((0..count).map(|at| at as f32))?;
        graph.alloc(floats)
    }

    fn sum<B: StableBytes>(view: &View<B>, root: &Self::Root) -> f64 {
        view.seq(*root).iter().map(|float| f64::from(*float)).sum()
    }

    fn sum_of_archive(archive: &<Self::Model as Archive>::Archived) -> f64 {
        archive.0.iter().map(|float| f64::from(float.to_native())).sum()
    }
}

impl Data for Points {
    type Model = heap::LinkedPoints;
    type Root = Seq<Link<Point>>;

    fn build<'g>(graph: &mut Graph<'g>, count: usize) -> Result<Ref<'g, Self::Root>, Full> {
        let mut links = Vec::with_capacity(count);
        for at in 0..count {
            let heap::Point { x, y } = heap::point(at);
            links.push(graph.alloc(Point { x, y })?.link());
        }
        let links = graph.seq(&links)?;
        graph.alloc(links)
    }

    fn sum<B: StableBytes>(view: &View<B>, root: &Self::Root) -> f64 {
        let points = view.seq(*root).iter().map(|link| view.get(*link));
        points.map(|point| point.x + point.y).sum()
    }

    fn sum_of_archive(archive: &<Self::Model as Archive>::Archived) -> f64 {
        archive.0.iter().map(|point| point.x.to_native() + point.y.to_native()).sum()
    }
}

impl Data for Pairs {
    type Model = heap::Pairs;
    type Root = Seq<Link<Pair>>;

    fn build<'g>(graph: &mut Graph<'g>, count: usize) -> Result<Ref<'g, Self::Root>, Full> {
        let mut links = Vec::with_capacity(count);
        for at in 0..count {
            let text = heap::text(at);
            let text = graph.text(str::from_utf8(&text).expect("digits are UTF-8"))?;
            links.push(graph.alloc(Pair { number: at as i32, text })?.link());
        }
        let links = graph.seq(&links)?;
        graph.alloc(links)
    }

    fn sum<B: StableBytes>(view: &View<B>, root: &Self::Root) -> f64 {
        let pairs = view.seq(*root).iter().map(|link| view.get(*link));
        pairs.map(|pair| f64::from(pair.number) + heap::sum_of_text(view.text(&pair.text))).sum()
    }

    fn sum_of_archive(archive: &<Self::Model as Archive>::Archived) -> f64 {
        let sum = |pair: &rkyv::Archived<heap::Pair>| {
            f64::from(pair.number.to_native()) + heap::sum_of_text(&pair.text)
        };
        archive.0.iter().map(|pair| sum(pair)).sum()
    }
}
