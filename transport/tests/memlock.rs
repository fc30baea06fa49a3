//! Registering is bounded by `RLIMIT_MEMLOCK`. In a process of its own, whose limit it lowers.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failure of it")]

use std::error::Error as _;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weft_transport::{
    Buffer, Connection, Endpoint, EndpointConfig, Incarnation, LinkPolicy, Memory, MemoryConfig,
    Messages, NoHandler, NodeId, RegisterError, RegisterFailure, registration_stats,
};

const KIB: u64 = 1 << 10;

fn endpoint(id: NodeId) -> Endpoint {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    let mut config = EndpointConfig::new(id, Incarnation(1), memory);
    config.links = LinkPolicy::Tcp;
    config.messages = Messages::Posted;
    Endpoint::start(config, Arc::new(NoHandler)).unwrap()
}

fn connect(client: &Endpoint, server: &Endpoint) -> Connection {
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    client.block_on(client.connect(address, weft_transport::Time::MAX)).unwrap()
}

fn limit(bytes: u64) {
    let maximum = getrlimit(Resource::Memlock).maximum;
    setrlimit(Resource::Memlock, Rlimit { current: Some(bytes), maximum }).unwrap();
}

#[test]
fn no_more_is_registered_than_the_process_may_lock() {
    limit(256 * KIB);
    let client = endpoint(NodeId::client(1));
    let servers = [endpoint(NodeId(1)), endpoint(NodeId(2))];
    let [first, other] = servers.each_ref().map(|server| connect(&client, server));
    let buffer = |len: u64| Buffer::allocate(client.memory(), len as usize).unwrap();

    // Two fit; the third says what it lacks, and comes back as it was.
    let large = first.register(buffer(128 * KIB)).unwrap();
    let small = first.register(buffer(64 * KIB)).unwrap();
    let failed = first.register(buffer(65 * KIB)).unwrap_err();
    assert_eq!(
        failed.error,
        RegisterFailure::Refused(RegisterError::LimitReached {
            requested_bytes: 68 * KIB,
            used_bytes: 192 * KIB,
            limit_bytes: 256 * KIB,
        })
    );
    let words = failed.to_string();
    for part in ["69632 bytes", "196608", "262144", "RLIMIT_MEMLOCK", "ulimit -l", "LimitMEMLOCK="]
    {
        assert!(words.contains(part), "{part:?} is not in {words:?}");
    }
    let source = failed.source().map(ToString::to_string);
    assert_eq!(source, None, "its words would be printed twice");
    assert_eq!(failed.buffer.len() as u64, 68 * KIB);

    // What is not in use is kept, found again with another connection, and goes when there is need.
    let before = registration_stats();
    let large = other.register(large.unregister()).unwrap();
    let small = small.unregister();
    let stats = registration_stats();
    assert_eq!((stats.made, stats.reused), (before.made, before.reused + 1));
    assert_eq!((stats.used_bytes, stats.kept_bytes), (128 * KIB, 64 * KIB));
    let third = first.register(failed.buffer).unwrap();
    let stats = registration_stats();
    assert_eq!((stats.evicted, stats.used_bytes, stats.kept_bytes), (1, 196 * KIB, 0));
    assert!(first.register(small).is_err(), "there is no room for both");

    // Whoever raises the limit need not start anew.
    limit(512 * KIB);
    let fourth = first.register(buffer(256 * KIB)).unwrap();
    assert_eq!(registration_stats().limit_bytes, 512 * KIB);
    drop((large, third));
    assert_eq!(registration_stats().used_bytes, 256 * KIB);
    assert_eq!(registration_stats().kept_bytes, 0, "with the memory its registration goes");

    // Memory of one's own counts by the pages that it has a part of.
    let own = first.register(vec![1; 10].into()).unwrap();
    let own_bytes = registration_stats().used_bytes - 256 * KIB;
    assert!(own_bytes == 4 * KIB || own_bytes == 8 * KIB, "{own_bytes}");
    assert_eq!(own.unregister().into_vec().unwrap(), [1; 10]);
    assert_eq!(registration_stats().kept_bytes, 0, "its owner may free it");
    drop(fourth);
}
