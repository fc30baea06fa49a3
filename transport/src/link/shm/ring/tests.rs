use proptest::prelude::*;

use super::*;

const LEN: usize = CAPACITY + 4096;
const PLACE: Place = Place { control: 0, data: 4096 };

/// Under miri, which follows each byte, no more than takes a ring round once or twice.
const STEPS: usize = if cfg!(miri) { 6 } else { 60 };

fn ring() -> (Arc<Mapping>, Writer, Reader) {
    let (mapping, _file) = Mapping::create(LEN).unwrap();
    let mapping = Arc::new(mapping);
    let (writer, reader) =
        (Writer::new(Arc::clone(&mapping), PLACE), Reader::new(Arc::clone(&mapping), PLACE));
    (mapping, writer, reader)
}

fn write(writer: &Writer, bytes: &[u8]) -> usize {
    match writer.write(&[IoSlice::new(bytes)]) {
        Ok((count, _)) => count,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Err(error) => panic!("{error}"),
    }
}

fn read(reader: &Reader, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let (count, _) = reader.read(&mut [IoSliceMut::new(&mut bytes)]).unwrap();
    bytes.truncate(count);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    #[test]
    fn bytes_come_out_as_they_went_in(
        steps in proptest::collection::vec((any::<bool>(), 0..CAPACITY + 9), 1..STEPS),
    ) {
        let (_mapping, writer, reader) = ring();
        let (mut sent, mut received) = (0u64, 0u64);
        let byte = |position: u64| (position.wrapping_mul(31) >> 3) as u8;
        for (writes, len) in steps {
            if writes {
                let bytes: Vec<u8> = (sent..sent + len as u64).map(byte).collect();
                let (head, tail) = bytes.split_at(len / 3);
                match writer.write(&[IoSlice::new(head), IoSlice::new(tail)]) {
                    Ok((count, _)) => sent += count as u64,
                    Err(error) => prop_assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
                prop_assert!(sent - received <= CAPACITY as u64);
            } else {
                let expected = ((sent - received) as usize).min(len);
                let bytes = read(&reader, len);
                prop_assert_eq!(bytes.len(), expected);
                for value in bytes {
                    prop_assert_eq!(value, byte(received));
                    received += 1;
                }
            }
        }
    }

    #[test]
    fn whatever_a_hostile_peer_writes_is_an_error_or_harmless(
        values in proptest::collection::vec((0..CONTROL_WORDS, any::<u64>(), any::<bool>()), 1..40),
    ) {
        let (mapping, writer, reader) = ring();
        let bytes = vec![7; 1000];
        for (word, value, near) in values {
            let value = if near { value % (2 * CAPACITY as u64) } else { value };
            mapping.words()[word].store(value, Ordering::Relaxed);
            let _ = writer.write(&[IoSlice::new(&bytes)]);
            let _ = (writer.has_room(1), reader.is_readable(), reader.sleep());
            let _ = (writer.sleep(), writer.is_unread(), reader.is_finished());
            prop_assert!(reader.ready() <= CAPACITY);
            let mut into = vec![0; 3000];
            if let Ok((count, _)) = reader.read(&mut [IoSliceMut::new(&mut into)]) {
                prop_assert!(count <= 3000);
            }
        }
    }
}

#[test]
fn a_full_ring_blocks_and_asks_to_be_told_of_room() {
    let (_mapping, writer, reader) = ring();
    assert_eq!(write(&writer, &vec![1; CAPACITY + 1]), CAPACITY);
    assert_eq!(write(&writer, b"x"), 0);
    assert!(!writer.has_room(1));
    let (mut one, mut rest) = ([0], [0; LOOK - 1]);
    assert_eq!(reader.read(&mut [IoSliceMut::new(&mut one)]).unwrap(), (1, false));
    assert!(writer.has_room(1));
    assert_eq!(reader.read(&mut [IoSliceMut::new(&mut rest)]).unwrap(), (LOOK - 1, true));
    assert_eq!(reader.read(&mut [IoSliceMut::new(&mut rest)]).unwrap(), (LOOK - 1, false));
}

#[test]
fn what_was_written_before_the_end_is_read_first() {
    let (_mapping, writer, reader) = ring();
    assert_eq!(write(&writer, b"last"), 4);
    assert!(!writer.finish(), "nobody sleeps");
    assert!(reader.is_finished() && writer.is_unread());
    assert_eq!(read(&reader, 9), b"last");
    assert!(!writer.is_unread());
    assert!(!reader.sleep(), "the end is there to be found");
}

#[test]
fn a_sleeping_reader_is_rung_for_at_the_end() {
    let (_mapping, writer, reader) = ring();
    assert!(reader.sleep());
    assert!(writer.finish());
}

#[test]
fn only_a_reader_that_sleeps_is_rung_for_and_once() {
    let (_mapping, writer, reader) = ring();
    assert_eq!(writer.write(&[IoSlice::new(b"a")]).unwrap(), (1, false));
    assert!(!reader.sleep(), "there is something to read");
    assert_eq!(read(&reader, 9), b"a");
    assert!(reader.sleep());
    assert_eq!(writer.write(&[IoSlice::new(b"b")]).unwrap(), (1, true));
    assert_eq!(writer.write(&[IoSlice::new(b"c")]).unwrap(), (1, false));
}

/// Both sides sleep whenever they can and wake only by the bell: one missed bell and this hangs.
#[test]
fn no_bell_is_missed() {
    let (_mapping, writer, reader) = ring();
    let (to_reader, reader_bell) = std::sync::mpsc::channel();
    let (to_writer, writer_bell) = std::sync::mpsc::channel();
    const TOTAL: usize = if cfg!(miri) { 2 * CAPACITY } else { 8 << 20 };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut left = TOTAL;
            let bytes = vec![3; 50_000];
            while left > 0 {
                let len = left.min(1 + left % bytes.len());
                match writer.write(&[IoSlice::new(&bytes[..len])]) {
                    Ok((count, wake)) => {
                        left -= count;
                        if wake {
                            to_reader.send(()).unwrap();
                        }
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                        writer_bell.recv().unwrap();
                    }
                }
            }
        });
        let mut bytes = vec![0; 70_000];
        let mut received = 0;
        while received < TOTAL {
            let (count, wake) = reader.read(&mut [IoSliceMut::new(&mut bytes)]).unwrap();
            received += count;
            if wake {
                // The writer may have found room by itself and be done.
                let _ = to_writer.send(());
            }
            if count == 0 && reader.sleep() {
                reader_bell.recv().unwrap();
            }
        }
    });
}
