//! What the two processes say to each other, but for graphs: two words ahead of the bytes, so that these are aligned.

use clap::ValueEnum;

use crate::shapes::Shape;

/// How objects are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Weft,
    /// As many bytes as Weft's, which nobody looks at
    Raw,
    Rkyv,
    Bitcode,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// A part of what is behind the next call, by its number; not answered.
    Part(u32),
    /// All is there: bytes of this format, of which the sum is answered if it is asked for.
    Whole { format: Format, is_summed: bool },
    /// What the last graph adds up to.
    Sum,
    /// So many parts are the segments of a graph, to be checked when all are there.
    CheckParts(u32),
}

pub(crate) const HEAD_BYTES: usize = 16;

pub(crate) fn encode(shape: Shape, verb: Verb) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let (verb, format, is_summed, number) = match verb {
        Verb::Part(number) => (0, 0, false, number),
        Verb::Whole { format, is_summed } => (1, format as u8, is_summed, 0),
        Verb::Sum => (2, 0, false, 0),
        Verb::CheckParts(count) => (3, 0, false, count),
    };
    head[..4].copy_from_slice(&[verb, format, u8::from(is_summed), shape as u8]);
    head[4..8].copy_from_slice(&number.to_le_bytes());
    head
}

pub(crate) fn decode(body: &[u8]) -> Option<(Shape, Verb, &[u8])> {
    let (head, rest) = body.split_first_chunk::<HEAD_BYTES>()?;
    let shape = *Shape::value_variants().get(usize::from(head[3]))?;
    let format = *Format::value_variants().get(usize::from(head[1]))?;
    let number = u32::from_le_bytes([4, 5, 6, 7].map(|at| head[at]));
    let verb = match head[0] {
        0 => Verb::Part(number),
        1 => Verb::Whole { format, is_summed: head[2] == 1 },
        2 => Verb::Sum,
        3 => Verb::CheckParts(number),
        _ => return None,
    };
    Some((shape, verb, rest))
}
