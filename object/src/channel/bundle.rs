//! What goes in one message: a long segment, or short ones one behind the other.

use weft_transport::Body;

use super::inlet;
use super::message::HEADER_BYTES;
use crate::segment::Segment;

/// The most bytes of segments that are copied into one message. A longer segment is gathered from where it lies.
const COPIED_MAX: usize = 32 << 10;

/// Segments of a graph that go in one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bundle<'a>(&'a [Segment]);

impl<'a> Bundle<'a> {
    /// All segments of a graph, in their order.
    pub(super) fn all(segments: &'a [Segment]) -> impl Iterator<Item = Bundle<'a>> {
        let mut rest = segments;
        std::iter::from_fn(move || {
            let mut bytes = 0;
            let fitting = rest.iter().take_while(|segment| {
                bytes += segment.len();
                bytes <= COPIED_MAX
            });
            let count = fitting.count().max(1);
            let (bundle, others) = rest.split_at_checked(count)?;
            rest = others;
            Some(Bundle(bundle))
        })
    }

    /// The one segment that is too long to be copied, if it is such.
    pub(super) fn long(self) -> Option<&'a Segment> {
        self.0.first().filter(|first| first.len() > COPIED_MAX)
    }

    /// What it costs of what has been granted.
    pub(super) fn cost(self) -> u64 {
        inlet::cost(self.len())
    }

    fn len(self) -> usize {
        self.0.iter().map(Segment::len).sum()
    }

    /// As it is sent, behind this header.
    pub(super) fn behind(self, header: [u8; HEADER_BYTES]) -> Headed<'a> {
        Headed { header, bundle: self }
    }
}

/// A message of short segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headed<'a> {
    header: [u8; HEADER_BYTES],
    bundle: Bundle<'a>,
}

impl Body for Headed<'_> {
    fn len(&self) -> usize {
        HEADER_BYTES + self.bundle.len()
    }

    fn write(self, buffer: &mut [u8]) {
        let (header, mut rest) = buffer.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&self.header);
        for part in self.bundle.0.iter().flat_map(|segment| [segment.head(), segment.pages()]) {
            let (filled, behind) = rest.split_at_mut(part.len());
            filled.copy_from_slice(part);
            rest = behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_transport::{Memory, MemoryConfig, Purpose};

    use super::*;
    use crate::{Graph, Seq, Types};

    #[test]
    fn short_segments_go_together_and_long_ones_alone_in_their_order() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let types = Types::new().with::<Seq<u8>>();
        for counts in [vec![1], vec![3_000; 10], vec![40_000], vec![100, 200_000, 100, 3_000, 100]]
        {
            let graph = Graph::build(&memory, Purpose::Send, &types, |graph| {
                let mut last = Seq::EMPTY;
                for count in &counts {
                    last = graph.seq(&vec![7_u8; *count])?;
                }
                graph.alloc(last)
            });
            let graph = graph.unwrap();
            let bundles: Vec<_> = Bundle::all(graph.segments()).collect();
            let mut all = Vec::new();
            for bundle in &bundles {
                let mut message = vec![0; Body::len(&bundle.behind([1; HEADER_BYTES]))];
                bundle.behind([1; HEADER_BYTES]).write(&mut message);
                assert_eq!(message[..HEADER_BYTES], [1; HEADER_BYTES]);
                assert_eq!(bundle.long().is_some(), bundle.len() > COPIED_MAX);
                assert!(bundle.long().is_none() || bundle.0.len() == 1);
                all.extend_from_slice(&message[HEADER_BYTES..]);
            }
            let parts = |segment: &Segment| [segment.head(), segment.pages()].concat();
            assert_eq!(all, graph.segments().iter().flat_map(parts).collect::<Vec<_>>());
            let apart = bundles.windows(2).all(|two| two[0].len() + two[1].len() > COPIED_MAX);
            assert!(apart || bundles.iter().any(|bundle| bundle.long().is_some()));
        }
    }
}
