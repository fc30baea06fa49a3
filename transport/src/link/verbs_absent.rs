//! What stands for the verbs link in a program that was built without it: types without values.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::verbs_options::{VerbsError, VerbsOptions};
use super::{Fetch, Link, Offer, Source, TcpLink, Transfer};
use crate::memory::{Block, Extent, Memory, Shared};
use crate::secret::Secret;

/// There is no such link.
#[derive(Debug)]
pub(crate) enum VerbsLink {}

/// There is no such port.
#[derive(Debug)]
pub(crate) enum VerbsPort {}

/// There is no such domain.
#[derive(Debug, Clone)]
pub(crate) enum VerbsDomain {}

/// There is no such registration.
#[derive(Debug)]
pub(crate) enum VerbsRegistration {}

impl VerbsDomain {
    pub(crate) fn key(&self) -> usize {
        match *self {}
    }

    pub(crate) fn register(&self, _extent: &Extent) -> io::Result<VerbsRegistration> {
        match *self {}
    }
}

#[cfg(test)]
impl VerbsRegistration {
    pub(crate) fn key(&self) -> Option<u32> {
        match *self {}
    }
}

impl VerbsLink {
    pub(crate) fn connect(_address: SocketAddr, port: &Arc<VerbsPort>) -> io::Result<Self> {
        match **port {}
    }

    pub(crate) fn accepted(_tcp: TcpLink, port: &Arc<VerbsPort>) -> Link {
        match **port {}
    }

    pub(crate) fn set_place(&self, _place: usize) {
        match *self {}
    }

    pub(crate) fn tidy(&self) {
        match *self {}
    }

    pub(crate) fn socket(&self) -> &TcpLink {
        match *self {}
    }

    pub(crate) fn plain(&self) -> Option<&TcpLink> {
        match *self {}
    }

    pub(crate) fn domain(&self) -> Option<VerbsDomain> {
        match *self {}
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match *self {}
    }

    pub(crate) fn watches_room(&self, _waits: bool) -> bool {
        match *self {}
    }

    pub(crate) fn hear(&self) {
        match *self {}
    }

    pub(crate) fn is_readable(&self) -> bool {
        match *self {}
    }

    pub(crate) fn is_writable(&self) -> bool {
        match *self {}
    }

    pub(crate) fn lent_bytes(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn take_fetched(&self) -> bool {
        match *self {}
    }
}

impl Transfer for VerbsLink {
    fn send(&self, _pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match *self {}
    }

    fn receive(&self, _into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match *self {}
    }

    fn finish_connect(&self) -> io::Result<()> {
        match *self {}
    }

    fn finish(&self) {
        match *self {}
    }

    fn shutdown(&self) {
        match *self {}
    }

    fn offer(&self, _body: &Shared) -> Option<Box<dyn Offer>> {
        match *self {}
    }

    fn fetch(&self, _block: Block, _sources: &[Source]) -> Result<Box<dyn Fetch>, Block> {
        match *self {}
    }
}

impl VerbsPort {
    pub(crate) fn open(
        _options: &VerbsOptions,
        _memory: Memory,
        _secret: Option<Secret>,
    ) -> Result<Arc<Self>, VerbsError> {
        Err(VerbsError::NotBuilt)
    }

    pub(crate) fn is_used(&self) -> bool {
        match *self {}
    }

    pub(crate) fn poll_for(&self, _note: impl FnMut(usize)) -> bool {
        match *self {}
    }

    pub(crate) fn take_noted(&self, _note: impl FnMut(usize)) {
        match *self {}
    }

    pub(crate) fn arm(&self) -> bool {
        match *self {}
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match *self {}
    }

    pub(crate) fn event_descriptor(&self) -> BorrowedFd<'_> {
        match *self {}
    }

    pub(crate) fn hear(&self) {
        match *self {}
    }

    pub(crate) fn hear_events(&self) {
        match *self {}
    }

    pub(crate) fn give_back(&self) {
        match *self {}
    }
}

#[cfg(feature = "streams")]
pub(crate) use rings::{INVITATION_BYTES, RingDevice, RingLink};

/// What stands for streams over verbs.
#[cfg(feature = "streams")]
mod rings {
    use std::io::{self, IoSlice};
    use std::os::fd::{AsRawFd, RawFd};
    use std::sync::Arc;

    use super::super::verbs_options::{VerbsError, VerbsOptions};

    /// Nobody is invited.
    pub(crate) const INVITATION_BYTES: usize = 0;

    /// There is no such device.
    #[derive(Debug)]
    pub(crate) enum RingDevice {}

    /// There is no such end.
    #[derive(Debug)]
    pub(crate) enum RingLink {}

    impl RingDevice {
        pub(crate) fn open(_options: &VerbsOptions) -> Result<Arc<Self>, VerbsError> {
            Err(VerbsError::NotBuilt)
        }
    }

    impl RingLink {
        pub(crate) fn new(device: &Arc<RingDevice>) -> io::Result<Self> {
            match **device {}
        }

        pub(crate) fn invited(
            device: &Arc<RingDevice>,
            _invitation: &[u8; INVITATION_BYTES],
        ) -> io::Result<Self> {
            match **device {}
        }

        pub(crate) fn invitation(&self) -> [u8; INVITATION_BYTES] {
            match *self {}
        }

        pub(crate) fn meet(&self, _invitation: &[u8; INVITATION_BYTES]) -> io::Result<()> {
            match *self {}
        }

        pub(crate) fn probe(&self) -> io::Result<()> {
            match *self {}
        }

        pub(crate) fn poll(&self) {
            match *self {}
        }

        pub(crate) fn end(&self) {
            match *self {}
        }

        pub(crate) fn has_ended(&self) -> bool {
            match *self {}
        }

        pub(crate) fn failure(&self) -> Option<io::ErrorKind> {
            match *self {}
        }

        pub(crate) fn is_reached(&self) -> bool {
            match *self {}
        }

        pub(crate) fn is_heard(&self) -> bool {
            match *self {}
        }

        pub(crate) fn ready(&self) -> usize {
            match *self {}
        }

        pub(crate) fn sends(&self) -> u64 {
            match *self {}
        }

        pub(crate) fn take(&self, _into: &mut [u8]) -> usize {
            match *self {}
        }

        pub(crate) fn is_finished(&self, _ended: bool) -> io::Result<bool> {
            match *self {}
        }

        pub(crate) fn has_input(&self) -> bool {
            match *self {}
        }

        pub(crate) fn has_room(&self) -> bool {
            match *self {}
        }

        pub(crate) fn arm(&self) -> io::Result<()> {
            match *self {}
        }

        pub(crate) fn set_writer_waits(&self, _waits: bool) {
            match *self {}
        }

        pub(crate) fn hear(&self) {
            match *self {}
        }

        pub(crate) fn send(&self, _pieces: &[IoSlice<'_>]) -> io::Result<usize> {
            match *self {}
        }

        pub(crate) fn finish(&self) {
            match *self {}
        }

        pub(crate) fn leave(&self) {
            match *self {}
        }

        pub(crate) fn is_settled(&self) -> bool {
            match *self {}
        }
    }

    impl AsRawFd for RingLink {
        fn as_raw_fd(&self) -> RawFd {
            match *self {}
        }
    }
}
