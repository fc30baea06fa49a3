//! What a node is admitted by, where it asks by the control port.
#![expect(
    clippy::big_endian_bytes,
    reason = "people read a cluster's id in the order of its digits"
)]

use tonic::Status;
use weft_protocol::control::v1;
use weft_transport::{Incarnation, NodeId};

use super::proposing::proposal_id;
use super::refusal::{Subject, invalid};
use super::service::Service;
use crate::coordinator::{ClusterId, Command, Join, NodeDescription, Outcome};

impl Service {
    /// Has the coordinators admit a node.
    pub(super) async fn admit(&self, request: v1::JoinRequest) -> Result<v1::JoinResponse, Status> {
        let id = proposal_id(request.request, 0);
        let outcome = self.propose(Subject::Node, id, Command::Join(join(request)?)).await?;
        let Outcome::Joined { cluster, timing, .. } = outcome else {
            return Err(Status::internal("the coordinators answered something else"));
        };
        Ok(v1::JoinResponse {
            cluster_id: cluster.0.to_be_bytes().to_vec(),
            map_version: self.cluster_status().await?.map_version,
            heartbeat_ms: milliseconds(timing.heartbeat()),
            lease_ms: milliseconds(timing.lease()),
        })
    }
}

/// What a node presents. It has nothing that it kept from an earlier life.
fn join(request: v1::JoinRequest) -> Result<Join, Status> {
    let member = request.member.ok_or_else(|| invalid("member is missing"))?;
    let cluster = request.cluster_id.map(<[u8; 16]>::try_from).transpose();
    let cluster = cluster.map_err(|_| invalid("cluster_id is not of 16 bytes"))?;
    let wire_version = u16::try_from(request.wire_version);
    Ok(Join {
        cluster: cluster.map(|bytes| ClusterId(u128::from_be_bytes(bytes))),
        node: NodeId(member.node),
        incarnation: Incarnation(member.incarnation),
        last_incarnation: None,
        complete: Vec::new(),
        wire_version: wire_version.map_err(|_| invalid("wire_version is above 65,535"))?,
        description: NodeDescription {
            data_address: request.data_address,
            control_address: request.control_address,
            zone: request.zone,
            capacity_bytes: request.capacity_bytes,
            is_coordinator: request.may_coordinate,
            is_diskless: request.is_diskless,
        },
    })
}

fn milliseconds(time: std::time::Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
