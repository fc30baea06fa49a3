//! Peers that find the listener's local socket and do not keep to what belongs on it.

use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as LocalAddress, UnixStream};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_transport::{
    Endpoint, EndpointConfig, Incarnation, LinkPolicy, Memory, MemoryConfig, NoHandler, NodeId,
    PollPolicy, WeftListener, WeftStream,
};

use super::{ANYWHERE, config};

fn intruder(listener: SocketAddr) -> UnixStream {
    let name = format!("weft-stream/{listener}");
    UnixStream::connect_addr(&LocalAddress::from_abstract_name(name).unwrap()).unwrap()
}

#[tokio::test]
async fn a_peer_that_passes_no_memory_harms_only_its_own_stream() {
    let config = config(LinkPolicy::Shm, PollPolicy::Park);
    let listener = WeftListener::bind(ANYWHERE, config.clone()).await.unwrap();
    let address = listener.local_addr().unwrap();

    let silent = intruder(address);
    let (mut waiting, from) = listener.accept().await.unwrap();
    assert_eq!(from.port(), 0, "it has no address");
    let waiting = tokio::spawn(async move { waiting.read(&mut [0]).await });

    let mut bare = intruder(address);
    bare.write_all(b"no memory").unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::InvalidData);

    drop(intruder(address));
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_eq!(stream.write(&[0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);

    let mut honest = WeftStream::connect(address, config).await.unwrap();
    let (mut accepted, _) = listener.accept().await.unwrap();
    honest.write_all(b"!").await.unwrap();
    assert_eq!(accepted.read_u8().await.unwrap(), b'!');

    assert!(!waiting.is_finished());
    drop(silent);
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn streams_and_endpoints_do_not_meet_over_shared_memory() {
    let memory = Memory::new(MemoryConfig { limit_bytes: 256 << 20 }).unwrap();
    let config_of_node = EndpointConfig::new(NodeId(1), Incarnation(1), memory);
    let endpoint = Endpoint::start(config_of_node, std::sync::Arc::new(NoHandler)).unwrap();
    let address = endpoint.listen(ANYWHERE.parse().unwrap()).unwrap();
    let refused = WeftStream::connect(address, config(LinkPolicy::Shm, PollPolicy::Park)).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    endpoint.shutdown();
}
