use std::collections::HashMap;

use proptest::prelude::*;
use weft_protocol::limits::KEY_MAX;

use super::*;

const TABLE: TableId = TableId::DEFAULT;

fn name(number: usize) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

fn count_times(sketch: &mut SpaceSaving, key: &[u8], times: usize) {
    for _ in 0..times {
        sketch.count(Counted::new(TABLE, key), Access::Read);
    }
}

fn all(sketch: &SpaceSaving) -> Vec<Counter> {
    sketch.hottest(usize::MAX, |_| true)
}

#[test]
fn what_fits_is_counted_exactly_with_reads_and_writes_apart() {
    let mut sketch = SpaceSaving::new(3);
    count_times(&mut sketch, b"warp", 5);
    sketch.count(Counted::new(TABLE, b"weft"), Access::Write);
    sketch.count(Counted::new(TABLE, b"warp"), Access::Write);
    sketch.count(Counted::new(TableId(3), b"warp"), Access::Read);
    count_times(&mut sketch, b"weft", 2);
    let told: Vec<_> = all(&sketch)
        .into_iter()
        .map(|key| (key.table, key.kept.to_vec(), key.reads, key.writes, key.error))
        .collect();
    let expected = [
        (TABLE, b"warp".to_vec(), 5.0, 1.0, 0.0),
        (TABLE, b"weft".to_vec(), 2.0, 1.0, 0.0),
        (TableId(3), b"warp".to_vec(), 1.0, 0.0, 0.0),
    ];
    assert_eq!((told, sketch.total()), (expected.to_vec(), 10.0));
}

#[test]
fn a_new_key_takes_the_smallest_counter_and_its_count_is_the_error() {
    let mut sketch = SpaceSaving::new(2);
    count_times(&mut sketch, b"hot", 9);
    count_times(&mut sketch, b"cold", 4);
    count_times(&mut sketch, b"new", 1);
    let keys = all(&sketch);
    assert_eq!((&keys[0].kept[..], keys[0].seen(), keys[0].error), (&b"hot"[..], 9.0, 0.0));
    assert_eq!((&keys[1].kept[..], keys[1].seen(), keys[1].error), (&b"new"[..], 1.0, 4.0));
}

#[test]
fn of_a_long_key_the_beginning_is_kept_and_the_rest_tells_it_apart() {
    let mut sketch = SpaceSaving::new(8);
    let mut long = vec![b'k'; KEY_MAX];
    count_times(&mut sketch, &long, 3);
    *long.last_mut().unwrap() = b'l';
    count_times(&mut sketch, &long, 2);
    count_times(&mut sketch, &long[..HOT_KEY_BYTES_MAX], 1);
    let keys = all(&sketch);
    assert_eq!(keys.iter().map(Counter::seen).collect::<Vec<_>>(), [3.0, 2.0, 1.0]);
    assert!(keys.iter().all(|key| key.kept[..] == [b'k'; HOT_KEY_BYTES_MAX]));
    assert_eq!(
        keys.iter().map(|key| usize::from(key.len)).collect::<Vec<_>>(),
        [KEY_MAX, KEY_MAX, 256]
    );
    assert_eq!(keys[1].checksum, crc32c::crc32c(&long));
}

#[test]
fn no_stream_makes_it_take_more_memory_than_at_the_start() {
    let mut sketch = SpaceSaving::new(16);
    let buffers = |sketch: &SpaceSaving| {
        (sketch.counters.capacity(), sketch.checksums.capacity(), sketch.counts.capacity())
    };
    assert_eq!(buffers(&sketch), (16, 16, 16));
    for number in 0..10_000 {
        let key = vec![number as u8; KEY_MAX - number];
        sketch.count(Counted::new(TABLE, &key), Access::Write);
        if number % 1_000 == 0 {
            sketch.halve();
        }
    }
    assert_eq!(buffers(&sketch), (16, 16, 16));
}

#[test]
fn what_fades_away_leaves_and_halving_keeps_the_order() {
    let mut sketch = SpaceSaving::new(8);
    for (number, times) in [(1, 1_000), (2, 300), (3, 299), (4, 1)] {
        count_times(&mut sketch, &name(number), times);
    }
    let order = |sketch: &SpaceSaving| -> Vec<_> {
        all(sketch).into_iter().map(|key| key.kept.to_vec()).collect()
    };
    let before = order(&sketch);
    for _ in 0..6 {
        sketch.halve();
        assert_eq!(order(&sketch), before);
    }
    sketch.halve();
    assert_eq!(order(&sketch), before[..3], "1/128 is none");
    for _ in 0..10 {
        sketch.halve();
    }
    assert_eq!(order(&sketch), Vec::<Vec<u8>>::new());
    // What was forgotten is the error of what comes.
    count_times(&mut sketch, &name(4), 1);
    let key = &all(&sketch)[0];
    assert!(key.seen() == 1.0 && key.error > 0.0 && key.error < FADED, "{key:?}");
}

#[test]
fn keys_of_a_table_that_is_gone_leave() {
    let mut sketch = SpaceSaving::new(4);
    for table in [1, 2, 1] {
        sketch.count(Counted::new(TableId(table), b"key"), Access::Read);
    }
    assert_eq!(sketch.hottest(9, |table| table == TableId(2)).len(), 1);
    assert_eq!(sketch.hottest(1, |_| true)[0].table, TableId(1));
    sketch.keep_tables(|table| table == TableId(2));
    let left = all(&sketch);
    assert_eq!((left.len(), left[0].table, left[0].seen()), (1, TableId(2), 1.0));
    sketch.count(Counted::new(TableId(1), b"key"), Access::Read);
    assert_eq!(all(&sketch).len(), 2);
}

/// What befalls a sketch.
#[derive(Debug, Clone)]
enum Step {
    /// Keys are met, few of them often and many seldom.
    Meet(Vec<(u8, bool)>),
    Halve,
    ForgetTable(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = prop_oneof![3 => 0_u8..4, 2 => 0_u8..20, 1 => any::<u8>()];
    let meet = prop::collection::vec((key, any::<bool>()), 1..60).prop_map(Step::Meet);
    let step = prop_oneof![
        12 => meet,
        3 => Just(Step::Halve),
        1 => (0_u16..3).prop_map(Step::ForgetTable),
    ];
    prop::collection::vec(step, 1..25)
}

proptest! {
    /// Against exact counts of every key.
    #[test]
    fn counts_are_within_their_errors_and_no_frequent_key_is_missing(
        steps in steps(),
        capacity in 1_usize..24,
    ) {
        let mut sketch = SpaceSaving::new(capacity);
        let mut exact = HashMap::<(TableId, Vec<u8>), f64>::new();
        for step in steps {
            match step {
                Step::Meet(keys) => for (number, is_write) in keys {
                    let (table, key) = (TableId(u16::from(number) % 3), name(usize::from(number)));
                    let access = if is_write { Access::Write } else { Access::Read };
                    sketch.count(Counted::new(table, &key), access);
                    *exact.entry((table, key)).or_default() += 1.0;
                },
                Step::Halve => {
                    sketch.halve();
                    exact.values_mut().for_each(|count| *count /= 2.0);
                }
                Step::ForgetTable(gone) => {
                    sketch.keep_tables(|table| table != TableId(gone));
                    exact.retain(|(table, _), _| *table != TableId(gone));
                }
            }
            let counters = all(&sketch);
            prop_assert!(counters.len() <= capacity);
            let bound = sketch.total() / capacity as f64 + FADED;
            let mut counted = HashMap::new();
            for counter in &counters {
                let key = (counter.table, counter.kept.to_vec());
                let truth = exact.get(&key).copied().unwrap_or_default();
                prop_assert!(counter.seen() <= truth, "{key:?}: {counter:?} of {truth}");
                prop_assert!(truth <= counter.seen() + counter.error, "{key:?}: {counter:?} of {truth}");
                prop_assert!(counter.error <= bound, "{counter:?} and {bound}");
                prop_assert!(counted.insert(key, ()).is_none(), "it has one counter");
            }
            for (key, &truth) in &exact {
                if truth > bound {
                    prop_assert!(counted.contains_key(key), "{key:?} was met {truth} times, {bound} are enough");
                }
            }
        }
    }
}
