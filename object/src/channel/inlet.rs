//! One channel at its receiving end: what has come of which graph, what is ready, and how much more may come.

use std::collections::{BTreeMap, VecDeque};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use parking_lot::{Mutex, MutexGuard};
use weft_transport::{Charge, CloseReason, Connection, Ended, Incoming, Memory, Peer, Responder};

use super::bond::Bond;
use super::error::ReceiveError;
use super::listener::GraphLimits;
use super::message::{Answer, HEADER_BYTES, Status};
use super::received::{Kept, ReceivedBytes};
use crate::assembly::Assembly;
use crate::error::Invalid;
use crate::types::Types;
use crate::view::View;

/// What a message of segments costs of what has been granted, beside its bytes: about what a short one takes at the receiver.
pub(super) const SEGMENT_COST: u64 = 512;
/// How far messages of one graph may come ahead of their turn: those that are longer than a message are overtaken.
const AHEAD_MAX: usize = 4096;
/// Graphs that are waited for though nothing has come of them: all of their segments have been overtaken.
const OVERTAKEN_MAX: usize = 1024;

/// What a message of so many bytes of segments costs of what has been granted.
pub(super) const fn cost(len: usize) -> u64 {
    SEGMENT_COST + len as u64
}

/// The receiving end of one channel.
pub(super) struct Inlet {
    pub(super) peer: Peer,
    bond: Bond,
    /// Those that the sender told, as they are here.
    types: Types,
    _charge: Charge,
    limits: GraphLimits,
    memory: Memory,
    /// Shared by all channels of a peer.
    kept: Kept,
    /// Bytes that they may keep: a quarter of the window, which is granted anew a quarter at a time, so that half is always there.
    kept_max: u64,
    state: Mutex<State>,
}

/// What is left of a channel whose connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// All: another connection has taken its place.
    GoesOn,
    /// Graphs that had come whole.
    Readable,
    /// Nothing.
    Empty,
}

#[derive(Default)]
struct State {
    /// Graphs of which something has come and that are not ready, by number.
    coming: BTreeMap<u64, Coming>,
    /// Complete and checked, with what they cost.
    ready: VecDeque<(View<ReceivedBytes>, u64)>,
    /// The number of the graph that is ready next.
    next: u64,
    /// What segments have cost so far, and what has been granted; of it, what graphs that were received have cost.
    used: u64,
    granted: u64,
    received: u64,
    /// The number that comes after the last graph, and whether that was given up.
    closes_at: Option<(u64, bool)>,
    /// Who waits for more, and up to where.
    asks: Option<(Responder, u64)>,
    ended: Option<ReceiveError>,
    /// Why the connection has ended, if it has before anybody accepted the channel.
    lost: Option<CloseReason>,
    /// Nobody receives any more.
    is_left: bool,
    /// Somebody has accepted the channel.
    is_accepted: bool,
    waker: Option<Waker>,
    /// What is to be sent, and to be let go of, when nothing is locked: either may find that the connection has ended, and tell this inlet at once.
    answers: Vec<(Responder, Answer)>,
    gone: Vec<Box<dyn Send>>,
}

/// A graph of which something has come.
struct Coming {
    assembly: Assembly<ReceivedBytes>,
    next: u32,
    is_complete: bool,
    cost: u64,
    /// Segments that have overtaken others.
    ahead: BTreeMap<u32, ReceivedBytes>,
    /// Who waits until all is there.
    sender: Option<Responder>,
}

impl Inlet {
    pub(super) fn new(
        connection: Connection,
        (types, charge): (Types, Charge),
        limits: GraphLimits,
        (memory, kept): (&Memory, Kept),
    ) -> Inlet {
        let kept_max = connection.receive_window() / 4;
        let state = State { granted: limits.granted_bytes, ..State::default() };
        let state = Mutex::new(state);
        Inlet {
            peer: *connection.peer(),
            bond: Bond::new(connection),
            types,
            _charge: charge,
            limits,
            memory: memory.clone(),
            kept,
            kept_max,
            state,
        }
    }

    /// Has `waker` woken when the connection ends: at once, if it has.
    pub(super) fn watch(&self, waker: Waker) {
        self.bond.watch(waker);
    }

    /// What waits for the end of the connection, or of the one that has taken its place; nothing if there is none any more.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.bond.ended()
    }

    /// The connection has ended. Returns whether the channel goes on: by another connection, or because something had come whole that can still be
    /// received. Not if this side has ended it.
    pub(super) fn leave_connection(&self) -> Left {
        let Some(reason) = self.bond.leave() else { return Left::GoesOn };
        let is_ours = matches!(reason, Some(CloseReason::Closed | CloseReason::ShutDown));
        let mut state = self.state.lock();
        if let Some(reason) = reason {
            state.lost.get_or_insert(reason);
        }
        let left = if is_ours || state.ready.is_empty() { Left::Empty } else { Left::Readable };
        // Whoever has accepted it just now has nothing else to wait for.
        settle(state, true);
        left
    }

    /// Bytes granted since the channel began.
    pub(super) fn granted(&self) -> u64 {
        self.state.lock().granted
    }

    /// Takes segments: checks them, if it is their turn, and those that have waited for them.
    pub(super) fn take(&self, incoming: Incoming<'_>, number: u64, index: u32) {
        let cost = cost(incoming.body.len() - HEADER_BYTES);
        let bytes = ReceivedBytes::of(incoming, (&self.kept, self.kept_max), &self.memory);
        let bytes = bytes.map_err(|reason| ReceiveError::Memory { number, reason });
        let mut state = self.state.lock();
        if state.ended.is_some() || state.is_left {
            drop(state);
            return drop(bytes);
        }
        match self.take_next(&mut state, (bytes, cost), number, index) {
            Ok(()) => state.deliver(number),
            Err(error) => state.end(error),
        }
        let is_news = !state.ready.is_empty() || state.ended.is_some();
        settle(state, is_news);
    }

    fn take_next(
        &self,
        state: &mut State,
        (bytes, cost): (Result<ReceivedBytes, ReceiveError>, u64),
        number: u64,
        index: u32,
    ) -> Result<(), ReceiveError> {
        let bytes = bytes?;
        if state.used.saturating_add(cost) > state.granted {
            state.gone.push(Box::new(bytes));
            return Err(ReceiveError::Protocol("more is sent than was granted"));
        }
        state.used += cost;
        if number < state.next {
            state.gone.push(Box::new(bytes));
            return Err(ReceiveError::Protocol("a segment of a graph that was complete"));
        }
        let refused = |reason| ReceiveError::Invalid { number, reason };
        // Most graphs come in one message, and in their order.
        if number == state.next && index == 0 && state.coming.is_empty() {
            let mut coming = Coming::new(&self.types, &self.limits);
            coming.cost = cost;
            let checked = coming.check(bytes);
            if coming.is_complete && checked.is_ok() {
                state.make_ready(coming);
            } else {
                state.coming.insert(number, coming);
            }
            return checked.map_err(refused);
        }
        let coming = state.coming.entry(number);
        let coming = coming.or_insert_with(|| Coming::new(&self.types, &self.limits));
        let broken =
            if coming.is_complete || index < coming.next || coming.ahead.contains_key(&index) {
                Some("a segment comes twice")
            } else if coming.ahead.len() >= AHEAD_MAX {
                Some("too many segments come before their turn")
            } else {
                None
            };
        if let Some(rule) = broken {
            state.gone.push(Box::new(bytes));
            return Err(ReceiveError::Protocol(rule));
        }
        coming.cost += cost;
        if index > coming.next {
            coming.ahead.insert(index, bytes);
            return Ok(());
        }
        coming.check(bytes).map_err(refused)
    }

    /// Answers who has sent a graph, once all of it is there: now, with what this returns, or later by `responder`.
    pub(super) fn answer(
        &self,
        number: u64,
        responder: impl FnOnce() -> Option<Responder>,
    ) -> Option<Answer> {
        let mut state = self.state.lock();
        let answer = self.answer_or_keep(&mut state, number, responder);
        let is_news = state.ended.is_some();
        settle(state, is_news);
        answer
    }

    fn answer_or_keep(
        &self,
        state: &mut State,
        number: u64,
        responder: impl FnOnce() -> Option<Responder>,
    ) -> Option<Answer> {
        if let Some(failed) = state.failed() {
            return Some(failed);
        }
        if number < state.next {
            return Some(Answer::done(state.granted));
        }
        let overtaken = || state.coming.values().filter(|coming| coming.cost == 0).count();
        if !state.coming.contains_key(&number) && overtaken() >= OVERTAKEN_MAX {
            return Some(state.breaks_rules("too many graphs are waited for before they come"));
        }
        let coming = state.coming.entry(number);
        let coming = coming.or_insert_with(|| Coming::new(&self.types, &self.limits));
        // One that waits for others before it is there, too.
        if coming.is_complete {
            return Some(Answer::done(state.granted));
        }
        if coming.sender.is_none() {
            coming.sender = responder();
            if coming.sender.is_some() {
                return None;
            }
        }
        Some(state.breaks_rules("a graph of one segment is not complete, or waited for twice"))
    }

    /// Answers who wants `up_to` bytes granted in all: now, or later by `responder`.
    pub(super) fn ask(
        &self,
        up_to: u64,
        responder: impl FnOnce() -> Option<Responder>,
    ) -> Option<Answer> {
        let mut state = self.state.lock();
        if let Some(failed) = state.failed() {
            return Some(failed);
        }
        // Who asks ahead asks for half of what is granted at a time; else it is for one graph, whatever of those before is still to be received.
        let most = self.limits.cost_max().max(self.limits.granted_bytes);
        if up_to > state.granted.saturating_add(most) {
            let answer = state.breaks_rules("a graph is larger than any that is taken");
            settle(state, true);
            return Some(answer);
        }
        state.grant(&self.limits, up_to);
        if state.granted >= up_to {
            return Some(Answer::done(state.granted));
        }
        // In place of what was asked before: who asks again has forgotten that.
        let forgotten = std::mem::replace(&mut state.asks, responder().map(|one| (one, up_to)));
        settle(state, false);
        drop(forgotten);
        None
    }

    /// The sender sends nothing behind graph `number - 1`, of which a part is missing if it `was_interrupted`. What is on its way may come later.
    pub(super) fn close(&self, number: u64, was_interrupted: bool) {
        let mut state = self.state.lock();
        state.closes_at = Some((number, was_interrupted));
        settle(state, true);
    }

    /// Nobody receives any more: what is there is given up, and who waits is told.
    pub(super) fn leave(&self) {
        let mut state = self.state.lock();
        state.is_left = true;
        let ready = std::mem::take(&mut state.ready);
        let answer = Answer::failed(Status::Closed, String::new());
        state.answer_all(&answer);
        state.give_up_coming();
        settle(state, false);
        drop(ready);
    }

    pub(super) fn is_readable(&self) -> bool {
        !self.state.lock().ready.is_empty()
    }

    /// Somebody is there who receives: a graph that is larger than what is granted may come.
    pub(super) fn accept(&self) {
        let mut state = self.state.lock();
        state.is_accepted = true;
        state.answer_asks(&self.limits);
        settle(state, false);
    }

    /// The next graph, if it is there, or why there is none.
    pub(super) fn poll(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Result<View<ReceivedBytes>, ReceiveError>> {
        let mut state = self.state.lock();
        if let Some((graph, cost)) = state.ready.pop_front() {
            state.received += cost;
            // Graphs that were granted more than that have used it up.
            let granted = state.received.saturating_add(self.limits.granted_bytes);
            state.granted = state.granted.max(granted);
            state.answer_asks(&self.limits);
            settle(state, false);
            return Poll::Ready(Ok(graph));
        }
        if let Some(error) = &state.ended {
            return Poll::Ready(Err(error.clone()));
        }
        match state.closes_at {
            Some((number, false)) if state.next >= number => {
                return Poll::Ready(Err(ReceiveError::Closed));
            }
            Some((number, true)) if state.next + 1 >= number => {
                return Poll::Ready(Err(ReceiveError::Interrupted));
            }
            _ => {}
        }
        if let Some(reason) = &state.lost {
            return Poll::Ready(Err(ReceiveError::Disconnected(reason.clone())));
        }
        // All is received, so that a graph that is larger than what is granted may go on.
        state.answer_asks(&self.limits);
        let before = state.waker.replace(context.waker().clone());
        settle(state, false);
        drop(before);
        Poll::Pending
    }
}

impl State {
    /// Grants what is asked for, if nothing that is ready waits to be received, by somebody who is there: then it belongs to the next graph.
    fn grant(&mut self, limits: &GraphLimits, up_to: u64) {
        let is_next = self.coming.keys().all(|number| *number == self.next);
        let together = limits.cost_max().saturating_add(limits.granted_bytes);
        if self.is_accepted
            && is_next
            && self.ready.is_empty()
            && up_to.saturating_sub(self.received) <= together
        {
            self.granted = self.granted.max(up_to);
        }
    }

    fn answer_asks(&mut self, limits: &GraphLimits) {
        let Some(up_to) = self.asks.as_ref().map(|(_, up_to)| *up_to) else { return };
        self.grant(limits, up_to);
        if self.granted >= up_to
            && let Some((responder, _)) = self.asks.take()
        {
            self.answers.push((responder, Answer::done(self.granted)));
        }
    }

    /// Makes those ready whose turn it is, now that something of one of them has come.
    fn deliver(&mut self, number: u64) {
        if let Some(coming) = self.coming.get_mut(&number)
            && coming.is_complete
            && let Some(sender) = coming.sender.take()
        {
            self.answers.push((sender, Answer::done(self.granted)));
        }
        while let Some(coming) = self.coming.first_entry()
            && *coming.key() == self.next
            && coming.get().is_complete
        {
            let coming = coming.remove();
            self.make_ready(coming);
        }
    }

    /// One that is complete, and whose turn it is, can be received.
    fn make_ready(&mut self, coming: Coming) {
        let graph = coming.assembly.finish().expect("it is complete");
        self.ready.push_back((graph, coming.cost));
        self.next += 1;
    }

    /// Nothing comes any more, for this reason; the first one stays.
    fn end(&mut self, error: ReceiveError) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(error);
        if let Some(answer) = self.failed() {
            self.answer_all(&answer);
        }
        self.give_up_coming();
    }

    fn give_up_coming(&mut self) {
        let coming = std::mem::take(&mut self.coming);
        if !coming.is_empty() {
            self.gone.push(Box::new(coming));
        }
    }

    fn breaks_rules(&mut self, rule: &'static str) -> Answer {
        self.end(ReceiveError::Protocol(rule));
        self.failed().expect("it has just ended")
    }

    /// What who sends is told if nothing is taken any more.
    fn failed(&self) -> Option<Answer> {
        if self.is_left {
            return Some(Answer::failed(Status::Closed, String::new()));
        }
        self.ended.as_ref().map(|error| Answer::failed(Status::Refused, error.to_string()))
    }

    fn answer_all(&mut self, answer: &Answer) {
        let senders = self.coming.values_mut().filter_map(|coming| coming.sender.take());
        let asks = self.asks.take().map(|(responder, _)| responder);
        let answers = senders.chain(asks).map(|responder| (responder, answer.clone()));
        self.answers.extend(answers);
    }
}

impl Coming {
    fn new(types: &Types, limits: &GraphLimits) -> Coming {
        Coming {
            assembly: Assembly::new(types, limits.per_graph),
            next: 0,
            is_complete: false,
            cost: 0,
            ahead: BTreeMap::new(),
            sender: None,
        }
    }

    /// Checks the segment whose turn it is, and those that have waited for it.
    fn check(&mut self, bytes: ReceivedBytes) -> Result<(), Invalid> {
        let mut next = Some(bytes);
        while let Some(bytes) = next {
            self.next += 1;
            self.is_complete = self.assembly.add(bytes)?;
            next = self.ahead.remove(&self.next);
        }
        Ok(())
    }
}

/// Unlocks, and then answers, lets go and wakes who receives, if there is news for it.
fn settle(mut state: MutexGuard<'_, State>, is_news: bool) {
    let (answers, gone) = (std::mem::take(&mut state.answers), std::mem::take(&mut state.gone));
    let waker = if is_news { state.waker.take() } else { None };
    drop(state);
    for (responder, answer) in answers {
        reply(responder, &answer);
    }
    drop(gone);
    waker.into_iter().for_each(Waker::wake);
}

/// Replies now, or not at all: who has no room for a reply of some bytes is told that there is none, and asks again.
pub(super) fn reply(responder: Responder, answer: &Answer) {
    let (head, words) = answer.encode();
    let _ = responder.reply([&head[..], words]).now_or_never();
}
