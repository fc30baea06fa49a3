//! Memory that a device reads and writes by itself, and who may touch it when.

use std::io;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use ibverbs_sys as sys;

use super::check;
use super::device::Domain;
use crate::memory::Block;

/// What a device may do with memory. Never more: nothing here can be reached from another machine.
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
    /// Kept for its memory, and never looked at.
    _block: Block,
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
/// Invariant: `region` is what `ibv_reg_mr` has returned, and is undone by `Drop` alone.
#[derive(Debug)]
pub(crate) struct VerbsRegistration {
    region: NonNull<sys::ibv_mr>,
    _domain: Arc<Domain>,
}

// SAFETY: a registration belongs to the process, and this one is only kept and undone.
unsafe impl Send for VerbsRegistration {}
// SAFETY: as above.
unsafe impl Sync for VerbsRegistration {}

impl VerbsRegistration {
    /// Registers the bytes of `block`, to be sent from and received into.
    pub(in crate::link::verbs) fn make(domain: &Arc<Domain>, block: &Block) -> io::Result<Self> {
        let rights = sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0.cast_signed();
        let base = block.as_ptr().cast_mut().cast();
        // SAFETY: the block's bytes are mapped and writable, and the kernel holds on to their pages by
        // itself: it does not matter for how long the block lives.
        let region = unsafe { sys::ibv_reg_mr(domain.as_ptr(), base, block.len(), rights) };
        let region = NonNull::new(region).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { region, _domain: Arc::clone(domain) })
    }
}

impl Drop for VerbsRegistration {
    fn drop(&mut self) {
        // SAFETY: it is undone once, and no request names it.
        let undone = check(unsafe { sys::ibv_dereg_mr(self.region.as_ptr()) });
        debug_assert!(undone.is_ok(), "undoing a registration succeeds");
    }
}

/// Registers `block`, and cuts it into buffers of these lengths.
///
/// # Panics
/// If they are longer together than the block is.
///
/// # Errors
/// The system's, such as `OutOfMemory` if the process may not lock so much (`ulimit -l`).
pub(in crate::link::verbs) fn register(
    domain: &Arc<Domain>,
    mut block: Block,
    access: Access,
    lens: impl Iterator<Item = usize>,
) -> io::Result<Vec<Buffer>> {
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
    let region = NonNull::new(region).ok_or_else(io::Error::last_os_error)?;
    let slab = Arc::new(Slab { region, base, _block: block, _domain: Arc::clone(domain) });
    let mut start = 0;
    let buffers = lens.map(|buffer_len| {
        let buffer = Buffer { slab: Arc::clone(&slab), start, len: buffer_len };
        start += buffer_len;
        assert!(start <= len, "the buffers fit into the block");
        buffer
    });
    Ok(buffers.collect())
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the buffers of the slab are gone, so that none is posted, and so is whoever could
        // post one.
        let undone = check(unsafe { sys::ibv_dereg_mr(self.region.as_ptr()) });
        debug_assert!(undone.is_ok(), "undoing a registration succeeds");
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

    pub(super) fn len(&self) -> usize {
        self.len
    }
}
