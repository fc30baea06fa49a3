//! Endpoints over verbs, for tests that need a device and say so where there is none.

use std::sync::Arc;

use crate::endpoint::{Endpoint, EndpointConfig};
use crate::error::EndpointError;
use crate::handler::Handler;
use crate::identity::{Incarnation, NodeId};
use crate::link::{LinkPolicy, VerbsError};
use crate::memory::Memory;

/// An endpoint over verbs alone. Nothing where there is no device.
pub(super) fn start(node: u64, memory: &Memory, handler: Arc<dyn Handler>) -> Option<Endpoint> {
    let mut config = EndpointConfig::new(NodeId(node), Incarnation(1), memory.clone());
    config.links = LinkPolicy::Verbs;
    match Endpoint::start(config, handler) {
        Ok(endpoint) => Some(endpoint),
        Err(EndpointError::Verbs(missing @ VerbsError::NoDevice)) => {
            eprintln!("skipped: {missing}");
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}
