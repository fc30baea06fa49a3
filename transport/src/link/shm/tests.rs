use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec};

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

/// Over TCP too, these all come to who listens at 127.0.0.1.
#[test]
fn a_listener_is_found_however_its_address_is_written() {
    let (_port, address) = address(Ipv4Addr::LOCALHOST);
    let _listener = ShmListener::bind(address, Namespace::Endpoints).unwrap();
    for ip in ["0.0.0.0", "::ffff:127.0.0.1", "::ffff:0.0.0.0"] {
        let written = SocketAddr::new(ip.parse().unwrap(), address.port());
        assert!(ShmLink::connect(written, Namespace::Endpoints).is_ok(), "{ip}");
    }
    for ip in ["::", "::1", "127.0.0.2"] {
        let another = SocketAddr::new(ip.parse().unwrap(), address.port());
        let refused = ShmLink::connect(another, Namespace::Endpoints).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "{ip}");
    }
}

#[test]
fn a_listener_at_an_address_of_ipv4_that_is_written_as_one_of_ipv6_is_found() {
    let (_port, address) = address(Ipv4Addr::LOCALHOST);
    let written = SocketAddr::new("::ffff:127.0.0.1".parse().unwrap(), address.port());
    let _listener = ShmListener::bind(written, Namespace::Endpoints).unwrap();
    assert!(ShmLink::connect(address, Namespace::Endpoints).is_ok());
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

const LISTENER: &str = "WEFT_TEST_LISTENER";

/// Waits until there is something to read; only a hang takes as long as it waits.
fn wait(descriptor: BorrowedFd<'_>) {
    let mut waiting = [PollFd::new(&descriptor, PollFlags::IN)];
    let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut waiting, Some(&patience)).unwrap(), 1);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "starts a process")]
fn a_process_that_does_not_see_the_listeners_process_is_of_the_same_user() {
    let unshare = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--pid", "--fork"]);
        unshare
    };
    if !unshare().arg("true").output().is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: this user may not `unshare --user --pid`");
    }
    let (_port, address) = address(Ipv4Addr::LOCALHOST);
    let listener = ShmListener::bind(address, Namespace::Endpoints).unwrap();
    let mut process = unshare();
    process.arg(std::env::current_exe().unwrap()).env(LISTENER, address.to_string());
    process.args([
        "--ignored",
        "--exact",
        "link::shm::tests::connects_to_a_process_it_does_not_see",
    ]);
    let mut process = process.spawn().unwrap();
    wait(listener.descriptor());
    let (accepted, _) = listener.accept().unwrap();
    // If it does not go on, its own end says so.
    let _ = accepted.offer();
    assert!(process.wait().unwrap().success());
}

#[test]
#[ignore = "another test starts it as a process of its own"]
#[expect(
    clippy::disallowed_methods,
    reason = "the process is told by a variable whom to connect to"
)]
fn connects_to_a_process_it_does_not_see() {
    let Ok(address) = std::env::var(LISTENER) else { return };
    let link = ShmLink::connect(address.parse().unwrap(), Namespace::Endpoints).unwrap();
    wait(link.descriptor());
    link.finish_connect().unwrap();
}
