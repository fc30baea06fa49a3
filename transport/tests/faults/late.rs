//! What comes late: of an attempt to connect that its node has given up meanwhile, and gone on by another.

use weft_transport::frame::Kind;
use weft_transport::handshake::{Hello, encode_goodbye};
use weft_transport::{CloseReason, Incarnation, NodeEvent, NodeId, Windows};

use super::{Node, Peer};

const OTHER: NodeId = NodeId(2);

/// The network has kept the attempt while it was down. Its hello is the newest, and is the last that is heard of it: the connection that came about
/// meanwhile is the one that the other node uses, and so it has to be used here.
#[test]
fn an_attempt_that_was_given_up_takes_no_connection_away() {
    let node = Node::start(|_| {});
    let manager = node.endpoint.manager();
    let mut events = manager.events();
    let (incarnation, windows) = (Incarnation(1), Windows::default());
    let hello = Hello { node: OTHER, incarnation, features: 0, windows, secret: None }.encode();
    let mut used = Peer::greeted_with(&node, &hello);
    used.echoes();
    let mut late = Peer::silent(&node);
    late.write(&[&hello[..], &encode_goodbye(&CloseReason::HandshakeTimeout)].concat());
    while late.read_frame().is_some() {}
    node.endpoint.block_on(async {
        while !matches!(events.next().await, Some(NodeEvent::Lost { .. })) {}
        let connection = manager.connection(OTHER).expect("one is open");
        assert!(matches!(events.next().await, Some(NodeEvent::Connected(_))));
        connection.send(&b"still there"[..]).await.unwrap();
    });
    let mut frames = std::iter::from_fn(|| used.read_frame());
    let message = frames.find(|(header, _)| header.kind == Kind::Message);
    assert_eq!(message.expect("a message").1, b"still there");
}
