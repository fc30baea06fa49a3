//! Mutations whose outcome is not known, against nodes that answer by script and remember what they have done: each has its effect once, or
//! the caller is told that it may have.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use weft_client::{Applied, Client, ErrorCode, Version};
use weft_protocol::{
    Completion, CompletionId, ErrorReply, IncrementReply, PartBuilder, PutReply, Request,
};

use crate::world::{Answer, LEASE, TIMEOUT, World, absent, key_of, put_done, refusal};

/// What a node remembers.
#[derive(Default)]
struct Memory {
    asked: Vec<Completion>,
    /// The version, or the sum, that each mutation was answered with.
    done: BTreeMap<(u64, u64), u64>,
    /// How many mutations were executed.
    executed: u64,
}

impl Memory {
    /// What the mutation of `id` is answered with, which is executed if it was not before.
    fn execute(&mut self, CompletionId { client, sequence }: CompletionId) -> u64 {
        let executed = &mut self.executed;
        *self.done.entry((client, sequence)).or_insert_with(|| {
            *executed += 1;
            *executed
        })
    }

    fn answer(&mut self, request: &Request<'_>) -> Answer {
        let Some(completion) = request.completion() else { return absent() };
        self.asked.push(completion);
        match request {
            Request::Put(_) => put_done(self.execute(completion.id)),
            Request::Increment(_) => {
                let number = self.execute(completion.id);
                let version = Version(number);
                Answer::reply(IncrementReply { version, number: number as i64 })
            }
            Request::MultiPut(multi_put) => {
                let mut part = PartBuilder::new();
                for index in 0..multi_put.pairs.len() {
                    let version = Version(self.execute(completion.id.item(index)));
                    part.push(index, &PutReply { version }).unwrap();
                }
                Answer::Reply(part.finish().to_vec())
            }
            _ => refusal(ErrorCode::Internal),
        }
    }

    fn sequences(&self) -> Vec<u64> {
        self.asked.iter().map(|completion| completion.id.sequence).collect()
    }
}

/// A node that does what it is asked, but whose answers are lost as `is_lost` says of each, by their number.
fn forgetful_network(
    world: &World,
    id: u64,
    is_lost: impl Fn(usize) -> bool + Send + Sync + 'static,
) -> Arc<Mutex<Memory>> {
    let memory = Arc::<Mutex<Memory>>::default();
    let remembered = Arc::clone(&memory);
    world.node(id, move |request| {
        let mut memory = remembered.lock().unwrap();
        let answer = memory.answer(request);
        if is_lost(memory.asked.len()) { Answer::Close } else { answer }
    });
    memory
}

#[test]
fn an_answer_that_is_lost_is_asked_for_again_under_the_same_number() {
    let world = World::remembering(1);
    let memory = forgetful_network(&world, 1, |asked| asked < 3);
    let client = world.client(&[1]);
    assert_eq!(world.run(client.put("shuttle", "weft")).unwrap(), Version(1));
    assert_eq!(memory.lock().unwrap().sequences(), [1, 1, 1]);
    assert_eq!(world.run(client.put("shuttle", "weft")).unwrap(), Version(2));
    let memory = memory.lock().unwrap();
    assert_eq!((memory.executed, memory.asked[3].id.sequence), (2, 2));
    assert_eq!(memory.asked[3].first_incomplete, 2, "the first is done");
}

#[test]
fn a_counter_counts_once_whatever_is_lost() {
    let world = World::remembering(1);
    let memory = forgetful_network(&world, 1, |asked| asked % 3 != 0 && asked % 7 != 5);
    let client = world.client(&[1]);
    for count in 1..=50 {
        let counted = world.run(client.increment("picks", 1, None)).unwrap();
        assert_eq!(counted.number, count);
    }
    assert_eq!(memory.lock().unwrap().executed, 50);
}

#[test]
fn a_primary_that_was_deposed_leaves_it_to_the_next() {
    let world = World::remembering(1);
    let memory = Arc::<Mutex<Memory>>::default();
    let remembered = Arc::clone(&memory);
    world.node(1, move |request| {
        let mut memory = remembered.lock().unwrap();
        let answer = memory.answer(request);
        // It was done, and may come to be committed or not.
        if memory.asked.len() < 3 { refusal(ErrorCode::Deposed) } else { answer }
    });
    let client = world.client(&[1]);
    assert_eq!(world.run(client.put("shuttle", "weft")).unwrap(), Version(1));
    let memory = memory.lock().unwrap();
    assert_eq!((memory.executed, memory.sequences()), (1, vec![1, 1, 1]));
}

#[test]
fn items_of_a_primary_that_was_deposed_are_left_to_the_next_under_their_numbers() {
    for is_of_one in [false, true] {
        let world = World::remembering(1);
        let memory = Arc::<Mutex<Memory>>::default();
        let remembered = Arc::clone(&memory);
        world.node(1, move |request| {
            let mut memory = remembered.lock().unwrap();
            let answer = memory.answer(request);
            match (request, memory.asked.len()) {
                // All were done, and it cannot speak for the last one any more.
                (Request::MultiPut(multi_put), 1 | 2) if is_of_one => {
                    let id = memory.asked[memory.asked.len() - 1].id;
                    let mut part = PartBuilder::new();
                    for index in 0..multi_put.pairs.len() {
                        let version = Version(memory.execute(id.item(index)));
                        let pushed = match index + 1 < multi_put.pairs.len() {
                            true => part.push(index, &PutReply { version }),
                            false => part.push_error(index, &ErrorReply::new(ErrorCode::Deposed)),
                        };
                        pushed.unwrap();
                    }
                    Answer::Reply(part.finish().to_vec())
                }
                (Request::MultiPut(_), 1 | 2) => refusal(ErrorCode::Deposed),
                _ => answer,
            }
        });
        let client = world.client(&[1]);
        let pairs: Vec<_> = (0..3).map(|number| (format!("bolt {number}"), "weft")).collect();
        let mut versions = world.run(client.multi_put(&pairs).try_collect()).unwrap();
        versions.sort_unstable();
        assert_eq!(versions, [Version(1), Version(2), Version(3)]);
        let memory = memory.lock().unwrap();
        assert_eq!(memory.executed, 3, "{:?}", memory.asked);
        assert_eq!(memory.sequences(), if is_of_one { [1, 3, 3] } else { [1, 1, 1] });
    }
}

#[test]
fn items_that_are_in_doubt_keep_their_numbers() {
    let world = World::remembering(1);
    let memory = forgetful_network(&world, 1, |asked| asked == 1 || asked == 3);
    let client = world.client(&[1]);
    // Two requests, for one carries less than 1 MiB.
    let value = vec![7; 400_000];
    let pairs: Vec<_> = (0..3).map(|number| (format!("bolt {number}"), &value)).collect();
    let mut versions = world.run(client.multi_put(&pairs).try_collect()).unwrap();
    versions.sort_unstable();
    assert_eq!(versions, [Version(1), Version(2), Version(3)]);
    let memory = memory.lock().unwrap();
    assert_eq!(memory.executed, 3);
    let mut sequences = memory.sequences();
    sequences.sort_unstable();
    sequences.dedup();
    assert_eq!(sequences, [1, 3], "{:?}", memory.asked);
}

#[test]
fn who_serves_the_key_by_then_is_asked_and_the_one_that_hangs_is_not_asked_again() {
    for multi in [false, true] {
        let world = World::remembering(3);
        let key = key_of(1, 3);
        let hangs = world.node(1, |_| Answer::Silence);
        let memory = forgetful_network(&world, 2, |_| false);
        world.node(3, |_| refusal(ErrorCode::Internal));
        let client = world.client(&[3]);
        let pairs = [(key.clone(), "weft")];
        let put = async {
            match multi {
                false => client.put(&key, "weft").await,
                true => client.multi_put(&pairs).try_collect().await.map(|versions| versions[0]),
            }
        };
        let moved_at = Duration::from_secs(1);
        let begin = world.elapsed();
        let put = world.run_until(moved_at, put, |world| world.move_all_to(2, 5));
        assert_eq!(put.unwrap(), Version(1));
        let waited = world.elapsed() - begin;
        assert!(waited < moved_at + Duration::from_millis(600), "{waited:?}");
        assert_eq!(hangs.operations().len(), 1);
        assert_eq!(memory.lock().unwrap().sequences(), [1]);

        // Reads go the same way.
        let begin = world.elapsed();
        let get = world.run(client.get(&key)).unwrap();
        assert!(get.into_object().is_none() && world.elapsed() - begin < Duration::from_millis(5));
    }
}

#[test]
fn a_read_leaves_a_node_that_hangs() {
    let world = World::new(2);
    let key = key_of(1, 2);
    let hangs = world.node(1, |_| Answer::Silence);
    world.node(2, |_| absent());
    let client = world.client(&[2]);
    let gets = join_all((0..100).map(|_| client.get(&key)));
    let before = world.maps_served();
    let moved_at = Duration::from_secs(2);
    let gets = world.run_until(moved_at, gets, |world| world.move_all_to(2, 5));
    assert!(gets.into_iter().all(|get| get.is_ok()));
    assert_eq!(hangs.operations().len(), 100, "each once");
    // All together look at the map, a few times a second.
    let maps = world.maps_served() - before;
    assert!((4..30).contains(&maps), "{maps}");
}

#[test]
fn a_doubt_that_outlives_the_time_is_told() {
    let world = World::remembering(1);
    let memory = forgetful_network(&world, 1, |_| true);
    let client = world.client(&[1]);
    let begin = world.elapsed();
    let error = world.run(client.put("shuttle", "weft")).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DisconnectedMaybeApplied);
    assert!(world.elapsed() - begin <= TIMEOUT);
    let memory = memory.lock().unwrap();
    assert!(memory.asked.len() > 20 && memory.executed == 1, "{:?}", memory.asked.len());
}

#[test]
fn a_refusal_takes_no_doubt_away() {
    let world = World::remembering(1);
    let answers = [Answer::Close, Answer::reply(ErrorReply::memory_limit(1 << 20))];
    world.node_in_turn(1, answers);
    let client = world.client(&[1]);
    let error = world.run(client.put("shuttle", "weft")).unwrap_err();
    assert_eq!(
        (error.code(), error.applied()),
        (ErrorCode::DisconnectedMaybeApplied, Applied::Maybe)
    );
}

#[test]
fn what_nodes_have_forgotten_is_asked_by_another_client_or_told() {
    let world = World::remembering(1);
    let forgotten = || refusal(ErrorCode::RequestForgotten);
    let answers = [forgotten(), put_done(1), Answer::Close, forgotten(), forgotten(), put_done(2)];
    let node = world.node_in_turn(1, answers);
    let client = world.client(&[1]);
    let opened = || world.leases().opened.load(Ordering::Relaxed);
    assert_eq!(world.run(client.put("shuttle", "weft")).unwrap(), Version(1));
    assert_eq!((opened(), node.operations().len()), (2, 2));
    // In doubt by the time at which it is forgotten.
    let error = world.run(client.put("shuttle", "weft")).unwrap_err();
    assert_eq!((error.code(), error.applied()), (ErrorCode::RequestForgotten, Applied::Maybe));
    assert_eq!(world.run(client.put("shuttle", "weft")).unwrap(), Version(2));
    assert_eq!(opened(), 3);
}

/// Lets `time` pass.
fn wait(world: &World, client: &Client, time: Duration) {
    let endpoint = client.endpoint();
    world.run(endpoint.sleep_until(endpoint.clock().now() + time));
}

#[test]
fn a_client_that_works_keeps_its_lease_and_one_that_rests_opens_another() {
    let world = World::remembering(2);
    let memory = forgetful_network(&world, 1, |_| false);
    world.node(2, |_| refusal(ErrorCode::Internal));
    let client = world.client(&[1]);
    let leases = world.leases();
    let opened = || leases.opened.load(Ordering::Relaxed);
    drop(world.run(client.get(key_of(1, 2))).unwrap());
    assert_eq!(opened(), 0, "who only reads needs none");
    let put = || world.run(client.put(key_of(1, 2), "weft")).unwrap();
    for _ in 0..100 {
        put();
        wait(&world, &client, LEASE / 12);
    }
    assert_eq!(opened(), 1);
    let renewed = leases.renewed.load(Ordering::Relaxed);
    assert!((10..=20).contains(&renewed), "{renewed}");
    wait(&world, &client, LEASE);
    put();
    assert_eq!(opened(), 2);
    leases.forgotten_to.store(2, Ordering::Relaxed);
    wait(&world, &client, LEASE / 2 + Duration::from_secs(1));
    put();
    assert_eq!(opened(), 3);
    let memory = memory.lock().unwrap();
    assert_eq!((memory.executed, memory.asked.last().unwrap().id.client), (102, 3));
    let sequences = memory.sequences();
    assert!(sequences.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{sequences:?}");
}

#[test]
fn a_lease_that_nobody_renews_does_to_its_end() {
    let world = World::remembering(5);
    let memory = forgetful_network(&world, 1, |_| false);
    (2..=5).for_each(|id| drop(world.node(id, |_| Answer::Silence)));
    let client = world.client(&[1]);
    let now = || client.endpoint().clock().now();
    let put = || world.run(client.put(key_of(1, 5), "weft"));
    put().unwrap();
    let begun_at = now();
    world.leases().are_renewed_in_vain.store(true, Ordering::Relaxed);
    wait(&world, &client, LEASE / 2);
    let (mut longest, mut puts) = (Duration::ZERO, 1);
    while now().since(begun_at) < LEASE / 10 * 9 - Duration::from_secs(3) {
        let before = now();
        put().unwrap();
        longest = longest.max(now().since(before));
        puts += 1;
        wait(&world, &client, Duration::from_millis(100));
    }
    // Who asks in vain waits for a second; others do not.
    assert!(longest <= Duration::from_millis(1_100), "{longest:?}");
    assert!(puts > 100, "{puts} puts in 21 s");
    assert_eq!(memory.lock().unwrap().executed, puts);
    assert_eq!(world.leases().opened.load(Ordering::Relaxed), 1);
}

#[test]
fn many_that_begin_at_once_open_one_lease() {
    let world = World::remembering(1);
    let memory = forgetful_network(&world, 1, |_| false);
    let client = world.client(&[1]);
    let puts = world.run(join_all((0..300).map(|_| client.put("shuttle", "weft"))));
    assert!(puts.into_iter().all(|put| put.is_ok()));
    assert_eq!(world.leases().opened.load(Ordering::Relaxed), 1);
    let mut sequences = memory.lock().unwrap().sequences();
    sequences.sort_unstable();
    assert!(sequences.into_iter().eq(1..=300));
}

#[test]
fn what_is_given_up_holds_nobody_up() {
    let world = World::remembering(2);
    world.node(1, |_| Answer::Silence);
    let memory = forgetful_network(&world, 2, |_| false);
    let client = world.client(&[2]);
    world.run(client.put(key_of(2, 2), "weft")).unwrap();
    // Once that it is sent, it is dropped.
    assert!(client.put(key_of(1, 2), "weft").now_or_never().is_none());
    world.run(client.put(key_of(2, 2), "weft")).unwrap();
    let memory = memory.lock().unwrap();
    let last = memory.asked.last().unwrap();
    assert_eq!((last.id.sequence, last.first_incomplete), (3, 3));
}

#[test]
fn nodes_that_give_no_leases_get_no_numbers() {
    let world = World::new(1);
    let node = world.node(1, |request| {
        assert_eq!(request.completion(), None);
        put_done(1)
    });
    let client = world.client(&[1]);
    for _ in 0..3 {
        world.run(client.put("shuttle", "weft")).unwrap();
    }
    assert_eq!(node.operations().len(), 3);
}
