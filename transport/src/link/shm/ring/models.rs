//! A ring's two ends with all that weak memory and the scheduler may do to them.

use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::*;
use crate::models::check_orders;

const PLACE: Place = Place { control: 0, data: CONTROL_WORDS * 8 };
const WORDS: usize = CAPACITY / 8;

fn ring() -> (Writer, Reader) {
    let (mapping, _file) = Mapping::create(CONTROL_WORDS * 8 + CAPACITY).unwrap();
    let mapping = Arc::new(mapping);
    (Writer::new(Arc::clone(&mapping), PLACE), Reader::new(mapping, PLACE))
}

/// Numbers from `first` on, as bytes.
fn numbers(first: usize, count: usize) -> Vec<u8> {
    (first..first + count).flat_map(|number| (number as u64).to_le_bytes()).collect()
}

/// What a side sleeps by, as on a socket: a bell that is rung stays until it is heard.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    told: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.told.notify_one();
    }

    fn hear(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.told.wait(rung).unwrap();
        }
        *rung = false;
    }
}

/// The bells of the reader and of the writer.
fn bells() -> (Arc<Bell>, Arc<Bell>) {
    Default::default()
}

/// Writes the numbers up to `end`, `at_once` of them at once, and sleeps while the ring is full.
fn write_all(writer: &Writer, (to, own): (&Bell, &Bell), end: usize, at_once: usize) {
    let mut next = 0;
    while next < end {
        let bytes = numbers(next, at_once.min(end - next));
        match writer.write(&[IoSlice::new(&bytes)]) {
            Ok((count, wake)) => {
                assert!(count > 0 && count % 8 == 0);
                next += count / 8;
                if wake {
                    to.ring();
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                own.hear();
                writer.wake_up();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reads the numbers up to `end`, `at_once` of them at once, and sleeps while there is nothing.
fn read_all(reader: &Reader, (to, own): (&Bell, &Bell), end: usize, at_once: usize) {
    let mut next = 0;
    while next < end {
        let mut bytes = vec![0; at_once * 8];
        let (count, wake) = reader.read(&mut [IoSliceMut::new(&mut bytes)]).unwrap();
        assert_eq!(bytes[..count], numbers(next, count / 8));
        next += count / 8;
        if wake {
            to.ring();
        }
        if count == 0 && reader.sleep() {
            own.hear();
            reader.wake_up();
        }
    }
}

fn all_comes_over(words: usize, written_at_once: usize, read_at_once: usize, interruptions: usize) {
    check_orders(interruptions, move || {
        let (writer, reader) = ring();
        let (readers, writers) = bells();
        let (to, own) = (Arc::clone(&readers), Arc::clone(&writers));
        let writing = thread::spawn(move || {
            write_all(&writer, (&to, &own), words, written_at_once);
            writer
        });
        read_all(&reader, (&writers, &readers), words, read_at_once);
        let writer = writing.join().unwrap();
        assert!(!writer.is_unread() && !reader.is_readable());
    });
}

/// The reader is faster: it sleeps, and the writer has to ring.
#[test]
fn a_reader_that_sleeps_is_always_rung_for() {
    all_comes_over(3, 1, 3, 3);
}

/// The ring is full again and again: the writer sleeps, and the reader, which looks once in two words, has
/// to ring before it has read everything.
#[test]
fn a_writer_that_waits_for_room_is_always_rung_for() {
    all_comes_over(2 * WORDS, 2 * WORDS, 1, 2);
}

/// What is read ends and begins in the middle of what was written, and past the end of a lap.
#[test]
fn what_wraps_around_comes_over_in_order() {
    all_comes_over(WORDS + 3, WORDS - 1, 2, 2);
}

/// The end of a direction wakes a reader that sleeps, and comes behind all that was written.
#[test]
fn the_end_comes_behind_the_last_word() {
    check_orders(3, || {
        let (writer, reader) = ring();
        let (readers, writers) = bells();
        let to = Arc::clone(&readers);
        let writing = thread::spawn(move || {
            write_all(&writer, (&to, &writers), 2, 1);
            if writer.finish() {
                to.ring();
            }
        });
        let mut seen = 0;
        loop {
            // As the link does: the end first, then what lies there.
            let ended = reader.is_finished();
            let mut bytes = [0; 8];
            let (count, _) = reader.read(&mut [IoSliceMut::new(&mut bytes)]).unwrap();
            seen += count / 8;
            if count == 0 {
                if ended {
                    break;
                }
                if reader.sleep() {
                    readers.hear();
                    reader.wake_up();
                }
            }
        }
        assert_eq!(seen, 2);
        writing.join().unwrap();
    });
}
