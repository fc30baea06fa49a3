//! What is sent from where it lies is held until the device has told that it is done with it, well or not.
//!
//! Without a device the cases say so and do nothing; `cargo xtask softroce` runs them with one. Nobody else drives the
//! ports here, so nothing comes back before a case asks for it.

use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{VerbsLink, VerbsPort};
use crate::link::lent::Outgoing;
use crate::link::verbs_options::VerbsOptions;
use crate::link::{Link, TcpListener, Transfer, VerbsError};
use crate::memory::{Memory, MemoryConfig, Purpose, Shared};
use crate::registration::registration_stats;

/// Of the block that is sent from.
const LEN: usize = 64 << 10;

/// What is registered is counted for the process: the cases take turns.
pub(super) static TURN: Mutex<()> = Mutex::new(());

/// A sender and a receiver, each with a port of its own.
struct Scene {
    sender: VerbsLink,
    sending: Arc<VerbsPort>,
    receiver: Link,
    receiving: Arc<VerbsPort>,
    memory: Memory,
}

impl Scene {
    /// Nothing where there is no device.
    fn new() -> Option<Self> {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let open = || VerbsPort::open(&VerbsOptions::default(), memory.clone(), None);
        let sending = match open() {
            Ok(port) => port,
            Err(missing @ VerbsError::NoDevice) => {
                eprintln!("skipped: {missing}");
                return None;
            }
            Err(error) => panic!("{error:?}"),
        };
        let receiving = open().unwrap();
        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let sender = VerbsLink::connect(listener.address().unwrap(), &sending).unwrap();
        let accepted = until(|| listener.accept().ok());
        let receiver = VerbsLink::accepted(accepted.0, &receiving);
        until(|| {
            let nothing = receiver.receive(&mut [IoSliceMut::new(&mut [0])]).unwrap_err();
            assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
            sending.poll();
            receiving.poll();
            sender.finish_connect().ok()
        });
        Some(Self { sender, sending, receiver, receiving, memory })
    }

    /// A block that so much has been copied out of that it pays to register it.
    fn block(&self) -> Shared {
        let mut block = self.memory.allocate(LEN, Purpose::Buffer).unwrap();
        block.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 9) as u8);
        let block = block.freeze();
        block.extent().registrations().note_copied(LEN);
        block
    }

    /// Sends 8 KiB of the block, from where they lie.
    fn send(&self, block: &Shared) -> usize {
        let memory = block.slice(16 << 10..24 << 10);
        let lending = self.sender.lending(&memory, None);
        assert!(lending.is_some(), "the block is registered");
        self.sender.send_lent(&[Outgoing { bytes: &memory, lending }]).unwrap()
    }

    fn held_bytes(&self) -> u64 {
        self.memory.account().allocated_for(Purpose::Buffer)
    }
}

#[expect(clippy::disallowed_methods, reason = "the test waits for a device that nobody else asks")]
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "it takes too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn until_it_has_been_sent() {
    let _turn = TURN.lock();
    let Some(scene) = Scene::new() else { return };
    let before = registration_stats();
    let block = scene.block();
    let sent = scene.send(&block);
    assert_eq!(sent, 8 << 10);
    let expected = block.slice(16 << 10..24 << 10).to_vec();
    drop(block);
    let mut received = vec![0; sent];
    let mut at = 0;
    until(|| {
        scene.receiving.poll();
        if let Ok(count) = scene.receiver.receive(&mut [IoSliceMut::new(&mut received[at..])]) {
            at += count;
        }
        (at == sent).then_some(())
    });
    assert_eq!(received, expected);
    // It has arrived, but nobody has asked the sender's device yet.
    assert_eq!(scene.held_bytes(), LEN as u64);
    assert_eq!(registration_stats().used_bytes - before.used_bytes, LEN as u64);
    assert_eq!(scene.sender.lent_bytes(), 8 << 10);
    until(|| {
        scene.sending.poll();
        (scene.held_bytes() == 0).then_some(())
    });
    assert_eq!(registration_stats().used_bytes, before.used_bytes);
}

#[test]
fn until_sending_it_has_failed() {
    let _turn = TURN.lock();
    let Some(scene) = Scene::new() else { return };
    let block = scene.block();
    let Scene { sender, sending, receiver, receiving, memory } = scene;
    // Its queue pair goes, and nothing is heard of that here.
    drop((receiver, receiving));
    let lending = sender.lending(&block, None);
    let sent = sender.send_lent(&[Outgoing { bytes: &block[..8 << 10], lending }]).unwrap();
    assert_eq!(sent, 8 << 10);
    drop(block);
    let held_bytes = || memory.account().allocated_for(Purpose::Buffer);
    assert_eq!(held_bytes(), LEN as u64);
    until(|| {
        sending.poll();
        (held_bytes() == 0).then_some(())
    });
    assert!(sender.end().unwrap().has_failed());
}
