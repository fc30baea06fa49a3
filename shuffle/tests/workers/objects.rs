//! Records that are graphs of objects, over several workers.

use std::collections::BTreeMap;

use weft_object::{Full, Graph, Link, Ref, Root, Seq, Text, Types, Wire};
use weft_shuffle::{Dataset, JobError, Worker, WorkerConfig, WorkerId, records};

use crate::threads::{run_with, share};

#[derive(Wire, Clone, Copy)]
#[repr(C)]
struct Person {
    name: Text,
    number: u64,
    friend: Option<Link<Person>>,
    flags: u32,
}

#[derive(Wire, Clone, Copy)]
#[repr(C)]
struct Group {
    people: Seq<Link<Person>>,
    about: Text,
}

fn config(config: WorkerConfig) -> WorkerConfig {
    WorkerConfig { types: Types::new().with::<u64>().with::<Root<Group>>(), ..config }
}

/// Names of all lengths, so that some lie in their fields.
fn name(number: u64) -> String {
    format!("{number}{}", "\u{e9}".repeat(number as usize % 13))
}

/// So many people each of whom is the friend of the one before, and the first of the last.
fn build<'g>(graph: &mut Graph<'g>, number: u64) -> Result<Ref<'g, Group>, Full> {
    let mut people: Vec<Ref<'g, Person>> = Vec::new();
    for person in number..number + number % 7 + 1 {
        let name = graph.text(&name(person))?;
        let friend = people.last().map(|before| before.link());
        people.push(graph.alloc(Person { name, number: person, friend, flags: 0 })?);
    }
    graph.get_mut(people[0]).friend = people.last().map(|last| last.link());
    let people: Vec<Link<Person>> = people.into_iter().map(Ref::link).collect();
    let people = graph.seq(&people)?;
    let about = graph.text(&format!("the group of {number}"))?;
    graph.alloc(Group { people, about })
}

const GROUPS: u64 = 20_000;

/// What each group that came here says of itself, with whom it came from.
fn exchange(worker: &Worker) -> Result<BTreeMap<u64, (WorkerId, String)>, JobError> {
    let mut found = BTreeMap::new();
    let workers = worker.workers();
    records(share(worker, GROUPS)).exchange_graphs(
        worker,
        |number| WorkerId((number / 3) as usize % workers),
        |number, graph| build(graph, *number),
        |from, group: &Group, view| {
            let people = view.seq(group.people);
            let first = view.get(people[0]).number;
            let mut said = view.text(&group.about).to_owned();
            for link in people {
                let person = view.get(*link);
                let friend = view.get(person.friend.expect("everybody has one"));
                said += &format!(", {} of {}", view.text(&person.name), view.text(&friend.name));
            }
            assert_eq!(found.insert(first, (from, said)), None, "{first} came twice");
            Ok(())
        },
    )?;
    Ok(found)
}

#[test]
fn graphs_come_to_where_they_are_placed_with_all_that_they_lead_to() {
    for workers in [1, 2, 3, 5] {
        let parts = run_with(workers, config, |worker, _| {
            let found = exchange(worker).unwrap();
            // Nobody leaves before all have seen the end.
            worker.gather(0_u64).unwrap();
            found
        });
        let mut count = 0;
        for (id, part) in parts.into_iter().enumerate() {
            for (number, (from, said)) in part {
                assert_eq!((number / 3) as usize % workers, id);
                assert_eq!(number as usize % workers, from.0, "who had it");
                let people: Vec<u64> = (number..number + number % 7 + 1).collect();
                let friends = people.last().into_iter().chain(&people);
                let all = people.iter().zip(friends);
                let all = all.map(|(one, other)| format!(", {} of {}", name(*one), name(*other)));
                assert_eq!(said, format!("the group of {number}{}", all.collect::<String>()));
                count += 1;
            }
        }
        assert_eq!(count, GROUPS, "{workers} workers");
    }
}

/// An exchange of one record with a text of so many bytes to the other worker.
fn exchange_text(worker: &Worker, len: usize, to: WorkerId) -> Result<Vec<usize>, JobError> {
    let mut lens = Vec::new();
    records([len]).exchange_graphs(
        worker,
        |_| to,
        |len, graph| {
            let about = graph.text(&"x".repeat(*len))?;
            graph.alloc(Group { people: Seq::EMPTY, about })
        },
        |_, group: &Group, view| {
            lens.push(view.text(&group.about).len());
            Ok(())
        },
    )?;
    Ok(lens)
}

#[test]
fn a_record_is_in_one_segment_however_long_that_has_to_be() {
    run_with(2, config, |worker, _| {
        worker.gather(0_u64).unwrap();
        let (own, other) = (worker.id(), WorkerId(1 - worker.id().0));
        for to in [own, other] {
            for len in [0, 1, 60_000, 70_000, 1_000_000] {
                assert_eq!(exchange_text(worker, len, to).unwrap(), [len]);
            }
        }
        let error = exchange_text(worker, 1_100_000, other).unwrap_err();
        assert!(matches!(error, JobError::GraphTooLong { limit: 1_044_480 }), "{error}");
        let error = exchange_text(worker, 70 << 20, other).unwrap_err();
        assert!(matches!(error, JobError::GraphTooLong { .. }), "{error}");
    });
}

#[test]
fn a_worker_that_there_is_not_gets_nothing() {
    run_with(2, config, |worker, _| {
        worker.gather(0_u64).unwrap();
        let error = exchange_text(worker, 5, WorkerId(2)).unwrap_err();
        assert!(matches!(error, JobError::NoSuchWorker { workers: 2, .. }), "{error}");
    });
}

#[test]
fn what_takes_a_record_may_fail() {
    run_with(2, config, |worker, _| {
        worker.gather(0_u64).unwrap();
        let mut taken = 0;
        let ended = records(0..10_u64).exchange_graphs(
            worker,
            |number| WorkerId(*number as usize % 2),
            |number, graph| build(graph, *number),
            |_, _: &Group, _| {
                taken += 1;
                if taken == 7 { Err(JobError::Job("enough".to_owned())) } else { Ok(()) }
            },
        );
        assert_eq!(ended.unwrap_err().to_string(), "enough");
        assert_eq!(taken, 7);
    });
}
