use std::cell::RefCell;
use std::io::IoSliceMut;

use proptest::prelude::*;

use super::*;
use crate::frame::{HEADER_BYTES, frame_len};
use crate::handshake::Windows;
use crate::lane::Producer;
use crate::limits::GATHER_MIN;
use crate::memory::Memory;
use crate::memory::MemoryConfig;
use crate::session::departures::Departure;
use crate::session::receives::Messages;
use crate::session::record::write_record;
use crate::session::wired::Wire;

/// A request of lane `lane`, the `number`th, in a frame of 32 bytes.
fn write(session: &Session, memory: &Memory, producer: &mut Producer, number: u64) {
    let lane = u64::from(producer.lane().index);
    let body = [lane.to_le_bytes(), number.to_le_bytes()].concat();
    let header = (Kind::Message, Class::Request, 0, false);
    write_record(producer, memory, header, &body[..], None, false).unwrap();
    session.lanes.announce(Unannounced::of(producer));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However many lanes share a bit, whoever writes and however little the link takes: all that was
    /// announced is sent, in the order of its lane.
    #[test]
    fn lanes_that_share_a_bit_are_all_sent(
        writes in prop::collection::vec((0..200_usize, 1..40_u64, 0..3000_usize), 1..120),
    ) {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let session = Session::new(&Windows::default(), Messages::Handled);
        session.open(&Windows::default(), 0);
        let mut lanes: Vec<_> = (0..200).map(|_| session.lanes.open(&memory).unwrap()).collect();
        let (mut written, wire) = (vec![0; lanes.len()], Wire::default());
        for (lane, count, room) in writes {
            for _ in 0..count {
                write(&session, &memory, &mut lanes[lane], written[lane]);
                written[lane] += 1;
            }
            wire.make_room(room);
            session.outbound.lock().transmit(&session, &wire).unwrap();
        }
        wire.make_room(usize::MAX);
        prop_assert_eq!(session.outbound.lock().transmit(&session, &wire).unwrap(), Progress::Done);
        prop_assert!(!session.is_waiting());

        let mut seen = vec![0; lanes.len()];
        for frame in wire.bytes.borrow().as_chunks::<32>().0 {
            let [lane, number] =
                [16, 24].map(|at| u64::from_le_bytes(frame[at..at + 8].try_into().unwrap()));
            prop_assert_eq!(number, seen[lane as usize]);
            seen[lane as usize] += 1;
        }
        prop_assert_eq!(seen, written);
    }

    /// However much is in a lane and however little the link takes: what is left for sending beside it comes behind
    /// all that was written to it before, and waits for nothing else.
    #[test]
    fn what_goes_beside_a_lane_comes_behind_what_was_written_to_it_before(
        writes in prop::collection::vec((0..3_u64, 0..12_u64, 0..30_000_usize, 0..60_000_usize), 1..40),
    ) {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let session = Session::new(&Windows::default(), Messages::Handled);
        session.open(&Windows::default(), 0);
        let mut lanes: Vec<_> = (0..3).map(|_| session.lanes.open(&memory).unwrap()).collect();
        let (mut written, mut beside, wire) = ([0; 3], 0, Wire::default());
        for (lane, count, len, room) in writes {
            let (producer, written) = (&mut lanes[lane as usize], &mut written[lane as usize]);
            for _ in 0..count {
                let header = (Kind::Message, Class::Request, (lane << 32) | *written, false);
                write_record(producer, &memory, header, &vec![0; len][..], None, false).unwrap();
                *written += 1;
            }
            // Nobody has been told of the records but by this.
            let mark = producer.mark();
            session.lanes.announce(Unannounced::of(producer));
            let header = (Kind::Reply, Class::Reply, (lane << 32) | *written, false);
            let departure = Departure::new(header, None, None).behind(mark);
            session.departures.reserve(Class::Reply, departure.queued_bytes());
            session.departures.push(departure);
            beside += 1;
            wire.make_room(room);
            session.outbound.lock().transmit(&session, &wire).unwrap();
        }
        wire.make_room(usize::MAX);
        prop_assert_eq!(session.outbound.lock().transmit(&session, &wire).unwrap(), Progress::Done);
        prop_assert!(!session.is_waiting() && session.departures.is_idle());

        let (bytes, mut seen) = (wire.bytes.borrow(), [0; 3]);
        let mut rest = &bytes[..];
        while let Some(first) = rest.first_chunk() {
            let header = Header::decode(first).unwrap();
            let (lane, number) = ((header.id >> 32) as usize, header.id & u64::from(u32::MAX));
            match header.kind {
                Kind::Message => {
                    prop_assert_eq!(number, seen[lane]);
                    seen[lane] += 1;
                }
                _ => {
                    prop_assert!(seen[lane] >= number, "{} of {number} before it", seen[lane]);
                    beside -= 1;
                }
            }
            rest = &rest[header.frame_len()..];
        }
        prop_assert_eq!((seen, beside), (written, 0));
    }
}

/// Takes whatever it is given, and notes how much that was each time.
#[derive(Default)]
struct Noting {
    writes: RefCell<Vec<usize>>,
    bytes: RefCell<Vec<u8>>,
}

impl Transfer for Noting {
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut bytes = self.bytes.borrow_mut();
        let before = bytes.len();
        pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        self.writes.borrow_mut().push(bytes.len() - before);
        Ok(bytes.len() - before)
    }

    fn receive(&self, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn finish_connect(&self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&self) {}

    fn shutdown(&self) {}
}

#[test]
fn writes_are_as_long_as_they_get_and_no_record_is_torn() {
    for len in [48, 1024, 8192, 40_000, 300_000, 1 << 20] {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let session = Session::new(&Windows::default(), Messages::Handled);
        let records = (3 << 20) / len;
        for lane in 0..2_u64 {
            let mut producer = session.lanes.open(&memory).unwrap();
            for _ in 0..records {
                let body = vec![lane as u8; len];
                let header = (Kind::Message, Class::Request, lane, false);
                write_record(&mut producer, &memory, header, &body[..], None, len >= GATHER_MIN)
                    .unwrap();
                session.lanes.announce(Unannounced::of(&producer));
            }
        }
        let mut outbound = Outbound { open: true, ..Outbound::default() };
        let link = Noting::default();
        assert_eq!(outbound.transmit(&session, &link).unwrap(), Progress::Done);

        let writes = link.writes.into_inner();
        let (last, others) = writes.split_last().unwrap();
        assert!(others.iter().all(|write| *write == BATCH_BYTES), "{len}: {writes:?}");
        assert!(*last <= BATCH_BYTES, "{len}: {writes:?}");

        let bytes = link.bytes.into_inner();
        assert_eq!(bytes.len(), 2 * records * frame_len(len));
        for record in bytes.chunks(frame_len(len)) {
            let header = Header::decode(record.first_chunk().unwrap()).unwrap();
            assert_eq!(header.len as usize, len);
            let body = &record[HEADER_BYTES..HEADER_BYTES + len];
            assert!(body.iter().all(|byte| u64::from(*byte) == header.id), "{len}");
        }
    }
}
