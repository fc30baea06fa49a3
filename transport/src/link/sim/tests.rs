//! What cuts, crashes and slow ways do to bytes on their way, and to who waits for them.

use std::io::{ErrorKind, IoSlice, IoSliceMut};

use super::*;
use crate::link::Transfer;
use crate::time::Clock;

const DELAY: Duration = Duration::from_millis(1);
/// Longer than anything takes that is not cut, the pauses of a sender that keeps trying included.
const LONG: Duration = Duration::from_secs(2);
const ADDRESS: ([u8; 4], u16) = ([10, 0, 0, 1], 7400);

/// A network on which the first host listens, and others may connect.
struct Net {
    network: SimNetwork,
    hand: ManualClock,
    listener: Option<SimListener>,
}

fn host(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, number])
}

impl Net {
    fn new(seed: u64) -> Self {
        let (_, hand) = Clock::manual();
        let config = SimConfig { seed, delay: DELAY..DELAY, loss: 0.0, partial: 0.0 };
        let network = SimNetwork::new(config, hand.clone());
        let mut net = Net { network, hand, listener: None };
        net.listen();
        net
    }

    fn listen(&mut self) {
        self.listener = None;
        let port = self.network.at(host(1)).port();
        self.listener = Some(port.listen(ADDRESS.into()).unwrap());
    }

    fn connect(&self, from: u8) -> io::Result<SimLink> {
        self.network.at(host(from)).port().connect(ADDRESS.into())
    }

    fn accept(&self) -> Option<SimLink> {
        self.listener.as_ref().unwrap().accept().ok().map(|(link, _)| link)
    }

    /// A connection from host 2: its end there, and that at host 1.
    fn pair(&self) -> [SimLink; 2] {
        let link = self.connect(2).unwrap();
        self.pass(DELAY);
        [link, self.accept().unwrap()]
    }

    fn pass(&self, time: Duration) {
        self.hand.advance_to(self.hand.now() + time);
    }

    fn cut_both(&self) {
        self.network.cut(host(1), host(2));
        self.network.cut(host(2), host(1));
    }
}

fn send(link: &SimLink, bytes: &[u8]) -> io::Result<usize> {
    link.send(&[IoSlice::new(bytes)])
}

fn receive(link: &SimLink) -> Result<Vec<u8>, ErrorKind> {
    let mut buffer = [0; 64];
    match link.receive(&mut [IoSliceMut::new(&mut buffer)]) {
        Ok(len) => Ok(buffer[..len].to_vec()),
        Err(error) => Err(error.kind()),
    }
}

const NOTHING: Result<Vec<u8>, ErrorKind> = Err(ErrorKind::WouldBlock);
const RESET: Result<Vec<u8>, ErrorKind> = Err(ErrorKind::ConnectionReset);

/// Counts over seeds in how many `happens`.
fn seeds(happens: impl Fn(u64) -> bool) -> usize {
    (0..64).filter(|seed| happens(*seed)).count()
}

#[test]
fn what_is_sent_into_a_cut_comes_after_it_or_the_connection_turns_out_lost() {
    let survived = seeds(|seed| {
        let net = Net::new(seed);
        let [one, other] = net.pair();
        send(&one, b"under way").unwrap();
        net.cut_both();
        send(&one, b", held").unwrap();
        net.pass(LONG);
        assert_eq!([receive(&other), receive(&one)], [NOTHING; 2]);
        assert!(net.network.next_event().is_none(), "nobody is told");
        net.network.heal_all();
        net.pass(LONG);
        match receive(&other) {
            Ok(bytes) => assert_eq!(bytes, b"under way, held"),
            lost => assert_eq!(lost, RESET),
        }
        send(&one, b"!").is_ok()
    });
    assert!((16..48).contains(&survived), "{survived}");
}

#[test]
fn a_way_that_is_cut_leaves_the_way_back_until_there_is_no_room() {
    let net = Net::new(3);
    let [one, other] = net.pair();
    net.network.cut(host(2), host(1));
    send(&one, b"question").unwrap();
    let mut sent = send(&other, b"answer").unwrap();
    net.pass(LONG);
    assert_eq!(receive(&other), NOTHING);
    assert_eq!(receive(&one).unwrap(), b"answer");
    // What has been received is not known to have been.
    while let Ok(more) = send(&other, &[0; 60]) {
        sent += more;
        net.pass(LONG);
        receive(&one).unwrap();
    }
    assert_eq!(sent, PIPE_BYTES);
    assert!(!other.is_writable());
    net.network.heal(host(2), host(1));
    // It goes on, or turns out to be lost: whoever waits for room hears of either.
    net.pass(LONG);
    assert!(other.is_writable());
}

#[test]
fn others_are_not_cut() {
    let net = Net::new(0);
    net.cut_both();
    let link = net.connect(3).unwrap();
    net.pass(DELAY);
    let accepted = net.accept().unwrap();
    send(&link, b"hello").unwrap();
    net.pass(DELAY);
    assert_eq!(receive(&accepted).unwrap(), b"hello");
    assert_eq!(net.network.counters(), SimCounters::default());
}

#[test]
fn connecting_through_a_cut_waits_and_is_neither_refused_nor_accepted() {
    for (from, to) in [(1, 2), (2, 1)] {
        let net = Net::new(0);
        net.network.cut(host(from), host(to));
        let link = net.connect(2).unwrap();
        net.pass(LONG);
        assert!(net.accept().is_none() && !link.is_writable() && !link.is_readable());
        net.network.heal(host(from), host(to));
        net.pass(LONG);
        assert!(net.accept().is_some() && link.is_writable());
        assert_eq!(net.network.counters().connects_held, 1);
    }
}

#[test]
fn whoever_gives_up_connecting_leaves_nothing() {
    let net = Net::new(0);
    net.cut_both();
    drop(net.connect(2).unwrap());
    net.network.heal_all();
    net.pass(LONG);
    assert!(net.accept().is_none());
    assert!(net.network.state.lock().connections.is_empty());
}

#[test]
fn a_goodbye_into_a_cut_is_heard_after_it() {
    let heard = seeds(|seed| {
        let net = Net::new(seed);
        let [one, other] = net.pair();
        net.cut_both();
        drop(one);
        net.pass(LONG);
        assert_eq!(receive(&other), NOTHING);
        net.network.heal_all();
        net.pass(LONG);
        receive(&other) == Ok(Vec::new())
    });
    assert!(heard > 16, "{heard}");
}

#[test]
fn a_process_that_crashes_is_reset_and_refuses() {
    let net = Net::new(0);
    let [one, other] = net.pair();
    let waiting = net.connect(2).unwrap();
    net.network.crash(host(1), SimCrash::Process);
    assert_eq!(receive(&other), RESET);
    assert!(send(&other, b"last words").is_err());
    assert_eq!(net.connect(2).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    net.pass(DELAY);
    assert_eq!([receive(&one), receive(&waiting)], [RESET; 2]);
    assert_eq!(net.network.counters().crashed, 2);
}

#[test]
fn a_machine_that_crashes_says_nothing_until_it_is_there_again_and_asked() {
    let mut net = Net::new(0);
    let [asking, other] = net.pair();
    let [silent, another] = net.pair();
    send(&other, b"never arrives").unwrap();
    net.network.crash(host(1), SimCrash::Machine);
    send(&asking, b"hello?").unwrap();
    let connecting = net.connect(2).unwrap();
    net.pass(LONG);
    for link in [&asking, &silent, &connecting] {
        assert_eq!(receive(link), NOTHING);
    }
    net.network.restart(host(1));
    net.listen();
    drop([other, another]);
    net.pass(LONG);
    assert_eq!([receive(&asking), receive(&silent)], [RESET, NOTHING]);
    send(&silent, b"hello?").unwrap();
    net.pass(LONG);
    assert_eq!(receive(&silent), RESET);
    // The new life is no part of the old.
    net.connect(2).unwrap();
    net.pass(DELAY);
}

#[test]
fn a_reset_does_not_get_through_a_cut() {
    let net = Net::new(0);
    let [one, _other] = net.pair();
    net.cut_both();
    net.network.crash(host(1), SimCrash::Process);
    net.pass(LONG);
    assert_eq!(receive(&one), NOTHING);
    net.network.heal_all();
    net.pass(LONG);
    assert_eq!(receive(&one), NOTHING);
    send(&one, b"hello?").unwrap();
    net.pass(LONG);
    assert_eq!(receive(&one), RESET);
}

#[test]
fn a_slow_way_is_slow_one_way() {
    let net = Net::new(0);
    let [one, other] = net.pair();
    net.network.slow(host(2), host(1), Some(LONG..LONG));
    send(&one, b"slow").unwrap();
    send(&other, b"fast").unwrap();
    net.pass(DELAY);
    assert_eq!([receive(&one), receive(&other)], [Ok(b"fast".to_vec()), NOTHING]);
    net.pass(LONG);
    assert_eq!(receive(&other).unwrap(), b"slow");
    net.network.slow(host(2), host(1), None);
    send(&one, b"fast again").unwrap();
    net.pass(DELAY);
    assert_eq!(receive(&other).unwrap(), b"fast again");
    assert_eq!(net.network.counters().sends_slowed, 1);
}

#[test]
fn a_port_is_told_once_of_what_has_arrived() {
    let net = Net::new(0);
    let port = net.network.at(host(2)).port();
    let link = port.connect(ADDRESS.into()).unwrap();
    assert!(!port.take_arrived());
    net.pass(DELAY);
    let accepted = net.accept().unwrap();
    assert!(port.take_arrived(), "the connection is there");
    send(&accepted, b"a").unwrap();
    send(&accepted, b"b").unwrap();
    assert!(!port.take_arrived());
    assert_eq!(net.network.next_event(), Some(net.hand.now() + DELAY));
    net.pass(DELAY);
    assert!(port.take_arrived() && !port.take_arrived());
    assert_eq!(receive(&link).unwrap(), b"ab");
    assert_eq!(net.network.next_event(), None);
}
