//! rkyv: archived after building, checked, and used in place.

#![expect(unsafe_code, reason = "takes archives without the check, to see what that costs")]

use anyhow::{Result, anyhow};
use rkyv::api::high::{HighSerializer, HighValidator, to_bytes_in};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Portable, Serialize};

use crate::Shape;
use crate::heap::{self, Floats, LinkedPoints, Model, Pairs};
use crate::shared::{self, Points, Sharing};
use crate::steps::{Step, Steps, check};

/// Takes the steps. A list recurses, on all of its paths.
pub(crate) fn measure(
    shape: Shape,
    count: usize,
    checked: bool,
    steps: &mut Steps,
) -> Result<bool> {
    match shape {
        Shape::Floats => run::<Floats>(count, checked, steps, |floats| {
            let mut lanes = [0.0; 8];
            for eight in floats.0.chunks_exact(8) {
                for (lane, float) in lanes.iter_mut().zip(eight) {
                    *lane += f64::from(float.to_native());
                }
            }
            lanes.iter().sum()
        })?,
        Shape::Points => run::<Points>(count, checked, steps, |points| {
            points.0.iter().map(|point| point.x.to_native() + point.y.to_native()).sum()
        })?,
        Shape::LinkedPoints => run::<LinkedPoints>(count, checked, steps, |points| {
            points.0.iter().map(|point| point.x.to_native() + point.y.to_native()).sum()
        })?,
        Shape::Pairs => run::<Pairs>(count, checked, steps, |pairs| {
            let sum = |pair: &rkyv::Archived<heap::Pair>| {
                f64::from(pair.number.to_native()) + heap::sum_of_text(&pair.text)
            };
            pairs.0.iter().map(|pair| sum(pair)).sum()
        })?,
        Shape::Sharing => run::<Sharing>(count, checked, steps, |nodes| {
            let sum = |node: &rkyv::Archived<shared::Node>| {
                f64::from(node.id.to_native()) + node.point.x.to_native() + node.point.y.to_native()
            };
            nodes.0.iter().map(sum).sum()
        })?,
        Shape::Scattered | Shape::List => return Ok(false),
    }
    Ok(true)
}

fn run<M>(
    count: usize,
    checked: bool,
    steps: &mut Steps,
    sum: impl Fn(&M::Archived) -> f64,
) -> Result<()>
where
    M: Model + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Error>>,
    M: Archive<Archived: Portable + for<'a> CheckBytes<HighValidator<'a, Error>>>,
{
    let mut bytes = AlignedVec::<16>::new();
    for _ in 0..steps.rounds {
        let model = steps.time(Step::Build, || M::build(count));
        bytes.clear();
        let archive = |bytes| to_bytes_in::<_, Error>(&model, bytes);
        bytes = steps.time(Step::Send, || archive(std::mem::take(&mut bytes)))?;
        steps.bytes = bytes.len() as u64;
        let found = if checked {
            let access = || rkyv::access::<M::Archived, Error>(&bytes);
            let received = steps.time(Step::Receive, access).map_err(|error| anyhow!("{error}"))?;
            steps.time(Step::Use, || sum(received))
        } else {
            // SAFETY: they were archived just now, as this type.
            let access = || unsafe { rkyv::access_unchecked::<M::Archived>(&bytes) };
            let received = steps.time(Step::Receive, access);
            steps.time(Step::Use, || sum(received))
        };
        check(found, model.sum())?;
    }
    Ok(())
}
