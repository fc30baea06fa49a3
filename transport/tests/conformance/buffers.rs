//! Buffers that are registered and posted, and the copying level beside them.

use std::future::Future;
use std::time::Duration;

use futures_util::future::join_all;
use weft_transport::limits::{LARGE_MAX, MESSAGE_MAX};
use weft_transport::{
    AcceptError, Buffer, Completed, Connection, Endpoint, PostError, PostFailed, Purpose,
    RegisteredBuffer, TimedOut, registration_stats,
};

use super::world::{Echo, Node, World};

const SECOND: Duration = Duration::from_secs(1);

/// Two endpoints, and both ends of a connection between them.
struct Ends {
    server: Node,
    client: Endpoint,
    theirs: Connection,
    ours: Connection,
}

impl Ends {
    async fn connect(world: &World, server: Node, client: Endpoint) -> Self {
        let ours = client.connect(server.address, world.deadline()).await.unwrap();
        let theirs = server.endpoint.accept(world.deadline()).await.unwrap();
        Self { server, client, theirs, ours }
    }

    fn our_buffer(&self, len: usize) -> RegisteredBuffer {
        self.ours.register(Buffer::allocate(self.client.memory(), len).unwrap()).unwrap()
    }

    fn their_buffer(&self, len: usize) -> RegisteredBuffer {
        let memory = self.server.endpoint.memory();
        self.theirs.register(Buffer::allocate(memory, len).unwrap()).unwrap()
    }
}

/// Runs `case` with both ends of a connection.
fn with_ends<F: Future>(world: &World, case: impl FnOnce(Ends) -> F) {
    let (server, client) = (world.posting_node(1), world.posting_client());
    world.run(async {
        case(Ends::connect(world, server, client).await).await;
    });
}

fn body(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251 + number * 7) as u8).collect()
}

pub(crate) fn a_long_message_comes_behind_those_that_were_sent_before_it(world: &World) {
    with_ends(world, |ends| async move {
        let lens = [100, 200, 300, 2 * MESSAGE_MAX];
        for _ in 0..10 {
            for len in lens {
                ends.ours.send(&vec![1; len][..]).await.unwrap();
            }
            for len in lens {
                assert_eq!(ends.theirs.receive().await.unwrap().len(), len);
            }
        }
    });
}

pub(crate) fn posted_buffers_carry_messages_of_every_size(world: &World) {
    with_ends(world, |ends| async move {
        const LEN: usize = MESSAGE_MAX + 300_000;
        let (mut ours, mut theirs) = (ends.our_buffer(LEN), ends.their_buffer(LEN));
        let powers = (0..=20).map(|power| 1usize << power);
        let sizes = powers.flat_map(|size| [size - 1, size, size + 1]).chain([LEN - 5, LEN]);
        for (number, len) in sizes.enumerate() {
            // There and back, so that either side posts both.
            ours[..len].copy_from_slice(&body(number, len));
            let received = theirs.post_receive();
            let sent = ours.post_send(len);
            let (sent, received) = futures_util::join!(sent, received);
            let received = received.unwrap();
            assert!(received.message() == body(number, len), "{len} bytes came changed");
            let sent = sent.unwrap();
            assert_eq!(sent.length, len);
            let mut buffer = sent.buffer;
            buffer[..len].fill(0);
            let (back, sent) =
                futures_util::join!(buffer.post_receive(), received.buffer.post_send(len));
            let back = back.unwrap();
            assert!(back.message() == body(number, len), "{len} bytes came back changed");
            (ours, theirs) = (back.buffer, sent.unwrap().buffer);
        }
    });
}

pub(crate) fn what_is_copied_and_what_is_posted_is_the_same_to_the_peer(world: &World) {
    with_ends(world, |ends| async move {
        for len in [0, 1, 500, 70_000, MESSAGE_MAX, MESSAGE_MAX + 123_457] {
            let sent = body(len, len);
            // Copied to copied, copied to posted, posted to copied.
            ends.ours.send(&sent[..]).await.unwrap();
            assert!(ends.theirs.receive().await.unwrap() == sent, "{len} bytes copied");
            ends.ours.send(&sent[..]).await.unwrap();
            let buffer = ends.theirs.register(vec![0; len].into()).unwrap();
            let received = buffer.post_receive().await.unwrap();
            assert!(received.message() == sent, "{len} bytes into a buffer");
            let buffer = ends.ours.register(sent.clone().into()).unwrap();
            let posted = buffer.post_send(len);
            assert!(ends.theirs.receive().await.unwrap() == sent, "{len} bytes from a buffer");
            assert_eq!(posted.await.unwrap().length, len);
        }
    });
}

pub(crate) fn receives_are_matched_in_the_order_in_which_they_were_posted(world: &World) {
    with_ends(world, |ends| async move {
        const MESSAGES: usize = 200;
        let len_of = |number: usize| number * 97 % 3001;
        let receives: Vec<_> =
            (0..MESSAGES / 2).map(|_| ends.their_buffer(4096).post_receive()).collect();
        let sends = (0..MESSAGES).map(|number| {
            let vector = body(number, len_of(number));
            ends.ours.register(vector.into()).unwrap().post_send(len_of(number))
        });
        let sends: Vec<_> = sends.collect();
        let check = |number: usize, received: Result<Completed, PostFailed>| {
            let received = received.unwrap();
            assert_eq!(received.length, len_of(number));
            assert!(received.message() == body(number, len_of(number)), "message {number}");
        };
        for (number, received) in join_all(receives).await.into_iter().enumerate() {
            check(number, received);
        }
        for number in MESSAGES / 2..MESSAGES {
            check(number, ends.their_buffer(4096).post_receive().await);
        }
        for (number, sent) in join_all(sends).await.into_iter().enumerate() {
            assert_eq!(sent.unwrap().length, len_of(number));
        }
    });
}

pub(crate) fn a_long_message_lands_in_the_posted_buffer_itself(world: &World) {
    with_ends(world, |ends| async move {
        const LEN: usize = 2 << 20;
        let (mine, taken) = (body(1, LEN), ends.server.endpoint.memory().clone());
        let vector = vec![0; LEN];
        let place = vector.as_ptr();
        let receive = ends.theirs.register(vector.into()).unwrap().post_receive();
        let before = taken.account().handed_out_for(Purpose::Receive);
        let buffer = ends.ours.register(mine.clone().into()).unwrap();
        let (sent, received) = futures_util::join!(buffer.post_send(LEN), receive);
        let copies = taken.account().handed_out_for(Purpose::Receive) - before;
        assert!(copies < LEN as u64, "{copies} bytes were taken to receive {LEN} into");
        // What comes back is the owner's own vector, with the message in it.
        let received = received.unwrap();
        assert!(received.message() == mine);
        let vector = received.buffer.unregister().into_vec().unwrap();
        assert_eq!(vector.as_ptr(), place);
        assert!(sent.unwrap().buffer.unregister().into_vec().unwrap() == mine);
    });
}

pub(crate) fn a_message_that_is_too_long_for_its_buffer_waits_for_a_longer_one(world: &World) {
    with_ends(world, |ends| async move {
        for message in [5000, MESSAGE_MAX + 5000] {
            let buffer = 4096;
            let short = ends.their_buffer(buffer).post_receive();
            ends.ours.send(&body(1, message)[..]).await.unwrap();
            ends.ours.send(&b"behind it"[..]).await.unwrap();
            let failed = short.await.unwrap_err();
            assert_eq!(failed.error, PostError::TooLong { message, buffer });
            let words = failed.error.to_string();
            assert!(words.contains(&message.to_string()) && words.contains("4096"), "{words}");
            let source = std::error::Error::source(&failed).map(ToString::to_string);
            assert_eq!((failed.to_string(), source), (words, None), "none is printed twice");
            assert_eq!(failed.buffer.len(), buffer);
            // It is still the next, for as long as nothing fits it.
            let again = failed.buffer.post_receive().await.unwrap_err();
            assert_eq!(again.error, PostError::TooLong { message, buffer });
            let long = ends.theirs.register(vec![0; message].into()).unwrap();
            assert!(long.post_receive().await.unwrap().message() == body(1, message));
            let behind = again.buffer.post_receive().await.unwrap();
            assert_eq!(behind.message(), b"behind it");
        }
        let buffer = ends.ours.register(vec![0; LARGE_MAX / 16].into()).unwrap();
        assert!(buffer.connection().is_open());
    });
}

pub(crate) fn what_no_receive_is_posted_for_waits_within_the_window(world: &World) {
    with_ends(world, |ends| async move {
        const LEN: usize = 100_000;
        let vector = body(0, LEN);
        let sends: Vec<_> = (0..80)
            .map(|_| {
                // Not from one buffer, or the first would have to be done.
                let buffer = Buffer::from(vector.clone());
                ends.ours.register(buffer).unwrap().post_send(LEN)
            })
            .collect();
        let memory = ends.server.endpoint.memory();
        let mut waiting = 0;
        loop {
            ends.client.sleep_until(world.now() + SECOND / 5).await;
            if ends.theirs.messages_waiting() == waiting {
                break;
            }
            waiting = ends.theirs.messages_waiting();
        }
        let window = 4 << 20;
        assert!(waiting > 0 && waiting * LEN <= window, "{waiting} messages wait");
        let taken = memory.account().allocated_for(Purpose::Receive);
        assert!(taken <= 2 * window as u64 + (1 << 20), "{taken} bytes are taken");
        assert!(sends.iter().any(|ticket| !ticket.is_done()), "all went, window or not");
        for _ in 0..sends.len() {
            assert!(ends.theirs.receive().await.unwrap() == vector);
        }
        for sent in join_all(sends).await {
            assert_eq!(sent.unwrap().length, LEN);
        }
    });
}

/// The sender would take a receiver that grants nothing for stalled after 30 s.
pub(crate) fn a_large_message_waits_for_its_receive_longer_than_a_peer_may_stall(world: &World) {
    if !world.is_simulated() {
        return;
    }
    with_ends(world, |ends| async move {
        let len = MESSAGE_MAX + 1;
        let send = ends.ours.register(body(3, len).into()).unwrap().post_send(len);
        ends.client.sleep_until(world.now() + SECOND * 200).await;
        assert!(ends.ours.is_open() && !send.is_done());
        assert!(ends.theirs.receive().await.unwrap() == body(3, len));
        assert_eq!(send.await.unwrap().length, len);
    });
}

pub(crate) fn a_ticket_that_times_out_can_be_waited_for_again(world: &World) {
    with_ends(world, |ends| async move {
        let ticket = ends.their_buffer(100).post_receive();
        assert_eq!((ticket.is_done(), ticket.length()), (false, None));
        let until = world.now() + SECOND / 20;
        let TimedOut { mut ticket } = ticket.until(until).await.unwrap_err();
        assert!(world.now() >= until && !ticket.is_done());
        ends.ours.send(&b"late"[..]).await.unwrap();
        // As one of several that a task waits for.
        (&mut ticket).await.map(|done| assert_eq!(done.message(), b"late")).unwrap();

        ends.ours.send(&b"later"[..]).await.unwrap();
        let ticket = ends.their_buffer(100).post_receive();
        while !ticket.is_done() {
            ends.client.sleep_until(world.now() + SECOND / 1000).await;
        }
        assert_eq!(ticket.length(), Some(5));
        // Done is done, however late it is asked for.
        let done = ticket.until(world.now()).await.unwrap().unwrap();
        assert_eq!(done.message(), b"later");
    });
}

pub(crate) fn a_receive_that_nothing_was_matched_with_can_be_cancelled(world: &World) {
    with_ends(world, |ends| async move {
        let [first, second] = [100, 200].map(|len| ends.theirs.register(vec![9; len].into()));
        let (first, second) = (first.unwrap().post_receive(), second.unwrap().post_receive());
        let buffer = first.cancel().unwrap();
        assert_eq!(*buffer, [9; 100]);
        ends.ours.send(&b"for the second"[..]).await.unwrap();
        let mut second = second;
        let done = (&mut second).await.unwrap();
        assert_eq!(done.message(), b"for the second");
        // Not any more, once something has come.
        let ticket = buffer.post_receive();
        ends.ours.send(&b"too late"[..]).await.unwrap();
        while !ticket.is_done() {
            ends.client.sleep_until(world.now() + SECOND / 1000).await;
        }
        let ticket = ticket.cancel().unwrap_err();
        assert_eq!(ticket.await.unwrap().message(), b"too late");
    });
}

pub(crate) fn a_dropped_ticket_lets_the_next_one_have_the_message(world: &World) {
    with_ends(world, |ends| async move {
        drop(ends.their_buffer(100).post_receive());
        drop(ends.theirs.receive());
        let ticket = ends.their_buffer(100).post_receive();
        ends.ours.send(&b"hello"[..]).await.unwrap();
        assert_eq!(ticket.await.unwrap().message(), b"hello");
        // A send whose ticket is dropped is sent all the same.
        drop(ends.ours.register(b"dropped".to_vec().into()).unwrap().post_send(7));
        assert_eq!(ends.theirs.receive().await.unwrap(), b"dropped");
    });
}

pub(crate) fn the_end_of_a_connection_gives_posted_buffers_back(world: &World) {
    with_ends(world, |ends| async move {
        const LEN: usize = 300_000;
        let receives: Vec<_> = (0..3).map(|_| ends.our_buffer(100).post_receive()).collect();
        // More than the window, so that some of it has not even begun to go.
        let sends: Vec<_> = (0..15)
            .map(|number| {
                let vector = body(number, LEN);
                ends.ours.register(vector.into()).unwrap().post_send(LEN)
            })
            .collect();
        let large = ends.ours.register(body(99, MESSAGE_MAX + 1).into()).unwrap();
        let large = large.post_send(MESSAGE_MAX + 1);
        ends.client.sleep_until(world.now() + SECOND / 20).await;
        world.stop(&ends.server);
        for receive in join_all(receives).await {
            let failed = receive.unwrap_err();
            assert!(matches!(failed.error, PostError::Disconnected(_)), "{}", failed.error);
            assert_eq!(failed.buffer.len(), 4096);
        }
        for (number, sent) in join_all(sends).await.into_iter().enumerate() {
            let buffer = match sent {
                Ok(done) => done.buffer,
                Err(failed) => {
                    assert!(matches!(failed.error, PostError::Disconnected(_)), "{failed}");
                    failed.buffer
                }
            };
            assert!(buffer.unregister().into_vec().unwrap() == body(number, LEN));
        }
        let failed = large.await.unwrap_err();
        assert!(matches!(failed.error, PostError::Disconnected(_)), "{failed}");
        // What is posted now comes back at once, and nothing can be registered.
        let again = failed.buffer.post_send(10).await.unwrap_err();
        assert!(matches!(again.error, PostError::Disconnected(_)), "{again}");
        let again = again.buffer.post_receive().await.unwrap_err();
        assert!(matches!(again.error, PostError::Disconnected(_)), "{again}");
        assert!(ends.ours.register(again.buffer.unregister()).is_err());
    });
}

pub(crate) fn what_came_before_the_end_is_still_received(world: &World) {
    with_ends(world, |ends| async move {
        for number in 0..10 {
            ends.ours.send(&body(number, 1000)[..]).await.unwrap();
        }
        while ends.theirs.messages_waiting() < 10 {
            ends.client.sleep_until(world.now() + SECOND / 1000).await;
        }
        ends.ours.close();
        while ends.theirs.is_open() {
            ends.client.sleep_until(world.now() + SECOND / 1000).await;
        }
        for number in 0..10 {
            assert!(ends.theirs.receive().await.unwrap() == body(number, 1000));
        }
        let error = ends.theirs.receive().await.unwrap_err();
        assert!(matches!(error, PostError::Disconnected(_)), "{error}");
    });
}

pub(crate) fn a_buffer_is_registered_again_with_another_connection(world: &World) {
    let (server, client) = (world.posting_node(1), world.posting_client());
    let other = world.posting_node(2);
    world.run(async {
        let ends = Ends::connect(world, server, client).await;
        let elsewhere = ends.client.connect(other.address, world.deadline()).await.unwrap();
        let mut buffer = ends.our_buffer(100_000);
        buffer[..2].copy_from_slice(b"to");
        let made = registration_stats();
        let buffer = buffer.post_send(2).await.unwrap().buffer.unregister();
        let kept = registration_stats();
        assert!(kept.kept_bytes >= 100_000 && kept.made == made.made);
        // Connections of one reactor share the domain.
        let buffer = elsewhere.register(buffer).unwrap();
        assert_eq!(registration_stats().reused, made.reused + 1);
        assert_eq!(registration_stats().made, made.made);
        buffer.post_send(2).await.unwrap();
        let theirs = other.endpoint.accept(world.deadline()).await.unwrap();
        assert_eq!(theirs.receive().await.unwrap(), b"to");
        assert_eq!(ends.theirs.receive().await.unwrap(), b"to");
    });
}

pub(crate) fn buffers_are_not_posted_where_messages_are_handled(world: &World) {
    let server = world.node(1, std::sync::Arc::new(Echo));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        assert_eq!(connection.receive().await.unwrap_err(), PostError::Handled);
        let buffer = connection.register(vec![0; 10].into()).unwrap();
        let failed = buffer.post_receive().await.unwrap_err();
        assert_eq!((failed.error, failed.buffer.len()), (PostError::Handled, 10));
        let error = server.endpoint.accept(world.deadline()).await.unwrap_err();
        assert_eq!(error, AcceptError::Handled);
        // Sending needs no such choice, and calls go on beside it.
        failed.buffer.post_send(10).await.unwrap();
        assert_eq!(*connection.call(b"call", world.deadline()).await.unwrap(), b"call"[..]);
    });
    let posting = world.posting_node(2);
    world.run(async {
        let too_late = posting.endpoint.accept(world.now() + SECOND / 20).await.unwrap_err();
        assert_eq!(too_late, AcceptError::DeadlineExceeded);
    });
}

/// On the simulated link nobody may block.
pub(crate) fn tickets_can_be_waited_for_by_blocking(world: &World) {
    if world.is_simulated() {
        return;
    }
    let (server, client) = (world.posting_node(1), world.posting_client());
    let ends = world.run(Ends::connect(world, server, client));
    let echo = std::thread::spawn({
        let theirs = ends.theirs.clone();
        move || {
            let mut buffer = theirs.register(vec![0; 10_000].into()).unwrap();
            for _ in 0..100 {
                let Completed { buffer: received, length } = buffer.post_receive().wait().unwrap();
                buffer = received.post_send(length).wait().unwrap().buffer;
            }
        }
    });
    let mut buffer = ends.our_buffer(10_000);
    let nothing = buffer.post_receive().wait_until(world.now() + SECOND / 20).unwrap_err();
    buffer = nothing.ticket.cancel().unwrap();
    for number in 0..100 {
        let len = number * 100;
        buffer[..len].copy_from_slice(&body(number, len));
        buffer = buffer.post_send(len).wait().unwrap().buffer;
        buffer[..len].fill(0);
        let done = buffer.post_receive().wait_until(world.deadline()).unwrap().unwrap();
        assert!(done.message() == body(number, len));
        buffer = done.buffer;
    }
    echo.join().unwrap();
}
