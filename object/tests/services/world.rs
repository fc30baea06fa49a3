//! Two endpoints with their services, and a connection between them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use weft_object::service::Services;
use weft_transport::{
    Connection, Endpoint, EndpointConfig, EndpointError, Handler, Incarnation, LinkPolicy, Memory,
    MemoryConfig, NodeId, Time, VerbsError,
};

/// The links that tests run over: verbs where there is a device and they were built, else those that need none.
pub(crate) fn links() -> &'static [LinkPolicy] {
    static HAS_DEVICE: LazyLock<bool> = LazyLock::new(|| {
        let mut config = EndpointConfig::new(NodeId(1), Incarnation(1), memory());
        config.links = LinkPolicy::Verbs;
        match Endpoint::start(config, Services::new().handler()) {
            Ok(_) => true,
            Err(EndpointError::Verbs(VerbsError::NotBuilt | VerbsError::NoDevice)) => false,
            Err(error) => panic!("{error:?}"),
        }
    });
    if *HAS_DEVICE { &[LinkPolicy::Verbs] } else { &[LinkPolicy::Tcp, LinkPolicy::Auto] }
}

/// Who exports, who imports, and how the one is connected to the other.
pub(crate) struct World {
    pub(crate) exporter: Services,
    pub(crate) importer: Services,
    pub(crate) server: Endpoint,
    pub(crate) client: Endpoint,
    pub(crate) connection: Connection,
}

impl World {
    pub(crate) fn new(link: LinkPolicy) -> Self {
        Self::with(link, Services::new(), Services::new())
    }

    pub(crate) fn with(link: LinkPolicy, exporter: Services, importer: Services) -> Self {
        let server = endpoint(NodeId(1), link, &exporter);
        let client = endpoint(next_client(), link, &importer);
        let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
        let connection = client.block_on(client.connect(address, soon(&client))).unwrap();
        Self { exporter, importer, server, client, connection }
    }
}

pub(crate) fn next_client() -> NodeId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NodeId::client(NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn memory() -> Memory {
    Memory::new(MemoryConfig { limit_bytes: 512 << 20 }).unwrap()
}

pub(crate) fn endpoint(node: NodeId, link: LinkPolicy, services: &Services) -> Endpoint {
    let mut config = EndpointConfig::new(node, Incarnation(1), memory());
    config.links = link;
    Endpoint::start(config, services.handler()).unwrap()
}

/// An endpoint with a handler that is no registry, or not only.
pub(crate) fn handled_by(node: NodeId, handler: Arc<dyn Handler>) -> Endpoint {
    let mut config = EndpointConfig::new(node, Incarnation(1), memory());
    config.links = LinkPolicy::Auto;
    Endpoint::start(config, handler).unwrap()
}

/// Long enough for whatever comes about at all.
pub(crate) fn soon(endpoint: &Endpoint) -> Time {
    endpoint.clock().now() + Duration::from_secs(20)
}

/// Waits until it is so, and fails if that takes long. The thread drives `endpoint` meanwhile.
pub(crate) fn wait_until(endpoint: &Endpoint, what: &str, is_so: impl Fn() -> bool) {
    let deadline = soon(endpoint);
    while !is_so() {
        let now = endpoint.clock().now();
        assert!(now < deadline, "{what} does not come about");
        endpoint.block_on(endpoint.sleep_until(now + Duration::from_millis(1)));
    }
}
