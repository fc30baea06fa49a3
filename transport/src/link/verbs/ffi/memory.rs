//! Memory that a device reads and writes by itself, and who may touch it when.

use std::io;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
#[cfg(feature = "streams")]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicUsize, Ordering};

use ibverbs_sys as sys;

use super::check;
use super::device::Domain;
use crate::link::lent::Owner;
use crate::memory::{Block, Extent, Shared};

/// What a device may do with memory. Never more: none of it can be reached from another machine, as
/// what is lent to be read (`Exposed`) and rings of streams (`Landing`) can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link::verbs) enum Access {
    /// Send from it.
    Read,
    /// Receive into it.
    Write,
}

/// A registered block.
///
/// Invariant: `region` is what `ibv_reg_mr` has returned for the block's bytes, and is undone by
/// `Drop` alone. Nobody touches the bytes but through [`Buffer`]s, of which no two overlap.
#[derive(Debug)]
struct Slab {
    region: NonNull<sys::ibv_mr>,
    base: NonNull<u8>,
    /// Kept for its memory, and not looked at before it is taken back.
    block: Option<Block>,
    _domain: Arc<Domain>,
}

// SAFETY: a registration belongs to the process; the bytes are reached through buffers only, each
// of which has one owner.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

/// A registration of memory that goes on belonging to its owner. By itself it has the pages stay where
/// they are, and lets nobody touch them: only a work request that names it would, from this process.
///
/// Invariant: `region` is what `ibv_reg_mr` has returned, and is undone by `Drop` alone. Where there are no
/// bytes there is none.
#[derive(Debug)]
pub(crate) struct VerbsRegistration {
    region: Option<NonNull<sys::ibv_mr>>,
    _domain: Arc<Domain>,
}

// SAFETY: a registration belongs to the process, and this one is only kept and undone.
unsafe impl Send for VerbsRegistration {}
// SAFETY: as above.
unsafe impl Sync for VerbsRegistration {}

impl VerbsRegistration {
    /// Registers all bytes of `extent`, to be sent from and received into.
    pub(in crate::link::verbs) fn make(domain: &Arc<Domain>, extent: &Extent) -> io::Result<Self> {
        let domain = Arc::clone(domain);
        if extent.len() == 0 {
            return Ok(Self { region: None, _domain: domain });
        }
        let rights = sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0.cast_signed();
        let base = extent.base().as_ptr().cast();
        // SAFETY: the extent's bytes are mapped and writable, and the kernel holds on to their pages by
        // itself: it does not matter for how long the extent lives.
        let region = unsafe { sys::ibv_reg_mr(domain.as_ptr(), base, extent.len(), rights) };
        let region = Some(NonNull::new(region).ok_or_else(io::Error::last_os_error)?);
        Ok(Self { region, _domain: domain })
    }
}

impl VerbsRegistration {
    /// The key by which requests of this process name the memory. Where there are no bytes there is none.
    pub(crate) fn key(&self) -> Option<u32> {
        // SAFETY: the registration lives as long as `self`.
        self.region.map(|region| unsafe { region.as_ref() }.lkey)
    }
}

impl Drop for VerbsRegistration {
    fn drop(&mut self) {
        let Some(region) = self.region else { return };
        // SAFETY: it is undone once, and no request names it.
        let undone = check(unsafe { sys::ibv_dereg_mr(region.as_ptr()) });
        debug_assert!(undone.is_ok(), "undoing a registration succeeds");
    }
}

/// Registers `block`, and cuts it into buffers of these lengths.
///
/// # Panics
/// If they are longer together than the block is.
///
/// # Errors
/// The system's, such as `OutOfMemory` if the process may not lock so much (`ulimit -l`), and the block.
pub(in crate::link::verbs) fn register(
    domain: &Arc<Domain>,
    mut block: Block,
    access: Access,
    lens: impl Iterator<Item = usize>,
) -> Result<Vec<Buffer>, (io::Error, Block)> {
    let len = block.len();
    block.mark_touched(len);
    let base = NonNull::from(&mut *block).cast::<u8>();
    let rights = match access {
        Access::Read => 0,
        Access::Write => sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0,
    };
    // SAFETY: the block is `len` bytes from `base`, at an address that does not change, and the
    // slab keeps it until the registration has been undone.
    let region = unsafe {
        sys::ibv_reg_mr(domain.as_ptr(), base.as_ptr().cast(), len, rights.cast_signed())
    };
    let Some(region) = NonNull::new(region) else {
        return Err((io::Error::last_os_error(), block));
    };
    let slab = Arc::new(Slab { region, base, block: Some(block), _domain: Arc::clone(domain) });
    let mut start = 0;
    let buffers = lens.map(|buffer_len| {
        let buffer = Buffer { slab: Arc::clone(&slab), start, len: buffer_len };
        start += buffer_len;
        assert!(start <= len, "the buffers fit into the block");
        buffer
    });
    Ok(buffers.collect())
}

/// The block that `buffers` were cut from, if they are all of its buffers that there are.
pub(in crate::link::verbs) fn reclaim(buffers: Vec<Buffer>) -> Option<Block> {
    let mut last = None;
    for Buffer { slab, .. } in buffers {
        last = Some(slab);
    }
    // No buffer is left, so that none is posted.
    let mut slab = Arc::into_inner(last?)?;
    let block = slab.block.take();
    drop(slab);
    block
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the buffers of the slab are gone, so that none is posted, and so is whoever could
        // post one.
        let undone = check(unsafe { sys::ibv_dereg_mr(self.region.as_ptr()) });
        debug_assert!(undone.is_ok(), "undoing a registration succeeds");
    }
}

/// A ring that the peer of a queue pair in this domain may write into, at any time and as often as it likes, as long as
/// this lives; it can read nothing of it, and nothing else can be reached with its key.
///
/// Invariant: `region` is what `ibv_reg_mr` has returned for the bytes of `words`, and is undone by `Drop` alone.
/// Nothing but atomics ever refers to them.
#[cfg(feature = "streams")]
#[derive(Debug)]
pub(in crate::link::verbs) struct Landing {
    region: NonNull<sys::ibv_mr>,
    words: Box<[AtomicU64]>,
    _domain: Arc<Domain>,
}

// SAFETY: a registration belongs to the process; what is handed out are atomics.
#[cfg(feature = "streams")]
unsafe impl Send for Landing {}
// SAFETY: as above.
#[cfg(feature = "streams")]
unsafe impl Sync for Landing {}

#[cfg(feature = "streams")]
impl Landing {
    /// A new one of so many words of eight bytes, all zero.
    ///
    /// # Errors
    /// The system's, such as `OutOfMemory` if the process may not lock so much (`ulimit -l`).
    pub(in crate::link::verbs) fn new(domain: &Arc<Domain>, words: usize) -> io::Result<Self> {
        let words: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        // Whoever may be written from elsewhere is written by this side's device too: verbs ask for both.
        let rights = sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE
            | sys::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE;
        let (base, len) = (words.as_ptr().cast_mut().cast(), size_of_val(&*words));
        // SAFETY: the words are at an address that does not change, and stay until the registration has
        // been undone. They are atomics, which may be written at any time.
        let region = unsafe { sys::ibv_reg_mr(domain.as_ptr(), base, len, rights.0.cast_signed()) };
        let region = NonNull::new(region).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { region, words, _domain: Arc::clone(domain) })
    }

    /// Where it lies, as the device names it: the address, and the key.
    pub(in crate::link::verbs) fn place(&self) -> (u64, u32) {
        // SAFETY: the registration lives as long as `self`.
        (self.words.as_ptr() as u64, unsafe { self.region.as_ref() }.rkey)
    }

    /// What has been written into it, as it is now. The device writes bytes in the order of memory.
    pub(in crate::link::verbs) fn words(&self) -> &[AtomicU64] {
        &self.words
    }
}

#[cfg(feature = "streams")]
impl Drop for Landing {
    fn drop(&mut self) {
        // SAFETY: undone once. A peer that still writes is refused by the device from then on.
        let undone = check(unsafe { sys::ibv_dereg_mr(self.region.as_ptr()) });
        if let Err(error) = undone {
            // Others may still write it: it stays as it is.
            tracing::error!(%error, "memory that a peer writes could not be taken back");
            std::mem::forget(std::mem::take(&mut self.words));
        }
    }
}

/// A part of registered memory, whose owner has its bytes alone.
#[derive(Debug)]
pub(in crate::link::verbs) struct Buffer {
    slab: Arc<Slab>,
    start: usize,
    len: usize,
}

impl Buffer {
    pub(in crate::link::verbs) fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes are mapped and initialized as long as the slab lives; the buffer is not
        // posted, since posting takes it, and no other overlaps it: nobody writes them.
        unsafe { slice::from_raw_parts(self.slab.base.add(self.start).as_ptr(), self.len) }
    }

    pub(in crate::link::verbs) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.slab.base.add(self.start).as_ptr(), self.len) }
    }

    /// How a work request names the first `len` bytes.
    ///
    /// # Panics
    /// If the buffer is shorter.
    pub(super) fn element(&self, len: usize) -> sys::ibv_sge {
        assert!(len <= self.len, "no more is posted than there is");
        sys::ibv_sge {
            // SAFETY: within the slab's block.
            addr: unsafe { self.slab.base.add(self.start) }.as_ptr() as u64,
            length: u32::try_from(len).expect("buffers are a few KiB"),
            // SAFETY: the registration lives as long as the slab.
            lkey: unsafe { self.slab.region.as_ref() }.lkey,
        }
    }

    pub(in crate::link::verbs) fn len(&self) -> usize {
        self.len
    }
}

/// Bytes that are sent from where they lie, in memory that its owner has registered.
///
/// A key that is not that memory's any more fails the send: what a device reads is checked against it.
#[derive(Debug)]
pub(in crate::link::verbs) struct Lent {
    /// Immutable as long as anybody holds it. Let go of before its owner is, who may want the memory back.
    memory: Shared,
    key: u32,
    counted: Counted,
    owner: Arc<dyn Owner>,
}

/// Counts for as long as it lives.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Lent {
    /// Of `memory`, which is registered by `key` for as long as `owner` lives. Counts in `count`.
    pub(in crate::link::verbs) fn new(
        memory: Shared,
        key: u32,
        owner: Arc<dyn Owner>,
        count: &Arc<AtomicUsize>,
    ) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self { memory, key, counted: Counted(Arc::clone(count)), owner }
    }

    /// How a work request names all of it.
    pub(super) fn element(&self) -> sys::ibv_sge {
        sys::ibv_sge {
            addr: self.memory.as_ptr() as u64,
            length: u32::try_from(self.memory.len()).expect("a message is a few KiB"),
            lkey: self.key,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.memory.len()
    }

    /// The device will not say that it is done with it: it is kept, with its registration, for as long as the process lives, and counts no
    /// longer.
    pub(super) fn lose(self) {
        let Self { memory, key: _, counted, owner } = self;
        owner.lose();
        std::mem::forget((memory, owner));
        drop(counted);
    }
}

/// Bytes that the peers of this domain may read, if they know the key, as long as this lives: the key
/// is made with it and goes out of use with it.
///
/// Invariant: `region` is what `ibv_reg_mr` has returned for the bytes of `body`, and is undone by `Drop`
/// alone.
#[derive(Debug)]
pub(in crate::link::verbs) struct Exposed {
    region: NonNull<sys::ibv_mr>,
    /// Immutable as long as anybody holds it, which makes reading it from elsewhere no race.
    body: Shared,
    _domain: Arc<Domain>,
}

// SAFETY: a registration belongs to the process; the bytes are only read.
unsafe impl Send for Exposed {}
// SAFETY: as above.
unsafe impl Sync for Exposed {}

impl Exposed {
    /// Lets `body` be read.
    ///
    /// # Errors
    /// The system's, such as `OutOfMemory` if the process may not lock so much (`ulimit -l`).
    pub(in crate::link::verbs) fn new(domain: &Arc<Domain>, body: Shared) -> io::Result<Self> {
        let rights = sys::ibv_access_flags::IBV_ACCESS_REMOTE_READ.0.cast_signed();
        let base = body.as_ptr().cast_mut().cast();
        // SAFETY: the bytes are mapped at an address that does not change, and `body` keeps them until
        // the registration has been undone. The device may read them only.
        let region = unsafe { sys::ibv_reg_mr(domain.as_ptr(), base, body.len(), rights) };
        let region = NonNull::new(region).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { region, body, _domain: Arc::clone(domain) })
    }

    /// Where it lies, as the device names it: the address, the key, and how many bytes.
    pub(in crate::link::verbs) fn place(&self) -> (u64, u32, u32) {
        // SAFETY: the registration lives as long as `self`.
        let key = unsafe { self.region.as_ref() }.rkey;
        let len = u32::try_from(self.body.len()).expect("bodies are up to LARGE_MAX");
        (self.body.as_ptr() as u64, key, len)
    }
}

impl Drop for Exposed {
    fn drop(&mut self) {
        // SAFETY: undone once. A peer that still reads is refused by the device from then on.
        let undone = check(unsafe { sys::ibv_dereg_mr(self.region.as_ptr()) });
        if let Err(error) = undone {
            // Others may still read it: it stays as it is.
            tracing::error!(%error, "memory that peers read could not be taken back");
            std::mem::forget(self.body.clone());
        }
    }
}
