//! What the two ends of a connection or a stream over verbs hold each other to, as far as no device has a part in it.
//!
//! Built with the feature `verbs`, and for tests, which need neither libibverbs nor a device.

pub(super) mod credits;
#[cfg(feature = "streams")]
pub(super) mod flow;
pub(super) mod introduction;
#[cfg(feature = "streams")]
pub(super) mod invitation;
#[cfg(feature = "streams")]
pub(super) mod landed;
pub(super) mod postings;
