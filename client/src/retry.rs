//! Whether an operation that failed is tried again, when, and with which map.
//!
//! The rule that everything here serves: a mutation that may have been applied is never sent again
//! as a new request, but under the number that it has, as long as nodes remember what they did under that ([`Identity`]). A
//! read may be, and so may whatever certainly had no effect. Pauses double from
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

/// By what nodes tell whether they have done a mutation before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// By nothing: it is a read, or nodes remember nothing.
    None,
    /// By its number. What became of each attempt is known, and nothing did.
    Certain,
    /// By its number. An attempt may have been applied, or may still be.
    Doubtful,
}

/// What an attempt needs of the map, or of the tables, before it starts, from little to much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MapNeed {
    /// It is as good as any, but nodes do not know the client.
    Lease,
    /// There may be a newer one: look, unless somebody has just looked.
    Recheck,
    /// By it, what was asked for is lost. By a newer one it may have begun anew: look once.
    Lost,
    /// The node may not have heard yet that there is the table: look whether there is.
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
    /// Whether the table was looked for.
    table_sought: bool,
    /// Whether it was not found, so that a node that does not know it is right.
    table_gone: bool,
    /// Whether another lease was sought.
    lease_sought: bool,
    /// Whether a map was sought by which a lost partition has begun anew.
    found_sought: bool,
}

impl Retry {
    pub(crate) const fn new(effect: Effect, deadline: Time) -> Self {
        Self {
            effect,
            deadline,
            pauses: 0,
            epoch_sought: 0,
            table_sought: false,
            table_gone: false,
            lease_sought: false,
            found_sought: false,
        }
    }

    pub(crate) const fn effect(&self) -> Effect {
        self.effect
    }

    pub(crate) const fn deadline(&self) -> Time {
        self.deadline
    }

    /// Whether it can do no harm and some good to try again after `error`, which came of an attempt
    /// by the map of `map_epoch`, and in which `identity` has been seen to by then; and what the next attempt needs.
    pub(crate) fn need(
        &self,
        error: &ClientError,
        map_epoch: u64,
        identity: Identity,
    ) -> Option<MapNeed> {
        match error {
            // Refused because of who asks, and nothing was done before: another client may ask.
            ClientError::Refused {
                code: ErrorCode::RequestForgotten | ErrorCode::ClientUnknown,
                ..
            } => (identity == Identity::Certain).then_some(MapNeed::Lease),
            ClientError::Refused { code: ErrorCode::WrongOwner, argument: newest, .. }
                if *newest > map_epoch =>
            {
                Some(MapNeed::AtLeast(*newest))
            }
            ClientError::Refused { code: ErrorCode::TableUnknown, .. } => {
                (!self.table_gone).then_some(MapNeed::Tables)
            }
            // It may have been done: whoever is primary now knows by its number.
            ClientError::Refused { code: ErrorCode::Deposed, .. } => {
                self.may_repeat(Applied::Maybe, identity).then_some(MapNeed::Recheck)
            }
            ClientError::Refused { code, .. } => bears_repeating(*code).then_some(MapNeed::Recheck),
            ClientError::SlotUnowned { .. } => Some(MapNeed::Recheck),
            // Only an operator ends that, so it is not waited for. But nobody else tells this client that he has.
            ClientError::PartitionLost { .. } => (!self.found_sought).then_some(MapNeed::Lost),
            ClientError::Unreachable { reason, .. } => may_pass(reason).then_some(MapNeed::Recheck),
            ClientError::Disconnected { applied, .. }
            | ClientError::DeadlineExceeded { applied, .. }
            | ClientError::Undecided { applied, .. } => {
                self.may_repeat(*applied, identity).then_some(MapNeed::Recheck)
            }
            ClientError::Limit(_)
            | ClientError::WorkerLength
            | ClientError::TooManyUnderWay { .. }
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
            MapNeed::Tables if !self.table_sought => {
                self.table_sought = true;
                (Duration::ZERO, need)
            }
            MapNeed::Lease if !self.lease_sought => {
                self.lease_sought = true;
                (Duration::ZERO, need)
            }
            MapNeed::Lost => {
                self.found_sought = true;
                (Duration::ZERO, need)
            }
            MapNeed::Lease | MapNeed::Tables => (self.pause(random), need),
            MapNeed::AtLeast(_) | MapNeed::Recheck => (self.pause(random), MapNeed::Recheck),
        };
        let at = now + pause;
        (at < self.deadline).then_some(Next { at, map })
    }

    /// The table that is asked for is not there any more, by a catalog that is new enough.
    pub(crate) const fn table_gone(&mut self) {
        self.table_gone = true;
    }

    fn may_repeat(&self, applied: Applied, identity: Identity) -> bool {
        self.effect == Effect::Read || applied == Applied::No || identity != Identity::None
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
    matches!(
        code,
        ErrorCode::WrongOwner
            | ErrorCode::SlotUnowned
            | ErrorCode::ShuttingDown
            | ErrorCode::TooFewReplicas
            | ErrorCode::NotServing
            | ErrorCode::CompletionsFull
            | ErrorCode::DiskBehind
            | ErrorCode::DiskFailed
    )
}

/// What the caller is told of a mutation that ends with `error`, of which an earlier attempt ended with `doubt`, if one is in doubt. That the last one was
/// refused says nothing of those before it, which may even be on their way still; but an upload that a node does not have never becomes an object.
pub(crate) fn told(error: ClientError, doubt: Option<ClientError>) -> ClientError {
    match (doubt, &error) {
        (Some(doubt), _)
            if error.applied() == Applied::No && error.code() != ErrorCode::UploadUnknown =>
        {
            doubt
        }
        _ => error,
    }
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
    use weft_protocol::{PartitionId, Slot};
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

    const IDENTITIES: [Identity; 3] = [Identity::None, Identity::Certain, Identity::Doubtful];

    /// What the second attempt needs, or `None` if there is none.
    fn check_as(
        identity: Identity,
        effect: Effect,
        error: &ClientError,
        expected: Option<MapNeed>,
    ) {
        let need = Retry::new(effect, DEADLINE).need(error, MAP_EPOCH, identity);
        assert_eq!(need, expected, "{effect:?}, {identity:?}, after {error}");
        // The decision never contradicts what the error tells the caller: in doubt, only what has a number goes on.
        if effect == Effect::Mutation
            && error.applied() == Applied::Maybe
            && (identity == Identity::None || !error.is_in_doubt())
            && need.is_some()
        {
            let forgotten = error.code() == ErrorCode::RequestForgotten;
            assert!(forgotten && identity == Identity::Certain, "{error}");
        }
    }

    /// The same, whatever nodes remember.
    fn check(effect: Effect, error: &ClientError, expected: Option<MapNeed>) {
        for identity in IDENTITIES {
            check_as(identity, effect, error, expected);
        }
    }

    #[test]
    fn a_mutation_that_may_have_been_applied_is_repeated_under_its_number_only() {
        let timeout = Duration::from_secs(5);
        let late = |effect, applied| ClientError::DeadlineExceeded {
            node: node(),
            applied,
            effect,
            timeout,
        };
        for (effect, applied) in [
            (Effect::Mutation, Applied::Maybe),
            (Effect::Mutation, Applied::No),
            (Effect::Read, Applied::Maybe),
        ] {
            let is_lost_without = (effect, applied) == (Effect::Mutation, Applied::Maybe);
            for error in [lost(effect, applied), late(effect, applied)] {
                let expected = (!is_lost_without).then_some(MapNeed::Recheck);
                check_as(Identity::None, effect, &error, expected);
                check_as(Identity::Certain, effect, &error, Some(MapNeed::Recheck));
                check_as(Identity::Doubtful, effect, &error, Some(MapNeed::Recheck));
            }
        }
    }

    #[test]
    fn every_code_of_the_server_agrees_with_what_it_says_of_having_been_applied() {
        for &code in ErrorCode::all() {
            let expected = match code {
                ErrorCode::RequestForgotten | ErrorCode::ClientUnknown | ErrorCode::Deposed => {
                    continue;
                }
                ErrorCode::TableUnknown => Some(MapNeed::Tables),
                _ => bears_repeating(code).then_some(MapNeed::Recheck),
            };
            check(Effect::Mutation, &refused(code, 0), expected);
            check(Effect::Read, &refused(code, 0), expected);
        }
    }

    #[test]
    fn what_a_deposed_primary_left_is_asked_of_the_next_where_it_has_a_number() {
        let error = refused(ErrorCode::Deposed, 0);
        check_as(Identity::None, Effect::Mutation, &error, None);
        check_as(Identity::Certain, Effect::Mutation, &error, Some(MapNeed::Recheck));
        check_as(Identity::Doubtful, Effect::Mutation, &error, Some(MapNeed::Recheck));
    }

    #[test]
    fn what_was_forgotten_is_asked_by_another_client_unless_it_is_in_doubt() {
        for code in [ErrorCode::RequestForgotten, ErrorCode::ClientUnknown] {
            let error = refused(code, 0);
            check_as(Identity::None, Effect::Mutation, &error, None);
            check_as(Identity::Certain, Effect::Mutation, &error, Some(MapNeed::Lease));
            check_as(Identity::Doubtful, Effect::Mutation, &error, None);
        }
        let mut retry = Retry::new(Effect::Mutation, DEADLINE);
        let next = retry.after(MapNeed::Lease, NOW, 0);
        assert_eq!(next, Some(Next { at: NOW, map: MapNeed::Lease }));
        assert!(retry.after(MapNeed::Lease, NOW, 0).unwrap().at > NOW, "not in a circle");
    }

    #[test]
    fn what_is_told_in_the_end_hides_no_doubt() {
        let doubt = || Some(lost(Effect::Mutation, Applied::Maybe));
        let code = |error, doubt| told(error, doubt).code();
        for last in [ErrorCode::MemoryLimitReached, ErrorCode::WrongOwner, ErrorCode::NotANumber] {
            assert_eq!(code(refused(last, 0), None), last);
            assert_eq!(code(refused(last, 0), doubt()), ErrorCode::DisconnectedMaybeApplied);
        }
        assert_eq!(code(unreachable(), doubt()), ErrorCode::DisconnectedMaybeApplied);
        for last in [ErrorCode::RequestForgotten, ErrorCode::Internal, ErrorCode::UploadUnknown] {
            assert_eq!(code(refused(last, 0), doubt()), last);
        }
    }

    #[test]
    fn a_table_that_a_node_does_not_know_is_asked_for_until_it_is_known_to_be_gone() {
        let unknown = refused(ErrorCode::TableUnknown, 0);
        let mut retry = Retry::new(Effect::Mutation, DEADLINE);
        let next = retry.after(retry.need(&unknown, MAP_EPOCH, Identity::Certain).unwrap(), NOW, 0);
        assert_eq!(next, Some(Next { at: NOW, map: MapNeed::Tables }));
        let need = retry.need(&unknown, MAP_EPOCH, Identity::Certain).unwrap();
        let next = retry.after(need, NOW, 0).unwrap();
        assert!(next.at > NOW && next.map == MapNeed::Tables, "not in a circle");
        retry.table_gone();
        assert_eq!(retry.need(&unknown, MAP_EPOCH, Identity::Certain), None);
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
    fn a_partition_that_is_lost_is_looked_for_once() {
        let error = ClientError::PartitionLost { partition: PartitionId(0), epoch: MAP_EPOCH };
        check(Effect::Read, &error, Some(MapNeed::Lost));
        check(Effect::Mutation, &error, Some(MapNeed::Lost));
        let mut retry = Retry::new(Effect::Mutation, DEADLINE);
        let next = retry.after(MapNeed::Lost, NOW, 0);
        assert_eq!(next, Some(Next { at: NOW, map: MapNeed::Lost }));
        assert_eq!(retry.need(&error, MAP_EPOCH, Identity::None), None);
    }

    #[test]
    fn a_newer_map_is_fetched_at_once_and_an_older_one_waited_for() {
        let retry = Retry::new(Effect::Mutation, DEADLINE);
        let wrong = |newest| refused(ErrorCode::WrongOwner, newest);
        let need = |newest| retry.need(&wrong(newest), MAP_EPOCH, Identity::Doubtful);
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
