use super::*;

const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(10), max: Duration::from_millis(80) };
const INTERVAL: Duration = Duration::from_secs(1);
const NOW: Time = Time::from_nanos(1_000_000_000);

fn address(number: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 7400))
}

fn peer(node: u64, number: u16) -> Peer {
    Peer { node: NodeId(node), incarnation: Incarnation(1), address: address(number) }
}

fn failure(number: u16) -> ConnectError {
    let (address, kind) = (address(number), std::io::ErrorKind::ConnectionRefused);
    ConnectError::Refused { address, kind, os_error: None }
}

/// What a node ends with that is missed.
const GONE: CloseReason = CloseReason::PeerGone;

/// Long enough for a connection to count.
const LASTING: Duration = BACKOFF.max;

/// A list of these addresses, which have just been tried.
fn tried(numbers: impl IntoIterator<Item = u16>) -> Schedule {
    let mut schedule = Schedule::new(BACKOFF, INTERVAL, 7);
    for number in numbers {
        assert!(schedule.add(address(number), NOW));
        assert_eq!(schedule.due(NOW), [address(number)]);
        schedule.begin(address(number));
    }
    assert_eq!(schedule.due(NOW), []);
    schedule
}

#[test]
fn an_address_is_tried_at_the_interval_until_a_node_is_found() {
    let mut schedule = tried([1]);
    let mut now = NOW;
    for _ in 0..5 {
        schedule.fail(address(1), &failure(1), now);
        assert_eq!(schedule.next_at(), now + INTERVAL);
        now = schedule.next_at();
        assert_eq!(schedule.due(now), [address(1)]);
        schedule.begin(address(1));
    }
    schedule.succeed(address(1), &peer(3, 1), now);
    assert_eq!((schedule.next_at(), schedule.address_of(NodeId(3))), (Time::MAX, Some(address(1))));
}

#[test]
fn a_node_that_was_lost_is_tried_after_growing_pauses_and_those_end_with_a_lasting_success() {
    let mut schedule = tried([1]);
    let mut now = NOW;
    schedule.succeed(address(1), &peer(3, 1), now);
    for round in 0..2 {
        now = now + LASTING;
        schedule.lost(NodeId(3), &GONE, now);
        for failures in 1..=8 {
            let at = schedule.next_at();
            assert!(at <= now + BACKOFF.bound(failures.max(2) - 1), "round {round}: {failures}");
            now = at;
            assert_eq!(schedule.due(now), [address(1)]);
            schedule.begin(address(1));
            schedule.fail(address(1), &failure(1), now);
            assert_eq!(schedule.list()[0].failures, failures);
        }
        schedule.begin(address(1));
        schedule.succeed(address(1), &peer(3, 1), now);
        assert_eq!((schedule.list()[0].failures, &schedule.list()[0].failure), (0, &None));
    }
}

/// The node is found and lost again and again, each time for so long. When each pause ended.
fn lost_after(schedule: &mut Schedule, times: u32, lasts: Duration) -> Vec<Duration> {
    let mut now = NOW;
    let pauses = (0..times).map(|_| {
        schedule.begin(address(1));
        schedule.succeed(address(1), &peer(3, 1), now);
        now = now + lasts;
        schedule.lost(NodeId(3), &GONE, now);
        let pause = schedule.next_at().since(now);
        now = schedule.next_at();
        pause
    });
    pauses.collect()
}

#[test]
fn connections_that_do_not_last_are_failures_and_those_that_do_end_the_back_off() {
    for brief in [Duration::ZERO, LASTING - Duration::from_nanos(1)] {
        let mut schedule = tried([1]);
        let pauses = lost_after(&mut schedule, 200, brief);
        let sum: Duration = pauses[10..].iter().sum();
        // Half of the longest on average, as where nobody answers.
        assert!(sum > BACKOFF.max * 190 / 3, "{sum:?}");
        let pauses = lost_after(&mut schedule, 50, LASTING);
        assert!(pauses.iter().all(|pause| *pause <= BACKOFF.first), "{pauses:?}");
    }
    // Nor does it have to last for longer than who is not found waits.
    let mut schedule = Schedule::new(Backoff { max: INTERVAL * 60, ..BACKOFF }, INTERVAL, 7);
    schedule.add(address(1), NOW);
    lost_after(&mut schedule, 50, Duration::ZERO);
    let pauses = lost_after(&mut schedule, 50, INTERVAL);
    assert!(pauses.iter().all(|pause| *pause <= BACKOFF.first), "{pauses:?}");
}

#[test]
fn who_asks_waits_from_the_second_connection_in_a_row_that_did_not_last() {
    let mut schedule = tried([1]);
    lost_after(&mut schedule, 1, Duration::ZERO);
    assert_eq!(schedule.pause(address(1), NOW), None);
    lost_after(&mut schedule, 1, Duration::ZERO);
    let reason = ConnectError::Closed { address: address(1), reason: GONE };
    assert_eq!(schedule.pause(address(1), NOW), Some((schedule.next_at(), reason.clone())));
    assert_eq!(schedule.list()[0].failure, Some(reason));
    // Who was let go on purpose can be asked for.
    let mut schedule = tried([1]);
    for _ in 0..3 {
        schedule.begin(address(1));
        schedule.succeed(address(1), &peer(3, 1), NOW);
        schedule.lost(NodeId(3), &CloseReason::Evicted, NOW);
    }
    assert_eq!((schedule.pause(address(1), NOW), schedule.next_at()), (None, Time::MAX));
}

#[test]
fn what_refuses_and_greets_in_turn_is_left_alone_for_longer_each_time() {
    let mut schedule = tried([1]);
    lost_after(&mut schedule, 20, Duration::ZERO);
    let pauses: Vec<_> = (0..100)
        .map(|_| {
            schedule.begin(address(1));
            schedule.fail(address(1), &failure(1), NOW);
            let pause = schedule.next_at().since(NOW);
            lost_after(&mut schedule, 1, Duration::ZERO);
            pause
        })
        .collect();
    assert!(pauses.iter().sum::<Duration>() > BACKOFF.max * 100 / 3, "{pauses:?}");
}

#[test]
fn who_asks_too_early_has_to_wait() {
    let mut schedule = Schedule::new(BACKOFF, INTERVAL, 7);
    assert_eq!(schedule.pause(address(1), NOW), None);
    // A pause may be short by chance; many failures in a row make a long one likely.
    let mut now = NOW;
    for _ in 0..20 {
        schedule.fail(address(1), &failure(1), now);
        let until = schedule.entries[&address(1)].failed_until;
        if until > now {
            assert_eq!(schedule.pause(address(1), now), Some((until, failure(1))));
        }
        assert_eq!(schedule.pause(address(1), until), None);
        now = until;
    }
    assert!(now.since(NOW) > BACKOFF.max * 2, "all pauses together: {:?}", now.since(NOW));
    assert_eq!(schedule.next_at(), Time::MAX, "it is not on the list");
}

#[test]
fn a_node_that_was_let_go_waits_until_it_is_asked_for() {
    let mut schedule = tried([1]);
    schedule.succeed(address(1), &peer(3, 1), NOW);
    schedule.lost(NodeId(3), &CloseReason::Closed, NOW);
    assert_eq!(schedule.next_at(), Time::MAX);
    assert_eq!(schedule.pause(address(1), NOW), None);
    // It comes by itself.
    schedule.connected(&peer(3, 9), NOW);
    assert_eq!(schedule.list()[0].state, AddressState::Connected);
    schedule.lost(NodeId(3), &GONE, NOW);
    assert!(schedule.next_at() <= NOW + BACKOFF.first);
}

#[test]
fn what_is_off_the_list_is_not_tried() {
    let mut schedule = tried([1, 2]);
    schedule.fail(address(1), &failure(1), NOW);
    schedule.succeed(address(2), &peer(3, 2), NOW);
    assert!(schedule.remove(address(1)) && schedule.remove(address(2)));
    assert!(!schedule.remove(address(1)) && !schedule.remove(address(2)));
    schedule.lost(NodeId(3), &GONE, NOW);
    assert_eq!((schedule.next_at(), schedule.address_of(NodeId(3))), (Time::MAX, None));
    assert_eq!(schedule.list(), []);
    assert!(schedule.add(address(2), NOW) && !schedule.add(address(2), NOW));
    assert_eq!(schedule.next_at(), NOW);
}

/// Whoever puts it there expects something to have changed. Who asks for the connection still waits.
#[test]
fn what_comes_on_the_list_is_tried_at_once_though_it_has_just_failed() {
    let mut schedule = tried([1]);
    for _ in 0..5 {
        schedule.fail(address(1), &failure(1), NOW);
        let pause = schedule.pause(address(1), NOW);
        assert!(pause.is_some(), "it has just failed");
        assert!(schedule.remove(address(1)) && schedule.next_at() == Time::MAX);
        assert!(schedule.add(address(1), NOW));
        assert_eq!((schedule.due(NOW), schedule.pause(address(1), NOW)), (vec![address(1)], pause));
        assert!(!schedule.add(address(1), NOW));
        schedule.begin(address(1));
    }
    schedule.fail(address(1), &failure(1), NOW);
    // It has been on the list since: nothing is new.
    assert!(!schedule.add(address(1), NOW) && schedule.next_at() > NOW);
}

#[test]
fn no_more_are_tried_at_once_than_may_be() {
    let count = ATTEMPTS_MAX as u16 + 10;
    let mut schedule = Schedule::new(BACKOFF, INTERVAL, 7);
    (0..count).for_each(|number| assert!(schedule.add(address(number), NOW)));
    let first = schedule.due(NOW);
    assert_eq!(first.len(), ATTEMPTS_MAX);
    first.iter().for_each(|address| schedule.begin(*address));
    assert_eq!((schedule.due(NOW), schedule.next_at()), (vec![], Time::MAX));
    schedule.fail(address(0), &failure(0), NOW);
    assert_eq!(schedule.due(NOW).len(), 1);
}

#[test]
fn what_failed_long_ago_and_is_not_on_the_list_is_forgotten() {
    let mut schedule = tried([0]);
    schedule.fail(address(0), &failure(0), NOW);
    let mut now = NOW;
    for number in 1..1000 {
        schedule.fail(address(number), &failure(number), now);
        now = now + BACKOFF.max;
    }
    assert!(schedule.entries.len() <= 4, "{}", schedule.entries.len());
    assert_eq!(schedule.list().len(), 1);
}

#[test]
fn the_endpoint_itself_is_not_tried() {
    let mut schedule = Schedule::new(BACKOFF, INTERVAL, 7);
    schedule.add(address(1), NOW);
    schedule.leads_here(address(1));
    assert_eq!((schedule.due(NOW), schedule.next_at()), (vec![], Time::MAX));
}
