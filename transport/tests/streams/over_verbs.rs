//! What holds over verbs alone: who is let in, and what becomes of bytes when their sender is gone.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_transport::{LinkPolicy, PollPolicy, StreamConfig, WeftListener, WeftStream};

use super::{ANYWHERE, PATIENCE, can_carry, config, in_time, pair, read_all, stream_to_victim};

const VERBS: LinkPolicy = LinkPolicy::Verbs;

fn parking() -> StreamConfig {
    config(VERBS, PollPolicy::Park)
}

/// What it had given to its device may be lost with it, so that an end would be a lie.
#[tokio::test]
async fn a_killed_process_resets_its_streams() {
    if !can_carry(VERBS).await {
        return;
    }
    for poll in [PollPolicy::Park, PollPolicy::Adaptive, PollPolicy::Busy] {
        in_time(async move {
            let (mut stream, mut child) = stream_to_victim(VERBS, poll).await;
            child.kill().unwrap();
            child.wait().unwrap();
            let error = stream.read(&mut [0; 8]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            let error = stream.write(&[0; 8]).await.unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
                "{error}"
            );
        })
        .await;
    }
}

/// Neither who sleeps for room nor the peer it waits for is awake when that is killed.
#[tokio::test]
async fn a_writer_that_waits_for_room_is_woken_when_the_peer_is_killed() {
    if !can_carry(VERBS).await {
        return;
    }
    in_time(async {
        let (mut stream, mut child) = stream_to_victim(VERBS, PollPolicy::Park).await;
        let writing = tokio::spawn(async move { stream.write_all(&vec![1; 1 << 20]).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!writing.is_finished(), "nobody reads");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(writing.await.unwrap().is_err());
    })
    .await;
}

/// The program is done, its executor gone, and the peer has not read anything yet.
#[tokio::test]
async fn what_was_written_arrives_after_the_executor_of_its_writer_is_gone() {
    const BYTES: usize = 100_000;
    if !can_carry(VERBS).await {
        return;
    }
    in_time(async {
        let listener = WeftListener::bind(ANYWHERE, parking()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let program = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
            runtime.block_on(async {
                let mut stream = WeftStream::connect(address, parking()).await.unwrap();
                stream.write_all(&vec![5; BYTES]).await.unwrap();
            });
        });
        let (mut accepted, _) = listener.accept().await.unwrap();
        tokio::task::spawn_blocking(|| program.join().unwrap()).await.unwrap();
        assert_eq!(read_all(&mut accepted).await, vec![5; BYTES]);
    })
    .await;
}

/// Both ends write before either reads, as much as there is room for: then both have room again once they have.
#[tokio::test]
async fn two_full_directions_drain() {
    if !can_carry(VERBS).await {
        return;
    }
    in_time(async {
        let (mut one, mut other) = pair(parking()).await;
        let mut written = [0, 0];
        for (stream, written) in [&mut one, &mut other].into_iter().zip(&mut written) {
            // Single bytes use receives up, and large writes the ring.
            for len in [1; 300].into_iter().chain([100_000; 5]) {
                let late = Duration::from_millis(20);
                let wrote = tokio::time::timeout(late, stream.write(&vec![3; len])).await;
                let Ok(wrote) = wrote else { break };
                *written += wrote.unwrap();
            }
        }
        for _ in 0..3 {
            let mut bytes = vec![0; 200_000];
            let (to_other, to_one) = (written[0], written[1]);
            assert!(to_other > 0 && to_one > 0);
            other.read_exact(&mut bytes[..to_other]).await.unwrap();
            one.read_exact(&mut bytes[..to_one]).await.unwrap();
            one.write_all(&bytes[..to_other]).await.unwrap();
            other.write_all(&bytes[..to_one]).await.unwrap();
        }
    })
    .await;
}

fn stranger(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// An invitation that could be one, but for what `change` makes of it.
fn invitation(change: impl FnOnce(&mut [u8; 64])) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(b"WEFTRING");
    bytes[8] = 1;
    bytes[10] = 3;
    bytes[14] = 64;
    bytes[16] = 17;
    bytes[26] = 4;
    // No device has an address that is made of this one: it is for documents.
    bytes[42..48].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 1]);
    bytes[54] = 1;
    change(&mut bytes);
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_given_nothing_and_hold_up_nobody() {
    if !can_carry(VERBS).await {
        return;
    }
    let listener = WeftListener::bind(ANYWHERE, parking()).await.unwrap();
    let address = listener.local_addr().unwrap();
    // They say nothing, or half of what is to be said.
    let _silent: Vec<TcpStream> = (0..5).map(|_| stranger(address)).collect();
    let mut slow = stranger(address);
    slow.write_all(&invitation(|_| {})[..40]).unwrap();
    for bytes in [
        invitation(|bytes| bytes[..8].copy_from_slice(b"GET / HT")),
        invitation(|bytes| bytes[8] = 2),
        invitation(|bytes| bytes[10] = 6),
        invitation(|bytes| bytes[14] = 3),
        invitation(|bytes| bytes[27] = 255),
        invitation(|bytes| bytes[48..56].fill(255)),
    ] {
        let mut socket = stranger(address);
        socket.write_all(&bytes).unwrap();
        let answer = tokio::task::spawn_blocking(move || {
            let mut answer = Vec::new();
            // The end, or a reset.
            let _ = socket.read_to_end(&mut answer);
            answer
        });
        assert_eq!(answer.await.unwrap(), b"");
    }
    // A device that is not there: no stream comes about, though the listener has answered.
    let mut lost = stranger(address);
    lost.write_all(&invitation(|_| {})).unwrap();

    let mut honest = WeftStream::connect(address, parking()).await.unwrap();
    let (mut accepted, from) = listener.accept().await.unwrap();
    assert_eq!(from, honest.local_addr().unwrap(), "nobody else has come through");
    honest.write_all(b"!").await.unwrap();
    assert_eq!(accepted.read_u8().await.unwrap(), b'!');
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_answer_by_verbs_refuses() {
    if !can_carry(VERBS).await {
        return;
    }
    // Somebody who says something else, and somebody who hangs up.
    for answer in [&[b'x'; 64][..], b"HTTP/1.1 400 Bad Request"] {
        let server = TcpListener::bind(ANYWHERE).unwrap();
        let address = server.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            let (mut socket, _) = server.accept().unwrap();
            socket.read_exact(&mut [0; 64]).unwrap();
            socket.write_all(answer).unwrap();
        });
        let refused = WeftStream::connect(address, parking()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
        serving.join().unwrap();
    }
    let listener = WeftListener::bind(ANYWHERE, parking()).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let refused = WeftStream::connect(address, parking()).await.unwrap_err();
    assert!(
        matches!(refused.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset),
        "{refused}"
    );
}

#[tokio::test]
async fn a_device_that_is_not_there_is_named() {
    let mut config = parking();
    config.verbs.device = Some("rxe77".to_owned());
    for error in [
        WeftListener::bind(ANYWHERE, config.clone()).await.unwrap_err(),
        WeftStream::connect("127.0.0.1:1", config).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        // Or why there is none of any name.
        let why = error.to_string();
        assert!(why.contains("verbs") || why.contains("RDMA device"), "{why}");
    }
}
