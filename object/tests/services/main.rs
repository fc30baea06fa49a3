//! Services, from the trait to the result, over real links.

#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

mod beside;
mod blocking;
mod calls;
mod dropping;
mod hostile;
mod importing;
mod references;
mod releasing;
mod spelling;
mod transient;
mod versions;
mod world;
