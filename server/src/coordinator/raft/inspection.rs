//! What a message must be like before raft-rs sees it.
//!
//! raft-rs takes its peers for raft-rs: what none of them sends it answers with a panic (an enum that it does not know, a commit index beyond the
//! log, entries with a gap, a refused vote in term 0) or believes (an acknowledgement of entries that do not exist yet). A panic ends the process,
//! so each such message is found here first. docs/raft.md lists the places in raft-rs that this stands before.

use raft::eraftpb::{ConfState, Entry, EntryType, Message, MessageType, Snapshot};
use raft::{Raft, StateRole};

use super::limits::{INDEX_MAX, MEMBERS_MAX, READ_CONTEXT_BYTES_MAX, SNAPSHOT_BYTES_MAX};
use super::roster::{StateRecord, is_member};
use super::view::LogView;

/// What is wrong with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// Its type is unknown, or is for use inside of a member, or one that members of ours send nobody.
    #[error("its type is not one that is sent")]
    Type,
    /// It has no term where there has to be one, or one where there is none.
    #[error("its term is missing or out of place")]
    Term,
    /// A term or an index is beyond what any cluster reaches.
    #[error("a term or an index is beyond all bounds")]
    Bounds,
    /// Entries do not follow each other, or are of an unknown type, or of a later term than the message.
    #[error("its entries do not follow each other")]
    Entries,
    /// It tells us to commit what we do not have, though we said that we have it: our disk has lost something.
    #[error("it commits entries that this member does not have")]
    CommitBeyondLog,
    /// It contradicts what is committed.
    #[error("it contradicts what is committed")]
    Contradiction,
    /// It acknowledges what was never sent.
    #[error("it acknowledges entries that there are not")]
    AckBeyondLog,
    /// A snapshot without members or state, or with members that exclude each other.
    #[error("its snapshot has no members or no state that hang together")]
    Snapshot,
    /// A read without a context or with a long one.
    #[error("its read has no context of ours")]
    Context,
    /// A vote that was not asked for yet.
    #[error("it answers what was not asked")]
    Unasked,
    /// Somebody claims to be us, or the leader who is not.
    #[error("its sender cannot have sent it")]
    Sender,
}

/// Whether `message` may be stepped.
pub(super) fn inspect(raft: &Raft<LogView>, message: &Message) -> Result<(), Unfit> {
    let kind = MessageType::from_i32(message.msg_type).ok_or(Unfit::Type)?;
    if message.from == 0 || message.from == raft.id {
        return Err(Unfit::Sender);
    }
    let numbers = [
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.reject_hint,
    ];
    if numbers.iter().any(|number| *number > INDEX_MAX) {
        return Err(Unfit::Bounds);
    }
    // Reads are the only thing that is passed on without a term; proposals go to the leader by our own way.
    if (message.term == 0) != (kind == MessageType::MsgReadIndex) {
        return Err(Unfit::Term);
    }
    // Nobody here asks for a snapshot, or stands back for others.
    if message.request_snapshot != 0 || message.priority != 0 || message.deprecated_priority != 0 {
        return Err(Unfit::Type);
    }
    if !message.entries.iter().all(is_known_entry) {
        return Err(Unfit::Entries);
    }
    let is_current = message.term >= raft.term;
    match kind {
        MessageType::MsgAppend => check_append(raft, message, is_current),
        MessageType::MsgHeartbeat if is_current && message.commit > raft.raft_log.last_index() => {
            Err(Unfit::CommitBeyondLog)
        }
        MessageType::MsgHeartbeat
        | MessageType::MsgHeartbeatResponse
        | MessageType::MsgRequestVote
        | MessageType::MsgRequestPreVote => Ok(()),
        MessageType::MsgSnapshot => check_snapshot(message),
        MessageType::MsgAppendResponse => {
            // Of an earlier life, in which it led, a member may have sent entries that it then lost; but it leads a later term then.
            let counts =
                raft.state == StateRole::Leader && message.term == raft.term && !message.reject;
            let is_beyond = message.index > raft.raft_log.last_index();
            if counts && is_beyond { Err(Unfit::AckBeyondLog) } else { Ok(()) }
        }
        // Whoever becomes leader must have all its entries on disk: it asked for votes after that, so an answer that comes before was
        // not asked for.
        MessageType::MsgRequestVoteResponse | MessageType::MsgRequestPreVoteResponse => {
            if is_candidate(raft) && !(is_written(raft) && raft.promotable()) {
                Err(Unfit::Unasked)
            } else {
                Ok(())
            }
        }
        MessageType::MsgTimeoutNow => {
            // A candidacy while entries are being written could end in leadership, see above.
            let is_fit = message.from == raft.leader_id && is_written(raft);
            if is_fit || !is_current { Ok(()) } else { Err(Unfit::Sender) }
        }
        MessageType::MsgReadIndex | MessageType::MsgReadIndexResp => {
            let [entry] = &message.entries[..] else { return Err(Unfit::Context) };
            let is_fit = (1..=READ_CONTEXT_BYTES_MAX).contains(&entry.data.len());
            if is_fit { Ok(()) } else { Err(Unfit::Context) }
        }
        MessageType::MsgHup
        | MessageType::MsgBeat
        | MessageType::MsgPropose
        | MessageType::MsgUnreachable
        | MessageType::MsgSnapStatus
        | MessageType::MsgCheckQuorum
        | MessageType::MsgTransferLeader => Err(Unfit::Type),
    }
}

/// Whether raft-rs can ask for the entry's type: it panics at one that it does not know.
pub(super) fn is_known_entry(entry: &Entry) -> bool {
    EntryType::from_i32(entry.entry_type).is_some()
}

/// Whether all that raft-rs holds is on disk.
pub(super) fn is_written(raft: &Raft<LogView>) -> bool {
    let log = &raft.raft_log;
    log.unstable_entries().is_empty()
        && log.unstable_snapshot().is_none()
        && log.persisted == log.last_index()
}

fn is_candidate(raft: &Raft<LogView>) -> bool {
    matches!(raft.state, StateRole::Candidate | StateRole::PreCandidate)
}

fn check_append(raft: &Raft<LogView>, message: &Message, is_current: bool) -> Result<(), Unfit> {
    let (mut index, mut term) = (message.index, message.log_term);
    // To raft-rs everything beyond the log has term 0, and so would match.
    if (index == 0) != (term == 0) {
        return Err(Unfit::Entries);
    }
    for entry in &message.entries {
        if entry.term == 0
            || entry.index != index + 1
            || entry.term < term
            || entry.term > message.term
        {
            return Err(Unfit::Entries);
        }
        (index, term) = (entry.index, entry.term);
    }
    if !is_current {
        return Ok(());
    }
    let committed = raft.raft_log.committed;
    let contradicts = |entry: &&Entry| {
        entry.index <= committed && raft.raft_log.term(entry.index).ok() != Some(entry.term)
    };
    // What is before the start of the log is committed and forgotten: nothing to compare with.
    let start = raft.raft_log.first_index();
    if message.entries.iter().filter(|entry| entry.index >= start).any(|entry| contradicts(&entry))
    {
        return Err(Unfit::Contradiction);
    }
    Ok(())
}

fn check_snapshot(message: &Message) -> Result<(), Unfit> {
    let snapshot: &Snapshot = message.snapshot.as_ref().ok_or(Unfit::Snapshot)?;
    let metadata = snapshot.metadata.as_ref().ok_or(Unfit::Snapshot)?;
    let conf_state = metadata.conf_state.as_ref().ok_or(Unfit::Snapshot)?;
    let is_bounded =
        (1..=INDEX_MAX).contains(&metadata.index) && (1..=message.term).contains(&metadata.term);
    if !is_bounded || snapshot.data.len() > SNAPSHOT_BYTES_MAX + MEMBERS_MAX * 32 {
        return Err(Unfit::Bounds);
    }
    check_members(conf_state)?;
    if !is_member(conf_state, message.to) {
        return Err(Unfit::Snapshot);
    }
    StateRecord::decode(&snapshot.data).map(|_| ()).map_err(|_| Unfit::Snapshot)
}

/// Whether raft-rs can restore these members: it panics if not.
pub(super) fn check_members(conf_state: &ConfState) -> Result<(), Unfit> {
    let ConfState { voters, learners, voters_outgoing, learners_next, auto_leave } = conf_state;
    let is_set = |ids: &[u64]| {
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        sorted.len() == ids.len() && !sorted.contains(&0)
    };
    let is_joint = !voters_outgoing.is_empty();
    let fits =
        [&voters[..], learners, voters_outgoing, learners_next].iter().all(|ids| is_set(ids))
            && !voters.is_empty()
            && voters.len() + learners.len() <= MEMBERS_MAX
            && voters_outgoing.len() + learners_next.len() <= 2 * MEMBERS_MAX
            && learners.iter().all(|id| !voters.contains(id) && !voters_outgoing.contains(id))
            && learners_next.iter().all(|id| voters_outgoing.contains(id) && !voters.contains(id))
            && (is_joint || !*auto_leave);
    if fits { Ok(()) } else { Err(Unfit::Snapshot) }
}
