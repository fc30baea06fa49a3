//! Answers that wait until what they tell of is committed.
//!
//! A node that is not the only member of a partition may not tell of an entry before every member has it: whoever takes over could know
//! nothing of what was told. So the answer to a write waits for the entry that it made, and the answer to a read for the
//! newest entry whose effect it saw. It occupies nobody meanwhile: it lies with its [`Responder`] in the partition's queue, and whoever
//! learns that the entry is committed takes it from there.
//!
//! Where nothing has to be waited for, none of this is touched: all that is paid for it is that a request is kept until it is worked off.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrayvec::ArrayVec;
use parking_lot::Mutex;
use weft_protocol::{ErrorCode, ErrorReply};
use weft_transport::{Body, Charge, Memory, MemoryError, Purpose, Responder, SendError, Shared};

/// Bytes of an answer that lie in the queue itself: that of every mutation which returns no value.
const SMALL_BYTES: usize = 24;

/// The bytes of an answer.
#[derive(Debug)]
enum Bytes {
    Small(ArrayVec<u8, SMALL_BYTES>),
    Long(Box<[u8]>),
}

/// An answer, written, and whom it is for.
#[derive(Debug)]
pub(crate) struct Answer {
    responder: Responder,
    head: Bytes,
    /// Follows the head, from where it lies.
    tail: Option<Shared>,
    /// Of what is not small.
    _charge: Option<Charge>,
}

/// An entry that an answer tells of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awaited {
    /// Where its partition is.
    pub(crate) position: u16,
    pub(crate) sequence: u64,
    /// How often the partition had been taken from this node then: another primary's entry of that sequence is another.
    pub(crate) depositions: u32,
}

/// What is known of an entry that is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
    Committed,
    /// It will be, or this node will be deposed before.
    Open,
    /// This node is not, or not again, the one to say.
    Deposed,
}

/// Waits in the queue of one partition.
#[derive(Debug)]
enum Waiter {
    Alone(Answer),
    /// For other partitions too.
    Together(Arc<Together>),
}

/// An answer that tells of several partitions.
#[derive(Debug)]
struct Together {
    left: AtomicUsize,
    answer: Mutex<Option<Answer>>,
}

/// The answers that wait for a partition, by the sequence of the entry that they wait for.
#[derive(Debug, Default)]
pub(crate) struct Withheld {
    /// Ascending: one that could go earlier than the one before it goes with that.
    waiting: VecDeque<(u64, Waiter)>,
}

impl Answer {
    /// Writes an answer down.
    ///
    /// # Errors
    /// There is no memory for what is not small; `responder` is gone then, and its caller learns that no answer comes.
    pub(crate) fn write(
        memory: &Memory,
        responder: Responder,
        body: impl Body,
        tail: Option<Shared>,
    ) -> Result<Answer, MemoryError> {
        let len = body.len();
        if len <= SMALL_BYTES {
            let mut bytes = [0; SMALL_BYTES];
            body.write(&mut bytes[..len]);
            let head = Bytes::Small(bytes[..len].iter().copied().collect());
            return Ok(Answer { responder, head, tail, _charge: None });
        }
        let charge = memory.charge(len as u64, Purpose::Send)?;
        let mut bytes = vec![0; len].into_boxed_slice();
        body.write(&mut bytes);
        Ok(Answer { responder, head: Bytes::Long(bytes), tail, _charge: Some(charge) })
    }

    /// Gives it, if the peer has room for it now; else returns it, to be [sent](Self::send).
    pub(crate) fn try_send(self) -> Result<(), Answer> {
        let Answer { responder, head, tail, _charge } = self;
        match responder.try_reply(head.as_slice(), tail) {
            Ok(()) => Ok(()),
            Err((responder, tail)) => Err(Answer { responder, head, tail, _charge }),
        }
    }

    /// The same caller gets an error in its place.
    fn refused(self, error: &ErrorReply<'_>) -> Answer {
        let len = error.len();
        let mut bytes = vec![0; len].into_boxed_slice();
        error.write(&mut bytes);
        Answer { head: Bytes::Long(bytes), tail: None, ..self }
    }

    /// Gives it. Waits for the peer's window.
    ///
    /// # Errors
    /// See [`SendError`]: nobody waits for it any more.
    pub(crate) async fn send(self) -> Result<(), SendError> {
        let head = self.head.as_slice();
        match self.tail {
            Some(tail) => self.responder.reply_shared(head, tail).await,
            None => self.responder.reply(head).await,
        }
    }
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Small(bytes) => bytes,
            Bytes::Long(bytes) => bytes,
        }
    }
}

impl Withheld {
    /// Has an answer wait for these entries. `push` adds it to the queue of the partition of one that is [open](Outlook::Open), and gives it back
    /// otherwise. Returns the answer if it waits for none, or an error in its place.
    pub(crate) fn wait(
        answer: Answer,
        awaited: &[Awaited],
        mut push: impl FnMut(&Awaited, Waiting) -> Result<(), (Outlook, Waiting)>,
    ) -> Option<Answer> {
        if let [awaited] = awaited {
            let waiting = Waiting(Waiter::Alone(answer));
            let (outlook, waiting) = push(awaited, waiting).err()?;
            return waiting.settled(outlook);
        }
        // One more than there are: nobody finds it complete before it waits everywhere.
        let left = AtomicUsize::new(awaited.len() + 1);
        let together = Arc::new(Together { left, answer: Mutex::new(Some(answer)) });
        for awaited in awaited {
            let waiting = Waiting(Waiter::Together(Arc::clone(&together)));
            // If it is committed, that is not the last: that is this function's own.
            if let Err((outlook, waiting)) = push(awaited, waiting)
                && let Some(answer) = waiting.settled(outlook)
            {
                return Some(answer);
            }
        }
        Waiting(Waiter::Together(together)).done()
    }

    /// Adds one that waits for the entry of this sequence.
    pub(crate) fn push(&mut self, sequence: u64, waiting: Waiting) {
        let last = self.waiting.back().map_or(0, |(last, _)| *last);
        self.waiting.push_back((sequence.max(last), waiting.0));
    }

    /// Takes the answers that are due, now that the entries up to `committed` are.
    pub(crate) fn take_due(&mut self, committed: u64, due: &mut Vec<Answer>) {
        while let Some((_, waiter)) =
            self.waiting.pop_front_if(|(awaited, _)| *awaited <= committed)
        {
            due.extend(Waiting(waiter).done());
        }
    }

    /// Takes all, with `error` in the place of what was to be told: this node is no longer the one to tell it.
    pub(crate) fn refuse_all(&mut self, error: &ErrorReply<'_>, due: &mut Vec<Answer>) {
        for (_, waiter) in self.waiting.drain(..) {
            due.extend(Waiting(waiter).take().map(|answer| answer.refused(error)));
        }
    }
}

/// An answer, or the part of it that one partition holds back.
#[derive(Debug)]
pub(crate) struct Waiting(Waiter);

/// What those are told who waited for a commit, when this node is not the primary any more.
pub(crate) fn deposed() -> ErrorReply<'static> {
    // It may be committed yet, by whoever is the primary then.
    ErrorReply::new(ErrorCode::Deposed)
}

impl Waiting {
    /// What is to be said now that it does not wait in one partition.
    fn settled(self, outlook: Outlook) -> Option<Answer> {
        match outlook {
            Outlook::Deposed => self.take().map(|answer| answer.refused(&deposed())),
            Outlook::Committed | Outlook::Open => self.done(),
        }
    }

    /// What it waited for in one partition is committed. Returns the answer if it waits for nothing else.
    fn done(self) -> Option<Answer> {
        match self.0 {
            Waiter::Alone(answer) => Some(answer),
            Waiter::Together(together) => {
                let is_last = together.left.fetch_sub(1, Ordering::AcqRel) == 1;
                if is_last { together.answer.lock().take() } else { None }
            }
        }
    }

    /// The answer, whatever else it waits for; nothing if another partition has taken it.
    fn take(self) -> Option<Answer> {
        match self.0 {
            Waiter::Alone(answer) => Some(answer),
            Waiter::Together(together) => together.answer.lock().take(),
        }
    }
}
