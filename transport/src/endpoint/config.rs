//! How an endpoint behaves.

use std::time::Duration;

use crate::error::EndpointError;
use crate::handshake::Windows;
use crate::identity::{Incarnation, NodeId};
use crate::idle::PollPolicy;
use crate::limits::{WINDOW_MAX, WINDOW_MIN};
use crate::link::{LinkPolicy, VerbsOptions};
use crate::manager::Backoff;
use crate::memory::Memory;
use crate::secret::Secret;
use crate::session::receives::Messages;
use crate::time::Clock;

/// How an endpoint behaves. The defaults of [`new`](Self::new) suit a client.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// Who this is.
    pub node: NodeId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// What a peer has to know before anything of it counts, a claim to be some node included; this
    /// endpoint shows it to whom it connects to. With none, everybody may connect.
    pub secret: Option<Secret>,
    /// What frames are sent from and received into.
    pub memory: Memory,
    /// How threads wait for the network.
    pub poll: PollPolicy,
    /// What connections run over.
    pub links: LinkPolicy,
    /// Which RDMA device connections over verbs use.
    pub verbs: VerbsOptions,
    /// Who is given messages that are not answered: the handler, or whoever posts receives.
    pub messages: Messages,
    /// How many threads receive and dispatch. With one, a caller that blocks drives it itself.
    pub reactors: usize,
    /// What time it is.
    pub clock: Clock,
    /// How many bytes each connection may send us beyond what has been handled.
    pub windows: Windows,
    /// How many connections there may be. One more ends the one that has been idle for longest, and for a second at
    /// least, or is refused.
    pub connections_max: usize,
    /// How long connecting may take, the greeting included.
    pub connect_timeout: Duration,
    /// How often an address of the connection manager's list is tried where no node has been found.
    pub discovery_interval: Duration,
    /// For how long an address that could not be connected to is left alone, and one of the list whose node was lost. The
    /// pauses begin anew after a connection that has lasted for [`discovery_interval`](Self::discovery_interval), or for the
    /// longest pause, whichever is less.
    pub backoff: Backoff,
    /// What these pauses are drawn from: the same seed draws the same ones.
    pub seed: u64,
    /// A peer is disconnected that for this long takes nothing though its link is full, so that something waits on this
    /// side, over TCP also in the system's buffer for sending; that grants nothing of large bodies while all of them wait
    /// for that; or that does not go on with a frame or large body that it has begun. So is one whose machine is silent, and says nothing
    /// when it is asked, which over TCP is done after 10 s.
    ///
    /// What the link has room for does not wait: the ring of shared memory, or the socket buffer of the peer's system. With
    /// no more than that under way a peer may be stopped for as long as it likes.
    pub stall_timeout: Duration,
}

impl EndpointConfig {
    /// One reactor, adaptive polling, the system's clock.
    pub fn new(node: NodeId, incarnation: Incarnation, memory: Memory) -> Self {
        Self {
            node,
            incarnation,
            secret: None,
            memory,
            poll: PollPolicy::default(),
            links: LinkPolicy::default(),
            verbs: VerbsOptions::default(),
            messages: Messages::default(),
            reactors: 1,
            clock: Clock::system(),
            windows: Windows::default(),
            connections_max: 10_000,
            connect_timeout: Duration::from_secs(5),
            discovery_interval: Duration::from_secs(1),
            backoff: Backoff::default(),
            // Nodes that start at one moment draw different pauses.
            seed: node.0 ^ incarnation.0.rotate_left(32),
            stall_timeout: Duration::from_secs(30),
        }
    }

    pub(super) fn check(&self) -> Result<(), EndpointError> {
        if self.reactors == 0 {
            return Err(EndpointError::Config("it needs at least one reactor"));
        }
        let Windows { reply, replication, request } = self.windows;
        if [reply, replication, request].iter().any(|w| !(WINDOW_MIN..=WINDOW_MAX).contains(w)) {
            return Err(EndpointError::Config("a window is out of bounds"));
        }
        if self.discovery_interval.is_zero() {
            return Err(EndpointError::Config("its discovery interval is zero"));
        }
        self.backoff.check().map_err(EndpointError::Config)?;
        Ok(())
    }
}
