//! Where a replica stands, for the node that holds it: what it is a member of, what it has, and whether its primary makes entries at present.

use weft_protocol::Version;

use super::replica::Replica;
use super::roles::Role;

impl Replica {
    /// Has no entries made for as long as something else than a member has no room for them: its log, for example.
    pub fn refuse_entries(&mut self, refuses: bool) {
        self.room_bytes = if refuses { 0 } else { self.settings.tail_bytes_max };
    }

    /// Whether it has none made for that.
    pub fn refuses_entries(&self) -> bool {
        self.room_bytes == 0
    }

    /// Whether nobody else is a member: no one could take this one's place.
    pub fn is_sole_member(&self) -> bool {
        let configuration = self.configuration.as_ref();
        configuration.is_some_and(|configuration| configuration.members == [self.me])
    }

    /// Whether it knows of a committed configuration.
    pub fn is_configured(&self) -> bool {
        self.configuration.is_some()
    }

    /// Whether it is a learner that has taken all pieces of the snapshot.
    pub fn has_all_pieces(&self) -> bool {
        matches!(&self.role, Role::Learner(learning) if learning.has_all_pieces())
    }

    /// Whether something is to be carried out.
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// The entry behind which this replica's entries begin.
    pub fn base(&self) -> Version {
        self.tail.base()
    }

    /// Whether it is being given what there is.
    pub fn is_learner(&self) -> bool {
        matches!(self.role, Role::Learner(_))
    }
}
