//! Formats that encode and decode, and a plain copy.

use anyhow::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Shape;
use crate::heap::{Floats, LinkedPoints, Model, Pairs};
use crate::shared::{Points, Sharing};
use crate::steps::{Step, Steps, check};

/// bitcode has no counted pointers, and no lists that recurse deeply.
pub(crate) fn bitcode(shape: Shape, count: usize, steps: &mut Steps) -> Result<bool> {
    match shape {
        Shape::Floats => run_bitcode::<Floats>(count, steps)?,
        Shape::Points => run_bitcode::<Points>(count, steps)?,
        Shape::LinkedPoints => run_bitcode::<LinkedPoints>(count, steps)?,
        Shape::Pairs => run_bitcode::<Pairs>(count, steps)?,
        Shape::Scattered | Shape::List | Shape::Sharing => return Ok(false),
    }
    Ok(true)
}

/// What is shared is sent as often as it is pointed to.
pub(crate) fn postcard(shape: Shape, count: usize, steps: &mut Steps) -> Result<bool> {
    match shape {
        Shape::Floats => run_postcard::<Floats>(count, steps)?,
        Shape::Points => run_postcard::<Points>(count, steps)?,
        Shape::LinkedPoints => run_postcard::<LinkedPoints>(count, steps)?,
        Shape::Pairs => run_postcard::<Pairs>(count, steps)?,
        Shape::Sharing => run_postcard::<Sharing>(count, steps)?,
        Shape::Scattered | Shape::List => return Ok(false),
    }
    Ok(true)
}

/// As postcard does.
pub(crate) fn serde_json(shape: Shape, count: usize, steps: &mut Steps) -> Result<bool> {
    match shape {
        Shape::Floats => run_json::<Floats>(count, steps)?,
        Shape::Points => run_json::<Points>(count, steps)?,
        Shape::LinkedPoints => run_json::<LinkedPoints>(count, steps)?,
        Shape::Pairs => run_json::<Pairs>(count, steps)?,
        Shape::Sharing => run_json::<Sharing>(count, steps)?,
        Shape::Scattered | Shape::List => return Ok(false),
    }
    Ok(true)
}

/// Copies as many bytes as the elements have, there as a sender and there as a receiver.
pub(crate) fn memcpy(shape: Shape, count: usize, steps: &mut Steps) {
    let bytes = match shape {
        Shape::Floats => 4,
        Shape::Points | Shape::LinkedPoints | Shape::Scattered => 16,
        Shape::Pairs => 9,
        Shape::List => 8,
        Shape::Sharing => 4 + 16 / crate::shared::SHARED_BY,
    };
    let elements = vec![7_u8; count * bytes];
    let (mut sent, mut received) = (elements.clone(), elements.clone());
    steps.bytes = elements.len() as u64;
    for _ in 0..steps.rounds {
        steps.time(Step::Send, || sent.copy_from_slice(std::hint::black_box(&elements)));
        steps.time(Step::Receive, || received.copy_from_slice(std::hint::black_box(&sent)));
    }
}

fn run_bitcode<M>(count: usize, steps: &mut Steps) -> Result<()>
where
    M: Model + bitcode::Encode + bitcode::DecodeOwned,
{
    let mut buffer = bitcode::Buffer::new();
    run::<M>(
        count,
        steps,
        |model| Ok(buffer.encode(model).to_vec()),
        |sent| Ok(bitcode::decode(sent)?),
    )
}

fn run_postcard<M: Model + Serialize + DeserializeOwned>(
    count: usize,
    steps: &mut Steps,
) -> Result<()> {
    run::<M>(
        count,
        steps,
        |model| Ok(postcard::to_stdvec(model)?),
        |sent| Ok(postcard::from_bytes(sent)?),
    )
}

fn run_json<M: Model + Serialize + DeserializeOwned>(
    count: usize,
    steps: &mut Steps,
) -> Result<()> {
    run::<M>(
        count,
        steps,
        |model| Ok(serde_json::to_vec(model)?),
        |sent| Ok(serde_json::from_slice(sent)?),
    )
}

fn run<M: Model>(
    count: usize,
    steps: &mut Steps,
    mut encode: impl FnMut(&M) -> Result<Vec<u8>>,
    decode: impl Fn(&[u8]) -> Result<M>,
) -> Result<()> {
    for _ in 0..steps.rounds {
        let model = steps.time(Step::Build, || M::build(count));
        let sent = steps.time(Step::Send, || encode(&model))?;
        steps.bytes = sent.len() as u64;
        let received = steps.time(Step::Receive, || decode(&sent))?;
        let sum = steps.time(Step::Use, || received.sum());
        check(sum, model.sum())?;
    }
    Ok(())
}
