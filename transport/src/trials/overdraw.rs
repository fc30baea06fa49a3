//! Peers that send more than they were granted.

use super::stranger::{Heard, Stranger, frame};
use super::*;
use crate::frame::{Class, Kind, frame_len};
use crate::handler::{Batch, Retained};
use crate::handshake::Windows;
use crate::limits::{MESSAGE_MAX, WINDOW_MIN};
use crate::sync::Mutex;

/// The code of the goodbye that ends who sends too much.
const WINDOW_EXCEEDED: u64 = 7;

/// Keeps all that comes, so that no window is ever granted anew.
#[derive(Default)]
struct Keeping {
    kept: Mutex<Vec<Retained>>,
}

impl Handler for Keeping {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            self.kept.lock().push(incoming.retain().expect("there is memory"));
        }
    }
}

#[test]
fn who_sends_a_frame_beyond_its_window_is_ended_before_that_is_handled() {
    for class in [Class::Request, Class::Replication] {
        let mut world = World::new(1);
        world.make_prompt();
        let keeping = Arc::new(Keeping::default());
        let address = world.node(1, Arc::clone(&keeping) as _, 64 << 20, |config| {
            config.windows =
                Windows { reply: WINDOW_MIN, replication: WINDOW_MIN, request: WINDOW_MIN };
        });
        let peer = Stranger::greeted(&mut world, address, 1);
        let longest = frame(Kind::Message, class, 0, MESSAGE_MAX);
        // But for 8 bytes: frames are of multiples of so many, so that is the least that one can be too long by.
        let rest = WINDOW_MIN as usize - longest.len() - frame_len(8);
        peer.write_long(&mut world, &longest);
        peer.write_long(&mut world, &frame(Kind::Message, class, 0, rest));
        world.settle();
        let counted = || keeping.kept.lock().len();
        assert_eq!((counted(), peer.hear()), (2, Heard { frames: Vec::new(), is_end: false }));
        peer.write(&frame(Kind::Message, class, 0, 0));
        world.settle();
        let goodbye = Heard { frames: vec![(Kind::Goodbye, WINDOW_EXCEEDED)], is_end: true };
        assert_eq!((counted(), peer.hear()), (2, goodbye));
    }
}
