//! What is not Naos's: points one behind the other, and nodes that share points by counted pointers.

use std::rc::Rc;

use rkyv::{Archive, Serialize};

use crate::heap::{Model, Point, point};

#[derive(
    Clone,
    Debug,
    serde::Serialize,
    serde::Deserialize,
    bitcode::Encode,
    bitcode::Decode,
    Archive,
    Serialize,
)]
pub(crate) struct Points(pub(crate) Vec<Point>);

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, Archive, Serialize)]
pub(crate) struct Node {
    pub(crate) id: u32,
    pub(crate) point: Rc<Point>,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, Archive, Serialize)]
pub(crate) struct Sharing(pub(crate) Vec<Node>);

/// How many nodes share a point.
pub(crate) const SHARED_BY: usize = 8;

impl Model for Points {
    fn build(count: usize) -> Self {
        Points((0..count).map(point).collect())
    }

    fn sum(&self) -> f64 {
        self.0.iter().map(|point| point.x + point.y).sum()
    }
}

impl Model for Sharing {
    fn build(count: usize) -> Self {
        let points: Vec<_> = (0..count / SHARED_BY).map(|at| Rc::new(point(at))).collect();
        let node = |at: usize| Node { id: at as u32, point: points[at % points.len()].clone() };
        Sharing((0..count).map(node).collect())
    }

    fn sum(&self) -> f64 {
        self.0.iter().map(|node| f64::from(node.id) + node.point.x + node.point.y).sum()
    }
}
