//! The client against nodes that answer by script, on the simulated network, in virtual time: every
//! kind of trouble at exactly the moment that matters.

#![expect(clippy::unwrap_used, reason = "the script's parts are functions that tests call")]

#[path = "scripted/exactly_once.rs"]
mod exactly_once;
#[path = "scripted/world.rs"]
mod world;

use std::time::Duration;

use futures_util::future::join_all;
use weft_client::{Applied, ClientError, ErrorCode, NodeId, Unreachable, Version};
use weft_protocol::limits::VALUE_MAX;
use weft_protocol::{Catalog, ErrorReply, GetReply, Operation, Request, TableOptions, TablesReply};

use self::world::{
    Answer, TIMEOUT, World, absent, deleted, found, key_of, multi_part, put_done, refusal,
};

#[test]
fn an_operation_asks_the_owner_and_nobody_else() {
    let world = World::new(3);
    world.node(1, |_| refusal(ErrorCode::Internal));
    let owner = world.node(2, |request| match request {
        Request::Get(_) => found(b"weft", 7),
        Request::Put(_) => put_done(8),
        Request::Delete(_) => deleted(9),
        _ => refusal(ErrorCode::Internal),
    });
    world.node(3, |_| refusal(ErrorCode::Internal));
    let client = world.client(&[1]);
    let key = key_of(2, 3);
    world.run(async {
        let object = client.get(&key).await.unwrap().into_object().unwrap();
        assert_eq!((&*object, object.version()), (&b"weft"[..], Version(7)));
        assert_eq!(client.put(&key, "warp").await.unwrap(), Version(8));
        assert!(client.delete(&key).await.unwrap().existed);
    });
    assert_eq!(owner.operations(), [Operation::Get, Operation::Put, Operation::Delete]);
}

#[test]
fn the_first_map_comes_from_whoever_answers() {
    let world = World::new(3);
    world.node(3, |_| absent());
    // Nobody listens at the first address, and the second takes the call and says nothing.
    world.node_without_map(2);
    let client = world.client(&[1, 2, 3]);
    assert_eq!(client.map().epoch(), 1);
    // Patience with the silent one, not the whole timeout.
    assert!(world.elapsed() < Duration::from_secs(1));
}

/// Who starts a cluster and writes to it in one script is not to poll for it.
#[test]
fn a_cluster_that_is_being_formed_is_waited_for() {
    let forms = Duration::from_millis(700);
    let world = World::forming(2, forms);
    world.node(1, |_| put_done(1));
    let client = world.client(&[1, 2]);
    let elapsed = world.elapsed();
    assert!(elapsed >= forms && elapsed < forms + Duration::from_millis(200), "{elapsed:?}");
    assert_eq!(world.run(client.put(key_of(1, 2), "weft")).unwrap(), Version(1));

    // Though another one takes the question and says nothing.
    let world = World::forming(2, forms);
    world.node(1, |_| put_done(1));
    world.node_without_map(2);
    world.client(&[1, 2]);
    assert!(world.elapsed() < forms + Duration::from_millis(500), "{:?}", world.elapsed());

    let world = World::forming(2, 2 * TIMEOUT);
    world.node(1, |_| put_done(1));
    let error = world.try_client(&[1, 2]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ClusterNotReachable);
    assert!(world.elapsed() > TIMEOUT - Duration::from_millis(100), "{:?}", world.elapsed());
    assert!(error.to_string().contains("not serving"), "{error}");
}

#[test]
fn without_any_map_every_address_is_accounted_for() {
    let world = World::new(2);
    let error = world.try_client(&[1, 2]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ClusterNotReachable);
    assert_eq!(error.applied(), Applied::No);
    let ClientError::ClusterNotReachable { attempts } = error else { panic!("{error}") };
    let asked: Vec<_> = attempts.iter().map(|attempt| &*attempt.address).collect();
    assert_eq!(asked, [world::address(1).to_string(), world::address(2).to_string()]);
}

#[test]
fn a_moved_key_is_followed_with_the_newer_map() {
    let world = World::new(2);
    let key = key_of(1, 2);
    let former = world.node(1, |_| Answer::reply(ErrorReply::wrong_owner(5)));
    let owner = world.node(2, |_| put_done(3));
    let client = world.client(&[1]);
    world.move_all_to(2, 5);
    let version = world.run(client.put(&key, "weft")).unwrap();
    assert_eq!(version, Version(3));
    assert_eq!(client.map().epoch(), 5);
    // The first refused it, so it had no effect there: asking the second is no repetition.
    assert_eq!((former.operations().len(), owner.operations().len()), (1, 1));
    world.run(client.put(&key, "again")).unwrap();
    assert_eq!((former.operations().len(), owner.operations().len()), (1, 2));
}

#[test]
fn many_that_are_sent_elsewhere_fetch_the_map_once() {
    let world = World::new(2);
    let key = key_of(1, 2);
    world.node(1, |_| Answer::reply(ErrorReply::wrong_owner(5)));
    let owner = world.node(2, |_| absent());
    let client = world.client(&[1]);
    world.move_all_to(2, 5);
    let before = world.maps_served();
    let gets = world.run(join_all((0..500).map(|_| client.get(&key))));
    assert!(gets.into_iter().all(|get| get.unwrap().into_object().is_none()));
    assert_eq!(owner.operations().len(), 500);
    assert_eq!(world.maps_served() - before, 1);
}

#[test]
fn a_node_with_an_older_map_is_not_believed() {
    let world = World::new(3);
    let key = key_of(2, 3);
    // The first to be asked for the map.
    world.node_behind(1);
    let former = world.node(2, |_| Answer::reply(ErrorReply::wrong_owner(5)));
    let owner = world.node(3, |_| put_done(3));
    let client = world.client(&[3]);
    world.move_all_to(3, 5);
    world.run(client.put(&key, "weft")).unwrap();
    assert_eq!((former.operations().len(), owner.operations().len()), (1, 1));
}

/// Nobody tells clients of before that an operator has accepted the loss: they look.
#[test]
fn what_was_lost_is_looked_for_with_each_operation_and_not_waited_for() {
    let world = World::new(1);
    let owner = world.node(1, |_| put_done(3));
    world.lose_all(5);
    let (client, key) = (world.client(&[1]), key_of(1, 1));
    for _ in 0..2 {
        let (before, began) = (world.maps_served(), world.elapsed());
        let error = world.run(client.put(&key, "weft")).unwrap_err();
        assert_eq!((error.code(), error.applied()), (ErrorCode::PartitionLost, Applied::No));
        assert_eq!(world.maps_served() - before, 1);
        assert!(world.elapsed() - began < Duration::from_millis(10), "nothing is waited for");
    }
    let asked = owner.operations().len();
    world.move_all_to(1, 6);
    assert_eq!(world.run(client.put(&key, "anew")).unwrap(), Version(3));
    assert_eq!(owner.operations().len() - asked, 1, "and nobody was asked before");
    assert_eq!(asked, 0);
}

#[test]
fn an_owner_that_nobody_finds_is_given_up_at_the_deadline() {
    let world = World::new(2);
    let key = key_of(1, 2);
    // Node 1 knows of a map that nobody has.
    let owner = world.node(1, |_| Answer::reply(ErrorReply::wrong_owner(9)));
    world.node(2, |_| absent());
    let client = world.client(&[1]);
    let begin = world.elapsed();
    let error = world.run(client.put(&key, "weft")).unwrap_err();
    assert_eq!((error.code(), error.applied()), (ErrorCode::MapUnsettled, Applied::No));
    assert!(world.elapsed() - begin <= TIMEOUT);
    // Pauses, not a storm: after the first few they are 50 to 100 ms long.
    let asked = owner.operations().len();
    assert!((40..150).contains(&asked), "{asked}");
}

#[test]
fn a_mutation_that_may_have_been_applied_is_asked_once() {
    let world = World::new(1);
    let node = world.node(1, |_| Answer::Close);
    let client = world.client(&[1]);
    for mutate in [true, false] {
        let asked = node.operations().len();
        let error = world.run(async {
            match mutate {
                true => client.put("shuttle", "weft").await.unwrap_err(),
                false => client.delete("shuttle").await.unwrap_err(),
            }
        });
        assert_eq!(error.code(), ErrorCode::DisconnectedMaybeApplied);
        assert_eq!(error.applied(), Applied::Maybe);
        assert_eq!(node.operations().len(), asked + 1);
    }
}

#[test]
fn a_read_is_asked_again_on_a_new_connection() {
    let world = World::new(1);
    let node = world.node_in_turn(1, [Answer::Close, Answer::Close, found(b"weft", 3)]);
    let client = world.client(&[1]);
    let object = world.run(client.get("shuttle")).unwrap().into_object().unwrap();
    assert_eq!(&*object, b"weft");
    assert_eq!(node.operations().len(), 3);
}

#[test]
fn silence_ends_at_the_deadline() {
    let world = World::new(1);
    let node = world.node(1, |_| Answer::Silence);
    let client = world.client(&[1]);
    let begin = world.elapsed();
    let error = world.run(client.put("shuttle", "weft")).unwrap_err();
    assert_eq!(world.elapsed() - begin, TIMEOUT);
    assert_eq!(error.code(), ErrorCode::DeadlineMaybeApplied);
    let error = world.run(client.get("shuttle")).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeadlineMaybeApplied);
    assert_eq!(node.operations(), [Operation::Put, Operation::Get]);
}

#[test]
fn a_node_that_cannot_be_reached_is_tried_until_the_deadline() {
    let world = World::new(2);
    world.node(2, |_| absent());
    let client = world.client(&[2]);
    let begin = world.elapsed();
    for mutate in [true, false] {
        let key = key_of(1, 2);
        let error = world.run(async {
            match mutate {
                true => client.put(&key, "weft").await.unwrap_err(),
                false => client.get(&key).await.unwrap_err(),
            }
        });
        assert_eq!((error.code(), error.applied()), (ErrorCode::NotReachable, Applied::No));
        assert!(matches!(error, ClientError::Unreachable { node, .. } if node.id == NodeId(1)));
    }
    let taken = world.elapsed() - begin;
    assert!(taken <= 2 * TIMEOUT && taken > TIMEOUT, "{taken:?}");
}

#[test]
fn a_node_that_comes_back_serves_what_waits_for_it() {
    let world = World::new(2);
    world.node(2, |_| absent());
    let client = world.client(&[2]);
    let key = key_of(1, 2);
    let put = client.put(&key, "weft");
    let version = world.run_until(Duration::from_secs(2), put, |world| {
        world.node(1, |_| put_done(4));
    });
    assert_eq!(version.unwrap(), Version(4));
}

#[test]
fn an_address_where_another_node_answers_is_not_used() {
    let world = World::new(2);
    // Node 2 has taken node 1's address.
    world.node(2, |_| absent());
    let usurper = world.node_at(3, 1, |_| found(b"wrong", 1));
    let client = world.client(&[2]);
    let error = world.run(client.get(key_of(1, 2))).unwrap_err();
    assert_eq!(error.code(), ErrorCode::HandshakeRefused);
    let found = NodeId(3);
    // Both are named, and the advice is not to start what runs already.
    let text = error.to_string();
    for part in
        ["node 1 at ", "node 3 answers at its address", "--node-id, --listen and --advertise"]
    {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
    assert!(!text.contains("check that it runs"), "{text}");
    assert!(
        matches!(error, ClientError::Unreachable { reason: Unreachable::OtherNode { found: f }, .. } if f == found)
    );
    assert_eq!(usurper.operations(), []);
}

#[test]
fn refusals_say_what_the_node_said() {
    let world = World::new(1);
    world.node(1, |_| {
        Answer::reply(ErrorReply::memory_limit(1 << 20).with_detail("1 MiB of 1 MiB are in use"))
    });
    let client = world.client(&[1]);
    let error = world.run(client.put("shuttle", "weft")).unwrap_err();
    assert_eq!((error.code(), error.applied()), (ErrorCode::MemoryLimitReached, Applied::No));
    let text = error.to_string();
    for part in ["node 1 at 10.0.0.1:7400", "1 MiB of 1 MiB are in use", "raise the node's memory"]
    {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
}

#[test]
fn bytes_that_are_no_reply_may_hide_an_effect() {
    let world = World::new(1);
    world.node(1, |_| Answer::Reply(vec![0; 3]));
    let client = world.client(&[1]);
    let error = world.run(client.put("shuttle", "weft")).unwrap_err();
    assert_eq!((error.code(), error.applied()), (ErrorCode::MalformedReply, Applied::Maybe));
}

#[test]
fn what_is_too_large_is_refused_before_it_is_sent() {
    let world = World::new(1);
    let node = world.node(1, |_| put_done(1));
    let client = world.client(&[1]);
    let (long, large) = (vec![b'k'; 65_536], vec![b'v'; VALUE_MAX + 1]);
    world.run(async {
        assert_eq!(client.get(&long).await.unwrap_err().code(), ErrorCode::KeyTooLong);
        let error = client.put("shuttle", &large).await.unwrap_err();
        assert_eq!((error.code(), error.applied()), (ErrorCode::ValueTooLarge, Applied::No));
        let outcomes = client.multi_get(&[&long[..], b"short"]).collect().await;
        assert_eq!(outcomes[0].as_ref().unwrap_err().code(), ErrorCode::KeyTooLong);
    });
    assert_eq!(node.operations(), [Operation::MultiGet]);
}

#[test]
fn a_multi_get_hands_out_what_comes_first_first() {
    let world = World::new(3);
    world.node(1, |_| Answer::Silence);
    world.node(2, |request| multi_part(request, |index| Ok(found_item(index))));
    let client = world.client(&[2]);
    let keys = [key_of(1, 3), key_of(2, 3), key_of(3, 3), key_of(2, 3)];
    let mut outcomes = Vec::new();
    world.run(async {
        let mut objects = client.multi_get(&keys);
        while let Some(outcome) = objects.next().await {
            outcomes.push(match outcome {
                Ok((index, object)) => (index, Ok(object.into_object().unwrap().to_vec())),
                Err((index, error)) => (index, Err(error.code())),
            });
        }
    });
    assert_eq!(outcomes[..2], [(1, Ok(b"item 0".to_vec())), (3, Ok(b"item 1".to_vec()))]);
    outcomes.sort_by_key(|(index, _)| *index);
    assert_eq!(outcomes.len(), 4);
    assert_eq!(outcomes[0], (0, Err(ErrorCode::DeadlineMaybeApplied)));
    assert_eq!(outcomes[2], (2, Err(ErrorCode::NotReachable)));
}

#[test]
fn what_a_reply_had_no_room_for_is_asked_again() {
    let world = World::new(1);
    let node = world.node(1, |request| {
        multi_part(request, |index| if index < 3 { Ok(found_item(index)) } else { Err(None) })
    });
    let client = world.client(&[1]);
    let keys: Vec<_> = (0..8).map(|number| format!("thread {number}")).collect();
    let objects = world.run(client.multi_get(&keys).try_collect()).unwrap();
    assert!(objects.into_iter().all(|lookup| lookup.into_object().is_some()));
    // 8, then the 5 that were left, then 2.
    assert_eq!(node.operations().len(), 3);
}

#[test]
fn items_that_were_refused_are_asked_of_the_owner_by_the_newer_map() {
    let world = World::new(2);
    let former = world.node(1, |request| {
        multi_part(request, |index| match index {
            0 => Ok(found_item(index)),
            _ => Err(Some(ErrorReply::wrong_owner(5))),
        })
    });
    let owner = world.node(2, |request| multi_part(request, |index| Ok(found_item(index))));
    let client = world.client(&[1]);
    world.move_all_to(2, 5);
    let keys = [key_of(1, 2), key_of(1, 2) + "x", key_of(1, 2) + "y"];
    let slots_stay = keys.iter().all(|key| client_owner(&client, key) == NodeId(1));
    assert!(slots_stay, "the keys have one hash tag");
    let objects = world.run(client.multi_get(&keys).try_collect()).unwrap();
    assert_eq!(objects.len(), 3);
    assert_eq!((former.operations().len(), owner.operations().len()), (1, 1));
}

#[test]
fn a_multi_put_that_is_cut_off_tells_the_doubtful_from_the_unsent() {
    let world = World::new(1);
    // One request carries less than 1 MiB, so three pairs of 400 KB are two requests. The first is
    // cut off, so its two pairs are in doubt; the third had not been sent, and still can be.
    let node = world.node_in_turn(1, [Answer::Close, Answer::Items]);
    let client = world.client(&[1]);
    let value = vec![7; 400_000];
    let pairs: Vec<_> = (0..3).map(|number| (format!("bolt {number}"), &value)).collect();
    let outcomes = world.run(client.multi_put(&pairs).collect());
    for doubtful in &outcomes[..2] {
        assert_eq!(doubtful.as_ref().unwrap_err().applied(), Applied::Maybe);
    }
    assert!(outcomes[2].is_ok());
    assert_eq!(node.operations().len(), 2);
}

#[test]
fn a_node_that_leaves_keys_out_or_makes_some_up_deceives_nobody() {
    let world = World::new(1);
    world.node(1, |_| {
        let mut part = weft_protocol::PartBuilder::new();
        for index in [0, 0, 17, 16_000] {
            part.push(index, &found_item(index)).unwrap();
        }
        Answer::Reply(part.finish().to_vec())
    });
    let client = world.client(&[1]);
    let mut outcomes = Vec::new();
    world.run(async {
        let mut objects = client.multi_get(&["warp", "weft"]);
        while let Some(outcome) = objects.next().await {
            outcomes.push(outcome.map(|(index, _)| index).map_err(|(index, e)| (index, e.code())));
        }
    });
    // What was said twice counts once, and what was not asked for not at all.
    assert_eq!(outcomes, [Ok(0), Err((1, ErrorCode::MalformedReply))]);
}

#[test]
fn stats_and_pings_tell_the_living_from_the_dead() {
    let world = World::new(2);
    world.node(1, |request| match request {
        Request::Stats(_) => world::stats(1, 42),
        _ => refusal(ErrorCode::Internal),
    });
    let client = world.client(&[1]);
    world.run(async {
        let stats = client.stats().await;
        assert_eq!(stats[0].stats.as_ref().unwrap().value("store.objects"), Some(42));
        assert_eq!(stats[1].stats.as_ref().unwrap_err().code(), ErrorCode::NotReachable);
        assert!(client.ping(NodeId(1)).await.unwrap() > Duration::ZERO);
        assert_eq!(client.ping(NodeId(2)).await.unwrap_err().code(), ErrorCode::NotReachable);
        let error = client.ping(NodeId(9)).await.unwrap_err();
        assert!(matches!(error, ClientError::UnknownNode { node: NodeId(9) }));
    });
}

fn found_item(index: usize) -> GetReply<'static> {
    const VALUES: [&[u8]; 4] = [b"item 0", b"item 1", b"item 2", b"item"];
    GetReply::Found { version: Version(1), value: VALUES[index.min(3)] }
}

fn client_owner(client: &weft_client::Client, key: &str) -> NodeId {
    client.map().owner_of(weft_protocol::Slot::of(key.as_bytes())).unwrap().id
}

/// Two nodes know the table; the first says nothing, or says so later than anybody waits for it.
#[test]
fn a_node_that_hangs_holds_up_who_looks_for_a_table_for_a_moment() {
    let world = World::new(3);
    let catalog = Catalog::default().with("yarns", TableOptions::default()).unwrap();
    let (older, id) = (catalog.clone(), catalog.id_of("yarns").unwrap());
    let newer = catalog.with("looms", TableOptions::default()).unwrap();
    let looms = newer.id_of("looms").unwrap();
    world.node(1, |_| Answer::Silence);
    world.node(2, move |_| Answer::reply(TablesReply { catalog: older.clone() }));
    world.node(3, move |request| match request {
        Request::Tables(_) => Answer::reply(TablesReply { catalog: newer.clone() }),
        Request::Get(get) if get.table == id || get.table == looms => found(b"wool", 1),
        _ => Answer::Silence,
    });
    let client = world.client(&[2]);
    for name in ["yarns", "looms"] {
        let begin = world.elapsed();
        let table = world.run(client.table(name)).unwrap();
        let waited = world.elapsed() - begin;
        assert!(waited < Duration::from_millis(300), "{waited:?}");
        let object = world.run(table.get(key_of(3, 3))).unwrap().into_object().unwrap();
        assert_eq!(&*object, b"wool");
    }
    // Whether there is one of another name, only the one that says nothing could tell.
    let begin = world.elapsed();
    let error = world.run(client.table("bales")).unwrap_err();
    assert_eq!(error.code(), ErrorCode::TableUnknown);
    assert_eq!(world.elapsed() - begin, TIMEOUT);
}
