//! Threads, and what waits for them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use weft_transport::{Incarnation, NodeId};

use super::*;
use crate::service::thread::is_receiving;

fn holder(node: u64) -> Holder {
    Holder::new(NodeId(node), Incarnation(1))
}

fn none_begun(_: usize, _: Job) -> io::Result<()> {
    Err(io::Error::other("no thread can be begun"))
}

#[test]
fn without_a_thread_objects_are_dropped_by_who_lets_go_of_them_and_calls_are_not_kept() {
    struct Counts(Arc<AtomicUsize>);

    impl Drop for Counts {
        fn drop(&mut self) {
            assert!(is_receiving(), "it may not wait here");
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("a destructor");
        }
    }

    let workers = Workers::begun_by(1, none_begun);
    let count = Arc::default();
    workers.dispose(vec![Counts(Arc::clone(&count)), Counts(Arc::clone(&count))]);
    assert_eq!(count.load(Ordering::SeqCst), 2);
    let kept = Counts(Arc::clone(&count));
    let job = Box::new(move |_: &mut Option<Slot>| drop(kept));
    workers.call(Call { caller: (holder(1), 1), job });
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

#[test]
fn objects_are_dropped_though_all_threads_for_calls_are_busy() {
    let workers = Workers::new(1);
    let (open, opened) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let job = Box::new(move |_: &mut Option<Slot>| assert!(opened.recv().is_err()));
    workers.call(Call { caller: (holder(1), 1), job });
    workers.run(Box::new(move || tell.send(7).unwrap()));
    assert_eq!(told.recv(), Ok(7));
    drop(open);
}

#[test]
fn a_slot_that_is_taken_along_lets_the_next_call_begin_when_it_is_dropped() {
    let workers = Workers::new(1);
    let (tell, told) = mpsc::channel();
    for number in 0..3 {
        let tell = tell.clone();
        let job = Box::new(move |slot: &mut Option<Slot>| {
            tell.send((number, slot.take())).unwrap();
        });
        workers.call(Call { caller: (holder(1), 1), job });
    }
    // Another peer's is not held up, and is the next to begin.
    let other = tell.clone();
    let job = Box::new(move |_: &mut Option<Slot>| other.send((9, None)).unwrap());
    workers.call(Call { caller: (holder(2), 2), job });
    let (first, slot) = told.recv().unwrap();
    assert_eq!([first, told.recv().unwrap().0], [0, 9]);
    drop(slot);
    let (second, slot) = told.recv().unwrap();
    drop(slot);
    assert_eq!([second, told.recv().unwrap().0], [1, 2]);
    workers.stop();
}

/// Whether anybody was woken for them or not.
#[test]
fn what_is_dropped_soon_waits_for_no_other_and_lets_calls_begin() {
    struct Does(Option<Box<dyn FnOnce() + Send>>);

    impl Drop for Does {
        fn drop(&mut self) {
            (self.0.take().unwrap())();
        }
    }

    let does = |then: Box<dyn FnOnce() + Send>| vec![Does(Some(then))];
    let workers = Workers::new(8);
    let (tell, told) = mpsc::channel();
    for round in 0..50 {
        let (open, opened) = mpsc::channel::<()>();
        workers.dispose_soon(does(Box::new(move || assert!(opened.recv().is_err()))));
        for number in [1, 2] {
            let tell = tell.clone();
            let then = move || tell.send((round, number)).unwrap();
            if number == 1 {
                workers.dispose_soon(does(Box::new(then)));
            } else {
                let job = Box::new(move |_: &mut Option<Slot>| then());
                workers.call(Call { caller: (holder(1), 1), job });
            }
        }
        // Both come though the first destructor waits.
        let mut both = [told.recv().unwrap(), told.recv().unwrap()];
        both.sort_unstable();
        assert_eq!(both, [(round, 1), (round, 2)]);
        drop(open);
    }
    workers.stop();
}
