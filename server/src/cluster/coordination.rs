//! Between a node and the coordinators: what arrives for either, until whoever it is for takes it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;
use weft_protocol::Member;
use weft_transport::NodeId;

use crate::coordinator::{
    Answer, Ask, ClusterId, Introduction, Leader, Notice, ProposalId, Update,
};
use crate::limits::INBOX_BYTES;

/// What takes an answer to whoever asked.
pub(crate) type Reply = Box<dyn FnOnce(Answer) + Send>;

/// Something for the coordinator of this node.
pub(crate) enum Mail {
    /// What another coordinator or a node says.
    Notice {
        /// Who it is from.
        from: Member,
        /// What.
        notice: Notice,
    },
    /// The process of a node is gone.
    Gone(Member),
    /// A question.
    Question {
        /// Who asks.
        from: NodeId,
        /// What.
        ask: Ask,
        /// Where the answer goes.
        reply: Reply,
    },
}

/// What has arrived and nobody has taken yet.
pub(crate) struct Inbox<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    /// With about how many bytes each takes.
    mail: VecDeque<(usize, T)>,
    bytes: usize,
    reader: Option<Waker>,
    /// Whether somebody takes what comes.
    is_open: bool,
}

/// What is between a node and the coordinators.
#[derive(Debug)]
pub(crate) struct Coordination {
    introduction: Mutex<Introduction>,
    /// Whether others refuse this life of the node, for a newer one.
    superseded: AtomicBool,
    /// Proposals that were given an id here.
    proposed: AtomicU64,
    /// For the coordinator of this node.
    pub(crate) coordinator: Inbox<Mail>,
    /// For this node, from whoever leads.
    pub(crate) updates: Inbox<Box<Update>>,
    /// To be asked by this node's agent.
    pub(crate) questions: Inbox<(Ask, Reply)>,
}

impl Coordination {
    /// Of a node that is of no cluster yet. `nonce` is drawn.
    pub(crate) fn new(node: NodeId, nonce: u64) -> Coordination {
        let introduction =
            Introduction { node, nonce, cluster: None, may_coordinate: false, leader: None };
        Coordination {
            introduction: Mutex::new(introduction),
            superseded: AtomicBool::new(false),
            proposed: AtomicU64::new(0),
            coordinator: Inbox::default(),
            updates: Inbox::default(),
            questions: Inbox::default(),
        }
    }

    /// An id that no other proposal has: half of it was drawn when the process started.
    pub(crate) fn next_proposal(&self) -> ProposalId {
        let number = self.proposed.fetch_add(1, Ordering::Relaxed);
        ProposalId(u128::from(self.introduction.lock().nonce) << 64 | u128::from(number))
    }

    /// Who this node is.
    pub(crate) fn introduction(&self) -> Introduction {
        self.introduction.lock().clone()
    }

    /// A notice has come, which takes so many bytes. It is for this node or for its coordinator; what is of another cluster is nobody's, and what a client says
    /// neither.
    pub(crate) fn hear(&self, from: Member, bytes: usize, notice: Notice) {
        if from.node.is_client() {
            return;
        }
        match notice {
            // What does not fit comes again, or a newer one does.
            Notice::Update(update) if Some(update.cluster) == self.cluster() => {
                drop(self.updates.put(bytes, update));
            }
            Notice::Update(_) => {}
            notice @ (Notice::Raft(_) | Notice::Heartbeat(_)) => {
                drop(self.coordinator.put(bytes, Mail::Notice { from, notice }));
            }
        }
    }

    /// The process of a node is gone. What does not fit is seen by its silence.
    pub(crate) fn hear_gone(&self, member: Member) {
        drop(self.coordinator.put(size_of::<Mail>(), Mail::Gone(member)));
    }

    /// Whether others refuse this life of the node, for a newer one. Says so when it becomes so, and when it is over.
    pub(crate) fn set_superseded(&self, is_superseded: bool) {
        if self.superseded.swap(is_superseded, Ordering::Relaxed) == is_superseded {
            return;
        }
        if is_superseded {
            tracing::error!(
                "other nodes refuse this one: another process is the same node, and was started later; end one of them, and start this one again if it is to stay"
            );
        } else {
            tracing::info!("other nodes take this one for the node that it is again");
        }
    }

    /// Whether others refuse this life of the node.
    pub(crate) fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Relaxed)
    }

    /// Of which cluster it is.
    pub(crate) fn cluster(&self) -> Option<ClusterId> {
        self.introduction.lock().cluster
    }

    /// It has come to be of a cluster.
    pub(crate) fn set_cluster(&self, cluster: ClusterId) {
        self.introduction.lock().cluster = Some(cluster);
    }

    /// It may be a coordinator.
    pub(crate) fn set_may_coordinate(&self, may: bool) {
        self.introduction.lock().may_coordinate = may;
    }

    /// Who leads, as far as is known here.
    pub(crate) fn leader(&self) -> Option<Leader> {
        self.introduction.lock().leader.clone()
    }

    /// Somebody leads, or nobody does.
    pub(crate) fn set_leader(&self, leader: Option<Leader>) {
        self.introduction.lock().leader = leader;
    }
}

impl<T> Default for Inbox<T> {
    fn default() -> Inbox<T> {
        let state = State { mail: VecDeque::new(), bytes: 0, reader: None, is_open: false };
        Inbox { state: Mutex::new(state) }
    }
}

impl<T> Inbox<T> {
    /// From now on somebody takes what comes.
    pub(crate) fn open(&self) {
        self.state.lock().is_open = true;
    }

    /// Nobody does any more. What is there is dropped.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        (state.is_open, state.bytes) = (false, 0);
        let gone = std::mem::take(&mut state.mail);
        drop(state);
        drop(gone);
    }

    /// Puts something in that takes about so many bytes.
    ///
    /// # Errors
    /// It is full, or nobody takes anything: `mail` comes back.
    pub(crate) fn put(&self, bytes: usize, mail: T) -> Result<(), T> {
        let mut state = self.state.lock();
        if !state.is_open || (state.bytes + bytes > INBOX_BYTES && !state.mail.is_empty()) {
            return Err(mail);
        }
        state.bytes += bytes;
        state.mail.push_back((bytes, mail));
        if let Some(reader) = state.reader.take() {
            drop(state);
            reader.wake();
        }
        Ok(())
    }

    /// Takes the oldest. If there is none, `reader` is woken when there is.
    pub(crate) fn take(&self, reader: &Waker) -> Option<T> {
        let mut state = self.state.lock();
        let taken = state.mail.pop_front();
        match taken {
            Some((bytes, mail)) => {
                state.bytes -= bytes;
                Some(mail)
            }
            None => {
                state.reader = Some(reader.clone());
                None
            }
        }
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("bytes", &self.state.lock().bytes).finish_non_exhaustive()
    }
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mail::Notice { from, notice } => {
                f.debug_struct("Notice").field("from", from).field("notice", notice).finish()
            }
            Mail::Gone(member) => f.debug_tuple("Gone").field(member).finish(),
            Mail::Question { from, ask, .. } => f
                .debug_struct("Question")
                .field("from", from)
                .field("ask", ask)
                .finish_non_exhaustive(),
        }
    }
}
