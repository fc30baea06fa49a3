//! Naos's three types of data as programs have them: vectors, boxes and strings.

#![expect(
    clippy::vec_box,
    reason = "an object of its own each, as objects of Java are: that is what is measured"
)]

use rkyv::{Archive, Serialize};

/// What all formats but Weft's begin with.
pub(crate) trait Model {
    fn build(count: usize) -> Self;
    fn sum(&self) -> f64;
}

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
pub(crate) struct Floats(pub(crate) Vec<f32>);

#[derive(
    Clone,
    Copy,
    Debug,
    serde::Serialize,
    serde::Deserialize,
    bitcode::Encode,
    bitcode::Decode,
    Archive,
    Serialize,
)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

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
pub(crate) struct LinkedPoints(pub(crate) Vec<Box<Point>>);

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
pub(crate) struct Pair {
    pub(crate) number: i32,
    pub(crate) text: String,
}

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
pub(crate) struct Pairs(pub(crate) Vec<Box<Pair>>);

pub(crate) fn point(at: usize) -> Point {
    Point { x: at as f64, y: 0.5 }
}

/// Five bytes.
pub(crate) fn text(at: usize) -> [u8; 5] {
    let mut text = *b"a0000";
    let mut rest = at % 10_000;
    for digit in text[1..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text
}

pub(crate) fn sum_of_text(text: &str) -> f64 {
    f64::from(text.as_bytes()[4]) + text.len() as f64
}

impl Model for Floats {
    fn build(count: usize) -> Self {
        Floats((0..count).map(|at| at as f32).collect())
    }

    fn sum(&self) -> f64 {
        sum_of_floats(&self.0)
    }
}

/// In eight lanes: the sum is not what is measured.
pub(crate) fn sum_of_floats(floats: &[f32]) -> f64 {
    let mut lanes = [0.0; 8];
    for eight in floats.chunks_exact(8) {
        for (lane, float) in lanes.iter_mut().zip(eight) {
            *lane += f64::from(*float);
        }
    }
    lanes.iter().sum()
}

impl Model for LinkedPoints {
    fn build(count: usize) -> Self {
        LinkedPoints((0..count).map(|at| Box::new(point(at))).collect())
    }

    fn sum(&self) -> f64 {
        self.0.iter().map(|point| point.x + point.y).sum()
    }
}

impl Model for Pairs {
    fn build(count: usize) -> Self {
        let pair = |at: usize| {
            let text = str::from_utf8(&text(at)).expect("digits are UTF-8").to_owned();
            Box::new(Pair { number: at as i32, text })
        };
        Pairs((0..count).map(pair).collect())
    }

    fn sum(&self) -> f64 {
        self.0.iter().map(|pair| f64::from(pair.number) + sum_of_text(&pair.text)).sum()
    }
}
