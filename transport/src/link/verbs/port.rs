//! A port of a device, as the connections of one reactor share it.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use foldhash::fast::RandomState as NumberHasher;
use parking_lot::Mutex;

use super::choice::Choice;
use super::end::{
    BODY_BYTES, End, Grant, HEAD_BYTES, READS_MAX, RECEIVE_BYTES, SEND_BUFFERS, SENDS_MAX, Shares,
};
use super::ffi::{
    Access, AsyncEvent, Completed, Completion, Domain, QueueSizes, Queues, Receive, register,
};
use crate::limits::LINK_SHARE;
use crate::link::verbs_options::{VerbsError, VerbsOptions};
use crate::link::verbs_rules::credits::RECEIVES;
use crate::link::verbs_rules::introduction::Introduction;
use crate::memory::{Memory, Purpose};
use crate::secret::Secret;

/// The most connections of one reactor: what the queues are made for. Later ones run over TCP.
const CONNECTIONS_MAX: u32 = 256;

/// How long the device is given to send what is under way when everything ends.
const LINGER: Duration = Duration::from_millis(500);

/// Bytes that a connection's receives take, and as many its buffers to send from.
const WINDOW_BYTES: usize = RECEIVES as usize * RECEIVE_BYTES;

/// A port of a device with its queues, and the ends of connections that use them.
#[derive(Debug)]
pub(crate) struct VerbsPort {
    choice: Choice,
    queues: Arc<Queues>,
    /// By their numbers, which the device gives out, not the peer.
    ends: Mutex<HashMap<u32, Arc<End>, NumberHasher>>,
    /// How many there are, to be seen without the lock.
    ends_count: AtomicUsize,
    /// Places of connections that something has happened on.
    noted: Mutex<Vec<usize>>,
    /// There are some, to be seen without the lock.
    any_noted: AtomicBool,
    /// Receives that there are.
    receives: Mutex<u32>,
    /// Those of them that open connections count on.
    granted: Arc<AtomicU32>,
    connections_max: u32,
    /// Pieces of memory that are being sent from where they lie.
    all_lent: Arc<AtomicUsize>,
    /// Reads that a queue pair may have under way, in either direction.
    reads: u8,
    memory: Memory,
    secret: Option<Secret>,
    #[cfg(test)]
    pub(super) deafness: super::silent::Deafness,
}

impl VerbsPort {
    /// Opens the device that `options` choose.
    pub(crate) fn open(
        options: &VerbsOptions,
        memory: Memory,
        secret: Option<Secret>,
    ) -> Result<Arc<Self>, VerbsError> {
        let system = |what| move |source| VerbsError::System { what, source };
        let choice = Choice::make(options)?;
        let can = choice.context.attributes().map_err(system("ask what the device can do"))?;
        let at_most = |limit: i32, each: u32| u32::try_from(limit).unwrap_or(0) / each;
        let connections_max = CONNECTIONS_MAX
            .min(at_most(can.max_srq_wr, RECEIVES))
            .min(at_most(can.max_cqe, RECEIVES + SENDS_MAX))
            .min(at_most(can.max_qp, 1));
        if connections_max == 0 || can.max_srq_sge < 2 || can.max_qp_wr < SENDS_MAX.cast_signed() {
            return Err(VerbsError::Unfit { device: choice.context.name().to_owned() });
        }
        let reads =
            can.max_qp_rd_atom.min(can.max_qp_init_rd_atom).clamp(0, READS_MAX.into()) as u8;
        let domain = Domain::new(Arc::clone(&choice.context));
        let domain = Arc::new(domain.map_err(system("make a protection domain"))?);
        let sizes = QueueSizes {
            completions: connections_max * (RECEIVES + SENDS_MAX),
            receives: connections_max * RECEIVES,
        };
        let queues = Queues::new(domain, sizes).map_err(system("make the device's queues"))?;
        let Choice { context, port, gid_index, .. } = &choice;
        tracing::debug!(device = context.name(), port, gid_index, "verbs can be used");
        Ok(Arc::new(Self {
            choice,
            queues: Arc::new(queues),
            ends: Mutex::default(),
            ends_count: AtomicUsize::new(0),
            noted: Mutex::default(),
            any_noted: AtomicBool::new(false),
            receives: Mutex::new(0),
            granted: Arc::default(),
            connections_max,
            all_lent: Arc::default(),
            reads,
            memory,
            secret,
            #[cfg(test)]
            deafness: super::silent::Deafness::default(),
        }))
    }

    /// What memory is registered with.
    pub(super) fn domain(&self) -> &Arc<Domain> {
        self.queues.domain()
    }

    /// Makes an end of a new connection, with receives posted for it.
    pub(super) fn make_end(&self, place: &Arc<AtomicUsize>) -> io::Result<Arc<End>> {
        let grant = self.grant()?;
        let lens = std::iter::repeat_n(RECEIVE_BYTES, SEND_BUFFERS);
        let block = self.allocate(WINDOW_BYTES)?;
        let buffers = register(self.queues.domain(), block, Access::Read, lens);
        let buffers = buffers.map_err(|(error, _)| not_locked(error))?;
        let shares = Shares {
            queues: Arc::clone(&self.queues),
            all_lent: Arc::clone(&self.all_lent),
            place: Arc::clone(place),
            grant,
        };
        // Any number will do that an earlier connection is not likely to have had.
        let packet = RandomState::new().build_hasher().finish() as u32 >> 8;
        let options = (self.choice.port, self.choice.gid_index, self.reads);
        let end = End::new(shares, options, buffers, packet)?;
        let end = Arc::new(end);
        let mut ends = self.ends.lock();
        ends.insert(end.number(), Arc::clone(&end));
        self.ends_count.store(ends.len(), Ordering::Release);
        drop(ends);
        Ok(end)
    }

    /// Memory to send from or receive into, if links may take that much.
    fn allocate(&self, bytes: usize) -> io::Result<crate::memory::Block> {
        let account = self.memory.account();
        let link_bytes = account.allocated_for(Purpose::Link) + bytes as u64;
        if link_bytes > account.shared_bytes() / LINK_SHARE {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let block = self.memory.allocate(bytes, Purpose::Link);
        block.map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    /// Sees to it that there are receives for one more connection.
    fn grant(&self) -> io::Result<Grant> {
        let mut receives = self.receives.lock();
        let granted = self.granted.fetch_add(RECEIVES, Ordering::SeqCst) + RECEIVES;
        let grant = Grant { granted: Arc::clone(&self.granted) };
        if granted > self.connections_max * RECEIVES {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        if granted > *receives {
            self.post_new(RECEIVES as usize)?;
            *receives += RECEIVES;
        }
        Ok(grant)
    }

    /// What the peer has to know of `end`. The secret is shown by who connects.
    pub(super) fn introduce(&self, end: &End, shows_secret: bool) -> Introduction {
        let Choice { lid, gid, mtu, .. } = self.choice;
        Introduction {
            address: end.address(lid, gid, mtu),
            receives: RECEIVES,
            receive_bytes: RECEIVE_BYTES as u32,
            reads: self.reads,
            secret: self.secret.filter(|_| shows_secret),
        }
    }

    /// Whether whoever introduces itself so is one of those that may connect.
    pub(super) fn trusts(&self, peer: &Introduction) -> bool {
        self.secret.is_none() || self.secret == peer.secret
    }

    /// Connects `end` to the end that has introduced itself so.
    pub(super) fn connect(&self, end: &End, peer: &Introduction) -> io::Result<()> {
        end.connect(peer, self.choice.mtu, self.reads)
    }

    /// Nobody uses `end` any more; what is under way is still sent.
    pub(super) fn let_go(&self, end: &End) {
        end.is_orphan.store(true, Ordering::SeqCst);
        end.place.store(usize::MAX, Ordering::SeqCst);
        end.settle();
        let mut ends = self.ends.lock();
        if end.under_way() == 0 || end.has_failed() {
            let gone = self.remove(&mut ends, end.number());
            drop(ends);
            drop(gone);
        }
    }

    /// Takes out an end, to be dropped when nothing is locked: owners of what it has under way wake others.
    #[must_use]
    fn remove(
        &self,
        ends: &mut HashMap<u32, Arc<End>, NumberHasher>,
        number: u32,
    ) -> Option<Arc<End>> {
        let gone = ends.remove(&number);
        self.ends_count.store(ends.len(), Ordering::Release);
        gone
    }

    /// Whether there are connections that completions may be for.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.ends_count.load(Ordering::Acquire) > 0
    }

    /// Takes in what the device is done with, and keeps the places that it is for. Returns whether there was anything.
    pub(crate) fn poll(&self) -> bool {
        self.poll_for(|place| {
            let mut noted = self.noted.lock();
            if noted.last() != Some(&place) {
                noted.push(place);
                self.any_noted.store(true, Ordering::Release);
            }
        })
    }

    /// As [`poll`](Self::poll), by who looks at the places at once: `note` has each, maybe more than once.
    #[inline]
    pub(crate) fn poll_for(&self, mut note: impl FnMut(usize)) -> bool {
        #[cfg(test)]
        if self.deafness.is_deaf() {
            return false;
        }
        // Most looks find nothing: they take none of these locks.
        let mut locked = None;
        let (mut unused, mut lent, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        let polled = self.queues.poll(|completion| {
            let ends = locked.get_or_insert_with(|| self.ends.lock());
            let Completion { pair, failed, what } = completion;
            let end = ends.get(&pair);
            if let (Some(end), Some(status)) = (end, failed)
                && !end.has_failed()
            {
                tracing::debug!(status, pair, "a connection over verbs failed");
                end.fail();
            }
            match (what, end) {
                (Completed::Received { receive, len, immediate }, Some(end))
                    if failed.is_none() =>
                {
                    unused.extend(end.arrived(receive, len, immediate));
                }
                (Completed::Received { receive, .. }, _) => unused.push(receive),
                (Completed::Sent(sent), Some(end)) => end.sent(&sent, failed.is_none(), &mut lent),
                // Such come to pairs with receives of their own, which these have not.
                (Completed::Written { .. }, _) | (Completed::Sent(_), None) => {}
            }
            let Some(end) = end else { return };
            let place = end.place.load(Ordering::SeqCst);
            if place != usize::MAX {
                note(place);
            }
            let is_orphan = end.is_orphan.load(Ordering::SeqCst);
            if is_orphan && (end.under_way() == 0 || end.has_failed()) {
                gone.extend(self.remove(ends, pair));
            }
        });
        drop(locked);
        drop((lent, gone));
        match polled {
            Ok(0) => false,
            polled => {
                let posted =
                    if unused.is_empty() { Ok(()) } else { self.queues.post(unused.into_iter()) };
                self.replace_lost();
                if let Err(error) = polled.map(|_| ()).and(posted) {
                    tracing::error!(%error, "the queues of a device failed");
                    self.fail_all();
                }
                true
            }
        }
    }

    /// Posts receives in the place of those that were lost with queue pairs that are gone.
    fn replace_lost(&self) {
        let count = self.queues.take_due();
        if count == 0 {
            return;
        }
        match self.post_new(count) {
            Ok(()) => tracing::debug!(count, "receives are posted in the place of lost ones"),
            // Peers may have to try again, at the pace of their RNR timer.
            Err(error) => tracing::warn!(count, %error, "lost receives are not replaced"),
        }
    }

    /// Makes so many receives, and posts them.
    fn post_new(&self, count: usize) -> io::Result<()> {
        let lens =
            std::iter::repeat_n(HEAD_BYTES, count).chain(std::iter::repeat_n(BODY_BYTES, count));
        let block = self.allocate(count * RECEIVE_BYTES)?;
        let heads = register(self.queues.domain(), block, Access::Write, lens);
        let mut heads = heads.map_err(|(error, _)| not_locked(error))?;
        let bodies = heads.split_off(count);
        let pieces = heads.into_iter().zip(bodies);
        self.queues.post(pieces.map(|(head, body)| Receive { head, body }))
    }

    /// All connections are of no use any more.
    fn fail_all(&self) {
        for end in self.ends.lock().values() {
            end.fail();
            self.note(end);
        }
    }

    /// Something has happened on `end`.
    fn note(&self, end: &End) {
        let place = end.place.load(Ordering::SeqCst);
        if place != usize::MAX {
            let mut noted = self.noted.lock();
            noted.push(place);
            self.any_noted.store(true, Ordering::Release);
        }
    }

    /// The places of connections that something has happened on since the last time.
    pub(crate) fn take_noted(&self, mut note: impl FnMut(usize)) {
        // Most looks find nothing, and take no lock.
        if self.any_noted.load(Ordering::Acquire) {
            let mut noted = self.noted.lock();
            noted.drain(..).for_each(&mut note);
            self.any_noted.store(false, Ordering::Release);
        }
    }

    /// Has the channel tell of what comes next. Returns false if something has come already.
    pub(crate) fn arm(&self) -> bool {
        // Of sends too: somebody may come to wait for one while the reactor sleeps, for room or for memory that
        // was lent, and SoftRoCE tells of no failure otherwise.
        if let Err(error) = self.queues.arm(true) {
            tracing::error!(%error, "a device does not tell of what comes");
        }
        !self.poll()
    }

    /// Becomes readable when something has come after [`arm`](Self::arm).
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.queues.descriptor()
    }

    /// Becomes readable when the device reports something by itself.
    pub(crate) fn event_descriptor(&self) -> BorrowedFd<'_> {
        self.choice.context.async_descriptor()
    }

    /// Takes in what the channel has told.
    pub(crate) fn hear(&self) {
        self.queues.hear();
    }

    /// Takes in what the device reports by itself.
    pub(crate) fn hear_events(&self) {
        while let Some(event) = self.choice.context.async_event() {
            let device = self.choice.context.name();
            match event {
                AsyncEvent::Pair(number) => {
                    if let Some(end) = self.ends.lock().get(&number) {
                        end.fail();
                        self.note(end);
                    }
                }
                AsyncEvent::Device(what) => {
                    tracing::error!(device, ?what, "a device has failed");
                    self.fail_all();
                }
                AsyncEvent::Other(what) => tracing::debug!(device, ?what, "a device reports"),
            }
        }
    }
}

impl VerbsPort {
    /// Sees to it that nobody waits for memory that is being sent from: nobody drives any more. What the device has sent in a while
    /// comes back, and then what it gives up when it is told to. If it does not answer to that either, it may read the rest at any
    /// time: this is never freed, and its owners are told.
    pub(crate) fn give_back(&self) {
        let any_lent = || self.all_lent.load(Ordering::SeqCst) > 0;
        self.linger_while(any_lent);
        if !any_lent() {
            return;
        }
        let ends: Vec<_> = self.ends.lock().values().cloned().collect();
        ends.iter().for_each(|end| end.reset());
        #[cfg(test)]
        self.deafness.was_reset();
        self.linger_while(any_lent);
        if any_lent() {
            let count = self.all_lent.load(Ordering::SeqCst);
            tracing::error!(count, "a device does not answer: memory that it sends from is kept");
            ends.iter().for_each(|end| end.lose_lent());
        }
    }

    #[expect(clippy::disallowed_methods, reason = "nobody else is left to wait for the device")]
    fn linger_while(&self, is_so: impl Fn() -> bool) {
        let began = std::time::Instant::now();
        while is_so() && began.elapsed() < LINGER {
            self.poll();
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

impl Drop for VerbsPort {
    fn drop(&mut self) {
        self.linger_while(|| self.is_used());
    }
}

/// Names the limit that is the usual cause.
fn not_locked(error: io::Error) -> io::Error {
    static ONCE: std::sync::Once = std::sync::Once::new();
    if error.kind() == io::ErrorKind::OutOfMemory {
        ONCE.call_once(|| {
            tracing::warn!("connections do without verbs: raise `ulimit -l`");
        });
    }
    error
}
