//! Graphs, from the builder to the view.

#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

#[path = "graphs/compacting.rs"]
mod compacting;
#[path = "graphs/failures.rs"]
mod failures;
#[path = "graphs/hostile.rs"]
mod hostile;
#[path = "graphs/isomorphic.rs"]
mod isomorphic;
#[path = "graphs/kinds.rs"]
mod kinds;
#[path = "graphs/lending.rs"]
mod lending;
#[path = "graphs/segmented.rs"]
mod segmented;
#[path = "graphs/together.rs"]
mod together;
#[path = "graphs/values.rs"]
mod values;

use weft_object::{AlignedBytes, Assembly, Frozen, Invalid, Limits, Types, View};
use weft_transport::{Memory, MemoryConfig};

fn memory() -> Memory {
    Memory::new(MemoryConfig { limit_bytes: 256 << 20 }).unwrap()
}

/// The segments as they are sent.
fn sent<R>(graph: &Frozen<R>) -> Vec<Vec<u8>> {
    graph.segments().iter().map(|segment| [segment.head(), segment.pages()].concat()).collect()
}

/// The graph of segments that were received.
fn received(segments: &[Vec<u8>], types: &Types) -> Result<View<AlignedBytes>, Invalid> {
    let mut assembly = Assembly::new(types, Limits::default());
    for segment in segments {
        assembly.add(AlignedBytes::copied(segment))?;
    }
    assembly.finish()
}
