//! What is done to hosts by whoever knows what they run: the nemesis says when.

use crate::world::{DiskFate, MemberId, World};

/// Who does it. A function that starts hosts again is one who knows of nothing else.
pub trait Hand {
    /// Brings a host back to life, by [`World::restart`] with what it is to have.
    fn restart(&mut self, world: &mut World, member: MemberId, fate: DiskFate);

    /// Has what a host runs end in good order, as an operator does. That takes time, in which the host is up and may be hit by other faults. Returns whether
    /// there was something that could end.
    fn stop(&mut self, _: &mut World, _: MemberId) -> bool {
        false
    }

    /// Starts again what was told to end, once it has. Returns whether there is nothing left to do: it runs again, in another life, or will be started by what
    /// has taken it down meanwhile.
    fn start(&mut self, _: &mut World, _: MemberId) -> bool {
        true
    }

    /// Has a host be relieved of what it holds, as an operator does who wants to take it away. Returns whether it can be.
    fn leave(&mut self, _: &mut World, _: MemberId) -> bool {
        false
    }

    /// Has it stay after all. Returns whether there is nothing left to do.
    fn stay(&mut self, _: &mut World, _: MemberId) -> bool {
        true
    }
}

impl<R: FnMut(&mut World, MemberId, DiskFate)> Hand for R {
    fn restart(&mut self, world: &mut World, member: MemberId, fate: DiskFate) {
        self(world, member, fate);
    }
}
