//! Devices, their ports and addresses, and what they report by themselves.

use std::ffi::{CStr, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use ibverbs_sys as sys;

use super::{check, set_nonblocking};

/// An open device.
///
/// Invariant: `context` is what `ibv_open_device` has returned, and is closed by `Drop` alone.
#[derive(Debug)]
pub(in crate::link::verbs) struct Context {
    context: NonNull<sys::ibv_context>,
    name: String,
}

// SAFETY: libibverbs may be called from any thread, from several at once (its documentation,
// ibv_verbs(7)).
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// What a port is and can do.
#[derive(Debug, Clone, Copy)]
pub(in crate::link::verbs) struct PortState {
    pub(in crate::link::verbs) is_active: bool,
    /// The largest packet, as the device numbers them: 1 is 256 bytes, 5 is 4096.
    pub(in crate::link::verbs) mtu: u32,
    pub(in crate::link::verbs) lid: u16,
    pub(in crate::link::verbs) gids: u32,
    pub(in crate::link::verbs) is_ethernet: bool,
}

/// What kind of address a GID is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link::verbs) enum GidKind {
    InfiniBand,
    RoceV1,
    RoceV2,
}

/// What a device reports by itself.
#[derive(Debug)]
pub(in crate::link::verbs) enum AsyncEvent {
    /// The queue pair with this number has failed.
    Pair(u32),
    /// The device, its port or something that all queue pairs share has failed.
    Device(&'static CStr),
    /// Something to know of, no more.
    Other(&'static CStr),
}

impl Context {
    /// The names of all devices.
    pub(in crate::link::verbs) fn names() -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        each_device(|_, name| {
            names.push(name);
            None::<()>
        })?;
        Ok(names)
    }

    /// Opens the device of that name.
    pub(in crate::link::verbs) fn open(wanted: &str) -> io::Result<Self> {
        let opened = each_device(|device, name| {
            // SAFETY: the device is on a list that has not been freed.
            (name == wanted).then(|| (unsafe { sys::ibv_open_device(device) }, name))
        })?;
        let (context, name) = opened.ok_or(io::ErrorKind::NotFound)?;
        let context = NonNull::new(context).ok_or_else(io::Error::last_os_error)?;
        let context = Self { context, name };
        set_nonblocking(context.async_descriptor())?;
        Ok(context)
    }

    pub(in crate::link::verbs) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn as_ptr(&self) -> *mut sys::ibv_context {
        self.context.as_ptr()
    }

    /// What the device can do.
    pub(in crate::link::verbs) fn attributes(&self) -> io::Result<sys::ibv_device_attr> {
        let mut attributes = MaybeUninit::zeroed();
        // SAFETY: the context is open, and the call writes to the place that it is given.
        check(unsafe { sys::ibv_query_device(self.as_ptr(), attributes.as_mut_ptr()) })?;
        // SAFETY: zeroed and then written; plain numbers, for which all bits are valid.
        Ok(unsafe { attributes.assume_init() })
    }

    /// What `port` is and can do; ports count from 1.
    pub(in crate::link::verbs) fn port(&self, port: u8) -> io::Result<PortState> {
        let mut attributes = MaybeUninit::<sys::ibv_port_attr>::zeroed();
        // SAFETY: the context is open. The exported function fills the fields up to `link_layer`
        // and `flags`, the prefix that all versions share; the rest stays zero.
        check(unsafe { sys::ibv_query_port(self.as_ptr(), port, attributes.as_mut_ptr().cast()) })?;
        // SAFETY: zeroed and then written; plain numbers, for which all bits are valid.
        let attributes = unsafe { attributes.assume_init() };
        Ok(PortState {
            is_active: attributes.state == sys::ibv_port_state::IBV_PORT_ACTIVE,
            mtu: attributes.active_mtu,
            lid: attributes.lid,
            gids: u32::try_from(attributes.gid_tbl_len).unwrap_or(0),
            is_ethernet: u32::from(attributes.link_layer) == sys::IBV_LINK_LAYER_ETHERNET,
        })
    }

    /// The address at `index` of `port`, or nothing if there is none.
    pub(in crate::link::verbs) fn gid(&self, port: u8, index: u32) -> Option<([u8; 16], GidKind)> {
        let mut entry = MaybeUninit::<sys::ibv_gid_entry>::zeroed();
        let size = size_of::<sys::ibv_gid_entry>();
        // SAFETY: the context is open, and the call writes at most `size` bytes to the entry.
        let returned = unsafe {
            sys::_ibv_query_gid_ex(
                self.as_ptr(),
                u32::from(port),
                index,
                entry.as_mut_ptr(),
                0,
                size,
            )
        };
        check(returned).ok()?;
        // SAFETY: zeroed and then written; plain numbers, for which all bits are valid.
        let entry = unsafe { entry.assume_init() };
        // SAFETY: either view of the address is 16 bytes.
        let raw = unsafe { entry.gid.raw };
        let kind = match entry.gid_type {
            sys::IBV_GID_TYPE_IB => GidKind::InfiniBand,
            sys::IBV_GID_TYPE_ROCE_V1 => GidKind::RoceV1,
            _ => GidKind::RoceV2,
        };
        (raw != [0; 16]).then_some((raw, kind))
    }

    /// Becomes readable when there is an [`AsyncEvent`].
    pub(in crate::link::verbs) fn async_descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the context is.
        unsafe { BorrowedFd::borrow_raw((*self.as_ptr()).async_fd) }
    }

    /// The next event, if there is one.
    pub(in crate::link::verbs) fn async_event(&self) -> Option<AsyncEvent> {
        let mut event = MaybeUninit::<sys::ibv_async_event>::zeroed();
        // SAFETY: the context is open, its descriptor does not block, and the call writes to the
        // place that it is given.
        check(unsafe { sys::ibv_get_async_event(self.as_ptr(), event.as_mut_ptr()) }).ok()?;
        // SAFETY: the call has succeeded, so it has been written.
        let mut event = unsafe { event.assume_init() };
        // SAFETY: the call returns a static text for every number.
        let text = unsafe { CStr::from_ptr(sys::ibv_event_type_str(event.event_type)) };
        let read = match event.event_type {
            sys::IBV_EVENT_QP_FATAL
            | sys::IBV_EVENT_QP_REQ_ERR
            | sys::IBV_EVENT_QP_ACCESS_ERR
            | sys::IBV_EVENT_PATH_MIG_ERR => {
                // SAFETY: these events are of queue pairs, which `ibv_destroy_qp` does not free
                // before their events are acknowledged, below.
                AsyncEvent::Pair(unsafe { (*event.element.qp).qp_num })
            }
            sys::IBV_EVENT_DEVICE_FATAL
            | sys::IBV_EVENT_CQ_ERR
            | sys::IBV_EVENT_SRQ_ERR
            | sys::IBV_EVENT_PORT_ERR => AsyncEvent::Device(text),
            _ => AsyncEvent::Other(text),
        };
        // SAFETY: acknowledges what was got above, once.
        unsafe { sys::ibv_ack_async_event(&raw mut event) };
        Some(read)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: whatever was made of the context held it, and is gone.
        let closed = check(unsafe { sys::ibv_close_device(self.as_ptr()) });
        debug_assert!(closed.is_ok(), "closing a device that nothing uses succeeds");
    }
}

/// Calls `visit` with every device and its name, until it returns something.
fn each_device<T>(
    mut visit: impl FnMut(*mut sys::ibv_device, String) -> Option<T>,
) -> io::Result<Option<T>> {
    let mut count: c_int = 0;
    // SAFETY: writes how many there are to the place that it is given.
    let list = unsafe { sys::ibv_get_device_list(&raw mut count) };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    let found = (0..usize::try_from(count).unwrap_or(0)).find_map(|index| {
        // SAFETY: the list has `count` devices, each of which has a name, until it is freed below.
        let (device, name) = unsafe {
            let device = *list.add(index);
            (device, CStr::from_ptr(sys::ibv_get_device_name(device)))
        };
        visit(device, name.to_string_lossy().into_owned())
    });
    // SAFETY: the list came from `ibv_get_device_list`; an open device does not need it.
    unsafe { sys::ibv_free_device_list(list) };
    Ok(found)
}

/// A protection domain: what belongs together on a device.
///
/// Invariant: `domain` is what `ibv_alloc_pd` has returned, and is freed by `Drop` alone.
#[derive(Debug)]
pub(in crate::link::verbs) struct Domain {
    domain: NonNull<sys::ibv_pd>,
    context: Arc<Context>,
}

// SAFETY: as for `Context`.
unsafe impl Send for Domain {}
// SAFETY: as for `Context`.
unsafe impl Sync for Domain {}

impl Domain {
    pub(in crate::link::verbs) fn new(context: Arc<Context>) -> io::Result<Self> {
        // SAFETY: the context is open, and stays so as long as the domain holds it.
        let domain = NonNull::new(unsafe { sys::ibv_alloc_pd(context.as_ptr()) });
        Ok(Self { domain: domain.ok_or_else(io::Error::last_os_error)?, context })
    }

    pub(super) fn as_ptr(&self) -> *mut sys::ibv_pd {
        self.domain.as_ptr()
    }

    pub(in crate::link::verbs) fn context(&self) -> &Context {
        &self.context
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: whatever was made in the domain held it, and is gone.
        let freed = check(unsafe { sys::ibv_dealloc_pd(self.as_ptr()) });
        debug_assert!(freed.is_ok(), "freeing a domain that nothing uses succeeds");
    }
}
