//! Large replies that wait hold up requests for as long as they do, and no longer.

use super::*;
use crate::handler::{Batch, IncomingKind, NoHandler};
use crate::limits::LARGE_QUEUED_MAX;
use crate::memory::Shared;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Answers an empty request with a large body, and others with theirs.
struct Answering {
    large: Shared,
    small: AtomicUsize,
}

impl Handler for Answering {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            if incoming.body.is_empty() {
                batch.reply_shared(call, b"", self.large.clone());
            } else {
                self.small.fetch_add(1, Ordering::SeqCst);
                batch.reply(call, incoming.body);
            }
        }
    }
}

#[test]
fn what_was_set_aside_for_them_goes_on_when_they_have_gone() {
    let mut world = World::new(1);
    world.node(1, Arc::new(NoHandler), 64 << 20, |_| {});
    let memory = Memory::new(MemoryConfig { limit_bytes: 32 << 20 }).unwrap();
    let mut block = memory.allocate(LARGE_QUEUED_MAX, Purpose::Log).unwrap();
    block.mark_touched(LARGE_QUEUED_MAX);
    let handler = Arc::new(Answering { large: block.freeze(), small: AtomicUsize::new(0) });
    let address = world.node(2, Arc::clone(&handler) as Arc<dyn Handler>, 64 << 20, |_| {});
    let connection = world.connect(0, address);
    for body in [&b""[..], b"small"] {
        let caller = connection.clone();
        world.tasks.push(Box::pin(async move {
            let reply = caller.call(body, Time::MAX).await.unwrap();
            assert_eq!(reply.len(), if body.is_empty() { LARGE_QUEUED_MAX } else { body.len() });
        }));
    }
    // For what is on its way, and for no timer.
    while world.step() || world.advance_to_event() {}
    assert_eq!(handler.small.load(Ordering::SeqCst), 1);
    assert!(world.tasks.is_empty(), "every call has its reply");
}
