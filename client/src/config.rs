//! What a client is told.

use std::time::Duration;

use weft_transport::{LinkPolicy, PollPolicy, VerbsOptions};

/// How a client finds its cluster, and how long and with how much it works.
///
/// ```
/// use std::time::Duration;
/// use weft_client::ClientConfig;
///
/// let mut config = ClientConfig::new(["127.0.0.1:7400"]);
/// config.timeout = Duration::from_millis(200);
/// ```
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Addresses of nodes, `host:port`. One that answers is enough, since every node has the map;
    /// name several so that a client can start while one of them is down.
    pub bootstrap: Vec<String>,
    /// How long an operation may take, all attempts together: 5 s. A multi-operation has this long
    /// for the whole of it.
    pub timeout: Duration,
    /// How the client's own thread waits for replies: adaptive. `busy` suits a client with a core
    /// to itself, `park` one that is mostly idle.
    pub poll: PollPolicy,
    /// What connections run over: shared memory with nodes on the same host, verbs where both sides
    /// have an RDMA device (and the feature `verbs`), TCP with others.
    pub link: LinkPolicy,
    /// Which RDMA device verbs use: the first with an active port.
    pub verbs: VerbsOptions,
    /// How many threads the client has of its own, which send and receive for async callers: 1.
    pub reactors: usize,
    /// The most memory for messages on their way, both directions together: 640 MiB. What is not
    /// used is not touched.
    pub memory_limit_bytes: u64,
}

impl ClientConfig {
    /// The defaults, for the cluster that the nodes at these addresses belong to.
    pub fn new<A: Into<String>>(bootstrap: impl IntoIterator<Item = A>) -> Self {
        Self {
            bootstrap: bootstrap.into_iter().map(Into::into).collect(),
            timeout: Duration::from_secs(5),
            poll: PollPolicy::Adaptive,
            link: LinkPolicy::Auto,
            verbs: VerbsOptions::default(),
            reactors: 1,
            memory_limit_bytes: 640 << 20,
        }
    }
}
