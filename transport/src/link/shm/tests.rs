use std::net::{Ipv4Addr, TcpListener};

use super::*;

/// A free TCP port, kept for as long as the listener lives.
#[expect(clippy::disallowed_methods, reason = "a test takes a port")]
fn address(ip: Ipv4Addr) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((ip, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn pair() -> (ShmLink, ShmLink) {
    let (_port, address) = address(Ipv4Addr::LOCALHOST);
    let listener = ShmListener::bind(address, Namespace::Endpoints).unwrap();
    let connecting = ShmLink::connect(address, Namespace::Endpoints).unwrap();
    assert_eq!(connecting.finish_connect().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let (accepted, from) = listener.accept().unwrap();
    assert_eq!(from.ip(), address.ip());
    assert!((PORT_FIRST..PORT_FIRST + PORTS).contains(&from.port()));
    accepted.offer().unwrap();
    connecting.finish_connect().unwrap();
    (connecting, accepted)
}

fn receive(link: &ShmLink) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 100];
    let count = link.receive(&mut [IoSliceMut::new(&mut bytes)])?;
    bytes.truncate(count);
    Ok(bytes)
}

#[test]
fn who_connects_takes_no_name_that_a_listener_could_have() {
    let (_port, at) = address(Ipv4Addr::LOCALHOST);
    let listener = ShmListener::bind(at, Namespace::Endpoints).unwrap();
    let connecting = ShmLink::connect(at, Namespace::Endpoints).unwrap();
    let (_accepted, from) = listener.accept().unwrap();
    ShmListener::bind(from, Namespace::Endpoints).unwrap();
    drop(connecting);
}

#[test]
fn bytes_go_both_ways() {
    let (one, other) = pair();
    assert_eq!(one.send(&[IoSlice::new(b"there"), IoSlice::new(b"!")]).unwrap(), 6);
    assert_eq!(receive(&other).unwrap(), b"there!");
    other.send(&[IoSlice::new(b"back")]).unwrap();
    assert_eq!(receive(&one).unwrap(), b"back");
    assert_eq!(receive(&one).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn what_was_sent_before_the_end_is_received_first() {
    let (one, other) = pair();
    one.send(&[IoSlice::new(b"last words")]).unwrap();
    drop(one);
    other.hear();
    assert_eq!(receive(&other).unwrap(), b"last words");
    assert_eq!(receive(&other).unwrap(), b"", "the end");
    assert_eq!(other.send(&[IoSlice::new(b"?")]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_sleeper_is_rung_for() {
    let (one, other) = pair();
    let mut byte = [0];
    // The bell that came with the memory was taken with it.
    let silent = rustix::net::recv(one.descriptor(), &mut byte[..], RecvFlags::DONTWAIT);
    assert_eq!(silent.unwrap_err(), Errno::AGAIN);
    assert!(one.sleep());
    other.send(&[IoSlice::new(b"wake up")]).unwrap();
    let rung = rustix::net::recv(one.descriptor(), &mut byte[..], RecvFlags::DONTWAIT);
    assert_eq!(rung.unwrap().1, 1);
}

#[test]
fn a_listener_at_every_address_is_found_by_those_of_this_host_only() {
    let (_port, address) = address(Ipv4Addr::UNSPECIFIED);
    let _listener = ShmListener::bind(address, Namespace::Endpoints).unwrap();
    assert!(
        ShmLink::connect(SocketAddr::from(([127, 0, 0, 5], address.port())), Namespace::Endpoints)
            .is_ok()
    );
    let elsewhere = SocketAddr::from(([192, 0, 2, 1], address.port()));
    assert_eq!(
        ShmLink::connect(elsewhere, Namespace::Endpoints).unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused
    );
}

#[test]
fn a_listener_at_every_address_of_ipv6_is_found_at_those_of_ipv4_too() {
    let (_port, address) = address(Ipv4Addr::UNSPECIFIED);
    let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port()));
    let _listener = ShmListener::bind(everywhere, Namespace::Endpoints).unwrap();
    assert!(
        ShmLink::connect(SocketAddr::from(([127, 0, 0, 1], address.port())), Namespace::Endpoints)
            .is_ok()
    );
    assert!(
        ShmLink::connect(
            SocketAddr::from((Ipv6Addr::LOCALHOST, address.port())),
            Namespace::Endpoints
        )
        .is_ok()
    );
}

#[test]
fn nobody_listening_is_refused_and_a_name_is_taken_once() {
    let (_port, address) = address(Ipv4Addr::LOCALHOST);
    assert_eq!(
        ShmLink::connect(address, Namespace::Endpoints).unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused
    );
    let _listener = ShmListener::bind(address, Namespace::Endpoints).unwrap();
    assert!(ShmListener::bind(address, Namespace::Endpoints).is_err());
}

#[test]
fn a_peer_that_ends_instead_of_sharing_is_refused() {
    let (_port, address) = address(Ipv4Addr::LOCALHOST);
    let listener = ShmListener::bind(address, Namespace::Endpoints).unwrap();
    let connecting = ShmLink::connect(address, Namespace::Endpoints).unwrap();
    drop(listener.accept().unwrap());
    assert!(connecting.finish_connect().is_err());
}
