//! Which edges move, so that no worker holds many more than its share.

use crate::worker::WorkerId;

/// What a worker may hold beyond its share before edges move: a twentieth of it. Hashing alone keeps
/// within that unless some vertices have a large part of all edges or the graph is small.
const TOLERANCE_DIVISOR: u128 = 20;

/// Edges that move from one worker to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) from: WorkerId,
    pub(super) to: WorkerId,
    pub(super) edges: u64,
}

/// What has to move if worker *w* holds `held[w]` edges: from whoever holds more than its share and a
/// twentieth, in whole edges, what is beyond that; to those that hold less than their share, until
/// they have it. Whoever computes this from the same counts gets the same.
pub(super) fn transfers(held: &[u64]) -> Vec<Transfer> {
    let workers = held.len().max(1) as u128;
    let total: u128 = held.iter().copied().map(u128::from).sum();
    let share = total.div_ceil(workers);
    // Rounded down, unless that is less than somebody has to hold.
    let limit = share.max(total * (TOLERANCE_DIVISOR + 1) / (workers * TOLERANCE_DIVISOR));
    let held = || (0..).map(WorkerId).zip(held.iter().copied().map(u128::from));

    let mut transfers = Vec::new();
    let mut rooms = held()
        .map(|(worker, held)| (worker, share.saturating_sub(held)))
        .filter(|(_, room)| *room > 0);
    let mut next_room = rooms.next();
    for (from, held) in held() {
        let mut surplus = held.saturating_sub(limit);
        // Up to everybody's share there is at least as much room as there is beyond it.
        while surplus > 0
            && let Some((to, room)) = &mut next_room
        {
            let edges = surplus.min(*room);
            transfers.push(Transfer { from, to: *to, edges: edges as u64 });
            surplus -= edges;
            *room -= edges;
            if *room == 0 {
                next_room = rooms.next();
            }
        }
    }
    transfers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_within_the_tolerance_stays() {
        for held in [&[][..], &[0], &[7], &[0, 0, 0], &[100, 100], &[105, 95], &[1, 0, 1, 0]] {
            assert_eq!(transfers(held), [], "{held:?}");
        }
    }

    #[test]
    fn only_the_surplus_moves() {
        let (from, to) = (WorkerId(0), WorkerId(1));
        assert_eq!(transfers(&[106, 94]), [Transfer { from, to, edges: 1 }]);
        let (first, second) = (WorkerId(0), WorkerId(2));
        let expected = [
            Transfer { from: WorkerId(1), to: first, edges: 10 },
            Transfer { from: WorkerId(1), to: second, edges: 9 },
        ];
        assert_eq!(transfers(&[10, 40, 10]), expected);
    }

    #[test]
    fn few_edges_are_spread_as_evenly_as_whole_edges_can_be() {
        for (held, expected) in [
            (&[2, 0][..], &[1, 1][..]),
            (&[1, 3], &[2, 2]),
            (&[3, 3, 2, 2, 0], &[2, 2, 2, 2, 2]),
            (&[0, 3, 0, 0, 0], &[1, 1, 1, 0, 0]),
            (&[0, 0, 19], &[7, 5, 7]),
        ] {
            assert_eq!(moved(held, &transfers(held)), expected, "{held:?}");
        }
    }

    /// What each holds when the moves are made.
    fn moved(held: &[u64], transfers: &[Transfer]) -> Vec<u64> {
        let mut after = held.to_vec();
        for Transfer { from, to, edges } in transfers {
            after[from.0] -= edges;
            after[to.0] += edges;
        }
        after
    }

    fn counts() -> impl Strategy<Value = Vec<u64>> {
        let count = prop_oneof![0..4_u64, 0..1_000_u64, 0..100_000_000_000_u64];
        prop::collection::vec(count, 1..=64)
    }

    proptest! {
        #[test]
        fn nobody_holds_more_than_its_share_and_a_twentieth(held in counts()) {
            let workers = held.len() as u64;
            let total: u64 = held.iter().sum();
            let limit = total.div_ceil(workers).max(total * 21 / (workers * 20));
            let transfers = transfers(&held);
            for Transfer { from, to, edges } in &transfers {
                prop_assert!(*edges > 0 && from != to);
                prop_assert!(held[from.0] > limit, "who is within the limit gives nothing");
            }
            let after = moved(&held, &transfers);
            prop_assert!(after.iter().all(|held| *held <= limit), "{held:?} became {after:?}");
            let is_needed = |(before, after): (&u64, &u64)| before <= &limit || after == &limit;
            prop_assert!(held.iter().zip(&after).all(is_needed), "only the surplus is given");
        }

        #[test]
        fn counts_of_any_size_have_an_answer(held: Vec<u64>) {
            transfers(&held);
        }
    }
}
