//! What a worker does: it sends the words of its part of the text to the workers that they hash to, as they are or counted, and counts what
//! it is sent.

use std::cell::RefCell;
use std::hash::BuildHasher as _;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use columnar::{Index as _, Strings};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::InputHandle;
use timely::dataflow::channels::pact::ExchangeCore;
use timely::dataflow::operators::{Operator as _, Probe as _};
use timely::worker::Worker;
use weft_bench::column::ColumnBuilder;

use crate::text::{Text, words};

/// Words and how often each occurs. Every worker hashes alike, and not as the exchange does: else the
/// words of a worker would all have hashes that leave the same rest.
pub(crate) type Counts = HashMap<Word, u64, FixedState>;

/// Short words lie in the table: looking one up misses the cache once less, which is what counting takes.
type Word = SmallVec<[u8; 16]>;

/// What comes out of an operator that keeps what it is sent.
type Nothing = CapacityContainerBuilder<Vec<()>>;

/// What a worker has in the end.
pub(crate) struct Counted {
    /// The words that hash to it.
    pub(crate) counts: Counts,
    /// Bytes of its part of the text.
    pub(crate) bytes: u64,
    /// From when all workers were connected to when everything was counted, by all of them.
    pub(crate) seconds: f64,
}

/// Counts the words of the file at `input`.
pub(crate) fn count(worker: &mut Worker, input: &Path, combine: bool) -> anyhow::Result<Counted> {
    let began = Instant::now();
    let mut text = Text::open(input, worker.index(), worker.peers())?;
    let bytes = text.bytes();
    let counts = match combine {
        true => of_counts(worker, &mut text)?,
        false => of_words(worker, &mut text)?,
    };
    Ok(Counted { counts, bytes, seconds: began.elapsed().as_secs_f64() })
}

/// Sends each word as it is.
fn of_words(worker: &mut Worker, text: &mut Text) -> anyhow::Result<Counts> {
    let counts = Rc::new(RefCell::new(Counts::default()));
    let mut input = InputHandle::<u64, ColumnBuilder<Strings>>::new_with_builder();
    let probe = worker.dataflow(|scope| {
        let counts = Rc::clone(&counts);
        let exchange = ExchangeCore::<ColumnBuilder<Strings>, _>::new_core(place);
        let words = input.to_stream(scope);
        let done = words.unary::<Nothing, _, _, _>(exchange, "Count", move |_, _| {
            move |input, _output| {
                let mut counts = counts.borrow_mut();
                input.for_each(|_, column| {
                    for word in column.borrow().into_index_iter() {
                        add(&mut counts, word, 1);
                    }
                });
            }
        });
        done.probe().0
    });
    while let Some(piece) = text.next()? {
        for word in words(piece) {
            input.send(word);
        }
        worker.step();
    }
    input.close();
    worker.step_or_park_while(None, || !probe.done());
    Ok(counts.take())
}

/// Counts the words of the part, and then sends each with its count.
fn of_counts(worker: &mut Worker, text: &mut Text) -> anyhow::Result<Counts> {
    type WordCounts = (Strings, Vec<u64>);
    let counts = Rc::new(RefCell::new(Counts::default()));
    let mut input = InputHandle::<u64, ColumnBuilder<WordCounts>>::new_with_builder();
    let probe = worker.dataflow(|scope| {
        let counts = Rc::clone(&counts);
        let exchange =
            ExchangeCore::<ColumnBuilder<WordCounts>, _>::new_core(|(word, _): &(&[u8], &u64)| {
                place(word)
            });
        let words = input.to_stream(scope);
        let done = words.unary::<Nothing, _, _, _>(exchange, "Count", move |_, _| {
            move |input, _output| {
                let mut counts = counts.borrow_mut();
                input.for_each(|_, column| {
                    for (word, count) in column.borrow().into_index_iter() {
                        add(&mut counts, word, *count);
                    }
                });
            }
        });
        done.probe().0
    });
    let mut own = Counts::default();
    while let Some(piece) = text.next()? {
        for word in words(piece) {
            add(&mut own, word, 1);
        }
    }
    for (word, count) in &own {
        input.send((word.as_slice(), count));
    }
    input.close();
    worker.step_or_park_while(None, || !probe.done());
    Ok(counts.take())
}

fn add(counts: &mut Counts, word: &[u8], count: u64) {
    match counts.get_mut(word) {
        Some(sum) => *sum += count,
        None => _ = counts.insert(Word::from_slice(word), count),
    }
}

/// Which worker counts a word.
fn place(word: &&[u8]) -> u64 {
    FixedState::with_seed(1).hash_one(word)
}
