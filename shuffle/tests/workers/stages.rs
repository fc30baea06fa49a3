//! What workers note of what they have done.

use std::sync::Mutex;
use std::time::Duration;

use weft_object::Pair;
use weft_shuffle::{
    Dataset, Origin, Ranges, Round, Span, Stage, Stages, Verb, WorkerConfig, WorkerId, records,
    worker_of,
};

use crate::threads::{run, run_with, share};

/// Number, verb and inputs of each stage.
fn graph(stages: &Stages) -> Vec<(u32, Verb, Vec<u32>)> {
    let numbers = |stage: &Stage| {
        let number = |origin: &Origin| match origin {
            Origin::Stage(number) => *number,
            Origin::Read(path) => panic!("nobody has read {path:?}"),
        };
        stage.inputs.iter().map(number).collect()
    };
    stages.stages.iter().map(|stage| (stage.number, stage.verb, numbers(stage))).collect()
}

/// What holds of all that is noted, whatever was done.
fn check(of_workers: &[Stages]) {
    let graphs: Vec<_> = of_workers.iter().map(graph).collect();
    assert!(graphs.windows(2).all(|pair| pair[0] == pair[1]), "all did the same: {graphs:?}");
    for (worker, stages) in of_workers.iter().enumerate() {
        let spans = &stages.timeline;
        assert!(spans.is_sorted_by_key(|span| span.began));
        for Stage { number, time, shortest, longest, waiting, times, bytes_sent, .. } in
            &stages.stages
        {
            assert!(shortest <= longest && longest <= time && *waiting <= *time, "{stages:?}");
            let of_stage = || spans.iter().filter(|span| span.number == *number);
            assert_eq!(of_stage().map(|span| span.time).sum::<Duration>(), *time);
            assert_eq!(of_stage().map(|span| span.times).sum::<u64>(), *times);
            assert_eq!(bytes_sent[worker], 0, "nothing is sent to oneself");
        }
        let busy: Duration = spans.iter().map(|span| span.time).sum();
        assert!(busy <= stages.elapsed, "no moment belongs to two stages: {stages:?}");
        assert!(spans.iter().all(|span| span.ended <= stages.elapsed));
    }
    for at in 0..of_workers[0].stages.len() {
        let all = || of_workers.iter().map(|stages| &stages.stages[at]);
        let sent: u64 = all().map(|stage| stage.records_sent).sum();
        let received: u64 = all().map(|stage| stage.records_received).sum();
        assert_eq!(
            sent, received,
            "what one sends another receives: {:?}",
            of_workers[0].stages[at]
        );
    }
}

#[test]
fn a_plan_is_noted_as_the_stages_that_it_is_cut_into() {
    const KEYS: u64 = 1_000;
    for workers in [1, 2, 3] {
        let of_workers = run(workers, |worker| {
            let counted = records(share(worker, 100_000))
                .map(|number| Pair { key: number / 7 % KEYS, value: 1_u64 })
                .reduce_by_key(|one, other| one + other);
            counted.sort_by_key().collect(worker).unwrap();
            worker.stages()
        });
        check(&of_workers);
        let expected = [
            (0, Verb::ReduceByKey, vec![]),
            (1, Verb::Sample, vec![0]),
            (2, Verb::Sample, vec![1]),
            (3, Verb::SortByKey, vec![2]),
            (4, Verb::PartitionBy, vec![3]),
        ];
        assert_eq!(graph(&of_workers[0]), expected);
        for (id, stages) in of_workers.iter().enumerate() {
            // Each worker has all keys, and gives each to the one that it belongs to.
            let own =
                (0..KEYS).filter(|key| worker_of(key, workers) == WorkerId(id)).count() as u64;
            let others = workers as u64 - 1;
            let reduce = &stages.stages[0];
            assert_eq!((reduce.records_kept, reduce.records_sent), (own, KEYS - own));
            assert_eq!((reduce.records_received, reduce.segments), (others * own, others));
            // Records of 16 bytes, beside a head of each segment and what ends a stage.
            let bytes: u64 = reduce.bytes_sent.iter().sum();
            let least = 16 * reduce.records_sent;
            assert!((least..least + 500).contains(&bytes), "{bytes} for {least}");
        }
        let collected: Vec<u64> = of_workers
            .iter()
            .map(|stages| stages.stages[4].records_kept + stages.stages[4].records_received)
            .collect();
        assert_eq!((collected[0], collected[1..].iter().sum::<u64>()), (KEYS, 0));
    }
}

#[test]
fn numbers_are_reduced_over_what_was_reduced_by_key() {
    let ranges = Ranges::of_counts(&[300, 200]);
    let of_workers = run(2, |worker| {
        let reduced = records(share(worker, 100_000))
            .map(|number| Pair { key: number / 7 % 500, value: 1.0 })
            .reduce_by_key(|one: f64, other| one + other)
            .reduce_by_index(&ranges, |one, other| one + other)
            .to_vec(worker)
            .unwrap();
        assert!(reduced.iter().map(|pair| pair.key).eq(ranges.of(worker.id())));
        worker.stages()
    });
    check(&of_workers);
    let expected = [(0, Verb::ReduceByKey, vec![]), (1, Verb::ReduceByIndex, vec![0])];
    assert_eq!(graph(&of_workers[0]), expected);
    for (id, stages) in of_workers.iter().enumerate() {
        let reduce = &stages.stages[1];
        let is_here = |key: &u64| worker_of(key, 2) == WorkerId(id);
        let keys = || (0..500_u64).filter(is_here);
        let own = keys().filter(|key| ranges.of(WorkerId(id)).contains(key)).count();
        let sent = keys().count() - own;
        assert_eq!((reduce.records_kept, reduce.records_sent), (own as u64, sent as u64));
    }
}

#[test]
fn a_join_goes_on_with_both_of_its_sides() {
    let of_workers = run(2, |worker| {
        let side = || {
            let pairs = records(share(worker, 10_000)).map(|key| Pair { key, value: key });
            pairs.reduce_by_key(|one, _| one)
        };
        let joined = side().join(side()).map(|(key, value, _)| Pair { key, value });
        joined.sort_by_key().to_vec(worker).unwrap();
        let small = records([Pair { key: 1_u64, value: 1_u64 }]);
        let joined = side().join_small(small).map(|(key, value, _)| Pair { key, value });
        joined.reduce_by_key(|one, _| one).to_vec(worker).unwrap();
        worker.stages()
    });
    check(&of_workers);
    let expected = [
        (0, Verb::ReduceByKey, vec![]),
        (1, Verb::Join, vec![0]),
        (2, Verb::Sample, vec![1]),
        (3, Verb::ReduceByKey, vec![]),
        (4, Verb::Join, vec![3]),
        (5, Verb::Sample, vec![4]),
        (6, Verb::Sample, vec![2, 5]),
        (7, Verb::Sample, vec![6]),
        (8, Verb::SortByKey, vec![7]),
        (9, Verb::Broadcast, vec![8]),
        (10, Verb::ReduceByKey, vec![8]),
        (11, Verb::ReduceByKey, vec![9, 10]),
    ];
    assert_eq!(graph(&of_workers[0]), expected);
}

#[test]
fn rounds_are_stages_that_are_there_several_times() {
    const ROUNDS: usize = 3_000;
    let of_workers = run(2, |worker| {
        worker.gather(0_u64).unwrap();
        worker.gather(0_u64).unwrap();
        records([1_u64])
            .iterate_until(ROUNDS, |worker, round, numbers: Vec<u64>| {
                worker.gather(round as u64)?;
                worker.gather(round as u64)?;
                let next = records(numbers).partition_by(|_| WorkerId(0));
                // A loop in a loop is the same one in each round.
                let inner = records([0_u64]).iterate(2, |_, _, numbers: Vec<u64>| {
                    Ok(records(numbers).broadcast().map(|number| number).filter(|_| false))
                });
                inner.to_vec(worker)?;
                Ok(if round + 1 == ROUNDS { Round::Last(next) } else { Round::Next(next) })
            })
            .to_vec(worker)
            .unwrap();
        worker.gather(0_u64).unwrap();
        worker.stages()
    });
    check(&of_workers);
    let found: Vec<_> = of_workers[0]
        .stages
        .iter()
        .map(|stage| (stage.verb, stage.in_loop, stage.times, stage.inputs.clone()))
        .collect();
    let [first, gather, broadcast, partition, last] = &found[..] else { panic!("{found:?}") };
    let rounds = ROUNDS as u64;
    assert_eq!((first.0, first.1, first.2), (Verb::Gather, None, 2));
    assert_eq!((gather.0, gather.1, gather.2), (Verb::Gather, Some(0), 2 * rounds));
    assert_eq!((broadcast.0, broadcast.1, broadcast.2), (Verb::Broadcast, Some(1), 2 * rounds));
    assert_eq!((partition.0, partition.1, partition.2), (Verb::PartitionBy, Some(0), rounds));
    assert_eq!((last.0, last.1, last.2), (Verb::Gather, None, 1));
    let number = |at: usize| Origin::Stage(of_workers[0].stages[at].number);
    // From before the loop, and from the end of the round before.
    assert_eq!(gather.3, [number(0), number(3)]);
    assert_eq!(last.3, [number(3)]);
    assert!(of_workers[0].timeline.len() <= 1024, "{} spans", of_workers[0].timeline.len());
    assert_eq!(of_workers[0].merged, 0);
}

#[test]
fn what_is_noted_is_bounded_whatever_a_program_does() {
    const TIMES: u64 = 2_000;
    let of_workers = run(2, |worker| {
        for _ in 0..TIMES {
            records([1_u64]).partition_by(|_| WorkerId(1)).to_vec(worker).unwrap();
            worker.sum(1.0).unwrap();
        }
        worker.stages()
    });
    check(&of_workers);
    let Stages { stages, timeline, merged, .. } = &of_workers[0];
    assert!(stages.len() <= 300, "{} stages", stages.len());
    assert!(timeline.len() <= 1024, "{} spans", timeline.len());
    let times =
        |verb| stages.iter().filter(move |stage| stage.verb == verb).map(|stage| stage.times);
    assert_eq!(times(Verb::PartitionBy).sum::<u64>(), TIMES);
    assert_eq!(times(Verb::Gather).sum::<u64>(), TIMES);
    assert_eq!(*merged, 2 * TIMES - stages.len() as u64);
}

#[test]
fn another_thread_sees_which_stage_a_worker_is_in() {
    let seen = run(2, |worker| {
        let (live, seen) = (worker.live(), Mutex::new(Vec::new()));
        let look = |what: &str| {
            let now = live.now().to_string();
            let mut seen = seen.lock().unwrap();
            if !seen.iter().any(|(_, known)| *known == now) {
                seen.push((what.to_owned(), now));
            }
        };
        look("begin");
        records(share(worker, 1_000))
            .map(|key| {
                look("before the reduction");
                Pair { key, value: key }
            })
            .reduce_by_key(|one, _| one)
            .map(|pair| {
                look("before the partition");
                pair.key
            })
            .partition_by(|_| WorkerId(0))
            .run(worker, |_| {
                look("after it");
                Ok(())
            })
            .unwrap();
        let is_first = worker.id() == WorkerId(0);
        let mut seen = seen.into_inner().unwrap();
        seen.retain(|(what, _)| is_first || what != "after it");
        seen
    });
    let expected = [
        ("begin", "what comes before the first stage"),
        ("before the reduction", "stage 0 (reduce_by_key)"),
        ("before the partition", "stage 1 (partition_by)"),
        ("after it", "what follows stage 1 (partition_by)"),
    ];
    let texts = |seen: &[(String, String)]| -> Vec<(String, String)> { seen.to_vec() };
    let expected: Vec<_> =
        expected.iter().map(|(what, now)| ((*what).to_owned(), (*now).to_owned())).collect();
    assert_eq!(texts(&seen[0]), expected);
    assert_eq!(texts(&seen[1]), expected[..3]);
}

#[test]
fn what_goes_to_files_is_of_the_stage_that_had_no_room() {
    let with_little_memory = |config| WorkerConfig { memory_bytes: 16 << 20, ..config };
    let of_workers = run_with(2, with_little_memory, |worker, _| {
        let pairs = records(share(worker, 2_000_000)).map(|key| Pair { key: !key, value: key });
        pairs.sort_by_key().run(worker, |_| Ok(())).unwrap();
        worker.gather(0_u64).unwrap();
        (worker.stages(), worker.bytes_spilled())
    });
    let (stages, spilled): (Vec<Stages>, Vec<u64>) = of_workers.into_iter().unzip();
    check(&stages);
    for (stages, spilled) in stages.iter().zip(spilled) {
        assert!(spilled > 1 << 20, "{spilled}");
        let of_stages: u64 = stages.stages.iter().map(|stage| stage.bytes_spilled).sum();
        assert_eq!(of_stages, spilled);
        let gather = stages.stages.iter().find(|stage| stage.verb == Verb::Gather).unwrap();
        assert_eq!(gather.bytes_spilled, 0);
        let sort = stages.stages.iter().find(|stage| stage.verb == Verb::SortByKey).unwrap();
        assert!(sort.bytes_spilled > 0, "{stages:?}");
    }
}

#[test]
fn a_worker_that_waits_for_another_says_so() {
    let of_workers = run(2, |worker| {
        worker.gather(0_u64).unwrap();
        let is_slow = worker.id() == WorkerId(1);
        let numbers = records(share(worker, 8)).map(move |number| {
            if is_slow {
                let until = worker.clock().now() + Duration::from_millis(20);
                while worker.clock().now() < until {}
            }
            number
        });
        numbers.partition_by(|_| WorkerId(0)).to_vec(worker).unwrap();
        worker.stages()
    });
    check(&of_workers);
    let [quick, slow] = [0, 1].map(|id: usize| &of_workers[id].stages[1]);
    assert!(quick.waiting >= Duration::from_millis(40), "{quick:?}");
    assert!(slow.time >= Duration::from_millis(80), "{slow:?}");
    assert!(slow.waiting < slow.time / 2, "{slow:?}");
    let span: &Span = of_workers[1].timeline.last().unwrap();
    assert_eq!((span.number, span.times, span.time), (slow.number, 1, slow.time));
}
