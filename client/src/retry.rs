//! Whether an operation that failed is tried again, when, and with which map.
//!
//! The rule that everything here serves: a mutation that may have been applied is never sent again
//! as a new request. A read may be, and so may whatever certainly had no effect. Pauses double from
//! a millisecond to a tenth of a second and are spread at random over their second half, so that the
//! clients of a node that comes back do not all arrive at once.
//!
//! Without I/O and without a clock: the caller passes what happened and when, and does as told.

use std::time::Duration;

use weft_protocol::ErrorCode;
use weft_transport::{Applied, ConnectError, Time};

use crate::error::{AddressError, ClientError, Unreachable};
use crate::limits::{PAUSE_MAX, PAUSE_MIN};

/// Whether an operation changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It does not, so it bears repeating.
    Read,
    /// It may.
    Mutation,
}

/// What an attempt needs of the map, or of the tables, before it starts, from little to much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MapNeed {
    /// There may be a newer one: look, unless somebody has just looked.
    Recheck,
    /// The node may have missed that there is a table.
    Tables,
    /// There is one of this epoch.
    AtLeast(u64),
}

/// The next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Next {
    /// Not before then.
    pub(crate) at: Time,
    /// And after seeing to the map, or to the tables.
    pub(crate) map: MapNeed,
}

/// The attempts of one operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retry {
    effect: Effect,
    deadline: Time,
    pauses: u32,
    /// The newest map that this operation has asked for.
    epoch_sought: u64,
    /// Whether it was seen to that nodes know all tables.
    tables_sought: bool,
}

impl Retry {
    pub(crate) const fn new(effect: Effect, deadline: Time) -> Self {
        Self { effect, deadline, pauses: 0, epoch_sought: 0, tables_sought: false }
    }

    pub(crate) const fn effect(&self) -> Effect {
        self.effect
    }

    pub(crate) const fn deadline(&self) -> Time {
        self.deadline
    }

    /// Whether it can do no harm and some good to try again after `error`, which came of an attempt
    /// by the map of `map_epoch`; and what the next attempt needs.
    pub(crate) fn need(&self, error: &ClientError, map_epoch: u64) -> Option<MapNeed> {
        match error {
            ClientError::Refused { code: ErrorCode::WrongOwner, argument: newest, .. }
                if *newest > map_epoch =>
            {
                Some(MapNeed::AtLeast(*newest))
            }
            ClientError::Refused { code: ErrorCode::TableUnknown, .. } => {
                (!self.tables_sought).then_some(MapNeed::Tables)
            }
            ClientError::Refused { code, .. } => bears_repeating(*code).then_some(MapNeed::Recheck),
            ClientError::SlotUnowned { .. } => Some(MapNeed::Recheck),
            ClientError::Unreachable { reason, .. } => may_pass(reason).then_some(MapNeed::Recheck),
            ClientError::Disconnected { applied, .. }
            | ClientError::DeadlineExceeded { applied, .. } => {
                self.may_repeat(*applied).then_some(MapNeed::Recheck)
            }
            ClientError::Limit(_)
            | ClientError::UnknownNode { .. }
            | ClientError::ClusterNotReachable { .. }
            | ClientError::MapUnsettled { .. }
            | ClientError::MalformedReply { .. }
            | ClientError::Catalog(_)
            | ClientError::TablesUnsettled { .. }
            | ClientError::PartlyApplied { .. }
            | ClientError::FellBehind { .. }
            | ClientError::WatchLost { .. }
            | ClientError::Memory(_)
            | ClientError::ReplyMemory { .. }
            | ClientError::Endpoint(_) => None,
        }
    }

    /// When to try again after an attempt that failed now, if there is time. `random` are 64 random
    /// bits.
    pub(crate) fn after(&mut self, need: MapNeed, now: Time, random: u64) -> Option<Next> {
        let (pause, map) = match need {
            // The first word of a newer map is worth no pause. If that cannot be had, or does not
            // help, the next one is.
            MapNeed::AtLeast(epoch) if epoch > self.epoch_sought => {
                self.epoch_sought = epoch;
                (Duration::ZERO, need)
            }
            MapNeed::Tables => {
                self.tables_sought = true;
                (Duration::ZERO, need)
            }
            MapNeed::AtLeast(_) | MapNeed::Recheck => (self.pause(random), MapNeed::Recheck),
        };
        let at = now + pause;
        (at < self.deadline).then_some(Next { at, map })
    }

    fn may_repeat(&self, applied: Applied) -> bool {
        self.effect == Effect::Read || applied == Applied::No
    }

    fn pause(&mut self, random: u64) -> Duration {
        let longest = PAUSE_MIN.saturating_mul(1 << self.pauses.min(20)).min(PAUSE_MAX);
        self.pauses += 1;
        let half = longest / 2;
        half + half.mul_f64((random >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// Whether a server's refusal says that nothing was done and that another node, or the same one
/// later, may do it.
const fn bears_repeating(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::WrongOwner | ErrorCode::SlotUnowned | ErrorCode::ShuttingDown)
}

/// Whether a node that cannot be reached now may be reached later, there or where a newer map says.
const fn may_pass(reason: &Unreachable) -> bool {
    !matches!(
        reason,
        Unreachable::Connect(ConnectError::ShutDown { .. })
            | Unreachable::Address(AddressError::Malformed)
    )
}

#[cfg(test)]
mod tests {
    use weft_protocol::Slot;
    use weft_transport::{CloseReason, NodeId};

    use super::*;
    use crate::error::NodeName;

    const NOW: Time = Time::from_nanos(1_000_000_000);
    const DEADLINE: Time = Time::from_nanos(6_000_000_000);
    const MAP_EPOCH: u64 = 7;

    fn node() -> NodeName {
        NodeName { id: NodeId(2), address: "127.0.0.1:7400".into() }
    }

    fn refused(code: ErrorCode, argument: u64) -> ClientError {
        ClientError::Refused { node: node(), code, argument, detail: "".into() }
    }

    fn lost(effect: Effect, applied: Applied) -> ClientError {
        ClientError::Disconnected { node: node(), applied, effect, reason: CloseReason::PeerGone }
    }

    fn unreachable() -> ClientError {
        let address = "127.0.0.1:7400".parse().unwrap();
        let kind = std::io::ErrorKind::ConnectionRefused;
        let refused = ConnectError::Refused { address, kind, os_error: None };
        ClientError::Unreachable { node: node(), reason: refused.into() }
    }

    /// What the second attempt needs, or `None` if there is none.
    fn check(effect: Effect, error: &ClientError, expected: Option<MapNeed>) {
        let need = Retry::new(effect, DEADLINE).need(error, MAP_EPOCH);
        assert_eq!(need, expected, "{effect:?} after {error}");
        // The decision never contradicts what the error tells the caller.
        if effect == Effect::Mutation && error.applied() == Applied::Maybe {
            assert_eq!(need, None, "{error}");
        }
    }

    #[test]
    fn a_mutation_that_may_have_been_applied_is_not_repeated() {
        check(Effect::Mutation, &lost(Effect::Mutation, Applied::Maybe), None);
        check(Effect::Mutation, &lost(Effect::Mutation, Applied::No), Some(MapNeed::Recheck));
        check(Effect::Read, &lost(Effect::Read, Applied::Maybe), Some(MapNeed::Recheck));
        let timeout = Duration::from_secs(5);
        for (effect, applied, expected) in [
            (Effect::Mutation, Applied::Maybe, None),
            (Effect::Mutation, Applied::No, Some(MapNeed::Recheck)),
            (Effect::Read, Applied::Maybe, Some(MapNeed::Recheck)),
        ] {
            check(
                effect,
                &ClientError::DeadlineExceeded { node: node(), applied, effect, timeout },
                expected,
            );
        }
    }

    #[test]
    fn every_code_of_the_server_agrees_with_what_it_says_of_having_been_applied() {
        for &code in ErrorCode::all() {
            let expected = match code {
                ErrorCode::TableUnknown => Some(MapNeed::Tables),
                _ => bears_repeating(code).then_some(MapNeed::Recheck),
            };
            check(Effect::Mutation, &refused(code, 0), expected);
            check(Effect::Read, &refused(code, 0), expected);
        }
    }

    #[test]
    fn nodes_are_told_of_the_tables_once() {
        let unknown = refused(ErrorCode::TableUnknown, 0);
        let mut retry = Retry::new(Effect::Mutation, DEADLINE);
        let next = retry.after(retry.need(&unknown, MAP_EPOCH).unwrap(), NOW, 0);
        assert_eq!(next, Some(Next { at: NOW, map: MapNeed::Tables }));
        assert_eq!(retry.need(&unknown, MAP_EPOCH), None);
    }

    #[test]
    fn what_had_no_effect_is_tried_elsewhere_or_later() {
        for effect in [Effect::Read, Effect::Mutation] {
            check(effect, &unreachable(), Some(MapNeed::Recheck));
            let slot = Slot::of(b"warp");
            let unowned = ClientError::SlotUnowned { slot, epoch: MAP_EPOCH };
            check(effect, &unowned, Some(MapNeed::Recheck));
            check(effect, &refused(ErrorCode::MemoryLimitReached, 0), None);
            let malformed = Unreachable::Address(AddressError::Malformed);
            check(effect, &ClientError::Unreachable { node: node(), reason: malformed }, None);
        }
    }

    #[test]
    fn a_newer_map_is_fetched_at_once_and_an_older_one_waited_for() {
        let retry = Retry::new(Effect::Mutation, DEADLINE);
        let need = |newest| retry.need(&refused(ErrorCode::WrongOwner, newest), MAP_EPOCH);
        assert_eq!(need(9), Some(MapNeed::AtLeast(9)));
        assert_eq!(need(MAP_EPOCH), Some(MapNeed::Recheck));
        assert_eq!(need(3), Some(MapNeed::Recheck));
    }

    #[test]
    fn a_newer_map_that_does_not_come_is_not_asked_for_in_a_circle() {
        let mut retry = Retry::new(Effect::Read, DEADLINE);
        let mut after = |epoch| retry.after(MapNeed::AtLeast(epoch), NOW, 0).unwrap();
        assert_eq!(after(9), Next { at: NOW, map: MapNeed::AtLeast(9) });
        for epoch in [9, 8] {
            let next = after(epoch);
            assert!(next.at > NOW && next.map == MapNeed::Recheck, "{epoch}");
        }
        assert_eq!(after(10), Next { at: NOW, map: MapNeed::AtLeast(10) });
    }

    #[test]
    fn pauses_grow_to_their_limit_and_are_spread() {
        let pauses = |random| {
            let mut retry = Retry::new(Effect::Read, Time::MAX);
            let pause = |_| retry.after(MapNeed::Recheck, NOW, random).unwrap().at.since(NOW);
            (0..40).map(pause).collect::<Vec<_>>()
        };
        let (shortest, longest) = (pauses(0), pauses(u64::MAX));
        assert_eq!(shortest[0], PAUSE_MIN / 2);
        assert_eq!(shortest[39], PAUSE_MAX / 2);
        assert!(longest.is_sorted() && longest[39] <= PAUSE_MAX);
        assert!(shortest.iter().zip(&longest).all(|(short, long)| short < long));
    }

    #[test]
    fn nothing_is_tried_past_the_deadline() {
        for need in [MapNeed::Recheck, MapNeed::AtLeast(9)] {
            assert_eq!(Retry::new(Effect::Read, DEADLINE).after(need, DEADLINE, 0), None);
        }
    }
}
