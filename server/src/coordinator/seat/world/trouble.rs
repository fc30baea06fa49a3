//! Who breaks things, and mends them.

use super::*;

impl World {
    pub(super) fn begin_trouble(&mut self) {
        self.is_troubled = true;
        self.at(Duration::from_millis(100), Event::Trouble);
    }

    /// Everything works again, and whoever is down comes back.
    pub(super) fn end_trouble(&mut self) {
        self.is_troubled = false;
        self.cuts.clear();
        for host in 0..self.hosts.len() {
            self.at(Duration::from_millis(1), Event::Boot { host });
        }
    }

    pub(super) fn trouble(&mut self) {
        if !self.is_troubled {
            return;
        }
        let pause = Duration::from_millis(50 + self.random.below(900));
        self.at(pause, Event::Trouble);
        let count = self.hosts.len() as u64;
        let host = self.random.below(count) as usize;
        let other = self.random.below(count) as usize;
        match self.random.below(16) {
            0..=2 => self.end(host),
            3..=4 => {
                if let Some(leader) = self.leader() {
                    self.end(leader);
                }
            }
            5 => (0..self.hosts.len()).for_each(|host| self.end(host)),
            6 => self.lose_disk(host),
            7 | 8 if host != other => {
                self.cuts.insert((host.min(other), host.max(other)));
            }
            9 => {
                for other in (0..self.hosts.len()).filter(|other| *other != host) {
                    self.cuts.insert((host.min(other), host.max(other)));
                }
            }
            10..=12 => self.cuts.clear(),
            _ => {}
        }
    }

    fn end(&mut self, host: usize) {
        if !self.hosts[host].is_running {
            return;
        }
        let kept = self.random.below(4) as usize;
        self.stop(host, kept);
        let rest = Duration::from_millis(5 + self.random.below(2_500));
        self.at(rest, Event::Boot { host });
    }

    /// A disk is lost, if that leaves a majority of those that vote: no cluster outlives more.
    fn lose_disk(&mut self, host: usize) {
        let Some(leader) = self.leader().and_then(|leader| self.coordinator(leader)) else {
            return;
        };
        let members = leader.raft.members();
        if leader.raft.is_changing_members() {
            return;
        }
        let has_its_log = |member: &&raft::RaftMember| {
            let kept = &self.hosts[host_of(member.node)];
            let own = kept.coordinator.as_ref().map(|coordinator| coordinator.member());
            own == Some(member.raft)
        };
        let voters: Vec<_> =
            members.iter().filter(|member| member.role == MemberRole::Voter).collect();
        let kept = voters.iter().copied().filter(has_its_log);
        let kept = kept.filter(|member| host_of(member.node) != host).count();
        // Whoever leads knows the latest, and so may others that do not know of each other yet.
        let is_known_alike = (0..self.hosts.len()).all(|other| {
            let other = self.coordinator(other);
            other.is_none_or(|other| {
                other.raft.members() == members && !other.raft.is_changing_members()
            })
        });
        if 2 * kept > voters.len() && is_known_alike {
            self.wipe(host);
            let rest = Duration::from_millis(5 + self.random.below(2_500));
            self.at(rest, Event::Boot { host });
        }
    }
}
