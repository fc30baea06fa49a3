//! What becomes of posted sends when an endpoint is shut down whose device tells of nothing.
//!
//! Without a device the cases say so and do nothing; `cargo xtask softroce` runs them with one, which is then not heard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use super::held::TURN;
use super::on_device;
use crate::buffer::Buffer;
use crate::error::PostError;
use crate::handler::{Batch, Handler, IncomingKind};
use crate::link::Link;
use crate::memory::{Memory, MemoryConfig};
use crate::registration::registration_stats;
use crate::ticket::{Completed, PostFailed};

/// Of what is posted.
const LEN: usize = 100_000;

/// Whether a port is told of nothing by its device.
#[derive(Debug, Default)]
pub(super) struct Deafness(AtomicU8);

const UNTIL_RESET: u8 = 1;
const FOR_EVER: u8 = 2;

impl Deafness {
    pub(super) fn is_deaf(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    /// Its queue pairs have been.
    pub(super) fn was_reset(&self) {
        let _heard = self.0.compare_exchange(UNTIL_RESET, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

struct Ignore;

impl Handler for Ignore {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            assert!(matches!(incoming.kind, IncomingKind::Message), "nobody calls");
        }
    }
}

/// What comes of a send that is posted by an endpoint which is shut down then, and hears its device no more. Nothing
/// where there is no device.
fn shut_down_deaf(deafness: u8, is_waited_for: bool) -> Option<Result<Completed, PostFailed>> {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    let server = on_device::start(1, &memory, Arc::new(Ignore))?;
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let client = on_device::start(10, &memory, Arc::new(Ignore)).unwrap();
    let by = client.clock().now() + Duration::from_secs(30);
    let connection = client.block_on(client.connect(address, by)).unwrap();
    let Link::Verbs(link) = &connection.core.link else { panic!("it is over verbs") };
    let buffer = connection.register(Buffer::from(vec![7; LEN])).unwrap();
    link.port.deafness.0.store(deafness, Ordering::SeqCst);
    let ticket = buffer.post_send(LEN);
    // Until some of it is the device's.
    while link.lent_bytes() == 0 {
        std::thread::yield_now();
    }
    let outcome = if is_waited_for {
        // Who waits drives, and is told to let go of everything.
        let waits = std::thread::spawn(move || ticket.wait());
        std::thread::yield_now();
        client.shutdown();
        waits.join().unwrap()
    } else {
        client.shutdown();
        ticket.wait()
    };
    assert!(link.end().unwrap().has_failed(), "its queue pair was reset");
    Some(outcome)
}

#[test]
fn a_buffer_that_its_device_may_still_read_is_kept_and_its_ticket_ends() {
    let _turn = TURN.lock();
    for is_waited_for in [false, true] {
        let before = registration_stats().used_bytes;
        let Some(outcome) = shut_down_deaf(FOR_EVER, is_waited_for) else { return };
        let failed = outcome.unwrap_err();
        assert_eq!((failed.error, failed.buffer.len()), (PostError::Lost, 0));
        drop(failed.buffer);
        // Neither the memory is free, nor its registration undone, though nobody has it.
        let used = registration_stats().used_bytes;
        assert!(used >= before + LEN as u64, "its registration is undone");
    }
}

#[test]
fn a_buffer_comes_back_from_a_device_that_ends_what_it_is_told_to_end() {
    let _turn = TURN.lock();
    // Ten times, since who waits drives at some of them only when it is shut down.
    for turn in 0..10 {
        let Some(outcome) = shut_down_deaf(UNTIL_RESET, turn % 2 == 0) else { return };
        let buffer = match outcome {
            Ok(completed) => completed.buffer,
            Err(failed) => {
                assert!(matches!(failed.error, PostError::Disconnected(_)), "{}", failed.error);
                failed.buffer
            }
        };
        assert_eq!(*buffer, [7; LEN]);
    }
}
