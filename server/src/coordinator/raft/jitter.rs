//! How long a member waits before it stands for election: drawn, but from our own seed.

/// raft-rs draws its timeout anew from the thread's generator on every change of role, which no seed reaches, and tells nobody when it
/// does. So the node overwrites it after every call into raft-rs, and always with the same value for the same term and number of candidacies:
/// it does not matter how many draws there were in between.
#[derive(Debug, Clone)]
pub(super) struct Jitter {
    seed: u64,
    /// How often this member's patience ran out: a second try in the same term is to wait for another time.
    candidacies: u64,
}

impl Jitter {
    /// A source of its own for each member of each cluster in each life.
    pub(super) fn new(seed: u64, raft_id: u64, incarnation: u64) -> Self {
        Jitter { seed: mix(seed ^ mix(raft_id ^ mix(incarnation))), candidacies: 0 }
    }

    /// The member's patience ran out.
    pub(super) fn note_candidacy(&mut self) {
        self.candidacies += 1;
    }

    /// Ticks to wait in this term: at least `least`, less than `bound`.
    pub(super) fn ticks(&self, term: u64, least: usize, bound: usize) -> usize {
        let drawn = mix(self.seed ^ mix(term ^ mix(self.candidacies)));
        least + (drawn % (bound - least) as u64) as usize
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::Jitter;

    #[test]
    fn a_wait_follows_from_the_seed_and_differs_by_member_term_and_try() {
        let wait = |raft_id, term, tries| {
            let mut jitter = Jitter::new(7, raft_id, 1);
            (0..tries).for_each(|_| jitter.note_candidacy());
            jitter.ticks(term, 10, 20)
        };
        let all: Vec<usize> = (0..300).map(|n| wait(n % 3 + 1, n / 3 % 10, n / 30)).collect();
        assert!(all.iter().all(|ticks| (10..20).contains(ticks)));
        assert!((10..20).all(|ticks| all.contains(&ticks)));
        assert_eq!(wait(1, 5, 2), wait(1, 5, 2));
    }
}
