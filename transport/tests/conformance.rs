//! What every link has to do, on each of them: the same cases, over tcp, shared memory and verbs with
//! the endpoints' own threads, and over the simulated link in virtual time. Where there is no RDMA
//! device, the cases over verbs say so and do nothing; `cargo xtask softroce` runs them with one.

#![expect(clippy::unwrap_used, reason = "the cases are functions that tests call")]

#[path = "conformance/bodies.rs"]
mod bodies;
#[path = "conformance/body_ends.rs"]
mod body_ends;
#[path = "conformance/buffers.rs"]
mod buffers;
#[path = "conformance/callers.rs"]
mod callers;
#[path = "conformance/large.rs"]
mod large;
#[path = "conformance/order.rs"]
mod order;
#[path = "conformance/responders.rs"]
mod responders;
#[path = "conformance/shortage.rs"]
mod shortage;
#[path = "conformance/world.rs"]
mod world;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use weft_transport::limits::{LARGE_MAX, MESSAGE_MAX};
use weft_transport::{
    Applied, CallError, CloseReason, ConnectError, LinkKind, LinkPolicy, Purpose, SendError, Time,
};

use bodies::*;
use body_ends::*;
use buffers::*;
use callers::*;
use large::*;
use order::*;
use responders::*;
use shortage::*;
use world::{Echo, Numbered, World, counter};

/// Makes a test of each case for each link.
macro_rules! on_every_link {
    ($($case:ident),* $(,)?) => {
        mod tcp { $(#[test] fn $case() { super::$case(&super::World::real(super::LinkPolicy::Tcp)); })* }
        mod shm { $(#[test] fn $case() { super::$case(&super::World::real(super::LinkPolicy::Shm)); })* }
        #[cfg(feature = "verbs")]
        mod verbs { $(#[test] fn $case() { super::World::verbs().iter().for_each(super::$case); })* }
        mod sim { $(#[test] fn $case() {
            for seed in 0..20 {
                super::$case(&super::World::sim(seed));
            }
        })* }
    };
}

on_every_link!(
    connections_run_over_the_link_that_was_asked_for,
    a_reply_carries_what_the_request_carried,
    messages_of_every_size_arrive_whole,
    many_concurrent_calls_each_get_their_own_reply,
    one_way_messages_arrive_in_order_and_none_is_lost,
    what_was_sent_before_a_shutdown_arrives,
    messages_can_be_gathered_from_where_they_lie,
    parts_of_a_reply_come_in_order,
    replies_can_be_gathered_from_where_they_lie,
    a_message_that_is_too_long_is_refused_and_the_connection_lives,
    a_call_that_is_not_answered_ends_at_its_deadline,
    calls_fail_when_the_peer_goes_away,
    many_callers_of_one_address_share_one_connection,
    nobody_listening_is_a_typed_error,
    a_retained_message_holds_its_credit_back,
    what_is_retained_is_counted,
    both_sides_can_flood_each_other,
    nodes_that_connect_to_each_other_keep_one_connection,
    an_older_incarnation_is_refused,
    calls_are_answered_when_their_handler_has_returned,
    who_is_called_calls_back_and_is_told_of_the_end,
    a_connection_that_has_made_way_has_a_successor,
    a_call_whose_responder_is_dropped_fails_at_once,
    a_responder_replies_with_the_batch_that_its_call_came_with,
    an_answer_to_who_is_gone_is_an_error,
    what_requests_have_taken_up_is_not_missed_by_replication,
    large_bodies_arrive_whole,
    large_messages_arrive_whole_and_from_where_they_lie,
    parts_of_a_large_reply_come_in_order,
    many_large_bodies_at_once_arrive_whole,
    small_calls_go_on_beside_a_large_one,
    both_sides_can_flood_each_other_with_large_bodies,
    a_large_call_that_is_given_up_frees_its_memory,
    a_large_call_ends_at_its_deadline,
    a_request_that_never_fits_is_refused,
    a_reply_that_never_fits_fails_its_call_only,
    a_reply_that_is_too_long_fails_its_call_only,
    large_messages_wait_while_there_is_no_memory_for_them,
    what_finds_no_memory_to_be_written_to_costs_no_credit,
    calls_given_up_while_they_wait_for_a_slot_cost_no_credit,
    posted_buffers_carry_messages_of_every_size,
    what_is_copied_and_what_is_posted_is_the_same_to_the_peer,
    receives_are_matched_in_the_order_in_which_they_were_posted,
    a_long_message_lands_in_the_posted_buffer_itself,
    a_message_that_is_too_long_for_its_buffer_waits_for_a_longer_one,
    what_no_receive_is_posted_for_waits_within_the_window,
    a_large_message_waits_for_its_receive_longer_than_a_peer_may_stall,
    a_ticket_that_times_out_can_be_waited_for_again,
    a_receive_that_nothing_was_matched_with_can_be_cancelled,
    a_dropped_ticket_lets_the_next_one_have_the_message,
    the_end_of_a_connection_gives_posted_buffers_back,
    what_came_before_the_end_is_still_received,
    a_buffer_is_registered_again_with_another_connection,
    buffers_are_not_posted_where_messages_are_handled,
    tickets_can_be_waited_for_by_blocking,
    the_last_part_of_a_reply_comes_last,
    a_body_comes_behind_the_messages_that_were_sent_before_it,
    a_long_message_comes_behind_those_that_were_sent_before_it,
    bodies_of_every_length_arrive_with_what_they_began_with,
    a_long_body_takes_no_more_memory_than_a_short_one,
    what_is_flushed_arrives_before_more_is_written,
    a_slow_reader_holds_back_its_own_sender_alone,
    pieces_that_are_held_hold_the_sender_back,
    many_bodies_at_once_arrive_whole,
    small_calls_go_on_beside_a_streamed_body,
    a_reader_that_gives_up_says_why,
    a_body_that_nobody_takes_is_refused,
    a_writer_that_gives_up_says_why_behind_what_it_sent,
    a_side_that_does_not_go_on_is_given_up_by_the_other,
    the_end_of_a_connection_ends_its_bodies,
    who_waits_for_a_body_hears_of_the_end,
    a_body_may_stand_still_for_longer_than_a_peer_may_stall,
    a_body_that_never_began_was_not_applied,
    a_head_that_is_too_long_is_refused_at_once,
    however_it_is_written_and_read_it_is_one_sequence,
);

const SECOND: Duration = Duration::from_secs(1);

fn connections_run_over_the_link_that_was_asked_for(world: &World) {
    let server = world.node(1, Arc::new(Echo));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        assert_eq!(connection.link(), world.link());
    });
    let expected = match world.link() {
        LinkKind::Shm => (1, 1, 0),
        LinkKind::Verbs => (1, 0, 1),
        _ => (1, 0, 0),
    };
    for stats in [client.stats(), server.endpoint.stats()] {
        let counts = (stats.connections, stats.shared_connections, stats.verbs_connections);
        assert_eq!(counts, expected);
    }
}

fn a_reply_carries_what_the_request_carried(world: &World) {
    let server = world.node(1, Arc::new(Echo));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        assert_eq!(connection.peer().node, server.endpoint.node());
        for text in [&b""[..], b"x", b"hello", &[7; 1000]] {
            let reply = connection.call(text, world.deadline()).await.unwrap();
            assert_eq!(&*reply, text);
        }
    });
}

fn messages_of_every_size_arrive_whole(world: &World) {
    let server = world.node(1, Arc::new(Echo));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let powers = (0..=20).map(|power| 1usize << power);
        let sizes = powers.flat_map(|size| [size - 1, size, size + 1]);
        for size in sizes.filter(|size| *size <= MESSAGE_MAX) {
            let body: Vec<u8> = (0..size).map(|at| (at * 31 + size) as u8).collect();
            let reply = connection.call(&body[..], world.deadline()).await.unwrap();
            assert!(*reply == body[..], "{size} bytes came back changed");
        }
    });
}

fn many_concurrent_calls_each_get_their_own_reply(world: &World) {
    let server = world.node(1, Arc::new(Echo));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let calls = (0..500u64).map(|number| {
            let connection = connection.clone();
            async move {
                for round in 0..20u64 {
                    let body = (number << 32 | round).to_le_bytes();
                    let reply = connection.call(&body, world.deadline()).await.unwrap();
                    assert_eq!(*reply, body);
                }
            }
        });
        join_all(calls).await;
    });
}

fn one_way_messages_arrive_in_order_and_none_is_lost(world: &World) {
    const MESSAGES: u64 = 50_000;
    let seen = counter();
    let server = world.node(1, Arc::new(Numbered { seen: Arc::clone(&seen) }));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        for number in 0..MESSAGES {
            connection.send(&numbered(number)[..]).await.unwrap();
        }
        // A call on the same thread comes behind the messages.
        let reply = connection.call(&b""[..], world.deadline()).await.unwrap();
        assert_eq!(*reply, MESSAGES.to_le_bytes());
    });
}

/// A message as [`Numbered`] wants it.
fn numbered(number: u64) -> Vec<u8> {
    let mut body = vec![0; 8 + (number % 90) as usize];
    body[..8].copy_from_slice(&number.to_le_bytes());
    body
}

fn what_was_sent_before_a_shutdown_arrives(world: &World) {
    let seen = counter();
    let server = world.node(1, Arc::new(Numbered { seen: Arc::clone(&seen) }));
    let (leaving, staying) = (world.client(), world.client());
    world.run(async {
        let connection = leaving.connect(server.address, world.deadline()).await.unwrap();
        for number in 0..100u64 {
            connection.send(&numbered(number)[..]).await.unwrap();
        }
        // The goodbye comes right behind the messages, in one piece with the last of them.
        leaving.shutdown();
        let connection = staying.connect(server.address, world.deadline()).await.unwrap();
        let deadline = world.deadline();
        loop {
            let reply = connection.call(&b""[..], deadline).await.unwrap();
            if *reply == 100u64.to_le_bytes() {
                break;
            }
            assert!(world.now() < deadline, "{reply:?} of 100 messages arrived");
        }
    });
}

fn messages_can_be_gathered_from_where_they_lie(world: &World) {
    const LEN: usize = 64 << 10;
    let server = world.node(1, Arc::new(Echo));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let mut block = client.memory().allocate(LEN, Purpose::Send).unwrap();
        block.mark_touched(LEN);
        block.fill(3);
        let tail = block.freeze();
        let before = client.stats().bodies_gathered;
        connection.send_shared(&b"head"[..], tail.clone()).await.unwrap();
        let long = client.memory().allocate(LARGE_MAX, Purpose::Send).unwrap().freeze();
        let refused = connection.send_shared(&b"head"[..], long).await.unwrap_err();
        let limit = LARGE_MAX;
        assert_eq!(refused, SendError::TooLarge { len: LARGE_MAX + 4, limit });
        // Behind the message on the same connection: it has left by then, and let go of its tail.
        connection.call(&b"call"[..], world.deadline()).await.unwrap();
        assert_eq!(client.stats().bodies_gathered, before + 1);
        assert_eq!(tail.holders(), 1);
    });
}

fn parts_of_a_reply_come_in_order(world: &World) {
    let server = world.node(1, Arc::new(world::Parts));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let mut replies =
            connection.call_streamed(&[5u8, 0, 0, 0], world.deadline()).await.unwrap();
        for part in 0..5u32 {
            let reply = replies.next().await.unwrap().unwrap();
            assert_eq!(reply.len(), 1000 * part as usize + 4);
            assert_eq!(reply[..4], part.to_le_bytes());
        }
        assert!(replies.next().await.is_none());
    });
}

fn replies_can_be_gathered_from_where_they_lie(world: &World) {
    let server = world.node(1, Arc::new(world::Gathered::new()));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        for (start, end) in [(0u32, 1u32), (3, 5000), (17, 100_018), (0, 900_000), (9, 9)] {
            let mut body = [0; 8];
            body[..4].copy_from_slice(&start.to_le_bytes());
            body[4..].copy_from_slice(&end.to_le_bytes());
            let reply = connection.call(&body, world.deadline()).await.unwrap();
            assert_eq!(reply[..8], body);
            assert!(reply[8..].iter().copied().eq((start..end).map(world::Gathered::byte)));
        }
    });
    assert!(server.endpoint.stats().bodies_gathered >= 4);
}

fn a_message_that_is_too_long_is_refused_and_the_connection_lives(world: &World) {
    let server = world.node(1, Arc::new(Echo));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let body = vec![0; LARGE_MAX + 1];
        let error = connection.call(&body[..], world.deadline()).await.unwrap_err();
        assert_eq!(error, CallError::TooLarge { len: LARGE_MAX + 1, limit: LARGE_MAX });
        assert_eq!(error.applied(), Applied::No);
        assert!(connection.call(b"still here", world.deadline()).await.is_ok());
    });
}

fn a_call_that_is_not_answered_ends_at_its_deadline(world: &World) {
    let server = world.node(1, Arc::new(world::Silent));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let deadline = client.clock().now() + SECOND / 20;
        let error = connection.call(b"anyone?", deadline).await.unwrap_err();
        assert_eq!(error, CallError::DeadlineExceeded { applied: Applied::Maybe });
        assert!(client.clock().now() >= deadline);
        assert!(connection.is_open());
    });
}

fn calls_fail_when_the_peer_goes_away(world: &World) {
    let server = world.node(1, Arc::new(world::Silent));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let call = connection.call(b"anyone?", world.deadline());
        let stop = async {
            client.sleep_until(client.clock().now() + SECOND / 20).await;
            world.stop(&server);
        };
        let (result, ()) = futures_util::join!(call, stop);
        let error = result.unwrap_err();
        assert_eq!(error.applied(), Applied::Maybe);
        assert!(matches!(error, CallError::Disconnected { .. }), "{error}");
        let error = connection.call(b"again", world.deadline()).await.unwrap_err();
        assert_eq!(error.applied(), Applied::No);
    });
}

fn many_callers_of_one_address_share_one_connection(world: &World) {
    let server = world.node(1, Arc::new(Echo));
    let client = world.client();
    world.run(async {
        let connects = (0..50).map(|_| client.connect(server.address, world.deadline()));
        for connection in join_all(connects).await {
            connection.unwrap().call(b"x", world.deadline()).await.unwrap();
        }
    });
    assert_eq!(client.stats().connections, 1);
}

fn nobody_listening_is_a_typed_error(world: &World) {
    let client = world.client();
    let address = ([127, 0, 0, 1], 9).into();
    world.run(async {
        let error = client.connect(address, world.deadline()).await.unwrap_err();
        assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    });
}

fn a_retained_message_holds_its_credit_back(world: &World) {
    let kept = Arc::new(world::Keeper::default());
    let server = world.node(1, Arc::clone(&kept) as _);
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let body = vec![9; MESSAGE_MAX];
        let mut sent = 0;
        loop {
            let send = std::pin::pin!(connection.send(&body[..]));
            let until = client.sleep_until(client.clock().now() + SECOND / 2);
            match futures_util::future::select(send, until).await {
                futures_util::future::Either::Left((result, _)) => result.unwrap(),
                futures_util::future::Either::Right(_) => break,
            }
            sent += 1;
            assert!(sent < 100, "the window does not hold");
        }
        assert!(sent >= 3, "the window holds {sent} messages");
        let kept = std::mem::take(&mut *kept.kept.lock().unwrap());
        assert!(kept.iter().all(|message| **message == body[..]));
        drop(kept);
        connection.send(&body[..]).await.unwrap();
    });
}

/// Whole buffers where the body is half of them at least, and copies where it is not: never more than
/// twice what the bodies are.
fn what_is_retained_is_counted(world: &World) {
    let kept = Arc::new(world::Keeper::default());
    let server = world.node(1, Arc::clone(&kept) as _);
    let client = world.client();
    let retained = || server.endpoint.stats().retained_bytes;
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let mut bytes = 0;
        for len in [10, 1000, 70_000, 100_000, 140_000, 300_000] {
            connection.send(&vec![9; len][..]).await.unwrap();
            bytes += len as u64;
        }
        while retained() < bytes {
            client.sleep_until(client.clock().now() + SECOND / 100).await;
        }
        assert!(retained() <= 2 * bytes, "{} for {bytes}", retained());
        kept.kept.lock().unwrap().clear();
        assert_eq!(retained(), 0);
    });
}

fn both_sides_can_flood_each_other(world: &World) {
    let nodes = [world.node(1, Arc::new(Echo)), world.node(2, Arc::new(Echo))];
    world.run(async {
        let flood = |from: usize| {
            let (nodes, world) = (&nodes, world);
            async move {
                let (from, to) = (&nodes[from], &nodes[1 - from]);
                let connection = from.endpoint.connect(to.address, world.deadline()).await.unwrap();
                let body = vec![from.endpoint.node().0 as u8; 200_000];
                let calls = (0..60).map(|_| connection.call(&body[..], world.deadline()));
                for reply in join_all(calls).await {
                    assert!(*reply.unwrap() == body[..]);
                }
            }
        };
        futures_util::join!(flood(0), flood(1));
    });
}

fn nodes_that_connect_to_each_other_keep_one_connection(world: &World) {
    let nodes = [world.node(1, Arc::new(Echo)), world.node(2, Arc::new(Echo))];
    world.run(async {
        let connect = |from: usize| {
            let (from, to) = (&nodes[from], &nodes[1 - from]);
            from.endpoint.connect(to.address, world.deadline())
        };
        let (first, second) = futures_util::join!(connect(0), connect(1));
        for connection in [first.unwrap(), second.unwrap()] {
            // On the one that loses the tie too, which ends when nothing is under way on it.
            assert_eq!(*connection.call(b"x", world.deadline()).await.unwrap(), b"x"[..]);
        }
        let settled = world.now() + SECOND;
        nodes[0].endpoint.sleep_until(settled).await;
        for from in [0, 1] {
            let connection = connect(from).await.unwrap();
            assert_eq!(*connection.call(b"y", world.deadline()).await.unwrap(), b"y"[..]);
        }
    });
    assert_eq!(nodes[0].endpoint.stats().connections, 1);
    assert_eq!(nodes[1].endpoint.stats().connections, 1);
}

fn an_older_incarnation_is_refused(world: &World) {
    let server = world.node(1, Arc::new(Echo));
    world.run(async {
        let young = world.incarnation_of(7, 5);
        let connection = young.connect(server.address, world.deadline()).await.unwrap();
        connection.call(b"x", world.deadline()).await.unwrap();
        let old = world.incarnation_of(7, 4);
        let error = old.connect(server.address, world.deadline()).await.unwrap_err();
        let ConnectError::Closed { reason: CloseReason::Goodbye(goodbye), .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(goodbye.code, 9);
        assert!(connection.call(b"y", world.deadline()).await.is_ok());
        let newer = world.incarnation_of(7, 6);
        newer.connect(server.address, world.deadline()).await.unwrap();
        let error = connection.call(b"z", Time::MAX).await.unwrap_err();
        assert!(matches!(error, CallError::Disconnected { .. }), "{error}");
    });
}
