//! How the cluster is, by the control ports of its nodes.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::runtime::{self, Runtime};
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use weft_protocol::control::v1::control_client::ControlClient;
use weft_protocol::control::v1::{
    Member, Node, Partition, Standing, StatusRequest, StatusResponse,
};

/// How long one node is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The control ports, of which any will do.
pub(crate) struct Control {
    runtime: Runtime,
    ports: Vec<ControlClient<Channel>>,
}

/// How the cluster is.
pub(crate) struct View {
    /// Which node leads the coordinators.
    pub(crate) leader: Option<u64>,
    /// Which node is primary of which partition.
    pub(crate) primaries: BTreeMap<u16, u64>,
    /// All partitions have their primary, and as many members that are up as they ought to have.
    pub(crate) is_whole: bool,
    /// How many partitions the nodes are primary of, which are up.
    pub(crate) led: BTreeMap<u64, usize>,
}

impl Control {
    pub(crate) fn new(addresses: &[String]) -> Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let port = |address: &String| {
            let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
            // What waits for a connection needs the runtime.
            let _within = runtime.enter();
            anyhow::Ok(ControlClient::new(endpoint.connect_lazy()))
        };
        let ports = addresses.iter().map(port).collect::<Result<_>>()?;
        Ok(Self { runtime, ports })
    }

    /// What the first node says that answers. It is the first that is asked the next time.
    pub(crate) fn look(&mut self) -> Option<View> {
        for _ in 0..self.ports.len() {
            let port = &mut self.ports[0];
            let asked = async { timeout(PATIENCE, port.status(StatusRequest {})).await };
            if let Ok(Ok(answer)) = self.runtime.block_on(asked) {
                return Some(View::of(&answer.into_inner()));
            }
            self.ports.rotate_left(1);
        }
        None
    }

    /// Looks until all `is_so`, which `what` says.
    pub(crate) fn wait(
        &mut self,
        what: &str,
        patience: Duration,
        is_so: impl Fn(&View) -> bool,
    ) -> Result<View> {
        let until = Instant::now() + patience;
        loop {
            if let Some(view) = self.look().filter(&is_so) {
                return Ok(view);
            }
            if Instant::now() > until {
                bail!("the cluster is not {what} within {patience:?}");
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl View {
    fn of(status: &StatusResponse) -> Self {
        let holders = status.nodes.iter().filter(|node| node.capacity_bytes > 0).count();
        let is_up = |member: &Member| {
            let is_it = |node: &&Node| node.member.as_ref() == Some(member);
            let node = status.nodes.iter().find(is_it);
            node.is_some_and(|node| node.standing() == Standing::Up)
        };
        let is_whole = |partition: &Partition| {
            let up = partition.members.iter().filter(|member| is_up(member)).count();
            up == holders.min(partition.replicas as usize)
                && partition.primary.as_ref().is_some_and(is_up)
        };
        let leader = status.coordinators.iter().find(|coordinator| coordinator.is_leader);
        let nodes = status.nodes.iter().filter_map(|node| node.member.filter(is_up));
        let mut led: BTreeMap<u64, usize> = nodes.map(|member| (member.node, 0)).collect();
        let mut primaries = BTreeMap::new();
        for partition in &status.partitions {
            if let Some(primary) = partition.primary.filter(is_up) {
                *led.entry(primary.node).or_default() += 1;
                primaries.insert(partition.partition as u16, primary.node);
            }
        }
        let is_whole = !status.partitions.is_empty() && status.partitions.iter().all(is_whole);
        Self { leader: leader.map(|leader| leader.node), primaries, is_whole, led }
    }

    /// Whole, with all of `nodes` up, which are primary of about as many partitions each.
    pub(crate) fn is_at_rest(&self, nodes: usize) -> bool {
        let least = self.led.values().min().copied().unwrap_or(0);
        let most = self.led.values().max().copied().unwrap_or(0);
        self.is_whole && self.led.len() == nodes && most - least <= 2
    }

    /// The partitions that `node` is primary of.
    pub(crate) fn led_by(&self, node: u64) -> Vec<u16> {
        let of_node = self.primaries.iter().filter(|(_, primary)| **primary == node);
        of_node.map(|(partition, _)| *partition).collect()
    }
}

#[cfg(test)]
mod tests {
    use weft_protocol::control::v1::Coordinator;

    use super::*;

    fn three() -> StatusResponse {
        let member = |node| Member { node, incarnation: 5 };
        let node = |id| Node {
            member: Some(member(id)),
            standing: Standing::Up.into(),
            capacity_bytes: 1,
            ..Node::default()
        };
        let partition = |number: u32| Partition {
            partition: number,
            replicas: 3,
            primary: Some(member(u64::from(number % 3 + 1))),
            members: [1, 2, 3].map(member).to_vec(),
            ..Partition::default()
        };
        let leader = Coordinator { node: 2, is_leader: true, ..Coordinator::default() };
        StatusResponse {
            nodes: [1, 2, 3].map(node).to_vec(),
            partitions: (0..6).map(partition).collect(),
            coordinators: vec![leader],
            ..StatusResponse::default()
        }
    }

    #[test]
    fn a_cluster_of_three_is_at_rest() {
        let view = View::of(&three());
        assert!(view.is_at_rest(3));
        assert_eq!((view.leader, view.led_by(2)), (Some(2), vec![1, 4]));
    }

    #[test]
    fn one_that_lacks_a_node_or_a_member_is_not_whole() {
        let mut status = three();
        status.nodes[2].set_standing(Standing::Down);
        let view = View::of(&status);
        assert!(!view.is_whole);
        assert_eq!(view.led.len(), 2);
        let mut status = three();
        status.partitions[3].members.pop();
        assert!(!View::of(&status).is_whole);
        // In another life than the one that was a member.
        let mut status = three();
        status.nodes[2].member = Some(Member { node: 3, incarnation: 6 });
        assert!(!View::of(&status).is_whole);
    }
}
