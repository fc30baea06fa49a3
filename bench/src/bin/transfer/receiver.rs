//! The process that receives: it checks what comes, and answers.

use std::io::Read;
use std::sync::Arc;
use std::thread;

use anyhow::{Result, anyhow};
use futures_util::FutureExt;
use parking_lot::Mutex;
use rkyv::rancor::Error;
use weft_object::channel::{GraphLimits, GraphListener, ReceivedBytes};
use weft_object::{Assembly, Limits, View};
use weft_transport::limits::MESSAGE_MAX;
use weft_transport::{
    Batch, Endpoint, Handler, Incoming, IncomingKind, LinkPolicy, Memory, NodeId, Purpose,
    Responder, Retained, Shared,
};

use crate::heap::Model;
use crate::shapes::{self, Data, Floats, Pairs, Points, Shape};
use crate::speech::{self, Format, HEAD_BYTES, Verb};

/// Hands graphs to the listener, and does the rest itself.
struct Receiving {
    listener: Arc<GraphListener>,
    last: Arc<Mutex<Option<View<ReceivedBytes>>>>,
    parts: Mutex<Parts>,
    memory: Memory,
}

/// A segment of a graph.
enum Part {
    Retained(Retained),
    Copied(Shared),
}

/// A quarter of what the sender uses of the window.
const HELD_MAX: u64 = 4 << 20;

/// What is not to be checked before all is there.
#[derive(Default)]
struct Parts {
    parts: Vec<(u32, Part)>,
    /// Bytes of the window that they hold on to.
    held_bytes: u64,
    /// Who waits for so many.
    waits: Option<(u32, Responder)>,
}

/// Receives until nobody holds the other end of the standard input.
pub(crate) fn run(link: LinkPolicy) -> Result<()> {
    let config = crate::config(NodeId(1), link)?;
    let limits = GraphLimits { granted_bytes: 64 << 20, ..GraphLimits::default() };
    let listener = GraphListener::new(&shapes::types(), limits, &config.memory);
    let last = Arc::default();
    let receiving = Receiving {
        listener: Arc::clone(&listener),
        last: Arc::clone(&last),
        parts: Mutex::default(),
        memory: config.memory.clone(),
    };
    let endpoint = Endpoint::start(config, Arc::new(receiving))?;
    println!("{}", endpoint.listen(([127, 0, 0, 1], 0).into())?);
    thread::spawn({
        let endpoint = endpoint.clone();
        move || endpoint.block_on(receive(&listener, &last))
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Receives all graphs of one channel after the other.
async fn receive(listener: &Arc<GraphListener>, last: &Mutex<Option<View<ReceivedBytes>>>) {
    loop {
        let mut receiver = listener.accept().await;
        while let Ok(graph) = receiver.receive().await {
            *last.lock() = Some(graph);
        }
    }
}

impl Handler for Receiving {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let Some(incoming) = self.listener.take(batch, incoming) else { continue };
            let kind = incoming.kind;
            let answered = self.answer(incoming);
            if let (IncomingKind::Call(call), Some(answered)) = (kind, answered.transpose()) {
                batch.reply(call, &reply(answered));
            }
        }
    }
}

fn reply(answered: Result<f64>) -> [u8; 16] {
    let mut reply = [0; 16];
    if let Ok(sum) = answered {
        reply[0] = 1;
        reply[8..].copy_from_slice(&sum.to_le_bytes());
    }
    reply
}

impl Receiving {
    /// Nothing, if it is answered later.
    fn answer(&self, mut incoming: Incoming<'_>) -> Result<Option<f64>> {
        let said = speech::decode(incoming.body);
        let (shape, verb, bytes) = said.ok_or_else(|| anyhow!("that is no message"))?;
        match verb {
            Verb::Part(number) => {
                if bytes.starts_with(b"WSEG") {
                    let mut parts = self.parts.lock();
                    parts.take(number, incoming, &self.memory)?;
                    parts.check_if_complete();
                }
                Ok(None)
            }
            Verb::Whole { format, is_summed } => match shape {
                Shape::Floats => take::<Floats>(format, bytes, is_summed).map(Some),
                Shape::Points => take::<Points>(format, bytes, is_summed).map(Some),
                Shape::Pairs => take::<Pairs>(format, bytes, is_summed).map(Some),
            },
            Verb::Sum => match shape {
                Shape::Floats => self.sum::<Floats>().map(Some),
                Shape::Points => self.sum::<Points>().map(Some),
                Shape::Pairs => self.sum::<Pairs>().map(Some),
            },
            Verb::CheckParts(count) => {
                let mut parts = self.parts.lock();
                parts.waits = incoming.responder().map(|responder| (count, responder));
                parts.check_if_complete();
                Ok(None)
            }
        }
    }

    fn sum<D: Data>(&self) -> Result<f64> {
        let last = self.last.lock();
        let graph = last.as_ref().ok_or_else(|| anyhow!("no graph has come"))?;
        Ok(D::sum(graph, graph.root()?))
    }
}

impl Parts {
    /// As a channel keeps them, or it would not be the time of the check that is compared.
    fn take(&mut self, number: u32, incoming: Incoming<'_>, memory: &Memory) -> Result<()> {
        let bytes = if incoming.body.len() > MESSAGE_MAX { 0 } else { incoming.body.len() as u64 };
        let part = if self.held_bytes + bytes <= HELD_MAX {
            self.held_bytes += bytes;
            Part::Retained(incoming.retain()?)
        } else {
            let bytes = &incoming.body[HEAD_BYTES..];
            let mut block = memory.allocate(bytes.len(), Purpose::Receive)?;
            block.mark_touched(bytes.len());
            block[..bytes.len()].copy_from_slice(bytes);
            Part::Copied(block.freeze().narrow(0..bytes.len()))
        };
        self.parts.push((number, part));
        Ok(())
    }

    fn check_if_complete(&mut self) {
        let is_complete = |(count, _): &mut (u32, Responder)| self.parts.len() >= *count as usize;
        let Some((_, responder)) = self.waits.take_if(is_complete) else { return };
        let mut parts = std::mem::take(&mut self.parts);
        self.held_bytes = 0;
        parts.sort_by_key(|(number, _)| *number);
        let _ = responder.reply(&reply(check(&parts))).now_or_never();
    }
}

fn check(parts: &[(u32, Part)]) -> Result<f64> {
    let mut assembly = Assembly::new(&shapes::types(), Limits::NONE);
    for (_, part) in parts {
        match part {
            Part::Retained(retained) => assembly.add(&retained[HEAD_BYTES..])?,
            Part::Copied(copy) => assembly.add(&copy[..])?,
        };
    }
    Ok(assembly.finish().map(|_| 0.0)?)
}

/// Makes objects of bytes that were encoded.
fn take<D: Data>(format: Format, bytes: &[u8], is_summed: bool) -> Result<f64> {
    match format {
        Format::Weft | Format::Raw => Ok(0.0),
        Format::Rkyv => {
            type Archived<D> = <<D as Data>::Model as rkyv::Archive>::Archived;
            let archive = rkyv::access::<Archived<D>, Error>(bytes);
            let archive = archive.map_err(|error| anyhow!("{error}"))?;
            Ok(if is_summed { D::sum_of_archive(archive) } else { 0.0 })
        }
        Format::Bitcode => {
            let model: D::Model = bitcode::decode(bytes)?;
            Ok(if is_summed { model.sum() } else { 0.0 })
        }
    }
}
