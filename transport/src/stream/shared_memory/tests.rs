use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;
use crate::link::{ShmListener, TcpListener};

/// A waker that counts.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Both ends, open.
fn pair() -> (SharedMemory, SharedMemory) {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = port.address().unwrap();
    let listener = ShmListener::bind(address, Namespace::Streams).unwrap();
    let connected = SharedMemory::connect(address).unwrap();
    let (link, peer) = listener.accept().unwrap();
    link.finish_connect().unwrap();
    let accepted = SharedMemory::accepted(link, Addresses { local: address, peer }).unwrap();
    (connected, accepted)
}

fn send(memory: &SharedMemory, bytes: &[u8]) -> Poll<Moved> {
    memory.poll_send(&[IoSlice::new(bytes)]).map(Result::unwrap)
}

fn receive(memory: &SharedMemory, len: usize) -> Poll<usize> {
    let mut bytes = vec![0; len];
    let mut into = ReadBuf::new(&mut bytes);
    memory.poll_receive(&mut into).map(|moved| moved.unwrap().0)
}

/// Lets the executor look at its sockets.
async fn look_at_sockets() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_comes_before_a_reader_sleeps_is_found_by_its_last_look() {
    let (one, other) = pair();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(receive(&other, 9).is_pending());
    assert_eq!(send(&one, b"a"), Poll::Ready((1, false)), "nobody has asked to be rung for");
    let mut cx = Context::from_waker(&waker);
    let slept = other.poll_sleep_for_input(&mut cx, || panic!("there is something to read"));
    assert!(slept.is_ready());
    assert_eq!(receive(&other, 9), Poll::Ready(1));
}

#[tokio::test]
async fn what_comes_after_a_reader_sleeps_wakes_it() {
    let (one, other) = pair();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(other.poll_sleep_for_input(&mut Context::from_waker(&waker), || {}).is_pending());
    look_at_sockets().await;
    assert_eq!(woken.count(), 0);
    assert_eq!(send(&one, b"a"), Poll::Ready((1, true)));
    look_at_sockets().await;
    assert_eq!(woken.count(), 1);
}

#[tokio::test]
async fn room_is_rung_for_as_messages_are() {
    let (one, other) = pair();
    while send(&one, &[0; 10_000]).is_ready() {}
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    assert_eq!(receive(&other, 40_000), Poll::Ready(40_000));
    let slept = one.poll_sleep_for_room(&mut cx, || panic!("there is room"));
    assert!(slept.is_ready());

    while send(&one, &[0; 10_000]).is_ready() {}
    assert!(one.poll_sleep_for_room(&mut cx, || {}).is_pending());
    assert_eq!(receive(&other, 40_000), Poll::Ready(40_000));
    look_at_sockets().await;
    assert_eq!(woken.count(), 1);
    assert!(send(&one, b"a").is_ready());
}

#[tokio::test]
async fn a_bell_for_one_direction_does_not_cost_the_other_its_own() {
    let (one, other) = pair();
    while send(&one, &[0; 10_000]).is_ready() {}
    let (reader, writer) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
    let (read, write) = (Waker::from(Arc::clone(&reader)), Waker::from(Arc::clone(&writer)));
    assert!(one.poll_sleep_for_input(&mut Context::from_waker(&read), || {}).is_pending());
    assert!(one.poll_sleep_for_room(&mut Context::from_waker(&write), || {}).is_pending());

    // The bell for the reader wakes both, and the reader takes it.
    assert_eq!(send(&other, b"a"), Poll::Ready((1, true)));
    look_at_sockets().await;
    assert_eq!((reader.count(), writer.count()), (1, 1));
    assert_eq!(receive(&one, 9), Poll::Ready(1));
    assert!(one.poll_sleep_for_room(&mut Context::from_waker(&write), || {}).is_pending());

    assert_eq!(receive(&other, 40_000), Poll::Ready(40_000));
    look_at_sockets().await;
    assert_eq!(writer.count(), 2);
}

#[tokio::test]
async fn the_end_wakes_a_sleeper_and_an_ending_half_rings() {
    let (one, other) = pair();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    assert!(other.poll_sleep_for_input(&mut cx, || {}).is_pending());
    assert!(one.finish());
    look_at_sockets().await;
    assert_eq!(woken.count(), 1);
    assert_eq!(receive(&other, 9), Poll::Ready(0));
    let slept = other.poll_sleep_for_input(&mut cx, || panic!("the end is something to read"));
    assert!(slept.is_ready());

    assert!(one.poll_sleep_for_input(&mut cx, || {}).is_pending());
    drop(other);
    look_at_sockets().await;
    assert_eq!(woken.count(), 2);
    assert_eq!(receive(&one, 9), Poll::Ready(0));
}
