//! What is refused before anything of it was sent, for want of a slot or of memory, takes no window; replies too.
//!
//! These come about too seldom in orders drawn at random (`credits.rs`): there are 49,152 slots.

use std::time::Duration;

use super::*;
use crate::error::{Applied, BodyError, CallError};
use crate::frame::{Class, frame_len};
use crate::handler::{Batch, IncomingKind, NoHandler};
use crate::limits::{CALLS_MAX, MESSAGE_MAX};
use crate::sync::Mutex;

/// Two nodes, and the connection from the first to the second.
fn connected() -> (World, Connection) {
    let mut world = World::new(1);
    world.node(1, Arc::new(NoHandler), 16 << 20, |_| {});
    let address = world.node(2, Arc::new(NoHandler), 16 << 20, |_| {});
    let connection = world.connect(0, address);
    (world, connection)
}

fn reserved(connection: &Connection) -> u64 {
    connection.core.session.send_credit.ledger(Class::Request).0
}

#[test]
fn who_waits_for_a_slot_in_vain_takes_no_window() {
    let (mut world, connection) = connected();
    let slots =
        std::iter::from_fn(|| connection.core.session.calls.begin(Class::Request, None).ok());
    assert_eq!(slots.count(), CALLS_MAX);
    let before = reserved(&connection);
    for (has_body, is_given_up) in [(false, true), (true, true), (false, false), (true, false)] {
        let deadline = world.after(Duration::from_secs(1));
        let applied = Arc::new(Mutex::new(None));
        let (caller, tells) = (connection.clone(), Arc::clone(&applied));
        world.tasks.push(Box::pin(async move {
            let failed = if has_body {
                caller.call_body(b"head", deadline).await.err().map(|error| error.applied())
            } else {
                caller.call(b"request", deadline).await.err().map(|error| error.applied())
            };
            *tells.lock() = failed;
        }));
        while world.step() {}
        assert!(reserved(&connection) > before, "it has window, and waits");
        if is_given_up {
            world.tasks.clear();
        }
        while !world.tasks.is_empty() {
            assert!(world.step() || world.advance(), "it ends by its deadline");
        }
        assert_eq!(*applied.lock(), (!is_given_up).then_some(Applied::No));
        assert_eq!(reserved(&connection), before);
    }
}

#[test]
fn a_body_that_finds_no_memory_takes_no_window() {
    let (mut world, connection) = connected();
    while world.step() {}
    let taken = world.take_memory(0);
    let before = reserved(&connection);
    let deadline = world.after(Duration::from_secs(1));
    for is_called in [false, true] {
        let error = Arc::new(Mutex::new(None));
        let (sender, tells) = (connection.clone(), Arc::clone(&error));
        world.tasks.push(Box::pin(async move {
            *tells.lock() = if is_called {
                sender.call_body(b"head", deadline).await.err()
            } else {
                sender.send_body(b"head", deadline).await.err()
            };
        }));
        while !world.tasks.is_empty() {
            assert!(world.step() || world.advance(), "it is refused");
        }
        assert!(matches!(*error.lock(), Some(BodyError::Memory(_))), "{error:?}");
        assert_eq!(reserved(&connection), before);
    }
    drop(taken);
}

/// Answers with so many bytes.
struct Long(usize);

impl Handler for Long {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let IncomingKind::Call(call) = incoming.kind {
                batch.reply(call, &vec![7; self.0][..]);
            }
        }
    }
}

#[test]
fn a_reply_that_finds_no_memory_fails_its_call_and_no_other() {
    for len in [64 << 10, 2 * MESSAGE_MAX] {
        let mut world = World::new(1);
        world.node(1, Arc::new(NoHandler), 16 << 20, |_| {});
        let address = world.node(2, Arc::new(Long(len)), 16 << 20, |_| {});
        let connection = world.connect(0, address);
        let outcome = Arc::new(Mutex::new(None));
        let call = |world: &mut World| {
            let (caller, tells) = (connection.clone(), Arc::clone(&outcome));
            let deadline = world.after(Duration::from_secs(1));
            world.tasks.push(Box::pin(async move {
                let reply = caller.call(b"request", deadline).await;
                *tells.lock() = Some(reply.map(|reply| reply.len()));
            }));
            while !world.tasks.is_empty() {
                assert!(world.step() || world.advance(), "it ends");
            }
            outcome.lock().take().unwrap()
        };
        // Whoever answers has all that it needs besides.
        assert_eq!(call(&mut world), Ok(len));
        while world.step() || world.advance_to_event() {}
        let other = world.other_end(&connection.core, 1).unwrap();
        let replies = || other.session.send_credit.ledger(Class::Reply).0;
        let before = replies();
        let taken = world.take_memory(1);
        assert_eq!(call(&mut world), Err(CallError::Unanswered));
        assert_eq!(replies(), before + frame_len(0) as u64);
        drop(taken);
        assert_eq!(call(&mut world), Ok(len));
        assert!(connection.is_open());
    }
}
