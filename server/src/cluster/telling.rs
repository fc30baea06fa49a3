//! When what was done or read in a partition may be told.

use weft_transport::Time;

use super::hosted::Hosted;
use crate::withheld::{Awaited, Outlook, Waiting};

/// On which terms something may be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Up to which sequence everything is committed.
    pub(crate) committed: u64,
    /// Not after that.
    pub(crate) until: Time,
    /// Not when this has become more.
    pub(crate) depositions: u32,
}

impl Hosted {
    /// On which terms what is read here may be told; nothing if this node is not the one to tell it.
    #[inline]
    pub(crate) fn terms(&self) -> Terms {
        let (committed, depositions) = (self.committed, self.depositions);
        Terms { committed, until: self.replica.may_read_until(), depositions }
    }

    /// Has something wait until the entry is committed.
    ///
    /// # Errors
    /// It is, or will not be as long as this node is primary.
    pub(crate) fn withhold(
        &mut self,
        awaited: &Awaited,
        waiting: Waiting,
    ) -> Result<(), (Outlook, Waiting)> {
        let outlook = self.outlook(awaited);
        if outlook == Outlook::Open {
            self.withheld.push(awaited.sequence, waiting);
            return Ok(());
        }
        Err((outlook, waiting))
    }

    /// What has become of an entry. Of many partitions that a request is about one may be taken from this node while others are worked on.
    pub(crate) fn outlook(&self, awaited: &Awaited) -> Outlook {
        if awaited.depositions != self.depositions {
            Outlook::Deposed
        } else if awaited.sequence <= self.committed {
            Outlook::Committed
        } else {
            Outlook::Open
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_protocol::Member;
    use weft_transport::{Incarnation, Memory, MemoryConfig, NodeId};

    use super::*;
    use crate::cluster::hosted::{Due, Now};
    use crate::partitions::Partitions;

    /// A request about many partitions, of which one is taken from the node while others are worked on, is told so: neither that what it did
    /// there has happened, nor nothing.
    #[test]
    fn what_was_made_before_a_deposition_is_not_awaited_after_it() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let (cluster, mut placement, partitions) = Partitions::of_one_in(&memory, 1);
        let mut hosted = partitions.host(0);
        let terms = hosted.terms();
        let awaited = |sequence| Awaited { position: 0, sequence, depositions: terms.depositions };
        assert_eq!(hosted.outlook(&awaited(1)), Outlook::Committed);

        let other = Member { node: NodeId(2), incarnation: Incarnation(1) };
        let mut name = |primary, members: &[Member]| {
            placement.configuration.epoch += 1;
            placement.configuration.primary = Some(primary);
            placement.configuration.members = members.to_vec();
            let (epoch, now) =
                (placement.configuration.epoch.into(), Now { time: Time::ZERO, unix_ms: 0 });
            hosted.configure(&cluster, &placement, epoch, now, &mut Due::default());
            [hosted.outlook(&awaited(0)), hosted.outlook(&awaited(1))]
        };
        // As a member, and without anything of it; as the primary that it is again, too: the entries may be others.
        for members in [&[cluster.me, other][..], &[other]] {
            assert_eq!(name(other, members), [Outlook::Deposed; 2]);
        }
        assert_eq!(name(cluster.me, &[cluster.me]), [Outlook::Deposed; 2]);
        let again = Awaited { position: 0, sequence: 1, depositions: hosted.terms().depositions };
        assert_eq!(hosted.outlook(&again), Outlook::Committed);
    }
}
