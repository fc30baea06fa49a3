//! A node that an operator tells to leave, and to stay after all: its partitions go elsewhere meanwhile, it may be forgotten, and it comes back then as one that
//! was never there.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weft_server::coordinator::{Answer, Ask, Command, Proposal, ProposalId};
use weft_server::handler::NodeHandler;
use weft_transport::{Endpoint, NodeId};

use super::host::{Host, pause};
use super::nodes::Cluster;
use super::{Role, Stands};
use crate::scenario::Failure;
use crate::world::{MemberId, World};

/// What a node was told, from life to life. Clones are of the same node.
#[derive(Clone, Default)]
pub(super) struct Orders(Rc<Told>);

#[derive(Default)]
struct Told {
    phase: Cell<Phase>,
    /// Whether it was ever told to leave: the coordinators may still hear of it.
    was_told: Cell<bool>,
    /// Orders to leave that the coordinators have not answered yet, and may still carry out.
    unanswered: Cell<u32>,
}

/// An order to leave, as long as it is not answered.
struct Unanswered(Rc<Told>);

impl Unanswered {
    fn begin(told: &Rc<Told>) -> Unanswered {
        told.unanswered.update(|count| count + 1);
        Unanswered(Rc::clone(told))
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.unanswered.update(|count| count - 1);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    /// It is to stay, and the coordinators have said that it does.
    #[default]
    Stays,
    /// It is to leave.
    Leaves,
    /// It is to stay, and the coordinators are being asked in this life of its host.
    IsToStay(u64),
    /// It is to stay, and is a node of the cluster no more.
    IsForgotten,
}

/// How often nodes were told, and what came of it.
#[derive(Clone, Default)]
pub(super) struct Left(Rc<RefCell<Counts>>);

/// Of all nodes.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    /// The coordinators took it that a node is to leave.
    pub(super) leaving: u64,
    /// It had to be told that it stays after all.
    pub(super) stayed: u64,
    /// It was gone by then, and came back.
    pub(super) forgotten: u64,
}

impl Left {
    pub(super) fn counts(&self) -> Counts {
        *self.0.borrow()
    }

    fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.0.borrow_mut());
    }
}

impl Orders {
    async fn leave(self, asking: Asking, left: Left) {
        let _unanswered = Unanswered::begin(&self.0);
        while self.0.phase.get() == Phase::Leaves {
            if let Some(is_done) = asking.ask(|node| Command::Leave { node }).await {
                left.count(|counts| counts.leaving += u64::from(is_done));
                return;
            }
        }
    }

    async fn stay(self, asking: Asking, life: u64, left: Left) {
        while self.0.phase.get() == Phase::IsToStay(life) {
            let Some(is_done) = asking.ask(|node| Command::Stay { node }).await else { continue };
            if self.0.phase.get() != Phase::IsToStay(life) {
                return;
            }
            left.count(|counts| match is_done {
                true => counts.stayed += 1,
                false => counts.forgotten += 1,
            });
            self.0.phase.set(if is_done { Phase::Stays } else { Phase::IsForgotten });
        }
    }
}

/// Who asks the coordinators for an operator: any node may.
struct Asking {
    handler: Arc<NodeHandler>,
    endpoint: Endpoint,
    node: NodeId,
    id: ProposalId,
}

impl Asking {
    fn by(host: &Host, seed: u64) -> Option<Asking> {
        let (handler, endpoint) = (host.handler.clone()?, host.endpoint.clone()?);
        let id = ProposalId(StdRng::seed_from_u64(seed).random_range(1..u128::MAX));
        Some(Asking { handler, endpoint, node: host.node, id })
    }

    /// Whether it is done; `None` if nobody has said so, which is asked again.
    async fn ask(&self, command: impl FnOnce(NodeId) -> Command) -> Option<bool> {
        let ask = Ask::Propose(Proposal { id: self.id, command: command(self.node) });
        match self.handler.ask_coordinators(&self.endpoint, &ask).await {
            Answer::Decided(decided) => Some(decided.is_ok()),
            _ => {
                pause(&self.endpoint, AGAIN_AFTER).await;
                None
            }
        }
    }
}

impl Cluster {
    /// Tells a storage node to leave.
    pub(super) fn tell_to_leave(&mut self, world: &mut World, member: MemberId) -> bool {
        let seed = self.seed_of_order(world);
        let hosts = self.hosts.borrow();
        let Some(host) = hosts.get(&member).filter(|host| host.role == Role::Storage) else {
            return false;
        };
        let orders = host.orders.clone();
        let Some(asking) = Asking::by(host, seed).filter(|_| orders.0.phase.get() == Phase::Stays)
        else {
            return false;
        };
        orders.0.phase.set(Phase::Leaves);
        orders.0.was_told.set(true);
        let leaving = orders.leave(asking, self.left.clone());
        world.spawn_background(member, host.parting.clone().unless_told(leaving));
        true
    }

    /// Tells it to stay after all, and how far that has come: [`Stands::Ended`] if it is forgotten, and has to be started again.
    pub(super) fn tell_to_stay(&mut self, world: &mut World, member: MemberId) -> Stands {
        let seed = self.seed_of_order(world);
        let hosts = self.hosts.borrow();
        let Some(host) = hosts.get(&member) else { return Stands::Elsewhere };
        let (orders, life) = (host.orders.clone(), world.life(member));
        // Who is down is told when he is back.
        let is_here = world.is_up(member) && !host.parting.is_told();
        match orders.0.phase.get() {
            Phase::Stays => Stands::Elsewhere,
            _ if !is_here => Stands::Ending,
            Phase::IsForgotten => {
                orders.0.phase.set(Phase::Stays);
                Stands::Ended
            }
            Phase::IsToStay(asked_in) if asked_in == life => Stands::Ending,
            Phase::Leaves | Phase::IsToStay(_) => {
                orders.0.phase.set(Phase::IsToStay(life));
                if let Some(asking) = Asking::by(host, seed) {
                    let staying = orders.stay(asking, life, self.left.clone());
                    world.spawn_background(member, host.parting.clone().unless_told(staying));
                }
                Stands::Ending
            }
        }
    }

    /// Tells all that were ever told to leave to stay, once more: what was asked for before may have been carried out since, and is answered first. Returns who is forgotten.
    pub(super) fn have_all_stay(&mut self, world: &mut World) -> Result<Vec<MemberId>, Failure> {
        let told: BTreeMap<MemberId, Orders> = {
            let hosts = self.hosts.borrow();
            let told = hosts.iter().filter(|(_, host)| host.orders.0.was_told.get());
            told.map(|(member, host)| (*member, host.orders.clone())).collect()
        };
        let mut forgotten = Vec::new();
        let end = world.clock().now() + ANSWERED_AFTER_MAX;
        for (member, orders) in told {
            while orders.0.unanswered.get() > 0 && world.clock().now() < end {
                let next = world.clock().now() + LOOK_EVERY;
                world.go_on_until(next)?;
            }
            if orders.0.phase.get() == Phase::Stays {
                orders.0.phase.set(Phase::Leaves);
            }
            loop {
                match self.tell_to_stay(world, member) {
                    Stands::Elsewhere => break,
                    Stands::Ended => {
                        forgotten.push(member);
                        break;
                    }
                    Stands::Ending if world.clock().now() >= end => break,
                    Stands::Ending => {
                        let next = world.clock().now() + LOOK_EVERY;
                        world.go_on_until(next)?;
                    }
                }
            }
        }
        Ok(forgotten)
    }

    /// Another one for every order.
    fn seed_of_order(&mut self, world: &World) -> u64 {
        self.orders_given += 1;
        self.seed ^ world.clock().now().nanos() ^ self.orders_given << 48
    }
}

const AGAIN_AFTER: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Longer than coordinators that are well take for an answer.
const ANSWERED_AFTER_MAX: Duration = Duration::from_secs(60);
