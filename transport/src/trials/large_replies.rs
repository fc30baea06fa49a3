//! Large replies that wait hold up requests if they lie in memory of their own, for as long as they wait, and no longer.

use super::*;
use crate::handler::{Batch, IncomingKind, NoHandler};
use crate::limits::{LARGE_QUEUED_MAX, MESSAGE_MAX, REPLY_QUEUED_COST};
use crate::memory::Shared;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Answers an empty request with a large body, and others with theirs.
struct Answering {
    large: Shared,
    /// The large body is copied first.
    copies: bool,
    small: AtomicUsize,
}

impl Handler for Answering {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            match incoming.body {
                [] if self.copies => batch.reply(call, &self.large[..]),
                [] => batch.reply_shared(call, b"", self.large.clone()),
                small => {
                    self.small.fetch_add(1, Ordering::SeqCst);
                    batch.reply(call, small);
                }
            }
        }
    }
}

/// A node that asks for so many large replies, then for a small one; the server's handler; and the lengths of the
/// replies, in the order in which they will have come.
fn asking(
    large: usize,
    len: usize,
    copies: bool,
) -> (World, Arc<Answering>, Arc<Mutex<Vec<usize>>>) {
    let mut world = World::new(1);
    world.node(1, Arc::new(NoHandler), 64 << 20, |_| {});
    let memory = Memory::new(MemoryConfig { limit_bytes: 2 * len as u64 }).unwrap();
    let mut block = memory.allocate(len, Purpose::Log).unwrap();
    block.mark_touched(len);
    let (large_body, small) = (block.freeze().slice(0..len), AtomicUsize::new(0));
    let handler = Arc::new(Answering { large: large_body, copies, small });
    let address = world.node(2, Arc::clone(&handler) as Arc<dyn Handler>, 64 << 20, |_| {});
    let connection = world.connect(0, address);
    let lens = Arc::new(Mutex::new(Vec::new()));
    for body in std::iter::repeat_n(&b""[..], large).chain([&b"small"[..]]) {
        let (caller, lens) = (connection.clone(), Arc::clone(&lens));
        world.tasks.push(Box::pin(async move {
            let reply = caller.call(body, Time::MAX).await.unwrap();
            lens.lock().push(reply.len());
        }));
    }
    (world, handler, lens)
}

/// For what is on its way, and for no timer.
fn settle(world: &mut World) {
    while world.step() || world.advance_to_event() {}
    assert!(world.tasks.is_empty(), "every call has its reply");
}

#[test]
fn what_was_set_aside_for_copies_goes_on_when_they_have_gone() {
    let (mut world, handler, lens) = asking(1, LARGE_QUEUED_MAX, true);
    settle(&mut world);
    assert_eq!(*lens.lock(), [LARGE_QUEUED_MAX, 5], "the small one had to wait");
    assert_eq!(handler.small.load(Ordering::SeqCst), 1);
}

#[test]
fn nothing_waits_for_replies_that_lie_elsewhere() {
    let (mut world, _, lens) = asking(3, LARGE_QUEUED_MAX, false);
    settle(&mut world);
    let [first, large @ ..] = &lens.lock()[..] else { panic!("there are replies") };
    assert_eq!(*first, 5, "the small one came first");
    assert_eq!(large, [LARGE_QUEUED_MAX; 3]);
}

#[test]
fn so_many_replies_wait_and_no_more() {
    let most = LARGE_QUEUED_MAX / REPLY_QUEUED_COST;
    let (mut world, _, lens) = asking(most, MESSAGE_MAX + 1, false);
    settle(&mut world);
    let lens = lens.lock();
    assert_eq!(lens.len(), most + 1);
    assert_ne!(lens[0], 5, "the small one had to wait");
}
