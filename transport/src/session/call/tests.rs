use super::*;

fn begin(table: &CallTable, deadline: Time) -> CallKey {
    let key = table.begin(Class::Request, None).unwrap();
    drop(table.open(key, deadline, Waker::noop()));
    key
}

/// The next reply, and whether it was the last.
fn poll(table: &CallTable, key: CallKey) -> Poll<(Result<Vec<u8>, CallError>, bool)> {
    let polled = table.poll_reply(key, Waker::noop());
    polled.map(|(reply, last)| (reply.map(|reply| reply.to_vec()), last))
}

#[test]
fn a_late_reply_finds_nobody() {
    let table = CallTable::new();
    let first = begin(&table, Time::MAX);
    table.end(first);
    let second = begin(&table, Time::MAX);
    assert_eq!(first.index(), second.index());
    table.deliver(first, Reply::copied(b"old"), false);
    assert_eq!(poll(&table, second), Poll::Pending);
    assert_eq!(table.late.load(Ordering::Relaxed), 1);
    table.deliver(second, Reply::copied(b"new"), false);
    assert_eq!(poll(&table, second), Poll::Ready((Ok(b"new".to_vec()), true)));
    assert_eq!(table.pending(), 0);
}

#[test]
fn who_wants_to_look_in_between_is_woken_once_and_waits_on() {
    let table = CallTable::new();
    let key = table.begin(Class::Request, None).unwrap();
    let [early, late] = [10, 30].map(Time::from_nanos);
    drop(table.open(key, Wait { wake_at: early, deadline: late }, Waker::noop()));
    let expire = |at| {
        let mut wakers = Vec::new();
        let next = table.expire(Time::from_nanos(at), &mut wakers);
        (next, wakers.len())
    };
    assert_eq!(expire(9), (Some(early), 0));
    assert_eq!(expire(10), (Some(late), 1));
    assert_eq!(poll(&table, key), Poll::Pending);
    assert_eq!(expire(29), (Some(late), 0), "once");
    table.deliver(key, Reply::copied(b"late"), false);
    assert_eq!(poll(&table, key), Poll::Ready((Ok(b"late".to_vec()), true)));
}

#[test]
fn parts_come_in_order_and_end() {
    let table = CallTable::new();
    let key = begin(&table, Time::MAX);
    for (part, more) in [(1u8, true), (2, true), (3, false)] {
        table.deliver(key, Reply::copied(&[part]), more);
    }
    table.deliver(key, Reply::copied(&[4]), false);
    for part in 1..=3 {
        assert_eq!(poll(&table, key), Poll::Ready((Ok(vec![part]), part == 3)));
    }
    assert_eq!(table.pending(), 0);
}

#[test]
fn a_deadline_leaves_open_whether_the_request_is_still_to_have_its_effect() {
    let table = CallTable::new();
    let [left, stayed] = [7, 9].map(|position| {
        let key = begin(&table, Time::from_nanos(10));
        table.written(key, Sent { lane: 0, position });
        key
    });
    let later = begin(&table, Time::from_nanos(50));
    let next = table.expire(Time::from_nanos(10), &mut Vec::new());
    assert_eq!(next, Some(Time::from_nanos(50)));
    let failed = CallError::DeadlineExceeded { applied: Applied::Maybe };
    for call in [left, stayed] {
        assert_eq!(poll(&table, call), Poll::Ready((Err(failed.clone()), true)));
    }
    assert_eq!(poll(&table, later), Poll::Pending);
}

#[test]
fn the_end_of_a_connection_says_whether_the_request_had_left() {
    let table = CallTable::new();
    let [left, stayed] = [7, 9].map(|position| {
        let key = begin(&table, Time::MAX);
        table.written(key, Sent { lane: 0, position });
        key
    });
    let reason = CloseReason::PeerGone;
    table.close(&reason, |sent| sent.position < 8, &mut Vec::new());
    let failed = |applied| {
        let reason = reason.clone();
        Poll::Ready((Err(CallError::Disconnected { applied, reason }), true))
    };
    assert_eq!(poll(&table, left), failed(Applied::Maybe));
    assert_eq!(poll(&table, stayed), failed(Applied::No));
}

#[test]
fn hostile_ids_are_harmless() {
    let table = CallTable::new();
    for id in [0, 1, u64::MAX, u64::from(u32::MAX), 1 << 32] {
        assert!(table.deliver(CallKey(id), Reply::copied(b"x"), false).is_none());
    }
}

#[test]
fn every_slot_has_a_place_of_its_own() {
    let mut next = [0; CHUNKS];
    for index in 0..CALL_SLOTS {
        let (chunk, at) = place(index);
        assert_eq!(at, next[chunk], "slot {index}");
        next[chunk] += 1;
    }
    assert_eq!(next.iter().sum::<usize>(), CALL_SLOTS);
    assert!(size_of::<CallTable>() < 512, "a connection without calls costs little");
}

#[test]
fn a_full_table_refuses_until_a_call_ends() {
    let table = CallTable::new();
    let keys: Vec<_> = (0..CALLS_MAX).map(|_| begin(&table, Time::MAX)).collect();
    assert!(matches!(table.begin(Class::Request, None), Err(Refused::Full)));
    table.end(keys[17]);
    assert_eq!(begin(&table, Time::MAX).index(), keys[17].index());
}

/// What is sent on behalf of requests never waits for a slot that a request has.
#[test]
fn requests_leave_slots_to_replication() {
    let table = CallTable::new();
    let requests: Vec<_> = (0..CALLS_MAX).map(|_| begin(&table, Time::MAX)).collect();
    let begin = |class| {
        table.begin(class, None).inspect(|key| drop(table.open(*key, Time::MAX, Waker::noop())))
    };
    let others: Vec<_> = std::iter::from_fn(|| begin(Class::Replication).ok()).collect();
    assert_eq!(others.len(), CALL_SLOTS - CALLS_MAX);
    table.end(requests[17]);
    assert!(matches!(begin(Class::Request), Err(Refused::Full)));
    assert!(begin(Class::Replication).is_ok());
    others.iter().for_each(|key| table.end(*key));
    assert!(matches!(begin(Class::Request), Err(Refused::Full)), "one is still for replication");
    table.end(requests[18]);
    assert!(begin(Class::Request).is_ok());
}
