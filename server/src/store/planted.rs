//! Bugs that can be put into a partition, to see whether a simulation would notice. They exist in tests and with the feature
//! `planted-bugs` only: elsewhere every question whether one is there is answered `false` when the program is compiled.

#[cfg(any(test, feature = "planted-bugs"))]
use super::partition::Partition;

/// A mistake that somebody could make here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// A replica that follows applies what a client's request did, and does not remember that it was done.
    ForgetCompletions,
    /// Whether a request was done before is not looked at.
    RepeatRequests,
}

/// What is planted in a partition: nothing, but where it was asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Planted {
    #[cfg(any(test, feature = "planted-bugs"))]
    bug: Option<PlantedBug>,
}

impl Planted {
    #[inline]
    pub(super) fn has(self, bug: PlantedBug) -> bool {
        #[cfg(any(test, feature = "planted-bugs"))]
        return self.bug == Some(bug);
        #[cfg(not(any(test, feature = "planted-bugs")))]
        {
            let _ = bug;
            false
        }
    }
}

#[cfg(any(test, feature = "planted-bugs"))]
impl Partition {
    /// Plants a bug, or none.
    pub fn plant(&mut self, bug: Option<PlantedBug>) {
        self.planted = Planted { bug };
    }
}
