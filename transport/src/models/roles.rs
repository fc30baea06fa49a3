//! Who sends, who drives, and who is woken: nothing is left lying, and nobody sleeps for ever.
//!
//! No clock goes on here, so that no timer mends what a bell has missed: a thread that waits in vain does so
//! until the model has taken too many steps. A thread that is parked goes on when it is unparked and not by itself,
//! and who parks for a time besides does so in half of all runs, where time stands still; in the others, its time may
//! be over at any moment.

use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::nodes::{Pair, Word, check, elsewhere, endpoint, send};
use crate::error::{Applied, CallError, CloseReason};
use crate::handler::NoHandler;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::thread;
use crate::time::Time;

/// The role of the driver goes from one caller to the other and to the endpoint's own thread; whoever is
/// left with it brings the others their replies, and nobody is left without.
#[test]
fn every_caller_gets_its_reply_whoever_drives() {
    check(3000, || {
        let pair = Pair::new();
        let callers: Vec<_> = (0..2u8)
            .map(|caller| {
                let (client, connection) = (pair.client.clone(), pair.connection.clone());
                thread::spawn(move || {
                    for number in 0..2u8 {
                        let body = [caller, number];
                        let call = connection.call(&body[..], Time::MAX);
                        assert_eq!(&client.block_on(call).unwrap()[..], &body[..]);
                    }
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        pair.end();
    });
}

/// Who has its reply may have long something else to do: those who wait for theirs do not wait for that too.
#[test]
fn nobody_waits_for_callers_that_keep_their_threads() {
    check(3000, || {
        let pair = Pair::new();
        let done = Arc::new(AtomicUsize::new(0));
        let callers: Vec<_> = (0..3u8)
            .map(|caller| {
                let (client, connection) = (pair.client.clone(), pair.connection.clone());
                let done = Arc::clone(&done);
                thread::spawn(move || {
                    client.block_on(async {
                        let reply = connection.call(&[caller][..], Time::MAX).await;
                        assert_eq!(reply.unwrap()[..], [caller]);
                        done.fetch_add(1, Ordering::SeqCst);
                        while done.load(Ordering::SeqCst) < 3 {
                            thread::yield_now();
                        }
                    });
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        pair.end();
    });
}

/// A call that nobody drives for while waiting: by callers that come and go, and else by the endpoint's own thread.
#[test]
fn a_call_elsewhere_gets_its_reply_from_whoever_drives() {
    check(3000, || {
        let pair = Pair::new();
        let calling = {
            let (client, connection) = (pair.client.clone(), pair.connection.clone());
            thread::spawn(move || {
                let reply = client.block_on(connection.call(&[1][..], Time::MAX));
                assert_eq!(reply.unwrap()[..], [1]);
            })
        };
        let reply = elsewhere(pair.connection.call(&[2][..], Time::MAX));
        assert_eq!(reply.unwrap()[..], [2]);
        calling.join().unwrap();
        pair.end();
    });
}

/// Who stands aside takes the role from nobody: one who calls gets its reply, and the one aside its word from that.
#[test]
fn a_caller_gets_its_reply_beside_one_who_stands_aside() {
    check(3000, || {
        let pair = Pair::new();
        let word = Word::default();
        let calling = {
            let (client, connection) = (pair.client.clone(), pair.connection.clone());
            let word = word.clone();
            thread::spawn(move || {
                for number in 0..2u8 {
                    let reply = client.block_on(connection.call(&[number][..], Time::MAX));
                    assert_eq!(reply.unwrap()[..], [number]);
                }
                word.tell(7);
            })
        };
        assert_eq!(pair.client.block_on(word.wait(false)), 7);
        calling.join().unwrap();
        pair.end();
    });
}

/// Whoever finds the role of the sender taken leaves its message to who has it.
#[test]
fn what_is_committed_is_sent_by_somebody() {
    check(3000, || {
        let pair = Pair::new();
        let senders: Vec<_> = (0..2u8)
            .map(|sender| {
                let connection = pair.connection.clone();
                let listening = Arc::clone(&pair.listening);
                thread::spawn(move || {
                    (0..3u8).for_each(|number| send(&connection, &[sender, number]));
                    // A thread that ends sends what it has left to others.
                    listening.wait_for(6);
                })
            })
            .collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        let came = pair.listening.came.lock().clone();
        for sender in 0..2u8 {
            let own: Vec<u8> = came.iter().filter(|m| m[0] == sender).map(|m| m[1]).collect();
            assert_eq!(own, [0, 1, 2], "in the order in which they were sent");
        }
        pair.end();
    });
}

/// A driver that sleeps is woken by whoever wakes its future, and not only by what comes over its links.
#[test]
fn a_driver_that_sleeps_hears_who_wakes_it() {
    who_is_told_wakes(true);
}

#[test]
fn who_stands_aside_and_drives_hears_who_wakes_it() {
    who_is_told_wakes(false);
}

fn who_is_told_wakes(drives: bool) {
    check(2000, move || {
        let pair = Pair::new();
        let word = Word::default();
        let telling = {
            let word = word.clone();
            thread::spawn(move || word.tell(7))
        };
        assert_eq!(pair.client.block_on(word.wait(drives)), 7);
        telling.join().unwrap();
        pair.end();
    });
}

/// Another thread has driven last, so this one leaves the role to it for a while.
#[test]
fn who_stands_aside_and_is_parked_hears_who_wakes_it() {
    check(2000, || {
        let pair = Pair::new();
        let word = Word::default();
        let waiting = {
            let (client, word) = (pair.client.clone(), word.clone());
            thread::spawn(move || client.block_on(word.wait(false)))
        };
        word.tell(7);
        assert_eq!(waiting.join().unwrap(), 7);
        pair.end();
    });
}

/// A request that was surely not applied never comes to be.
#[test]
fn a_request_that_is_said_not_to_be_applied_never_comes() {
    check(6000, || {
        let pair = Pair::new();
        let callers: Vec<_> = (0..2u8)
            .map(|caller| {
                let (client, connection) = (pair.client.clone(), pair.connection.clone());
                thread::spawn(move || {
                    client.block_on(connection.call(&[caller][..], Time::MAX)).map(drop)
                })
            })
            .collect();
        let closing = {
            let core = Arc::clone(&pair.connection.core);
            thread::spawn(move || core.close(CloseReason::Closed))
        };
        closing.join().unwrap();
        let ends: Vec<_> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
        let listening = Arc::clone(&pair.listening);
        pair.end();
        for (caller, end) in ends.into_iter().enumerate() {
            let came = listening.came.lock().contains(&vec![caller as u8]);
            if let Err(CallError::Disconnected { applied: Applied::No, .. }) = end {
                assert!(!came, "request {caller} came, and its caller may send it again");
            }
        }
    });
}

/// A deadline that is noted while the driver goes to sleep: either it has seen it, or it is rung for it.
#[test]
fn who_sleeps_wakes_for_the_earliest_deadline() {
    check(3000, || {
        let node = endpoint(1, Arc::new(NoHandler));
        let at = Time::from_nanos(5);
        let mut sleep = pin!(node.sleep_until(at));
        let polled = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "time stands still");
        let reactors = node.common().reactors.get().unwrap();
        let reactor = reactors[0].upgrade().unwrap();
        while reactor.sleeps_until() != at.nanos() {
            thread::yield_now();
        }
        drop(reactor);
        node.shutdown();
    });
}

/// Both ends of a connection are shut down while a thread that drives neither finds the link broken: whoever comes last,
/// nothing outlives them.
#[test]
fn endpoints_that_are_shut_down_while_their_connection_ends_leave_nothing() {
    check(2000, || {
        let ending = thread::spawn(|| {
            let pair = Pair::new();
            let reactors = [&pair.client, &pair.server]
                .map(|node| node.common().reactors.get().unwrap()[0].clone());
            let core = Arc::downgrade(&pair.connection.core);
            let Pair { server, client, connection, .. } = pair;
            let closing = thread::spawn(move || {
                connection.core.close(CloseReason::link(&ErrorKind::BrokenPipe.into()));
            });
            let other = thread::spawn(move || server.shutdown());
            client.shutdown();
            drop(client);
            closing.join().unwrap();
            other.join().unwrap();
            (core, reactors)
        });
        let (core, reactors) = ending.join().unwrap();
        let left = reactors.map(|reactor| reactor.strong_count());
        assert_eq!((core.strong_count(), left), (0, [0, 0]));
    });
}
