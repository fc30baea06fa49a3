//! An operator accepts that what partitions held is gone: they begin anew, on nodes that are up.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tonic::{Code, Status};
use weft_protocol::control::v1::{
    AcceptLossRequest, AcceptLossResponse, Node, Partition, StatusResponse,
};
use weft_protocol::{ErrorCode, PartitionId};

use super::proposing::proposal_id;
use super::refusal::{Subject, status};
use super::service::Service;
use crate::coordinator::{Command, Outcome};
use crate::limits::CONTROL_LOSSES_TOGETHER;

impl Service {
    /// Asked again for the same request, what was done before is not done again: the ids of the proposals are those of the request and of the partition.
    pub(super) async fn accept_losses(
        &self,
        request: AcceptLossRequest,
    ) -> Result<AcceptLossResponse, Status> {
        let cluster = self.cluster_status().await?;
        let chosen = chosen(&cluster, &request)?;
        let mut begun = Vec::with_capacity(chosen.len());
        for partition in chosen {
            begun.push(self.begin_anew(request.request, request.give_up, partition));
        }
        let begun = stream::iter(begun).buffered(CONTROL_LOSSES_TOGETHER);
        let partitions = begun.try_collect().await?;
        let map_version = self.cluster_status().await?.map_version;
        Ok(AcceptLossResponse { partitions, map_version })
    }

    async fn begin_anew(
        &self,
        request: u64,
        give_up: bool,
        partition: &Partition,
    ) -> Result<u32, Status> {
        // The coordinator's numbers have 16 bits; a partition of another number was refused.
        let id = PartitionId(partition.partition as u16);
        let part = u64::from(id.0) << 1;
        let mut expected_epoch = partition.epoch;
        if give_up && !partition.is_lost {
            let command = Command::DeclareLost { partition: id, expected_epoch };
            let done = self.propose(Subject::Partition, proposal_id(request, part), command);
            if let Outcome::Reconfigured { epoch } = done.await? {
                expected_epoch = epoch;
            }
        }
        // Whether it is lost is for the coordinator to say, since this may be done already; and who has it then is for the leader to choose.
        let members = Vec::new();
        let command = Command::AcceptLoss { partition: id, expected_epoch, members };
        self.propose(Subject::Partition, proposal_id(request, part | 1), command).await?;
        Ok(partition.partition)
    }
}

/// The partitions that are meant: those that are named, each once, or all that are lost; with those that are given up.
fn chosen<'s>(
    cluster: &'s StatusResponse,
    request: &AcceptLossRequest,
) -> Result<Vec<&'s Partition>, Status> {
    if request.partitions.is_empty() {
        let is_meant = |partition: &&Partition| {
            partition.is_lost || request.give_up && is_given_up(cluster, partition)
        };
        return Ok(cluster.partitions.iter().filter(is_meant).collect());
    }
    let named: BTreeSet<u32> = request.partitions.iter().copied().collect();
    let find = |number| {
        let found = cluster.partitions.iter().find(|partition| partition.partition == number);
        found.ok_or_else(|| {
            let message = format!("there is no partition {number}");
            status(Code::NotFound, ErrorCode::PartitionUnknown, message)
        })
    };
    named.into_iter().map(find).collect()
}

/// Whether nobody is up that has anything of the partition.
fn is_given_up(cluster: &StatusResponse, partition: &Partition) -> bool {
    let is_down = |node: u64| {
        let of = |other: &&Node| other.member.is_some_and(|member| member.node == node);
        let found = cluster.nodes.iter().find(of);
        found.is_some_and(|node| node.standing().is_down())
    };
    partition.members.iter().all(|member| is_down(member.node))
}
