//! What a stream promises, on each link that carries it: where `TcpStream` has an answer, the same.

#![expect(
    clippy::disallowed_methods,
    reason = "the tests play plain TCP programs and start processes"
)]
#![expect(clippy::unwrap_used, reason = "in a test, what fails should panic")]

#[path = "streams/hostile.rs"]
mod hostile;
#[path = "streams/over_verbs.rs"]
mod over_verbs;

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::net::SocketAddr;
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use weft_transport::{LinkKind, LinkPolicy, PollPolicy, StreamConfig, WeftListener, WeftStream};

/// Far longer than anything takes on a machine that is busy elsewhere.
const PATIENCE: Duration = Duration::from_secs(60);

const ANYWHERE: &str = "127.0.0.1:0";

fn config(links: LinkPolicy, poll: PollPolicy) -> StreamConfig {
    StreamConfig { links, poll, ..StreamConfig::default() }
}

/// Whether this machine can carry streams over `links`: verbs need a device.
#[expect(clippy::print_stderr, reason = "says that a test was skipped")]
async fn can_carry(links: LinkPolicy) -> bool {
    match WeftListener::bind(ANYWHERE, config(links, PollPolicy::Park)).await {
        Ok(_) => true,
        Err(error) if links == LinkPolicy::Verbs && error.kind() == ErrorKind::Unsupported => {
            eprintln!("skipped: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Both ends of a stream: whoever connected, and whoever accepted.
async fn pair(config: StreamConfig) -> (WeftStream, WeftStream) {
    let listener = WeftListener::bind(ANYWHERE, config.clone()).await.unwrap();
    let connected = WeftStream::connect(listener.local_addr().unwrap(), config).await.unwrap();
    let (accepted, from) = listener.accept().await.unwrap();
    assert_eq!(from, connected.local_addr().unwrap());
    (connected, accepted)
}

/// Runs `test` as a task, and fails if it hangs.
async fn in_time(test: impl Future<Output = ()> + Send + 'static) {
    tokio::time::timeout(PATIENCE, tokio::spawn(test)).await.expect("nothing hangs").unwrap();
}

async fn read_all(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    bytes
}

async fn addresses_are_those_of_the_other_side(config: StreamConfig, link: LinkKind) {
    let (connected, accepted) = pair(config).await;
    assert_eq!((connected.link(), accepted.link()), (link, link));
    assert_eq!(connected.peer_addr().unwrap(), accepted.local_addr().unwrap());
    assert_eq!(connected.local_addr().unwrap(), accepted.peer_addr().unwrap());
    assert_ne!(connected.local_addr().unwrap().port(), 0);
}

async fn a_listener_at_every_address_is_one_of_them_to_each(config: StreamConfig) {
    let listener = WeftListener::bind("0.0.0.0:0", config.clone()).await.unwrap();
    let address = SocketAddr::from(([127, 0, 0, 9], listener.local_addr().unwrap().port()));
    let _connected = WeftStream::connect(address, config).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    assert_eq!(accepted.local_addr().unwrap(), address);
}

async fn one_side_can_write_before_the_other_accepts(config: StreamConfig) {
    let listener = WeftListener::bind(ANYWHERE, config.clone()).await.unwrap();
    let mut connected = WeftStream::connect(listener.local_addr().unwrap(), config).await.unwrap();
    connected.write_all(b"early").await.unwrap();
    drop(connected);
    let (mut accepted, _) = listener.accept().await.unwrap();
    assert_eq!(read_all(&mut accepted).await, b"early");
}

async fn after_a_shutdown_the_peer_can_still_write_back(config: StreamConfig) {
    let (mut one, mut other) = pair(config).await;
    one.write_all(b"question").await.unwrap();
    one.shutdown().await.unwrap();
    assert_eq!(one.write(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert_eq!(read_all(&mut other).await, b"question");
    assert_eq!(other.read(&mut [0; 8]).await.unwrap(), 0, "the end stays the end");
    other.write_all(b"answer").await.unwrap();
    drop(other);
    assert_eq!(read_all(&mut one).await, b"answer");
}

async fn a_half_closed_stream_carries_the_other_direction(config: StreamConfig) {
    let (mut one, mut other) = pair(config).await;
    one.write_all(b"question").await.unwrap();
    one.shutdown().await.unwrap();
    let answering = tokio::spawn(async move {
        assert_eq!(read_all(&mut other).await, b"question");
        // More than a ring and a socket buffer hold: bells go both ways after the end.
        other.write_all(&vec![7; 8 << 20]).await.unwrap();
    });
    assert_eq!(read_all(&mut one).await, vec![7; 8 << 20]);
    answering.await.unwrap();
}

async fn a_half_that_is_dropped_is_the_end_for_the_peer(config: StreamConfig) {
    let (one, mut other) = pair(config).await;
    let (mut read, mut write) = one.into_split();
    write.write_all(b"last words").await.unwrap();
    drop(write);
    assert_eq!(read_all(&mut other).await, b"last words");
    other.write_all(b"answer").await.unwrap();
    drop(other);
    assert_eq!(read_all(&mut read).await, b"answer");
}

async fn a_peer_that_leaves_without_reading_resets(config: StreamConfig) {
    let (mut one, mut other) = pair(config).await;
    one.write_all(b"never read").await.unwrap();
    other.write_all(b"said before").await.unwrap();
    // As over TCP, only what has arrived is left unread.
    let mut first = [0; 5];
    other.read_exact(&mut first).await.unwrap();
    drop(other);
    let mut said = [0; 11];
    one.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"said before");
    assert_eq!(one.read(&mut [0; 8]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

async fn writing_to_a_peer_that_is_gone_fails_in_the_end(config: StreamConfig) {
    let (mut one, other) = pair(config).await;
    drop(other);
    let error = loop {
        if let Err(error) = one.write_all(&[1; 1000]).await {
            break error;
        }
        tokio::task::yield_now().await;
    };
    assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
}

async fn a_gathered_write_is_one_send_of_the_link(config: StreamConfig) {
    let (mut one, mut other) = pair(config).await;
    assert!(one.is_write_vectored());
    let pieces = [b"one".as_slice(), b"", b"and", b"another"].map(IoSlice::new);
    assert_eq!(one.write_vectored(&pieces).await.unwrap(), 13);
    let counters = one.counters();
    assert_eq!((counters.sends, counters.sent_bytes), (1, 13));
    let mut bytes = [0; 13];
    other.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"oneandanother");
    assert_eq!((other.counters().receives, other.counters().received_bytes), (1, 13));
    // As large a one as is measured.
    let piece = [7; 1024];
    assert_eq!(one.write_vectored(&[IoSlice::new(&piece); 64]).await.unwrap(), 64 << 10);
    assert_eq!(one.counters().sends, 2);
}

/// The forms of addresses are those that sockets have.
async fn addresses_are_those_of_sockets(config: StreamConfig) {
    for (listen, host) in [
        ("[::]:0", "127.0.0.1"),
        ("[::]:0", "::ffff:127.0.0.1"),
        ("[::ffff:127.0.0.1]:0", "127.0.0.1"),
        ("127.0.0.1:0", "::ffff:127.0.0.1"),
        ("0.0.0.0:0", "0.0.0.0"),
        ("[::]:0", "::1"),
    ] {
        let listener = WeftListener::bind(listen, config.clone()).await.unwrap();
        let sockets = tokio::net::TcpListener::bind(listen).await.unwrap();
        let at = |port| std::net::SocketAddr::new(host.parse().unwrap(), port);
        let ours = WeftStream::connect(at(listener.local_addr().unwrap().port()), config.clone());
        let theirs = tokio::net::TcpStream::connect(at(sockets.local_addr().unwrap().port()));
        let (ours, theirs) = (ours.await.unwrap(), theirs.await.unwrap());
        let ((accepted, from), (socket, socket_from)) =
            (listener.accept().await.unwrap(), sockets.accept().await.unwrap());
        let ours =
            [ours.peer_addr(), ours.local_addr(), accepted.peer_addr(), accepted.local_addr()];
        let theirs =
            [theirs.peer_addr(), theirs.local_addr(), socket.peer_addr(), socket.local_addr()];
        let hosts =
            |ends: [std::io::Result<std::net::SocketAddr>; 4]| ends.map(|end| end.unwrap().ip());
        assert_eq!(hosts(ours), hosts(theirs), "{listen} {host}");
        assert_eq!(from.ip(), socket_from.ip(), "{listen} {host}");
    }
}

/// The kernel takes 1,024 pieces at once; a link that is left with the others still has room.
async fn more_pieces_than_a_link_takes_at_once_all_arrive(config: StreamConfig) {
    const PIECES: usize = 3000;
    let (mut one, mut other) = pair(config).await;
    let writer = tokio::spawn(async move {
        let mut left = &mut [IoSlice::new(b"0123456789"); PIECES][..];
        while !left.is_empty() {
            let count = one.write_vectored(left).await.unwrap();
            IoSlice::advance_slices(&mut left, count);
        }
        one.write_all(b"!").await.unwrap();
        one
    });
    let mut bytes = vec![0; PIECES * 10 + 1];
    other.read_exact(&mut bytes).await.unwrap();
    assert!(bytes[..PIECES * 10].chunks(10).all(|piece| piece == b"0123456789"));
    assert_eq!(bytes[PIECES * 10], b'!');
    drop(writer.await.unwrap());
}

async fn a_read_that_is_given_up_loses_nothing(config: StreamConfig) {
    let (mut one, mut other) = pair(config).await;
    let mut byte = [0];
    for value in 0..50 {
        let late = tokio::time::timeout(Duration::from_millis(1), other.read(&mut byte)).await;
        assert!(late.is_err());
        one.write_all(&[value]).await.unwrap();
        assert_eq!(other.read(&mut byte).await.unwrap(), 1);
        assert_eq!(byte[0], value);
    }
}

/// Each side sleeps before nearly every message, on a thread of its own; a bell that is missed is a
/// round trip that never ends.
async fn round_trips_between_two_threads_all_end(config: StreamConfig) {
    const TRIPS: u32 = 5_000;
    let (mut one, mut other) = pair(config).await;
    let answering = tokio::spawn(async move {
        let mut message = [0; 4];
        while other.read_exact(&mut message).await.is_ok() {
            other.write_all(&message).await.unwrap();
        }
    });
    let mut answer = [0; 4];
    for trip in 0..TRIPS {
        one.write_all(&trip.to_le_bytes()).await.unwrap();
        one.read_exact(&mut answer).await.unwrap();
        assert_eq!(u32::from_le_bytes(answer), trip);
    }
    drop(one);
    answering.await.unwrap();
}

/// Four tasks on one stream: both directions are full most of the time, and reader and writer of a
/// side take each other's bells.
async fn both_directions_at_once_arrive_whole(config: StreamConfig) {
    const BYTES: usize = 6 << 20;
    let byte = |position: usize| (position.wrapping_mul(31) >> 4) as u8;
    let send = move |mut write: weft_transport::WeftWriteHalf| async move {
        let (mut sent, mut chunk) = (0, 1);
        while sent < BYTES {
            let len = chunk.min(BYTES - sent);
            let bytes: Vec<u8> = (sent..sent + len).map(byte).collect();
            write.write_all(&bytes).await.unwrap();
            (sent, chunk) = (sent + len, (chunk * 7 + 3) % 90_001);
        }
    };
    let receive = move |mut read: weft_transport::WeftReadHalf| async move {
        let mut bytes = vec![0; 50_000];
        let mut received = 0;
        loop {
            let count = read.read(&mut bytes).await.unwrap();
            if count == 0 {
                break;
            }
            assert!(bytes[..count].iter().enumerate().all(|(at, b)| *b == byte(received + at)));
            received += count;
        }
        assert_eq!(received, BYTES);
    };
    let (one, other) = pair(config).await;
    let ((one_read, one_write), (other_read, other_write)) = (one.into_split(), other.into_split());
    let tasks = [tokio::spawn(send(one_write)), tokio::spawn(send(other_write))];
    let readers = [tokio::spawn(receive(one_read)), tokio::spawn(receive(other_read))];
    for task in tasks.into_iter().chain(readers) {
        task.await.unwrap();
    }
}

/// One task waits for ever and another has always something to do; a third gets its turns.
async fn other_tasks_run_beside_a_waiting_and_a_streaming_one(config: StreamConfig) {
    let (_silent, mut waiting) = pair(config.clone()).await;
    let waits = tokio::spawn(async move { waiting.read(&mut [0; 1]).await });
    let (mut one, mut other) = pair(config).await;
    let writes = tokio::spawn(async move { while one.write_all(&[5; 4000]).await.is_ok() {} });
    let reads = tokio::spawn(async move { while other.read(&mut [0; 4000]).await.is_ok() {} });
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    for task in [writes, reads] {
        task.abort();
    }
    waits.abort();
}

macro_rules! on_links {
    ($(($module:ident, $links:expr, $kind:expr)),*) => {$(
        mod $module {
            use super::*;

            #[tokio::test]
            async fn addresses() {
                if !can_carry($links).await {
                    return;
                }
                let config = config($links, PollPolicy::Park);
                in_time(addresses_are_those_of_the_other_side(config.clone(), $kind)).await;
                in_time(a_listener_at_every_address_is_one_of_them_to_each(config)).await;
            }

            on_links!(@ $links, early_writes, one_side_can_write_before_the_other_accepts);
            on_links!(@ $links, shutdown, after_a_shutdown_the_peer_can_still_write_back);
            on_links!(@ $links, half_close, a_half_closed_stream_carries_the_other_direction);
            on_links!(@ $links, dropped_half, a_half_that_is_dropped_is_the_end_for_the_peer);
            on_links!(@ $links, reset, a_peer_that_leaves_without_reading_resets);
            on_links!(@ $links, broken_pipe, writing_to_a_peer_that_is_gone_fails_in_the_end);
            on_links!(@ $links, gathered, a_gathered_write_is_one_send_of_the_link);
            on_links!(@ $links, addresses, addresses_are_those_of_sockets);
            on_links!(@ $links, many_pieces, more_pieces_than_a_link_takes_at_once_all_arrive);
            on_links!(@ $links, cancelled, a_read_that_is_given_up_loses_nothing);
            on_links!(@ $links, round_trips, round_trips_between_two_threads_all_end);
            on_links!(@ $links, full_duplex, both_directions_at_once_arrive_whole);
            on_links!(@ $links, fairness, other_tasks_run_beside_a_waiting_and_a_streaming_one);
        }
    )*};
    (@ $links:expr, $name:ident, $test:ident) => {
        mod $name {
            use super::*;

            #[tokio::test]
            async fn on_one_thread() {
                if !can_carry($links).await {
                    return;
                }
                for poll in [PollPolicy::Park, PollPolicy::Adaptive, PollPolicy::Busy] {
                    in_time($test(config($links, poll))).await;
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_two_threads() {
                if !can_carry($links).await {
                    return;
                }
                for poll in [PollPolicy::Park, PollPolicy::Adaptive, PollPolicy::Busy] {
                    in_time($test(config($links, poll))).await;
                }
            }
        }
    };
}

on_links!(
    (tcp, LinkPolicy::Tcp, LinkKind::Tcp),
    (shm, LinkPolicy::Shm, LinkKind::Shm),
    (verbs, LinkPolicy::Verbs, LinkKind::Verbs)
);

#[tokio::test]
async fn between_spinning_sides_shared_memory_makes_no_system_call() {
    let (mut one, mut other) = pair(config(LinkPolicy::Shm, PollPolicy::Busy)).await;
    let mut byte = [0];
    for _ in 0..1000 {
        one.write_all(&[1]).await.unwrap();
        other.read_exact(&mut byte).await.unwrap();
    }
    for counters in [one.counters(), other.counters()] {
        assert_eq!((counters.bells, counters.sleeps), (0, 0));
    }
}

#[tokio::test]
async fn a_sleeper_costs_one_bell() {
    let (mut one, mut other) = pair(config(LinkPolicy::Shm, PollPolicy::Park)).await;
    // The memory has arrived once something was read from it.
    one.write_all(b"0").await.unwrap();
    other.read_exact(&mut [0]).await.unwrap();
    let (bells, sleeps) = (one.counters().bells, other.counters().sleeps);
    let reading = tokio::spawn(async move {
        other.read_exact(&mut [0; 2]).await.unwrap();
        other
    });
    // There is one thread: when this task goes on, the other has gone to sleep.
    tokio::task::yield_now().await;
    one.write_all(b"1").await.unwrap();
    one.write_all(b"2").await.unwrap();
    let other = reading.await.unwrap();
    assert_eq!((one.counters().bells - bells, other.counters().sleeps - sleeps), (1, 1));
}

/// Looks for a byte once; there is none.
async fn look_in_vain(stream: &mut WeftStream) {
    let mut reading = pin!(stream.read_u8());
    let pending = poll_fn(|context| Poll::Ready(reading.as_mut().poll(context).is_pending())).await;
    assert!(pending, "nothing was sent");
}

/// What comes of it gathers, and is found all the same when it is the last.
#[tokio::test]
async fn over_tcp_the_byte_behind_a_flow_in_one_direction_is_read() {
    for poll in [PollPolicy::Adaptive, PollPolicy::Busy, PollPolicy::Park] {
        let (mut one, mut other) = pair(config(LinkPolicy::Tcp, poll)).await;
        let sending = tokio::spawn(async move {
            one.write_all(&vec![7; 2 << 20]).await.unwrap();
            one
        });
        let (mut bytes, mut read) = (vec![0; 64 << 10], 0);
        while read < 2 << 20 {
            read += other.read(&mut bytes).await.unwrap();
        }
        let mut one = sending.await.unwrap();
        look_in_vain(&mut other).await;
        one.write_all(b"8").await.unwrap();
        assert_eq!(other.read_u8().await.unwrap(), b'8', "{poll:?}");
    }
}

#[tokio::test]
async fn any_tcp_program_can_talk_to_a_listener() {
    let listener = WeftListener::bind(ANYWHERE, StreamConfig::default()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let plain = std::thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(b"hello").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_eq!(stream.link(), LinkKind::Tcp);
    assert_eq!(read_all(&mut stream).await, b"hello");
    stream.write_all(b"and back").await.unwrap();
    drop(stream);
    assert_eq!(plain.join().unwrap(), "and back");
}

#[tokio::test]
async fn a_stream_can_talk_to_any_tcp_server() {
    let server = std::net::TcpListener::bind(ANYWHERE).unwrap();
    let address = server.local_addr().unwrap();
    let shm = config(LinkPolicy::Shm, PollPolicy::Park);
    let refused = WeftStream::connect(address, shm).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let mut stream = WeftStream::connect(address, StreamConfig::default()).await.unwrap();
    assert_eq!(stream.link(), LinkKind::Tcp);
    let (mut plain, from) = server.accept().unwrap();
    assert_eq!(from, stream.local_addr().unwrap());
    plain.write_all(b"plain").unwrap();
    drop(plain);
    assert_eq!(read_all(&mut stream).await, b"plain");
}

#[tokio::test]
async fn memory_is_shared_by_default_and_names_are_looked_up() {
    let listener = WeftListener::bind("localhost:0", StreamConfig::default()).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = format!("localhost:{port}");
    let stream = WeftStream::connect(name, StreamConfig::default()).await.unwrap();
    assert_eq!(stream.link(), LinkKind::Shm);
}

#[tokio::test]
async fn nobody_listening_is_refused() {
    let listener = WeftListener::bind(ANYWHERE, StreamConfig::default()).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for links in [LinkPolicy::Auto, LinkPolicy::Tcp, LinkPolicy::Shm] {
        let refused = WeftStream::connect(address, config(links, PollPolicy::Park)).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused, "{links}");
    }
}

#[tokio::test]
async fn a_listener_that_is_dropped_resets_what_it_has_not_accepted() {
    for links in [LinkPolicy::Tcp, LinkPolicy::Shm] {
        in_time(async move {
            let config = config(links, PollPolicy::Park);
            let listener = WeftListener::bind(ANYWHERE, config.clone()).await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut accepted_first = WeftStream::connect(address, config.clone()).await.unwrap();
            drop(listener.accept().await.unwrap());
            let mut quiet = WeftStream::connect(address, config.clone()).await.unwrap();
            let mut wrote = WeftStream::connect(address, config.clone()).await.unwrap();
            wrote.write_all(b"never read").await.unwrap();
            let mut waits = WeftStream::connect(address, config).await.unwrap();
            let waits = tokio::spawn(async move { waits.read(&mut [0]).await });
            tokio::task::yield_now().await;
            drop(listener);
            for read in
                [quiet.read(&mut [0]).await, wrote.read(&mut [0]).await, waits.await.unwrap()]
            {
                assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset, "{links}");
            }
            // Who was accepted and dropped has come to a good end.
            assert_eq!(read_all(&mut accepted_first).await, b"", "{links}");
        })
        .await;
    }
}

const VICTIM_ADDRESS: &str = "WEFT_TEST_VICTIM_ADDRESS";
const VICTIM_LINK: &str = "WEFT_TEST_VICTIM_LINK";

/// Not a test by itself: the process that the next one kills.
#[tokio::test]
#[ignore = "started by a_killed_process_is_the_end_of_its_streams"]
async fn victim() {
    let address = std::env::var(VICTIM_ADDRESS).unwrap();
    let links = std::env::var(VICTIM_LINK).unwrap().parse().unwrap();
    let mut stream = WeftStream::connect(address, config(links, PollPolicy::Park)).await.unwrap();
    stream.write_all(b"alive").await.unwrap();
    std::future::pending::<()>().await;
}

/// A stream whose other side is a process of its own, which has said that it lives, and that process.
async fn stream_to_victim(links: LinkPolicy, poll: PollPolicy) -> (WeftStream, Child) {
    let listener = WeftListener::bind(ANYWHERE, config(links, poll)).await.unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--ignored"])
        .env(VICTIM_ADDRESS, listener.local_addr().unwrap().to_string())
        .env(VICTIM_LINK, links.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut said = [0; 5];
    stream.read_exact(&mut said).await.unwrap();
    (stream, child)
}

#[tokio::test]
async fn a_killed_process_is_the_end_of_its_streams() {
    for links in [LinkPolicy::Tcp, LinkPolicy::Shm] {
        for poll in [PollPolicy::Park, PollPolicy::Adaptive, PollPolicy::Busy] {
            in_time(async move {
                let (mut stream, mut child) = stream_to_victim(links, poll).await;
                child.kill().unwrap();
                child.wait().unwrap();
                assert_eq!(read_all(&mut stream).await, b"", "the end, as the kernel says for TCP");
            })
            .await;
        }
    }
}
