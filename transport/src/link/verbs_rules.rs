//! What the two ends of a connection over verbs hold each other to, as far as no device has a part in it.
//!
//! Built with the feature `verbs`, and for tests, which need neither libibverbs nor a device.

pub(super) mod credits;
pub(super) mod introduction;
pub(super) mod postings;
